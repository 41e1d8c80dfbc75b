//! A sandbox started for the purpose of being broken out of.

use super::act::{self, BEAT, TASK, Task, answers};
use super::machine::{Forbidden, Limited, Refusals, Trial};
use super::place::{Ground, Laid, Place, REAL};
use crate::launch::{Command, Stdin, Streams};
use crate::lifecycle::Outcome;
use crate::linux::sandbox::{Sandbox, start};
use crate::plan::{Limit, Limits};
use airlock_core::{ByteSize, Span};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The program that acts inside: itself, and what makes it act.
#[derive(Debug, Clone, Copy)]
pub(super) struct Helper<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [OsString],
}

impl Helper<'_> {
    pub(super) fn words(self) -> Vec<OsString> {
        let program = std::iter::once(self.program.as_os_str().to_owned());
        program.chain(self.arguments.iter().cloned()).collect()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Starts sandboxes on `ground` and attempts in them what must not succeed.
pub(super) fn native(ground: Ground<'_>, helper: Helper<'_>) -> Result<Trial, String> {
    let place = Place::new(ground).map_err(text)?;
    let laid = Laid::out(&place).map_err(|error| format!("cannot lay out bait: {error}"))?;
    let launch = place.launch(helper.program, |_| {})?;
    let mut sandbox = start(launch).map_err(text)?;
    let task = Task::Attempt(laid.bait.clone());
    let (outcome, said) = run(&mut sandbox, helper, &task)?;
    let mut refusals: Refusals = answers(&said).into_iter().collect();
    if refusals.is_empty() {
        return Err(format!("nothing could be attempted inside: {outcome:?}"));
    }
    seen_from_outside(&mut refusals, &place, &laid);
    run(&mut sandbox, helper, &Task::Linger)?;
    let beats = place.path("stage/upper/beat");
    refusals.insert(Forbidden::OutliveCommand, falls_silent(&beats));
    drop(sandbox);
    let supervised = outlive_supervisor(ground, helper);
    refusals.insert(Forbidden::OutliveSupervisor, supervised);
    let limits = limits(ground, helper)?;
    Ok(Trial { refusals, limits })
}

/// What only somebody outside can tell.
pub(super) fn seen_from_outside(refusals: &mut Refusals, place: &Place, laid: &Laid) {
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap_or_default();
    let landed = match (
        read("tree/file").as_str(),
        read("stage/upper/file").as_str(),
    ) {
        (REAL, "changed") => Ok("it landed in the stage".to_owned()),
        (REAL, _) => Err("it landed nowhere".to_owned()),
        (_, _) => Err("the real tree was changed".to_owned()),
    };
    refusals.entry(Forbidden::WriteTree).or_insert(landed);
    let alive = laid.alive();
    let ended = laid.end();
    if !alive {
        refusals.insert(Forbidden::Kill, Err("it was killed".to_owned()));
    } else if !ended {
        refusals.insert(Forbidden::Kill, Err("nobody can kill it".to_owned()));
    }
}

/// Runs a task inside: how that ended, and what it said.
pub(super) fn run(
    sandbox: &mut Sandbox,
    helper: Helper<'_>,
    task: &Task,
) -> Result<(Outcome, String), String> {
    let task = serde_json::to_string(task).map_err(text)?;
    let command = Command {
        arguments: helper.words(),
        environment: [
            ("PATH".into(), "/usr/bin:/bin".into()),
            (TASK.into(), task.into()),
        ]
        .into(),
        ..Command::default()
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let ended = sandbox.run(&command, streams).map_err(text)?;
    if let Some(reason) = ended.not_started {
        return Err(format!("the probe does not start inside: {reason:?}"));
    }
    Ok((ended.outcome, String::from_utf8_lossy(&out).into_owned()))
}

/// How long something that was ended may take to be seen gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether what writes to `beats` stops.
fn falls_silent(beats: &Path) -> Result<String, String> {
    let length = || fs::metadata(beats).map_or(0, |metadata| metadata.len());
    if length() == 0 {
        return Err("nothing was left behind to be ended".to_owned());
    }
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let before = length();
        std::thread::sleep(BEAT * 12);
        if length() == before {
            return Ok("it was ended".to_owned());
        }
    }
    Err("it went on".to_owned())
}

/// Kills a supervisor, and sees whether what it started goes on.
fn outlive_supervisor(ground: Ground<'_>, helper: Helper<'_>) -> Result<String, String> {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new(ground).map_err(text)?;
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let task = Task::Supervise {
        root: bytes(place.root()),
        registry: bytes(ground.registry),
    };
    let task = serde_json::to_string(&task).map_err(text)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a supervisor to be killed: this program itself"
    )]
    let mut supervisor = std::process::Command::new(helper.program)
        .args(helper.arguments)
        .env_clear()
        .env(TASK, task)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .map_err(text)?;
    let beats = place.path("stage/upper/beat");
    let begun = Instant::now();
    while fs::metadata(&beats).map_or(0, |metadata| metadata.len()) == 0
        && begun.elapsed() < PATIENCE
    {
        std::thread::sleep(BEAT);
    }
    supervisor.kill().map_err(text)?;
    supervisor.wait().map_err(text)?;
    let silent = falls_silent(&beats);
    // Its cgroup and its note are still there. What cannot be removed now is tried again later.
    let _collected = crate::linux::collect(ground.registry);
    silent
}

/// The supervisor that is going to be killed.
pub(super) fn supervise(root: &Path, registry: &Path, out: &mut dyn Write) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let helper = Helper {
        program: &program,
        arguments: &arguments,
    };
    let launch = Place::of_another(root, registry).launch(&program, |_| {});
    let mut sandbox = start(launch.map_err(io::Error::other)?).map_err(io::Error::other)?;
    let ended = run(&mut sandbox, helper, &Task::Beat).map_err(io::Error::other)?;
    act::say(out, &format!("{ended:?}"))
}

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 64 * MIB;
const THREADS: u32 = 16;
const OUTPUT: u64 = 64 << 10;
const FILE: u64 = MIB;
const BUSY: u64 = 400;
/// Half a processor.
const CPUS: u32 = 500;

fn small(limits: &mut Limits) {
    limits.memory = ByteSize::from_bytes(MEMORY);
    limits.cpus = CPUS;
    limits.pids = THREADS;
    limits.stdout = ByteSize::from_bytes(OUTPUT);
    limits.file_size = ByteSize::from_bytes(FILE);
    limits.duration = Span::from_secs(20);
}

/// Goes over every limit.
fn limits(ground: Ground<'_>, helper: Helper<'_>) -> Result<BTreeMap<Limit, Limited>, String> {
    let mut found = BTreeMap::new();
    for limit in Limit::ALL {
        let place = Place::new(ground).map_err(text)?;
        let launch = place.launch(helper.program, |limits| {
            small(limits);
            if *limit == Limit::Duration {
                limits.duration = Span::from_millis(100);
            }
        })?;
        let mut sandbox = start(launch).map_err(text)?;
        let task = match limit {
            Limit::Memory => Task::Memory(MEMORY * 3),
            Limit::Cpus => Task::Burn(BUSY),
            Limit::Pids => Task::Threads(THREADS * 4),
            Limit::Duration => Task::Sleep(10_000),
            Limit::Output => Task::Output(OUTPUT * 4),
            Limit::FileSize => Task::File(FILE * 2),
        };
        let (outcome, said) = run(&mut sandbox, helper, &task)?;
        let held = sandbox.report().limits().get(limit);
        let Some(held) = held else { continue };
        found.insert(
            *limit,
            Limited {
                class: held.class,
                by: held.how.clone(),
                tried: stopped(*limit, outcome, &said),
            },
        );
    }
    Ok(found)
}

/// Whether `outcome` is that of a limit that holds.
fn stopped(limit: Limit, outcome: Outcome, said: &str) -> Result<String, String> {
    let told = |holds: bool, how: &str| {
        if holds {
            Ok(how.to_owned())
        } else {
            Err(format!("it ended otherwise: {outcome:?}"))
        }
    };
    match limit {
        Limit::Memory => told(outcome == Outcome::OutOfMemory, "ended when over"),
        Limit::Cpus => {
            let used: Option<u64> = answers(said).first().copied();
            match used {
                Some(used) if used < BUSY * 4 / 5 => {
                    Ok(format!("ran {used} ms of {BUSY} at half a processor"))
                }
                Some(used) => Err(format!("ran {used} ms of {BUSY} at half a processor")),
                None => told(false, ""),
            }
        }
        // The program may see its thread refused and end by itself.
        Limit::Pids => told(
            matches!(outcome, Outcome::TooManyProcesses | Outcome::Exited(1..)),
            "refused one more",
        ),
        Limit::Duration => told(outcome == Outcome::TimedOut, "ended in time"),
        Limit::Output => told(outcome == Outcome::TooMuchOutput, "ended when over"),
        Limit::FileSize => told(outcome == Outcome::FileTooLarge, "ended when over"),
    }
}

/// Where a program of the system is: only where nobody but root puts one.
pub(super) fn system_program(name: &str) -> Option<PathBuf> {
    [
        "/usr/bin",
        "/bin",
        "/usr/local/bin",
        "/run/wrappers/bin",
        "/run/current-system/sw/bin",
    ]
    .iter()
    .map(|directory| Path::new(directory).join(name))
    .find(|path| path.is_file())
}
