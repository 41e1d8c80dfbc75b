//! `airlock audit`: read, verify and export the log.
//!
//! Reading is the syscall `audit.read`, decided and recorded like any other. Verifying is not: it
//! must work on a log that cannot be written, and must not change what it verifies.

mod export;
mod log;
mod show;
mod stats;
mod verify;
mod when;

use super::open::{self, Opened};
use super::outcome;
use crate::args::{AuditCommand, Global};
use crate::failure::{Ending, Failure, Kind};
use crate::output::Output;
use airlock_audit::ReadError;
use airlock_kernel::{Call, Front};
use serde_json::json;

pub(super) fn run(global: &Global, command: AuditCommand, output: &mut Output) -> Ending {
    match command {
        AuditCommand::Log(args) => log::run(&reader(global, "log", output)?, &args, output),
        AuditCommand::Show { seq } => show::run(&reader(global, "show", output)?, seq, output),
        AuditCommand::Verify {
            export: Some(path),
            checkpoint,
        } => verify::export(&path, checkpoint.as_deref(), output),
        AuditCommand::Verify {
            export: None,
            checkpoint,
        } => verify::database(global, checkpoint.as_deref(), output),
        AuditCommand::Export {
            format,
            output: path,
        } => {
            let opened = reader(global, "export", output)?;
            export::run(&opened, format, path.as_deref(), output)
        }
        AuditCommand::Stats => stats::run(&reader(global, "stats", output)?, output),
        AuditCommand::Checkpoint => checkpoint(&reader(global, "checkpoint", output)?, output),
    }
}

/// A kernel whose log this command may read.
pub(super) fn reader(
    global: &Global,
    purpose: &str,
    output: &mut Output,
) -> Result<Opened, Failure> {
    let opened = open::kernel(global, output)?;
    let call = Call::new("audit.read", json!({ "purpose": purpose }));
    outcome::done(opened.kernel.submit(Front::Cli, &call))?;
    Ok(opened)
}

fn checkpoint(opened: &Opened, output: &mut Output) -> Ending {
    let signed = opened
        .kernel
        .log()
        .checkpoint()
        .map_err(|error| Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))?;
    output.line(signed.to_string());
    output.note("keep this line somewhere else; check against it with: airlock audit verify --checkpoint FILE");
    Ok(0)
}

fn read_failure(error: &ReadError) -> Failure {
    Failure::of(Kind::Failed, error).maybe_fix(error.hint())
}
