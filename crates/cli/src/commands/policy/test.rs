//! `airlock policy test`: a policy's own examples, and tables of expected decisions.

use super::super::open;
use super::check::counted;
use super::{load, read};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, shown, styled};
use airlock_policy::{PolicyTest, parse_tests, render};
use serde_json::json;
use std::path::Path;

pub(super) fn run(
    global: &Global,
    file: Option<&Path>,
    policy: Option<&Path>,
    output: &mut Output,
) -> Ending {
    let kernel = open::kernel(global, output)?;
    // Loading runs the examples: a wrong one is an error with its place.
    let policy = match policy {
        Some(path) => super::diff::tried(&kernel, load(path)?.1.policy)?,
        None => kernel.policy(),
    };
    let examples = policy.policy().example_count();
    let tests = match file {
        Some(path) => read_tests(path)?,
        None => Vec::new(),
    };
    let mut failed = 0;
    for test in &tests {
        let passed = one(test, &policy, file, output)?;
        failed += usize::from(!passed);
    }
    let passed = tests.len() - failed;
    if output.is_json() {
        output.json(&json!({ "examples": examples, "passed": passed, "failed": failed }));
    } else {
        output.line(format!(
            "{} hold; {} passed, {failed} failed",
            count(examples as u64, "example"),
            count(passed as u64, "test"),
        ));
    }
    Ok(u8::from(failed > 0))
}

fn read_tests(path: &Path) -> Result<Vec<PolicyTest>, Failure> {
    let bytes = read(path, "test")?;
    parse_tests(&bytes).map_err(|problems| {
        let name = shown(path);
        let text = String::from_utf8_lossy(&bytes);
        let found = counted(&problems);
        Failure::new(Kind::Usage, format!("{name} does not load: {found}"))
            .fix("mend each problem, then run the tests again")
            .details(render(&text, &name, &problems))
            .json("problems", json!(problems))
    })
}

fn one(
    test: &PolicyTest,
    policy: &airlock_kernel::PolicyInForce,
    file: Option<&Path>,
    output: &mut Output,
) -> Result<bool, Failure> {
    let place = format!(
        "{}:{}",
        file.map_or_else(String::new, shown),
        test.place.line
    );
    let request = test
        .request
        .request()
        .map_err(|error| Failure::new(Kind::Usage, format!("{place}: {error}")))?;
    let decision = policy.decide(&request, airlock_core::Timestamp::from_micros(0));
    let by_rule = |wanted: &str| decision.deciding().any(|c| &*c.rule == wanted);
    let right_rule = test.rule.as_deref().is_none_or(by_rule);
    let passed = decision.verdict == test.expect && right_rule;
    let name = test
        .name
        .as_deref()
        .unwrap_or(request.syscall.name())
        .to_owned();
    let name = airlock_kernel::sanitise_line(&name, 120);
    if output.is_json() {
        output.json(&json!({
            "test": name,
            "place": place,
            "passed": passed,
            "expected": test.expect,
            "decision": decision,
        }));
    } else if passed {
        output.line(format!("{} {name}", styled(Tone::Good, "ok  ")));
    } else {
        let rules: Vec<&str> = decision.deciding().map(|c| &*c.rule).collect();
        output.line(format!(
            "{} {name} ({place}): expected {}{}, got {} by {}",
            styled(Tone::Bad, "FAIL"),
            test.expect,
            test.rule
                .as_deref()
                .map_or_else(String::new, |rule| format!(" by {rule}")),
            decision.verdict,
            rules.join(", "),
        ));
    }
    Ok(passed)
}
