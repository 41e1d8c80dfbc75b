//! Names that live as long as the process: tools are described by such.
//!
//! Each distinct one is kept once, however often definitions are loaded; how many there are is
//! bounded by what definitions may hold.

use crate::tools::{Keep, ToolSchema, ToolSpec};
use airlock_core::Tier;
use airlock_definitions::{Header, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
static SPECS: Mutex<BTreeMap<(&'static str, &'static str, &'static str), &'static ToolSpec>> =
    Mutex::new(BTreeMap::new());

/// `text`, for as long as the process lives.
pub(super) fn lasting(text: &str) -> &'static str {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    words.insert(kept);
    kept
}

/// The description of the adapter's tool `name`.
pub(super) fn spec(name: &str, header: &Header) -> &'static ToolSpec {
    let key = (lasting(name), lasting(&header.name), header.kind.as_str());
    let mut specs = SPECS.lock().unwrap_or_else(PoisonError::into_inner);
    specs.entry(key).or_insert_with(|| {
        let (syscall, tier) = match header.kind {
            Kind::Cli | Kind::Mcp => ("exec.run", Tier::Process),
            Kind::Api => ("net.connect", Tier::Process),
        };
        Box::leak(Box::new(ToolSpec {
            name: key.0,
            summary: key.1,
            syscall,
            tier,
            // Whether it is only known once its body is read.
            read_only: false,
            keep: Keep::Middle,
            schema: ToolSchema::open(),
            examples: &[],
        }))
    })
}
