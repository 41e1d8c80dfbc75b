//! `airlock trust`: a person reviews what came with the workspace, and approves or withdraws.
//!
//! A policy that takes the place of one they approved is shown against that one, as an update is.

mod brought;

use super::reach::Reach;
use super::{open, policy};
use crate::args::{Global, TrustAction};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::{Call, Kernel, POLICY_FILE, Trust, TrustChange, TrustReport};
use airlock_policy::Policy;
use serde_json::json;

pub(super) fn run(global: &Global, action: Option<&TrustAction>, output: &mut Output) -> Ending {
    match action {
        Some(TrustAction::Show) => show(&open::unannounced(global, output)?, output),
        Some(TrustAction::Revoke) => {
            Reach::unannounced(global, output)?.value("trust.revoke", json!({}), output)?;
            if output.is_json() {
                output.json(&json!({ "trusted": false }));
            } else {
                output.note("nothing in .airlock/ counts any more; built-in defaults hold");
            }
            Ok(0)
        }
        None => approve(global, &mut Reach::unannounced(global, output)?, output),
    }
}

fn load(kernel: &Kernel) -> Result<Trust, Failure> {
    kernel
        .workspace()
        .trust()
        .map_err(|error| Failure::of(Kind::Failed, &error).fix(error.hint()))
}

fn word(change: TrustChange) -> &'static str {
    match change {
        TrustChange::New => "new",
        TrustChange::Changed => "changed",
        TrustChange::Missing => "missing",
        TrustChange::Same => "approved",
    }
}

fn show(kernel: &Kernel, output: &mut Output) -> Ending {
    let trust = load(kernel)?;
    if output.is_json() {
        report(kernel, &trust, output);
        return Ok(0);
    }
    for line in files(&trust) {
        output.line(line);
    }
    for problem in trust.problems() {
        output.warning(&problem.to_string());
    }
    let verdict = match (trust.is_empty(), trust.holds()) {
        (true, _) => "nothing to trust: this workspace has no .airlock/ files",
        (false, true) => "trusted: every file is as approved",
        (false, false) => "not trusted: built-in defaults hold until `airlock trust`",
    };
    output.line(verdict);
    Ok(0)
}

fn report(kernel: &Kernel, trust: &Trust, output: &mut Output) {
    output.json(&json!({
        "trusted": trust.holds() && !trust.is_empty(),
        "files": trust.report(),
        "policy": kernel.policy().origin().to_string(),
    }));
}

/// One line a file.
fn files(trust: &Trust) -> Vec<String> {
    let line = |file: &TrustReport| {
        let tone = if file.change == TrustChange::Same {
            Tone::Good
        } else {
            Tone::Warn
        };
        let state = styled(tone, &format!("{:<8}", word(file.change)));
        let digest = match (file.digest, file.change) {
            (Some(digest), _) => digest.short(),
            (None, TrustChange::Missing) => "gone".to_owned(),
            (None, TrustChange::New | TrustChange::Changed | TrustChange::Same) => {
                "cannot be read".to_owned()
            }
        };
        let path = airlock_kernel::sanitise_line(&file.path, 200);
        let runs = if file.executable { "  can be run" } else { "" };
        format!("{state}  {path}  {} bytes  {digest}{runs}", file.bytes)
    };
    trust.report().iter().map(line).collect()
}

fn approve(global: &Global, reach: &mut Reach<'_>, output: &mut Output) -> Ending {
    let kernel = reach.kernel(output)?;
    let trust = load(kernel)?;
    if trust.is_empty() {
        return Err(Failure::new(Kind::Failed, "there is nothing to trust")
            .why("this workspace has no .airlock/ files, so built-in defaults hold")
            .fix("write a starter policy: airlock init"));
    }
    if trust.holds() {
        if output.is_json() {
            report(kernel, &trust, output);
            return Ok(0);
        }
        for line in files(&trust) {
            output.line(line);
        }
        output.note("already trusted: every file is as approved");
        return Ok(0);
    }
    for line in files(&trust) {
        output.note(line);
    }
    summary(&trust, output)?;
    let typed = replaced(global, reach, &trust, output)?;
    let call = Call::new("trust.approve", json!({ "digest": trust.digest() }));
    let what = "trusting these files";
    let done = reach.confirmed(&call, what, typed.as_deref(), output)?;
    let kernel = reach.kernel(output)?;
    if output.is_json() {
        report(kernel, &load(kernel)?, output);
        return Ok(0);
    }
    output.note(styled(Tone::Good, "trusted; these files count from now on"));
    if let Some(name) = done.value.get("backup").and_then(|name| name.as_str()) {
        policy::tell_backup(kernel, name, output);
    }
    Ok(0)
}

/// Shows what the policy would change of the one that was approved before, if there was another;
/// returns what has to be typed to approve it, where a yes is not enough.
fn replaced(
    global: &Global,
    reach: &mut Reach<'_>,
    trust: &Trust,
    output: &mut Output,
) -> Result<Option<String>, Failure> {
    let old = reach.kernel(output)?.last_approved();
    let next = trust.untrusted_policy();
    let (Some(old), Some(bytes)) = (old, next) else {
        return Ok(None);
    };
    if old.source() == bytes {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(bytes);
    let loaded =
        Policy::load(POLICY_FILE, bytes).map_err(|error| policy::load_failure(&error, &text))?;
    open::flush_running(global);
    reach.value("audit.read", json!({ "purpose": "replay" }), output)?;
    policy::preview(reach.kernel(output)?, &text, loaded.policy, None, output)
}

/// The files as a person should see them before saying yes.
fn summary(trust: &Trust, output: &mut Output) -> Result<(), Failure> {
    if let Some(bytes) = trust.untrusted_policy() {
        policy::summarise(bytes, POLICY_FILE, output)?;
    }
    brought::show(trust, output)
}
