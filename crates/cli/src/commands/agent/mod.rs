//! `airlock run` and the session that `airlock` alone begins: a model at work in this workspace.
//!
//! The loop is in `airlock-agent`; this is its pair of hands on the road, and what a person sees.

mod editor;
mod hands;
mod input;
mod interrupt;
pub(crate) mod kept;
mod proposed;
mod road;
mod screen;
pub(super) mod shown;
mod slash;
mod talk;
mod told;
mod view;
mod wrap;

pub(super) use screen::Screen;

use super::open;
use crate::args::Global;
use crate::config::Config;
use crate::failure::{Ending, Failure, Kind};
use crate::models::{self, Chosen};
use crate::output::{Output, count};
use crate::place::Place;
use airlock_agent::{Agent, AgentError, Ended, Limits, Outcome, Setup, With};
use airlock_core::Mode;
use airlock_kernel::sanitise_line;
use clap::Args;
use hands::RoadHands;
use interrupt::Interrupt;
use road::Road;
use serde_json::json;
use std::sync::Arc;
use view::View;

#[derive(Debug, Args, Default)]
pub(crate) struct RunArgs {
    /// What to do; without it, a session begins
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// How strictly the session is held to tests first: strict, explore, debug
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// The model to ask, by its name in your configuration; script:FILE plays a script
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The stage it writes to
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// Most questions to the model
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    turns: u64,
    /// Most tokens, questions and answers together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens: Option<u64>,
    /// Most money, in the currency of your models' prices
    #[arg(long, value_name = "AMOUNT", value_parser = parse_cost)]
    cost: Option<u64>,
}

/// Money as millionths.
fn parse_cost(text: &str) -> Result<u64, String> {
    let amount: f64 = text
        .parse()
        .map_err(|_| "give an amount such as 0.50".to_owned())?;
    if !(0.000_001..=1_000_000.0).contains(&amount) {
        return Err("an amount of money is more than 0 and at most 1000000".to_owned());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was just looked at"
    )]
    let micros = (amount * 1_000_000.0).round() as u64;
    Ok(micros)
}

pub(super) fn run(global: &Global, args: &RunArgs, output: &mut Output) -> Ending {
    match &args.task {
        Some(task) if task.trim().is_empty() => Err(Failure::new(Kind::Usage, "the task is empty")
            .fix("say what to do: airlock run \"add a test for parse_config\"")),
        Some(task) => once(global, args, task, output),
        None => talk::talk(global, args, output),
    }
}

/// The session that `airlock` alone begins.
pub(super) fn bare(global: &Global, output: &mut Output) -> Ending {
    let args = RunArgs {
        turns: Limits::default().turns,
        ..RunArgs::default()
    };
    run(global, &args, output)
}

fn once(global: &Global, args: &RunArgs, task: &str, output: &mut Output) -> Ending {
    let mut session = Session::begin(global, args, task, output)?;
    let ended = session.work(task);
    let ending = ended.map(|outcome| session.conclude(&outcome, Manner::Once, output));
    let closed = session.end(output);
    let code = ending?;
    closed.map(|()| code)
}

/// A session at work.
struct Session {
    road: Arc<Road>,
    hands: RoadHands,
    agent: Agent,
    chosen: Chosen,
    place: Place,
    config: Config,
    interrupt: Arc<Interrupt>,
    view: View,
}

impl Session {
    fn begin(
        global: &Global,
        args: &RunArgs,
        title: &str,
        output: &mut Output,
    ) -> Result<Self, Failure> {
        let mode = args.mode.as_deref().map(parse_mode).transpose()?;
        let place = Place::find(global.workspace.as_deref())?;
        let config = open::configuration(global, &place)?;
        open::apply_color(&config);
        let chosen = models::choose(&config, args.model.as_deref(), &place)?;
        // From here on Ctrl-C ends what is under way, and not the command.
        let interrupt = Interrupt::watch()?;
        let begin = road::Begin {
            title: sanitise_line(title, 120),
            mode,
            stage: args.stage.clone(),
            turns: args.turns,
            tokens: args.tokens,
            cost_micros: args.cost,
        };
        let own = open::configuration(global, &place)?;
        let road = Arc::new(Road::open(place.clone(), own, &begin, output)?);
        let view = View::new(output.is_json());
        let hands = RoadHands::new(Arc::clone(&road), Arc::clone(&interrupt), view.screen());
        let setup = Setup {
            workspace: road.name(),
            limits: Limits {
                turns: args.turns,
                ..Limits::default()
            },
            role: None,
        };
        let agent = Agent::new(&setup, &*chosen.model);
        Ok(Self {
            road,
            hands,
            agent,
            chosen,
            place,
            config,
            interrupt,
            view,
        })
    }

    /// Puts one message to the agent and shows what happens.
    fn work(&mut self, message: &str) -> Result<Outcome, Failure> {
        self.road.task_arrives();
        let cancel = self.interrupt.begin();
        self.view.begin();
        let view = &mut self.view;
        let outcome = self.agent.run(
            message,
            With {
                model: &*self.chosen.model,
                hands: &self.hands,
                watch: &mut |step| view.step(&step),
                cancel: &cancel,
            },
        );
        self.interrupt.end();
        self.view.end();
        outcome.map_err(|error| failed(&error))
    }

    /// Says how a task ended, and gives the code for it.
    fn conclude(&mut self, outcome: &Outcome, manner: Manner, output: &mut Output) -> u8 {
        let waiting = self.hands.waiting();
        let changed = self.road.changed();
        let code = match &outcome.ended {
            Ended::Done if waiting > 0 => Kind::NeedsReview.code(),
            Ended::Done => 0,
            Ended::Cancelled => INTERRUPTED,
            Ended::Refused
            | Ended::Filtered
            | Ended::Truncated
            | Ended::TurnLimit { .. }
            | Ended::Repeated { .. } => Kind::Failed.code(),
        };
        if output.is_json() {
            output.json(&json!({
                "event": "ended",
                "ended": outcome.ended,
                "text": outcome.text,
                "session": self.road.session(),
                "stage": self.road.stage(),
                "changed": changed,
                "waiting": waiting,
            }));
            return code;
        }
        if let Some(why) = explained(&outcome.ended) {
            output.warning(&why);
        }
        if waiting > 0 {
            let calls = count(waiting as u64, "call");
            output.note(format!(
                "{calls} waited for a person: airlock approvals list"
            ));
        }
        if let Some(changed) = changed.filter(|changed| *changed > 0) {
            let files = count(changed, "file");
            let stage = self.road.stage();
            let named = match stage {
                "default" => String::new(),
                stage => format!(" {stage}"),
            };
            let how = match manner {
                Manner::Talking => "/diff shows it, /approve takes it".to_owned(),
                Manner::Once => {
                    format!("`airlock diff{named}` shows it, `airlock merge{named}` takes it")
                }
            };
            let how = match self.road.unvalidated() {
                Some(phase) => format!("{how}, not validated: the session is in `{phase}`"),
                None => how,
            };
            output.note(format!("{files} changed in stage {stage}; {how}"));
        }
        code
    }

    fn end(self, output: &mut Output) -> Result<(), Failure> {
        let Self { road, hands, .. } = self;
        drop(hands);
        Arc::try_unwrap(road).map_or(Ok(()), |road| road.close(output))
    }
}

/// How a task was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// On the command line, by itself.
    Once,
    /// In a session.
    Talking,
}

/// The code of a task that the person took back, as shells know it.
const INTERRUPTED: u8 = 130;

fn parse_mode(text: &str) -> Result<Mode, Failure> {
    text.parse().map_err(|_| {
        let shown = sanitise_line(text, 60);
        let known = ["strict", "explore", "debug"];
        let fix = airlock_core::closest(text, known).map_or_else(
            || format!("use one of {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Failure::new(Kind::Usage, format!("unknown mode `{shown}`")).fix(fix)
    })
}

/// What a person should know about how it ended.
fn explained(ended: &Ended) -> Option<String> {
    Some(match ended {
        Ended::Done => return None,
        Ended::Cancelled => "interrupted".to_owned(),
        Ended::Refused => "the model refused".to_owned(),
        Ended::Filtered => "the provider cut the answer off for its content".to_owned(),
        Ended::Truncated => "the answer took all the room there was, and is cut".to_owned(),
        Ended::TurnLimit { turns } => {
            format!("stopped after {turns} questions to the model; `--turns` allows more")
        }
        Ended::Repeated { tool, times, why } => format!(
            "stopped: `{}` failed {times} times the same way: {}",
            sanitise_line(tool, 60),
            sanitise_line(why, 300)
        ),
    })
}

fn failed(error: &AgentError) -> Failure {
    match error {
        AgentError::Model(error) => models::failed(error),
        AgentError::NoLeave(leave) => {
            let mut failure = Failure::new(Kind::Denied, &leave.what);
            for why in &leave.why {
                failure = failure.why(why);
            }
            for fix in &leave.fix {
                failure = failure.fix(fix);
            }
            failure
        }
        error @ AgentError::NoRoom { .. } => {
            Failure::of(Kind::Failed, error).maybe_fix(error.hint())
        }
    }
}
