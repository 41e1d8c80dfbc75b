//! Line coverage, and the budget that exploring may spend of it.

use crate::report::{LineSet, Lines};
use crate::runs::Framework;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Hundredths of a percentage point in one.
const POINT: u64 = 100;

/// Which lines were run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Lines that can be covered.
    pub found: u64,
    /// Those that were.
    pub hit: u64,
}

impl Coverage {
    /// In hundredths of a percentage point; what has no lines is covered.
    pub const fn hundredths(self) -> u64 {
        match self.hit.saturating_mul(100 * POINT).checked_div(self.found) {
            Some(share) => share,
            None => 100 * POINT,
        }
    }
}

impl Coverage {
    /// The sum over `files`.
    pub fn of(files: &Lines) -> Self {
        let lines = files.values().flat_map(BTreeMap::values);
        let (mut found, mut hit) = (0, 0);
        for covered in lines {
            found += 1;
            hit += u64::from(*covered);
        }
        Self { found, hit }
    }

    /// What is covered for certain: lines that were run `before` the new tests, and those whose
    /// mutation a new test `noticed`. A line that either run knows can be covered.
    pub fn proven(before: &Lines, after: &Lines, noticed: &LineSet) -> Self {
        let mut all = before.clone();
        for (path, lines) in after {
            let known = all.entry(path.clone()).or_default();
            for (number, run) in lines {
                let proven = *run
                    && noticed
                        .get(path)
                        .is_some_and(|lines| lines.contains(number));
                *known.entry(*number).or_default() |= proven;
            }
        }
        Self::of(&all)
    }
}

/// What exploring costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing worth a word.
    None,
    /// It is told, in hundredths of a point.
    Warns(u64),
    /// It locks explore mode.
    Locks(u64),
}

/// The budget of one workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Coverage after the last commit of a strict session.
    #[serde(default)]
    pub baseline: Option<Coverage>,
    /// What has to be covered again before anybody explores, in hundredths of a point.
    #[serde(default)]
    pub locked: Option<u64>,
    /// Whose tests it is about. Those of another language neither spend nor set it.
    #[serde(default)]
    pub framework: Option<Framework>,
}

impl Ledger {
    /// What a commit that leaves `now` costs, by the policy's points.
    pub fn loss(&self, now: Coverage, warn: u32, lock: u32) -> Loss {
        let Some(baseline) = self.baseline else {
            return Loss::None;
        };
        let lost = baseline.hundredths().saturating_sub(now.hundredths());
        if lost > u64::from(lock) * POINT {
            Loss::Locks(lost)
        } else if lost > u64::from(warn) * POINT {
            Loss::Warns(lost)
        } else {
            Loss::None
        }
    }

    /// After a commit of an exploring session.
    #[must_use]
    pub fn explored(mut self, now: Option<Coverage>, warn: u32, lock: u32) -> Self {
        if let (Some(now), Some(baseline)) = (now, self.baseline)
            && let Loss::Locks(_) = self.loss(now, warn, lock)
        {
            self.locked = Some(baseline.hundredths());
        }
        self
    }

    /// After a commit of a strict session that covers `now`, and `proven` for certain. Without a
    /// report nothing is known, and nothing changes; what is not proven regains nothing.
    #[must_use]
    pub fn strictly(mut self, now: Option<Coverage>, proven: Option<Coverage>) -> Self {
        let Some(now) = now else {
            return self;
        };
        let regained = |least| proven.is_some_and(|proven: Coverage| proven.hundredths() >= least);
        if self.locked.is_some_and(regained) {
            self.locked = None;
        }
        // While it is locked, what was lost stays what has to be regained.
        if self.locked.is_none() {
            self.baseline = Some(now);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(found: u64, hit: u64) -> Coverage {
        Coverage { found, hit }
    }

    #[test]
    fn two_points_warn_and_five_lock_until_a_strict_session_regains_them() {
        let ledger = Ledger::default().strictly(Some(of(100, 90)), None);
        for (hit, want) in [
            (95, Loss::None),
            (88, Loss::None),
            (87, Loss::Warns(300)),
            (85, Loss::Warns(500)),
            (84, Loss::Locks(600)),
        ] {
            assert_eq!(ledger.loss(of(100, hit), 2, 5), want, "{hit}");
        }
        let warned = ledger.explored(Some(of(100, 86)), 2, 5);
        assert_eq!(warned.locked, None);
        let locked = ledger.explored(Some(of(100, 80)), 2, 5);
        assert_eq!(locked.locked, Some(9_000));
        let short = locked.strictly(Some(of(100, 95)), Some(of(100, 89)));
        assert_eq!(
            (short.locked, short.baseline),
            (Some(9_000), ledger.baseline)
        );
        assert_eq!(short.strictly(None, Some(of(100, 95))), short);
        assert_eq!(short.strictly(Some(of(100, 95)), None), short);
        let regained = short.strictly(Some(of(100, 90)), Some(of(100, 90)));
        assert_eq!(
            (regained.locked, regained.baseline),
            (None, Some(of(100, 90)))
        );
    }

    #[test]
    fn only_lines_whose_mutation_was_noticed_are_proven_and_none_is_forgotten() {
        let lines = |of: &[(u32, bool)]| -> BTreeMap<u32, bool> { of.iter().copied().collect() };
        let before = Lines::from([("a".to_owned(), lines(&[(1, true), (2, false), (3, false)]))]);
        let after = Lines::from([("a".to_owned(), lines(&[(1, true), (2, true), (3, true)]))]);
        let noticed = |of: &[u32]| LineSet::from([("a".to_owned(), of.iter().copied().collect())]);
        for (case, after, noticed, want) in [
            ("nothing noticed", &after, noticed(&[]), of(3, 1)),
            ("one line", &after, noticed(&[2]), of(3, 2)),
            ("all", &after, noticed(&[2, 3]), of(3, 3)),
            // A report that leaves lines out does not make them go away.
            (
                "a shorter report",
                &Lines::new(),
                noticed(&[2, 3]),
                of(3, 1),
            ),
            ("a line that was not run", &before, noticed(&[2]), of(3, 1)),
        ] {
            assert_eq!(Coverage::proven(&before, after, &noticed), want, "{case}");
        }
        assert_eq!(of(0, 0).hundredths(), 10_000);
    }
}
