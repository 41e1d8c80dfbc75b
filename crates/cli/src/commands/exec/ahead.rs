//! What `airlock exec` begins before it has read its command line to the end.
//!
//! A sandbox takes longer to be made than anything else on the way to a command's first instruction,
//! and little of it depends on what was asked. So it is begun first, and the line, the policy and the
//! log are read beside it. Nothing runs in it before the attempt is recorded; where it turns out not
//! to be wanted, it is gone with this process. Where a kernel runs that may take the command, it is
//! said hello to instead, and greets while the line is read.

use super::super::{doctor, open};
use crate::args::Global;
use crate::failure::Failure;
use crate::place::{Place, variable};
use airlock_core::WorkspaceId;
use airlock_kernel::{Front, Sandboxes, Workspace, WorkspaceError};
use airlock_service::{Hailed, Remote, Settings};
use std::ffi::OsString;

/// What is begun of a command.
pub(crate) enum Begun {
    /// The kernel that runs may take it.
    There(Hail),
    /// None runs: it is this process's.
    Here(Ahead),
}

/// A workspace with a kernel that was said hello to.
pub(crate) struct Hail {
    pub(super) place: Place,
    workspace: WorkspaceId,
    hailed: Hailed,
}

/// A workspace without a running kernel, and a sandbox in the making for it.
pub(crate) struct Ahead {
    pub(in super::super) place: Place,
    pub(in super::super) workspace: Workspace,
    pub(in super::super) sandboxes: Sandboxes,
}

impl Begun {
    /// Begins, if `line` is plainly an `airlock exec` in the workspace one stands in. Anything else is
    /// left to whoever reads the whole line.
    pub(crate) fn of(line: &[OsString]) -> Option<Self> {
        if !is_plain(line) || variable("AIRLOCK_WORKSPACE").is_some() {
            return None;
        }
        let place = Place::find(None).ok()?;
        match Hail::to(place).ok()? {
            Ok(hail) => Some(Self::There(hail)),
            Err(place) => Ahead::at(place).ok().map(Self::Here),
        }
    }
}

impl Hail {
    /// Says hello to the kernel that runs, if `line` is plainly an `airlock exec` in the workspace one
    /// stands in. None where that brings settings: whether they count takes judging all that they came
    /// with.
    pub(super) fn of(line: &[OsString]) -> Option<Self> {
        let place = is_plain(line).then(|| Place::find(None).ok()).flatten()?;
        let place = Some(place).filter(|place| !place.has_settings())?;
        Self::to(place).ok()?.ok()
    }

    /// Says hello in the workspace the whole line names, if a kernel runs there.
    pub(super) fn find(global: &Global) -> Result<Option<Self>, Failure> {
        let place = Place::find(global.workspace.as_deref())?;
        Ok(Self::to(place)?.ok())
    }

    /// Gives the place back where none runs.
    fn to(place: Place) -> Result<Result<Self, Place>, Failure> {
        let (state, workspace) = open::state(&place)?;
        Ok(match Remote::hail(&state, Front::Cli) {
            Some(hailed) => Ok(Self {
                place,
                workspace,
                hailed,
            }),
            None => Err(place),
        })
    }

    /// The kernel, if it is as one of this command's own would be.
    pub(super) fn found(self, settings: &Settings) -> Option<Remote> {
        self.hailed.found(&self.workspace, settings)
    }
}

impl Ahead {
    /// Begins in the workspace the whole line names.
    pub(super) fn here(global: &Global) -> Result<Self, Failure> {
        let place = Place::find(global.workspace.as_deref())?;
        Self::at(place).map_err(|error| open::start_failure(error.into()))
    }

    fn at(place: Place) -> Result<Self, WorkspaceError> {
        let sandboxes = Sandboxes::ahead(None);
        let workspace = Workspace::open(&place.workspace, &place.state_home)?;
        let sandboxes = sandboxes.on(doctor::ladder(&place));
        sandboxes.dress(place.machine(), &workspace);
        Ok(Self {
            place,
            workspace,
            sandboxes,
        })
    }
}

/// Whether it is `exec`, with a command after `--`, and names no other workspace.
fn is_plain(line: &[OsString]) -> bool {
    let [_, command, rest @ ..] = line else {
        return false;
    };
    let Some(end) = rest.iter().position(|word| word == "--") else {
        return false;
    };
    let mut flags = rest.iter().take(end);
    let elsewhere = |word: &OsString| {
        let word = word.as_encoded_bytes();
        word.starts_with(b"--workspace") || word.starts_with(b"--help") || word == b"-h"
    };
    command == "exec" && end + 1 < rest.len() && !flags.any(elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_in_the_workspace_one_stands_in_is_begun_early() {
        for (line, want) in [
            ("airlock exec -- true", true),
            ("airlock exec --json --deny **/.env -- cat x", true),
            ("airlock exec -- ls --workspace", true),
            ("airlock exec --", false),
            ("airlock exec true", false),
            ("airlock exec --workspace /x -- true", false),
            ("airlock exec --workspace=/x -- true", false),
            ("airlock exec --help -- true", false),
            ("airlock --json exec -- true", false),
            ("airlock tool list -- true", false),
            ("airlock", false),
        ] {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_plain(&line), want, "{line:?}");
        }
    }
}
