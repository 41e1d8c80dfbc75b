//! Calls of adapters that are well formed.

use super::names::lasting;
use super::speaker::Speaker;
use super::tool::NOT_STARTED;
use crate::process::Job;
use crate::tools::{Prepared, RunContext, ToolFailure, ToolOutput};
use airlock_core::RequestPath;
use airlock_definitions::{Adapter, Status};
use airlock_plugin_mcp as mcp;
use serde_json::{Value, json};
use std::sync::Arc;

/// A program: the job of `exec.run`, under the tool's own name, its result put into shape.
pub(super) struct Program {
    tool: &'static str,
    adapter: Arc<Adapter>,
    inner: Box<dyn Prepared>,
    /// What is asked of it, if it is a server.
    asked: Option<mcp::Asked>,
}

impl Program {
    pub(super) fn new(
        tool: &'static str,
        adapter: &Arc<Adapter>,
        inner: Box<dyn Prepared>,
        asked: Option<mcp::Asked>,
    ) -> Self {
        Self {
            tool,
            adapter: Arc::clone(adapter),
            inner,
            asked,
        }
    }

    fn failure(&self, code: &str, what: impl Into<String>) -> ToolFailure {
        let _ = self;
        ToolFailure::Adapter {
            code: lasting(code),
            what: what.into(),
        }
    }

    /// What the program meant by how it ended and what it wrote.
    fn meant(&self, ended: &Value) -> Result<Value, ToolFailure> {
        let word = |name: &str| ended.get(name).and_then(Value::as_str).unwrap_or_default();
        let outcome = word("outcome");
        let exit = ended.get("exit").and_then(Value::as_u64);
        let exit = exit
            .and_then(|exit| u8::try_from(exit).ok())
            .unwrap_or(u8::MAX);
        if outcome != "exited" {
            let code = if outcome.is_empty() {
                "signalled"
            } else {
                outcome
            };
            return Err(self.failure(code, format!("{} ended: {code}", self.adapter.header.name)));
        }
        if let Some((code, summary)) = self.adapter.ended(exit) {
            return Err(self.failure(&code, format!("{summary} (exit code {exit})")));
        }
        let shaped = self.adapter.output.shape(word("stdout"), word("stderr"));
        shaped.map_err(|error| self.failure("output_invalid", error.to_string()))
    }

    fn program(&self) -> String {
        match &self.adapter.how {
            airlock_definitions::How::Cli(cli) => cli.program().to_owned(),
            airlock_definitions::How::Mcp(mcp) => mcp.command.first().cloned().unwrap_or_default(),
            airlock_definitions::How::Api(api) => api.host.clone(),
        }
    }
}

impl Prepared for Program {
    fn paths(&self) -> &[RequestPath] {
        self.inner.paths()
    }

    fn describe(&self, request: &mut airlock_core::Request) {
        self.inner.describe(request);
        // Whichever adapter of a chain it is, rules know the tool.
        request.tool = Some(self.tool.into());
    }

    fn job(&self) -> Option<&Job> {
        self.inner.job()
    }

    fn speaker(&self) -> Option<Speaker> {
        self.asked.clone().map(Speaker::new)
    }

    fn shape(&self, mut ended: Value) -> Result<Value, ToolFailure> {
        if ended.get("outcome").and_then(Value::as_str) == Some(NOT_STARTED) {
            let what = format!("`{}` could not be started", self.program());
            return Err(self.failure(NOT_STARTED, what));
        }
        let value = match ended.get_mut("answer").map(Value::take) {
            None => self.meant(&ended)?,
            Some(answer) => {
                let answer = mcp::meaning(&answer, &ended)
                    .map_err(|(code, what)| self.failure(code, what))?;
                let shaped = self.adapter.output.finish(answer);
                shaped.map_err(|error| self.failure("output_invalid", error.to_string()))?
            }
        };
        if let Some(fields) = ended.as_object_mut() {
            for name in ["stdout", "stderr", "answer", "outcome", "limit"] {
                fields.remove(name);
            }
            fields.insert("adapter".to_owned(), json!(self.adapter.header.id));
            fields.insert("value".to_owned(), value);
        }
        warn(&self.adapter, &mut ended);
        Ok(ended)
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        self.inner.run(context)
    }
}

/// Says in a result that the adapter that gave it is on its way out.
pub(super) fn warn(adapter: &Adapter, result: &mut Value) {
    if let Some(fields) = result
        .as_object_mut()
        .filter(|_| adapter.summary.status == Status::Deprecated)
    {
        let warning = format!("the adapter `{}` is deprecated", adapter.header.id);
        fields.insert("warning".to_owned(), json!(warning));
    }
}

/// An adapter that may not be used as things are: decided like any other, and then refused.
pub(super) struct Unready {
    pub(super) inner: Box<dyn Prepared>,
    pub(super) tool: &'static str,
    pub(super) why: String,
    pub(super) fix: &'static str,
}

impl Prepared for Unready {
    fn paths(&self) -> &[RequestPath] {
        self.inner.paths()
    }

    fn describe(&self, request: &mut airlock_core::Request) {
        self.inner.describe(request);
    }

    fn is_hosted(&self) -> bool {
        self.inner.is_hosted()
    }

    fn ready(&self) -> Result<(), ToolFailure> {
        Err(ToolFailure::Unavailable {
            tool: self.tool.to_owned(),
            why: self.why.clone(),
            fix: self.fix,
        })
    }

    fn run(self: Box<Self>, _: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        self.ready()?;
        Err(ToolFailure::Cancelled)
    }
}
