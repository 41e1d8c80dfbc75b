//! What the loop works with: whoever implements this takes calls to the road.

use airlock_model::{Cancel, Price, Status};
use airlock_sanitise::Origin;
use serde_json::{Map, Value};

/// A tool as it is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub summary: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// Whether it changes nothing, so that several may run at once.
    pub read_only: bool,
}

/// What came of a call, as it may be shown to a model: sanitised, and with its explanation where it
/// did not happen.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    /// How it ended.
    pub status: Status,
    /// The result, or why there is none and what would help.
    pub text: String,
    /// Where the text comes from.
    pub origin: Origin,
    /// Places in it that may be instructions.
    pub flags: usize,
}

/// A question that is about to be put to a model.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The model, by the name it is configured under.
    pub model: &'a str,
    /// Where it would be reached; nothing for one that reaches nothing.
    pub hosts: &'a [String],
    /// Tokens of the question.
    pub tokens: u64,
    /// What tokens cost there.
    pub price: Price,
}

impl Asking<'_> {
    /// What the question costs by itself, in millionths.
    pub fn cost_micros(&self) -> u64 {
        self.price.of(self.tokens, 0).cost_micros
    }

    /// The most tokens an answer may take where so many tokens, and so much money, are left for
    /// both; none: not limited.
    pub fn answer_within(&self, tokens: Option<u64>, cost_micros: Option<u64>) -> Option<u64> {
        let by_tokens = tokens.map(|left| left.saturating_sub(self.tokens));
        let by_cost = cost_micros
            .filter(|_| self.price.output_micros > 0)
            .map(|left| {
                let left = u128::from(left.saturating_sub(self.cost_micros()));
                let most = left * 1_000_000 / u128::from(self.price.output_micros);
                u64::try_from(most).unwrap_or(u64::MAX)
            });
        match (by_tokens, by_cost) {
            (Some(tokens), Some(cost)) => Some(tokens.min(cost)),
            (tokens, cost) => tokens.or(cost),
        }
    }
}

/// Leave to put a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leave {
    /// The most tokens the answer may take; none: as many as there is room for.
    pub answer: Option<u64>,
}

/// Why a question may not be put.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NoLeave {
    /// What happened.
    pub what: String,
    /// Why, one reason after the other.
    pub why: Vec<String>,
    /// What would help.
    pub fix: Vec<String>,
}

/// What was spent, to be counted where the session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Questions to a model.
    pub turns: u64,
    /// Tokens.
    pub tokens: u64,
    /// Money, in millionths.
    pub cost_micros: u64,
}

/// A pair of hands.
pub trait Hands: Sync {
    /// The tools there are now.
    fn tools(&self) -> Vec<Tool>;

    /// Does it, until `cancel` takes it back. Several that change nothing may come at once.
    fn call(&self, name: &str, arguments: &Map<String, Value>, cancel: &Cancel) -> Handed;

    /// Where the session stands: phase, what may be written, what comes next. One line.
    fn phase(&self) -> Option<String>;

    /// Whether the question may be put. Recorded before anything is connected to.
    fn leave(&self, asking: Asking<'_>) -> Result<Leave, NoLeave>;

    /// Counts what was spent. Fails where the session may not go on.
    fn spend(&self, spent: Spent) -> Result<(), NoLeave>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_takes_no_more_than_what_the_question_leaves() {
        let asking = |input_micros, output_micros| Asking {
            model: "m",
            hosts: &[],
            tokens: 1_000,
            price: Price {
                input_micros,
                output_micros,
            },
        };
        let free = asking(0, 0);
        let dear = asking(1_000_000, 2_000_000);
        for (asking, tokens, cost, want) in [
            (&free, None, None, None),
            (&free, Some(1_500), None, Some(500)),
            (&free, Some(900), None, Some(0)),
            (&free, None, Some(1), None),
            (&dear, None, Some(3_000), Some(1_000)),
            (&dear, None, Some(999), Some(0)),
            (&dear, Some(1_500), Some(3_000), Some(500)),
            (&dear, Some(9_000), Some(3_000), Some(1_000)),
        ] {
            assert_eq!(
                asking.answer_within(tokens, cost),
                want,
                "{tokens:?} {cost:?}"
            );
        }
    }
}
