//! The agent's hands: its calls on the road, and the person's answers to what needs them.

use super::interrupt::Interrupt;
use super::proposed;
use super::road::Road;
use super::screen::Screen;
use super::told;
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::review::Terminal;
use airlock_agent::{Asking, Handed, Hands, Leave, NoLeave, Spent, Tool};
use airlock_kernel::{Call, Front, Outcome, Review, handed, handed_pending, is_agents_work};
use airlock_model::{Cancel, Status};
use airlock_sanitise::Origin;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The road, as the agent's hands.
pub(super) struct RoadHands {
    road: Arc<Road>,
    interrupt: Arc<Interrupt>,
    screen: Screen,
    tools: OnceLock<Vec<Tool>>,
    /// Calls that nobody was there to answer.
    waiting: AtomicUsize,
}

impl RoadHands {
    pub(super) fn new(road: Arc<Road>, interrupt: Arc<Interrupt>, screen: Screen) -> Self {
        Self {
            road,
            interrupt,
            screen,
            tools: OnceLock::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Calls that wait for a person.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn submit(&self, front: Front, call: Call) -> Result<Outcome, String> {
        let covered = self.interrupt.call();
        self.road
            .submit(front, call, &covered)
            .map_err(|error| error.0)
    }

    /// Asks the person, if one is there, and makes the call again with their yes.
    fn reviewed(&self, call: &Call, mut review: Box<Review>) -> Handed {
        if Terminal::open().is_none() {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            return handed_pending(&review);
        }
        let what = told::asked(&review);
        let answered = self.screen.aside(|| {
            let mut output = Output::new(false);
            let before = proposed::file(call).and_then(|path| self.road.seen(path));
            proposed::show(call, before.as_deref(), &mut output);
            let shown = told::shown(&review, proposed::is_shown(call));
            proposed::tell(&shown, &mut output);
            self.road.ask(&mut review, &what, &mut output)
        });
        match answered {
            Ok(()) => match self.submit(Front::Agent, call.clone()) {
                Ok(Outcome::NeedsReview(review)) => handed_pending(&review),
                Ok(outcome) => handed(outcome),
                Err(what) => told::unanswered(&what),
            },
            Err(failure) => told::not_approved(&failure),
        }
    }
}

impl Hands for RoadHands {
    fn tools(&self) -> Vec<Tool> {
        let listed = || {
            let all = self.road.tools().into_iter();
            let offered = all.filter(|(name, ..)| is_agents_work(name));
            offered
                .map(|(name, summary, schema, read_only)| Tool {
                    name,
                    summary,
                    schema,
                    read_only,
                })
                .collect()
        };
        self.tools.get_or_init(listed).clone()
    }

    fn call(&self, name: &str, arguments: &Map<String, Value>, cancel: &Cancel) -> Handed {
        if cancel.is_cancelled() {
            return told::taken_back();
        }
        let call = Call::new(name, Value::Object(arguments.clone()));
        let came = match self.submit(Front::Agent, call.clone()) {
            Ok(Outcome::NeedsReview(review)) => self.reviewed(&call, review),
            Ok(outcome) => handed(outcome),
            Err(what) => told::unanswered(&what),
        };
        // A command that was taken back on the way says so itself, and whose words it has.
        let settled = matches!(came.status, Status::Ok | Status::Cancelled);
        if cancel.is_cancelled() && !settled {
            return Handed {
                status: Status::Cancelled,
                origin: Origin::Tool("airlock".to_owned()),
                ..came
            };
        }
        came
    }

    fn phase(&self) -> Option<String> {
        self.road.standing().as_ref().map(told::phase)
    }

    fn leave(&self, asking: Asking<'_>) -> Result<Leave, NoLeave> {
        let arguments = json!({
            "model": asking.model,
            "hosts": asking.hosts,
            "tokens": asking.tokens,
            "cost_micros": asking.cost_micros(),
        });
        let call = Call::new("model.chat", arguments);
        match self.submit(Front::Cli, call.clone()) {
            Ok(Outcome::Done(_)) => Ok(self.left_for(&asking)),
            Ok(Outcome::NeedsReview(review)) => {
                let answered = self.reviewed_leave(&call, review);
                // Who said yes to more than there is said so for the answer, too.
                let beyond = answered.map(|()| Leave::default());
                beyond.map_err(|failure| told::no_leave(&failure))
            }
            Ok(outcome) => Err(told::no_leave(&told::failure(outcome))),
            Err(what) => Err(NoLeave {
                what,
                why: Vec::new(),
                fix: vec!["`airlock audit log` says what was done; try again".to_owned()],
            }),
        }
    }

    fn spend(&self, spent: Spent) -> Result<(), NoLeave> {
        self.road.spend(spent).map_err(|why| NoLeave {
            what: format!("what was spent cannot be counted: {why}"),
            why: vec!["a session that cannot be counted does not go on".to_owned()],
            fix: Vec::new(),
        })
    }
}

impl RoadHands {
    /// What the session has left for the answer.
    fn left_for(&self, asking: &Asking<'_>) -> Leave {
        let left = self.road.left();
        Leave {
            answer: left.and_then(|left| asking.answer_within(left.tokens, left.cost_micros)),
        }
    }
}

impl RoadHands {
    fn reviewed_leave(&self, call: &Call, mut review: Box<Review>) -> Result<(), Failure> {
        if Terminal::open().is_none() {
            let what = "asking the model needs a person's approval";
            let mut failure = Failure::new(Kind::NeedsReview, what);
            for one in review.decision.deciding() {
                failure = failure.why(format!("gate or rule `{}`: {}", one.rule, one.reason));
            }
            let how = review.how_to_answer();
            return Err(failure.fix(format!("answer in a terminal: {how}")));
        }
        let what = told::asked(&review);
        self.screen.aside(|| {
            let mut output = Output::new(false);
            self.road.ask(&mut review, &what, &mut output)
        })?;
        match self.submit(Front::Cli, call.clone()) {
            Ok(Outcome::Done(_)) => Ok(()),
            Ok(outcome) => Err(told::failure(outcome)),
            Err(what) => Err(Failure::new(Kind::Failed, what)),
        }
    }
}
