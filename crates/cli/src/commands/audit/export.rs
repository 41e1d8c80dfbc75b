//! `airlock audit export`: records for other tools, or for verification elsewhere.

use crate::args::{ExportFormat as Chosen, Global};
use crate::failure::{Ending, Failure, Kind, cause};
use crate::output::{Output, shown, stdout_failure};
use crate::place::Place;
use crate::writing::{Making, WriteError};
use airlock_audit::{ExportError, ExportFormat, ExportLogError, Exported};
use airlock_kernel::Kernel;
use serde_json::json;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

/// What no export replaces: Airlock's own directories, the log among them, and the workspace's.
pub(super) fn guarded(global: &Global) -> Result<Vec<PathBuf>, Failure> {
    let place = Place::find(global.workspace.as_deref())?;
    let mut guarded = place.own();
    guarded.push(place.workspace.join(".airlock"));
    // What is not there cannot be written into.
    let real = guarded
        .into_iter()
        .filter_map(|path| path.canonicalize().ok());
    Ok(real.collect())
}

pub(super) fn run(
    kernel: &Kernel,
    format: Chosen,
    path: Option<&Path>,
    guarded: &[PathBuf],
    output: &mut Output,
) -> Ending {
    let format = match format {
        Chosen::Jsonl => ExportFormat::Jsonl,
        Chosen::Ocsf => ExportFormat::Ocsf,
        Chosen::Csv => ExportFormat::Csv,
    };
    // A dash is standard output, as everywhere; a file of that name is `./-`.
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        return to_stdout(kernel, format);
    };
    let failed = |error: &std::io::Error| {
        Failure::new(Kind::Failed, format!("cannot write {}", shown(path)))
            .why(cause(error))
            .fix("name a file in a directory you can write, with enough room")
    };
    let refused = |error: WriteError| match error {
        WriteError::Io(error) => failed(&error),
        WriteError::Taken(_) | WriteError::Dangling => {
            Failure::new(Kind::Failed, format!("cannot write {}", shown(path)))
                .why(error)
                .fix("name a regular file, or leave out `--output` to write to standard output")
        }
    };
    // A failed export leaves no half file.
    let mut file = Making::begin(path).map_err(refused)?;
    let place = file.place().map_err(|error| failed(&error))?;
    if guarded.iter().any(|own| place.starts_with(own)) {
        let what = format!("cannot write {}", shown(path));
        return Err(Failure::new(Kind::Usage, what)
            .why("it is in a directory of Airlock's own, where it could replace what is kept there")
            .fix("name a file somewhere else"));
    }
    let exported = match kernel.log().export(BufWriter::new(file.file()), format) {
        Ok(exported) => exported,
        Err(ExportLogError::Write(ExportError::Io(error))) => return Err(failed(&error)),
        Err(error) => return Err(damaged(&error)),
    };
    file.finish().map_err(refused)?;
    let count = exported.records;
    if output.is_json() {
        output.json(&json!({
            "records": count, "left_out": exported.left_out, "file": shown(path),
        }));
    } else {
        output.note(format!("{count} records written to {}", shown(path)));
    }
    incomplete(&exported)
}

fn to_stdout(kernel: &Kernel, format: ExportFormat) -> Ending {
    match kernel.log().export(Output::stream(), format) {
        Ok(exported) => incomplete(&exported),
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

/// Says that records are missing which nobody can read; what is wrong with the others, the export shows
/// whoever verifies it.
fn incomplete(exported: &Exported) -> Ending {
    let Some(first) = exported.first_left_out else {
        return Ok(0);
    };
    let what = match exported.left_out {
        1 => format!("record {first} cannot be read, and is not in the export"),
        more => format!(
            "{more} records cannot be read, the first is {first}; they are not in the export"
        ),
    };
    Err(Failure::new(Kind::Failed, what).fix("`airlock audit verify` shows what is damaged"))
}

fn damaged(error: &ExportLogError) -> Failure {
    Failure::of(Kind::Failed, error).fix("`airlock audit verify` shows whether the log is damaged")
}
