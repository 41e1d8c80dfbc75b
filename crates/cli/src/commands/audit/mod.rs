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
use airlock_audit::{PublicKey, ReadError};
use airlock_kernel::{Errand, Kernel};
use serde_json::json;

pub(super) fn run(global: &Global, command: AuditCommand, output: &mut Output) -> Ending {
    match command {
        AuditCommand::Log(args) => {
            let kernel = reader(global, "log", Errand::WayOut, output)?;
            log::run(&kernel, &args, output)
        }
        AuditCommand::Show { seq, content } => {
            let kernel = reader(global, "show", Errand::WayOut, output)?;
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
            let kernel = reader(global, "export", Errand::WayOut, output)?;
            let guarded = export::guarded(global)?;
            export::run(&kernel, format, path.as_deref(), &guarded, output)
        }
        AuditCommand::Stats => {
            let kernel = reader(global, "stats", Errand::Work, output)?;
            stats::run(&kernel, output)
        }
        AuditCommand::Checkpoint => {
            let kernel = reader(global, "checkpoint", Errand::Work, output)?;
            checkpoint(&kernel, output)
        }
    }
}

/// A kernel of this process whose log this command may read.
fn reader(
    global: &Global,
    purpose: &str,
    errand: Errand,
    output: &mut Output,
) -> Result<Kernel, Failure> {
    asked(global, purpose, errand, output)?.into_kernel(output)
}

/// The way to the kernel, once it lets this command read the log; `errand` says whether a broken one
/// may stop it.
pub(super) fn asked<'g>(
    global: &'g Global,
    purpose: &str,
    errand: Errand,
    output: &mut Output,
) -> Result<Reach<'g>, Failure> {
    // One that runs with other settings is not asked, and has the newest records.
    open::flush_running(global);
    let mut reach = match errand {
        Errand::Work => Reach::new(global, output)?,
        Errand::WayOut => Reach::despite_break(global, output)?,
    };
    reach.value("audit.read", json!({ "purpose": purpose }), output)?;
    Ok(reach)
}

fn checkpoint(kernel: &Kernel, output: &mut Output) -> Ending {
    let signed = kernel
        .log()
        .checkpoint()
        .map_err(|error| Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))?;
    output.line(signed.to_string());
    match kernel.log().earlier_key(&signed) {
        Ok(None) => {}
        Ok(Some(earlier)) => output.warning(&another_key(earlier, signed.checkpoint().key)),
        // The line is signed; what is wrong with the log is for `verify` to say.
        Err(error) => output.warning(&format!("cannot tell who signed before: {error}")),
    }
    output.note("keep this line somewhere else; check against it with: airlock audit verify --checkpoint FILE");
    Ok(0)
}

/// What a person should know who has a checkpoint by a key that did not sign the earlier ones.
fn another_key(earlier: PublicKey, now: PublicKey) -> String {
    format!(
        "this checkpoint is by key {}; earlier ones of this log are by key {}, which is not the key here \
         any more: a new key cannot vouch for old records; restore the old one, or name both from now on: \
         airlock audit verify --key {earlier} --key {now}",
        now.short(),
        earlier.short(),
    )
}

fn read_failure(error: &ReadError) -> Failure {
    Failure::of(Kind::Failed, error).maybe_fix(error.hint())
}
