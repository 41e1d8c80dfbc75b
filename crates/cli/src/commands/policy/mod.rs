//! `airlock policy`: check, explain, test, compare and change.

mod check;
mod diff;
mod explain;
mod test;
mod update;

use super::open;
use crate::args::{Global, PolicyCommand};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, shown};
use crate::reading;
use airlock_policy::{LoadError, Loaded, Policy};
use serde_json::json;
use std::io::Read as _;
use std::path::Path;

pub(crate) use check::{load_failure, summarise};
pub(crate) use update::{preview, tell_backup};

pub(super) fn run(global: &Global, command: PolicyCommand, output: &mut Output) -> Ending {
    match command {
        PolicyCommand::Check { file } => check::run(global, file.as_deref(), output),
        PolicyCommand::Explain(args) => explain::run(global, &args, output),
        PolicyCommand::Test { file, policy } => {
            test::run(global, file.as_deref(), policy.as_deref(), output)
        }
        PolicyCommand::Diff { file, last } => diff::run(global, &file, last, output),
        PolicyCommand::Update { file, last } => update::run(global, &file, last, output),
        PolicyCommand::Schema => {
            let schema = airlock_policy::json_schema();
            if output.is_json() {
                output.json(&schema);
            } else {
                output.line(serde_json::to_string_pretty(&schema).unwrap_or_default());
            }
            Ok(0)
        }
        PolicyCommand::Show => show(global, output),
    }
}

fn show(global: &Global, output: &mut Output) -> Ending {
    let kernel = open::kernel(global, output)?;
    let policy = kernel.policy();
    let text = String::from_utf8_lossy(policy.source());
    if output.is_json() {
        output.json(&json!({
            "origin": policy.origin().to_string(),
            "generation": policy.generation(),
            "text": text,
        }));
    } else {
        output.note(format!(
            "origin: {}, generation {}",
            policy.origin(),
            policy.generation()
        ));
        output.data(airlock_kernel::strip_control(&text).as_bytes());
    }
    Ok(0)
}

/// Reads a file the person named as `kind`, such as a policy.
fn read(path: &Path, kind: &str) -> Result<Vec<u8>, Failure> {
    limited(path).map_err(|error| {
        Failure::new(Kind::Failed, format!("cannot read {}", path.display()))
            .why(error)
            .fix(format!("name an existing {kind} file that you may read"))
    })
}

/// As much of a file as the loader looks at: of one that is too large a byte more than fits, with
/// which it says so itself.
fn limited(path: &Path) -> Result<Vec<u8>, reading::ReadError> {
    let most = airlock_core::limits::POLICY_BYTES as u64;
    let mut bytes = Vec::new();
    let mut file = reading::open(path)?.take(most.saturating_add(1));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Loads a policy file the person named.
fn load(path: &Path) -> Result<(Vec<u8>, Loaded), Failure> {
    let bytes = read(path, "policy")?;
    let name = shown(path);
    let loaded = Policy::load(&name, &bytes)
        .map_err(|error: LoadError| load_failure(&error, &String::from_utf8_lossy(&bytes)))?;
    Ok((bytes, loaded))
}
