//! Starts a sandbox for what was planned, runs its one command, and says how that ended.

use super::failure::ProcessFailure;
use super::job::Staging;
use super::plan::Planned;
use super::ran::Ran;
use super::stages;
use super::streams::{Attached, Kept};
use crate::workspace::Workspace;
use airlock_sandbox::Minimum;
use airlock_sandbox::launch::{Command, Launch, Stdin, Streams};
use serde_json::{Value, json};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

/// The most a caller is given of each stream, where it is kept for them.
const STDOUT: usize = 1024 * 1024;
const STDERR: usize = 256 * 1024;

/// How it ended, and what a caller who is not attached is told.
pub(crate) struct Finished {
    pub(crate) value: Value,
    pub(crate) ran: Ran,
}

impl Planned {
    /// Runs it. The attempt is recorded; this is the effect.
    pub(crate) fn run(
        self,
        workspace: &Workspace,
        attached: Option<Attached<'_>>,
    ) -> Result<Finished, ProcessFailure> {
        let Some(attached) = attached else {
            return self.captured(workspace);
        };
        let ran = self.within(workspace, attached)?;
        let value = told(&ran);
        Ok(Finished { value, ran })
    }

    fn captured(self, workspace: &Workspace) -> Result<Finished, ProcessFailure> {
        let (mut stdout, mut stderr) = (Kept::new(STDOUT), Kept::new(STDERR));
        let stdin = fed(self.job.stdin.as_deref())?;
        let attached = Attached {
            stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
            terminal: None,
            started: &crate::cancel::started,
        };
        let ran = self.within(workspace, attached)?;
        let mut value = told(&ran);
        let ((stdout, cut_out), (stderr, cut_err)) = (stdout.text(), stderr.text());
        if let Some(object) = value.as_object_mut() {
            object.insert("stdout".to_owned(), Value::String(stdout));
            object.insert("stderr".to_owned(), Value::String(stderr));
            object.insert("truncated".to_owned(), Value::Bool(cut_out || cut_err));
        }
        Ok(Finished { value, ran })
    }

    #[cfg(target_os = "linux")]
    fn within(self, workspace: &Workspace, attached: Attached<'_>) -> Result<Ran, ProcessFailure> {
        let registry = workspace.state().path().join("sandboxes");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&registry)
            .map_err(|error| ProcessFailure::Sandbox(format!("cannot note sandboxes: {error}")))?;
        // What killed supervisors left goes before something new is made; what cannot go yet is
        // tried again by the next command.
        let _collected = airlock_sandbox::collect(&registry);
        let mut staged = match &self.job.staging {
            Staging::Stage(name) => Some(stages::open(workspace, name)?),
            Staging::None => None,
        };
        // Held until the sandbox is gone: two overlays on one layer would corrupt it.
        let claim = staged.as_mut().map(stages::claim).transpose()?;
        let layers = staged.as_ref().map(stages::layers).transpose()?;
        let command = Command {
            arguments: self.job.command.iter().map(Into::into).collect(),
            environment: self.environment,
            directory: None,
            lasting: false,
        };
        let mut sandbox = airlock_sandbox::start(Launch {
            minimum: Minimum::of(&self.plan),
            plan: self.plan,
            base: self.around.base,
            home: self.around.home,
            layers,
            registry,
        })?;
        (attached.started)(Arc::new(sandbox.control()));
        let streams = Streams {
            stdin: attached.stdin,
            stdout: attached.stdout,
            stderr: attached.stderr,
            terminal: attached.terminal,
        };
        let ended = sandbox.run(&command, streams)?;
        let report = serde_json::to_value(sandbox.report()).unwrap_or_default();
        let mut ran = Ran::new(ended, report, sandbox.id());
        sandbox.stop();
        drop(claim);
        ran.stage = staged.as_ref().map(|stage| stage.name().to_string());
        ran.changes = staged.as_ref().and_then(stages::changes);
        Ok(ran)
    }

    #[cfg(not(target_os = "linux"))]
    fn within(self, _: &Workspace, _: Attached<'_>) -> Result<Ran, ProcessFailure> {
        Err(ProcessFailure::Unsupported)
    }
}

/// A pipe with `text` in it; a thread fills it, since it may hold more than a pipe does.
fn fed(text: Option<&str>) -> Result<Stdin, ProcessFailure> {
    let Some(text) = text else {
        return Ok(Stdin::Empty);
    };
    let failed = |error: io::Error| ProcessFailure::Sandbox(format!("cannot make a pipe: {error}"));
    let (reader, mut writer) = io::pipe().map_err(failed)?;
    let text = text.to_owned();
    std::thread::spawn(move || {
        // A command that does not read its input closes the pipe.
        let _ = writer.write_all(text.as_bytes());
    });
    Ok(Stdin::From(OwnedFd::from(reader)))
}

/// How it ended, as a value.
fn told(ran: &Ran) -> Value {
    let refusals: Vec<Value> = ran
        .refusals
        .iter()
        .map(|refusal| json!({ "path": refusal.path.to_string_lossy(), "denial": refusal.denial }))
        .collect();
    json!({
        "outcome": ran.word(),
        "exit": ran.exit(),
        "limit": ran.limit(),
        "wall_ms": ran.wall_ms,
        "stage": ran.stage,
        "changes": ran.changes,
        "refusals": refusals,
    })
}
