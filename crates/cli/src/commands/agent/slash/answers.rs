//! The person's answers: to what waits for one, and to the stage as a whole.

use super::super::Session;
use super::{dispatch, named};
use crate::args::Global;
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::review::{self, Terminal};
use airlock_kernel::{Call, sanitise_line};
use serde_json::{Value, json};

/// What waits for an answer: the one that is named, else the oldest question of this session.
fn waiting(session: &Session, rest: &str, output: &mut Output) -> Result<Option<String>, Failure> {
    if let Some(id) = named(rest)? {
        return Ok(Some(id.to_owned()));
    }
    let own = session.road.session().to_string();
    let text = |one: &Value, name: &str| {
        let found = one.get(name).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let (mut oldest, mut after) = (None, None::<String>);
    loop {
        let asked = json!({ "status": "open", "after": after });
        let call = Call::new("approval.read", asked);
        let found = session
            .road
            .persons(&call, "looking at approvals", output)?;
        let page = found.get("approvals").and_then(Value::as_array);
        let page: &[Value] = page.map_or(&[], Vec::as_slice);
        // The newest come first.
        let is_own = |one: &&Value| {
            let session = text(one, "session");
            session.is_empty() || session == own
        };
        oldest = page
            .iter()
            .rfind(is_own)
            .map(|one| text(one, "id"))
            .or(oldest);
        let more = found.get("more").and_then(Value::as_u64).unwrap_or(0);
        after = page.last().map(|one| text(one, "id"));
        if more == 0 || after.is_none() {
            return Ok(oldest);
        }
    }
}

pub(super) fn approve(
    session: &Session,
    global: &Global,
    rest: &str,
    output: &mut Output,
) -> Result<u8, Failure> {
    session.road.settle();
    match waiting(session, rest, output)? {
        Some(id) => dispatch(global, &["approvals", "approve", &id], output),
        None => merge(session, global, "", output),
    }
}

pub(super) fn reject(
    session: &Session,
    global: &Global,
    rest: &str,
    output: &mut Output,
) -> Result<u8, Failure> {
    session.road.settle();
    if let Some(id) = waiting(session, rest, output)? {
        return dispatch(global, &["approvals", "deny", &id], output);
    }
    let stage = session.road.stage();
    if session.road.changed() == Some(0) {
        if output.is_json() {
            output.json(&json!({ "dropped": null }));
        } else {
            output.note("nothing waits for you, and the stage changes nothing");
        }
        return Ok(0);
    }
    let Some(mut terminal) = Terminal::open() else {
        return Err(review::nobody("dropping a stage is a person's to say"));
    };
    let shown = sanitise_line(stage, 64);
    let answer = terminal.ask(&format!("drop every change in stage {shown}? [y/N]"));
    if !matches!(answer.as_deref(), Some("y" | "Y" | "yes")) {
        return Err(Failure::new(Kind::Denied, "the stage stays as it is")
            .why("the person at the terminal did not say yes"));
    }
    dispatch(global, &["stage", "drop", stage], output)
}

pub(super) fn merge(
    session: &Session,
    global: &Global,
    rest: &str,
    output: &mut Output,
) -> Result<u8, Failure> {
    session.road.settle();
    let mut words = vec!["merge", session.road.stage()];
    for path in rest.split_whitespace() {
        // A path is never a flag of the command it is handed to.
        if path.starts_with('-') {
            let path = sanitise_line(path, 60);
            return Err(Failure::new(Kind::Usage, format!("`{path}` is no path"))
                .fix("name files of the stage; `airlock merge --help` knows more ways"));
        }
        words.extend(["--files", path]);
    }
    dispatch(global, &words, output)
}
