//! Requests as an author writes them: examples of rules, and table tests.

use super::Place;
use crate::load::{
    any_line, bytes, command_word, effects, fields, host, json, one_or_many, plugin, port,
    request_path, schema, some, syscall, tag, template, tool, user, word, workspace,
};
use airlock_core::{
    Caller, Effect, EffectSet, Mode, Phase, PluginName, Request, RequestPath, Syscall, TagName,
    TenantId, Tier, UserId, WorkspaceId,
};
use std::sync::Arc;

/// A request the author gave as an example, with what the rule should do with it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Example {
    /// Where it stands.
    pub place: Place,
    /// Whether the rule should match it.
    pub should_match: bool,
    /// The request, in the same words as `match`, with single values (`path` for a path).
    pub fields: ExampleFields,
}

fields! {
    /// A request, in the words of `match`, with `path` for the paths it touches.
    #[schemars(rename = "Request")]
    pub struct ExampleFields in "a request" requires ["syscall"] {
        /// Syscall.
        #[schemars(with = "schema::SyscallName")]
        syscall: Arc<str> = Arc::from("") => syscall;
        /// Paths, relative to the workspace root or absolute.
        #[schemars(with = "schema::OneOrMany<String>")]
        path: Vec<Arc<str>> = Vec::new() => one_or_many(request_path);
        /// Effects beyond the syscall's own.
        #[schemars(with = "Option<schema::OneOrMany<schema::OneOf<Effect>>>")]
        effect: Option<EffectSet> = None => some(effects);
        /// Tags of the caller.
        #[schemars(with = "schema::OneOrMany<schema::TagName>")]
        caller_tag: Vec<Arc<str>> = Vec::new() => one_or_many(tag);
        /// Plugin; `cli` if not given.
        plugin: Option<Arc<str>> = None => some(plugin);
        /// Tool.
        tool: Option<Arc<str>> = None => some(tool);
        /// Mode of the session.
        #[schemars(with = "Option<schema::OneOf<Mode>>")]
        mode: Option<Mode> = None => some(word::<Mode>);
        /// Phase of the session.
        #[schemars(with = "Option<schema::OneOf<Phase>>")]
        state: Option<Phase> = None => some(word::<Phase>);
        /// Tier; `kernel` for reads and control, `process` for the rest, if not given.
        #[schemars(with = "Option<schema::OneOf<Tier>>")]
        tier: Option<Tier> = None => some(word::<Tier>);
        /// Sandbox template.
        #[schemars(with = "Option<schema::OneOf<super::Template>>")]
        template: Option<Arc<str>> = None => some(template);
        /// Host.
        host: Option<Arc<str>> = None => some(host);
        /// Port.
        #[schemars(with = "Option<schema::Port>")]
        port: Option<u16> = None => some(port);
        /// Command words.
        #[schemars(with = "schema::OneOrMany<String>")]
        command: Vec<Arc<str>> = Vec::new() => one_or_many(command_word);
        /// Secret, by name.
        secret: Option<Arc<str>> = None => some(any_line);
        /// User; `owner` if not given.
        user: Option<Arc<str>> = None => some(user);
        /// Workspace; `example` if not given.
        workspace: Option<Arc<str>> = None => some(workspace);
        /// Arguments.
        #[schemars(with = "schema::AnyValue")]
        arg: serde_json::Value = serde_json::Value::Null => json;
        /// Size of the largest file written; 0 if not given.
        #[schemars(with = "Option<schema::Size>")]
        file_size: Option<u64> = None => some(bytes);
    }
}

/// Where the workspace of an example lies.
const ROOT: &str = "/workspace";

impl ExampleFields {
    /// The request these fields describe, by a neutral local caller where they do not say.
    pub fn request(&self) -> Result<Request, String> {
        self.request_in(ROOT)
    }

    /// The same, with paths read from a workspace whose absolute root is `root`.
    pub fn request_in(&self, root: &str) -> Result<Request, String> {
        let syscall = Syscall::parse(&self.syscall).map_err(text)?;
        let effects = syscall
            .spec()
            .effects
            .union(self.effect.unwrap_or_default());
        let quiet = effects.is_subset(EffectSet::of(&[Effect::Read, Effect::Control]));
        let usual = if quiet { Tier::Kernel } else { Tier::Process };
        let mut request = Request::new(syscall, self.tier.unwrap_or(usual), self.caller()?);
        request.effects = effects;
        request.paths = self
            .path
            .iter()
            .map(|path| RequestPath::parse(path, root).map_err(text))
            .collect::<Result<_, _>>()?;
        request.host.clone_from(&self.host);
        request.port = self.port;
        request.command.clone_from(&self.command);
        request.tool.clone_from(&self.tool);
        request.secret.clone_from(&self.secret);
        request.template.clone_from(&self.template);
        let writes = effects.contains(Effect::Write);
        request.file_size = self.file_size.or(writes.then_some(0));
        request.arguments = self.arg.clone();
        Ok(request)
    }

    fn caller(&self) -> Result<Caller, String> {
        let or = |given: &Option<Arc<str>>, usual: &str| {
            given.clone().unwrap_or_else(|| Arc::from(usual))
        };
        Ok(Caller {
            tenant: TenantId::new("local").map_err(text)?,
            user: UserId::new(&or(&self.user, "owner")).map_err(text)?,
            workspace: WorkspaceId::new(&or(&self.workspace, "example")).map_err(text)?,
            session: None,
            plugin: PluginName::new(&or(&self.plugin, "cli")).map_err(text)?,
            tags: self
                .caller_tag
                .iter()
                .map(|tag| TagName::new(tag).map_err(text))
                .collect::<Result<_, _>>()?,
            peer: None,
            sandbox: None,
            mode: self.mode,
            phase: self.state,
        })
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
