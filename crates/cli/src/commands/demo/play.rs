//! The scripted agent at work, each step shown as it really went.

use super::super::agent::shown;
use super::hands::DemoHands;
use super::project;
use super::scene::Scene;
use crate::failure::{Failure, Kind};
use crate::output::count;
use airlock_agent::{Agent, Ended, Limits, Setup, Step, With};
use airlock_core::SessionId;
use airlock_kernel::Kernel;
use airlock_model::{Cancel, Event, Script, Scripted, Status};
use std::collections::BTreeMap;

/// The conversation, recorded. `{home}` is the person's home.
const SCRIPT: &str = include_str!("script.yaml");
/// Where the part begins that needs cargo, and what is said instead.
const WORK: &str = "    # From here on there has to be cargo.\n";
const INSTEAD: &str =
    "    text: None of that worked, and without cargo there is no work to do here.\n";
/// The script that starts more and more of itself, the one that wants out, and a file with a token.
const BOMB: &str = "tools/bomb.sh";
const REPORT: &str = "tools/report.sh";
const FORGE: &str = "src/forge.rs";
/// How much of a result is shown, and of one that is worth a longer look.
const LINES: usize = 4;
const LONGER: usize = 7;

/// What came of the agent's calls.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) done: usize,
    pub(super) denied: usize,
    pub(super) flagged: usize,
}

/// Lets the agent do its task in `session`, as far as that `works` here. Its script says what it expects at each step, and fails
/// where something else happens.
pub(super) fn play(
    scene: &mut Scene<'_>,
    kernel: &Kernel,
    session: &SessionId,
    home: &str,
    works: bool,
) -> Result<Tally, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Kind::Failed, "the scripted agent stopped").why(error)
    };
    let script = match SCRIPT.split_once(WORK) {
        Some((before, _)) if !works => format!("{before}{INSTEAD}"),
        Some(_) | None => SCRIPT.to_owned(),
    };
    let script = Script::parse(&script.replace("{home}", home)).map_err(|error| failed(&error))?;
    let model = Scripted::new("script", script);
    let setup = Setup {
        workspace: "parser".to_owned(),
        limits: Limits::default(),
        role: None,
    };
    let mut agent = Agent::new(&setup, &model);
    let hands = DemoHands {
        kernel,
        session: session.clone(),
    };
    let mut stage = Stage {
        scene,
        calls: BTreeMap::new(),
        text: String::new(),
        tally: Tally::default(),
    };
    let outcome = agent.run(
        super::TASK,
        With {
            model: &model,
            hands: &hands,
            watch: &mut |step| stage.step(&step),
            cancel: &Cancel::new(),
        },
    );
    let tally = stage.tally;
    let ended = outcome.map_err(|error| failed(&error))?.ended;
    if ended != Ended::Done {
        return Err(failed(&format!("{ended:?}")));
    }
    Ok(tally)
}

/// What held the fork bomb, by how it ended.
fn held(text: &str) -> Option<&'static str> {
    let fields: serde_json::Value =
        serde_json::from_str(text.lines().next().unwrap_or_default()).ok()?;
    let limit = fields.get("limit").and_then(serde_json::Value::as_str);
    // What the kernel says to whoever may start no more.
    let refused = text.contains("Resource temporarily unavailable");
    match (limit, refused) {
        (Some("pids"), _) => Some("the limit of processes ended the fork bomb"),
        (Some("duration"), true) => {
            Some("the limit of processes held the fork bomb, until that of its time ended it")
        }
        (Some("memory"), _) => Some("the limit of memory ended the fork bomb"),
        (_, true) => Some("the limit of processes held the fork bomb"),
        (Some("duration"), false) => Some("the limit of its time ended the fork bomb"),
        (Some(_) | None, false) => None,
    }
}

/// What a run of the tests proved, in words, and whether it is what this story is about; none of any
/// other call.
fn proven(text: &str) -> Option<(bool, String)> {
    let fields: serde_json::Value =
        serde_json::from_str(text.lines().next().unwrap_or_default()).ok()?;
    let phase = fields.get("phase")?;
    let word = |name: &str| phase.get(name).and_then(serde_json::Value::as_str);
    let why = word("why").unwrap_or_default();
    Some(match word("proof")? {
        "red" => (true, format!("RED, for the right reason: {why}")),
        "green" => {
            let mutated = |name: &str| phase.pointer(&format!("/mutated/{name}"));
            let tried = mutated("tried").and_then(serde_json::Value::as_u64);
            let noticed = mutated("noticed_by").and_then(serde_json::Value::as_array);
            let (tried, noticed) = (tried.unwrap_or(0), noticed.map_or(0, Vec::len));
            let changes = count(tried, "way");
            let tests = count(noticed as u64, "new test");
            let told = format!(
                "GREEN: {why}; the kernel then broke the code in {changes}, and {tests} noticed"
            );
            (tried > 0 && noticed > 0, told)
        }
        other => (false, format!("the run proves `{other}`: {why}")),
    })
}

/// Whether a line of a test runner's tells how a test ended, or why it could not be run.
fn is_verdict(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("error[") || line.starts_with("test ") && line.contains(" ... ")
}

/// Where the steps are shown.
struct Stage<'s, 'o> {
    scene: &'s mut Scene<'o>,
    calls: BTreeMap<String, String>,
    text: String,
    tally: Tally,
}

impl Stage<'_, '_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Model(Event::TextDelta { text }) => self.text.push_str(text),
            Step::Model(Event::Done { .. } | Event::ToolCallStart { .. }) => self.said(),
            Step::ToolExecuting {
                id,
                name,
                arguments,
            } => {
                self.said();
                let what = shown::call(name, arguments);
                self.scene.busy(&what);
                self.calls.insert(id.clone(), what);
            }
            Step::ToolResult {
                id,
                name,
                status,
                milliseconds,
                text,
            } => {
                let what = self.calls.remove(id).unwrap_or_default();
                self.tally.done += usize::from(*status == Status::Ok);
                self.tally.denied += usize::from(*status == Status::Denied);
                self.scene.call(&what, *status, *milliseconds);
                let lines = if what.contains(REPORT) { LONGER } else { LINES };
                let all = |_: &str| true;
                let telling: fn(&str) -> bool = if name == "test.run" { is_verdict } else { all };
                self.scene.result_text(*status, text, lines, telling);
                if let Some((good, told)) = proven(text) {
                    self.scene.holds(good, &told);
                }
                if what.contains(FORGE) {
                    let hidden = text.contains("[secret:") && !text.contains(project::TOKEN);
                    let told = "the token in it is a secret: the agent gets a placeholder";
                    self.scene.holds(hidden, told);
                }
                if what.contains(REPORT) {
                    let mut signs = ["no way out", "no ~/.ssh", "no .env"].iter();
                    let boxed = signs.all(|sign| text.contains(sign));
                    let told = "in its sandbox there is no network, no ~/.ssh and no .env";
                    let kept = !text.contains(project::SECRET);
                    self.scene.holds(boxed && kept, told);
                    let hidden = text.contains("[secret:") && !text.contains(project::TOKEN);
                    let told = "the token that it printed reached the agent as a placeholder, too";
                    self.scene.holds(hidden, told);
                }
                if what.contains(BOMB) {
                    let held = held(text);
                    let told = held.unwrap_or("nothing held the fork bomb");
                    self.scene.holds(held.is_some(), told);
                }
            }
            Step::Flagged { origin, places } => {
                self.tally.flagged += places;
                self.scene.flagged(origin);
            }
            Step::Model(_) | Step::Summarised { .. } | Step::Withheld { .. } => {}
        }
    }

    /// What the agent said, once it is whole.
    fn said(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.scene.agent(text.trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_proved_is_told_and_a_green_one_only_if_the_tests_looked() {
        let mutated = |noticed: &str| {
            format!(
                r#"{{"phase":{{"proof":"green","why":"2 passed","mutated":{{"tried":2,"noticed_by":[{noticed}]}}}}}}"#
            )
        };
        for (text, want) in [
            (
                r#"{"phase":{"proof":"red","why":"no such name"}}"#.to_owned(),
                Some((true, "RED")),
            ),
            (
                mutated(r#""a","b""#),
                Some((true, "2 ways, and 2 new tests noticed")),
            ),
            (mutated(""), Some((false, "0 new tests"))),
            (
                r#"{"phase":{"proof":"nothing","why":"none ran"}}"#.to_owned(),
                Some((false, "none ran")),
            ),
            (r#"{"exit":0}"#.to_owned(), None),
        ] {
            let told = proven(&format!("{text}\nstdout:\nx\n"));
            match (told, want) {
                (Some((good, told)), Some((want, part))) => {
                    assert!(good == want && told.contains(part), "{text}: {told}");
                }
                (told, want) => assert!(told.is_none() && want.is_none(), "{text}: {told:?}"),
            }
        }
    }

    #[test]
    fn what_held_the_bomb_is_read_from_how_it_ended() {
        let refused = "bomb.sh: fork: retry: Resource temporarily unavailable";
        for (fields, said, want) in [
            (r#"{"limit":"pids"}"#, "", Some("limit of processes ended")),
            (
                r#"{"limit":"duration"}"#,
                refused,
                Some("limit of processes held"),
            ),
            (
                r#"{"limit":"duration"}"#,
                "",
                Some("limit of its time ended"),
            ),
            (
                r#"{"limit":"memory"}"#,
                refused,
                Some("limit of memory ended"),
            ),
            (r#"{"exit":254}"#, refused, Some("limit of processes held")),
            (r#"{"exit":0}"#, "", None),
            ("it was denied", "", None),
        ] {
            let told = held(&format!("{fields}\nstderr:\n{said}\n"));
            match want {
                Some(want) => assert!(told.unwrap().contains(want), "{fields}: {told:?}"),
                None => assert_eq!(told, None, "{fields}"),
            }
        }
    }
}
