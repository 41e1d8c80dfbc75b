//! `airlock policy update`: the new policy, shown against the old one, approved by a person.
//!
//! The old one is what a person approved last. While built-in defaults hold because its file was
//! edited, they are not what the new one is compared with.

use super::super::{audit, outcome};
use super::{diff, load};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use crate::visible::Reviewed;
use airlock_kernel::{Call, Errand, Kernel, Outcome};
use airlock_policy::{Policy, render};
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use std::path::Path;

/// More breaking changes than this need a typed confirmation.
const BREAKING_LIMIT: usize = 5;

pub(super) fn run(
    global: &Global,
    file: &Path,
    last: Option<usize>,
    output: &mut Output,
) -> Ending {
    let (bytes, loaded) = load(file)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if !loaded.warnings.is_empty() {
        output.verbatim(render(&text, &file.display().to_string(), &loaded.warnings).trim_end());
    }
    let mut reach = audit::asked(global, "replay", Errand::WayOut, output)?;
    let kernel = reach.kernel(output)?;
    if kernel.policy().source() == bytes {
        if output.is_json() {
            output.json(&json!({ "changed": false }));
        } else {
            output.note("this is the policy in force already; nothing to do");
        }
        return Ok(0);
    }
    let typed = preview(kernel, &text, loaded.policy, last, output)?;
    let call = Call::new("policy.update", json!({ "text": text }));
    let asked = match reach.submit(&call, output)? {
        asked @ Outcome::NeedsReview(_) => asked,
        // Never without review: an allow here would be a bug of ours, and the file stays.
        other @ (Outcome::Done(_) | Outcome::Denied(_) | Outcome::Failed(_)) => {
            outcome::done(other)?;
            return Err(Failure::new(
                Kind::Failed,
                "the policy was changed without review",
            ));
        }
    };
    let what = "this policy update";
    let done = reach.answered(asked, &call, what, typed.as_deref(), output)?;
    if output.is_json() {
        output.json(&done.value);
        return Ok(0);
    }
    let backup = done.value.get("backup").and_then(|name| name.as_str());
    if done.value.get("in_force") == Some(&json!(false)) {
        output.warning(
            "the policy is written, but other files of .airlock/ are not approved, so built-in \
             defaults hold until `airlock trust`",
        );
    } else {
        output.note(styled(Tone::Good, "the new policy is in force"));
    }
    if let Some(name) = backup {
        tell_backup(reach.kernel(output)?, name, output);
    }
    Ok(0)
}

/// Shows what `policy`, which is `text`, would change; returns what has to be typed to approve it,
/// where a yes is not enough.
pub(crate) fn preview(
    kernel: &Kernel,
    text: &str,
    policy: Policy,
    last: Option<usize>,
    output: &mut Output,
) -> Result<Option<String>, Failure> {
    let next = diff::tried(kernel, policy)?;
    let replayed = diff::replayed(kernel, &next, last, output)?;
    let old = kernel.last_approved().unwrap_or_else(|| kernel.policy());
    text_diff(&String::from_utf8_lossy(old.source()), text, output);
    for line in diff::lines(&replayed) {
        output.note(line);
    }
    diff::tell_edited(kernel, output);
    // What may break counts like what does: else a rule on any argument would make a yes enough.
    let breaking = replayed.breaking() + replayed.possibly_breaking();
    Ok((breaking > BREAKING_LIMIT).then(|| format!("break {breaking}")))
}

/// Says where the policy is that was replaced.
pub(crate) fn tell_backup(kernel: &Kernel, name: &str, output: &mut Output) {
    let path = kernel.workspace().state().backups().join(name);
    output.note(format!("the old one is kept as {}", path.display()));
}

fn text_diff(old: &str, new: &str, output: &mut Output) {
    let diff = TextDiff::from_lines(old, new);
    let mut reviewed = Reviewed::default();
    for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
        output.verbatim(styled(Tone::Label, hunk.header().to_string().trim_end()));
        let changes: Vec<_> = hunk.iter_changes().collect();
        let signed = changes.iter().map(|change| match change.tag() {
            ChangeTag::Delete => ('-', change.value()),
            ChangeTag::Insert => ('+', change.value()),
            ChangeTag::Equal => (' ', change.value()),
        });
        for line in reviewed.lines(&signed.collect::<Vec<_>>()) {
            output.verbatim(line);
        }
    }
    reviewed.tell(output);
}
