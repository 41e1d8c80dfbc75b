//! Names of plugins' tools: none is one of Airlock's own, and each lives as long as the process.
//!
//! Each distinct one is kept once. How many there are is bounded by what people approve: a tool is
//! described here only once somebody approved it.

use crate::fronts::Front;
use crate::tools::{Keep, ToolSchema, ToolSpec};
use airlock_core::Tier;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
static SPECS: Mutex<BTreeMap<(&'static str, &'static str, Tier), &'static ToolSpec>> =
    Mutex::new(BTreeMap::new());

/// Longest description that is shown; the whole of it is what was approved.
const SUMMARY_CHARACTERS: usize = 1_000;

/// Whether `plugin` is a name that Airlock has, or may have, for something of its own.
pub(super) fn is_reserved(plugin: &str) -> bool {
    let areas = airlock_core::SYSCALLS.iter();
    let mut areas = areas.filter_map(|spec| spec.name.split('.').next());
    let mut fronts = Front::ALL.into_iter().chain([Front::Plugin]);
    areas.any(|area| area == plugin)
        || fronts.any(|front| front.as_str() == plugin)
        || ["workflow", "agent", "airlock", "kernel", "bootstrap"].contains(&plugin)
}

fn lasting(text: &str) -> &'static str {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    words.insert(kept);
    kept
}

/// The description of the tool `name`.
pub(super) fn spec(name: &str, summary: &str, tier: Tier) -> &'static ToolSpec {
    let summary: String = summary.chars().take(SUMMARY_CHARACTERS).collect();
    let key = (lasting(name), lasting(&summary), tier);
    let mut specs = SPECS.lock().unwrap_or_else(PoisonError::into_inner);
    specs.entry(key).or_insert_with(|| {
        Box::leak(Box::new(ToolSpec {
            name: key.0,
            summary: key.1,
            syscall: "tool.call",
            tier,
            // What a plugin says of that is no promise: a call is never made twice on its word.
            read_only: false,
            keep: Keep::Middle,
            schema: ToolSchema::open(),
            examples: &[],
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_area_of_syscalls_and_no_front_is_free() {
        for name in [
            "fs", "exec", "tool", "plugin", "policy", "cli", "mcp", "agent", "airlock",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["tickets", "fs-tool", "files", "clid"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
