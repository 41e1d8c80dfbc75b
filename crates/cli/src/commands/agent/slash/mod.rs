//! What a person can say to the session itself, beginning with a slash.
//!
//! With `--json`, what a command tells is one object on stdout: an event of its own, or what the
//! command of the same name outside a session gives.

mod answers;
mod standing;

use super::Session;
use crate::args::{Cli, Global};
use crate::failure::{Failure, Kind};
use crate::models;
use crate::output::{Output, Tone, styled};
use airlock_core::closest;
use airlock_kernel::sanitise_line;
use clap::Parser as _;
use serde_json::{Value, json};

/// A command: its name, what may follow it, and what it does.
struct Command {
    name: &'static str,
    takes: &'static str,
    about: &'static str,
}

const fn command(name: &'static str, takes: &'static str, about: &'static str) -> Command {
    Command { name, takes, about }
}

/// Every command.
const COMMANDS: &[Command] = &[
    command(
        "/strict",
        "",
        "tests first: no code before a test that fails",
    ),
    command(
        "/explore",
        "",
        "code and tests in any order; the commit says so",
    ),
    command(
        "/debug",
        "",
        "explore, with more rights; needs your approval",
    ),
    command(
        "/plan",
        "[TEXT]",
        "say that the plan is complete; a text after it is kept",
    ),
    command("/status", "", "where the session stands"),
    command("/budget", "", "what was spent, and what is left"),
    command("/diff", "", "what the stage changes"),
    command(
        "/approve",
        "[ID]",
        "answer what waits for you; else merge the stage",
    ),
    command(
        "/reject",
        "[ID]",
        "refuse what waits for you; else drop the stage",
    ),
    command(
        "/merge",
        "[PATH...]",
        "merge the stage, or only these files of it",
    ),
    command(
        "/undo",
        "[MERGE]",
        "take the last merge back, or the one you name",
    ),
    command(
        "/pin",
        "[TEXT]",
        "keep a text in every question; without one, list them",
    ),
    command(
        "/model",
        "[NAME]",
        "ask another model; without a name, list them",
    ),
    command("/help", "", "this list"),
    command("/quit", "", "leave"),
];

/// Another name for leaving.
const EXIT: Command = command("/exit", "", "leave");

/// What follows a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The session goes on; the code says what came of it.
    Stay(u8),
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
    let command = known(name)?;
    if command.takes.is_empty() && !rest.is_empty() {
        let rest = sanitise_line(rest, 40);
        let what = format!("{} takes nothing, and `{rest}` follows it", command.name);
        return Err(
            Failure::new(Kind::Usage, what).fix(format!("say only {name}; /help lists commands"))
        );
    }
    let mut code = 0;
    match command.name {
        "/strict" | "/explore" | "/debug" => {
            standing::mode(session, name.trim_start_matches('/'), output)?;
        }
        "/plan" => standing::plan(session, rest, output)?,
        "/status" => standing::status(session, output)?,
        "/budget" => standing::budget(session, output),
        "/diff" => {
            session.road.settle();
            code = dispatch(global, &["diff", session.road.stage()], output)?;
        }
        "/approve" => code = answers::approve(session, global, rest, output)?,
        "/reject" => code = answers::reject(session, global, rest, output)?,
        "/merge" => code = answers::merge(session, global, rest, output)?,
        "/undo" => {
            session.road.settle();
            let words: Vec<&str> = std::iter::once("undo").chain(named(rest)?).collect();
            code = dispatch(global, &words, output)?;
        }
        "/pin" => pin(session, rest, output)?,
        "/model" => model(session, rest, output)?,
        "/help" => help(output),
        _ => return Ok(After::Leave),
    }
    Ok(After::Stay(code))
}

/// The command called `name`.
fn known(name: &str) -> Result<&'static Command, Failure> {
    let mut all = COMMANDS.iter().chain(std::iter::once(&EXIT));
    all.find(|command| command.name == name).ok_or_else(|| {
        let near = closest(name, COMMANDS.iter().map(|command| command.name));
        let fix = near.map_or_else(
            || "/help lists what there is".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        let unknown = sanitise_line(name, 40);
        Failure::new(Kind::Usage, format!("there is no {unknown}")).fix(fix)
    })
}

/// The one name in `rest`, if there is any.
fn named(rest: &str) -> Result<Option<&str>, Failure> {
    let mut words = rest.split_whitespace();
    let first = words.next();
    // What looks like a flag is no name, and would be read as one.
    if first.is_some_and(|word| word.starts_with('-')) || words.next().is_some() {
        let rest = sanitise_line(rest, 60);
        return Err(
            Failure::new(Kind::Usage, format!("`{rest}` is not one name"))
                .fix("give one name, or none; /help lists commands"),
        );
    }
    Ok(first)
}

/// Runs another command of this program, as if it had been typed. Gives the code it ends with.
fn dispatch(global: &Global, words: &[&str], output: &mut Output) -> Result<u8, Failure> {
    let line = std::iter::once(&"airlock").chain(words);
    let mut cli = Cli::try_parse_from(line)
        .map_err(|error| Failure::new(Kind::Usage, sanitise_line(&error.to_string(), 200)))?;
    cli.global = global.clone();
    super::super::run(cli, None, output)
}

fn pin(session: &mut Session, text: &str, output: &mut Output) -> Result<(), Failure> {
    if !text.is_empty() {
        session.agent.pin(text).map_err(|error| {
            Failure::of(Kind::Failed, &error).fix("pin less, or say it in the task")
        })?;
    }
    let pins = session.agent.pins();
    if output.is_json() {
        output.json(&json!({ "event": "pins", "pins": pins }));
    } else if !text.is_empty() {
        output.note("pinned");
    } else if pins.is_empty() {
        output.note("nothing is pinned");
    } else {
        for pin in pins {
            output.note(format!("- {}", sanitise_line(pin, 200)));
        }
    }
    Ok(())
}

fn model(session: &mut Session, name: &str, output: &mut Output) -> Result<(), Failure> {
    if !name.is_empty() {
        session.chosen = models::choose(&session.config, Some(name), &session.place)?;
    }
    let asked = session.chosen.model.name().to_owned();
    if output.is_json() {
        let models: Vec<String> = with_asked(models::names(&session.config)?, &asked);
        output.json(&json!({ "event": "model", "model": asked, "models": models }));
    } else if name.is_empty() {
        for line in listed(models::names(&session.config)?, &asked) {
            output.note(line);
        }
    } else {
        output.note(format!("asking {}", sanitise_line(&asked, 60)));
    }
    Ok(())
}

/// The models there are, and the one that is asked: a script is in no list.
fn with_asked(mut known: Vec<String>, asked: &str) -> Vec<String> {
    if !known.iter().any(|name| name == asked) {
        known.insert(0, asked.to_owned());
    }
    known
}

/// The same as lines for a person, with a mark.
fn listed(known: Vec<String>, asked: &str) -> Vec<String> {
    let line = |name: &String| {
        let mark = if name == asked { "*" } else { " " };
        format!("{mark} {}", sanitise_line(name, 60))
    };
    with_asked(known, asked).iter().map(line).collect()
}

fn help(output: &mut Output) {
    if output.is_json() {
        let one = |command: &Command| -> Value {
            json!({ "name": command.name, "takes": command.takes, "about": command.about })
        };
        let commands: Vec<Value> = COMMANDS.iter().map(one).collect();
        output.json(&json!({ "event": "help", "commands": commands }));
        return;
    }
    for Command { name, takes, about } in COMMANDS {
        let left = format!("{name} {takes}");
        let left = styled(Tone::Label, &format!("{left:<17}"));
        output.hung(20, format!("  {left} {about}"));
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

    #[test]
    fn one_name_is_a_name_and_nothing_that_looks_like_a_flag_is() {
        assert_eq!(named("").unwrap(), None);
        assert_eq!(named(" 0192f3a4 ").unwrap(), Some("0192f3a4"));
        for wrong in ["a b", "--list", "-h"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_command_is_told_what_it_is_near_to() {
        for (typed, fix) in [
            ("/hlep", "did you mean /help?"),
            ("/aprove", "did you mean /approve?"),
            ("/nothing-like-it", "/help lists what there is"),
        ] {
            let failure = known(typed).err().unwrap();
            assert_eq!(failure.fixes().collect::<Vec<_>>(), [fix], "{typed}");
        }
        assert!(known("/exit").is_ok());
    }
}
