//! What live sandboxes take of memory: proportional shares of their inits and of the process that
//! supervises them, with many of them alive.
//!
//! An init cannot be looked at by its own user, so only root measures; whose sandboxes they are
//! does not matter to it.

use super::person::{Hall, Person};
use super::place::{DENIED, Place};
use crate::failure::Failure;
use crate::table::Row;
use airlock_sandbox::Sandbox;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

const WANTED: &str = "under 2 MiB";
const MOST_KIBIBYTES: f64 = 2048.0;

pub(super) fn row(hall: &Hall, person: Person, count: u32) -> Result<Row, Failure> {
    let what = format!("memory of a live sandbox of {person}, {count} alive");
    if Person::own() != Person::Root {
        let why = "root alone may look at an init's memory";
        return Ok(Row::missing(what, WANTED, why));
    }
    let count_text = count.to_string();
    let mut worker = hall.worker(person, "hold", &[count_text.as_ref()])?;
    let mut worker = worker
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let found = look(&mut worker);
    drop(worker.stdin.take());
    let ended = worker.wait()?;
    let (before, supervisor, inits) = found?;
    if !ended.success() {
        return Err(Failure::new("the worker that holds sandboxes failed"));
    }
    let each = |kibibytes: f64| kibibytes / f64::from(count);
    let (supervisor, inits) = (each(supervisor - before), each(inits));
    let all = supervisor + inits;
    Ok(Row::new(what)
        .measured(format!("{all:.0} KiB"))
        .against(format!(
            "a limit; {inits:.0} KiB its init, {supervisor:.0} KiB its supervisor's"
        ))
        .wanted(WANTED, all < MOST_KIBIBYTES))
}

/// The worker's share before, its share with all of them alive, and theirs.
fn look(worker: &mut Child) -> Result<(f64, f64, f64), Failure> {
    let lost = || Failure::new("the worker that holds sandboxes ended early");
    let mut said = worker.stdout.take().map(BufReader::new).ok_or_else(lost)?;
    let mut line = String::new();
    said.read_line(&mut line)?;
    let before = share(worker.id())?;
    worker.stdin.as_mut().ok_or_else(lost)?.write_all(b"\n")?;
    line.clear();
    said.read_line(&mut line)?;
    let inits: Vec<u32> = line
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    if inits.is_empty() {
        return Err(lost());
    }
    let after = share(worker.id())?;
    let mut all = 0.0;
    for init in inits {
        all += share(init)?;
    }
    Ok((before, after, all))
}

/// The proportional share of a process in kibibytes.
fn share(pid: u32) -> Result<f64, Failure> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| Failure::new("no share in smaps_rollup"))
}

/// The worker: waits, starts `count` sandboxes, names their inits, and holds them until it is let go.
pub(super) fn hold(home: &Path, count: usize) -> Result<(), Failure> {
    let mut input = BufReader::new(std::io::stdin());
    // The first one is started and stopped before: what every process sets up once is not theirs.
    Place::small(home, "held")?.start(&[DENIED])?.stop();
    let mut output = std::io::stdout();
    writeln!(output, "none")?;
    output.flush()?;
    input.read_line(&mut String::new())?;
    let mut held: Vec<(Place, Sandbox)> = Vec::with_capacity(count);
    for number in 0..count {
        let place = Place::small(home, &format!("held-{number}"))?;
        let sandbox = place.start(&[DENIED])?;
        held.push((place, sandbox));
    }
    writeln!(output, "{}", children()?)?;
    output.flush()?;
    input.read_to_end(&mut Vec::new())?;
    drop(held);
    Ok(())
}

/// The processes this one started, whichever thread did.
fn children() -> Result<String, Failure> {
    let mut all = String::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        let children = thread?.path().join("children");
        all.push_str(&std::fs::read_to_string(children)?);
    }
    Ok(all)
}
