//! The concrete action an answer is about, and the digests it is bound to.

use crate::decision::Generation;
use airlock_core::{
    Caller, Digest, EffectSet, PluginName, Request, RequestPath, SessionId, Syscall, TenantId,
    Tier, UserId, WorkspaceId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A change as a person is shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// Digest of the whole diff.
    pub digest: Digest,
    /// What is shown of it.
    pub summary: Arc<str>,
}

/// For whom the action would be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// Tenant.
    pub tenant: TenantId,
    /// Person or service account.
    pub user: UserId,
    /// Workspace.
    pub workspace: WorkspaceId,
    /// Session.
    pub session: Option<SessionId>,
    /// The plugin that asked.
    pub plugin: PluginName,
}

impl Asker {
    /// The lasting part of `caller`: a restarted process is still the same asker.
    pub fn of(caller: &Caller) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            user: caller.user.clone(),
            workspace: caller.workspace.clone(),
            session: caller.session.clone(),
            plugin: caller.plugin.clone(),
        }
    }

    /// Whether `caller` is this asker.
    pub(super) fn is(&self, caller: &Caller) -> bool {
        self.tenant == caller.tenant
            && self.user == caller.user
            && self.workspace == caller.workspace
            && self.session == caller.session
            && self.plugin == caller.plugin
    }
}

/// What would be done, as shown to whoever answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The syscall.
    pub syscall: Syscall,
    /// What it does.
    pub effects: EffectSet,
    /// Where it would run.
    pub tier: Tier,
    /// The sandbox template it would run under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Arc<str>>,
    /// For whom.
    pub asker: Asker,
    /// The argument vector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<Arc<str>>,
    /// Every path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RequestPath>,
    /// The change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    /// The secret, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Arc<str>>,
}

impl Action {
    /// The action `request` asks for.
    pub fn of(request: &Request, diff: Option<Diff>) -> Self {
        Self {
            syscall: request.syscall,
            effects: request.effects,
            tier: request.tier,
            template: request.template.clone(),
            asker: Asker::of(&request.caller),
            command: request.command.clone(),
            paths: request.paths.clone(),
            diff,
            host: request.host.clone(),
            port: request.port,
            tool: request.tool.clone(),
            secret: request.secret.clone(),
        }
    }
}

/// What an answer is bound to: when one of these changes, the question is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Binding {
    /// The action, arguments and diff included.
    pub action: Digest,
    /// The policy.
    pub generation: Generation,
    /// The stage it would run on.
    pub stage: Option<Digest>,
}

impl Binding {
    /// The binding of `request` as it stands.
    pub fn of(
        request: &Request,
        diff: Option<&Digest>,
        generation: Generation,
        stage: Option<Digest>,
    ) -> Self {
        Self {
            action: action_digest(request, diff),
            generation,
            stage,
        }
    }
}

/// Covers everything that makes the action what it is. Process, tags and phase are left out: the
/// decision, taken anew, judges those.
fn action_digest(request: &Request, diff: Option<&Digest>) -> Digest {
    let whole = serde_json::json!({
        "asker": Asker::of(&request.caller),
        "syscall": request.syscall,
        "effects": request.effects,
        "paths": request.paths,
        "host": request.host,
        "port": request.port,
        "command": request.command,
        "tool": request.tool,
        "secret": request.secret,
        "tier": request.tier,
        "template": request.template,
        "file_size": request.file_size,
        "arguments": request.arguments,
        "diff": diff,
    });
    let mut text = String::new();
    canonical(&whole, &mut text);
    Digest::of(text.as_bytes())
}

/// JSON with sorted keys: equal values give equal text, whatever order they were built in.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (name, value) in fields {
                // Through `Value`, so that a name is escaped like any other string.
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}
