//! Conditions on the arguments of a request.

use super::conditions::{ConditionError, Coverage};
use crate::document::{ArgCondition, ArgTest};
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use std::sync::Arc;

/// Bound on a compiled expression; ten thousand small ones must fit a kernel's memory.
const PATTERN_BYTES: usize = 1 << 20;

/// A compiled condition on one argument.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    path: Arc<str>,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    OneOf(Box<[Value]>),
    Matches(Regex),
}

impl Argument {
    /// Compiles `condition` of conditions that are asked with `coverage`.
    pub(super) fn compile(
        condition: &ArgCondition,
        coverage: Coverage,
    ) -> Result<Self, ConditionError> {
        let test = match &condition.test {
            ArgTest::Equals(value) => Test::OneOf(Box::from([value.clone()])),
            ArgTest::OneOf(values) => Test::OneOf(values.as_slice().into()),
            ArgTest::Matches(pattern) => Test::Matches(in_full(pattern, coverage)?),
        };
        Ok(Self {
            path: Arc::clone(&condition.path),
            test,
        })
    }

    /// Whether the value is there and as wanted.
    pub(super) fn matches(&self, arguments: &Value) -> bool {
        let Some(value) = find(arguments, &self.path) else {
            return false;
        };
        match &self.test {
            Test::OneOf(wanted) => wanted.iter().any(|wanted| same(wanted, value)),
            Test::Matches(pattern) => value.as_str().is_some_and(|text| pattern.is_match(text)),
        }
    }

    /// How many values it holds.
    pub(super) fn weight(&self) -> usize {
        match &self.test {
            Test::OneOf(values) => values.len(),
            Test::Matches(_) => 1,
        }
    }

    /// Whether whatever meets `other` certainly meets this.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.path == other.path
            && match (&self.test, &other.test) {
                (Test::OneOf(own), Test::OneOf(others)) => others
                    .iter()
                    .all(|value| own.iter().any(|own| same(own, value))),
                (Test::Matches(own), Test::OneOf(others)) => others
                    .iter()
                    .all(|value| value.as_str().is_some_and(|text| own.is_match(text))),
                // The same text takes as much in a denial as in anything it is compared with.
                (Test::Matches(own), Test::Matches(other)) => own.as_str() == other.as_str(),
                (Test::OneOf(_), Test::Matches(_)) => false,
            }
    }
}

/// The expression that takes what `pattern` matches as a whole. Where it narrows, `.` takes line
/// breaks as well: one more in an argument must not lead past it. Where it widens, it does not.
fn in_full(pattern: &Arc<str>, coverage: Coverage) -> Result<Regex, ConditionError> {
    let broken = |error: regex::Error| {
        ConditionError::Pattern(Arc::clone(pattern), error.to_string().replace('\n', " "))
    };
    let build = |text: &str| {
        RegexBuilder::new(text)
            .dot_matches_new_line(coverage == Coverage::Any)
            .size_limit(PATTERN_BYTES)
            .build()
    };
    // Alone first: `a)|(b` would otherwise close the group that makes it match in full.
    build(pattern).map_err(broken)?;
    build(&format!(r"\A(?:{pattern})\z")).map_err(broken)
}

/// The value at a dotted path; numbers are positions in lists.
pub(crate) fn find<'a>(arguments: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(arguments, |value, key| match value {
            Value::Object(fields) => fields.get(key),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
}

/// Equal, where `1` and `1.0` are the same number however they were written.
fn same(wanted: &Value, actual: &Value) -> bool {
    wanted == actual
        || match (wanted, actual) {
            // Whole numbers are compared exactly above; only a float is worth a second look.
            (Value::Number(wanted), Value::Number(actual)) => {
                (wanted.is_f64() || actual.is_f64()) && wanted.as_f64() == actual.as_f64()
            }
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn argument(path: &str, test: ArgTest, coverage: Coverage) -> Argument {
        let path = path.into();
        Argument::compile(&ArgCondition { path, test }, coverage).unwrap()
    }

    #[test]
    fn values_are_found_by_dotted_path_and_compared_whole() {
        let arguments = json!({ "a": { "b": ["x", "release-1\nevil"], "n": 1.0 }, "s": "abc" });
        for (path, test, want) in [
            ("a.b.0", ArgTest::Equals(json!("x")), true),
            ("a.b.2", ArgTest::Equals(json!("x")), false),
            ("a.b.-1", ArgTest::Equals(json!("x")), false),
            ("a.n", ArgTest::Equals(json!(1)), true),
            ("a.n", ArgTest::Equals(json!("1")), false),
            ("a", ArgTest::Equals(json!({})), false),
            ("", ArgTest::Equals(json!("abc")), false),
            ("s", ArgTest::OneOf(vec![json!("q"), json!("abc")]), true),
            ("s", ArgTest::OneOf(vec![]), false),
            ("s", ArgTest::Matches("b".into()), false),
            ("s", ArgTest::Matches("a|abc".into()), true),
            ("s", ArgTest::Matches("x|b".into()), false),
            ("a.b.1", ArgTest::Matches("release-[0-9]+".into()), false),
            ("a.n", ArgTest::Matches(".*".into()), false),
        ] {
            let shown = format!("{path} {test:?}");
            for coverage in [Coverage::All, Coverage::Any] {
                let argument = argument(path, test.clone(), coverage);
                assert_eq!(argument.matches(&arguments), want, "{shown} {coverage:?}");
            }
        }
    }

    #[test]
    fn a_line_break_leads_past_nothing_that_narrows_and_into_nothing_that_widens() {
        for (pattern, text) in [
            ("--config.*", "--config=x\n"),
            ("--config.*", "--config=x\ny"),
            (".*evil.*", "a\nevil\r\n"),
        ] {
            let arguments = json!({ "a": text });
            let matches = |coverage| {
                let test = ArgTest::Matches(pattern.into());
                argument("a", test, coverage).matches(&arguments)
            };
            assert!(matches(Coverage::Any), "{pattern} {text:?}");
            assert!(!matches(Coverage::All), "{pattern} {text:?}");
        }
        // Whoever says otherwise is heard.
        let test = ArgTest::Matches("(?-s)--config.*".into());
        let narrow = argument("a", test, Coverage::Any);
        assert!(!narrow.matches(&json!({ "a": "--config=x\n" })));
    }

    #[test]
    fn a_pattern_cannot_escape_its_anchors_or_grow_without_bound() {
        for pattern in ["a)|(?:.*", "(", "((a{99}){99}){99}"] {
            let path = "s".into();
            let test = ArgTest::Matches(pattern.into());
            let result = Argument::compile(&ArgCondition { path, test }, Coverage::Any);
            assert!(result.is_err(), "{pattern}");
        }
    }
}
