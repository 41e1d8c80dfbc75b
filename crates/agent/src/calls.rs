//! The calls of one answer: checked, carried out, and their results told.
//!
//! Calls that change nothing and stand next to each other run at once; everything else runs by
//! itself and in the order it was asked for. Results come back in that order, whatever ended first.

use crate::catalogue::Catalogue;
use crate::hands::{Handed, Hands};
use crate::step::Step;
use airlock_core::closest;
use airlock_model::{Arguments, Cancel, Message, Status, ToolCall};
use airlock_sanitise::{Origin, sanitise_line, tag};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Instant;

/// Calls that run at once.
const AT_ONCE: usize = 4;
/// As much of a wrong name or text as helps to recognise it.
const SHOWN: usize = 60;

/// A call that was carried out, or why it was not.
pub(crate) struct Made {
    pub(crate) call: ToolCall,
    pub(crate) handed: Handed,
}

impl Made {
    /// As the model is told.
    pub(crate) fn message(&self) -> Message {
        Message::Tool {
            call: self.call.id.clone(),
            name: self.call.name.clone(),
            status: self.handed.status,
            text: tag(&self.told(), &self.handed.origin),
        }
    }

    /// The text, with how it ended where that is not as wanted.
    fn told(&self) -> String {
        match self.handed.status {
            Status::Ok => self.handed.text.clone(),
            status
            @ (Status::Denied | Status::NeedsReview | Status::Failed | Status::Cancelled) => {
                format!("{}: {}", status.as_str(), self.handed.text)
            }
        }
    }
}

/// What carries calls out.
pub(crate) struct Calls<'c> {
    pub(crate) hands: &'c dyn Hands,
    pub(crate) catalogue: &'c Catalogue,
    pub(crate) cancel: &'c Cancel,
    pub(crate) most: usize,
}

/// What is to be done about a call.
enum Todo {
    /// Do it; with others that change nothing, if it does not either.
    Do { read_only: bool },
    /// Say why not.
    Not(Handed),
}

impl Calls<'_> {
    /// Carries `asked` out.
    pub(crate) fn make(&self, asked: &[ToolCall], watch: &mut dyn FnMut(Step)) -> Vec<Made> {
        let mut made: Vec<Made> = Vec::new();
        let mut rest = asked;
        while let Some((first, _)) = rest.split_first() {
            let together = self.together(rest, made.len());
            let (now, later) = rest.split_at(together);
            rest = later;
            let before = made.len();
            match self.judge(first, before) {
                Todo::Do { .. } => made.extend(self.run(now, watch)),
                Todo::Not(handed) => {
                    told(watch, first, &handed, 0);
                    let call = first.clone();
                    made.push(Made { call, handed });
                }
            }
        }
        made
    }

    /// How many of the first of `calls` run at once.
    fn together(&self, calls: &[ToolCall], before: usize) -> usize {
        let alike = calls
            .iter()
            .enumerate()
            .take(AT_ONCE)
            .take_while(|(at, call)| {
                matches!(self.judge(call, before + at), Todo::Do { read_only: true })
            });
        alike.count().max(1)
    }

    fn judge(&self, call: &ToolCall, before: usize) -> Todo {
        let not = |status, text: String| {
            Todo::Not(Handed {
                status,
                text,
                origin: Origin::Tool("airlock".to_owned()),
                flags: 0,
            })
        };
        if self.cancel.is_cancelled() {
            return not(Status::Cancelled, "the person took it back".to_owned());
        }
        if before >= self.most {
            let text = format!("not run: one answer may ask for {} calls", self.most);
            return not(Status::Failed, text);
        }
        match (&call.arguments, self.catalogue.get(&call.name)) {
            // Its name may be cut off, too.
            (Arguments::Incomplete { text }, _) => not(Status::Failed, cut_off(text)),
            (Arguments::Object(_) | Arguments::Malformed { .. }, None) => {
                let name = sanitise_line(&call.name, SHOWN);
                let known = self.catalogue.tools().iter().map(|tool| tool.name.as_str());
                let near = closest(&call.name, known);
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                not(Status::Failed, format!("there is no tool `{name}`{near}"))
            }
            (Arguments::Object(_), Some(tool)) => Todo::Do {
                read_only: tool.read_only,
            },
            (Arguments::Malformed { text, why }, Some(_)) => {
                let (text, why) = (sanitise_line(text, SHOWN), sanitise_line(why, 200));
                let said = format!("the arguments are no JSON object: {why}; they begin `{text}`");
                not(Status::Failed, format!("{said}; write them again"))
            }
        }
    }

    /// Runs `calls` at once, and tells what happens as it happens.
    fn run(&self, calls: &[ToolCall], watch: &mut dyn FnMut(Step)) -> Vec<Made> {
        for call in calls {
            watch(Step::ToolExecuting {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.to_text(),
            });
        }
        let (ended, ends) = mpsc::channel();
        let mut done: BTreeMap<usize, (Handed, u64)> = BTreeMap::new();
        let mut made: Vec<Made> = Vec::new();
        std::thread::scope(|scope| {
            for (at, call) in calls.iter().enumerate() {
                let ended = ended.clone();
                scope.spawn(move || {
                    let begun = Instant::now();
                    let handed = self.one(call);
                    // Whoever waits for it waits until all are sent.
                    let _ = ended.send((at, handed, begun.elapsed()));
                });
            }
            drop(ended);
            for (at, handed, took) in ends {
                let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                done.insert(at, (handed, took));
                // Told in the order they were asked for: the same each time.
                while let Some((handed, took)) = done.remove(&made.len())
                    && let Some(call) = calls.get(made.len())
                {
                    told(watch, call, &handed, took);
                    let call = call.clone();
                    made.push(Made { call, handed });
                }
            }
        });
        // Whoever broke off left nothing; every call has a result all the same.
        for call in calls.iter().skip(made.len()) {
            let (call, handed) = (call.clone(), broken());
            made.push(Made { call, handed });
        }
        made
    }

    fn one(&self, call: &ToolCall) -> Handed {
        match &call.arguments {
            Arguments::Object(object) => self.hands.call(&call.name, object, self.cancel),
            Arguments::Malformed { .. } | Arguments::Incomplete { .. } => broken(),
        }
    }
}

/// What the model is told of a call that its answer was cut off in.
fn cut_off(text: &str) -> String {
    let came = if text.is_empty() {
        "none of its arguments came".to_owned()
    } else {
        format!("its arguments begin `{}`", sanitise_line(text, SHOWN))
    };
    format!(
        "not run: the answer was cut off before this call was complete; {came}; write the call again, and less in one answer"
    )
}

fn broken() -> Handed {
    Handed {
        status: Status::Failed,
        text: "the call broke off; the audit log has its attempt".to_owned(),
        origin: Origin::Tool("airlock".to_owned()),
        flags: 0,
    }
}

fn told(watch: &mut dyn FnMut(Step), call: &ToolCall, handed: &Handed, milliseconds: u64) {
    watch(Step::ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        status: handed.status,
        milliseconds,
        text: handed.text.clone(),
    });
    if handed.flags > 0 {
        watch(Step::Flagged {
            origin: handed.origin.to_string(),
            places: handed.flags,
        });
    }
}
