//! `airlock workflow`: jobs of several steps.

use super::reach::Reach;
use super::{adapter, open, outcome};
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, shown, styled};
use crate::review;
use airlock_definitions::Workflow;
use airlock_kernel::{
    Front, Kernel, Outcome, RunError, RunReport, RunState, Workflows, sanitise_line,
};
use airlock_service::{Accompanied, BeginRun, CancelRun, ResumeRun, RunAsk};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What to do with workflows.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Arguments {
    /// List workflows, and the runs there are
    #[command(after_help = "Example:\n  airlock workflow list --json")]
    List,
    /// Show a workflow, or a run with what happened in it
    #[command(
        after_help = "Examples:\n  airlock workflow show count-words\n  airlock workflow show 0198c1f2"
    )]
    Show {
        /// A workflow's name, or a run's id or its beginning
        name: String,
    },
    /// Check workflow files
    #[command(
        after_help = "Examples:\n  airlock workflow check\n  airlock workflow check my-workflow.yaml"
    )]
    Check {
        /// Files; default: every workflow there is here, approved or not
        files: Vec<PathBuf>,
    },
    /// Run a workflow until it ends or waits for a person
    #[command(
        after_help = "Examples:\n  airlock workflow run count-words word=TODO\n  airlock workflow run count-words '{\"word\": \"TODO\"}'"
    )]
    Run {
        /// The workflow
        name: String,
        /// NAME=VALUE pairs, or one JSON object
        inputs: Vec<String>,
    },
    /// Take up a run where it stopped
    #[command(
        after_help = "Examples:\n  airlock workflow resume 0198c1f2\n  airlock workflow resume 0198c1f2 --repeat build"
    )]
    Resume {
        /// The run's id or its beginning
        run: String,
        /// Do this step again, though it may have happened
        #[arg(long, value_name = "STEP")]
        repeat: Vec<String>,
        /// Count this step as failed, and go on if it may fail
        #[arg(long, value_name = "STEP")]
        skip: Vec<String>,
    },
    /// Stop a run: no further step begins
    #[command(after_help = "Example:\n  airlock workflow cancel 0198c1f2")]
    Cancel {
        /// The run's id or its beginning
        run: String,
    },
}

pub(super) fn run(global: &Global, arguments: Arguments, output: &mut Output) -> Ending {
    if let Arguments::Check { files } = &arguments
        && !files.is_empty()
    {
        return check_files(files, output);
    }
    match arguments {
        Arguments::List => list(&open::kernel(global, output)?, output),
        Arguments::Show { name } => show(&open::kernel(global, output)?, &name, output),
        Arguments::Check { .. } => check(&open::unannounced(global, output)?, output),
        Arguments::Run { name, inputs } => {
            let inputs = super::tool::parse_arguments(&inputs)?;
            let asked = RunAsk::Begin(BeginRun {
                name,
                inputs,
                person: None,
            });
            let mut runner = Runner::find(global, output)?;
            let report = runner.ask(&asked, output)?;
            follow(&mut runner, report, output)
        }
        Arguments::Resume { run, repeat, skip } => {
            let asked = RunAsk::Resume(ResumeRun {
                run,
                repeat: repeat.into_iter().collect(),
                skip: skip.into_iter().collect(),
                person: None,
            });
            let mut runner = Runner::find(global, output)?;
            let report = runner.ask(&asked, output)?;
            follow(&mut runner, report, output)
        }
        Arguments::Cancel { run } => {
            let asked = RunAsk::Cancel(CancelRun { run });
            let RunReport { id, .. } = Runner::find(global, output)?.ask(&asked, output)?;
            if output.is_json() {
                output.json(&json!({ "run": id, "status": "cancelled" }));
            } else {
                output.note(format!("cancelled {id}"));
            }
            Ok(0)
        }
    }
}

/// The kernel that runs what a command asks for.
struct Runner<'g> {
    global: &'g Global,
    at: At<'g>,
}

/// Which kernel that is.
enum At<'g> {
    /// The one that runs for the workspace.
    Running(Box<Reach<'g>>),
    /// One of this process, whose plugins can ask it back.
    Here(Box<Accompanied>),
}

impl<'g> Runner<'g> {
    fn find(global: &'g Global, output: &mut Output) -> Result<Self, Failure> {
        let at = match Reach::running(global, Front::Cli)? {
            Some(reach) => At::Running(Box::new(reach)),
            None => At::Here(Box::new(open::accompanied(global, output)?)),
        };
        Ok(Self { global, at })
    }

    fn ask(&mut self, asked: &RunAsk, output: &mut Output) -> Result<RunReport, Failure> {
        let came = match &mut self.at {
            At::Running(reach) => reach.ask_run(asked, output)?,
            At::Here(here) => Some(put(here, asked)),
        };
        let came = if let Some(came) = came {
            came
        } else {
            // A kernel of one's own does the same.
            let here = open::accompanied(self.global, output)?;
            let came = put(&here, asked);
            self.at = At::Here(Box::new(here));
            came
        };
        came.map_err(|error| refused(&error))
    }

    /// A kernel of this process: for an answer, whose proof is this terminal.
    fn kernel(&mut self, output: &mut Output) -> Result<&Kernel, Failure> {
        match &mut self.at {
            At::Running(reach) => reach.kernel(output),
            At::Here(here) => Ok(here.kernel()),
        }
    }
}

fn put(here: &Accompanied, asked: &RunAsk) -> Result<RunReport, RunError> {
    asked.put(&here.kernel().workflows()?)
}

fn flows(kernel: &Kernel) -> Result<Workflows<'_>, Failure> {
    kernel.workflows().map_err(|error| refused(&error))
}

fn refused(error: &RunError) -> Failure {
    let kind = match error {
        RunError::NoLeave(outcome) => return no_leave(outcome, error),
        RunError::NoWorkflow { .. }
        | RunError::Inputs(_)
        | RunError::NoRun(_)
        | RunError::Several(_) => Kind::Usage,
        RunError::Over { .. }
        | RunError::Changed(_)
        | RunError::Busy(_)
        | RunError::TakenBack(_)
        | RunError::Store(_) => Kind::Failed,
    };
    Failure::of(kind, error).maybe_fix(error.hint())
}

fn no_leave(outcome: &Outcome, error: &RunError) -> Failure {
    match outcome {
        Outcome::Denied(denied) => outcome::denied_failure(denied),
        Outcome::NeedsReview(review) => outcome::review_failure(review),
        Outcome::Failed(failed) => outcome::failed_failure(failed),
        Outcome::Done(_) => Failure::of(Kind::Failed, error),
    }
}

fn list(kernel: &Kernel, output: &mut Output) -> Ending {
    for entry in kernel.definitions().workflows() {
        let flow = &entry.workflow;
        if output.is_json() {
            output.json(&json!({
                "workflow": flow.name,
                "summary": flow.summary,
                "version": flow.version,
                "origin": entry.origin.as_str(),
                "steps": flow.all_steps().len(),
            }));
        } else {
            let name = styled(Tone::Heading, &format!("{:<16}", flow.name));
            output.line(format!("{name}  {}", sanitise_line(&flow.summary, 200)));
        }
    }
    for run in flows(kernel)?.runs().map_err(|error| refused(&error))? {
        if output.is_json() {
            output.json(
                &json!({ "run": run.id, "workflow": run.name, "status": run.status.as_str() }),
            );
        } else {
            output.line(format!(
                "{}  {:<9}  {}",
                run.id,
                run.status.as_str(),
                run.name
            ));
        }
    }
    if kernel.definitions().workflows().is_empty() && !output.is_json() {
        output.note(
            "there are no workflows: put files into .airlock/workflows and run `airlock trust`",
        );
    }
    adapter::warn(kernel.definitions().problems(), output);
    Ok(0)
}

fn show(kernel: &Kernel, name: &str, output: &mut Output) -> Ending {
    let definitions = kernel.definitions();
    let Some(entry) = definitions.workflow_named(name) else {
        return show_run(kernel, name, output);
    };
    let flow = &entry.workflow;
    if output.is_json() {
        let steps: Vec<Value> = flow
            .all_steps()
            .iter()
            .map(|step| json!({ "id": step.id, "kind": step.word() }))
            .collect();
        output.json(&json!({
            "workflow": flow.name,
            "summary": flow.summary,
            "version": flow.version,
            "inputs": flow.inputs.to_json(),
            "outputs": flow.outputs_schema(),
            "steps": steps,
        }));
        return Ok(0);
    }
    output.line(format!(
        "{} {} - {}",
        styled(Tone::Heading, &flow.name),
        flow.version,
        sanitise_line(&flow.summary, 200)
    ));
    output.line(styled(Tone::Heading, "inputs"));
    for line in super::tool::arguments(&flow.inputs.to_json()) {
        output.line(format!("  {line}"));
    }
    output.line(styled(Tone::Heading, "steps"));
    for step in flow.all_steps() {
        output.line(format!("  {:<12}  {}", step.word(), step.id));
    }
    Ok(0)
}

fn show_run(kernel: &Kernel, start: &str, output: &mut Output) -> Ending {
    let run = flows(kernel)?.beginning(start);
    let run = run.map_err(|error| refused(&error))?;
    if output.is_json() {
        output.json(&json!({
            "run": run.id,
            "workflow": run.name,
            "status": run.status.as_str(),
            "inputs": run.input,
            "events": run.events,
            "output": run.output,
        }));
        return Ok(0);
    }
    output.line(format!(
        "{} of {}: {}",
        run.id,
        styled(Tone::Heading, &run.name),
        run.status.as_str()
    ));
    for event in &run.events {
        let told = json!(event);
        let text = |name: &str| {
            let text = told.get(name).and_then(Value::as_str);
            sanitise_line(text.unwrap_or_default(), 100)
        };
        output.line(format!("  {:<8}  {}", text("event"), text("step")));
    }
    Ok(0)
}

fn check_files(files: &[PathBuf], output: &mut Output) -> Ending {
    let mut failures = 0;
    for path in files {
        let bytes = adapter::read(path)?;
        if let Err(error) = Workflow::read(&bytes) {
            let text = String::from_utf8_lossy(&bytes);
            failures += adapter::broken(&shown(path), &error, &text, output);
        }
    }
    checked(failures, files.len() as u64, output)
}

fn check(kernel: &Kernel, output: &mut Output) -> Ending {
    let (definitions, mut failures) = adapter::to_check(kernel, output)?;
    for problem in definitions.problems() {
        if let Some((error, text)) = &problem.load {
            failures += adapter::broken(&problem.file, error, text, output);
        } else {
            adapter::warn(std::slice::from_ref(problem), output);
            failures += 1;
        }
    }
    checked(failures, definitions.workflows().len() as u64, output)
}

fn checked(failures: u64, number: u64, output: &mut Output) -> Ending {
    if failures > 0 {
        let what = format!("{} found", count(failures, "problem"));
        return Err(Failure::new(Kind::Failed, what).fix("mend them and check again"));
    }
    if output.is_json() {
        output.json(&json!({ "workflows": number, "problems": 0 }));
    } else {
        output.line(format!("{}: nothing wrong", count(number, "workflow")));
    }
    Ok(0)
}

/// Tells how a run stands; puts questions to the person, if one is there, and goes on.
fn follow(runner: &mut Runner<'_>, report: RunReport, output: &mut Output) -> Ending {
    let RunReport { id, state } = report;
    match state {
        RunState::Done(outputs) => {
            if output.is_json() {
                output.json(&json!({ "run": id, "status": "done", "outputs": outputs }));
            } else {
                output.note(format!("run {id} is done"));
                output.line(serde_json::to_string_pretty(&outputs).unwrap_or_default());
            }
            Ok(0)
        }
        RunState::Failed { step, code, what } => {
            let step = step.map_or_else(
                || "the workflow".to_owned(),
                |step| format!("step `{step}`"),
            );
            let kind = if code == "denied" {
                Kind::Denied
            } else {
                Kind::Failed
            };
            Err(Failure::new(kind, format!("{step} failed: {code}"))
                .why(what)
                .fix(format!("`airlock workflow show {id}` shows what happened"))
                .json("run", json!(id))
                .json("code", json!(code)))
        }
        RunState::Waiting { step, mut review } => {
            let question = review
                .request
                .arguments
                .get("question")
                .and_then(Value::as_str);
            let what = match question {
                Some(question) => format!("step `{step}` asks: {}", sanitise_line(question, 300)),
                None => format!("step `{step}`"),
            };
            let kernel = runner.kernel(output)?;
            // `workflow run` would begin another run.
            let again = format!("airlock workflow resume {id}");
            review::answer_under_way(kernel, &mut review, &what, &again, output)
                .map_err(|failure| failure.json("run", json!(id)))?;
            let next = RunAsk::Resume(ResumeRun {
                run: id,
                repeat: BTreeSet::new(),
                skip: BTreeSet::new(),
                person: None,
            });
            let next = runner.ask(&next, output)?;
            follow(runner, next, output)
        }
        RunState::Unsettled(steps) => {
            let names: Vec<String> = steps.iter().map(|step| format!("`{step}`")).collect();
            let what = format!(
                "{} began and has no end: it may or may not have happened",
                names.join(", ")
            );
            Err(Failure::new(Kind::NeedsReview, what)
                .fix(format!("look at `airlock diff`, then do it again: airlock workflow resume {id} --repeat STEP"))
                .fix(format!("or pass over it: airlock workflow resume {id} --skip STEP"))
                .json("run", json!(id))
                .json("steps", json!(steps)))
        }
        RunState::Cancelled => Err(Failure::new(
            Kind::Failed,
            format!("the run {id} was cancelled"),
        )
        .json("run", json!(id))),
    }
}
