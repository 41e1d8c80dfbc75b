//! The ladder as `airlock doctor` found it, for whoever runs programs.

use super::here::{RECORD, Site, probed};
use crate::place::Place;
use airlock_kernel::{Ladder, Rung};
use airlock_sandbox::Launcher;
use airlock_sandbox::probe::{self, CacheKey, Findings};
use rustix::process::{Resource, getrlimit};
use std::path::Path;
use std::sync::OnceLock;

/// What was found out, read at most once.
pub(super) struct Probed {
    site: Site,
    known: OnceLock<Option<Rung>>,
}

impl Probed {
    pub(super) fn of(place: &Place) -> Option<Self> {
        Some(Self {
            site: Site::of(place).ok()?,
            known: OnceLock::new(),
        })
    }

    fn remembered(&self) -> Option<Rung> {
        let key = CacheKey::now(&self.site.program).ok()?;
        let findings = probe::cached(&self.site.state.join(RECORD), &key)?;
        Some(rung(&findings))
    }
}

impl Ladder for Probed {
    fn known(&self) -> Option<Rung> {
        self.known.get_or_init(|| self.remembered()).clone()
    }

    fn find_out(&self) -> Rung {
        let Ok(findings) = probed(&self.site) else {
            return Rung::Nothing {
                why: "there is nowhere to try a sandbox".to_owned(),
            };
        };
        if let Ok(key) = CacheKey::now(&self.site.program) {
            keep(&self.site.state.join(RECORD), &key, &findings);
        }
        rung(&findings)
    }
}

/// Descriptors without which a launcher may fail for lack of them.
const DESCRIPTORS: u64 = 256;

/// Keeps what was found out, unless it may say more of who looked than of the machine: that nothing holds
/// is looked at again each time, and what is less than the best where there was little to look with.
pub(super) fn keep(record: &Path, key: &CacheKey, findings: &Findings) {
    let descriptors = getrlimit(Resource::Nofile).current;
    if is_kept(findings, descriptors.unwrap_or(u64::MAX)) {
        // Without a record the next command finds out again: slower, and no less sure.
        let _kept = probe::remember(record, key, findings);
    }
}

fn is_kept(findings: &Findings, descriptors: u64) -> bool {
    match findings.launcher() {
        Some(Launcher::Native) => true,
        Some(Launcher::Bwrap | Launcher::Seatbelt) => descriptors >= DESCRIPTORS,
        None => false,
    }
}

/// What is found out is kept until the next boot: one bad moment of a busy machine must not take the
/// best launcher away for so long, so whoever misses it looks once more.
pub(super) fn looked_twice(mut probe: impl FnMut() -> Findings) -> Findings {
    let first = probe();
    if first.launcher() == Some(Launcher::Native) {
        return first;
    }
    let second = probe();
    if second.launcher().is_some() {
        second
    } else {
        first
    }
}

/// The best rung that holds.
fn rung(findings: &Findings) -> Rung {
    match findings.launcher() {
        Some(Launcher::Native) => Rung::Native,
        Some(Launcher::Bwrap) => Rung::Bwrap,
        Some(Launcher::Seatbelt) | None => {
            let each = findings.ladder.iter();
            let each = each.map(|rung| format!("{}: {}", rung.launcher.name(), rung.reason));
            let why = each.collect::<Vec<_>>().join("; ");
            Rung::Nothing { why }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_sandbox::probe::{Rung as Found, State, Step};

    fn findings(native: State, bwrap: State) -> Findings {
        let found = |launcher, state| Found {
            launcher,
            state,
            reason: "tried".to_owned(),
        };
        Findings {
            findings: Vec::new(),
            rung: None,
            ladder: vec![
                found(Step::Native, native),
                found(Step::Bwrap, bwrap),
                found(Step::Container, State::Missing),
            ],
        }
    }

    #[test]
    fn what_may_be_for_lack_of_descriptors_is_not_kept() {
        for (native, bwrap, descriptors, want) in [
            (State::Works, State::Missing, 20, true),
            (State::Limited, State::Missing, 20, true),
            (State::Missing, State::Works, DESCRIPTORS, true),
            (State::Missing, State::Works, DESCRIPTORS - 1, false),
            (State::Missing, State::Missing, u64::MAX, false),
        ] {
            let kept = is_kept(&findings(native, bwrap), descriptors);
            assert_eq!(kept, want, "{native:?} {bwrap:?} {descriptors}");
        }
    }

    #[test]
    fn what_is_missing_is_looked_for_twice() {
        let (native, bwrap, nothing) = (
            findings(State::Works, State::Works),
            findings(State::Missing, State::Works),
            findings(State::Missing, State::Missing),
        );
        for (found, want, looks) in [
            ([&native, &bwrap], &native, 1),
            ([&bwrap, &native], &native, 2),
            ([&nothing, &native], &native, 2),
            ([&nothing, &bwrap], &bwrap, 2),
            ([&bwrap, &nothing], &bwrap, 2),
            ([&nothing, &nothing], &nothing, 2),
        ] {
            let mut looked = 0;
            let taken = looked_twice(|| {
                looked += 1;
                found[looked - 1].clone()
            });
            assert_eq!((&taken, looked), (want, looks));
        }
    }

    #[test]
    fn the_best_rung_that_holds_is_taken_and_none_below_what_there_is() {
        let why = "native: tried; bwrap: tried; container: tried".to_owned();
        for (native, bwrap, want) in [
            (State::Works, State::Works, Rung::Native),
            (State::Limited, State::Works, Rung::Native),
            (State::Missing, State::Works, Rung::Bwrap),
            (State::Missing, State::Missing, Rung::Nothing { why }),
        ] {
            assert_eq!(rung(&findings(native, bwrap)), want, "{native:?} {bwrap:?}");
        }
    }
}
