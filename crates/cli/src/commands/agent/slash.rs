//! What a person can say to the session itself, beginning with a slash.

use super::{Session, kept};
use crate::args::{Cli, Global};
use crate::failure::{Failure, Kind};
use crate::models;
use crate::output::{Output, Tone, styled};
use crate::review::Terminal;
use airlock_core::closest;
use airlock_kernel::sanitise_line;
use airlock_model::Clock;
use clap::Parser as _;
use serde_json::{Value, json};
use std::sync::PoisonError;

/// Every command, and what it does.
const COMMANDS: &[(&str, &str)] = &[
    ("/strict", "tests first: no code before a test that fails"),
    (
        "/explore",
        "code and tests in any order; the commit says so",
    ),
    ("/debug", "explore, with more rights; needs your approval"),
    (
        "/plan",
        "say that the plan is complete; a text after it is kept",
    ),
    ("/status", "where the session stands"),
    ("/budget", "what was spent, and what is left"),
    ("/diff", "what the stage changes"),
    (
        "/approve",
        "answer what waits for you; else merge the stage",
    ),
    ("/reject", "refuse what waits for you; else drop the stage"),
    ("/undo", "take the last merge back"),
    (
        "/pin",
        "keep a text in every question; without one, list them",
    ),
    ("/model", "ask another model; without a name, list them"),
    ("/help", "this list"),
    ("/quit", "leave"),
];

/// What follows a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The session goes on.
    Stay,
    /// It ends.
    Leave,
}

/// Does what `line` says, which begins with a slash.
pub(super) fn obey(
    session: &mut Session,
    global: &Global,
    line: &str,
    output: &mut Output,
) -> Result<After, Failure> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match name {
        "/strict" | "/explore" | "/debug" => mode(session, name.trim_start_matches('/'), output)?,
        "/plan" => plan(session, rest, output)?,
        "/status" => status(session, output)?,
        "/budget" => budget(session, output),
        "/diff" => {
            session.road.settle();
            let stage = session.road.stage().to_owned();
            dispatch(global, &["diff", &stage], output)?;
        }
        "/approve" => approve(session, global, output)?,
        "/reject" => reject(session, global, output)?,
        "/undo" => {
            session.road.settle();
            dispatch(global, &["undo"], output)?;
        }
        "/pin" => pin(session, rest, output)?,
        "/model" => model(session, rest, output)?,
        "/help" => help(output),
        "/quit" | "/exit" => return Ok(After::Leave),
        unknown => {
            let near = closest(unknown, COMMANDS.iter().map(|(name, _)| *name));
            let fix = near.map_or_else(
                || "/help lists what there is".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            let unknown = sanitise_line(unknown, 40);
            return Err(Failure::new(Kind::Usage, format!("there is no {unknown}")).fix(fix));
        }
    }
    Ok(After::Stay)
}

/// Runs another command of this program, as if it had been typed.
fn dispatch(global: &Global, words: &[&str], output: &mut Output) -> Result<(), Failure> {
    let line = std::iter::once(&"airlock").chain(words);
    let mut cli = Cli::try_parse_from(line)
        .map_err(|error| Failure::new(Kind::Usage, sanitise_line(&error.to_string(), 200)))?;
    cli.global = global.clone();
    super::super::run(cli, None, output).map(drop)
}

/// What a build without phases says of them.
fn without_phases(failure: Failure) -> Failure {
    if failure.what().starts_with("unknown tool") {
        return Failure::new(Kind::Failed, "sessions are not held to phases here")
            .why("this build has no test-first phases");
    }
    failure
}

fn mode(session: &Session, mode: &str, output: &mut Output) -> Result<(), Failure> {
    let what = format!("switching the session to {mode}");
    let road = &session.road;
    let set = road.in_session("session.set_mode", json!({ "mode": mode }), &what, output);
    let set = set.map_err(without_phases)?;
    let now = set.get("mode").and_then(Value::as_str).unwrap_or(mode);
    output.note(format!("the session is in {} mode", sanitise_line(now, 20)));
    Ok(())
}

fn plan(session: &Session, text: &str, output: &mut Output) -> Result<(), Failure> {
    let plan = (!text.is_empty()).then_some(text);
    let road = &session.road;
    let told = road.in_session(
        "plan.complete",
        json!({ "plan": plan }),
        "ending the plan",
        output,
    );
    told.map_err(without_phases)?;
    stand(session, output);
    Ok(())
}

fn stand(session: &Session, output: &mut Output) {
    if let Some(state) = session.road.standing() {
        output.note(sanitise_line(&super::told::phase(&state), 400));
    }
}

fn status(session: &Session, output: &mut Output) -> Result<(), Failure> {
    let road = &session.road;
    let shown = road.in_session("session.show", json!({}), "looking at the session", output)?;
    stand(session, output);
    let mut put = |label: &str, value: String| {
        let label = styled(Tone::Label, &format!("{label:<8}"));
        output.note(format!("  {label} {}", sanitise_line(&value, 200)));
    };
    put("session", session.road.session().to_string());
    put("stage", session.road.stage().to_owned());
    put("model", session.chosen.model.name().to_owned());
    let number = |pointer: &str| shown.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    put("calls", number("/used/total_calls").to_string());
    let (turns, most) = session.agent.turns();
    put("turns", format!("{turns} of {most}"));
    let changed = session.road.changed().unwrap_or(0);
    put("changed", crate::output::count(changed, "file"));
    let pins = session.agent.pins().len() as u64;
    put("pinned", crate::output::count(pins, "item"));
    Ok(())
}

fn budget(session: &Session, output: &mut Output) {
    let used = session.view.used();
    let counted = if used.estimated { ", estimated" } else { "" };
    output.note(format!(
        "this session: {} tokens asked, {} answered{counted}",
        used.input, used.output
    ));
    let (turns, most) = session.agent.turns();
    output.note(format!("questions: {turns} of {most}"));
    let now = Clock::system().now();
    for (name, ledger) in &session.chosen.ledgers {
        let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let (hour, day) = (ledger.hour(now), ledger.day(now));
        output.note(format!(
            "{}: {} tokens in the last hour, {} in the last day",
            sanitise_line(name, 60),
            hour.tokens,
            day.tokens
        ));
        if day.cost_micros > 0 {
            let money =
                |micros: u64| format!("{}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100);
            output.note(format!(
                "  cost {} in the last hour, {} in the last day",
                money(hour.cost_micros),
                money(day.cost_micros)
            ));
        }
    }
    kept::store(&session.place, &session.chosen.ledgers);
}

/// The oldest question of this session that waits for an answer.
fn waiting(session: &Session, output: &mut Output) -> Result<Option<String>, Failure> {
    let call = airlock_kernel::Call::new("approval.read", json!({ "approval": null }));
    let found = session
        .road
        .persons(&call, "looking at approvals", output)?;
    let own = session.road.session().to_string();
    let text = |one: &Value, name: &str| {
        let found = one.get(name).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let all = found.get("approvals").and_then(Value::as_array);
    let mut open = all.into_iter().flatten().filter(|one| {
        let session = text(one, "session");
        text(one, "status") == "open" && (session.is_empty() || session == own)
    });
    Ok(open.next_back().map(|one| text(one, "id")))
}

fn approve(session: &Session, global: &Global, output: &mut Output) -> Result<(), Failure> {
    session.road.settle();
    if let Some(id) = waiting(session, output)? {
        return dispatch(global, &["approvals", "approve", &id], output);
    }
    let stage = session.road.stage().to_owned();
    dispatch(global, &["merge", &stage], output)
}

fn reject(session: &Session, global: &Global, output: &mut Output) -> Result<(), Failure> {
    session.road.settle();
    if let Some(id) = waiting(session, output)? {
        return dispatch(global, &["approvals", "deny", &id], output);
    }
    let stage = session.road.stage().to_owned();
    let Some(mut terminal) = Terminal::open() else {
        return Err(crate::review::nobody(
            "dropping a stage is a person's to say",
        ));
    };
    let shown = sanitise_line(&stage, 64);
    let answer = terminal.ask(&format!("drop every change in stage {shown}? [y/N]"));
    if !matches!(answer.as_deref(), Some("y" | "Y" | "yes")) {
        output.note("the stage stays as it is");
        return Ok(());
    }
    dispatch(global, &["stage", "drop", &stage], output)
}

fn pin(session: &mut Session, text: &str, output: &mut Output) -> Result<(), Failure> {
    if text.is_empty() {
        for pin in session.agent.pins() {
            output.note(format!("- {}", sanitise_line(pin, 200)));
        }
        if session.agent.pins().is_empty() {
            output.note("nothing is pinned");
        }
        return Ok(());
    }
    session.agent.pin(text).map_err(|error| {
        Failure::of(Kind::Failed, &error).fix("pin less, or say it in the task")
    })?;
    output.note("pinned");
    Ok(())
}

fn model(session: &mut Session, name: &str, output: &mut Output) -> Result<(), Failure> {
    if name.is_empty() {
        let asked = session.chosen.model.name().to_owned();
        for line in listed(models::names(&session.config)?, &asked) {
            output.note(line);
        }
        return Ok(());
    }
    kept::store(&session.place, &session.chosen.ledgers);
    let kept = kept::load(&session.place);
    session.chosen = models::choose(&session.config, Some(name), &kept)?;
    output.note(format!(
        "asking {}",
        sanitise_line(session.chosen.model.name(), 60)
    ));
    Ok(())
}

/// The models there are, and the one that is asked: a script is in no list.
fn listed(mut known: Vec<String>, asked: &str) -> Vec<String> {
    if !known.iter().any(|name| name == asked) {
        known.insert(0, asked.to_owned());
    }
    let line = |name: &String| {
        let mark = if name == asked { "*" } else { " " };
        format!("{mark} {}", sanitise_line(name, 60))
    };
    known.iter().map(line).collect()
}

fn help(output: &mut Output) {
    for (name, about) in COMMANDS {
        let name = styled(Tone::Label, &format!("{name:<9}"));
        output.note(format!("  {name} {about}"));
    }
    output.note("  Ctrl-C takes back what is under way; twice leaves");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_that_is_asked_is_listed_wherever_it_comes_from() {
        let known = || vec!["large".to_owned(), "small".to_owned()];
        assert_eq!(listed(known(), "small"), ["  large", "* small"]);
        assert_eq!(
            listed(known(), "script"),
            ["* script", "  large", "  small"]
        );
        assert_eq!(listed(Vec::new(), "script"), ["* script"]);
    }
}
