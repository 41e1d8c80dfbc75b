//! Adapters as tools on the road.
//!
//! A call of an adapter's tool is decided as what it does - running a program, connecting to a
//! host - and under the tool's own name besides, so a rule for either stops it. Programs go through
//! the execution contract of `exec.run`: the same list of commands, the same checks, the same
//! sandbox. Each further attempt and each fallback is a call of its own.
//!
//! Guarantee: an adapter never takes the name of another tool, and one of a workspace exists only
//! while the workspace's files are as approved. Non-guarantee: where a request may go is decided by
//! host and port; what it carries there is the definition's and the caller's.

mod names;
mod persist;
mod prepared;
mod reach;
mod request;
mod speaker;
mod tool;

pub(crate) use speaker::Speaker;

use crate::definitions::{AdapterEntry, DefinitionProblem, Definitions, OwnDefinitions};
use crate::extensions::WorkerProgram;
use crate::policy_store::PolicyStore;
use crate::tools::Tool;
use airlock_definitions::{Adapter, resolve};
use request::Means;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tool::AdapterTool;

/// Every adapter's tool; says which cannot be used. None has one of the names that are `taken`.
pub(crate) fn tools(
    taken: &BTreeSet<&'static str>,
    definitions: &mut Definitions,
    own: &OwnDefinitions,
    store: &Arc<PolicyStore>,
    worker: Option<&WorkerProgram>,
) -> Vec<Arc<dyn Tool>> {
    let means = Means {
        worker: worker.cloned(),
        state: store.workspace().state().path().to_owned(),
        certificates: own.certificates.as_str().into(),
    };
    let mut named: BTreeMap<&str, Vec<&AdapterEntry>> = BTreeMap::new();
    for entry in &definitions.adapters {
        named.entry(&entry.header.tool).or_default().push(entry);
    }
    let (mut tools, mut problems) = (Vec::new(), Vec::new());
    for (name, entries) in named {
        if taken.contains(name) || reserved(name) {
            problems.extend(entries.iter().map(|entry| {
                problem(
                    entry,
                    format!("`{name}` is a tool of Airlock's own"),
                    "give the adapter another `tool`",
                )
            }));
            continue;
        }
        match chain(&entries, own) {
            Ok(chain) => add(&mut tools, name, &chain, own, (store, &means)),
            Err(found) => problems.extend(found),
        }
    }
    definitions.problems.extend(problems);
    tools
}

/// Names that Airlock may give to tools of its own one day.
fn reserved(name: &str) -> bool {
    let area = name.split('.').next().unwrap_or_default();
    let known = airlock_core::SYSCALLS
        .iter()
        .filter_map(|spec| spec.name.split('.').next());
    known
        .chain(["workflow", "agent", "airlock"])
        .any(|known| known == area)
}

fn problem(entry: &AdapterEntry, what: String, fix: &str) -> DefinitionProblem {
    DefinitionProblem {
        file: entry.file.clone(),
        what,
        fix: fix.to_owned(),
        load: None,
    }
}

/// The adapters of one tool in the order they are used. A single one is not parsed for that.
fn chain<'a>(
    entries: &[&'a AdapterEntry],
    own: &OwnDefinitions,
) -> Result<Vec<&'a AdapterEntry>, Vec<DefinitionProblem>> {
    if let [only] = entries {
        return Ok(vec![only]);
    }
    let mut adapters: BTreeMap<String, Adapter> = BTreeMap::new();
    let mut problems = Vec::new();
    for entry in entries {
        match entry.text.adapter() {
            Ok(adapter) => {
                adapters.insert(entry.header.id.clone(), adapter);
            }
            Err(error) => problems.push(DefinitionProblem {
                file: entry.file.clone(),
                what: error.to_string(),
                fix: error.hint().unwrap_or_default().to_owned(),
                load: Some((error, entry.text.text().into())),
            }),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    match resolve(&adapters, &own.experimental) {
        Ok(resolved) => Ok(resolved
            .chain
            .iter()
            .filter_map(|id| entries.iter().find(|entry| entry.header.id == *id).copied())
            .collect()),
        Err(error) => Err(entries
            .iter()
            .map(|entry| problem(entry, error.to_string(), error.hint()))
            .collect()),
    }
}

fn add(
    tools: &mut Vec<Arc<dyn Tool>>,
    name: &str,
    chain: &[&AdapterEntry],
    own: &OwnDefinitions,
    with: (&Arc<PolicyStore>, &Means),
) {
    for (index, entry) in chain.iter().enumerate() {
        // The others of a chain have names no caller's tool can have.
        let called = |entry: &AdapterEntry, first: bool| {
            if first {
                name.to_owned()
            } else {
                format!("{name}@{}", entry.header.id)
            }
        };
        let next = chain.get(index + 1).map(|next| called(next, false));
        let on = own.experimental.contains(&entry.header.id);
        tools.push(Arc::new(AdapterTool::new(
            &called(entry, index == 0),
            entry,
            next,
            on,
            with,
        )));
    }
}
