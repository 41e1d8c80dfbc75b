//! Runs the one command of what was planned in its sandbox, and says how that ended.

use super::Sandboxes;
use super::check::Changes;
use super::failure::ProcessFailure;
use super::files;
use super::git;
#[cfg(target_os = "linux")]
use super::in_stage::InStage;
use super::inside::{Outer, Within};
use super::job::{Staging, Work};
use super::plan::Planned;
use super::ran::Ran;
use super::stages;
use super::streams::{Attached, Kept};
#[cfg(target_os = "linux")]
use super::streams::{Reins, Run, Steering};
use super::testing;
use super::warm::Warm;
use crate::workspace::Workspace;
use airlock_sandbox::Sandbox;
use airlock_sandbox::launch::{Command, Ended, Stdin, Streams};
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
    /// What a run of the tests covered, where that was to be measured.
    pub(crate) measured: Option<Result<testing::Measured, testing::Missing>>,
}

impl Finished {
    const fn new(value: Value, ran: Ran) -> Self {
        Self {
            value,
            ran,
            measured: None,
        }
    }
}

/// What a command runs on, and who judges what it changes.
pub(super) struct Ground<'a, 'p> {
    pub(super) workspace: &'a Workspace,
    pub(super) sandboxes: &'a Sandboxes,
    pub(super) changes: &'a Changes<'p>,
    /// Where its sandbox may be kept.
    pub(super) warm: Option<&'a Arc<Warm>>,
    /// For whom it runs.
    pub(super) outer: &'a Outer<'a>,
}

impl Planned {
    /// The stage it runs on, if it does on one.
    pub(crate) fn stage(&self) -> Option<&str> {
        self.job.named_stage()
    }

    /// Runs it. The attempt is recorded; this is the effect.
    pub(crate) fn run(
        self,
        outer: &Outer<'_>,
        attached: Option<Attached<'_>>,
        changes: &Changes<'_>,
    ) -> Result<Finished, ProcessFailure> {
        let kernel = outer.kernel();
        let ground = Ground {
            workspace: kernel.workspace(),
            sandboxes: kernel.sandboxes(),
            changes,
            warm: kernel.warm(),
            outer,
        };
        let Some(attached) = attached.filter(|_| self.job.work == Work::Command) else {
            return self.captured(&ground);
        };
        let ran = self.within(&ground, attached)?;
        let value = told(&ran);
        Ok(Finished::new(value, ran))
    }

    /// Changes files beside the command that asks for it, in that one's sandbox.
    #[cfg(target_os = "linux")]
    pub(crate) fn run_beside(mut self, within: &Within) -> Result<Finished, ProcessFailure> {
        let command = Command {
            arguments: self.job.command.iter().map(Into::into).collect(),
            environment: std::mem::take(&mut self.environment),
            directory: None,
            lasting: false,
        };
        let (order, directory) = (self.job.stdin.as_deref(), self.made.plan.directory());
        let begun = std::time::Instant::now();
        let control = within.control();
        let beside = control.beside(&command, directory, order.unwrap_or_default(), STDOUT)?;
        let ended = Ended {
            outcome: beside.outcome,
            not_started: None,
            wall: begun.elapsed(),
            stdout: beside.output.len() as u64,
            stderr: 0,
            peak_memory: None,
            refusals: Vec::new(),
        };
        // Which walls stand is in the report of the command.
        let mut ran = Ran::new(ended, Value::Null, within.sandbox().as_str());
        ran.stage = Some(within.stage().to_owned());
        let value = files::answer(&String::from_utf8_lossy(&beside.output), &ran)?;
        Ok(Finished::new(value, ran))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn run_beside(self, _: &Within) -> Result<Finished, ProcessFailure> {
        Err(ProcessFailure::Unsupported)
    }

    fn captured(self, ground: &Ground<'_, '_>) -> Result<Finished, ProcessFailure> {
        let work = self.job.work.clone();
        let begun = std::time::SystemTime::now();
        let beside = match &work {
            Work::Tests(reading) if reading.mark.is_some() => testing::BESIDE,
            Work::Tests(_)
            | Work::Command
            | Work::Files(_)
            | Work::Git(_)
            | Work::Unavailable(_) => 0,
        };
        // Half of what is kept is the end, where a report is.
        let (mut stdout, mut stderr) = (Kept::new(STDOUT + 2 * beside), Kept::new(STDERR));
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
        let secrets = ground.changes.secrets(ground.outer.kernel());
        let (mut stdout, mut cut_out) = stdout.text(&secrets);
        let (stderr, cut_err) = stderr.text(&secrets);
        let mut measured = None;
        match work {
            Work::Command | Work::Unavailable(_) => {}
            Work::Files(_) => {
                let value = files::answer(&stdout, &ran)?;
                return Ok(Finished::new(value, ran));
            }
            Work::Git(_) if cut_out => {
                let what = "git's answer is longer than is kept: ask for one path, or for fewer";
                return Err(ProcessFailure::Output(what.to_owned()));
            }
            Work::Git(reading) => {
                let value = git::answer(reading, &stdout, &stderr, &ran, ground.changes)?;
                return Ok(Finished::new(value, ran));
            }
            Work::Tests(reading) => {
                let report = match &reading.mark {
                    Some(mark) => {
                        let (printed, report) = testing::parted(&stdout, mark);
                        let mut kept = Kept::new(STDOUT);
                        let _ = kept.write_all(printed.as_bytes());
                        let (short, cut) = kept.text(&secrets);
                        (stdout, cut_out) = (short, cut_out || cut);
                        report
                    }
                    None => Err(testing::Missing::Report),
                };
                let printed = format!("{stdout}\n{stderr}");
                let counts = testing::counted(reading.framework, &printed);
                if let Some(object) = value.as_object_mut() {
                    object.insert("framework".to_owned(), json!(reading.framework));
                    object.insert("tests".to_owned(), json!(counts));
                }
                if reading.coverage {
                    let found = covered(ground, &ran, begun, &reading, report);
                    if let Some(object) = value.as_object_mut() {
                        object.extend(testing::told_coverage(&found));
                    }
                    measured = Some(found);
                }
            }
        }
        if let Some(object) = value.as_object_mut() {
            object.insert("stdout".to_owned(), Value::String(stdout));
            object.insert("stderr".to_owned(), Value::String(stderr));
            object.insert("truncated".to_owned(), Value::Bool(cut_out || cut_err));
        }
        Ok(Finished {
            measured,
            ..Finished::new(value, ran)
        })
    }

    #[cfg(target_os = "linux")]
    fn within(
        mut self,
        ground: &Ground<'_, '_>,
        attached: Attached<'_>,
    ) -> Result<Ran, ProcessFailure> {
        let command = Command {
            arguments: self.job.started().iter().map(Into::into).collect(),
            environment: std::mem::take(&mut self.environment),
            directory: None,
            lasting: false,
        };
        match self.job.staging {
            Staging::Stage(_) => InStage(ground).run(&mut self, &command, attached),
            Staging::Session | Staging::None => {
                let mut started = self.standing(ground.workspace, ground.sandboxes)?;
                let ran = self.one_command(ground, &mut started.sandbox, &command, attached)?;
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

/// What a run of the tests covered of the stage it ran in.
fn covered(
    ground: &Ground<'_, '_>,
    ran: &Ran,
    begun: std::time::SystemTime,
    reading: &testing::Reading,
    report: Result<String, testing::Missing>,
) -> Result<testing::Measured, testing::Missing> {
    let stage = ran.stage.as_deref().unwrap_or_default();
    let root = stages::view(ground.workspace, stage).map_err(|_| testing::Missing::Report)?;
    let is_source = |path: &str| ground.changes.is_source(path);
    let seen = testing::Seen {
        root: &root,
        is_source: &is_source,
        begun,
    };
    seen.measured(reading, report)
}

#[cfg(target_os = "linux")]
impl Planned {
    /// Runs one command in a sandbox. Whatever it started ends with it.
    pub(super) fn one_command(
        &self,
        ground: &Ground<'_, '_>,
        sandbox: &mut Sandbox,
        command: &Command,
        attached: Attached<'_>,
    ) -> Result<Ran, ProcessFailure> {
        let run = Run(Reins::of(sandbox));
        (attached.started)(Arc::clone(&run.0) as Arc<dyn Steering>);
        let streams = Streams {
            stdin: attached.stdin,
            stdout: attached.stdout,
            stderr: attached.stderr,
            terminal: attached.terminal,
        };
        let ended = match &self.job.work {
            Work::Command | Work::Tests(_) => ground.outer.run(sandbox, command, streams)?,
            // Programs of our own have nothing to ask.
            Work::Files(_) | Work::Git(_) | Work::Unavailable(_) => {
                sandbox.run(command, streams)?
            }
        };
        let report = serde_json::to_value(sandbox.report()).unwrap_or_default();
        Ok(Ran::new(ended, report, sandbox.id()))
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
    let mut told = json!({
        "outcome": ran.word(),
        "exit": ran.exit(),
        "limit": ran.limit(),
        "wall_ms": ran.wall_ms,
        "stage": ran.stage,
        "changes": ran.changes,
        "refusals": refusals,
        "put_back": ran.put_back,
    });
    if let (Some(why), Value::Object(told)) = (ran.not_started, &mut told) {
        told.insert("not_started".to_owned(), json!(why));
    }
    told
}
