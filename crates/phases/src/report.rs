//! Coverage reports: lcov's format, and the profile that Go writes.
//!
//! A report comes out of a sandbox in which the tests could write what they liked. Whatever is
//! longer than any real report is refused, and a path that is not beneath the workspace is left out.
//!
//! Non-guarantee: whether a file has as many lines as its report says is for whoever can see it.

use std::collections::{BTreeMap, BTreeSet};

/// Lines by file, and whether each was run.
pub type Lines = BTreeMap<String, BTreeMap<u32, bool>>;

/// Some lines, by file.
pub type LineSet = BTreeMap<String, BTreeSet<u32>>;

/// Most files of a report.
const FILES: usize = 20_000;
/// Most lines of all files together.
const LINES: usize = 500_000;
/// Highest number of a line.
const HIGHEST: u32 = 1_000_000;
/// Longest path.
const PATH: usize = 4_096;

/// A report as it grows, within bounds.
#[derive(Default)]
struct Growing {
    files: Lines,
    lines: usize,
}

impl Growing {
    /// Takes the line `number` of `path`; none once there is more than any report holds.
    fn take(&mut self, path: &str, number: u32, run: bool) -> Option<()> {
        if number == 0 || number > HIGHEST {
            return None;
        }
        if !self.files.contains_key(path) {
            self.name(path)?;
        }
        let lines = self.files.get_mut(path)?;
        let before = lines.len();
        *lines.entry(number).or_default() |= run;
        self.lines += lines.len() - before;
        (self.lines <= LINES).then_some(())
    }

    fn name(&mut self, path: &str) -> Option<()> {
        self.files.entry(path.to_owned()).or_default();
        (self.files.len() <= FILES).then_some(())
    }
}

/// The path beneath `root` that a report means; none if it is elsewhere.
fn beneath(path: &str, root: &str) -> Option<String> {
    let path = path.trim();
    let relative = if path.starts_with('/') {
        let below = path.strip_prefix(root.trim_end_matches('/'))?;
        below.strip_prefix('/')?
    } else {
        path
    };
    let mut parts = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => return None,
            part => parts.push(part),
        }
    }
    let fits = !parts.is_empty() && path.len() <= PATH && !path.contains('\0');
    fits.then(|| parts.join("/"))
}

/// What lcov's `text` says of files beneath `root`; none if it is no report, or beyond all bounds.
pub fn parse_lcov(text: &str, root: &str) -> Option<Lines> {
    let mut growing = Growing::default();
    let mut current: Option<String> = None;
    let mut ended = false;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            current = beneath(path, root);
            if let Some(path) = &current {
                growing.name(path)?;
            }
        } else if let Some(data) = line.strip_prefix("DA:") {
            let mut fields = data.trim().split(',');
            let (number, count) = (fields.next()?, fields.next()?);
            let (number, count): (u32, u64) = (number.parse().ok()?, count.parse().ok()?);
            if let Some(path) = &current {
                growing.take(path, number, count > 0)?;
            }
        } else if line.trim() == "end_of_record" {
            ended = true;
            current = None;
        }
    }
    ended.then_some(growing.files)
}

/// What a profile of Go's says of the files of `module`; none if it is none, or beyond all bounds.
///
/// Each line of it is a block: `example.org/demo/a.go:3.24,5.2 1 0`, from line and column to line
/// and column, its statements, and how often it was run.
pub fn parse_go_profile(text: &str, module: &str) -> Option<Lines> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    if !lines.next()?.starts_with("mode:") {
        return None;
    }
    let mut growing = Growing::default();
    for line in lines {
        // Several packages write one after the other.
        if line.starts_with("mode:") {
            continue;
        }
        let (place, rest) = line.rsplit_once(':')?;
        let mut fields = rest.split_whitespace();
        let (block, _, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (from, to) = block.split_once(',')?;
        let number = |place: &str| place.split('.').next().and_then(|line| line.parse().ok());
        let (from, to): (u32, u32) = (number(from)?, number(to)?);
        let run = count.parse::<u64>().ok()? > 0;
        let Some(path) = place.strip_prefix(module) else {
            continue;
        };
        let Some(path) = path.strip_prefix('/').and_then(|path| beneath(path, "/")) else {
            continue;
        };
        if to < from || to > HIGHEST {
            return None;
        }
        for number in from..=to {
            growing.take(&path, number, run)?;
        }
    }
    Some(growing.files)
}

/// The module that a `go.mod` declares.
pub fn go_module(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    let name = lines.find_map(|line| line.strip_prefix("module "))?;
    let name = name.split("//").next().unwrap_or(name).trim();
    let name = name.trim_matches('"');
    (!name.is_empty()).then_some(name)
}

/// The lines that were run in `after` and not in `before`.
pub fn newly_covered(before: &Lines, after: &Lines) -> LineSet {
    let mut found = LineSet::new();
    for (path, lines) in after {
        let was_run = |number: &u32| {
            let lines = before.get(path);
            lines.and_then(|lines| lines.get(number)).copied()
        };
        let new = lines
            .iter()
            .filter(|(number, run)| **run && was_run(number) != Some(true));
        let new: BTreeSet<u32> = new.map(|(number, _)| *number).collect();
        if !new.is_empty() {
            found.insert(path.clone(), new);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(of: &[(u32, bool)]) -> BTreeMap<u32, bool> {
        of.iter().copied().collect()
    }

    #[test]
    fn a_report_is_read_line_by_line_and_nonsense_is_none() {
        let text = "TN:\nSF:/w/src/a.rs\nDA:1,3\nDA:2,0\nDA:2,1\nDA:3,0\nend_of_record\n";
        let files = parse_lcov(text, "/w").unwrap();
        let want = lines(&[(1, true), (2, true), (3, false)]);
        assert_eq!(files, BTreeMap::from([("src/a.rs".to_owned(), want)]));
        for text in [
            "",
            "SF:a\nDA:1,1\n",
            "SF:a\nDA:x,1\nend_of_record\n",
            "SF:a\nDA:1\nend_of_record\n",
            "SF:a\nDA:1,-1\nend_of_record\n",
            "SF:a\nDA:0,1\nend_of_record\n",
            "SF:a\nDA:4294967295,1\nend_of_record\n",
            "SF:a\nDA:99999999999999999999,1\nend_of_record\n",
        ] {
            assert_eq!(parse_lcov(text, "/w"), None, "{text}");
        }
    }

    #[test]
    fn paths_are_those_beneath_the_workspace_and_no_others() {
        for (path, want) in [
            ("src/a.rs", Some("src/a.rs")),
            ("./src//a.rs", Some("src/a.rs")),
            ("/w/src/a.rs", Some("src/a.rs")),
            ("/wider/src/a.rs", None),
            ("/etc/passwd", None),
            ("../a.rs", None),
            ("src/../../a.rs", None),
            ("/w/../etc/passwd", None),
            ("/w", None),
            ("/w/", None),
            ("", None),
            (".", None),
        ] {
            let report = format!("SF:{path}\nDA:1,1\nend_of_record\n");
            let found = parse_lcov(&report, "/w").unwrap();
            assert_eq!(found.keys().next().map(String::as_str), want, "{path}");
        }
        let long = format!("SF:{}\nDA:1,1\nend_of_record\n", "a/".repeat(PATH));
        assert_eq!(parse_lcov(&long, "/w"), Some(Lines::new()));
    }

    #[test]
    fn a_report_beyond_all_bounds_is_refused_and_not_cut() {
        let many = |count: usize| -> String {
            let files = (0..count).map(|number| format!("SF:{number}\nend_of_record\n"));
            files.collect()
        };
        assert_eq!(parse_lcov(&many(FILES), "/w").unwrap().len(), FILES);
        assert_eq!(parse_lcov(&many(FILES + 1), "/w"), None);
        let lines = (1..=LINES + 1).map(|line| format!("DA:{line},1\n"));
        let ends = [String::from("SF:a\n"), String::from("end_of_record\n")];
        let [first, last] = ends.map(std::iter::once);
        let text: String = first.chain(lines).chain(last).collect();
        assert_eq!(parse_lcov(&text, "/w"), None);
        // One block of one line of text would be as many lines as it says.
        let block = "mode: set\ndemo/a.go:1.1,4000000000.1 1 1\n";
        assert_eq!(parse_go_profile(block, "demo"), None);
        let blocks = (0..2).map(|file| format!("demo/{file}.go:1.1,400000.1 1 1\n"));
        let blocks: String = ["mode: set\n".to_owned()]
            .into_iter()
            .chain(blocks)
            .collect();
        assert_eq!(parse_go_profile(&blocks, "demo"), None);
    }

    #[test]
    fn a_profile_of_go_is_blocks_and_a_line_is_run_if_any_of_its_blocks_is() {
        let text = "mode: set\n\
                    example.org/demo/a.go:3.24,4.8 1 1\n\
                    example.org/demo/a.go:4.8,6.3 1 0\n\
                    example.org/demo/a.go:7.2,7.10 1 1\n\
                    mode: set\n\
                    example.org/demo/in/b.go:1.1,1.9 1 0\n\
                    example.org/demo/in/b.go:1.1,1.9 1 1\n\
                    example.org/demolition/c.go:1.1,1.9 1 1\n\
                    example.org/demo/../c.go:1.1,1.9 1 1\n";
        let found = parse_go_profile(text, "example.org/demo").unwrap();
        let a = lines(&[(3, true), (4, true), (5, false), (6, false), (7, true)]);
        let b = lines(&[(1, true)]);
        assert_eq!(
            found,
            BTreeMap::from([("a.go".to_owned(), a), ("in/b.go".to_owned(), b)])
        );
        for text in [
            "",
            "demo/a.go:1.1,2.2 1 1\n",
            "mode: set\ndemo/a.go:x 1 1\n",
        ] {
            assert_eq!(parse_go_profile(text, "demo"), None, "{text}");
        }
        for (text, want) in [
            ("module demo\n\ngo 1.18\n", Some("demo")),
            ("// x\nmodule \"a.b/c\" // y\n", Some("a.b/c")),
            ("go 1.18\n", None),
        ] {
            assert_eq!(go_module(text), want, "{text}");
        }
    }

    #[test]
    fn newly_covered_is_what_only_the_later_run_ran() {
        let before = Lines::from([("a".to_owned(), lines(&[(1, true), (2, false)]))]);
        let after = Lines::from([
            ("a".to_owned(), lines(&[(1, true), (2, true), (3, false)])),
            ("b".to_owned(), lines(&[(4, true)])),
            ("c".to_owned(), lines(&[(5, false)])),
        ]);
        let want = LineSet::from([("a".to_owned(), [2].into()), ("b".to_owned(), [4].into())]);
        assert_eq!(newly_covered(&before, &after), want);
        assert_eq!(newly_covered(&after, &after), LineSet::new());
    }
}
