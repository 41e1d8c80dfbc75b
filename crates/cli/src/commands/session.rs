//! `airlock session`: the person's sessions, and ending them.

use super::reach::Reach;
use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, styled};
use airlock_core::SessionId;
use airlock_kernel::{Call, strip_control};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(crate) enum Arguments {
    /// List sessions
    #[command(after_help = "Examples:
  airlock session list
  airlock session list --all --json")]
    List {
        /// Archived ones, too
        #[arg(long)]
        all: bool,
    },
    /// Show a session: its mode, its stage, what it used of its budget
    #[command(after_help = "Example:
  airlock session show 0192f3a4-7c1e-7000-8000-000000000000")]
    Show {
        /// The session
        id: String,
    },
    /// Resume an archived session
    #[command(after_help = "Example:
  airlock session resume 0192f3a4-7c1e-7000-8000-000000000000")]
    Resume {
        /// The session
        id: String,
    },
    /// End a session for good
    #[command(after_help = "Example:
  airlock session cancel 0192f3a4-7c1e-7000-8000-000000000000")]
    Cancel {
        /// The session
        id: String,
    },
    /// Let a session change files without a test, after you said so
    #[command(after_help = "Example:
  airlock session exempt documentation README.md --reason 'a typo'")]
    Exempt {
        /// What for: config_change, type_refactor, documentation, asset_update
        category: String,
        /// The files, by their names
        #[arg(required = true)]
        paths: Vec<String>,
        /// The session; default: the newest one that could use it
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Why no test is needed
        #[arg(long, default_value = "the person exempted it at the command line")]
        reason: String,
    },
    /// Put a session away; it can be resumed
    #[command(after_help = "Example:
  airlock session archive 0192f3a4-7c1e-7000-8000-000000000000")]
    Archive {
        /// The session
        id: String,
    },
}

pub(super) fn run(global: &Global, command: &Arguments, output: &mut Output) -> Ending {
    match command {
        Arguments::List { all } => list(global, *all, output),
        Arguments::Show { id } => {
            let session = one(global, "session.show", id, output)?;
            present(&session, output);
            Ok(0)
        }
        Arguments::Resume { id } => turn(global, "session.resume", id, output),
        Arguments::Cancel { id } => turn(global, "session.cancel", id, output),
        Arguments::Archive { id } => turn(global, "session.archive", id, output),
        Arguments::Exempt {
            category,
            paths,
            session,
            reason,
        } => {
            let asked = json!({ "category": category, "paths": paths, "reason": reason });
            exempt(global, session.as_deref(), asked, output)
        }
    }
}

fn list(global: &Global, all: bool, output: &mut Output) -> Ending {
    let asked = json!({ "archived": all });
    let found = Reach::new(global, output)?.value("session.list", asked, output)?;
    let sessions = found.get("sessions").and_then(Value::as_array);
    let sessions: Vec<&Value> = sessions.into_iter().flatten().collect();
    if sessions.is_empty() && !output.is_json() {
        output.note("there is no session");
    }
    for session in sessions {
        if output.is_json() {
            output.json(session);
        } else {
            output.row(4, line(session));
        }
    }
    let more = found.get("more").and_then(Value::as_u64).unwrap_or(0);
    if more > 0 && !output.is_json() {
        output.note(format!("{more} older ones are not shown"));
    }
    Ok(0)
}

fn line(session: &Value) -> String {
    let calls = session.get("calls").and_then(Value::as_u64).unwrap_or(0);
    format!(
        "{}  {:<9}  {:<8}  {}  {}",
        styled(Tone::Heading, text(session, "id")),
        text(session, "state"),
        mode(session),
        crate::output::count(calls, "call"),
        clean(text(session, "title")),
    )
    .trim_end()
    .to_owned()
}

/// The mode a session is held to; one that is held to none has one by name only.
fn mode(session: &Value) -> &str {
    if session.get("disciplined") == Some(&Value::Bool(false)) {
        return "not held";
    }
    text(session, "mode")
}

/// Runs `name` on the session `id`.
fn one(global: &Global, name: &str, id: &str, output: &mut Output) -> Result<Value, Failure> {
    Reach::new(global, output)?.value(name, json!({ "session": id }), output)
}

fn turn(global: &Global, name: &str, id: &str, output: &mut Output) -> Ending {
    let session = one(global, name, id, output)?;
    if output.is_json() {
        output.json(&session);
    } else {
        let state = text(&session, "state");
        output.note(format!("session {} is {state}", text(&session, "id")));
    }
    Ok(0)
}

/// The newest session that an exemption would lead anywhere.
fn newest(reach: &mut Reach<'_>, output: &mut Output) -> Result<String, Failure> {
    let found = reach.value("session.list", json!({ "archived": false }), output)?;
    let sessions = found.get("sessions").and_then(Value::as_array);
    let could = |session: &&Value| {
        let waits = ["planning", "test_writing"].contains(&text(session, "phase"));
        waits && session.get("disciplined") != Some(&Value::Bool(false))
    };
    let mut sessions = sessions.into_iter().flatten().filter(could);
    match sessions.next() {
        Some(session) => Ok(text(session, "id").to_owned()),
        None => Err(Failure::new(
            Kind::Failed,
            "there is no session that could use an exemption",
        )
        .why("it has to be planning, or to have written no test yet")
        .fix("see how the sessions stand: airlock session list --json")),
    }
}

fn exempt(global: &Global, id: Option<&str>, asked: Value, output: &mut Output) -> Ending {
    let mut reach = Reach::new(global, output)?;
    let id = match id {
        Some(id) => id.to_owned(),
        None => newest(&mut reach, output)?,
    };
    let id = id.as_str();
    // Named before anything is asked: a session that is not there has nothing to exempt.
    reach.value("session.show", json!({ "session": id }), output)?;
    let mut call = Call::new("phase.request_exemption", asked);
    call.session = SessionId::new(id).ok();
    let told = reach.reviewed(&call, "this exemption", output)?.value;
    if output.is_json() {
        output.json(&told);
    } else {
        let state = text(&told, "state");
        output.note(format!(
            "session {id} is {state}, and may write what was named"
        ));
    }
    Ok(0)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn clean(text: &str) -> String {
    strip_control(text).replace('\n', " ")
}

fn present(session: &Value, output: &mut Output) {
    if output.is_json() {
        output.json(session);
        return;
    }
    output.line(styled(Tone::Heading, text(session, "id")));
    let mut put = |label: &str, value: &str| {
        if !value.is_empty() {
            let label = styled(Tone::Label, &format!("{label:<8}"));
            output.row(11, format!("  {label} {}", clean(value)));
        }
    };
    for label in [
        "title", "agent", "parent", "state", "mode", "phase", "stage", "created", "updated",
    ] {
        let value = if label == "mode" {
            mode(session)
        } else {
            text(session, label)
        };
        put(label, value);
    }
    let number = |pointer: &str| session.pointer(pointer).and_then(Value::as_u64);
    for (label, used, most) in [
        ("calls", "/used/calls", "/budget/calls"),
        ("turns", "/used/turns", "/budget/turns"),
        ("tokens", "/used/tokens", "/budget/tokens"),
        ("cost", "/used/cost_micros", "/budget/cost_micros"),
    ] {
        let used = number(used).unwrap_or(0);
        let most = number(most).map_or(", not limited".to_owned(), |most| format!(" of {most}"));
        put(label, &format!("{used}{most}"));
    }
    let minutes = number("/used/time_micros").unwrap_or(0) / 60_000_000;
    let most = of_most(session.pointer("/budget/time"));
    put("time", &format!("{minutes}m{most}"));
    put("exceeded", text(session, "exceeded"));
    let tools = session.get("tools").and_then(Value::as_array);
    let tools: Vec<&str> = tools
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    put("tools", &tools.join(" "));
}

fn of_most(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => format!(" of {text}"),
        Some(_) | None => ", not limited".to_owned(),
    }
}
