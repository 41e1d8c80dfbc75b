//! Where the session stands: its mode, its phase, and what it spent.

use super::super::{Session, kept, told};
use crate::failure::{Failure, Kind};
use crate::output::{Output, Tone, count, styled};
use airlock_kernel::sanitise_line;
use airlock_model::{Clock, Ledger};
use serde_json::{Value, json};
use std::sync::PoisonError;

/// What a build without phases says of them.
fn without_phases(failure: Failure) -> Failure {
    if failure.what().starts_with("unknown tool") {
        return Failure::new(Kind::Failed, "sessions are not held to phases here")
            .why("this build has no test-first phases");
    }
    failure
}

pub(super) fn mode(session: &Session, mode: &str, output: &mut Output) -> Result<(), Failure> {
    let what = format!("switching the session to {mode}");
    let road = &session.road;
    let set = road.in_session("session.set_mode", json!({ "mode": mode }), &what, output);
    let set = set.map_err(without_phases)?;
    let now = set.get("mode").and_then(Value::as_str).unwrap_or(mode);
    if output.is_json() {
        output.json(&json!({ "event": "mode", "mode": now }));
    } else {
        output.note(format!("the session is in {} mode", sanitise_line(now, 20)));
    }
    Ok(())
}

pub(super) fn plan(session: &Session, text: &str, output: &mut Output) -> Result<(), Failure> {
    let plan = (!text.is_empty()).then_some(text);
    let road = &session.road;
    let told = road.in_session(
        "plan.complete",
        json!({ "plan": plan }),
        "ending the plan",
        output,
    );
    let told = told.map_err(without_phases)?;
    if output.is_json() {
        output.json(&json!({ "event": "plan", "standing": told }));
    } else {
        stand(session, output);
    }
    Ok(())
}

fn stand(session: &Session, output: &mut Output) {
    if let Some(state) = session.road.standing() {
        output.note(sanitise_line(&told::phase(&state), 400));
    }
}

pub(super) fn status(session: &Session, output: &mut Output) -> Result<(), Failure> {
    let road = &session.road;
    let shown = road.in_session("session.show", json!({}), "looking at the session", output)?;
    let number = |pointer: &str| shown.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let calls = number("/used/total_calls");
    let (turns, most) = session.agent.turns();
    let changed = road.changed().unwrap_or(0);
    let pins = session.agent.pins().len() as u64;
    let model = session.chosen.model.name();
    if output.is_json() {
        output.json(&json!({
            "event": "status",
            "session": road.session(),
            "stage": road.stage(),
            "standing": road.standing(),
            "model": model,
            "calls": calls,
            "turns": { "used": turns, "most": most },
            "changed": changed,
            "pinned": pins,
        }));
        return Ok(());
    }
    stand(session, output);
    let mut put = |label: &str, value: String| {
        let label = styled(Tone::Label, &format!("{label:<8}"));
        output.hung(11, format!("  {label} {}", sanitise_line(&value, 200)));
    };
    put("session", road.session().to_string());
    put("stage", road.stage().to_owned());
    put("model", model.to_owned());
    put("calls", calls.to_string());
    put("turns", format!("{turns} of {most}"));
    put("changed", count(changed, "file"));
    put("pinned", count(pins, "item"));
    Ok(())
}

pub(super) fn budget(session: &Session, output: &mut Output) {
    let used = session.view.used();
    let (turns, most) = session.agent.turns();
    let left = session.road.left();
    if output.is_json() {
        output.json(&json!({
            "event": "budget",
            "tokens": { "input": used.input, "output": used.output, "estimated": used.estimated },
            "turns": { "used": turns, "most": most },
            "left": left,
            "models": ledgers(session, spent),
        }));
    } else {
        let counted = if used.estimated { ", estimated" } else { "" };
        output.note(format!(
            "this session: {} tokens asked, {} answered{counted}",
            used.input, used.output
        ));
        output.note(format!("questions: {turns} of {most}"));
        if let Some(tokens) = left.and_then(|left| left.tokens) {
            output.note(format!("left to this session: {tokens} tokens"));
        }
        if let Some(cost) = left.and_then(|left| left.cost_micros) {
            output.note(format!("left to this session: {} in money", money(cost)));
        }
        for (name, lines) in ledgers(session, told_spent) {
            let name = sanitise_line(&name, 60);
            output.note(format!("{name}: {}", lines.join("; ")));
        }
    }
    kept::store(&session.place, &session.chosen.ledgers);
}

/// What `of` says of each model's ledger, by its name.
fn ledgers<T>(
    session: &Session,
    of: impl Fn(&Ledger) -> T,
) -> std::collections::BTreeMap<String, T> {
    let all = session.chosen.ledgers.iter();
    all.map(|(name, ledger)| {
        let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        (name.clone(), of(&ledger))
    })
    .collect()
}

fn spent(ledger: &Ledger) -> Value {
    let now = Clock::system().now();
    let (hour, day) = (ledger.hour(now), ledger.day(now));
    json!({
        "hour": { "tokens": hour.tokens, "cost_micros": hour.cost_micros },
        "day": { "tokens": day.tokens, "cost_micros": day.cost_micros },
    })
}

fn told_spent(ledger: &Ledger) -> Vec<String> {
    let now = Clock::system().now();
    let (hour, day) = (ledger.hour(now), ledger.day(now));
    let mut lines = vec![format!(
        "{} tokens in the last hour, {} in the last day",
        hour.tokens, day.tokens
    )];
    if day.cost_micros > 0 {
        lines.push(format!(
            "cost {} in the last hour, {} in the last day",
            money(hour.cost_micros),
            money(day.cost_micros)
        ));
    }
    lines
}

fn money(micros: u64) -> String {
    format!("{}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}
