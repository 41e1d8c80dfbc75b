//! `airlock init`: a starter policy that fits the project.

use super::{open, outcome};
use crate::args::Global;
use crate::failure::{Ending, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::{Call, Front, POLICY_FILE, Starter};
use serde_json::json;

pub(super) fn run(global: &Global, print: bool, output: &mut Output) -> Ending {
    let kernel = open::kernel(global, output)?;
    if print {
        output.data(Starter::of(kernel.workspace()).policy().as_bytes());
        return Ok(0);
    }
    let outcome = kernel.submit(Front::Cli, &Call::new("policy.init", json!({})));
    let done = outcome::done(outcome).map_err(|failure| match failure.kind {
        Kind::Failed => failure.headed("cannot write a starter policy"),
        Kind::Usage | Kind::Denied | Kind::NeedsReview | Kind::Unenforceable => failure,
    })?;
    if output.is_json() {
        output.json(&json!({
            "policy": POLICY_FILE,
            "languages": done.value.get("languages"),
            "generation": kernel.policy().generation(),
        }));
        return Ok(0);
    }
    let languages: Vec<&str> = done
        .value
        .get("languages")
        .and_then(|names| names.as_array())
        .map(|names| names.iter().filter_map(|name| name.as_str()).collect())
        .unwrap_or_default();
    let fitted = if languages.is_empty() {
        "no language recognised: add your own globs".to_owned()
    } else {
        format!("for {}", languages.join(", "))
    };
    output.line(format!(
        "{} {POLICY_FILE} ({fitted})",
        styled(Tone::Good, "wrote")
    ));
    output.note("it is in force and trusted; whatever it does not allow is denied");
    output.note("next: airlock policy explain fs.write --path src/main.rs");
    Ok(0)
}
