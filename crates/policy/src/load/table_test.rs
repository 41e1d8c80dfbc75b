//! Table tests of a policy: a file of requests, each with the verdict it should get.

use super::fields::{fields, unknown_field};
use super::problems::Problems;
use super::rule::unique_names;
use super::shape::{sequence, some, table};
use super::{Diagnostic, Severity, schema, tree};
use crate::Verdict;
use crate::document::{Action, ExampleFields, Place};
use std::sync::Arc;

/// One test of a policy: a request and the verdict it should get.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyTest {
    /// Where it stands.
    pub place: Place,
    /// What the author calls it.
    pub name: Option<Arc<str>>,
    /// The request.
    pub request: ExampleFields,
    /// The verdict it should get.
    pub expect: Verdict,
    /// The rule that should be among those that spoke.
    pub rule: Option<Arc<str>>,
}

fields! {
    /// One test of a policy.
    pub(crate) struct TestFields in "a test" requires ["request", "expect"] {
        /// What to call it.
        name: Option<Arc<str>> = None => some(super::scalar::prose);
        /// The request.
        request: ExampleFields = ExampleFields::default() => table;
        /// The verdict it should get.
        expect: Action = Action::Deny => super::scalar::word;
        /// The rule that should be among those that spoke.
        #[schemars(with = "Option<schema::Name>")]
        rule: Option<Arc<str>> = None => some(super::names::name);
    }
}

/// Reads a file of table tests: a list under `tests`. Gathers every problem.
pub fn parse_tests(bytes: &[u8]) -> Result<Vec<PolicyTest>, Vec<Diagnostic>> {
    let mut problems = Problems::default();
    let tests = tree::read(bytes, &mut problems).and_then(|root| tests(&root, &mut problems));
    if tests.is_none() && problems.errors() == 0 {
        let start = Place { line: 1, column: 1 };
        let spot = super::problems::Spot {
            place: start,
            length: 1,
        };
        super::fields::missing_field(spot, "the file", "tests", &mut problems);
    }
    let diagnostics = problems.into_sorted();
    if diagnostics
        .iter()
        .any(|problem| problem.severity == Severity::Error)
    {
        return Err(diagnostics);
    }
    Ok(tests.unwrap_or_default())
}

fn tests(root: &tree::Node, problems: &mut Problems) -> Option<Vec<PolicyTest>> {
    let mut found = None;
    for entry in super::fields::entries(root, "the file", &["tests"], problems)? {
        if entry.key == "tests" {
            let nodes = sequence(&entry.value, problems)?;
            unique_names(nodes, problems);
            found = Some(
                nodes
                    .iter()
                    .filter_map(|node| test(node, problems))
                    .collect(),
            );
        } else {
            unknown_field(entry, "the file", &["tests"], problems);
        }
    }
    found
}

fn test(node: &tree::Node, problems: &mut Problems) -> Option<PolicyTest> {
    let fields: TestFields = table(node, problems)?;
    Some(PolicyTest {
        place: node.spot.place,
        name: fields.name,
        request: fields.request,
        expect: match fields.expect {
            Action::Allow => Verdict::Allow,
            Action::Deny => Verdict::Deny,
            Action::RequireReview => Verdict::RequireReview,
        },
        rule: fields.rule,
    })
}
