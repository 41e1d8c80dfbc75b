//! What a plugin asks for and would not get today.
//!
//! Told to whoever looks at a plugin, so that a denial is no surprise. Nothing is decided by it: the
//! enforcer decides each time, and policy may be another by then.

use super::desk::Desk;
use super::vetted::closed_path;
use crate::fronts::Front;
use airlock_plugin::Manifest;
use airlock_policy::capability::{CapabilitySet, Pattern};
use std::path::Path;

/// One line for each capability and each path that is not granted as things are.
pub(super) fn of(desk: &Desk, home: &Path, manifest: &Manifest) -> Vec<String> {
    let never = CapabilitySet::parse(Front::Plugin.deny());
    let is_never = |capability: &str| {
        let wanted = Pattern::parse(capability);
        match (&never, wanted) {
            (Ok(never), Ok(wanted)) => never.covers(&wanted),
            (Err(_), _) | (_, Err(_)) => true,
        }
    };
    let capability = |capability: &String| {
        if is_never(capability) {
            return Some(format!("no plugin gets `{capability}`, whoever allows it"));
        }
        let gate = desk.closed(capability)?;
        let all = if capability.contains('*') {
            "all of "
        } else {
            ""
        };
        Some(format!("{all}`{capability}` would be denied today: {gate}"))
    };
    let sandbox = &manifest.execution.sandbox;
    let reads = sandbox.read_allow.iter();
    let reads = reads.map(|path| ("filesystem.read", path));
    let writes = sandbox.write_allow.iter();
    let writes = writes.map(|path| ("filesystem.write", path));
    let path = |(right, path): (&str, &String)| {
        let gate = closed_path(desk, home, right, path)?;
        Some(format!(
            "it would not start today: `{right}` of `{path}` is not granted: {gate}"
        ))
    };
    let capabilities = manifest.capabilities.iter().filter_map(capability);
    capabilities
        .chain(reads.chain(writes).filter_map(path))
        .collect()
}
