//! A model that is asked only within a budget.

use crate::budget::{Budget, Ledger, Price, Spending};
use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::error::ModelError;
use crate::message::{Arguments, Event, Message, Reply, Request, Usage};
use crate::model::Model;
use crate::tokens::Counter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tokens that every message and every call takes besides its text.
const AROUND: u64 = 8;

/// Holds a model to a budget.
pub struct Metered {
    model: Arc<dyn Model>,
    price: Price,
    budget: Budget,
    ledger: Arc<Mutex<Ledger>>,
    clock: Clock,
}

impl Metered {
    /// Holds `model` to `budget`, counted in `ledger`.
    pub fn new(
        model: Arc<dyn Model>,
        price: Price,
        budget: Budget,
        ledger: Arc<Mutex<Ledger>>,
        clock: Clock,
    ) -> Self {
        Self {
            model,
            price,
            budget,
            ledger,
            clock,
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Nothing is left half done under this lock.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self, usage: Usage) -> Spending {
        self.price.of(usage.input, usage.output)
    }

    /// The same with what it costs.
    fn priced(&self, usage: Usage) -> Usage {
        Usage {
            cost_micros: self.spent(usage).cost_micros,
            ..usage
        }
    }
}

impl Model for Metered {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn chat(
        &self,
        request: &Request,
        on_event: &mut dyn FnMut(Event),
        cancel: &Cancel,
    ) -> Result<Reply, ModelError> {
        let input = question(self.counter(), request);
        let most = self.price.of(input, u64::from(request.max_output));
        let reserved = self
            .ledger()
            .reserve(&self.budget, most, self.clock.now())?;
        // What an answer that broke off took nobody says; what was heard of it is counted.
        let mut heard = 0_u64;
        let counter = self.counter();
        let answered = self.model.chat(
            request,
            &mut |event| {
                if let Event::TextDelta { text }
                | Event::ReasoningDelta { text }
                | Event::ToolCallDelta { text, .. } = &event
                {
                    heard = heard.saturating_add(counter.count(text));
                }
                if let Event::Usage { usage } = event {
                    let usage = self.priced(usage);
                    on_event(Event::Usage { usage });
                } else {
                    on_event(event);
                }
            },
            cancel,
        );
        let answered = answered.map(|mut reply| {
            reply.usage = self.priced(reply.usage);
            reply
        });
        let spent = match &answered {
            Ok(reply) => self.spent(reply.usage),
            Err(_) if heard > 0 => self.price.of(input, heard),
            Err(_) => Spending::default(),
        };
        self.ledger().settle(&reserved, spent, self.clock.now());
        answered
    }

    fn counter(&self) -> Counter {
        self.model.counter()
    }

    fn window(&self) -> u32 {
        self.model.window()
    }

    fn hosts(&self) -> Vec<String> {
        self.model.hosts()
    }

    fn price(&self) -> Price {
        self.price
    }
}

/// The tokens of a question.
pub(crate) fn question(counter: Counter, request: &Request) -> u64 {
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| {
            counter.count(&tool.name)
                + counter.count(&tool.description)
                + counter.count(&tool.schema.to_string())
                + AROUND
        })
        .sum();
    let messages: u64 = request
        .messages
        .iter()
        .map(|one| message(counter, one))
        .sum();
    counter.count(&request.system) + AROUND + tools + messages
}

fn message(counter: Counter, message: &Message) -> u64 {
    AROUND
        + match message {
            Message::User { text } => counter.count(text),
            Message::Tool { text, call, .. } => counter.count(text) + counter.count(call),
            Message::Assistant { text, calls } => {
                let calls: u64 = calls
                    .iter()
                    .map(|call| {
                        let arguments = match &call.arguments {
                            Arguments::Object(_) => call.arguments.to_text(),
                            Arguments::Malformed { text, .. } => text.clone(),
                        };
                        counter.count(&call.name) + counter.count(&arguments) + AROUND
                    })
                    .sum();
                counter.count(text) + calls
            }
        }
}

impl Counter {
    /// The tokens of a whole question, with what every message takes besides its text.
    pub fn question(self, request: &Request) -> u64 {
        question(self, request)
    }

    /// The tokens of one message.
    pub fn message(self, one: &Message) -> u64 {
        message(self, one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, Scripted};

    #[test]
    fn what_an_answer_costs_is_told_with_it() {
        let script = "version: 1\nturns: [{ text: hello there }]\n";
        let model = Scripted::new("m", Script::parse(script).unwrap());
        let price = Price {
            input_micros: 2_000_000,
            output_micros: 8_000_000,
        };
        let metered = Metered::new(
            Arc::new(model),
            price,
            Budget::default(),
            Arc::default(),
            Clock::system(),
        );
        let mut told = None;
        let mut hear = |event| {
            if let Event::Usage { usage } = event {
                told = Some(usage);
            }
        };
        let reply = metered
            .chat(&Request::default(), &mut hear, &Cancel::new())
            .unwrap();
        let Usage { input, output, .. } = reply.usage;
        assert!(input > 0 && output > 0);
        assert_eq!(reply.usage.cost_micros, 2 * input + 8 * output);
        assert_eq!(told, Some(reply.usage));
        assert_eq!(
            metered.ledger().session().cost_micros,
            reply.usage.cost_micros
        );
        assert_eq!(metered.price(), price);
    }
}
