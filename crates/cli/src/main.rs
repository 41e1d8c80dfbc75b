//! The `airlock` command: the only crate that prints or exits.

mod args;
mod commands;
mod config;
mod failure;
mod output;
mod place;
mod review;

use args::{Cli, Color};
use clap::Parser;
use output::Output;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not mistakes; clap knows which stream is which.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if let Some(color) = cli.global.color {
        choose_color(color);
    }
    let mut output = Output::new(cli.global.json);
    match commands::run(cli, &mut output) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.show(&mut output);
            ExitCode::from(failure.kind.code())
        }
    }
}

fn choose_color(color: Color) {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}
