//! `airlock-escape [--launcher NAME] [--only NAME] [--json | --markdown] [--progress]` runs the
//! suite and prints its table; it leaves with 1 if a row failed: one that neither held nor is a
//! stated limit. `airlock-escape table NAME=FILE...` makes one table of several results in JSON.

use airlock_escape::{LAUNCHERS, Launcher, Row, Run, Suite, Verdict, hold, markdown};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["hold", place, probe, marker, kind] => {
            let confined = (*kind != "unconfined").then(|| launcher(kind)).transpose();
            let held = |by| hold(Path::new(place), Path::new(probe), marker, by);
            confined.and_then(held).map(|()| true)
        }
        ["table", columns @ ..] => paper(columns).map(|()| true),
        _ => Options::read(&words).and_then(|options| run(&options)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "error: {problem}");
            ExitCode::from(2)
        }
    }
}

/// How the result is written.
#[derive(Clone, Copy)]
enum Format {
    Text,
    Json,
    Markdown,
}

/// What was asked for.
struct Options<'a> {
    launcher: Launcher,
    only: Option<&'a str>,
    format: Format,
    progress: bool,
}

impl<'a> Options<'a> {
    fn read(words: &[&'a str]) -> Result<Self, String> {
        let mut options = Self {
            launcher: Launcher::Native,
            only: None,
            format: Format::Text,
            progress: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--only" => options.only = Some(words.next().ok_or("`--only` needs a name")?),
                "--json" => options.format = Format::Json,
                "--markdown" => options.format = Format::Markdown,
                "--progress" => options.progress = true,
                "--launcher" => {
                    options.launcher = launcher(words.next().ok_or("`--launcher` needs a name")?)?;
                }
                other => return Err(format!("unknown argument `{other}`")),
            }
        }
        Ok(options)
    }
}

fn launcher(name: &str) -> Result<Launcher, String> {
    let known = LAUNCHERS.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, launcher)| *launcher)
        .ok_or_else(|| format!("there is no launcher `{name}`"))
}

fn run(options: &Options<'_>) -> Result<bool, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let probe: PathBuf = own.with_file_name("airlock-probe");
    let suite = Suite::new(options.launcher, &probe, &own).map_err(|error| error.to_string())?;
    let watch = |name: &str, row: Option<&Row>| {
        if options.progress {
            let word = row.map_or("begins".to_owned(), |row| format!("{:?}", row.verdict));
            let _ = writeln!(io::stderr(), "{name}: {word}");
        }
    };
    let rows = suite.run(options.only, &watch);
    if rows.is_empty() {
        return Err("no attack has that name".to_owned());
    }
    let text = match options.format {
        Format::Json => serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())?,
        Format::Markdown => {
            let json = serde_json::to_string(&rows).map_err(|error| error.to_string())?;
            markdown(&[Run::read("result", &json)?])
        }
        Format::Text => table(&rows),
    };
    writeln!(io::stdout(), "{text}").map_err(|error| error.to_string())?;
    let failed = |row: &Row| matches!(row.verdict, Verdict::Failed(_));
    Ok(!rows.iter().any(failed))
}

/// Reads results as `NAME=FILE` and writes them as one table.
fn paper(columns: &[&str]) -> Result<(), String> {
    let mut runs = Vec::new();
    for column in columns {
        let (name, file) = column
            .split_once('=')
            .ok_or_else(|| format!("`{column}` is not `NAME=FILE`"))?;
        let text = std::fs::read_to_string(file).map_err(|error| format!("`{file}`: {error}"))?;
        runs.push(Run::read(name, &text)?);
    }
    write!(io::stdout(), "{}", markdown(&runs)).map_err(|error| error.to_string())
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<28} {:<18} {:<34} wall\n", "attack", "control", "result");
    let mut class = "";
    for row in rows {
        if row.class != class {
            class = row.class;
            let _ = writeln!(text, "\n{class}");
        }
        let result = match &row.verdict {
            Verdict::Held => format!("held: {}", row.met.join(" ")),
            Verdict::Limit(why) => format!("limit: {why}"),
            Verdict::Failed(problem) => format!("FAILED: {problem}"),
        };
        let walls = row.walls.join(", ");
        let (attack, control) = (row.attack, &row.control);
        let _ = writeln!(text, "  {attack:<26} {control:<18} {result:<34} {walls}");
    }
    let held = rows
        .iter()
        .filter(|row| row.verdict == Verdict::Held)
        .count();
    let shown = rows
        .iter()
        .filter(|row| row.control.starts_with("succeeds") || row.control == "lives on")
        .count();
    let all = rows.len();
    let _ = write!(
        text,
        "
{held} of {all} held, {shown} controls succeeded"
    );
    text
}
