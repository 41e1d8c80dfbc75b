//! Turns an example of the policy file into the request it stands for.

use crate::document::ExampleFields;
use airlock_core::{
    Caller, PluginName, Request, RequestPath, Syscall, TagName, TenantId, Tier, UserId, WorkspaceId,
};
use std::sync::Arc;

/// An example's paths are relative to this; a name no real path begins with.
const ROOT: &str = "/.example-workspace";

/// Why an example is not a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExampleError {
    #[error(transparent)]
    Syscall(#[from] airlock_core::UnknownSyscall),
    #[error(transparent)]
    Path(#[from] airlock_core::PathError),
    #[error(transparent)]
    Name(#[from] airlock_core::IdError),
}

/// The request an example describes. What it leaves out: user and workspace `local`, plugin
/// `cli`, tier `process`, the syscall's own effects, no session.
pub(crate) fn request(fields: &ExampleFields) -> Result<Request, ExampleError> {
    let syscall = Syscall::parse(&fields.syscall)?;
    let text = |text: &Option<Arc<str>>, default: &'static str| -> Arc<str> {
        text.clone().unwrap_or_else(|| default.into())
    };
    let caller = Caller {
        tenant: TenantId::new("local")?,
        user: UserId::new(&text(&fields.user, "local"))?,
        workspace: WorkspaceId::new(&text(&fields.workspace, "local"))?,
        session: None,
        plugin: PluginName::new(&text(&fields.plugin, "cli"))?,
        tags: fields
            .caller_tag
            .iter()
            .map(|tag| TagName::new(tag))
            .collect::<Result<_, _>>()?,
        peer: None,
        sandbox: None,
        mode: fields.mode,
        phase: fields.state,
    };
    let mut request = Request::new(syscall, fields.tier.unwrap_or(Tier::Process), caller);
    if let Some(effects) = fields.effect {
        request.effects = effects;
    }
    request.paths = fields
        .path
        .iter()
        .map(|path| RequestPath::parse(path, ROOT))
        .collect::<Result<_, _>>()?;
    request.host = fields.host.clone();
    request.port = fields.port;
    request.command = fields.command.clone();
    request.tool = fields.tool.clone();
    request.template = fields.template.clone();
    request.file_size = fields.file_size;
    request.arguments = fields.arg.clone();
    Ok(request)
}
