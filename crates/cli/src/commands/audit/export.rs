//! `airlock audit export`: records for other tools, or for verification elsewhere.

use crate::args::ExportFormat as Chosen;
use crate::failure::{Ending, Failure, Kind, cause};
use crate::output::{Output, shown, stdout_failure};
use airlock_audit::{ExportError, ExportFormat, ExportLogError};
use airlock_kernel::Kernel;
use serde_json::json;
use std::io::{BufWriter, ErrorKind};
use std::path::Path;

pub(super) fn run(
    kernel: &Kernel,
    format: Chosen,
    path: Option<&Path>,
    output: &mut Output,
) -> Ending {
    let format = match format {
        Chosen::Jsonl => ExportFormat::Jsonl,
        Chosen::Ocsf => ExportFormat::Ocsf,
        Chosen::Csv => ExportFormat::Csv,
    };
    let Some(path) = path else {
        return to_stdout(kernel, format);
    };
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let failed = |error: &std::io::Error| {
        Failure::new(Kind::Failed, format!("cannot write {}", path.display()))
            .why(cause(error))
            .fix("name a file in a directory you can write, with enough room")
    };
    // Written beside its target and moved there whole: a failed export leaves no half file.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|error| failed(&error))?;
    let to = BufWriter::new(file.as_file_mut());
    let count = match kernel.log().export(to, format) {
        Ok(count) => count,
        Err(ExportLogError::Write(ExportError::Io(error))) => return Err(failed(&error)),
        Err(error) => return Err(damaged(&error)),
    };
    file.as_file().sync_all().map_err(|error| failed(&error))?;
    file.persist(path).map_err(|error| failed(&error.error))?;
    if output.is_json() {
        output.json(&json!({ "records": count, "file": shown(path) }));
    } else {
        output.note(format!("{count} records written to {}", shown(path)));
    }
    Ok(0)
}

fn to_stdout(kernel: &Kernel, format: ExportFormat) -> Ending {
    match kernel.log().export(Output::stream(), format) {
        Ok(_) => Ok(0),
        // The reader has seen enough.
        Err(ExportLogError::Write(ExportError::Io(error)))
            if error.kind() == ErrorKind::BrokenPipe =>
        {
            Ok(0)
        }
        Err(ExportLogError::Write(ExportError::Io(error))) => Err(stdout_failure(&error)),
        Err(error) => Err(damaged(&error)),
    }
}

fn damaged(error: &ExportLogError) -> Failure {
    Failure::of(Kind::Failed, error).fix("`airlock audit verify` shows whether the log is damaged")
}
