//! `airlock init`: a starter policy that fits the project.

use super::open;
use super::reach::Reach;
use crate::args::Global;
use crate::failure::{Ending, Kind};
use crate::output::{Output, Tone, styled};
use airlock_kernel::{Call, POLICY_FILE, Starter};
use serde_json::json;

pub(super) fn run(global: &Global, print: bool, output: &mut Output) -> Ending {
    if print {
        let kernel = open::kernel(global, output)?;
        output.data(Starter::of(kernel.workspace()).policy().as_bytes());
        return Ok(0);
    }
    let mut reach = Reach::new(global, output)?;
    let done = reach.done(&Call::new("policy.init", json!({})), output);
    let done = done.map_err(|failure| match failure.kind {
        Kind::Failed => failure.headed("cannot write a starter policy"),
        Kind::Usage | Kind::Denied | Kind::NeedsReview | Kind::Unenforceable => failure,
    })?;
    if output.is_json() {
        let generation = reach.kernel(output)?.policy().generation();
        output.json(&json!({
            "policy": POLICY_FILE,
            "languages": done.value.get("languages"),
            "generation": generation,
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
    if let Some(sample) = done.value.get("sample").and_then(|sample| sample.as_str()) {
        output.note(format!(
            "next: airlock policy explain fs.write --path {sample}"
        ));
    }
    Ok(0)
}
