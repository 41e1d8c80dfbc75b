//! Runs the one command of what was planned in its sandbox, and says how that ended.

use super::Sandboxes;
use super::failure::ProcessFailure;
use super::plan::Planned;
use super::ran::Ran;
use super::stages;
#[cfg(target_os = "linux")]
use super::start::Started;
use super::streams::{Attached, Kept};
use crate::workspace::Workspace;
use airlock_sandbox::launch::{Command, Stdin, Streams};
use serde_json::{Value, json};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
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
        sandboxes: &Sandboxes,
        attached: Option<Attached<'_>>,
    ) -> Result<Finished, ProcessFailure> {
        let ground = (workspace, sandboxes);
        let Some(attached) = attached else {
            return self.captured(ground);
        };
        let ran = self.within(ground, attached)?;
        let value = told(&ran);
        Ok(Finished { value, ran })
    }

    fn captured(self, ground: (&Workspace, &Sandboxes)) -> Result<Finished, ProcessFailure> {
        let (mut stdout, mut stderr) = (Kept::new(STDOUT), Kept::new(STDERR));
        let stdin = fed(self.job.stdin.as_deref())?;
        let attached = Attached {
            stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
            terminal: None,
            started: &|_| {},
        };
        let ran = self.within(ground, attached)?;
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
    fn within(
        mut self,
        ground: (&Workspace, &Sandboxes),
        attached: Attached<'_>,
    ) -> Result<Ran, ProcessFailure> {
        let (workspace, sandboxes) = ground;
        let Started {
            mut sandbox,
            stage,
            claim,
        } = self.standing(workspace, sandboxes)?;
        let command = Command {
            arguments: self.job.command.iter().map(Into::into).collect(),
            environment: self.environment,
            directory: None,
            lasting: false,
        };
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
        sandboxes.leave(sandbox, claim);
        ran.stage = stage.as_ref().map(|stage| stage.name().to_string());
        ran.changes = stage.as_ref().and_then(stages::changes);
        Ok(ran)
    }

    #[cfg(not(target_os = "linux"))]
    fn within(self, _: (&Workspace, &Sandboxes), _: Attached<'_>) -> Result<Ran, ProcessFailure> {
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
