//! How many tests passed, failed and were left out, by what a framework printed. Pure.

use super::Framework;
use regex::Regex;
use serde::Serialize;

/// The counts of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(in crate::process) struct Counts {
    pub(in crate::process) passed: u64,
    pub(in crate::process) failed: u64,
    pub(in crate::process) ignored: u64,
}

/// The counts in `text`; none if the framework told none.
pub(in crate::process) fn counted(framework: Framework, text: &str) -> Option<Counts> {
    match framework {
        Framework::Cargo => cargo(text),
        Framework::Go => go(text),
        Framework::Pytest => pytest(text),
        Framework::Node => node(text),
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// The number in a match's only group.
fn first(found: &regex::Captures<'_>) -> u64 {
    found.get(1).map_or(0, |group| number(group.as_str()))
}

/// One line for each test binary: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
fn cargo(text: &str) -> Option<Counts> {
    let line = Regex::new(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored").ok()?;
    let mut found = None;
    for captures in text.lines().filter_map(|text| line.captures(text)) {
        let (_, [passed, failed, ignored]) = captures.extract();
        let total: &mut Counts = found.get_or_insert_default();
        total.passed = total.passed.saturating_add(number(passed));
        total.failed = total.failed.saturating_add(number(failed));
        total.ignored = total.ignored.saturating_add(number(ignored));
    }
    found
}

/// A line for each test that ended: `--- PASS: TestX (0.00s)`.
fn go(text: &str) -> Option<Counts> {
    let mut found = None;
    for line in text.lines().map(str::trim_start) {
        let Some(rest) = line.strip_prefix("--- ") else {
            continue;
        };
        let total: &mut Counts = found.get_or_insert_default();
        match rest.split_once(": ").map(|(word, _)| word) {
            Some("PASS") => total.passed += 1,
            Some("FAIL") => total.failed += 1,
            Some("SKIP") => total.ignored += 1,
            Some(_) | None => {}
        }
    }
    found
}

/// The last line that sums up: `1 failed, 3 passed, 2 skipped in 0.12s`.
fn pytest(text: &str) -> Option<Counts> {
    let summary = Regex::new(r"(?:^|[ =])(?:\d+ [a-z]+(?:, )?)+ in [0-9.]+s").ok()?;
    let part =
        Regex::new(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)").ok()?;
    let line = text.lines().rev().find(|line| summary.is_match(line))?;
    let mut total = Counts::default();
    for captures in part.captures_iter(line) {
        let (_, [count, word]) = captures.extract();
        let count = number(count);
        match word {
            "passed" | "xpassed" => total.passed += count,
            "failed" | "error" | "errors" => total.failed += count,
            _ => total.ignored += count,
        }
    }
    Some(total)
}

/// The runner is the project's choice: each known one has its own words.
fn node(text: &str) -> Option<Counts> {
    let own = |word: &str| {
        let line = Regex::new(&format!(r"^(?:#|ℹ) {word} (\d+)$")).ok()?;
        let mut counts = text
            .lines()
            .filter_map(|text| line.captures(text.trim_end()));
        counts.next_back().map(|found| first(&found))
    };
    if let (Some(passed), Some(failed)) = (own("pass"), own("fail")) {
        let ignored = own("skipped").unwrap_or(0) + own("todo").unwrap_or(0);
        return Some(Counts {
            passed,
            failed,
            ignored,
        });
    }
    // jest: `Tests:  1 failed, 1 skipped, 2 passed, 4 total`; vitest: `Tests  1 failed | 2 passed (3)`.
    let summed = Regex::new(r"^\s*Tests:?\s+(.*\d+ (?:passed|failed).*)$").ok()?;
    if let Some(found) = text.lines().rev().find_map(|line| summed.captures(line)) {
        let line = found.get(1).map_or("", |line| line.as_str());
        return Some(words(line, "passed", "failed", &["skipped", "todo"]));
    }
    // mocha: `2 passing (5ms)`, `1 failing`, `1 pending`.
    let passing = Regex::new(r"(?m)^\s*\d+ passing\b").ok()?;
    passing
        .is_match(text)
        .then(|| words(text, "passing", "failing", &["pending"]))
}

/// Counts by the word after them; the last of each counts.
fn words(text: &str, passed: &str, failed: &str, ignored: &[&str]) -> Counts {
    let of = |word: &str| {
        let pattern = Regex::new(&format!(r"(\d+) {word}\b")).ok();
        let last = pattern.and_then(|pattern| pattern.captures_iter(text).last());
        last.map_or(0, |found| first(&found))
    };
    Counts {
        passed: of(passed),
        failed: of(failed),
        ignored: ignored.iter().map(|word| of(word)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(passed: u64, failed: u64, ignored: u64) -> Counts {
        Counts {
            passed,
            failed,
            ignored,
        }
    }

    #[test]
    fn each_framework_is_read_by_its_own_words() {
        for (framework, text, want) in [
            (
                Framework::Cargo,
                "running 2 tests\ntest a ... ok\n\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\ntest result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured\n",
                Some(counts(3, 3, 1)),
            ),
            (Framework::Cargo, "error: could not compile\n", None),
            (
                Framework::Cargo,
                "I say: test result: ok. 9 passed; 0 failed; 0 ignored\n",
                None,
            ),
            (
                Framework::Go,
                "=== RUN TestA\n--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\n--- FAIL: TestB (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\n",
                Some(counts(1, 2, 1)),
            ),
            (Framework::Go, "?   example [no test files]\n", None),
            (
                Framework::Pytest,
                "..F\n=== short ===\n1 failed, 3 passed, 2 skipped in 0.12s\n",
                Some(counts(3, 1, 2)),
            ),
            (
                Framework::Pytest,
                "===== 2 passed, 1 warning, 1 error in 3.10s =====\n",
                Some(counts(2, 1, 0)),
            ),
            (Framework::Pytest, "no tests ran in 0.01s\n", None),
            (
                Framework::Node,
                "TAP version 13\n# tests 4\n# pass 2\n# fail 1\n# skipped 1\n# todo 0\n",
                Some(counts(2, 1, 1)),
            ),
            (
                Framework::Node,
                "ℹ tests 2\nℹ pass 2\nℹ fail 0\nℹ skipped 0\n",
                Some(counts(2, 0, 0)),
            ),
            (
                Framework::Node,
                "Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 skipped, 2 passed, 4 total\n",
                Some(counts(2, 1, 1)),
            ),
            (
                Framework::Node,
                " Test Files  1 passed (1)\n      Tests  1 failed | 2 passed (3)\n",
                Some(counts(2, 1, 0)),
            ),
            (
                Framework::Node,
                "\n  2 passing (5ms)\n  1 pending\n  1 failing\n",
                Some(counts(2, 1, 1)),
            ),
            (Framework::Node, "hello\n", None),
            (
                Framework::Cargo,
                "test result: ok. 99999999999999999999 passed; 0 failed; 0 ignored\n",
                Some(counts(0, 0, 0)),
            ),
        ] {
            assert_eq!(counted(framework, text), want, "{text}");
        }
    }
}
