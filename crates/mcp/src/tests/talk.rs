//! A client in memory, and a road that does what a test says.

use crate::road::{Road, ToolInfo, Unanswered};
use crate::stdio::converse;
use crate::stop::{ServeError, Stop};
use airlock_core::{Caller, Effect, EffectSet, Request, SessionId, Span, Syscall, Tier, Timestamp};
use airlock_kernel::{AnswerFailure, Call, Cancel, Done, Failed, Origin, Outcome, Review};
use airlock_policy::approval::{
    AnswerRules, ApprovalId, ApprovalRequest, Channel, Gate, GateFacts, MayAnswer, may_answer,
};
use airlock_policy::{Contribution, Decision, Imposed, Layer, Opinion, Policy, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Answers calls as scripted, and keeps what was asked.
pub(super) struct Scripted {
    pub(super) opened: BTreeSet<Gate>,
    pub(super) calls: Mutex<Vec<Call>>,
    pub(super) answers: Mutex<Vec<bool>>,
    pub(super) running: AtomicUsize,
    pub(super) most: AtomicUsize,
    pub(super) cancelled: AtomicUsize,
    /// How often a session is yet refused.
    pub(super) refusing: AtomicUsize,
    pub(super) ended: Mutex<Vec<SessionId>>,
}

impl Scripted {
    pub(super) fn new() -> Self {
        Self::opened_to(&[])
    }

    /// Policy opened these gates to clients.
    pub(super) fn opened_to(gates: &[Gate]) -> Self {
        Self {
            opened: gates.iter().copied().collect(),
            calls: Mutex::default(),
            answers: Mutex::default(),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            refusing: AtomicUsize::new(0),
            ended: Mutex::default(),
        }
    }

    fn work(&self, call: &Call, cancel: &Cancel) -> Outcome {
        match call.name.as_str() {
            "test.echo" => done(call.arguments.clone()),
            // As long as it says, or until it is taken back.
            "test.wait" => {
                let wanted = call.arguments.get("ms").and_then(Value::as_u64);
                let until = std::time::Instant::now() + Duration::from_millis(wanted.unwrap_or(0));
                while std::time::Instant::now() < until && !cancel.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(2));
                }
                if cancel.is_cancelled() {
                    self.cancelled.fetch_add(1, Ordering::SeqCst);
                }
                done(json!({ "waited": true }))
            }
            "test.review" => {
                let gate = call.arguments.get("gate").and_then(Value::as_str);
                let approved = self.answers.lock().unwrap().contains(&true);
                if approved {
                    return done(json!({ "approved": true }));
                }
                let gate = Gate::ALL.iter().find(|one| Some(one.as_str()) == gate);
                let rule = call.arguments.get("rule").is_some();
                let layer = if rule { Layer::Rules } else { Layer::Gate };
                Outcome::NeedsReview(Box::new(review(*gate.unwrap(), layer)))
            }
            other => Outcome::Failed(Failed {
                action: action(),
                code: "unknown_tool",
                what: format!(
                    "unknown tool `{}`",
                    airlock_kernel::sanitise_line(other, 60)
                ),
                fix: None,
                retryable: false,
                origin: None,
                flags: Vec::new(),
            }),
        }
    }
}

fn action() -> airlock_core::ActionId {
    airlock_core::ActionId::new("a-1").unwrap()
}

pub(super) fn done(value: Value) -> Outcome {
    Outcome::Done(Done {
        action: action(),
        value,
        hidden: 0,
        cut: false,
        secrets: 0,
        flags: Vec::new(),
        origin: Box::new(Origin::User),
        ran: None,
    })
}

impl Road for Scripted {
    fn begin(&self) -> Result<Option<SessionId>, Unanswered> {
        let refusing = &self.refusing;
        let left = refusing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        match left {
            Ok(_) => Err(Unanswered {
                what: "there are too many".to_owned(),
                fix: "put some away".to_owned(),
            }),
            Err(_) => Ok(SessionId::new("mcp-test").ok()),
        }
    }

    fn end(&self, session: &SessionId) {
        self.ended.lock().unwrap().push(session.clone());
    }

    fn tools(&self) -> Result<Vec<ToolInfo>, Unanswered> {
        let tools = ["test.echo", "test.wait", "test.review"].map(|name| ToolInfo {
            name: name.to_owned(),
            summary: "For a test".to_owned(),
            schema: json!({ "type": "object" }),
            examples: Vec::new(),
            read_only: true,
            effects: EffectSet::of(&[Effect::Read]),
        });
        Ok(tools.into())
    }

    fn call(&self, call: &Call, cancel: &Cancel) -> Result<Outcome, Unanswered> {
        if call.name == "test.lost" {
            return Err(Unanswered {
                what: "the kernel is gone".to_owned(),
                fix: "try again".to_owned(),
            });
        }
        self.calls.lock().unwrap().push(call.clone());
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let outcome = self.work(call, cancel);
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(outcome)
    }

    fn opened_to_client(&self, gate: Gate) -> bool {
        let rules = AnswerRules {
            by_elicitation: self.opened.clone(),
            ..AnswerRules::default()
        };
        may_answer(gate, &Channel::McpElicitation, &rules).is_ok()
    }

    fn answer(&self, review: &mut Review, approved: bool) -> Result<(), AnswerFailure> {
        assert_eq!(review.approval.gate.may_answer(), MayAnswer::PolicyOrPerson);
        self.answers.lock().unwrap().push(approved);
        Ok(())
    }
}

/// A question at `gate`, which `layer` raised.
fn review(gate: Gate, layer: Layer) -> Review {
    let caller = Caller {
        tenant: "local".parse().unwrap(),
        user: "ada".parse().unwrap(),
        workspace: "work".parse().unwrap(),
        session: None,
        plugin: "mcp".parse().unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    };
    let policy = Policy::load("test", b"version: 1\nrules: []\n")
        .unwrap()
        .policy;
    let request = Request::new(Syscall::parse("exec.run").unwrap(), Tier::Process, caller);
    let decision = Decision {
        verdict: Verdict::RequireReview,
        contributions: vec![Contribution {
            layer,
            rule: "ask-first".into(),
            opinion: Opinion::RequireReview,
            reason: "a person should \u{1b}[31mlook".into(),
        }]
        .into(),
        imposed: Imposed::default(),
        generation: policy.generation(),
    };
    let facts = GateFacts {
        host_granted: false,
        sensitive_path: false,
        over_budget: false,
        first_use: true,
    };
    let id = ApprovalId::from(action());
    let lifetime = Span::from_secs(600);
    let now = Timestamp::from_micros(0);
    let mut approval =
        ApprovalRequest::new(id, &request, &facts, &decision, None, None, now, lifetime);
    approval.gate = gate;
    Review {
        action: action(),
        request,
        decision,
        approval,
    }
}

/// A client of a server in memory.
pub(super) struct Client {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    pub(super) stop: Stop,
    pub(super) server: JoinHandle<Result<(), ServeError>>,
    next: i64,
}

impl Client {
    /// A client that can do what `capabilities` say, after the handshake.
    pub(super) async fn greeted(road: Arc<dyn Road>, capabilities: Value) -> Self {
        let mut client = Self::silent(road);
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        let answer = client.ask("initialize", hello).await;
        assert_eq!(
            answer["result"]["protocolVersion"], "2025-11-25",
            "{answer}"
        );
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        client
    }

    pub(super) async fn new(road: Arc<dyn Road>) -> Self {
        Self::greeted(road, json!({})).await
    }

    /// A client that has said nothing yet.
    pub(super) fn silent(road: Arc<dyn Road>) -> Self {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let stop = Stop::new();
        let own = stop.clone();
        let server = tokio::spawn(async move {
            let streams = tokio::io::split(far);
            converse(road, streams, &own).await
        });
        let (input, output) = tokio::io::split(near);
        Self {
            read: BufReader::new(input),
            write: output,
            stop,
            server,
            next: 0,
        }
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(super) async fn send_text(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    /// Sends a request and returns its id.
    pub(super) async fn begin(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request).await;
        id
    }

    pub(super) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(20), self.read.read_line(&mut line));
        assert_ne!(
            read.await.expect("no answer").unwrap(),
            0,
            "the server left"
        );
        serde_json::from_str(&line).expect("a line is a message")
    }

    /// Messages until the answer to `id`, which comes last.
    pub(super) async fn until(&mut self, id: i64) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let message = self.receive().await;
            let found = message["id"] == id && message.get("method").is_none();
            all.push(message);
            if found {
                return all;
            }
        }
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.until(id).await.pop().unwrap()
    }

    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask("tools/call", params).await
    }

    /// Stops reading and writing; the server notices by itself.
    pub(super) fn leave(self) -> JoinHandle<Result<(), ServeError>> {
        self.server
    }
}

/// Waits until `holds`, for a while.
pub(super) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
