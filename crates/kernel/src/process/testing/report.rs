//! The line coverage of one run of the tests: what Airlock measured itself, or what a configured
//! command left as lcov.
//!
//! Guarantee: every line told of is one that a source file of the stage really has.

use super::measure::Missing;
use super::{Framework, Reading};
use crate::beneath::Root;
use airlock_phases::{Coverage, Lines, Spans, go_module, parse_go_profile, parse_lcov};
use serde_json::{Map, Value, json};
use std::io::Read as _;
use std::time::SystemTime;

/// Where a command leaves its report.
const PLACES: &[&str] = &[
    "lcov.info",
    "coverage/lcov.info",
    "target/lcov.info",
    "target/llvm-cov/lcov.info",
    "target/coverage/lcov.info",
    "coverage.lcov",
];

/// The most that is read of a report.
const BYTES: u64 = 64 * 1024 * 1024;
/// The most that is read of a file of source.
const SOURCE: u64 = 2 * 1024 * 1024;
/// The most files, and ranges of each, whose uncovered lines are told.
const TOLD: usize = 50;

/// What one run covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) lines: Lines,
    pub(crate) by: TakenBy,
}

/// Whose report it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenBy {
    /// Airlock's own.
    Kernel,
    /// That of the configured command, in this place.
    Command(&'static str),
}

/// The stage a run was made in.
pub(in crate::process) struct Seen<'a> {
    pub(in crate::process) root: &'a Root,
    pub(in crate::process) is_source: &'a dyn Fn(&str) -> bool,
    /// When the run began.
    pub(in crate::process) begun: SystemTime,
}

impl Seen<'_> {
    /// What the run covered, whose own `report` was found or not.
    pub(in crate::process) fn measured(
        &self,
        reading: &Reading,
        report: Result<String, Missing>,
    ) -> Result<Measured, Missing> {
        if reading.configured {
            return self.left_behind();
        }
        let root = self.root.path();
        let lines = match reading.framework {
            Framework::Go => {
                let module = self.text("go.mod", SOURCE).unwrap_or_default();
                let module = go_module(&module).unwrap_or_default().to_owned();
                parse_go_profile(&report?, &module)
            }
            Framework::Cargo | Framework::Pytest | Framework::Node => parse_lcov(&report?, root),
        };
        self.held(lines.ok_or(Missing::Unreadable)?, TakenBy::Kernel)
    }

    /// What the first report says that was written since the run began.
    fn left_behind(&self) -> Result<Measured, Missing> {
        let new = |place: &&&str| {
            let file = self.root.open_file(place).ok()?;
            let written = file.metadata().and_then(|found| found.modified()).ok()?;
            (written >= self.begun).then_some(())
        };
        let place = PLACES.iter().find(|place| new(place).is_some());
        let place = place.ok_or(Missing::Command)?;
        let text = self.text(place, BYTES).ok_or(Missing::Unreadable)?;
        let lines = parse_lcov(&text, self.root.path()).ok_or(Missing::Unreadable)?;
        self.held(lines, TakenBy::Command(place))
    }

    /// The lines that are there, of files that are source.
    fn held(&self, mut lines: Lines, by: TakenBy) -> Result<Measured, Missing> {
        lines.retain(|path, lines| {
            let known = (self.is_source)(path).then(|| self.text(path, SOURCE));
            let last = known.flatten().map_or(0, |text| text.lines().count());
            lines.retain(|number, _| *number as usize <= last);
            !lines.is_empty()
        });
        if lines.is_empty() {
            return Err(Missing::NoSource);
        }
        Ok(Measured { lines, by })
    }

    fn text(&self, path: &str, most: u64) -> Option<String> {
        let file = self.root.open_file(path).ok()?;
        let mut text = String::new();
        let read = file.take(most + 1).read_to_string(&mut text).ok()?;
        (read as u64 <= most).then_some(text)
    }
}

/// What is told of it.
pub(in crate::process) fn told(measured: &Result<Measured, Missing>) -> Map<String, Value> {
    let mut told = Map::new();
    match measured {
        Ok(measured) => {
            let Coverage { found, hit } = Coverage::of(&measured.lines);
            let (by, file) = match measured.by {
                TakenBy::Kernel => ("kernel", None),
                TakenBy::Command(place) => ("command", Some(place)),
            };
            let missed = Spans::of(&measured.lines).missed;
            let listed = missed.iter().take(TOLD).map(|(path, ranges)| {
                let some: Vec<_> = ranges.iter().take(TOLD).collect();
                (path.clone(), json!(some))
            });
            let coverage = json!({
                "lines_found": found,
                "lines_hit": hit,
                "taken_by": by,
                "file": file,
                "uncovered": Value::Object(listed.collect()),
            });
            told.insert("coverage".to_owned(), coverage);
        }
        Err(missing) => {
            let why = json!({ "why": missing.why(), "fix": missing.fix() });
            told.insert("coverage".to_owned(), Value::Null);
            told.insert("coverage_missing".to_owned(), why);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn reading(framework: Framework, configured: bool) -> Reading {
        Reading {
            framework,
            coverage: true,
            whole: true,
            said_by: super::super::SaidBy::Tree,
            others: Vec::new(),
            plain: Vec::new(),
            configured,
            mark: None,
        }
    }

    fn seen(
        place: &Path,
        begun: SystemTime,
        reading: &Reading,
        report: &str,
    ) -> Result<Measured, Missing> {
        let root = Root::open(place).unwrap();
        let is_source = |path: &str| airlock_phases::Language::of(path).is_some();
        let seen = Seen {
            root: &root,
            is_source: &is_source,
            begun,
        };
        seen.measured(reading, Ok(report.to_owned()))
    }

    #[test]
    fn lines_and_files_that_are_not_there_do_not_count() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a.py"), "a\nb\nc\n").unwrap();
        std::fs::write(place.path().join("data.txt"), "a\nb\nc\n").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("link.py")).unwrap();
        let report = "SF:a.py\nDA:1,1\nDA:3,0\nDA:4,1\nDA:900000,1\nend_of_record\n\
                      SF:data.txt\nDA:1,1\nend_of_record\n\
                      SF:gone.py\nDA:1,1\nend_of_record\n\
                      SF:link.py\nDA:1,1\nend_of_record\n\
                      SF:/etc/passwd\nDA:1,1\nend_of_record\n";
        let own = reading(Framework::Pytest, false);
        let found = seen(place.path(), SystemTime::UNIX_EPOCH, &own, report).unwrap();
        let want = [(1, true), (3, false)].into_iter().collect();
        assert_eq!(found.lines, Lines::from([("a.py".to_owned(), want)]));
        assert_eq!(found.by, TakenBy::Kernel);
        let elsewhere = "SF:/etc/passwd\nDA:1,1\nend_of_record\n";
        let none = seen(place.path(), SystemTime::UNIX_EPOCH, &own, elsewhere);
        assert_eq!(none, Err(Missing::NoSource));
        let nonsense = seen(place.path(), SystemTime::UNIX_EPOCH, &own, "DA:x\n");
        assert_eq!(nonsense, Err(Missing::Unreadable));
    }

    #[test]
    fn a_report_in_the_workspace_counts_only_for_a_configured_command_and_only_if_new() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a.py"), "a\nb\n").unwrap();
        let left = "SF:a.py\nDA:1,1\nDA:2,1\nend_of_record\n";
        std::fs::write(place.path().join("lcov.info"), left).unwrap();
        let own = "SF:a.py\nDA:1,1\nDA:2,0\nend_of_record\n";
        let before = SystemTime::UNIX_EPOCH;
        let later = SystemTime::now() + std::time::Duration::from_mins(1);
        let sum = |found: Result<Measured, Missing>| {
            found.map(|one| (Coverage::of(&one.lines).hit, one.by))
        };
        let (kernel, command) = (
            reading(Framework::Pytest, false),
            reading(Framework::Pytest, true),
        );
        let found = seen(place.path(), before, &kernel, own);
        assert_eq!(sum(found), Ok((1, TakenBy::Kernel)));
        let found = seen(place.path(), before, &command, own);
        assert_eq!(sum(found), Ok((2, TakenBy::Command("lcov.info"))));
        let found = seen(place.path(), later, &command, own);
        assert_eq!(sum(found), Err(Missing::Command));
    }

    #[test]
    fn go_names_files_by_its_module() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("go.mod"), "module example.org/demo\n").unwrap();
        std::fs::write(place.path().join("a.go"), "a\nb\nc\n").unwrap();
        let profile = "mode: set\nexample.org/demo/a.go:2.1,3.2 1 1\n";
        let go = reading(Framework::Go, false);
        let found = seen(place.path(), SystemTime::UNIX_EPOCH, &go, profile).unwrap();
        assert_eq!(Coverage::of(&found.lines), Coverage { found: 2, hit: 2 });
    }
}
