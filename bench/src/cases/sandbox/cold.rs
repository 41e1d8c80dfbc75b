//! From nothing to the end of `true`: the whole command, and the library alone, beside `bwrap` in
//! turns; then beside the slower peers.

use super::peers::{Peer, Ready, bwrap};
use super::person::plain_command;
use super::place::{DENIED, Place, run};
use crate::failure::Failure;
use crate::measure::{self, Samples, median_ratio};
use crate::programs;
use crate::table::Row;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BWRAP_WANTED: &str = "at most 1.5 x";
const BWRAP_MOST: f64 = 1.5;
const SLOW_WANTED: &str = "at least 20 x faster";
const SLOW_LEAST: f64 = 20.0;

/// Runs of everything quick; runs beside peers that take a good part of a second.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) quick: usize,
    pub(super) slow: usize,
}

/// One of ours: how it is named, and whether the target is on it.
struct Ours<'a> {
    what: &'static str,
    is_target: bool,
    run: Box<dyn FnMut() -> Result<(), Failure> + 'a>,
}

pub(super) fn rows(
    person: &str,
    home: &Path,
    peers: &[Peer],
    times: Times,
) -> Result<Vec<Row>, Failure> {
    let place = Place::small(home, "library")?;
    let used = Used::begin(home);
    let (mut ours, mut rows) = (Vec::new(), Vec::new());
    match &used {
        Ok(used) => ours.push(used.ours()?),
        Err(why) => {
            let what = format!("{USED} as {person}");
            let why = format!("it does not run: {why}");
            rows.push(Row::missing(what, BWRAP_WANTED, why));
        }
    }
    ours.push(alone(home)?);
    ours.push(library(&place));
    match bwrap(home) {
        Ready::Is(mut peer) => rows.extend(beside_bwrap(person, &mut ours, &mut peer, times)?),
        Ready::Not(why) => {
            let what = format!("cold start as {person} against bwrap");
            rows.push(Row::missing(what, BWRAP_WANTED, why));
        }
    }
    for peer in peers {
        rows.extend(beside_slow(person, &mut ours, peer, home, times)?);
    }
    Ok(rows)
}

fn library(place: &Place) -> Ours<'_> {
    Ours {
        what: "cold library `start`, `run`, `stop`",
        is_target: false,
        run: Box::new(move || {
            let mut sandbox = place.start(&[DENIED])?;
            run(&mut sandbox, &["/bin/true"])?;
            sandbox.stop();
            Ok(())
        }),
    }
}

/// The whole command where none came before it: it does all by itself, and leaves nothing running.
fn alone(home: &Path) -> Result<Ours<'_>, Failure> {
    let mut command = airlock(home, "alone", &["exec", "--", "true"])?;
    command.env("AIRLOCK_KERNEL_START", "never");
    Ok(Ours {
        what: "a first `airlock exec -- true`, without a kernel",
        is_target: false,
        run: Box::new(move || once(&mut command)),
    })
}

/// The whole command, on a workspace of its own.
fn airlock(home: &Path, workspace: &str, words: &[&str]) -> Result<Command, Failure> {
    let workspace = home.join(workspace);
    std::fs::create_dir_all(&workspace)?;
    std::fs::write(workspace.join("README.md"), "# A workspace\n")?;
    let program = programs::handed_out("airlock")?;
    let mut command = plain_command(program, home);
    command.args(words).current_dir(workspace);
    Ok(command)
}

/// A workspace in which commands were run before, so that they started a kernel for those to come. It
/// ends with this.
struct Used<'a> {
    home: &'a Path,
}

const USED: &str = "cold `airlock exec -- true`";

/// How many commands may run until a kernel takes one.
const BEFORE: usize = 200;

impl<'a> Used<'a> {
    fn begin(home: &'a Path) -> Result<Self, Failure> {
        let used = Self { home };
        let mut command = used.airlock(&["exec", "--", "true"])?;
        for _ in 0..BEFORE {
            undisturbed(&mut || once(&mut command))?;
            if used.calls().is_ok_and(|calls| calls > 0) {
                return Ok(used);
            }
        }
        let why = format!("{BEFORE} commands started no kernel for those to come");
        Err(Failure::new(why))
    }

    fn airlock(&self, words: &[&str]) -> Result<Command, Failure> {
        airlock(self.home, "used", words)
    }

    /// The whole command, which that kernel is seen to take.
    fn ours(&self) -> Result<Ours<'a>, Failure> {
        let mut command = self.airlock(&["exec", "--", "true"])?;
        let before = self.calls()?;
        once(&mut command)?;
        if self.calls()? <= before {
            return Err(Failure::new("the kernel that runs did not run the command"));
        }
        Ok(Ours {
            what: USED,
            is_target: true,
            run: Box::new(move || once(&mut command)),
        })
    }

    /// How many calls the kernel has taken.
    fn calls(&self) -> Result<u64, Failure> {
        let output = self.airlock(&["kernel", "status", "--json"])?.output()?;
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let calls = told.get("calls").and_then(serde_json::Value::as_u64);
        calls.ok_or_else(|| Failure::new(format!("the kernel does not say its calls: {told}")))
    }
}

impl Drop for Used<'_> {
    fn drop(&mut self) {
        if let Ok(mut stop) = self.airlock(&["kernel", "stop"]) {
            // One that does not stop ends by itself when nobody asks it anything for long.
            let _stopped = once(&mut stop);
        }
    }
}

/// Runs a whole command; what it says counts only if it fails.
pub(super) fn once(command: &mut Command) -> Result<(), Failure> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if command.status()?.success() {
        return Ok(());
    }
    let output = command.stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = said.lines().next().unwrap_or("").to_owned();
    Err(Failure::new(format!("{}, {said}", output.status)))
}

/// What a run leaves to be done: namespaces that end, and a kernel's next sandbox. It is not to be in
/// the time of whoever comes next.
const AFTERMATH: Duration = Duration::from_millis(30);

fn undisturbed(run: &mut dyn FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    std::thread::sleep(AFTERMATH);
    let start = Instant::now();
    run()?;
    Ok(measure::nanos(start.elapsed()))
}

fn beside_bwrap(
    person: &str,
    ours: &mut [Ours<'_>],
    peer: &mut Command,
    times: Times,
) -> Result<Vec<Row>, Failure> {
    let mut found = vec![Vec::with_capacity(times.quick); ours.len()];
    let mut theirs = Vec::with_capacity(times.quick);
    for ours in ours.iter_mut() {
        (ours.run)()?;
    }
    for _ in 0..times.quick {
        theirs.push(undisturbed(&mut || once(peer))?);
        for (ours, found) in ours.iter_mut().zip(&mut found) {
            found.push(undisturbed(&mut ours.run)?);
        }
    }
    let rows = ours.iter().zip(found).map(|(ours, found)| {
        let ratio = median_ratio(&found, &theirs);
        let row = Row::new(format!("{} as {person}, p50 / p99", ours.what))
            .measured(middle_and_tail(found))
            .against(format!("{} bwrap", middle_and_tail(theirs.clone())))
            .ratio(ratio);
        if ours.is_target {
            row.wanted(BWRAP_WANTED, ratio <= BWRAP_MOST)
        } else {
            row
        }
    });
    Ok(rows.collect())
}

fn middle_and_tail(nanos: Vec<f64>) -> String {
    let samples = Samples::new(nanos);
    let (middle, tail) = (samples.median(), samples.at(99));
    format!(
        "{} / {}",
        measure::time_text(middle),
        measure::time_text(tail)
    )
}

fn beside_slow(
    person: &str,
    ours: &mut [Ours<'_>],
    peer: &Peer,
    home: &Path,
    times: Times,
) -> Result<Vec<Row>, Failure> {
    let named = |what: &str| format!("{what} as {person}, p50, against {}", peer.name);
    let mut command = match peer.ready(home) {
        Ready::Is(command) => command,
        Ready::Not(why) => {
            let what = named("cold start");
            return Ok(vec![Row::missing(what, SLOW_WANTED, why)]);
        }
    };
    let mut found = vec![Vec::new(); ours.len()];
    let mut theirs = Vec::new();
    for _ in 0..times.slow {
        theirs.push(undisturbed(&mut || once(&mut command))?);
        for (ours, found) in ours.iter_mut().zip(&mut found) {
            found.push(undisturbed(&mut ours.run)?);
        }
    }
    let rows = ours.iter().zip(found).map(|(ours, found)| {
        let faster = median_ratio(&theirs, &found);
        let (found, theirs) = (Samples::new(found), Samples::new(theirs.clone()));
        let row = Row::new(named(ours.what))
            .measured(measure::time_text(found.median()))
            .against(format!(
                "{} {}",
                measure::time_text(theirs.median()),
                peer.name
            ))
            .faster(faster);
        if ours.is_target {
            row.wanted(SLOW_WANTED, faster >= SLOW_LEAST)
        } else {
            row
        }
    });
    Ok(rows.collect())
}
