//! Results of several runs as one table in Markdown.

use serde::Deserialize;
use std::fmt::Write as _;

/// One line of a run's result, as the suite writes it in JSON.
#[derive(Debug, Deserialize)]
struct Line {
    attack: String,
    class: String,
    about: String,
    control: String,
    verdict: Ending,
    met: Vec<String>,
    walls: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Held,
    Limit(String),
    Failed(String),
}

/// A run, and what its column is called.
#[derive(Debug)]
pub struct Run {
    name: String,
    lines: Vec<Line>,
}

impl Run {
    /// From what the suite wrote in JSON.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let lines = serde_json::from_str(text).map_err(|error| format!("`{name}`: {error}"))?;
        let name = name.to_owned();
        Ok(Self { name, lines })
    }

    fn line(&self, attack: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.attack == attack)
    }
}

impl Line {
    fn result(&self) -> String {
        match &self.verdict {
            Ending::Held => format!("held: {}", self.met.join(", ")),
            Ending::Limit(_) => "**limit**".to_owned(),
            Ending::Failed(_) => "**FAILED**".to_owned(),
        }
    }
}

/// What the controls showed: an ordinary user's success says more than root's.
fn control(lines: &[Option<&Line>]) -> String {
    let said = lines.iter().flatten().map(|line| line.control.as_str());
    let best = said.clone().find(|control| *control == "succeeds");
    best.or_else(|| said.clone().next())
        .unwrap_or_default()
        .to_owned()
}

/// A table for each class, a column for each run, and how many each run held.
pub fn markdown(runs: &[Run]) -> String {
    let mut text = String::new();
    let mut class = "";
    for first in runs.first().map_or(&[][..], |run| &run.lines) {
        if first.class != class {
            class = &first.class;
            heading(&mut text, class, runs);
        }
        let lines: Vec<_> = runs.iter().map(|run| run.line(&first.attack)).collect();
        let results: Vec<String> = lines
            .iter()
            .map(|line| line.map_or_else(|| "not run".to_owned(), Line::result))
            .collect();
        let (attack, about) = (&first.attack, &first.about);
        let (control, results) = (control(&lines), results.join(" | "));
        let walls = first.walls.join(", ");
        let _ = writeln!(
            text,
            "| `{attack}` | {about} | {control} | {results} | {walls} |"
        );
    }
    text.push('\n');
    for run in runs {
        text.push_str(&summary(run));
    }
    text
}

fn heading(text: &mut String, class: &str, runs: &[Run]) {
    let gap = if text.is_empty() { "" } else { "\n" };
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let _ = writeln!(text, "{gap}### {}\n", capital(class));
    let _ = writeln!(
        text,
        "| attack | what | control | {} | wall |",
        names.join(" | ")
    );
    let columns = " --- |".repeat(names.len() + 4);
    let _ = writeln!(text, "|{columns}");
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn summary(run: &Run) -> String {
    let count = |wanted: fn(&Ending) -> bool| {
        let lines = run.lines.iter();
        lines.filter(|line| wanted(&line.verdict)).count()
    };
    let held = count(|ending| matches!(ending, Ending::Held));
    let mut text = format!("- {}: {held} of {} held", run.name, run.lines.len());
    for line in &run.lines {
        match &line.verdict {
            Ending::Held => {}
            Ending::Limit(why) => {
                let _ = write!(text, "; `{}`: {why}", line.attack);
            }
            Ending::Failed(problem) => {
                let _ = write!(text, "; `{}` FAILED: {problem}", line.attack);
            }
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(name: &str, attack: &str, control: &str, verdict: &serde_json::Value) -> Run {
        let lines = json!([{
            "attack": attack, "class": "network", "about": "a port", "control": control,
            "verdict": verdict, "met": ["EPERM"], "walls": ["seccomp"],
        }]);
        Run::read(name, &lines.to_string()).unwrap_or_else(|problem| panic!("{problem}"))
    }

    #[test]
    fn every_run_has_its_column_and_nothing_is_left_out() {
        let text = markdown(&[
            run("one", "tcp", "succeeds as root", &json!("held")),
            run("two", "tcp", "succeeds", &json!({ "limit": "because" })),
            run(
                "three",
                "tcp",
                "succeeds",
                &json!({ "failed": "it got out" }),
            ),
            run("four", "udp", "succeeds", &json!("held")),
        ]);
        let row = "| `tcp` | a port | succeeds | held: EPERM | **limit** | **FAILED** | not run |";
        assert!(text.starts_with("### Network\n"), "{text}");
        assert!(text.contains(row), "{text}");
        assert!(text.contains("- one: 1 of 1 held\n"), "{text}");
        assert!(
            text.contains("- two: 0 of 1 held; `tcp`: because\n"),
            "{text}"
        );
        assert!(text.contains("`tcp` FAILED: it got out"), "{text}");
    }

    #[test]
    fn what_is_no_result_is_refused() {
        assert!(Run::read("x", "{}").is_err());
        assert!(Run::read("x", "").is_err());
    }
}
