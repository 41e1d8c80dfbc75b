//! A plugin's tool on the road.

use super::Plugins;
use super::desk::OnBehalf;
use super::line::Serving;
use super::names::spec;
use crate::beneath::Root;
use crate::fronts::Front;
use crate::tools::{
    InvalidArguments, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSpec,
};
use airlock_core::{ActionId, ByteSize, EffectSet, PluginName, Request, RequestPath, Span, Tier};
use airlock_plugin::{
    Decided, Listed, ManageError, Sink, ToolCall, ToolDescription, check_arguments,
};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a call may take where policy says nothing.
const DEADLINE: Duration = Duration::from_mins(2);

/// A tool of a plugin, as it was approved.
pub(super) struct PluginTool {
    plugins: Arc<Plugins>,
    plugin: PluginName,
    tool: Arc<ToolDescription>,
    /// What its manifest says that it does.
    effects: EffectSet,
    /// The most memory it takes.
    memory: ByteSize,
    spec: &'static ToolSpec,
}

impl PluginTool {
    pub(super) fn new(plugins: &Arc<Plugins>, listed: &Listed, tool: Arc<ToolDescription>) -> Self {
        let plugin = listed.manifest.name.clone();
        let name = format!("{plugin}.{}", tool.name);
        Self {
            spec: spec(&name, &tool.summary, listed.manifest.execution.tier),
            plugins: Arc::clone(plugins),
            memory: listed.manifest.memory(),
            effects: listed
                .manifest
                .effects
                .get(&tool.name)
                .copied()
                .unwrap_or_default(),
            plugin,
            tool,
        }
    }
}

impl Tool for PluginTool {
    fn spec(&self) -> &'static ToolSpec {
        self.spec
    }

    fn open_to(&self, front: Front) -> bool {
        match front {
            Front::Cli | Front::Agent | Front::Mcp | Front::Server => true,
            // Plugins do not talk to each other: data flows through whoever calls them.
            Front::Plugin => false,
        }
    }

    fn schema(&self) -> Cow<'_, Value> {
        Cow::Borrowed(&self.tool.schema)
    }

    fn prepare(&self, given: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        check_arguments(&self.tool.schema, given).map_err(|misfit| InvalidArguments {
            at: misfit.at,
            what: misfit.what,
            fix: None,
        })?;
        Ok(Box::new(PluginCall {
            plugins: Arc::clone(&self.plugins),
            plugin: self.plugin.clone(),
            tool: Arc::clone(&self.tool),
            effects: self.effects,
            memory: self.memory,
            tier: self.spec.tier,
            arguments: given.clone(),
            asked: OnceLock::new(),
            begun: OnceLock::new(),
        }))
    }
}

/// A call of it that is well formed.
struct PluginCall {
    plugins: Arc<Plugins>,
    plugin: PluginName,
    /// As it was described to whoever called it, and its arguments were checked by.
    tool: Arc<ToolDescription>,
    effects: EffectSet,
    memory: ByteSize,
    tier: Tier,
    arguments: Value,
    /// Who asked, and the mode of their session.
    asked: OnceLock<(OnBehalf, Option<String>)>,
    begun: OnceLock<(ActionId, Option<Span>)>,
}

impl Prepared for PluginCall {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn describe(&self, request: &mut Request) {
        // A tool runs code whatever it says; what it says can only add to that.
        request.effects = request.effects.union(self.effects);
        let caller = &request.caller;
        let mode = caller.mode.map(|mode| mode.to_string());
        let of = OnBehalf {
            user: caller.user.clone(),
            session: caller.session.clone(),
        };
        let _once = self.asked.set((of, mode));
    }

    fn is_hosted(&self) -> bool {
        true
    }

    fn memory(&self) -> ByteSize {
        self.memory
    }

    fn begun(&self, action: &ActionId, limit: Option<Span>) {
        let _once = self.begun.set((action.clone(), limit));
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let (Some((of, mode)), Some((action, limit))) = (self.asked.get(), self.begun.get()) else {
            return Err(ToolFailure::Cancelled);
        };
        let limit = limit.map(|limit| Duration::from_millis(limit.as_millis()));
        let max_output = usize::try_from(context.max_output).unwrap_or(usize::MAX);
        let call = ToolCall {
            action: action.to_string(),
            tool: self.tool.name.clone(),
            arguments: self.arguments.clone(),
            session: of.session.as_ref().map(ToString::to_string),
            mode: mode.clone(),
            deadline: limit.unwrap_or(DEADLINE),
            max_output,
        };
        let desk = self.plugins.desk();
        let _serving = Serving::begin(desk, &self.plugin, action, of);
        let mut pieces = Pieces {
            text: String::new(),
            most: max_output,
        };
        let value = self.call(&call, &mut pieces, context);
        // Why it failed is in the plugin's own words.
        let value = value.map_err(|mut failure| {
            if let ToolFailure::Stored { what, .. } = &mut failure {
                *what = desk.held().cleaned(what);
            }
            failure
        })?;
        let value = if pieces.text.is_empty() {
            json!({ "value": value })
        } else {
            json!({ "value": value, "output": pieces.text })
        };
        Ok(ToolOutput { value, hidden: 0 })
    }
}

impl PluginCall {
    fn call(
        &self,
        call: &ToolCall,
        sink: &mut Pieces,
        context: &RunContext<'_>,
    ) -> Result<Value, ToolFailure> {
        let name = self.plugin.as_str();
        let manager = self.plugins.manager().map_err(|error| failure(&error))?;
        let (begun, cancelled) = (Instant::now(), context.cancelled);
        let decided = Decided {
            described: &self.tool,
            effects: self.effects,
            memory: self.memory,
            tier: self.tier,
        };
        let mut called = manager.call_as(name, decided, call, sink, cancelled);
        // It is started when it is first called: within a call that was decided and recorded.
        if matches!(called, Err(ManageError::NotRunning(_))) {
            let started = manager.start_for(name, call.deadline, cancelled);
            started.map_err(|error| failure(&error))?;
            self.still_offered(call)?;
            let rest = ToolCall {
                deadline: call.deadline.saturating_sub(begun.elapsed()),
                ..call.clone()
            };
            called = manager.call_as(name, decided, &rest, sink, cancelled);
        }
        called.map_err(|error| failure(&error))
    }

    /// Only now is it known what it says today.
    fn still_offered(&self, call: &ToolCall) -> Result<(), ToolFailure> {
        let manager = self.plugins.manager().map_err(|error| failure(&error))?;
        let listed = manager.get(self.plugin.as_str());
        let listed = listed.map_err(|error| failure(&error))?;
        let offered = self
            .plugins
            .desk()
            .table()
            .offered(&self.plugins.key(&listed));
        if offered.iter().any(|tool| tool.name == call.tool) {
            return Ok(());
        }
        Err(ToolFailure::Unavailable {
            tool: format!("{}.{}", self.plugin, call.tool),
            why: "its description is not the one that was approved".to_owned(),
            fix: "look at it with `airlock plugin show`, and approve it by `airlock plugin enable`",
        })
    }
}

/// What a tool said while it ran.
struct Pieces {
    text: String,
    most: usize,
}

impl Sink for Pieces {
    fn piece(&mut self, text: &str) -> bool {
        if self.text.len() + text.len() > self.most {
            return false;
        }
        self.text.push_str(text);
        true
    }
}

/// A failure of the manager, as the tool's.
pub(super) fn failure(error: &ManageError) -> ToolFailure {
    let mut what = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !what.contains(&text) {
            what = format!("{what}: {text}");
        }
        source = cause.source();
    }
    ToolFailure::Stored {
        code: error.code(),
        what,
        fix: error.hint(),
        retryable: matches!(error, ManageError::Restarting { .. }),
    }
}
