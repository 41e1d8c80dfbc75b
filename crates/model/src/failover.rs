//! Several models in order of preference: the next one answers when one does not.
//!
//! Who failed rests for a while that grows with each failure, so that a dead server does not delay
//! every question; if all of them rest, the one that rests least is asked anyway.

use crate::budget::Price;
use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::error::ModelError;
use crate::message::{Event, Reply, Request};
use crate::model::Model;
use crate::tokens::Counter;
use airlock_core::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long who failed first rests, and at most.
const REST: Duration = Duration::from_secs(15);
const LONGEST_REST: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, Default)]
struct Health {
    failures: u32,
    rests_until: i64,
}

/// Models in order of preference.
pub struct Failover {
    members: Vec<Arc<dyn Model>>,
    health: Mutex<Vec<Health>>,
    clock: Clock,
}

impl Failover {
    /// Asks `members` in this order; none where there is nobody to ask.
    pub fn new(members: Vec<Arc<dyn Model>>, clock: Clock) -> Option<Self> {
        if members.is_empty() {
            return None;
        }
        let health = Mutex::new(vec![Health::default(); members.len()]);
        Some(Self {
            members,
            health,
            clock,
        })
    }

    fn first(&self) -> Option<&Arc<dyn Model>> {
        self.members.first()
    }

    /// Whom to ask, in turn: who is well in order of preference, then who rests, the least first.
    fn order(&self) -> Vec<usize> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now().as_micros();
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.sort_by_key(|member| {
            let until = health.get(*member).map_or(0, |one| one.rests_until);
            if until <= now { 0 } else { until }
        });
        order
    }

    fn well(&self, member: usize) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = health.get_mut(member) {
            *one = Health::default();
        }
    }

    fn failed(&self, member: usize, error: &ModelError, now: Timestamp) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(one) = health.get_mut(member) else {
            return;
        };
        let grown = REST
            .saturating_mul(1 << one.failures.min(10))
            .min(LONGEST_REST);
        let rest = if let ModelError::Busy {
            after: Some(after), ..
        } = error
        {
            (*after).max(grown).min(LONGEST_REST)
        } else {
            grown
        };
        one.failures = one.failures.saturating_add(1);
        let rest = i64::try_from(rest.as_micros()).unwrap_or(i64::MAX);
        one.rests_until = now.as_micros().saturating_add(rest);
    }
}

impl Model for Failover {
    fn name(&self) -> &str {
        self.first().map_or("", |model| model.name())
    }

    fn chat(
        &self,
        request: &Request,
        on_event: &mut dyn FnMut(Event),
        cancel: &Cancel,
    ) -> Result<Reply, ModelError> {
        let mut told: Vec<String> = Vec::new();
        let order = self.order();
        let mut last = None;
        for (turn, member) in order.iter().enumerate() {
            let Some(model) = self.members.get(*member) else {
                continue;
            };
            match model.chat(request, on_event, cancel) {
                Ok(reply) => {
                    self.well(*member);
                    return Ok(reply);
                }
                Err(error) if error.is_of_this_model() => {
                    self.failed(*member, &error, self.clock.now());
                    if turn + 1 < order.len() {
                        on_event(Event::Error {
                            message: format!("model `{}`: {error}", model.name()),
                            retrying: true,
                        });
                    }
                    told.push(format!("{}: {error}", model.name()));
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match last {
            // With one model, its own words are the clearest.
            Some(error) if told.len() == 1 => Err(error),
            Some(error) => Err(ModelError::NoneAnswers {
                told,
                last: Box::new(error),
            }),
            None => Err(ModelError::Configuration {
                model: String::new(),
                why: "there is none".to_owned(),
            }),
        }
    }

    /// The one that counts most carefully: what fits it must fit the others, too.
    fn counter(&self) -> Counter {
        let all = || self.members.iter().map(|model| model.counter());
        let same = all().all(|counter| Some(counter) == all().next());
        match all().next() {
            Some(counter) if same => counter,
            Some(_) | None => Counter::ESTIMATE,
        }
    }

    fn window(&self) -> u32 {
        let windows = self.members.iter().map(|model| model.window());
        windows.min().unwrap_or_default()
    }

    fn hosts(&self) -> Vec<String> {
        self.members
            .iter()
            .flat_map(|model| model.hosts())
            .collect()
    }

    /// That of the dearest: any of them may be the one that answers.
    fn price(&self) -> Price {
        let prices = self.members.iter().map(|model| model.price());
        prices.fold(Price::default(), |most, one| Price {
            input_micros: most.input_micros.max(one.input_micros),
            output_micros: most.output_micros.max(one.output_micros),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Finish, Usage};
    use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

    /// Answers, or fails as long as it is told to.
    struct Stub {
        name: &'static str,
        fails: AtomicU32,
        asked: AtomicU32,
        error: fn() -> ModelError,
    }

    fn stub(name: &'static str, fails: u32, error: fn() -> ModelError) -> Arc<Stub> {
        Arc::new(Stub {
            name,
            fails: AtomicU32::new(fails),
            asked: AtomicU32::new(0),
            error,
        })
    }

    fn unreachable() -> ModelError {
        ModelError::Unreachable {
            host: "a".to_owned(),
            why: "nobody there".to_owned(),
        }
    }

    impl Model for Stub {
        fn name(&self) -> &str {
            self.name
        }

        fn chat(
            &self,
            _: &Request,
            _: &mut dyn FnMut(Event),
            _: &Cancel,
        ) -> Result<Reply, ModelError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let left = self.fails.load(Ordering::SeqCst);
            if left > 0 {
                self.fails.store(left - 1, Ordering::SeqCst);
                return Err((self.error)());
            }
            Ok(Reply {
                text: String::new(),
                reasoning: String::new(),
                calls: Vec::new(),
                finish: Finish::Stop,
                usage: Usage::default(),
                model: self.name.to_owned(),
            })
        }

        fn counter(&self) -> Counter {
            Counter::ESTIMATE
        }

        fn window(&self) -> u32 {
            8_000
        }

        fn hosts(&self) -> Vec<String> {
            Vec::new()
        }
    }

    fn ask(model: &Failover) -> Result<String, ModelError> {
        let reply = model.chat(&Request::default(), &mut |_| {}, &Cancel::new())?;
        Ok(reply.model)
    }

    #[test]
    fn the_next_answers_and_who_failed_rests_before_it_is_asked_again() {
        let time = Arc::new(AtomicI64::new(0));
        let told = Arc::clone(&time);
        let clock = Clock::of(move || Timestamp::from_micros(told.load(Ordering::SeqCst)));
        let (first, second) = (
            stub("first", 1, unreachable),
            stub("second", 0, unreachable),
        );
        let members: Vec<Arc<dyn Model>> = vec![first.clone(), second.clone()];
        let both = Failover::new(members, clock).unwrap();
        assert_eq!(ask(&both).unwrap(), "second");
        assert_eq!(ask(&both).unwrap(), "second");
        assert_eq!(first.asked.load(Ordering::SeqCst), 1, "it rests");
        time.store(16_000_000, Ordering::SeqCst);
        assert_eq!(ask(&both).unwrap(), "first");
    }

    #[test]
    fn all_of_them_failing_tells_what_each_said() {
        let members: Vec<Arc<dyn Model>> =
            vec![stub("a", 9, unreachable), stub("b", 9, unreachable)];
        let both = Failover::new(members, Clock::system()).unwrap();
        let error = ask(&both).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("a: ") && text.contains("b: "), "{text}");
        assert!(error.hint().is_some());
    }

    #[test]
    fn what_no_model_can_help_with_is_not_put_to_another() {
        for error in [(|| ModelError::Cancelled) as fn() -> ModelError, || {
            ModelError::ContextLength {
                model: "a".to_owned(),
                message: String::new(),
            }
        }] {
            let (first, second) = (stub("a", 9, error), stub("b", 0, error));
            let members: Vec<Arc<dyn Model>> = vec![first, second.clone()];
            let both = Failover::new(members, Clock::system()).unwrap();
            assert!(ask(&both).is_err());
            assert_eq!(second.asked.load(Ordering::SeqCst), 0);
        }
    }
}
