//! `model.chat`: leave to put a question to a model. The asking itself is the agent loop's.
//!
//! INVARIANT: the attempt is in the log before anything is connected to, like that of any other
//! connection.

use super::{arguments, spec};
use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{
    InvalidArguments, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSchema, ToolSpec,
};
use airlock_core::{Request, RequestPath};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The most hosts one question may go to: a model, and those that stand in for it.
const MOST_HOSTS: usize = 16;

/// A question that is to be put.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The model, by the name it is configured under.
    model: String,
    /// Where it may be put, the first one first; nowhere for a model that reaches nothing.
    hosts: Vec<String>,
    /// Tokens of the question.
    tokens: u64,
    /// What they cost, in millionths.
    #[serde(default)]
    #[expect(dead_code, reason = "read by the gate of the session's budget")]
    cost_micros: u64,
}

static SPEC: ToolSpec = spec("model.chat", "Ask a model", ToolSchema::of::<Arguments>());

pub(super) struct ModelChat;

impl Tool for ModelChat {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    /// Models are the person's own: their keys, their money, their configuration.
    fn open_to(&self, front: Front) -> bool {
        front == Front::Cli
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: Arguments = arguments(value)?;
        if asked.hosts.len() > MOST_HOSTS {
            return Err(InvalidArguments {
                at: "hosts".to_owned(),
                what: format!("at most {MOST_HOSTS} hosts are wanted"),
                fix: None,
            });
        }
        Ok(Box::new(Leave(asked)))
    }
}

struct Leave(Arguments);

impl Prepared for Leave {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    /// Rules may name the host.
    fn describe(&self, request: &mut Request) {
        let host = self.0.hosts.first().map(|host| without_port(host));
        request.host = host.map(Into::into);
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let Arguments { model, tokens, .. } = self.0;
        Ok(ToolOutput {
            value: json!({ "model": model, "tokens": tokens }),
            hidden: 0,
        })
    }
}

/// `example.org` of `example.org:8080`; an address in brackets keeps its colons.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_see_the_host_without_its_port() {
        for (host, want) in [
            ("example.org", "example.org"),
            ("example.org:8080", "example.org"),
            ("127.0.0.1:11434", "127.0.0.1"),
            ("[::1]:8080", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(without_port(host), want, "{host}");
        }
    }
}
