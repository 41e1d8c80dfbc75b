//! One module a command. Each turns arguments into calls on the road and outcomes into text.

mod adapter;
pub(crate) mod agent;
pub(crate) mod approvals;
mod audit;
mod config;
mod demo;
pub(crate) mod doctor;
mod exec;
mod file_worker;
mod init;
pub(crate) mod kernel;
pub(crate) mod mcp;
pub(crate) mod merge;
mod open;
mod outcome;
pub(crate) mod plugin;
mod policy;
mod reach;
mod request_worker;
mod script_worker;
pub(crate) mod session;
mod stage;
mod tool;
mod trust;
pub(crate) mod workflow;

pub(crate) use exec::{Begun, INTERNAL, Small};

use crate::args::{Cli, Command};
use crate::config::strange_variables;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, shown};
use crate::place;
use clap::CommandFactory;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;

/// Runs what the command line says. `begun` is what was begun of it.
pub(crate) fn run(cli: Cli, begun: Option<Begun>, output: &mut Output) -> Ending {
    let global = &cli.global;
    for strange in strange_variables(place::environment().keys().map(OsString::as_os_str)) {
        output.warning(&strange);
    }
    let Some(command) = cli.command else {
        return agent::bare(global, output);
    };
    match command {
        Command::Run(arguments) => agent::run(global, &arguments, output),
        Command::Demo => demo::run(output),
        Command::Doctor(arguments) => doctor::run(global, arguments, output),
        Command::Exec(args) => exec::run(global, &args, begun, output),
        Command::ExecTold(args) => exec::tell(global, &args, output),
        Command::Diff { stage, stat } => stage::diff(global, &stage, stat, output),
        Command::Merge(arguments) => merge::run(global, &arguments, output),
        Command::Undo(arguments) => merge::undo(global, &arguments, output),
        Command::Stage(command) => stage::run(global, command, output),
        Command::Init { print } => init::run(global, print, output),
        Command::Trust { action } => trust::run(global, action.as_ref(), output),
        Command::Policy(command) => policy::run(global, command, output),
        Command::Audit(command) => audit::run(global, command, output),
        Command::Approvals(command) => approvals::run(global, command, output),
        Command::Session(command) => session::run(global, &command, output),
        Command::Workflow(arguments) => workflow::run(global, arguments, output),
        Command::Plugin(arguments) => plugin::run(global, arguments, output),
        Command::Tool(command) => tool::run(global, command, output),
        Command::Kernel(arguments) => kernel::run(global, &arguments, output),
        Command::Mcp(command) => mcp::run(global, command, output),
        Command::Config(command) => config::run(global, command, output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "airlock", &mut script);
            output.data(&script);
            Ok(0)
        }
        Command::Man { directory } => man(&directory, output),
        Command::ScriptWorker => script_worker::run(),
        Command::FileWorker => file_worker::run(),
        Command::RequestWorker => request_worker::run(),
        Command::Version => {
            version(output);
            Ok(0)
        }
    }
}

fn man(directory: &Path, output: &mut Output) -> Ending {
    clap_mangen::generate_to(Cli::command(), directory).map_err(|error| {
        Failure::new(
            Kind::Failed,
            format!("cannot write manual pages to {}", directory.display()),
        )
        .why(error)
        .fix("name an existing directory you can write")
    })?;
    if output.is_json() {
        output.json(&json!({ "directory": shown(directory) }));
    } else {
        output.note(format!("manual pages written to {}", shown(directory)));
    }
    Ok(0)
}

fn version(output: &mut Output) {
    let version = env!("CARGO_PKG_VERSION");
    if output.is_json() {
        output.json(&json!({
            "version": version,
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "policy_version": 1,
            "audit_format": airlock_audit::FORMAT_VERSION,
        }));
    } else {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        output.line(format!("airlock {version} ({os} {arch})"));
    }
}
