//! What each runner prints of its tests.

use super::{Printed, Told};
use crate::runs::Framework;
use regex::Regex;
use std::sync::LazyLock;

type Pattern = LazyLock<Option<Regex>>;

static CARGO_TEST: Pattern = LazyLock::new(|| {
    Regex::new(r"(?m)^test (\S.*?)(?: - should panic)? \.\.\. (ok|FAILED)\b").ok()
});
static CARGO_BLOCK: Pattern = LazyLock::new(|| Regex::new(r"(?m)^running \d+ tests?$").ok());
static CARGO_ROOT: Pattern = LazyLock::new(|| {
    Regex::new(r"(?m)^\s+(?:Running (?:unittests )?(\S.*?) \(\S.*\)|Doc-tests \S.*)$").ok()
});
static GO_TEST: Pattern = LazyLock::new(|| Regex::new(r"(?m)^\s*--- (PASS|FAIL): (\S+)").ok());
static GO_PACKAGE: Pattern =
    LazyLock::new(|| Regex::new(r"(?m)^(?:ok|FAIL)\s+(\S+)\s+(?:\d[\d.]*s|\(cached\))").ok());
static PYTEST_TEST: Pattern =
    LazyLock::new(|| Regex::new(r"(?m)^(\S+::.*?) (PASSED|FAILED)\b|^FAILED (\S+::\S+)").ok());
static NODE_TEST: Pattern = LazyLock::new(|| {
    Regex::new(
        r"(?m)^\s*(?:(ok|not ok) \d+ - (.*?)( # SKIP.*| # TODO.*| # .*)?|([✓✔√✕✖×]) (.*?)(?: \(\d[\w. ]*\))?)\s*$",
    )
    .ok()
});
static NODE_PLACE: Pattern =
    LazyLock::new(|| Regex::new(r"(?m)^\s*location: '(.*):(\d+):\d+'$").ok());

fn found<'t>(pattern: &'t Pattern, text: &'t str) -> impl Iterator<Item = regex::Captures<'t>> {
    let pattern = pattern.as_ref().into_iter();
    pattern.flat_map(move |pattern| pattern.captures_iter(text))
}

/// Each binary begins a block on the one stream, and is named on the other, in the same order.
pub(super) fn cargo(printed: Printed<'_>) -> Vec<Told> {
    let blocks: Vec<usize> = found(&CARGO_BLOCK, printed.stdout)
        .filter_map(|block| Some(block.get(0)?.start()))
        .collect();
    let roots: Vec<Option<String>> = found(&CARGO_ROOT, printed.stderr)
        .map(|root| root.get(1).map(|root| root.as_str().to_owned()))
        .collect();
    let paired = blocks.len() == roots.len();
    let tests = found(&CARGO_TEST, printed.stdout).filter_map(|test| {
        let (name, how) = (test.get(1)?, test.get(2)?);
        let block = blocks.partition_point(|start| *start < name.start());
        let root = block.checked_sub(1).and_then(|block| roots.get(block));
        Some(Told {
            name: name.as_str().to_owned(),
            place: root.filter(|_| paired).cloned().flatten(),
            line: None,
            passed: how.as_str() == "ok",
        })
    });
    tests.collect()
}

/// A package is named behind what its tests printed.
pub(super) fn go(stdout: &str) -> Vec<Told> {
    let packages: Vec<(usize, &str)> = found(&GO_PACKAGE, stdout)
        .filter_map(|found| Some((found.get(0)?.start(), found.get(1)?.as_str())))
        .collect();
    let tests = found(&GO_TEST, stdout).filter_map(|test| {
        let (how, name) = (test.get(1)?, test.get(2)?);
        let behind = packages.partition_point(|(start, _)| *start < name.start());
        Some(Told {
            name: name.as_str().to_owned(),
            place: packages.get(behind).map(|(_, name)| (*name).to_owned()),
            line: None,
            passed: how.as_str() == "PASS",
        })
    });
    tests.collect()
}

pub(super) fn pytest(stdout: &str) -> Vec<Told> {
    let tests = found(&PYTEST_TEST, stdout).filter_map(|test| {
        let name = test.get(1).or_else(|| test.get(3))?.as_str();
        let file = name.split("::").next().unwrap_or_default();
        Some(Told {
            name: name.to_owned(),
            place: Some(file.to_owned()),
            line: None,
            passed: test.get(2).is_some_and(|how| how.as_str() == "PASSED"),
        })
    });
    tests.collect()
}

/// What is left out has neither passed nor failed; of what failed, where it stands is told behind.
pub(super) fn node(printed: Printed<'_>) -> Vec<Told> {
    let mut told = Vec::new();
    for text in [printed.stdout, printed.stderr] {
        let tests: Vec<regex::Captures<'_>> = found(&NODE_TEST, text).collect();
        let ends = tests.iter().skip(1).filter_map(|test| test.get(0));
        let ends = ends.map(|next| next.start()).chain([text.len()]);
        for (test, end) in tests.iter().zip(ends) {
            let group = |number: usize| test.get(number).map(|group| group.as_str());
            let left_out = group(3)
                .is_some_and(|why| why.starts_with(" # SKIP") || why.starts_with(" # TODO"));
            let (name, passed) = match (group(1), group(2), group(4), group(5)) {
                (Some(how), Some(name), _, _) if !left_out => (name, how == "ok"),
                (_, _, Some(sign), Some(name)) => (name, "✓✔√".contains(sign)),
                (_, _, _, _) => continue,
            };
            let from = test.get(0).map_or(end, |whole| whole.end());
            let details = text.get(from..end).filter(|_| !passed).unwrap_or_default();
            let place = found(&NODE_PLACE, details).next();
            let of = |number: usize| place.as_ref().and_then(|place| place.get(number));
            told.push(Told {
                name: name.trim().to_owned(),
                place: of(1).map(|path| path.as_str().to_owned()),
                line: of(2).and_then(|line| line.as_str().parse().ok()),
                passed,
            });
        }
    }
    told
}

/// Whether tests began to run, also if none came to its end.
pub(crate) fn began(framework: Framework, printed: Printed<'_>) -> bool {
    match framework {
        Framework::Cargo => found(&CARGO_BLOCK, printed.stdout).next().is_some(),
        Framework::Go => printed
            .stdout
            .lines()
            .any(|line| line.starts_with("=== RUN ")),
        Framework::Pytest => found(&PYTEST_BEGUN, printed.stdout).next().is_some(),
        // Each file is run by itself, and one that ends out of turn is told of by its name.
        Framework::Node => false,
    }
}

static PYTEST_BEGUN: Pattern = LazyLock::new(|| Regex::new(r"(?m)^\S+\.py::\S+ ").ok());
