//! `airlock-main`: every command.

use crate::args::{Cli, Color, is_exec, wants_json};
use crate::commands;
use crate::failure::Failure;
use crate::output::Output;
use crate::{panics, usage};
use std::ffi::OsString;
use std::process::ExitCode;

/// Does what this process's command line says.
pub fn airlock_main() -> ExitCode {
    panics::clean();
    let line: Vec<OsString> = std::env::args_os().collect();
    let begun = commands::Begun::of(&line);
    let cli = match Cli::read(&usage::spelt_out(line)) {
        Ok(cli) => cli,
        Err(error) => {
            return refuse(&error);
        }
    };
    if let Some(color) = cli.global.color {
        choose_color(color);
    }
    let mut output = Output::new(cli.global.json);
    match commands::run(cli, begun, &mut output).and_then(|code| output.finish().map(|()| code)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => end(&failure, &mut output),
    }
}

fn end(failure: &Failure, output: &mut Output) -> ExitCode {
    failure.show(output);
    ExitCode::from(failure.code())
}

/// Ends a command line that clap did not turn into a command.
fn refuse(error: &clap::Error) -> ExitCode {
    let line: Vec<OsString> = std::env::args_os().collect();
    let words = line.get(1..).unwrap_or_default();
    if let Some(failure) = usage::failure(error, words) {
        // The flags were not parsed, but a program that asked for JSON still reads only JSON.
        let json = wants_json(&line);
        let failure = if is_exec(&line) {
            // The command might have ended with 2 as well; nothing of ours may look like it.
            failure.ending_with(commands::INTERNAL)
        } else {
            failure
        };
        return end(&failure, &mut Output::new(json));
    }
    // Help and version are answers, not mistakes; clap knows which stream is which.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn choose_color(color: Color) {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}
