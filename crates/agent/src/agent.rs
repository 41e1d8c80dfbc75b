//! The loop.

use crate::calls::{Calls, Made};
use crate::catalogue::Catalogue;
use crate::context::{Context, PinError, Shares};
use crate::ended::{AgentError, Ended, Outcome};
use crate::hands::{Asking, Hands, Spent};
use crate::prompt::{self, Role};
use crate::repeats::Repeats;
use crate::step::Step;
use airlock_model::{
    Cancel, Event, Finish, Heard, Message, Model, ModelError, Reply, Request, Status,
};
use airlock_sanitise::{Origin, Sanitiser, tag};

/// How often a question is made shorter because the model says that it is too long.
const SHORTENED: u32 = 6;

/// What the loop may do by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls in one answer of the model.
    pub calls: usize,
    /// Questions to the model in one session.
    pub turns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls: 32,
            turns: 100,
        }
    }
}

/// What a session begins with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The workspace's name, for the system part.
    pub workspace: String,
    /// What the loop may do by itself.
    pub limits: Limits,
    /// Who the model is to be, where somebody defined that; a software engineer otherwise, who works
    /// for the person.
    pub role: Option<Role>,
}

/// Whom one run works with.
pub struct With<'w> {
    /// Who is asked.
    pub model: &'w dyn Model,
    /// Who acts.
    pub hands: &'w dyn Hands,
    /// Who watches.
    pub watch: &'w mut dyn FnMut(Step),
    /// Takes the run back.
    pub cancel: &'w Cancel,
}

/// A session's conversation, and the loop over it.
#[derive(Debug)]
pub struct Agent {
    system: String,
    /// Whose messages it hears.
    hears: Origin,
    limits: Limits,
    context: Context,
    catalogue: Catalogue,
    sanitiser: Sanitiser,
    repeats: Repeats,
    turns: u64,
    /// What of the window is used, in hundredths: less than all once a model took less than it
    /// was said to take.
    trusted: u64,
    shares: Shares,
}

impl Agent {
    /// A session that is asked by `model` first; another may answer later.
    pub fn new(setup: &Setup, model: &dyn Model) -> Self {
        let counter = model.counter();
        Self {
            system: prompt::system(&setup.workspace, setup.role.as_ref()),
            hears: prompt::hears(setup.role.as_ref()),
            limits: setup.limits,
            context: Context::new(counter),
            catalogue: Catalogue::new(Vec::new(), counter),
            sanitiser: Sanitiser::new(),
            repeats: Repeats::default(),
            turns: 0,
            trusted: 100,
            shares: Shares::of(model.window()),
        }
    }

    /// Pins `text`: the model is told it with every question.
    pub fn pin(&mut self, text: &str) -> Result<(), PinError> {
        self.context.pin(text, self.shares.pins)
    }

    /// What is pinned.
    pub fn pins(&self) -> &[String] {
        self.context.pins()
    }

    /// Questions put so far, and how many may be.
    pub const fn turns(&self) -> (u64, u64) {
        (self.turns, self.limits.turns)
    }

    /// Takes a message of the person, and goes on until the model is done, a bound is reached or
    /// the person interrupts.
    pub fn run(&mut self, message: &str, mut with: With<'_>) -> Result<Outcome, AgentError> {
        self.hear(message, with.watch);
        self.repeats.forget();
        loop {
            if with.cancel.is_cancelled() {
                return Ok(ended(Ended::Cancelled, String::new()));
            }
            if self.turns >= self.limits.turns {
                let turns = self.limits.turns;
                return Ok(ended(Ended::TurnLimit { turns }, String::new()));
            }
            let reply = match self.ask(&mut with) {
                Ok(reply) => reply,
                Err(AgentError::Model(ModelError::Cancelled)) => {
                    return Ok(ended(Ended::Cancelled, String::new()));
                }
                Err(error) => return Err(error),
            };
            let text = reply.text.clone();
            let stopped = self.answered(reply, &mut with);
            if let Some(stopped) = stopped {
                return Ok(ended(stopped, text));
            }
        }
    }

    /// Takes what the person said into the conversation: cleaned, and marked as theirs.
    fn hear(&mut self, message: &str, watch: &mut dyn FnMut(Step)) {
        let clean = self.sanitiser.text(message);
        if clean.secrets > 0 {
            watch(Step::Withheld {
                secrets: clean.secrets,
            });
        }
        if !clean.flags.is_empty() {
            watch(Step::Flagged {
                origin: self.hears.to_string(),
                places: clean.flags.len(),
            });
        }
        let text = tag(&clean.text, &self.hears);
        let said = Message::User { text };
        self.context.add(vec![said], self.shares.exchange());
    }

    /// Puts the next question, shorter each time the model says that it is too long.
    fn ask(&mut self, with: &mut With<'_>) -> Result<Reply, AgentError> {
        for attempt in 0.. {
            let (mut request, tokens) = self.question(with)?;
            let model = with.model.name().to_owned();
            let hosts = with.model.hosts();
            let asking = Asking {
                model: &model,
                hosts: &hosts,
                tokens,
                price: with.model.price(),
            };
            let leave = with.hands.leave(asking).map_err(AgentError::NoLeave)?;
            if let Some(most) = leave.answer {
                let most = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
                request.max_output = request.max_output.min(most);
            }
            self.turns += 1;
            let begun = Spent {
                turns: 1,
                ..Spent::default()
            };
            with.hands.spend(begun).map_err(AgentError::NoLeave)?;
            let (answered, spent) = put(&request, &asking, with);
            // What was spent is counted, whatever came of it.
            with.hands.spend(spent).map_err(AgentError::NoLeave)?;
            match answered {
                Ok(reply) => return Ok(reply),
                Err(ModelError::ContextLength { .. }) if attempt < SHORTENED => {
                    self.trusted = self.trusted * 3 / 4;
                }
                Err(error) => return Err(error.into()),
            }
        }
        // The loop ends by returning; this is for the compiler alone.
        Err(ModelError::Cancelled.into())
    }

    /// The next question, and what it takes.
    fn question(&mut self, with: &mut With<'_>) -> Result<(Request, u64), AgentError> {
        let counter = with.model.counter();
        self.context.recount(counter);
        self.shares = Shares::of(with.model.window());
        let tools = with.hands.tools();
        if tools != self.catalogue.tools() {
            self.catalogue = Catalogue::new(tools, counter);
        }
        let phase = with.hands.phase();
        let system = prompt::with_phase(&self.system, phase.as_deref());
        let shares = self.shares;
        let (tools, _) = self.catalogue.within(shares.tools);
        let mut request = Request {
            system,
            messages: Vec::new(),
            tools,
            max_output: u32::try_from(shares.answer).unwrap_or(u32::MAX),
        };
        let fixed = counter.question(&request);
        let room = (shares.question() * self.trusted / 100).saturating_sub(fixed);
        let fitted = self.context.messages(room, shares.summary);
        let (messages, eased) = fitted.ok_or(AgentError::NoRoom {
            window: with.model.window(),
            needed: fixed + shares.summary + shares.answer,
        })?;
        request.messages = messages;
        let tokens = counter.question(&request);
        if eased.exchanges > 0 {
            (with.watch)(Step::Summarised {
                exchanges: eased.exchanges,
                tokens,
            });
        }
        Ok((request, tokens))
    }

    /// Takes an answer into the conversation, with what came of its calls. Says why to stop, if so.
    fn answered(&mut self, reply: Reply, with: &mut With<'_>) -> Option<Ended> {
        let calls = Calls {
            hands: with.hands,
            catalogue: &self.catalogue,
            cancel: with.cancel,
            most: self.limits.calls,
        };
        // An answer that was filtered or refused asks for nothing, whatever it holds.
        let asked = match reply.finish {
            Finish::Stop | Finish::ToolCalls | Finish::Length => reply.calls,
            Finish::ContentFilter | Finish::Refusal => Vec::new(),
        };
        let made = calls.make(&asked, with.watch);
        let mut messages = vec![Message::Assistant {
            text: self.sanitiser.text(&reply.text).text.into_owned(),
            calls: asked,
        }];
        messages.extend(made.iter().map(Made::message));
        self.context.add(messages, self.shares.exchange());
        if with.cancel.is_cancelled() {
            return Some(Ended::Cancelled);
        }
        let repeated = self.repeated(&made);
        match reply.finish {
            Finish::Refusal => Some(Ended::Refused),
            Finish::ContentFilter => Some(Ended::Filtered),
            Finish::Length if made.is_empty() => Some(Ended::Truncated),
            Finish::Stop | Finish::ToolCalls | Finish::Length if made.is_empty() => {
                Some(Ended::Done)
            }
            Finish::Stop | Finish::ToolCalls | Finish::Length => repeated,
        }
    }

    /// Whether a call failed once too often. However often one answer asks for it, it counts once:
    /// the model has not seen it fail by then.
    fn repeated(&mut self, made: &[Made]) -> Option<Ended> {
        let mut stopped = None;
        let mut counted: Vec<(&str, String)> = Vec::new();
        for one in made {
            let key = (one.call.name.as_str(), one.call.arguments.to_text());
            if counted.contains(&key) {
                continue;
            }
            let worked = one.handed.status == Status::Ok;
            if let Some(times) = self.repeats.note(key.0, &key.1, worked) {
                stopped = Some(Ended::Repeated {
                    tool: one.call.name.clone(),
                    times,
                    why: one.handed.text.clone(),
                });
            }
            counted.push(key);
        }
        stopped
    }
}

/// Puts a question. Of an answer that broke off, what was heard of it is spent.
fn put(
    request: &Request,
    asking: &Asking<'_>,
    with: &mut With<'_>,
) -> (Result<Reply, ModelError>, Spent) {
    let watch = &mut *with.watch;
    let mut heard = Heard::new(with.model.counter(), asking.tokens);
    let mut on_event = |event: Event| {
        heard.hear(&event);
        watch(Step::Model(event));
    };
    let answered = with.model.chat(request, &mut on_event, with.cancel);
    let (tokens, cost_micros) = if let Ok(reply) = &answered {
        (reply.usage.total(), reply.usage.cost_micros)
    } else {
        heard.broke_off();
        (0, 0)
    };
    let (questions, answers) = heard.broken();
    let broken = asking.price.of(questions, answers);
    let spent = Spent {
        turns: 0,
        tokens: tokens.saturating_add(broken.tokens),
        cost_micros: cost_micros.saturating_add(broken.cost_micros),
    };
    (answered, spent)
}

fn ended(ended: Ended, text: String) -> Outcome {
    Outcome { ended, text }
}
