//! What a plugin asks for and would not get today, and what of its settings cannot be kept secret.
//!
//! Told to whoever looks at a plugin, so that a denial is no surprise. Nothing is decided by it: the
//! enforcer decides each time, and policy may be another by then.

use super::desk::Desk;
use super::paths::{Paths, refusal};
use crate::fronts::{Front, Local, Whence};
use airlock_core::{
    Caller, CapabilityForm, PluginName, Request, RequestPath, Syscall, TagName, Tier,
};
use airlock_plugin::{Grants, Listed, Place};
use airlock_policy::CapabilityGate;
use airlock_policy::capability::{CapabilitySet, Pattern};
use std::collections::BTreeMap;
use std::path::Path;

/// Stands for whatever a pattern leaves open.
pub(super) const ANY: &str = "anything";

/// One line for each capability and each path that is not granted as things are, for each rule that
/// says no to what a granted one is for, and for each secret setting that is not taken out of results.
pub(super) fn of(desk: &Desk, home: &Path, listed: &Listed) -> Vec<String> {
    let manifest = &listed.manifest;
    let never = CapabilitySet::parse(Front::Plugin.deny());
    let is_never = |capability: &str| {
        let wanted = Pattern::parse(capability);
        match (&never, wanted) {
            (Ok(never), Ok(wanted)) => never.covers(&wanted),
            (Err(_), _) | (_, Err(_)) => true,
        }
    };
    let caller = caller(desk, &manifest.name, &listed.given);
    let capability = |capability: &String| {
        if is_never(capability) {
            return vec![format!("no plugin gets `{capability}`, whoever allows it")];
        }
        let Some(gate) = desk.closed(capability) else {
            let caller = caller.as_ref();
            return caller.map_or_else(Vec::new, |caller| against(desk, caller, capability));
        };
        let all = if capability.contains('*') {
            "all of "
        } else {
            ""
        };
        vec![format!("{all}`{capability}` would be denied today: {gate}")]
    };
    let grants = Grants::find(&manifest.execution.sandbox, Some(home)).unwrap_or_default();
    let paths = Paths::new(desk, manifest, listed.origin, &grants);
    let path = |(right, place, gate): (&'static str, &Place, Option<CapabilityGate>)| {
        let refusal = refusal(right, place, gate?);
        Some(format!("it would not start today: {refusal}"))
    };
    let capabilities = manifest.capabilities.iter().flat_map(capability);
    capabilities
        .chain(paths.judged().filter_map(path))
        .chain(desk.not_held(manifest, listed.origin))
        .collect()
}

/// The plugin as it would ask.
pub(super) fn caller(desk: &Desk, name: &PluginName, given: &[TagName]) -> Option<Caller> {
    let local = Local::detect().ok()?;
    let mut tags = desk.tags_by_policy(name, local.user());
    tags.extend(given.iter().cloned());
    let whence = Whence {
        plugin: Some(name.clone()),
        ..Whence::default()
    };
    let caller = local.caller(Front::Plugin, &whence, desk.workspace(), None, tags);
    caller.ok()
}

/// The rules that say no to what `capability` is for, each with the syscalls it denies. Of a pattern
/// one thing is asked that it covers and that no rule is likely to single out.
fn against(desk: &Desk, caller: &Caller, capability: &str) -> Vec<String> {
    let Ok(pattern) = Pattern::parse(capability) else {
        return Vec::new();
    };
    let mut denied: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for syscall in Syscall::all() {
        let asked = request(desk.root(), caller, &pattern, syscall);
        if let Some(no) = asked.and_then(|request| desk.objection(&request)) {
            let rule = (no.rule.to_string(), no.reason.to_string());
            denied.entry(rule).or_default().push(syscall.spec().name);
        }
    }
    let line = |((rule, reason), syscalls): ((String, String), Vec<&str>)| {
        let syscalls = syscalls.join("`, `");
        format!("`{syscalls}` by `{capability}` would be denied today: rule `{rule}`: {reason}")
    };
    denied.into_iter().map(line).collect()
}

/// A request for `syscall` that needs what `pattern` covers, if there is one.
fn request(root: &str, caller: &Caller, pattern: &Pattern, syscall: Syscall) -> Option<Request> {
    let mut request = Request::new(syscall, Tier::Process, caller.clone());
    let detail = |name: &str| {
        let rest = pattern.as_str().strip_prefix(name)?.strip_prefix('.')?;
        Some(rest.replace("**", ANY).replace('*', ANY))
    };
    match syscall.spec().capability {
        CapabilityForm::Fixed(_) => {}
        CapabilityForm::Path(name) => {
            let named = detail(name).filter(|path| path.starts_with('/'));
            let path = named.unwrap_or_else(|| format!("{root}/{ANY}"));
            request.paths = vec![RequestPath::parse(&path, root).ok()?];
        }
        CapabilityForm::Host(name) => {
            request.host = Some(detail(name).unwrap_or_else(|| ANY.to_owned()).into());
        }
        CapabilityForm::Secret(name) => {
            request.secret = Some(detail(name).unwrap_or_else(|| ANY.to_owned()).into());
        }
        CapabilityForm::Tool(name) => {
            let named = detail(name).filter(|tool| tool.contains('.'));
            request.tool = Some(named.unwrap_or_else(|| format!("{ANY}.{ANY}")).into());
        }
    }
    let needs = request.needs(root);
    let covered = !needs.is_empty() && needs.iter().all(|need| pattern.matches(need));
    covered.then_some(request)
}
