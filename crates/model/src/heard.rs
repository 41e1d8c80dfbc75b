//! What a question takes, told from what is heard of it: attempts that broke off are paid, too.

use crate::message::Event;
use crate::tokens::Counter;

/// The tokens of one question, attempt by attempt.
#[derive(Debug)]
pub struct Heard {
    counter: Counter,
    question: u64,
    /// Of attempts that broke off: questions, and what was heard of the answers.
    broken: (u64, u64),
    now: u64,
}

impl Heard {
    /// For a question of so many tokens.
    pub const fn new(counter: Counter, question: u64) -> Self {
        Self {
            counter,
            question,
            broken: (0, 0),
            now: 0,
        }
    }

    /// Hears an event. Says whether an attempt broke off that was answered in part.
    pub fn hear(&mut self, event: &Event) -> bool {
        match event {
            Event::TextDelta { text }
            | Event::ReasoningDelta { text }
            | Event::ToolCallDelta { text, .. } => {
                self.now = self.now.saturating_add(self.counter.count(text));
                false
            }
            Event::Error { retrying, .. } => *retrying && self.broke_off(),
            Event::ToolCallStart { .. }
            | Event::ToolCallEnd { .. }
            | Event::Usage { .. }
            | Event::Done { .. } => false,
        }
    }

    /// The attempt that was heard last broke off. Of one that nothing was heard of, nothing is paid.
    pub fn broke_off(&mut self) -> bool {
        let heard = std::mem::take(&mut self.now);
        if heard > 0 {
            let (questions, answers) = self.broken;
            self.broken = (
                questions.saturating_add(self.question),
                answers.saturating_add(heard),
            );
        }
        heard > 0
    }

    /// Tokens of all attempts that broke off: of questions, and of answers.
    pub const fn broken(&self) -> (u64, u64) {
        self.broken
    }

    /// Tokens that were heard of the attempt that did not.
    pub const fn answer(&self) -> u64 {
        self.now
    }
}
