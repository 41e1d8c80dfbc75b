//! Line coverage in lcov's format, and the budget that exploring may spend of it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most files of a report that are looked at.
const FILES: usize = 20_000;
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

/// Lines by file, and whether each was run; none if `text` is no report.
///
/// Files are named as the report names them, without `root` in front.
pub fn parse_lcov(text: &str, root: &str) -> Option<BTreeMap<String, BTreeMap<u32, bool>>> {
    let mut files: BTreeMap<String, BTreeMap<u32, bool>> = BTreeMap::new();
    let mut current: Option<String> = None;
    let mut ended = false;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let path = path.trim();
            let below = path.strip_prefix(root).unwrap_or(path);
            let below = below.trim_start_matches('/').trim_start_matches("./");
            current = Some(below.to_owned());
            if files.len() < FILES {
                files.entry(below.to_owned()).or_default();
            }
        } else if let Some(data) = line.strip_prefix("DA:") {
            let mut fields = data.trim().split(',');
            let (number, count) = (fields.next()?, fields.next()?);
            let (number, count): (u32, u64) = (number.parse().ok()?, count.parse().ok()?);
            let lines = current.as_ref().and_then(|path| files.get_mut(path));
            if let Some(lines) = lines {
                *lines.entry(number).or_default() |= count > 0;
            }
        } else if line.trim() == "end_of_record" {
            ended = true;
            current = None;
        }
    }
    ended.then_some(files)
}

impl Coverage {
    /// The sum over `files`.
    pub fn of(files: &BTreeMap<String, BTreeMap<u32, bool>>) -> Self {
        let lines = files.values().flat_map(BTreeMap::values);
        let (mut found, mut hit) = (0, 0);
        for covered in lines {
            found += 1;
            hit += u64::from(*covered);
        }
        Self { found, hit }
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

    /// After a commit of a strict session, whose tests are all known to notice something. Without
    /// a report nothing is known, and nothing changes.
    #[must_use]
    pub fn strictly(mut self, now: Option<Coverage>) -> Self {
        let Some(now) = now else {
            return self;
        };
        if self.locked.is_some_and(|least| now.hundredths() >= least) {
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
        let ledger = Ledger::default().strictly(Some(of(100, 90)));
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
        let short = locked.strictly(Some(of(100, 89)));
        assert_eq!(
            (short.locked, short.baseline),
            (Some(9_000), ledger.baseline)
        );
        assert_eq!(short.strictly(None), short);
        let regained = short.strictly(Some(of(100, 90)));
        assert_eq!(
            (regained.locked, regained.baseline),
            (None, Some(of(100, 90)))
        );
    }

    #[test]
    fn a_report_is_read_line_by_line_and_nonsense_is_none() {
        let text = "TN:\nSF:/w/src/a.rs\nDA:1,3\nDA:2,0\nDA:2,1\nDA:3,0\nend_of_record\n";
        let files = parse_lcov(text, "/w").unwrap();
        let lines = BTreeMap::from([(1, true), (2, true), (3, false)]);
        assert_eq!(files, BTreeMap::from([("src/a.rs".to_owned(), lines)]));
        assert_eq!(Coverage::of(&files), of(3, 2));
        for text in [
            "",
            "SF:a\nDA:1,1\n",
            "SF:a\nDA:x,1\nend_of_record\n",
            "SF:a\nDA:1\nend_of_record\n",
        ] {
            assert_eq!(parse_lcov(text, "/w"), None, "{text}");
        }
        assert_eq!(of(0, 0).hundredths(), 10_000);
    }
}
