//! A capability check: a snapshot of the enforcer, four sets, one record to a sink.

use crate::alloc;
use crate::failure::Failure;
use crate::measure::{self, Rounds};
use crate::options::Options;
use crate::table::Row;
use airlock_core::{PluginName, UserId, WorkspaceId};
use airlock_policy::capability::CapabilitySet;
use airlock_policy::{CapabilityCheck, CapabilityGrants, CheckQuery, Enforcer};
use std::hint::black_box;

/// Different files asked for in turn.
const ASKED: usize = 64;
/// Batches of one round.
const BATCHES: usize = 60;

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    [10, 1_000, 10_000]
        .into_iter()
        .map(|patterns| one(options, patterns))
        .collect()
}

fn one(options: &Options, patterns: usize) -> Result<Row, Failure> {
    let plugin: PluginName = "agent".parse()?;
    let (workspace_id, user_id): (WorkspaceId, UserId) = ("bench".parse()?, "ada".parse()?);
    let enforcer = Enforcer::new();
    let grants = CapabilityGrants {
        allow: set(patterns, "")?,
        deny: set(patterns, "/private")?,
    };
    enforcer.register(plugin.clone(), grants)?;
    let (workspace, user) = (set(patterns, "")?, set(patterns, "")?);
    let asked: Vec<String> = (0..ASKED)
        .map(|i| {
            let module = i * patterns / ASKED;
            format!("filesystem.write./work/src/module_{module}/deep/file_{i}.rs")
        })
        .collect();
    let snapshot = enforcer.snapshot();
    let check = |capability: &str| {
        let query = CheckQuery {
            plugin: &plugin,
            capability,
            workspace: &workspace,
            user: &user,
            workspace_id: &workspace_id,
            user_id: &user_id,
        };
        snapshot.check(&query, &mut |check: &CapabilityCheck<'_>| {
            black_box(check);
        })
    };
    for capability in &asked {
        if !check(capability).is_allowed() {
            return Err(Failure::new(format!("`{capability}` should be granted")));
        }
    }
    if check("filesystem.write./work/src/module_0/private/key").is_allowed()
        || check("filesystem.write./work/other").is_allowed()
    {
        return Err(Failure::new("a check granted what it should not"));
    }
    let mut ours = measure::cycle(&asked, |capability| check(capability));
    let allocations = alloc::count(1_000, &mut ours);
    let rounds = Rounds::new(options.pick(10, 3), || {
        let samples = measure::in_turns(BATCHES, &mut [&mut ours]);
        samples.into_iter().next().unwrap_or_default()
    });
    let median = rounds.quietest(50);
    let row = Row::new(format!("capability check, {patterns} patterns a set"))
        .measured(format!(
            "{}{}",
            rounds.text(50, measure::time_text),
            alloc::text(allocations)
        ))
        .against("a limit");
    Ok(if patterns == 1_000 {
        row.wanted("under 300 ns", median < 300.0)
    } else {
        row
    })
}

/// `count` patterns, each over one directory.
fn set(count: usize, below: &str) -> Result<CapabilitySet, Failure> {
    let patterns = (0..count).map(|i| format!("filesystem.write./work/src/module_{i}{below}/**"));
    Ok(CapabilitySet::parse(patterns)?)
}
