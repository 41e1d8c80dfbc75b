//! Budgets in tokens and money, held before a question is asked. Pure: the time is handed in.
//!
//! What a question may take is reserved first and settled by what it took, so several at once
//! cannot go over together. Non-guarantee: an answer that takes more than was asked for is counted
//! in full, but it was paid by then.

use airlock_core::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

const HOUR: i64 = 3_600 * 1_000_000;
const DAY: i64 = 24 * HOUR;
/// Questions of a day that are kept one by one; of more, the older half is joined into one.
const KEPT: usize = 1_024;

/// An amount of tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spending {
    /// Tokens.
    pub tokens: u64,
    /// Money, in millionths of the currency prices are given in.
    pub cost_micros: u64,
}

impl Spending {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

/// The most of both; none: not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limit {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money, in millionths.
    pub cost_micros: Option<u64>,
}

impl Limit {
    fn holds(self, spent: Spending) -> bool {
        let within = |most: Option<u64>, spent| most.is_none_or(|most| spent <= most);
        within(self.tokens, spent.tokens) && within(self.cost_micros, spent.cost_micros)
    }
}

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// By one question.
    pub call: Limit,
    /// By one session.
    pub session: Limit,
    /// In the last hour.
    pub hour: Limit,
    /// In the last day.
    pub day: Limit,
}

/// What a budget is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// One question.
    Call,
    /// One session.
    Session,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Session => "session",
            Self::Hour => "hour",
            Self::Day => "day",
        })
    }
}

/// A question that would go over a budget, and is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the question would go over the budget of a {span}: {} tokens and {} would be spent", would.tokens, money(would.cost_micros))]
pub struct OverBudget {
    /// Which budget.
    pub span: Span,
    /// What would be spent in all.
    pub would: Spending,
    /// What may be.
    pub limit: Limit,
}

impl OverBudget {
    /// What would help.
    pub const fn hint(&self) -> &'static str {
        match self.span {
            Span::Call => "ask for less at once, or raise `budget.call`",
            Span::Session => "begin another session, or raise `budget.session`",
            Span::Hour | Span::Day => "wait, or raise the budget in your configuration",
        }
    }
}

/// Millionths as people write money.
fn money(micros: u64) -> String {
    format!("{}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

/// What tokens cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// A million tokens of questions, in millionths.
    pub input_micros: u64,
    /// A million tokens of answers, in millionths.
    pub output_micros: u64,
}

impl Price {
    /// What so many tokens of question and answer take.
    pub fn of(self, input: u64, output: u64) -> Spending {
        let cost = |tokens: u64, price: u64| {
            let micros = u128::from(tokens) * u128::from(price);
            u64::try_from(micros.div_ceil(1_000_000)).unwrap_or(u64::MAX)
        };
        Spending {
            tokens: input.saturating_add(output),
            cost_micros: cost(input, self.input_micros)
                .saturating_add(cost(output, self.output_micros)),
        }
    }
}

/// One question's spending, and when it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    at: i64,
    spent: Spending,
}

/// What was spent. It can be kept as JSON between processes ([`Ledger::keep_in`]); the session's share
/// is not kept.
///
/// Invariant: what was spent is in `entries` once it is kept and in `fresh` until then, never in both:
/// so what is kept can be joined there without being counted again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// What is kept, of all processes.
    entries: Vec<Entry>,
    /// What this process spent and is not kept yet.
    #[serde(skip)]
    fresh: Vec<Entry>,
    #[serde(skip)]
    session: Spending,
    /// Reserved, and not settled yet.
    #[serde(skip)]
    open: Vec<(u64, Spending)>,
    #[serde(skip)]
    next: u64,
}

/// A reservation to be settled.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is not settled stays reserved"]
pub struct Reserved(u64);

impl Ledger {
    /// Reserves `most` for one question, if every budget has it.
    pub fn reserve(
        &mut self,
        budget: &Budget,
        most: Spending,
        now: Timestamp,
    ) -> Result<Reserved, OverBudget> {
        self.forget(now);
        self.holds(budget, most, None, now)?;
        self.next += 1;
        self.open.push((self.next, most));
        Ok(Reserved(self.next))
    }

    /// Reserves `most` in place of what was `reserved`, if every budget has it.
    pub fn reserve_again(
        &mut self,
        reserved: &Reserved,
        budget: &Budget,
        most: Spending,
        now: Timestamp,
    ) -> Result<(), OverBudget> {
        self.holds(budget, most, Some(reserved), now)?;
        for (number, open) in &mut self.open {
            if *number == reserved.0 {
                *open = most;
            }
        }
        Ok(())
    }

    /// Whether every budget has `most`, beside what else is reserved.
    fn holds(
        &self,
        budget: &Budget,
        most: Spending,
        instead_of: Option<&Reserved>,
        now: Timestamp,
    ) -> Result<(), OverBudget> {
        let others = self.open.iter();
        let others = others.filter(|(number, _)| instead_of.is_none_or(|own| own.0 != *number));
        let open = others.fold(most, |sum, (_, one)| sum.plus(*one));
        for (span, limit, spent) in [
            (Span::Call, budget.call, most),
            (Span::Session, budget.session, self.session.plus(open)),
            (Span::Hour, budget.hour, self.since(now, HOUR).plus(open)),
            (Span::Day, budget.day, self.since(now, DAY).plus(open)),
        ] {
            if !limit.holds(spent) {
                return Err(OverBudget {
                    span,
                    would: spent,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// Replaces what was reserved by what was spent.
    pub fn settle(&mut self, reserved: &Reserved, spent: Spending, now: Timestamp) {
        self.open.retain(|(number, _)| *number != reserved.0);
        if spent == Spending::default() {
            return;
        }
        self.session = self.session.plus(spent);
        self.fresh.push(Entry {
            at: now.as_micros(),
            spent,
        });
    }

    /// What this session spent.
    pub const fn session(&self) -> Spending {
        self.session
    }

    /// What was spent in the last hour.
    pub fn hour(&self, now: Timestamp) -> Spending {
        self.since(now, HOUR)
    }

    /// What was spent in the last day.
    pub fn day(&self, now: Timestamp) -> Spending {
        self.since(now, DAY)
    }

    fn since(&self, now: Timestamp, span: i64) -> Spending {
        let from = now.as_micros().saturating_sub(span);
        // A clock that went back makes nothing cheaper: what lies in the future counts.
        let all = self.entries.iter().chain(&self.fresh);
        let recent = all.filter(|entry| entry.at > from);
        recent.fold(Spending::default(), |sum, entry| sum.plus(entry.spent))
    }

    /// Takes over what is `kept`, by other processes too.
    pub fn take_over(&mut self, kept: &Self) {
        self.entries.clone_from(&kept.entries);
    }

    /// Adds to `kept` what this process spent since it was kept last, and forgets there what is older
    /// than a day. Once that is written, [`Ledger::written_to`] is told.
    pub fn keep_in(&self, kept: &mut Self, now: Timestamp) {
        kept.entries.extend(&self.fresh);
        outdate(&mut kept.entries, now);
        fold(&mut kept.entries);
    }

    /// All of this is in `kept`, which was written.
    pub fn written_to(&mut self, kept: &Self) {
        self.take_over(kept);
        self.fresh.clear();
    }

    fn forget(&mut self, now: Timestamp) {
        outdate(&mut self.entries, now);
        outdate(&mut self.fresh, now);
        // Nobody else has these. What is kept is joined where it is kept alone.
        fold(&mut self.fresh);
    }
}

/// Drops what is older than a day.
fn outdate(entries: &mut Vec<Entry>, now: Timestamp) {
    let from = now.as_micros().saturating_sub(DAY);
    entries.retain(|entry| entry.at > from);
}

/// Joins the older half, if there are too many.
fn fold(entries: &mut Vec<Entry>) {
    if entries.len() <= KEPT {
        return;
    }
    // Joined under the later time: counted longer than need be, never shorter.
    let half = entries.split_off(entries.len() / 2);
    let joined = entries.iter().copied().reduce(|one, other| Entry {
        at: one.at.max(other.at),
        spent: one.spent.plus(other.spent),
    });
    *entries = joined.into_iter().chain(half).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn tokens(tokens: u64) -> Spending {
        Spending {
            tokens,
            cost_micros: 0,
        }
    }

    const fn most(tokens: u64) -> Limit {
        Limit {
            tokens: Some(tokens),
            cost_micros: None,
        }
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn spend(ledger: &mut Ledger, budget: &Budget, amount: u64, now: i64) -> Result<(), Span> {
        let reserved = ledger
            .reserve(budget, tokens(amount), at(now))
            .map_err(|error| error.span)?;
        ledger.settle(&reserved, tokens(amount), at(now));
        Ok(())
    }

    #[test]
    fn each_budget_is_held_before_the_question() {
        for (budget, want) in [
            (
                Budget {
                    call: most(99),
                    ..Budget::default()
                },
                Span::Call,
            ),
            (
                Budget {
                    session: most(250),
                    ..Budget::default()
                },
                Span::Session,
            ),
            (
                Budget {
                    hour: most(250),
                    ..Budget::default()
                },
                Span::Hour,
            ),
            (
                Budget {
                    day: most(250),
                    ..Budget::default()
                },
                Span::Day,
            ),
        ] {
            let mut ledger = Ledger::default();
            let mut ended = Ok(());
            for _ in 0..3 {
                ended = ended.and_then(|()| spend(&mut ledger, &budget, 100, 1));
            }
            assert_eq!(ended, Err(want));
            assert!(ledger.session().tokens <= 250);
        }
    }

    #[test]
    fn hours_and_days_pass_and_sessions_do_not() {
        let budget = Budget {
            hour: most(100),
            day: most(150),
            session: most(1_000),
            ..Budget::default()
        };
        let mut ledger = Ledger::default();
        assert_eq!(spend(&mut ledger, &budget, 100, 0), Ok(()));
        assert_eq!(spend(&mut ledger, &budget, 50, HOUR - 1), Err(Span::Hour));
        assert_eq!(spend(&mut ledger, &budget, 50, HOUR), Ok(()));
        assert_eq!(spend(&mut ledger, &budget, 50, 2 * HOUR), Err(Span::Day));
        assert_eq!(spend(&mut ledger, &budget, 50, DAY), Ok(()));
        assert_eq!(ledger.session().tokens, 200);
    }

    #[test]
    fn money_is_rounded_up_and_limited_like_tokens() {
        let price = Price {
            input_micros: 2_500_000,
            output_micros: 10_000_000,
        };
        assert_eq!(price.of(1_000, 100).cost_micros, 2_500 + 1_000);
        assert_eq!(price.of(1, 0).cost_micros, 3);
        let limit = Limit {
            tokens: None,
            cost_micros: Some(3_499),
        };
        assert!(!limit.holds(price.of(1_000, 100)));
    }

    #[test]
    fn what_is_reserved_counts_until_it_is_settled() {
        let budget = Budget {
            hour: most(100),
            ..Budget::default()
        };
        let mut ledger = Ledger::default();
        let first = ledger.reserve(&budget, tokens(60), at(1)).unwrap();
        assert!(ledger.reserve(&budget, tokens(60), at(1)).is_err());
        ledger.settle(&first, tokens(10), at(1));
        assert!(ledger.reserve(&budget, tokens(60), at(1)).is_ok());
    }

    #[test]
    fn what_is_kept_between_processes_still_counts() {
        let budget = Budget {
            day: most(100),
            ..Budget::default()
        };
        let mut ledger = Ledger::default();
        spend(&mut ledger, &budget, 80, 1).unwrap();
        let mut kept = Ledger::default();
        ledger.keep_in(&mut kept, at(1));
        let text = serde_json::to_string(&kept).unwrap();
        let mut other: Ledger = serde_json::from_str(&text).unwrap();
        assert_eq!(spend(&mut other, &budget, 30, 2), Err(Span::Day));
        other.take_over(&kept);
        assert_eq!(other.day(at(2)).tokens, 80);
        // What could not be written is there the next time.
        let mut later = Ledger::default();
        ledger.keep_in(&mut later, at(2));
        assert_eq!(later, kept);
    }

    #[test]
    fn two_processes_with_thousands_of_questions_count_each_once() {
        let mut kept = Ledger::default();
        let mut both = [Ledger::default(), Ledger::default()];
        for n in 0..3_000 {
            // The second looks rarely, and finds what it had joined by the first.
            let ledger = &mut both[usize::from(n % 100 == 99)];
            ledger.take_over(&kept);
            spend(ledger, &Budget::default(), 1, n).unwrap();
            ledger.keep_in(&mut kept, at(n));
            ledger.written_to(&kept);
            assert!(kept.entries.len() <= KEPT);
        }
        for ledger in &mut both {
            ledger.take_over(&kept);
            assert_eq!(ledger.day(at(3_000)).tokens, 3_000);
        }
        Ledger::default().keep_in(&mut kept, at(3_000 + DAY));
        assert_eq!(kept, Ledger::default(), "nothing is kept for ever");
    }

    proptest! {
        #[test]
        fn no_sequence_of_questions_goes_over(amounts in proptest::collection::vec((1_u64..200, 0_i64..HOUR), 1..200)) {
            let budget = Budget { hour: most(500), ..Budget::default() };
            let mut ledger = Ledger::default();
            let mut now = 0;
            for (amount, pause) in amounts {
                now += pause;
                let _ = spend(&mut ledger, &budget, amount, now);
                prop_assert!(ledger.hour(at(now)).tokens <= 500);
            }
        }
    }

    #[test]
    fn a_long_ledger_stays_small_and_forgets_nothing_of_a_day() {
        let mut ledger = Ledger::default();
        for n in 0..3_000 {
            spend(&mut ledger, &Budget::default(), 1, n).unwrap();
        }
        assert!(ledger.fresh.len() <= KEPT + 1);
        assert_eq!(ledger.day(at(10_000)).tokens, 3_000);
    }
}
