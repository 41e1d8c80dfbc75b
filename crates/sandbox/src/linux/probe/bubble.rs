//! Bubblewrap, by starting a sandbox with it and attempting inside what must not succeed.

use super::act::{Task, answers};
use super::machine::{Bubble, Forbidden, Refusals};
use super::place::{Ground, Laid, Place};
use super::trial::{Helper, run, seen_from_outside, system_program};
use crate::linux::start_with;
use crate::report::Launcher;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts bubblewrap, if there is one.
pub(super) fn tried(ground: Ground<'_>, helper: Helper<'_>) -> Option<Bubble> {
    let program = system_program("bwrap")?;
    let version = version(&program).unwrap_or_default();
    Some(Bubble {
        path: program.display().to_string(),
        version,
        refusals: attempt(ground, helper),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "bubblewrap is what is being tried"
)]
fn started(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null());
    command
}

fn version(program: &Path) -> Option<String> {
    let output = started(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split_whitespace().last()?.to_owned())
}

fn attempt(ground: Ground<'_>, helper: Helper<'_>) -> Result<Refusals, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let place = Place::new(ground).map_err(|error| text(&error))?;
    let laid = Laid::out(&place).map_err(|error| text(&error))?;
    place.copy_tree().map_err(|error| text(&error))?;
    let launch = place.launch_on_copy(helper.program)?;
    let started = start_with(Launcher::Bwrap, launch);
    let mut sandbox = started.map_err(|error| text(&error))?;
    let task = Task::Attempt(laid.bait.clone());
    let (outcome, said) = run(&mut sandbox, helper, &task)?;
    let mut refusals: Refusals = answers(&said).into_iter().collect();
    if refusals.is_empty() {
        return Err(format!("nothing could be attempted inside: {outcome:?}"));
    }
    // Its launcher refuses plans with patterns, so there is none to try.
    refusals.remove(&Forbidden::ReadPattern);
    seen_from_outside(&mut refusals, &place, &laid);
    Ok(refusals)
}
