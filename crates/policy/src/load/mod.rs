//! The policy file: bytes in, checked document or every problem out.
//!
//! The road: `source` checks the bytes, `tree` makes values with places of them within fixed
//! limits, the tables of `document` decode the values, `cross` holds the sections against each
//! other. Problems are gathered, never stopped at; each has an exact place, a stable code and
//! a way to mend it.
//!
//! Guarantee: any bytes give an answer in time and memory bounded by the limits of
//! `airlock_core::limits`. A rule with an error is left out of the document, never kept with a
//! condition missing. Not checked here: whether examples hold and rules are shadowed, which needs
//! the compiled policy.
//!
//! Invariant: a document from a file with an error never becomes a policy in force.

mod code;
mod conditions;
mod cross;
mod diagnostic;
mod fields;
mod host;
mod keys;
mod names;
mod number;
mod pattern;
mod problems;
mod render;
mod rule;
mod scalar;
pub(crate) mod schema;
mod sections;
mod shape;
mod source;
mod table_test;
mod tree;
mod words;

pub use code::CODES;
pub(crate) use code::TOO_MANY_PROBLEMS;
pub use diagnostic::{Diagnostic, Severity};
pub use render::render;
pub use schema::json_schema;
pub use table_test::{PolicyTest, parse_tests};

pub(crate) use conditions::{
    any_line, arguments, command_word, effects, json, request_path, syscall, syscall_pattern,
    template,
};
pub(crate) use fields::{Decode, entries, fields, unknown_field};
pub(crate) use host::{address, host};
pub(crate) use names::{name, plugin, program, tag, tool, user, workspace};
pub(crate) use number::{bytes, number, size, span, span_within, thousandths};
pub(crate) use pattern::{regex, secret_pattern};
pub(crate) use problems::{Problems, is_harmless};
pub(crate) use render::excerpt;
pub(crate) use rule::rules;
pub(crate) use scalar::{boolean, capability, digest, glob, prose, word};
pub(crate) use sections::{
    condition, coverage, destination, extension_file, mcp_gate, method, path_globs, placed,
    policy_gate, port, sandbox_tier, url_path, version,
};
pub(crate) use shape::{many, named, one_or_many, some, table};
pub(crate) use tree::Node;
pub(crate) use words::{Word, choice};

use crate::document::{Document, Place};
use problems::Spot;

/// The policy that holds where a workspace has none, or one that is not trusted.
pub const DEFAULT_POLICY: &str = include_str!("../default.yaml");

/// A policy that does not load: every problem of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy `{name}` does not load: {}", summary(.diagnostics))]
pub struct LoadError {
    /// The file, as the person knows it.
    pub name: String,
    /// Its problems, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl LoadError {
    /// How to mend the first problem.
    pub fn hint(&self) -> Option<&str> {
        self.first().map(|problem| problem.fix.as_str())
    }

    fn first(&self) -> Option<&Diagnostic> {
        first_error(&self.diagnostics)
    }
}

fn first_error(diagnostics: &[Diagnostic]) -> Option<&Diagnostic> {
    diagnostics
        .iter()
        .find(|problem| problem.severity == Severity::Error)
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    match first_error(diagnostics) {
        None => "no reason was recorded".to_owned(),
        Some(first) => {
            let more = if errors > 1 {
                format!(" (and {} more)", errors - 1)
            } else {
                String::new()
            };
            format!(
                "{}:{}: {}{more}",
                first.place.line, first.place.column, first.what
            )
        }
    }
}

/// What was found in a file: as much of the document as is sound, and every problem.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The document. Rules and sections with an error are left out of it.
    pub(crate) document: Document,
    /// Every problem, in the order of the file.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Reads a policy file.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let mut problems = Problems::default();
    let document = tree::read(bytes, &mut problems)
        .filter(|root| !is_empty(root))
        .and_then(|root| {
            let document = Document::decode_partly(&root, &mut problems);
            cross::check(&root, &mut problems);
            document
        });
    if document.is_none() && problems.errors() == 0 {
        let spot = Spot {
            place: Place { line: 1, column: 1 },
            length: 1,
        };
        fields::missing_field(spot, "the policy", "version", &mut problems);
    }
    Parsed {
        document: document.unwrap_or_default(),
        diagnostics: problems.into_sorted(),
    }
}

/// Reads a policy file on its own, without compiling it: the document and its warnings, or every
/// problem.
pub fn read_document(bytes: &[u8]) -> Result<(Document, Vec<Diagnostic>), Vec<Diagnostic>> {
    let Parsed {
        document,
        diagnostics,
    } = parse(bytes);
    if first_error(&diagnostics).is_some() {
        Err(diagnostics)
    } else {
        Ok((document, diagnostics))
    }
}

fn is_empty(root: &Node) -> bool {
    matches!(&root.value, tree::Value::Scalar { text, plain: true } if shape::is_null(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let parsed = parse(text.as_bytes());
        assert!(first_error(&parsed.diagnostics).is_some(), "{text}");
        let rules = parsed.document.rules.iter();
        rules.map(|rule| rule.name.to_string()).collect()
    }

    #[test]
    fn a_rule_with_any_error_is_left_out_and_the_others_stay() {
        let sound = "  - { name: sound, match: { user: a }, action: allow }\n";
        for broken in [
            "match: { usr: a }, action: allow",
            "match: { user: a, host: '*' }, action: allow",
            "match: { user: a, path_glob: [a, ~] }, action: allow",
            "match: { user: a }, action: alow",
            "match: { user: a }, action: allow, except: [{ port: 0 }]",
            "match: { user: a }, action: allow, constraints: { max_memory: 1 }, extra: 1",
            "match: { user: a }, action: allow, constraints: { max_memory: lots }",
            "match: { user: a }, action: allow, examples: { match: [{ syscall: x.y }] }",
            "match: { user: a }, action: deny, except: [{ user: b }]",
            "match: { user: *b }, action: allow",
            "match: { user: a, user: b }, action: allow",
            "match: { user: a, host: !x b }, action: allow",
            "match: { user: a, <<: { host: b } }, action: allow",
            "match: { user: a, [host]: b }, action: allow",
            "match: { user: a, path_glob: [a, \"\\0\"] }, action: allow",
        ] {
            let text = format!("version: 1\nrules:\n{sound}  - {{ name: broken, {broken} }}\n");
            assert_eq!(names(&text), ["sound"], "{broken}");
        }
    }

    #[test]
    fn an_error_in_one_section_leaves_the_others_in_the_document() {
        let text = "version: 1\nmerge: { max_lines: x }\naudit: { replay: 7 }\n";
        let parsed = parse(text.as_bytes());
        assert_eq!(parsed.diagnostics.len(), 1);
        assert_eq!(
            (
                parsed.document.audit.replay,
                parsed.document.merge.max_lines
            ),
            (7, 500)
        );
    }
}
