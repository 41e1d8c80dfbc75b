//! Bubblewrap, by starting it and attempting inside what must not succeed.
//!
//! It is given what the launcher would give it: the same arguments from a plan, and the same filter.

use super::act::{TASK, Task, answers};
use super::machine::{Bubble, Forbidden, Refusals};
use super::place::{Ground, Laid, Place, home};
use super::trial::{Helper, system_program};
use crate::base;
use crate::generate::{BwrapFacts, Mask, bwrap};
use crate::plan::{HostPath, View};
use crate::seccomp::{Architecture, Instruction, Profile, compile};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Starts bubblewrap, if there is one.
pub(super) fn tried(ground: Ground<'_>, helper: Helper<'_>) -> Option<Bubble> {
    let program = system_program("bwrap")?;
    let version = version(&program).unwrap_or_default();
    Some(Bubble {
        path: program.display().to_string(),
        version,
        refusals: attempt(&program, ground, helper),
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

fn attempt(program: &Path, ground: Ground<'_>, helper: Helper<'_>) -> Result<Refusals, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let place = Place::new(ground).map_err(|error| text(&error))?;
    let laid = Laid::out(&place).map_err(|error| text(&error))?;
    let plan = place.plan(View::ReadOnly, helper.program, |_| {})?;
    let home = home()?;
    let base = base::detect(Path::new("/"), &home);
    let denied = HostPath::new(place.path("tree/denied")).map_err(|error| text(&error))?;
    let filter = filter()?;
    let facts = BwrapFacts {
        system: &base.system,
        masks: &[Mask::File(denied)],
        home: &home,
        stage: None,
        filter_descriptor: filter.as_raw_fd().cast_unsigned(),
    };
    let arguments = bwrap(&plan, &facts, &helper.words()).map_err(|error| text(&error))?;
    let task = serde_json::to_string(&Task::Attempt(laid.bait.clone()));
    let output = started(program)
        .args(&arguments.arguments)
        .env(TASK, task.map_err(|error| text(&error))?)
        .output()
        .map_err(|error| text(&error))?;
    drop(filter);
    let said = String::from_utf8_lossy(&output.stdout);
    let mut refusals: Refusals = answers(&said).into_iter().collect();
    if refusals.is_empty() {
        return Err(complaint(&output));
    }
    // A stage and patterns are for the launcher to add; here the tree is read-only.
    refusals.remove(&Forbidden::WriteTree);
    refusals.remove(&Forbidden::ReadPattern);
    if !laid.alive() {
        refusals.insert(Forbidden::Kill, Err("it was killed".to_owned()));
    }
    Ok(refusals)
}

/// The last thing it said before it gave up.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_default().trim();
    if last.is_empty() {
        format!("it ended with {}", output.status)
    } else {
        last.chars().take(200).collect()
    }
}

/// The filter in a file that bubblewrap inherits. It is no secret.
fn filter() -> Result<OwnedFd, String> {
    let unknown = || "there is no filter for this processor".to_owned();
    let architecture = Architecture::find(std::env::consts::ARCH).ok_or_else(unknown)?;
    let program = compile(Profile::Standard, architecture).map_err(|error| error.to_string())?;
    let bytes: Vec<u8> = program.into_iter().flat_map(laid_out).collect();
    let written = (|| {
        let file = memfd_create(c"filter", MemfdFlags::empty())?;
        let mut left = bytes.as_slice();
        while !left.is_empty() {
            let written = rustix::io::write(&file, left)?;
            left = left.get(written..).unwrap_or_default();
        }
        rustix::fs::seek(&file, SeekFrom::Start(0))?;
        Ok(file)
    })();
    written.map_err(|error: rustix::io::Errno| error.to_string())
}

fn laid_out(instruction: Instruction) -> [u8; 8] {
    let [code, more] = instruction.code.to_ne_bytes();
    let [a, b, c, d] = instruction.operand.to_ne_bytes();
    let (yes, no) = (instruction.jump_true, instruction.jump_false);
    [code, more, yes, no, a, b, c, d]
}
