//! A model that is asked only within a budget.

use crate::budget::{Budget, Ledger, Price, Spending};
use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::error::ModelError;
use crate::heard::Heard;
use crate::message::{Arguments, Event, Message, Reply, Request, Usage};
use crate::model::Model;
use crate::tokens::Counter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tokens that every message and every call takes besides its text.
const AROUND: u64 = 8;

/// What a server says it took is believed down to this part of what was counted here. Counting
/// without a model's own tokenizer is careful, and at most about twice as much.
const BELIEVED: u64 = 2;

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

    /// What attempts that broke off took: nobody says, so what was heard of them is counted.
    fn broken(&self, heard: &Heard) -> Spending {
        let (questions, answers) = heard.broken();
        self.price.of(questions, answers)
    }

    /// The same with what it costs. A server is believed only as far as that can be: an answer is
    /// never so much cheaper than what was sent and heard of it.
    fn priced(&self, told: Usage, question: u64, answer: u64) -> Usage {
        let mut usage = Usage {
            input: told.input.max(question / BELIEVED),
            output: told.output.max(answer / BELIEVED),
            ..told
        };
        usage.estimated |= usage.total() != told.total();
        usage.cost_micros = self.spent(usage).cost_micros;
        usage
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
        let question = question(self.counter(), request);
        let most = self.price.of(question, u64::from(request.max_output));
        let reserved = self
            .ledger()
            .reserve(&self.budget, most, self.clock.now())?;
        let mut heard = Heard::new(self.counter(), question);
        // An attempt after one that broke off has to fit, too; where it does not, it is taken back.
        let (part, mut over) = (cancel.part(), None);
        let answered = self.model.chat(
            request,
            &mut |event| {
                if heard.hear(&event) {
                    let all = self.broken(&heard).plus(most);
                    let now = self.clock.now();
                    let mut ledger = self.ledger();
                    if let Err(error) = ledger.reserve_again(&reserved, &self.budget, all, now) {
                        over = Some(error);
                        part.cancel();
                    }
                }
                if let Event::Usage { usage } = event {
                    let usage = self.priced(usage, question, heard.answer());
                    on_event(Event::Usage { usage });
                } else {
                    on_event(event);
                }
            },
            &part,
        );
        let answered = match (answered, over) {
            (Ok(mut reply), _) => {
                reply.usage = self.priced(reply.usage, question, heard.answer());
                Ok(reply)
            }
            (Err(ModelError::Cancelled), Some(over)) if !cancel.is_cancelled() => Err(over.into()),
            (Err(error), _) => {
                heard.broke_off();
                Err(error)
            }
        };
        let own = answered.as_ref().map(|reply| self.spent(reply.usage));
        let spent = self.broken(&heard).plus(own.unwrap_or_default());
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
                            Arguments::Malformed { text, .. } | Arguments::Incomplete { text } => {
                                text.clone()
                            }
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

    /// Breaks off in the middle so often, then says that the whole answer took one token.
    struct Breaking {
        name: String,
        times: u32,
    }

    impl Model for Breaking {
        fn name(&self) -> &str {
            &self.name
        }

        fn chat(
            &self,
            _: &Request,
            on_event: &mut dyn FnMut(Event),
            cancel: &Cancel,
        ) -> Result<Reply, ModelError> {
            for _ in 0..self.times {
                on_event(Event::TextDelta {
                    text: "x".repeat(300),
                });
                on_event(Event::Error {
                    message: "gone".to_owned(),
                    retrying: true,
                });
                if cancel.is_cancelled() {
                    return Err(ModelError::Cancelled);
                }
            }
            let text = "y".repeat(300);
            on_event(Event::TextDelta { text: text.clone() });
            Ok(Reply {
                text,
                reasoning: String::new(),
                calls: Vec::new(),
                finish: crate::message::Finish::Stop,
                usage: Usage {
                    output: 1,
                    ..Usage::default()
                },
                model: String::new(),
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

    fn broken(times: u32, budget: Budget) -> (Result<Reply, ModelError>, u64) {
        let metered = Metered::new(
            Arc::new(Breaking {
                name: "breaking".to_owned(),
                times,
            }),
            Price::default(),
            budget,
            Arc::default(),
            Clock::system(),
        );
        let request = Request {
            max_output: 200,
            ..Request::default()
        };
        let answered = metered.chat(&request, &mut |_| {}, &Cancel::new());
        let spent = metered.ledger().session().tokens;
        (answered, spent)
    }

    #[test]
    fn attempts_that_broke_off_are_paid_and_a_small_bill_is_not_believed() {
        let heard = Counter::ESTIMATE.count(&"x".repeat(300));
        let question = question(Counter::ESTIMATE, &Request::default());
        let (once, spent) = broken(0, Budget::default());
        let usage = once.unwrap().usage;
        assert_eq!((usage.input, usage.output), (question / 2, heard / 2));
        assert!(usage.estimated);
        assert_eq!(spent, usage.total());
        let (_, more) = broken(3, Budget::default());
        assert_eq!(more - spent, 3 * (question + heard));
    }

    #[test]
    fn a_budget_is_asked_before_each_attempt() {
        let heard = Counter::ESTIMATE.count(&"x".repeat(300));
        let question = question(Counter::ESTIMATE, &Request::default());
        // Room for one attempt that broke off, and another after it.
        let tokens = Some(question + heard + question + 200);
        for limit in ["call", "session", "hour", "day"] {
            let mut budget = Budget::default();
            let span = match limit {
                "call" => &mut budget.call,
                "session" => &mut budget.session,
                "hour" => &mut budget.hour,
                _ => &mut budget.day,
            };
            span.tokens = tokens;
            assert!(broken(1, budget).0.is_ok(), "{limit}");
            let (answered, spent) = broken(2, budget);
            assert!(
                matches!(answered, Err(ModelError::OverBudget(_))),
                "{limit}: {answered:?}"
            );
            assert_eq!(spent, 2 * (question + heard), "{limit}");
        }
    }

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
