//! Runs the one command of what was planned in its sandbox, and says how that ended.

use super::Sandboxes;
use super::check::Changes;
use super::failure::ProcessFailure;
use super::files;
use super::git;
#[cfg(target_os = "linux")]
use super::in_stage::InStage;
use super::job::{Staging, Work};
use super::plan::Planned;
use super::ran::Ran;
use super::stages;
use super::streams::{Attached, Kept};
use super::testing;
use super::warm::Warm;
use crate::workspace::Workspace;
use airlock_sandbox::Sandbox;
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

/// What a command runs on, and who judges what it changes.
pub(super) struct Ground<'a, 'p> {
    pub(super) workspace: &'a Workspace,
    pub(super) sandboxes: &'a Sandboxes,
    pub(super) changes: &'a Changes<'p>,
    /// Where its sandbox may be kept.
    pub(super) warm: Option<&'a Arc<Warm>>,
}

impl Planned {
    /// Runs it. The attempt is recorded; this is the effect.
    pub(crate) fn run(
        self,
        workspace: &Workspace,
        sandboxes: &Sandboxes,
        attached: Option<Attached<'_>>,
        changes: &Changes<'_>,
        warm: Option<&Arc<Warm>>,
    ) -> Result<Finished, ProcessFailure> {
        let ground = Ground {
            workspace,
            sandboxes,
            changes,
            warm,
        };
        let Some(attached) = attached.filter(|_| self.job.work == Work::Command) else {
            return self.captured(&ground);
        };
        let ran = self.within(&ground, attached)?;
        let value = told(&ran);
        Ok(Finished { value, ran })
    }

    fn captured(self, ground: &Ground<'_, '_>) -> Result<Finished, ProcessFailure> {
        let work = self.job.work.clone();
        let begun = std::time::SystemTime::now();
        let (mut stdout, mut stderr) = (Kept::new(STDOUT), Kept::new(STDERR));
        let stdin = fed(self.job.stdin.as_deref())?;
        let attached = Attached {
            stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
            terminal: None,
            started: &crate::cancel::started,
        };
        let ran = self.within(ground, attached)?;
        let mut value = told(&ran);
        let ((stdout, cut_out), (stderr, cut_err)) = (stdout.text(), stderr.text());
        match work {
            Work::Command | Work::Unavailable(_) => {}
            Work::Files(_) => {
                let value = files::answer(&stdout, &ran)?;
                return Ok(Finished { value, ran });
            }
            Work::Git(_) if cut_out => {
                let what = "git's answer is longer than is kept: ask for one path, or for fewer";
                return Err(ProcessFailure::Output(what.to_owned()));
            }
            Work::Git(reading) => {
                let value = git::answer(reading, &stdout, &stderr, &ran, ground.changes)?;
                return Ok(Finished { value, ran });
            }
            Work::Tests(reading) => {
                let printed = format!("{stdout}\n{stderr}");
                let counts = testing::counted(reading.framework, &printed);
                let coverage = reading.coverage.then(|| {
                    let stage = ran.stage.as_deref().unwrap_or_default();
                    let root = stages::view(ground.workspace, stage).ok()?;
                    testing::coverage(&root, begun)
                });
                if let Some(object) = value.as_object_mut() {
                    let framework = json!(reading.framework);
                    object.insert("framework".to_owned(), framework);
                    object.insert("tests".to_owned(), json!(counts));
                    if let Some(coverage) = coverage {
                        object.insert("coverage".to_owned(), json!(coverage));
                    }
                }
            }
        }
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
        ground: &Ground<'_, '_>,
        attached: Attached<'_>,
    ) -> Result<Ran, ProcessFailure> {
        let command = Command {
            arguments: self.job.command.iter().map(Into::into).collect(),
            environment: std::mem::take(&mut self.environment),
            directory: None,
            lasting: false,
        };
        match self.job.staging {
            Staging::Stage(_) => InStage(ground).run(&mut self, &command, attached),
            Staging::Session | Staging::None => {
                let mut started = self.standing(ground.workspace, ground.sandboxes)?;
                let ran = one_command(&mut started.sandbox, &command, attached)?;
                ground.sandboxes.leave(started.sandbox, started.claim);
                Ok(ran)
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn within(self, _: &Ground<'_, '_>, _: Attached<'_>) -> Result<Ran, ProcessFailure> {
        Err(ProcessFailure::Unsupported)
    }
}

/// Runs one command in a sandbox. Whatever it started ends with it.
#[cfg(target_os = "linux")]
pub(super) fn one_command(
    sandbox: &mut Sandbox,
    command: &Command,
    attached: Attached<'_>,
) -> Result<Ran, ProcessFailure> {
    (attached.started)(Arc::new(sandbox.control()));
    let streams = Streams {
        stdin: attached.stdin,
        stdout: attached.stdout,
        stderr: attached.stderr,
        terminal: attached.terminal,
    };
    let ended = sandbox.run(command, streams)?;
    let report = serde_json::to_value(sandbox.report()).unwrap_or_default();
    Ok(Ran::new(ended, report, sandbox.id()))
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
        "put_back": ran.put_back,
    })
}
