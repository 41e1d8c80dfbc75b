//! Comparisons: the only questions a workflow can ask.

use super::expression::{Expression, Known, LookupError, Reference, Scope};
use airlock_yaml::{Node, Problems, code, shown};
use serde_json::Value;
use std::cmp::Ordering::{Equal, Greater, Less};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// Longest first: `<=` begins with `<`.
const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::MoreOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

/// A question with yes or no as its answer: a reference to a truth value, or a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    left: Expression,
    right: Option<(Comparison, Expression)>,
}

impl Condition {
    pub(super) fn parse(node: &Node, known: &Known<'_>, problems: &mut Problems) -> Option<Self> {
        let text = node.text(problems)?;
        let found = COMPARISONS
            .iter()
            .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
            .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())));
        let Some((_, sign, comparison)) = found else {
            let left = side(text, node, known, problems)?;
            if !left.refers() {
                problems.error(
                    code::REFERENCE,
                    node.spot,
                    "this is no question",
                    "write `${steps.a.ok}` or `${inputs.n} > 3`",
                );
                return None;
            }
            return Some(Self { left, right: None });
        };
        let (left, right) = text.split_once(sign)?;
        let left = side(left, node, known, problems);
        let right = side(right, node, known, problems);
        Some(Self {
            left: left?,
            right: Some((comparison, right?)),
        })
    }

    /// The answer in `scope`.
    pub fn holds(&self, scope: Scope<'_>) -> Result<bool, LookupError> {
        let unfit = |why| LookupError {
            reference: "if".to_owned(),
            why,
        };
        let left = self.left.resolve(scope)?;
        let Some((comparison, right)) = &self.right else {
            return left
                .as_bool()
                .ok_or_else(|| unfit("is neither true nor false"));
        };
        let right = right.resolve(scope)?;
        let order = match (left.as_f64(), right.as_f64()) {
            (Some(left), Some(right)) => left.partial_cmp(&right),
            _ => None,
        };
        let ordered = |wanted: &[std::cmp::Ordering]| {
            let order = order.ok_or_else(|| unfit("compares what are not two numbers"))?;
            Ok(wanted.contains(&order))
        };
        match comparison {
            Comparison::Equal => Ok(order.map_or(left == right, |order| order == Equal)),
            Comparison::Unequal => Ok(order.map_or(left != right, |order| order != Equal)),
            Comparison::Less => ordered(&[Less]),
            Comparison::LessOrEqual => ordered(&[Less, Equal]),
            Comparison::More => ordered(&[Greater]),
            Comparison::MoreOrEqual => ordered(&[Greater, Equal]),
        }
    }
}

/// One side of a comparison: a reference, or a JSON value.
fn side(text: &str, node: &Node, known: &Known<'_>, problems: &mut Problems) -> Option<Expression> {
    let text = text.trim();
    if let Some(inside) = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
    {
        let reference = Reference::parse(inside, node, known, problems)?;
        return Some(Expression::reference(reference));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if !value.is_array() && !value.is_object() => Some(Expression::literal(value)),
        _ => {
            let what = format!("`{}` cannot be compared", shown(text));
            let fix = "compare `${...}` with a number, `true`, `false`, `null` or a text in double quotes";
            problems.error(code::REFERENCE, node.spot, what, fix);
            None
        }
    }
}
