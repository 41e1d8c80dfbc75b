//! The sample project as a git repository: its beginning, and the review, merge and undo of what the
//! agent made of it.

use super::person;
use super::scene::Scene;
use crate::failure::{Failure, Kind};
use airlock_core::SessionId;
use airlock_kernel::{Call, Kernel, sanitise_line};
use airlock_merge::review_digest;
use airlock_sandbox::stage::Diff;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

const LIBRARY: &str = "src/lib.rs";

/// Makes a repository of it, where there is git.
pub(super) fn begin(scene: &mut Scene<'_>, workspace: &Path) {
    let made = git(workspace, &["init", "--quiet"]).is_some()
        && git(workspace, &["add", "."]).is_some()
        && git(workspace, &["commit", "--quiet", "-m", "Parse configuration"]).is_some();
    if made {
        scene.say("a Rust project in a git repository, in a temporary directory");
    } else {
        scene.say("a Rust project in a temporary directory; without git here, nothing is committed");
    }
}

/// What git says, if it could be asked. The person's own configuration takes no part.
#[expect(
    clippy::disallowed_methods,
    reason = "the person's own repository is made and read by the person's own git"
)]
fn git(workspace: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-c", "user.name=A Person", "-c", "user.email=person@example.org"])
        .args(words)
        .current_dir(workspace)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(said)
}

/// The person looks, agrees, sees it in the real tree, and thinks better of it.
pub(super) fn review(
    scene: &mut Scene<'_>,
    kernel: &Kernel,
    workspace: &Path,
    session: &SessionId,
) -> Result<(), Failure> {
    let call = |name: &str, arguments: Value| {
        let mut call = Call::new(name, arguments);
        call.session = Some(session.clone());
        call
    };
    let read = || std::fs::read_to_string(workspace.join(LIBRARY)).unwrap_or_default();
    let head = || git(workspace, &["rev-parse", "HEAD"]);
    let (before, first) = (read(), head());

    scene.title("airlock diff: what waits in the stage");
    let status = person::approved(kernel, &call("phase.status", json!({})))?;
    let word = |value: &Value, name: &str| {
        let word = value.get(name).and_then(Value::as_str);
        word.unwrap_or_default().to_owned()
    };
    let stage = stage_of(kernel, session)?;
    show(scene, &diff(kernel, &stage)?);

    scene.title("airlock merge: the person agrees, and the real tree changes");
    let digest = word(&status.value, "digest");
    person::approved(kernel, &call("phase.commit", json!({ "digest": digest })))?;
    if first.is_some() {
        let message = "Return an error for lines that are no setting";
        person::approved(kernel, &call("git.commit", json!({ "message": message })))?;
    }
    let arguments = json!({ "stage": stage, "digest": review_digest(&diff(kernel, &stage)?) });
    person::approved(kernel, &call("merge.apply", arguments))?;
    scene.holds(read().contains("ParseError"), "src/lib.rs and tests/errors.rs are in the real tree");
    if first.is_some() {
        let said = git(workspace, &["log", "--format=%s", "-1"]).unwrap_or_default();
        let moved = head() != first && said.starts_with("Return an error");
        scene.holds(moved, &format!("committed: \"{}\"", sanitise_line(&said, 80)));
    }

    scene.title("airlock undo: exactly as it was");
    person::approved(kernel, &Call::new("merge.undo", json!({})))?;
    let gone = !workspace.join("tests/errors.rs").exists();
    scene.holds(read() == before && gone, "every file is back, byte for byte");
    if first.is_some() {
        scene.holds(head() == first, "and so is the branch");
    }
    Ok(())
}

fn stage_of(kernel: &Kernel, session: &SessionId) -> Result<String, Failure> {
    let shown = person::approved(kernel, &Call::new("session.show", json!({ "session": session })))?;
    let stage = shown.value.get("stage").and_then(Value::as_str);
    Ok(stage.unwrap_or("default").to_owned())
}

fn diff(kernel: &Kernel, stage: &str) -> Result<Diff, Failure> {
    kernel.release_idle();
    person::approved(kernel, &Call::new("stage.read", json!({ "stage": stage })))?;
    let found = kernel.stages().diff(stage);
    let found = found.map_err(|error| super::super::stage::failure(&error))?;
    found.ok_or_else(|| Failure::new(Kind::Failed, "the stage is gone"))
}

/// The changes of files the person cares for.
fn show(scene: &mut Scene<'_>, diff: &Diff) {
    for change in &diff.changes {
        let path = change.path.as_path().to_string_lossy();
        if path.starts_with("src/") || path.starts_with("tests/") {
            scene.lines(&super::super::stage::line(change));
        }
    }
}
