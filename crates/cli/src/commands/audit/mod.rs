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

use super::open;
use super::reach::Reach;
use crate::args::{AuditCommand, Global};
use crate::failure::{Ending, Failure, Kind};
use crate::output::Output;
use airlock_audit::ReadError;
use airlock_kernel::Kernel;
use serde_json::json;

pub(super) fn run(global: &Global, command: AuditCommand, output: &mut Output) -> Ending {
    match command {
        AuditCommand::Log(args) => log::run(&reader(global, "log", output)?, &args, output),
        AuditCommand::Show { seq, content } => {
            let kernel = reader(global, "show", output)?;
            show::run(&kernel, seq, content, output)
        }
        AuditCommand::Verify {
            export: Some(path),
            checkpoint,
            keys,
        } => verify::export(&path, checkpoint.as_deref(), keys, output),
        AuditCommand::Verify {
            export: None,
            checkpoint,
            keys,
        } => verify::database(global, checkpoint.as_deref(), keys, output),
        AuditCommand::Export {
            format,
            output: path,
        } => {
            let kernel = reader(global, "export", output)?;
            export::run(&kernel, format, path.as_deref(), output)
        }
        AuditCommand::Stats => stats::run(&reader(global, "stats", output)?, output),
        AuditCommand::Checkpoint => checkpoint(&reader(global, "checkpoint", output)?, output),
    }
}

/// A kernel of this process whose log this command may read.
fn reader(global: &Global, purpose: &str, output: &mut Output) -> Result<Kernel, Failure> {
    asked(global, purpose, output)?.into_kernel(output)
}

/// The way to the kernel, once it lets this command read the log.
pub(super) fn asked<'g>(
    global: &'g Global,
    purpose: &str,
    output: &mut Output,
) -> Result<Reach<'g>, Failure> {
    // One that runs with other settings is not asked, and has the newest records.
    open::flush_running(global);
    let mut reach = Reach::new(global, output)?;
    reach.value("audit.read", json!({ "purpose": purpose }), output)?;
    Ok(reach)
}

fn checkpoint(kernel: &Kernel, output: &mut Output) -> Ending {
    let signed = kernel
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
