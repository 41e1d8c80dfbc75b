//! The server with stand-in tools behind it, for the public conformance suite.
//!
//! The suite calls tools by names of its own, which no real workspace has. They are answered here by
//! a road that does what the suite describes; everything in front of it is the server itself. Prints
//! one JSON object, `url` and `token_file`, and serves until it is killed.
//!
//! Usage: conformance TOKEN-FILE

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for a test, which fails by panicking"
)]

use airlock_core::{
    ActionId, Caller, Effect, EffectSet, Request, SessionId, Span, Syscall, Tier, Timestamp,
};
use airlock_kernel::{AnswerFailure, Call, Cancel, Done, Failed, Origin, Outcome, Review};
use airlock_mcp::{Bound, Road, Stop, Token, ToolInfo, Unanswered};
use airlock_policy::approval::{ApprovalId, ApprovalRequest, Gate, GateFacts};
use airlock_policy::{Decision, Imposed, Policy, Verdict};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn main() {
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let file = file.expect("usage: conformance TOKEN-FILE");
    let token = Token::load_or_make(&file).expect("a token");
    let address = "127.0.0.1:0".parse().expect("an address");
    let bound = Bound::bind(address).expect("a free port");
    let url = format!("http://{}/mcp", bound.address());
    println!("{}", json!({ "url": url, "token_file": file }));
    bound
        .serve(Arc::new(StandIn), token, &Stop::new())
        .expect("a server");
}

struct StandIn;

impl Road for StandIn {
    fn begin(&self) -> Result<Option<SessionId>, Unanswered> {
        Ok("conformance".parse().ok())
    }

    fn end(&self, _: &SessionId) {}

    fn tools(&self) -> Result<Vec<ToolInfo>, Unanswered> {
        let none = json!({ "type": "object", "properties": {} });
        let tool = |name: &str, schema: &Value| ToolInfo {
            name: name.to_owned(),
            summary: "A stand-in for the conformance suite".to_owned(),
            schema: schema.clone(),
            examples: Vec::new(),
            read_only: true,
            effects: EffectSet::of(&[Effect::Read]),
        };
        let message =
            json!({ "type": "object", "properties": { "message": { "type": "string" } } });
        Ok(vec![
            tool("test_simple_text", &none),
            tool("test_error_handling", &none),
            tool("test_tool_with_progress", &none),
            tool("test_elicitation", &message),
            tool("json_schema_2020_12_tool", &schema()),
        ])
    }

    fn call(&self, call: &Call, cancel: &Cancel) -> Result<Outcome, Unanswered> {
        Ok(match call.name.as_str() {
            "test_simple_text" => done("This is a simple text response for testing."),
            "test_error_handling" => failed(
                "test_error",
                "This tool intentionally returns an error for testing",
            ),
            "test_tool_with_progress" => {
                // Long enough for three of the server's notifications.
                for _ in 0..35 {
                    if cancel.is_cancelled() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                done("It took its time.")
            }
            "test_elicitation" => Outcome::NeedsReview(Box::new(review())),
            other => failed("unknown_tool", &format!("unknown tool `{other}`")),
        })
    }

    fn opened_to_client(&self, gate: Gate) -> bool {
        gate == Gate::FirstUse
    }

    fn answer(&self, _: &mut Review, _: bool) -> Result<(), AnswerFailure> {
        Ok(())
    }
}

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
        },
        "additionalProperties": false,
    })
}

fn action() -> ActionId {
    ActionId::new("conformance").expect("an action id")
}

fn done(text: &str) -> Outcome {
    Outcome::Done(Done {
        action: action(),
        value: json!({ "text": text }),
        hidden: 0,
        cut: false,
        secrets: 0,
        flags: Vec::new(),
        origin: Box::new(Origin::User),
        ran: None,
    })
}

fn failed(code: &'static str, what: &str) -> Outcome {
    Outcome::Failed(Failed {
        action: action(),
        code,
        what: what.to_owned(),
        fix: None,
        retryable: false,
        origin: None,
        flags: Vec::new(),
    })
}

/// The first use of a tool, which waits for a person.
fn review() -> Review {
    let caller = Caller {
        tenant: "local".parse().expect("a tenant"),
        user: "somebody".parse().expect("a user"),
        workspace: "conformance".parse().expect("a workspace"),
        session: None,
        plugin: "mcp".parse().expect("a plugin"),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    };
    let policy = Policy::load("none", b"version: 1\nrules: []\n").expect("a policy");
    let syscall = Syscall::parse("fs.read").expect("a syscall");
    let request = Request::new(syscall, Tier::Kernel, caller);
    let decision = Decision {
        verdict: Verdict::RequireReview,
        contributions: Vec::new().into(),
        imposed: Imposed::default(),
        generation: policy.policy.generation(),
    };
    let facts = GateFacts {
        host_granted: false,
        sensitive_path: false,
        over_budget: false,
        first_use: true,
    };
    let (now, lifetime) = (Timestamp::from_micros(0), Span::from_secs(600));
    let id = ApprovalId::from(action());
    Review {
        action: action(),
        approval: ApprovalRequest::new(id, &request, &facts, &decision, None, None, now, lifetime),
        request,
        decision,
    }
}
