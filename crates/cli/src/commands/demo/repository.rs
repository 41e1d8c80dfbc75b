//! The sample project as a git repository: its beginning, and the review, merge and undo of what the
//! agent made of it.

use super::person;
use super::scene::Scene;
use crate::failure::{Failure, Kind};
use crate::place::variable;
use crate::visible::Reviewed;
use airlock_core::SessionId;
use airlock_kernel::{Call, Front, Kernel, sanitise_line};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

const LIBRARY: &str = "src/lib.rs";

/// Makes a repository of it, where there is git.
pub(super) fn begin(scene: &mut Scene<'_>, workspace: &Path) {
    let made = git(workspace, &["init", "--quiet", "--template="]).is_some()
        && git(workspace, &["add", "."]).is_some()
        && git(
            workspace,
            &["commit", "--quiet", "-m", "Parse configuration"],
        )
        .is_some();
    if made {
        scene.say("it is a git repository, and has a commit");
    } else {
        scene.say("without git here, nothing is committed");
    }
}

/// What git says, if it could be asked. The person's own configuration takes no part, and neither
/// does the environment: in a hook of git's, `GIT_DIR` and its like name a repository of the person's,
/// which would be the one that is committed to.
#[expect(
    clippy::disallowed_methods,
    reason = "the sample repository is made and read by the person's own git"
)]
fn git(workspace: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-c", "user.name=A Person"])
        .args(["-c", "user.email=person@example.org"])
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(words)
        .current_dir(workspace)
        .env_clear()
        .envs(variable("PATH").map(|path| ("PATH", path)))
        .env("GIT_ATTR_NOSYSTEM", "1")
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
    let status = || -> Result<Value, Failure> {
        kernel.release_idle();
        person::approved(kernel, &call("phase.status", json!({}))).map(|done| done.value)
    };
    let changes = status()?;
    show(scene, kernel, changes.pointer("/merge/stage"))?;

    scene.title("airlock merge: the person agrees, and the real tree changes");
    let digest = json!({ "digest": changes.pointer("/changes/digest") });
    person::approved(kernel, &call("phase.commit", digest))?;
    if first.is_some() {
        let message = "Return an error for lines that are no setting";
        person::approved(kernel, &call("git.commit", json!({ "message": message })))?;
    }
    let merge = status()?.get("merge").cloned().unwrap_or_default();
    person::approved(kernel, &call("merge.apply", merge))?;
    scene.holds(
        read().contains("ParseError"),
        "src/lib.rs and tests/errors.rs are in the real tree",
    );
    if first.is_some() {
        let said = git(workspace, &["log", "--format=%s", "-1"]).unwrap_or_default();
        let moved = head() != first && said.starts_with("Return an error");
        scene.holds(
            moved,
            &format!("committed: \"{}\"", sanitise_line(&said, 80)),
        );
    }

    scene.title("airlock undo: exactly as it was");
    person::approved(kernel, &Call::new("merge.undo", json!({})))?;
    let gone = !workspace.join("tests/errors.rs").exists();
    scene.holds(
        read() == before && gone,
        "every file is back, byte for byte",
    );
    if first.is_some() {
        scene.holds(head() == first, "and so is the branch");
    }
    Ok(())
}

/// The changes, as the person sees them.
fn show(scene: &mut Scene<'_>, kernel: &Kernel, stage: Option<&Value>) -> Result<(), Failure> {
    let stage = stage.and_then(Value::as_str).unwrap_or("default");
    let call = Call::new("stage.read", json!({ "purpose": "diff", "stage": stage }));
    super::super::outcome::done(kernel.submit(Front::Cli, &call))?;
    let found = kernel.stages().diff(stage);
    let found = found.map_err(|error| super::super::stage::failure(&error))?;
    let mut diff = found.ok_or_else(|| Failure::new(Kind::Failed, "the stage is gone"))?;
    // What git ignores is built, not written.
    diff.changes.retain(|change| {
        let path = change.path.as_path();
        path.starts_with("src") || path.starts_with("tests")
    });
    let mut reviewed = Reviewed::default();
    super::super::stage::patch_lines(&diff, &mut reviewed, |line| scene.diff(&line));
    Ok(())
}
