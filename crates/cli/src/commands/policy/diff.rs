//! `airlock policy diff`: audited syscalls, decided again under another policy.

use super::super::audit;
use super::load;
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, styled};
use airlock_audit::{Filter, ReadError};
use airlock_core::Request;
use airlock_kernel::{Errand, Kernel, PolicyInForce};
use airlock_policy::{Change, Difference, Policy, Replay};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

pub(super) fn run(
    global: &Global,
    file: &Path,
    last: Option<usize>,
    output: &mut Output,
) -> Ending {
    let (_, loaded) = load(file)?;
    let kernel = audit::asked(global, "replay", Errand::Work, output)?.into_kernel(output)?;
    let next = tried(&kernel, loaded.policy)?;
    let replayed = replayed(&kernel, &next, last, output)?;
    show(&replayed, output);
    tell_edited(&kernel, output);
    Ok(0)
}

/// Says what a policy was compared with, where that is not what is in force.
pub(super) fn tell_edited(kernel: &Kernel, output: &mut Output) {
    if kernel.last_approved().is_some() {
        output.note(
            "compared with the policy that was approved last; since its files were changed, built-in \
             defaults hold",
        );
    }
}

/// `policy` as it would be in force here.
pub(super) fn tried(kernel: &Kernel, policy: Policy) -> Result<Arc<PolicyInForce>, Failure> {
    let tried = kernel.policy_like(policy);
    tried.map_err(|error| Failure::new(Kind::Failed, error))
}

/// The last audited syscalls, decided under the policy that `next` would take the place of, and under
/// `next`.
pub(super) fn replayed(
    kernel: &Kernel,
    next: &PolicyInForce,
    last: Option<usize>,
    output: &mut Output,
) -> Result<Replay, Failure> {
    let configured = kernel.policy().policy().document().audit.replay;
    let count = last.unwrap_or_else(|| usize::try_from(configured).unwrap_or(usize::MAX));
    let requests = audited(kernel, count, output)?;
    Ok(kernel.replay(&requests, next))
}

/// The decision inputs of the last `wanted` attempts, oldest first, with their record numbers. A damaged
/// record keeps nobody from another policy, and is told.
fn audited(
    kernel: &Kernel,
    wanted: usize,
    output: &mut Output,
) -> Result<Vec<(u64, Request)>, Failure> {
    let failed = |error: &ReadError| Failure::of(Kind::Failed, error).maybe_fix(error.hint());
    let filter = Filter {
        newest_first: true,
        ..Filter::default()
    };
    let records = kernel.log().read(filter).map_err(|error| failed(&error))?;
    let mut found = Vec::new();
    let mut damaged = 0;
    for record in records {
        let record = match record {
            Err(ReadError::Record { .. }) => {
                damaged += 1;
                continue;
            }
            // Of a log that stops everything else, what can still be read: another policy is the way out.
            Err(_) if kernel.stopped().is_some() => break,
            other => other.map_err(|error| failed(&error))?,
        };
        let seq = record.sealed.seq();
        found.extend(record.entry.request.map(|request| (seq, *request)));
        if found.len() >= wanted {
            break;
        }
    }
    if damaged > 0 {
        output.warning(&format!(
            "{} of the log cannot be read and {} left out: `airlock audit verify` shows what is damaged",
            count(damaged, "record"),
            if damaged == 1 { "is" } else { "are" },
        ));
    }
    found.reverse();
    Ok(found)
}

/// Only the differences, and how many there were to compare.
fn show(replay: &Replay, output: &mut Output) {
    if output.is_json() {
        output.json(&json!({
            "replayed": replay.replayed,
            "breaking": replay.breaking(),
            "widening": replay.widening(),
            "possibly_breaking": replay.possibly_breaking(),
            "possibly_widening": replay.possibly_widening(),
            "undecided": replay.undecided,
            "without_manifest": replay.without_manifest,
            "differences": replay.differences,
        }));
        return;
    }
    for line in lines(replay) {
        output.line(line);
    }
}

/// The differences, one a line, and how many there were to compare.
pub(super) fn lines(replay: &Replay) -> Vec<String> {
    let mut lines: Vec<String> = replay.differences.iter().map(line).collect();
    lines.push(format!(
        "{} replayed: {}, {} breaking, {} widening",
        count(replay.replayed as u64, "audited syscall"),
        count(replay.certain() as u64, "difference"),
        replay.breaking(),
        replay.widening()
    ));
    if replay.undecided > 0 {
        lines.push(format!(
            "{} may differ, by arguments, which the log does not keep: {} possibly breaking, {} \
             possibly widening",
            replay.undecided,
            replay.possibly_breaking(),
            replay.possibly_widening()
        ));
    }
    if replay.without_manifest > 0 {
        lines.push(format!(
            "{} came from plugins that do not run here: decided without their manifests",
            replay.without_manifest
        ));
    }
    lines
}

fn line(difference: &Difference) -> String {
    let (tone, word) = match difference.change {
        Change::Breaking => (Tone::Bad, "BREAKING"),
        Change::Widening => (Tone::Warn, "WIDENING"),
        Change::Other if difference.certain => (Tone::Label, "changed "),
        Change::Other => (Tone::Label, "changed"),
    };
    let mark = if difference.certain { "" } else { "?" };
    let label = styled(tone, &format!("{word}{mark}"));
    let request = &difference.request;
    let paths: Vec<String> = request
        .paths
        .iter()
        .take(3)
        .map(|path| airlock_kernel::sanitise_line(path.as_str(), 80))
        .collect();
    format!(
        "{label} record {}: {} {} by {}: {} -> {} ({})",
        difference.seq,
        request.syscall,
        paths.join(" "),
        request.caller.plugin,
        difference.old.verdict,
        difference.new.verdict,
        difference
            .new
            .deciding()
            .map(|c| &*c.rule)
            .collect::<Vec<_>>()
            .join(", "),
    )
}
