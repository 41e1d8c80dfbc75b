//! Starts the kernel, asks it whether it lives, and starts it again after a crash.
//!
//! The standard library and nothing else. It opens no port, reads no message but the answer to a
//! ping, and passes nothing through a shell. Guarantee: when this process ends, however it ends, the
//! kernel's standard input closes, and the kernel, which was told to live until then, ends as well.
//! Non-guarantee: it does not judge settings; the kernel does that and says so itself.

mod config;
mod engine;
mod health;
mod problem;
mod supervise;

use config::Config;
use problem::{Problem, tell};
use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "\
usage: airlock-bootstrap [--config FILE]

Starts the kernel of a workspace, asks it every few seconds whether it lives, and starts it again
after a crash, at most 3 times in 5 minutes. Settings are key=value lines of FILE and AIRLOCK_*
variables, which win:";

fn main() -> ExitCode {
    match run(&std::env::args_os().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tell(&problem.to_json());
            ExitCode::from(problem.exit)
        }
    }
}

fn run(arguments: &[OsString]) -> Result<(), Problem> {
    let file = match arguments {
        [] => None,
        [option, file] if option == "--config" => Some(file.into()),
        [option] if option == "--help" || option == "-h" => {
            tell(&format!("{USAGE} {}", config::KEYS));
            return Ok(());
        }
        _ => {
            let what = "the arguments are not understood".to_owned();
            return Err(Problem::config(what, "`airlock-bootstrap --help` shows them"));
        }
    };
    supervise::supervise(&Config::gather(file, &environment)?)
}

#[expect(clippy::disallowed_methods, reason = "whatever starts this configures it by variables")]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
