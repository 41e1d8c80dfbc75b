//! Measures the promises of Airlock against peers and limits in the same run.
//!
//! Guarantee: a figure is a ratio against something measured beside it, in this process or right
//! after it, and peers give the same answers before they are timed. A peer that is not installed
//! is a row that says so.
//!
//! Not guaranteed: absolute times mean nothing on another machine or under another load.

mod alloc;
mod cases;
mod failure;
mod machine;
mod measure;
mod options;
mod programs;
mod report;
mod table;

use failure::Failure;
use options::{Options, Task};
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            // Nobody is left to tell if this fails too.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match options::parse(&arguments)? {
        Task::Help => say(options::USAGE)?,
        Task::List => {
            for case in cases::ALL {
                say(&format!("{:<12} {}", case.name, case.about))?;
            }
        }
        Task::VerifyInChild(directory, depth) => {
            say(&cases::verify_in_child(&directory, depth)?)?;
        }
        Task::Worker {
            task,
            home,
            arguments,
        } => {
            for row in cases::in_worker(&task, &home, &arguments)? {
                say(&row.to_json())?;
            }
        }
        Task::Measure(options) => return measure(&options),
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(options: &Options) -> Result<ExitCode, Failure> {
    let before = machine::load();
    say(&format!("{}- load average: {before}", report::setting()))?;
    let mut rows = Vec::new();
    for case in cases::ALL.iter().filter(|case| options.wants(case.name)) {
        say(&format!("measuring {}: {}", case.name, case.about))?;
        let found = (case.run)(options)
            .map_err(|error| Failure::new(format!("case `{}`: {error}", case.name)))?;
        for row in &found {
            say(&format!("  {row}"))?;
        }
        rows.extend(found);
    }
    let missed = rows.iter().filter(|row| row.missed()).count();
    say(&table::summary(&rows))?;
    if options.is_complete() {
        report::write(&rows, &before)?;
        say("written: bench/RESULTS.md")?;
    } else {
        say("bench/RESULTS.md is left as it is: only a complete run writes it")?;
    }
    Ok(if options.strict && missed > 0 {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

fn say(line: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
