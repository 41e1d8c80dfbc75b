//! What of a conversation a model is told.
//!
//! The latest exchanges word for word, a summary of what came before, and what the person pinned.
//! An exchange is a message of the person, or an answer of the model with all its calls and their
//! results: it is kept or summarised whole, so a call is never without its result.
//!
//! INVARIANT: [`Context::messages`] never gives more than the room it is given.

mod digest;
mod exchange;
mod shares;

pub use shares::Shares;

use airlock_model::{Counter, Message};
use airlock_sanitise::{Origin, Sanitiser, tag};
use digest::Digest;
pub(crate) use exchange::Exchange;
use std::collections::VecDeque;

/// How full the room for recent exchanges may be before the oldest are summarised, and how full it
/// is afterwards, in hundredths. The gap keeps every answer from summarising again.
const FULL: u64 = 70;
const EASED: u64 = 40;
/// Exchanges kept word for word at least, however long: the last one is shortened instead.
const KEPT: usize = 1;

/// Why something cannot be pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// There is nothing in it.
    #[error("there is nothing to pin")]
    Empty,
    /// Pins are in every question, and have to leave room for the rest of it.
    #[error("pinned items would take {would} tokens of every question, and may take {most}")]
    TooLong {
        /// What all pins would take.
        would: u64,
        /// What they may take.
        most: u64,
    },
}

/// What changed about a conversation so that it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Eased {
    /// Exchanges that were summarised.
    pub(crate) exchanges: usize,
}

/// A conversation.
#[derive(Debug)]
pub struct Context {
    counter: Counter,
    pins: Vec<String>,
    recent: VecDeque<Exchange>,
    digest: Digest,
}

impl Context {
    /// An empty one, counted by `counter`.
    pub fn new(counter: Counter) -> Self {
        Self {
            counter,
            pins: Vec::new(),
            recent: VecDeque::new(),
            digest: Digest::default(),
        }
    }

    /// Counts by `counter` from now on.
    pub fn recount(&mut self, counter: Counter) {
        if counter != self.counter {
            self.counter = counter;
            for exchange in &mut self.recent {
                exchange.recount(counter);
            }
        }
    }

    /// Pins `text`: it is part of every question from now on.
    pub fn pin(&mut self, text: &str, most: u64) -> Result<(), PinError> {
        let text = Sanitiser::new().text(text.trim()).text.into_owned();
        if text.is_empty() {
            return Err(PinError::Empty);
        }
        self.pins.push(text);
        let would = self.pinned().map_or(0, |one| self.counter.message(&one));
        if would > most {
            self.pins.pop();
            return Err(PinError::TooLong { would, most });
        }
        Ok(())
    }

    /// What is pinned.
    pub fn pins(&self) -> &[String] {
        &self.pins
    }

    /// Exchanges that are kept word for word.
    pub fn recent(&self) -> usize {
        self.recent.len()
    }

    pub(crate) fn add(&mut self, messages: Vec<Message>, most: u64) {
        let exchange = Exchange::new(messages, self.counter, most);
        self.recent.push_back(exchange);
    }

    fn pinned(&self) -> Option<Message> {
        if self.pins.is_empty() {
            return None;
        }
        let list: Vec<String> = self.pins.iter().map(|pin| format!("- {pin}")).collect();
        let text = format!("Pinned; keep to it throughout:\n{}", list.join("\n"));
        let text = tag(&text, &Origin::User);
        Some(Message::User { text })
    }

    fn summary(&self, most: u64) -> Option<Message> {
        let around = 64;
        let text = self
            .digest
            .render(self.counter, most.saturating_sub(around))?;
        let text = tag(&text, &Origin::Tool("airlock.summary".to_owned()));
        let text = format!("Summary of the conversation so far, kept by Airlock:\n{text}");
        let message = Message::User { text };
        (self.counter.message(&message) <= most).then_some(message)
    }

    /// The messages of the next question, in at most `room` tokens, of which a summary takes
    /// `summary` at most. Summarises and shortens what does not fit. None where not even the pins
    /// do.
    pub(crate) fn messages(&mut self, room: u64, summary: u64) -> Option<(Vec<Message>, Eased)> {
        let pinned = self.pinned();
        let fixed = pinned.as_ref().map_or(0, |one| self.counter.message(one));
        let recent_room = room.checked_sub(fixed + summary).filter(|room| *room > 0)?;
        let eased = self.ease(recent_room);
        let mut messages: Vec<Message> = Vec::new();
        messages.extend(self.summary(summary));
        messages.extend(pinned);
        messages.extend(
            self.recent
                .iter()
                .flat_map(|one| one.messages().iter().cloned()),
        );
        Some((messages, eased))
    }

    /// Summarises the oldest exchanges once the recent ones pass their share of `room`, and
    /// shortens the last one if it alone has too much.
    fn ease(&mut self, room: u64) -> Eased {
        let mut eased = Eased::default();
        if self.cost() > room * FULL / 100 {
            while self.recent.len() > KEPT && self.cost() > room * EASED / 100 {
                let Some(oldest) = self.recent.pop_front() else {
                    break;
                };
                self.digest.absorb(oldest.messages());
                eased.exchanges += 1;
            }
        }
        if self.cost() > room
            && let Some(last) = self.recent.back_mut()
        {
            last.shorten(room, self.counter);
        }
        eased
    }

    fn cost(&self) -> u64 {
        self.recent.iter().map(Exchange::cost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_model::{Arguments, Status, ToolCall};
    use proptest::prelude::*;

    fn said(text: &str) -> Vec<Message> {
        vec![Message::User {
            text: text.to_owned(),
        }]
    }

    fn answer(calls: usize, result: usize, arguments: usize) -> Vec<Message> {
        let call = |n: usize| ToolCall {
            id: format!("c{n}"),
            name: "fs.write".to_owned(),
            arguments: Arguments::Object(serde_json::Map::from_iter([(
                "text".to_owned(),
                serde_json::Value::String("a ".repeat(arguments)),
            )])),
        };
        let mut all = vec![Message::Assistant {
            text: "I decided something.".to_owned(),
            calls: (0..calls).map(call).collect(),
        }];
        all.extend((0..calls).map(|n| Message::Tool {
            call: format!("c{n}"),
            name: "fs.write".to_owned(),
            status: Status::Ok,
            text: "é".repeat(result),
        }));
        all
    }

    /// Every call is followed by its result, and every result follows its call.
    fn paired(messages: &[Message]) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for message in messages {
            match message {
                Message::Assistant { calls, .. } => {
                    if !open.is_empty() {
                        return false;
                    }
                    open = calls.iter().map(|call| call.id.as_str()).collect();
                }
                Message::Tool { call, .. } => {
                    let Some(at) = open.iter().position(|id| id == call) else {
                        return false;
                    };
                    open.remove(at);
                }
                Message::User { .. } => {
                    if !open.is_empty() {
                        return false;
                    }
                }
            }
        }
        open.is_empty()
    }

    #[test]
    fn a_pin_stays_however_much_follows() {
        let mut context = Context::new(Counter::ESTIMATE);
        context.pin("never touch the schema", 500).unwrap();
        assert_eq!(context.pin("  ", 500), Err(PinError::Empty));
        assert!(matches!(
            context.pin(&"x".repeat(5_000), 500),
            Err(PinError::TooLong { .. })
        ));
        for n in 0..200 {
            context.add(said(&format!("message {n}: {}", "y".repeat(300))), 1_000);
            let (messages, _) = context.messages(4_000, 500).unwrap();
            let pinned = messages.iter().any(
                |one| matches!(one, Message::User { text } if text.contains("never touch the schema")),
            );
            assert!(pinned, "message {n}");
            let last = format!("message {n}:");
            assert!(
                matches!(messages.last(), Some(Message::User { text }) if text.contains(&last))
            );
        }
        assert_eq!(context.pins().len(), 1);
    }

    #[test]
    fn nothing_is_summarised_before_the_room_is_seventy_hundredths_full() {
        let mut context = Context::new(Counter::ESTIMATE);
        let mut seen = 0;
        for n in 0..100 {
            context.add(said(&"z".repeat(300)), 1_000);
            let cost = context.cost();
            let (_, eased) = context.messages(4_500, 500).unwrap();
            assert_eq!(eased.exchanges > 0, cost > 2_800, "after {n}: {cost}");
            assert!(context.cost() <= 2_800);
            seen += eased.exchanges;
        }
        assert!(seen > 50, "{seen}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn no_conversation_goes_over_and_calls_keep_their_results(
            steps in proptest::collection::vec((0_usize..6, 0_usize..9_000, 0_usize..3_000), 1..24),
            room in 1_500_u64..20_000,
        ) {
            let mut context = Context::new(Counter::ESTIMATE);
            context.pin("pinned", 200).unwrap();
            for (calls, result, arguments) in steps {
                let exchange = if calls == 0 { said(&"é".repeat(result)) } else { answer(calls, result, arguments) };
                context.add(exchange, room / 4);
                let (messages, _) = context.messages(room, 400).unwrap();
                let cost: u64 = messages.iter().map(|one| Counter::ESTIMATE.message(one)).sum();
                prop_assert!(cost <= room, "{cost} of {room}");
                prop_assert!(paired(&messages));
            }
        }
    }
}
