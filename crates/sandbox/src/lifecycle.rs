//! The states of a sandbox and what leads from one to the next. Pure: who acts is the launcher.
//!
//! ```text
//! creating -> running -> stopping -> cleanup -> destroyed
//!     |        |   ^ \________________^
//!     v        v   |   abnormal end   ^
//!   failed   paused ------------------+
//!     +-------------------------------+
//! ```
//!
//! Every path ends in cleanup, also from paused: a sandbox is never forgotten. Cleanup may be begun
//! again, since each of its steps is idempotent and a crash can interrupt any. A sandbox that runs
//! several commands stays in `running` between them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a sandbox stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Walls are being raised; nothing foreign runs.
    Creating,
    /// Commands run, or can.
    Running,
    /// Everything in it stands still.
    Paused,
    /// Asked to end; being ended.
    Stopping,
    /// It could not be enforced in full, so nothing ran.
    Failed,
    /// Processes, mounts, cgroups, sockets and directories are being removed.
    Cleanup,
    /// Nothing of it is left.
    Destroyed,
}

/// What happens to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Every wall stands.
    Enforced,
    /// A wall could not be raised.
    NotEnforced,
    /// It is to stand still.
    Pause,
    /// It is to go on.
    Resume,
    /// It is to end: finished, cancelled, or no longer needed.
    Stop,
    /// Every process of it has ended after a stop.
    Stopped,
    /// It ended on its own: timeout, a limit, a crash, a dead supervisor.
    Broke,
    /// Its remains are to be removed.
    Clean,
    /// Its remains are gone.
    Cleaned,
}

/// An event that a state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sandbox that is {state} cannot take `{event}`")]
pub struct Refused {
    /// Where it stands.
    pub state: State,
    /// What was asked.
    pub event: Event,
}

impl State {
    /// Every state.
    pub const ALL: &'static [Self] = &[
        Self::Creating,
        Self::Running,
        Self::Paused,
        Self::Stopping,
        Self::Failed,
        Self::Cleanup,
        Self::Destroyed,
    ];

    /// The state after `event`, or a refusal that changes nothing.
    pub const fn after(self, event: Event) -> Result<Self, Refused> {
        match (self, event) {
            (Self::Creating, Event::Enforced) | (Self::Paused, Event::Resume) => Ok(Self::Running),
            (Self::Creating, Event::NotEnforced | Event::Broke | Event::Stop) => Ok(Self::Failed),
            (Self::Running, Event::Pause) => Ok(Self::Paused),
            (Self::Running | Self::Paused, Event::Stop) => Ok(Self::Stopping),
            (Self::Running | Self::Paused | Self::Stopping, Event::Broke)
            | (Self::Stopping, Event::Stopped)
            | (Self::Failed | Self::Cleanup, Event::Clean) => Ok(Self::Cleanup),
            (Self::Cleanup, Event::Cleaned) => Ok(Self::Destroyed),
            (state, event) => Err(Refused { state, event }),
        }
    }

    /// Whether something foreign may be running.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Stopping)
    }
}

impl Event {
    /// Every event.
    pub const ALL: &'static [Self] = &[
        Self::Enforced,
        Self::NotEnforced,
        Self::Pause,
        Self::Resume,
        Self::Stop,
        Self::Stopped,
        Self::Broke,
        Self::Clean,
        Self::Cleaned,
    ];
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Creating => "creating",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
            Self::Cleanup => "cleanup",
            Self::Destroyed => "destroyed",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforced => "enforced",
            Self::NotEnforced => "not enforced",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Stop => "stop",
            Self::Stopped => "stopped",
            Self::Broke => "broke",
            Self::Clean => "clean",
            Self::Cleaned => "cleaned",
        })
    }
}

/// How a command in a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "value")]
pub enum Outcome {
    /// By itself, with a code.
    Exited(u8),
    /// By a signal, which no limit sent.
    Signalled(u8),
    /// Over its time.
    TimedOut,
    /// Over its memory.
    OutOfMemory,
    /// Over its processes and threads.
    TooManyProcesses,
    /// Over its output.
    TooMuchOutput,
    /// Over the size of a file.
    FileTooLarge,
    /// Stopped by whoever started it.
    Cancelled,
}

/// What an exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// 0.
    Success,
    /// 126: found, and not permitted to run.
    NotPermitted,
    /// 127: no such command.
    NotFound,
    /// 128 and a signal's number, as shells report it.
    Signal(u8),
    /// Anything else.
    Failure(u8),
}

impl Meaning {
    /// The meaning of `code`.
    pub const fn of(code: u8) -> Self {
        match code {
            0 => Self::Success,
            126 => Self::NotPermitted,
            127 => Self::NotFound,
            // 64 is the last signal there is.
            129..=192 => Self::Signal(code - 128),
            1..=125 | 128 | 193..=255 => Self::Failure(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn these_transitions_and_no_others() {
        let allowed = [
            (State::Creating, Event::Enforced, State::Running),
            (State::Creating, Event::NotEnforced, State::Failed),
            (State::Creating, Event::Broke, State::Failed),
            (State::Creating, Event::Stop, State::Failed),
            (State::Running, Event::Pause, State::Paused),
            (State::Running, Event::Stop, State::Stopping),
            (State::Running, Event::Broke, State::Cleanup),
            (State::Paused, Event::Resume, State::Running),
            (State::Paused, Event::Stop, State::Stopping),
            (State::Paused, Event::Broke, State::Cleanup),
            (State::Stopping, Event::Stopped, State::Cleanup),
            (State::Stopping, Event::Broke, State::Cleanup),
            (State::Failed, Event::Clean, State::Cleanup),
            (State::Cleanup, Event::Clean, State::Cleanup),
            (State::Cleanup, Event::Cleaned, State::Destroyed),
        ];
        for state in State::ALL.iter().copied() {
            for event in Event::ALL.iter().copied() {
                let found = allowed
                    .iter()
                    .find(|(from, on, _)| (*from, *on) == (state, event));
                let want = found.map_or(Err(Refused { state, event }), |(.., to)| Ok(*to));
                assert_eq!(state.after(event), want, "{state} {event}");
            }
        }
    }

    #[test]
    fn every_state_leads_to_destroyed_and_nothing_leads_out_of_it() {
        for start in State::ALL {
            let mut reached = BTreeSet::from([*start]);
            for _ in State::ALL {
                let next: Vec<State> = reached
                    .iter()
                    .flat_map(|state| {
                        Event::ALL
                            .iter()
                            .filter_map(|event| state.after(*event).ok())
                    })
                    .collect();
                reached.extend(next);
            }
            assert!(reached.contains(&State::Destroyed), "{start}");
        }
        assert!(
            Event::ALL
                .iter()
                .all(|event| State::Destroyed.after(*event).is_err())
        );
    }

    #[test]
    fn nothing_foreign_runs_before_all_is_enforced_or_after_cleanup_began() {
        for state in State::ALL {
            for event in Event::ALL {
                if state.after(*event).is_ok_and(State::is_live) && !state.is_live() {
                    assert_eq!((*state, *event), (State::Creating, Event::Enforced));
                }
            }
        }
    }

    #[test]
    fn exit_codes_have_their_meaning() {
        for (code, want) in [
            (0, Meaning::Success),
            (1, Meaning::Failure(1)),
            (126, Meaning::NotPermitted),
            (127, Meaning::NotFound),
            (128, Meaning::Failure(128)),
            (137, Meaning::Signal(9)),
            (192, Meaning::Signal(64)),
            (193, Meaning::Failure(193)),
            (255, Meaning::Failure(255)),
        ] {
            assert_eq!(Meaning::of(code), want, "{code}");
        }
    }
}
