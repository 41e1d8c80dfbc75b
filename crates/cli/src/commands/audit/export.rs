//! `airlock audit export`: records for other tools, or for verification elsewhere.

use crate::args::ExportFormat as Chosen;
use crate::failure::{Ending, Failure, Kind};
use crate::output::Output;
use airlock_audit::ExportFormat;
use airlock_kernel::Kernel;
use std::io::{BufWriter, Write};
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
        write(kernel, format, output.stream())?;
        return Ok(0);
    };
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let failed = |error: &std::io::Error| {
        Failure::new(Kind::Failed, format!("cannot write {}", path.display()))
            .why(error)
            .fix("name a file in a directory you can write, with enough room")
    };
    // Written beside its target and moved there whole: a failed export leaves no half file.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|error| failed(&error))?;
    let count = write(kernel, format, BufWriter::new(file.as_file_mut()))?;
    file.as_file().sync_all().map_err(|error| failed(&error))?;
    file.persist(path).map_err(|error| failed(&error.error))?;
    output.note(format!("{count} records written to {}", path.display()));
    Ok(0)
}

fn write(kernel: &Kernel, format: ExportFormat, to: impl Write) -> Result<u64, Failure> {
    kernel.log().export(to, format).map_err(|error| {
        Failure::of(Kind::Failed, &error)
            .fix("`airlock audit verify` shows whether the log is damaged")
    })
}
