//! What an agent may spend: what its definition says, within what is left to whoever invoked it.

use crate::fronts::Front;
use airlock_core::Span;
use airlock_definitions::Budget as Defined;
use airlock_policy::approval::BudgetLeft;
use airlock_state::Budget;

/// Millionths in a hundredth.
const MICROS_A_CENT: u64 = 10_000;

/// The smaller of two amounts, of which none is not limited.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The definition's own budget; what it leaves open is as usual.
fn defined(budget: Defined, front: Front) -> Budget {
    let usual = Budget::USUAL;
    let asked = Budget {
        calls: budget.calls_a_turn.map(u64::from),
        turns: budget.turns.map(u64::from),
        tokens: budget.tokens.map(u64::from),
        cost_micros: budget.cents.map(|cents| u64::from(cents) * MICROS_A_CENT),
        time: budget.wall_time,
    };
    match front {
        // A person's agent may do more than usual, if its definition says so.
        Front::Cli => Budget {
            calls: asked.calls.or(usual.calls),
            turns: asked.turns.or(usual.turns),
            time: asked.time.or(usual.time),
            ..asked
        },
        Front::Agent | Front::Mcp | Front::Server | Front::Plugin => Budget {
            calls: least(asked.calls, usual.calls),
            turns: least(asked.turns, usual.turns),
            tokens: asked.tokens,
            cost_micros: asked.cost_micros,
            time: least(asked.time, usual.time),
        },
    }
}

/// The budget of an agent that `front` invokes, with `left` to each session above it.
pub(super) fn narrowed(budget: Defined, front: Front, left: &[BudgetLeft]) -> Budget {
    left.iter()
        .fold(defined(budget, front), |own, left| Budget {
            calls: least(own.calls, left.calls),
            turns: least(own.turns, left.turns),
            tokens: least(own.tokens, left.tokens),
            cost_micros: least(own.cost_micros, left.cost_micros),
            time: least(own.time, left.time),
        })
}

/// Whether `budget`, of an earlier invocation, is no more than `front` could give the agent anew.
pub(super) fn is_within(budget: &Budget, defined_as: Defined, front: Front) -> bool {
    fn within<T: Ord>(own: Option<&T>, most: Option<&T>) -> bool {
        most.is_none_or(|most| own.is_some_and(|own| own <= most))
    }
    let most = defined(defined_as, front);
    within(budget.calls.as_ref(), most.calls.as_ref())
        && within(budget.turns.as_ref(), most.turns.as_ref())
        && within(budget.tokens.as_ref(), most.tokens.as_ref())
        && within(budget.cost_micros.as_ref(), most.cost_micros.as_ref())
        && within(budget.time.as_ref(), most.time.as_ref())
}

/// What there is none of, in a word; none: there is some of everything.
pub(super) fn lacking(budget: &Budget) -> Option<&'static str> {
    let nothing = |amount: Option<u64>| amount == Some(0);
    [
        (nothing(budget.turns), "turns"),
        (nothing(budget.tokens), "tokens"),
        (nothing(budget.cost_micros), "money"),
        (
            budget.time.is_some_and(|time: Span| time.as_millis() == 0),
            "time",
        ),
    ]
    .into_iter()
    .find_map(|(nothing, what)| nothing.then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLIMITED: BudgetLeft = BudgetLeft {
        calls: None,
        turns: None,
        tokens: None,
        cost_micros: None,
        time: None,
    };

    #[test]
    fn a_definition_never_gets_more_than_is_left_above_it() {
        let greedy = Defined {
            turns: Some(10_000),
            calls_a_turn: Some(1_000),
            tokens: Some(100_000_000),
            cents: Some(1_000_000),
            wall_time: Some(Span::from_secs(24 * 3_600)),
        };
        let above = BudgetLeft {
            calls: Some(7),
            turns: Some(3),
            tokens: Some(500),
            cost_micros: Some(40),
            time: Some(Span::from_secs(9)),
        };
        let own = narrowed(greedy, Front::Cli, &[UNLIMITED, above]);
        assert_eq!(
            (own.calls, own.turns, own.tokens, own.cost_micros, own.time),
            (
                Some(7),
                Some(3),
                Some(500),
                Some(40),
                Some(Span::from_secs(9))
            )
        );
        // Alone, a person's may be large and anybody else's is as usual.
        assert_eq!(narrowed(greedy, Front::Cli, &[]).turns, Some(10_000));
        assert_eq!(narrowed(greedy, Front::Mcp, &[]).turns, Some(100));
        assert_eq!(
            narrowed(Defined::default(), Front::Cli, &[]).turns,
            Some(100)
        );
    }

    #[test]
    fn nobody_goes_on_with_more_than_they_could_give() {
        let greedy = Defined {
            turns: Some(10_000),
            ..Defined::default()
        };
        let persons = narrowed(greedy, Front::Cli, &[]);
        assert!(is_within(&persons, greedy, Front::Cli));
        assert!(!is_within(&persons, greedy, Front::Mcp));
        let others = narrowed(greedy, Front::Mcp, &[]);
        assert!(is_within(&others, greedy, Front::Mcp));
        assert!(is_within(&others, greedy, Front::Cli));
    }

    #[test]
    fn what_there_is_none_of_is_named() {
        let full = narrowed(Defined::default(), Front::Mcp, &[]);
        assert_eq!(lacking(&full), None);
        let spent = BudgetLeft {
            cost_micros: Some(0),
            ..UNLIMITED
        };
        let none = narrowed(Defined::default(), Front::Mcp, &[spent]);
        assert_eq!(lacking(&none), Some("money"));
    }
}
