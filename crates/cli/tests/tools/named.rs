//! Source that names what was written as a test, by means that are not refused: a person judges.

use super::projects;
use super::work::{APP, DOUBLE, POLICY, TEST, Work};
use airlock_kernel::Outcome;
use serde_json::{Value, json};
use std::fs;

const IMPLEMENTATION: &str = "def double(a):\n    return a * 2\n";

/// A task whose tests passed with `code` beside an implementation among the tests.
fn validated(policy: &str, code: &str) -> (Work, Value) {
    let files = projects::with(projects::PYTHON, &[("app.py", APP)]);
    let work = Work::new(policy, &files, "strict").planned();
    work.wrote("tests/impl.py", IMPLEMENTATION);
    work.wrote("tests/test_double.py", TEST);
    assert_eq!(work.test()["phase"]["proof"], "red");
    assert_eq!(work.advance()["state"], "code_writing");
    work.wrote("app.py", code);
    assert_eq!(work.advance()["state"], "validating");
    let phase = work.test()["phase"].clone();
    assert_eq!(phase["proof"], "green", "{phase}");
    assert_eq!(phase["state"], "reviewing", "{phase}");
    (work, phase)
}

#[test]
fn code_that_evaluates_what_is_among_the_tests_is_not_merged_without_a_person() {
    let automatic = POLICY.replace("rules:", "merge: { automatic: true }\nrules:");
    let code = format!(
        "def double(a):\n    scope = {{}}\n    exec(\"from tests.impl import double\", scope)\n    \
         return scope[\"double\"](a)\n\n\n{APP}"
    );
    for (policy, rule) in [
        (POLICY, "phases/same-tests"),
        (automatic.as_str(), "merge.automatic"),
    ] {
        let (work, phase) = validated(policy, &code);
        let reasons = [
            "`app.py` names `tests/impl.py`",
            "`app.py` newly runs text as code",
        ];
        let partial = phase["partial"].as_str().unwrap();
        for reason in reasons {
            assert!(partial.contains(reason), "{phase}");
        }
        let asked = work.submit("phase.commit", json!({ "digest": work.digest() }));
        let Outcome::NeedsReview(review) = asked else {
            panic!("not asked: {asked:?}");
        };
        let mut why = review.approval.why.iter();
        let told = why.find(|one| &*one.rule == rule).unwrap();
        for reason in reasons {
            assert!(told.reason.contains(reason), "{rule}: {}", told.reason);
        }
        assert_eq!(work.state(), "reviewing");
        assert_eq!(fs::read_to_string(work.place.real("app.py")).unwrap(), APP);
        assert!(!work.place.real("tests/impl.py").exists());
    }
    // With code of its own the same tests go by themselves.
    let (work, phase) = validated(&automatic, DOUBLE);
    assert_eq!(phase["partial"], Value::Null, "{phase}");
    let done = work.done("phase.commit", json!({ "digest": work.digest() }));
    assert_eq!(done.value["state"], "committing");
}
