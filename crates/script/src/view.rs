//! A request as scripts see it: plain data under names that stay.
//!
//! Not the decision input of the audit log: scripts see the arguments, and a missing detail is
//! `null` or empty instead of absent, so that a misspelt property is the only `undefined`.

use airlock_core::{EffectSet, Mode, Phase, Request, RequestPath, TagName, Tier};
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct View<'a> {
    syscall: &'a str,
    effects: EffectSet,
    paths: Vec<&'a str>,
    host: Option<&'a Arc<str>>,
    port: Option<u16>,
    command: &'a [Arc<str>],
    tool: Option<&'a Arc<str>>,
    secret: Option<&'a Arc<str>>,
    tier: Tier,
    template: Option<&'a Arc<str>>,
    file_size: Option<u64>,
    arguments: &'a serde_json::Value,
    caller: CallerView<'a>,
}

#[derive(Serialize)]
struct CallerView<'a> {
    plugin: &'a str,
    user: &'a str,
    tenant: &'a str,
    workspace: &'a str,
    session: Option<String>,
    tags: Vec<&'a str>,
    sandbox: Option<String>,
    mode: Option<Mode>,
    phase: Option<Phase>,
}

/// `request` as JSON.
pub(crate) fn encode(request: &Request) -> Result<Vec<u8>, serde_json::Error> {
    let caller = &request.caller;
    serde_json::to_vec(&View {
        syscall: request.syscall.name(),
        effects: request.effects,
        paths: request.paths.iter().map(RequestPath::as_str).collect(),
        host: request.host.as_ref(),
        port: request.port,
        command: &request.command,
        tool: request.tool.as_ref(),
        secret: request.secret.as_ref(),
        tier: request.tier,
        template: request.template.as_ref(),
        file_size: request.file_size,
        arguments: &request.arguments,
        caller: CallerView {
            plugin: caller.plugin.as_str(),
            user: caller.user.as_str(),
            tenant: caller.tenant.as_str(),
            workspace: caller.workspace.as_str(),
            session: caller.session.as_ref().map(ToString::to_string),
            tags: caller.tags.iter().map(TagName::as_str).collect(),
            sandbox: caller.sandbox.as_ref().map(ToString::to_string),
            mode: caller.mode,
            phase: caller.phase,
        },
    })
}
