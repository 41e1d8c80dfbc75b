//! `airlock audit verify`: the log, or an export of it, proved whole or shown broken.

use crate::args::Global;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, shown, styled};
use crate::place::Place;
use crate::reading::{self, ReadError};
use airlock_audit::{
    Depth, LogId, PublicKey, SignedCheckpoint, Trust, Verified, VerifyOptions, VerifyReport,
    verify_database, verify_export,
};
use airlock_kernel::Workspace;
use serde_json::json;
use std::error::Error;
use std::io::{BufReader, Read as _};
use std::path::Path;

/// Most that is read of pins: tens of thousands of them.
const PIN_BYTES: u64 = 16 * 1024 * 1024;

/// Verifies an export. Nothing but the file, and the pins if given, is needed.
pub(super) fn export(
    path: &Path,
    pins: Option<&Path>,
    keys: Vec<PublicKey>,
    output: &mut Output,
) -> Ending {
    let demanded = !keys.is_empty();
    let pins = read_pins(pins)?;
    let file = reading::open(path).map_err(|error| unreadable(path, &error))?;
    let trust = Trust::new(keys, pins)
        .map_err(|error| Failure::of(Kind::Failed, &error).fix(error.hint()))?;
    match verify_export(BufReader::new(file), trust) {
        Ok((header, verified)) => {
            let held = Held {
                what: &shown(path),
                log: header.log,
                verified,
                deleted_pins: 0,
            };
            held.tell(demanded, output)
        }
        Err(error) => {
            let what = format!("the export {}", shown(path));
            Err(broken(&what, error.seq(), &[chain_text(&error)]).fix(error.hint()))
        }
    }
}

/// Verifies this workspace's log, read-only.
pub(super) fn database(
    global: &Global,
    pins: Option<&Path>,
    keys: Vec<PublicKey>,
    output: &mut Output,
) -> Ending {
    let demanded = !keys.is_empty();
    let place = Place::find(global.workspace.as_deref())?;
    let options = VerifyOptions {
        keys,
        pins: read_pins(pins)?,
        depth: Depth::Entries,
    };
    let state = Workspace::state_path(&place.workspace, &place.state_home)
        .map_err(|error| Failure::of(Kind::Failed, &error).fix(error.hint()))?;
    if !state.join("audit.db").exists() {
        return Err(missing(&state, &options.pins));
    }
    let report = verify_database(&state, &state.join("keys"), &options).map_err(|error| {
        Failure::of(Kind::Failed, &error)
            .headed("cannot verify the audit log")
            .maybe_fix(error.hint())
    })?;
    match &report.chain {
        Ok(verified) if report.is_intact() => {
            let held = Held {
                what: "the audit log",
                log: report.log,
                verified: *verified,
                deleted_pins: report.deleted_pins,
            };
            held.tell(demanded, output)
        }
        _ if !demanded && report.is_by_another_key() => Err(by_another_key(&report)),
        _ => Err(
            broken("the audit log", report.first_bad(), &findings(&report))
                .fix("keep the files as they are, and compare with an export or a backup"),
        ),
    }
}

/// There is no log: nothing was done here yet, or it is gone.
fn missing(state: &Path, pins: &[SignedCheckpoint]) -> Failure {
    let kept = read_pins(Some(&state.join("keys/checkpoints.jsonl"))).unwrap_or_default();
    let vouched = pins.iter().chain(&kept).map(|pin| pin.checkpoint().seq);
    let nothing = format!("there is no {}", state.join("audit.db").display());
    match vouched.max() {
        Some(seq) => broken(
            "the audit log",
            Some(1),
            &[nothing, format!("a checkpoint vouches for record {seq}")],
        )
        .fix(
            "keep the files as they are, and look for a copy in `backups/` beside it, or an export",
        ),
        None => Failure::new(Kind::Failed, "this workspace has no audit log yet")
            .why(nothing)
            .fix("do something first: airlock tool call fs.list"),
    }
}

/// What held.
struct Held<'a> {
    what: &'a str,
    log: LogId,
    verified: Verified,
    deleted_pins: u64,
}

impl Held<'_> {
    /// Says so, unless a signer was demanded and none of the demanded ones signed anything.
    fn tell(&self, demanded: bool, output: &mut Output) -> Ending {
        if demanded && self.verified.attested.is_none() {
            let what = format!("{} is not signed by a key you named", self.what);
            return Err(Failure::new(Kind::Failed, what)
                .why("the chain is whole, but it holds no checkpoint: anybody could have made it")
                .fix("sign it with `airlock audit checkpoint`, or leave out --key")
                .json("intact", json!(true))
                .json("signed", json!(false)));
        }
        if output.is_json() {
            self.json(output);
        } else {
            self.text(output);
        }
        Ok(0)
    }

    fn json(&self, output: &mut Output) {
        let verified = &self.verified;
        output.json(&json!({
            "intact": true,
            "log": self.log.to_string(),
            "records": verified.records,
            "first": verified.start.seq + 1,
            "last": verified.head.seq,
            "head": verified.head.digest,
            "checkpoints": verified.checkpoints,
            "attested": verified.attested.map(|checkpoint| checkpoint.seq),
            "key": verified.attested.map(|checkpoint| checkpoint.key),
            "deleted_pins": self.deleted_pins,
        }));
    }

    fn text(&self, output: &mut Output) {
        let verified = &self.verified;
        output.line(format!(
            "{}: {} is whole: {} records, head {} at {}",
            styled(Tone::Good, "intact"),
            self.what,
            verified.records,
            verified.head.seq,
            verified.head.digest.short()
        ));
        match verified.attested {
            Some(checkpoint) => output.line(format!(
                "checkpoints signed by key {} agree up to record {}; records after it could be cut off unnoticed",
                checkpoint.key.short(),
                checkpoint.seq
            )),
            None if verified.checkpoints > 0 => output.line(
                "its checkpoints agree, but nothing says whose they should be: name the key with --key",
            ),
            None => output.line(
                "no signed checkpoint yet, so a cut-off tail would go unnoticed: airlock audit checkpoint",
            ),
        }
        if self.deleted_pins > 0 {
            output.line(format!(
                "{} of the pinned checkpoints are about records that were deleted since, as the log says: they prove nothing here",
                self.deleted_pins
            ));
        }
    }
}

fn broken(what: &str, first: Option<u64>, findings: &[String]) -> Failure {
    let what = match first {
        Some(seq) => format!("{what} is not intact: record {seq} is the first that is wrong"),
        None => format!("{what} is not intact"),
    };
    let mut failure = Failure::new(Kind::Failed, what);
    for finding in findings {
        failure = failure.why(finding);
    }
    failure
        .json("intact", json!(false))
        .json("first_bad", json!(first))
}

/// Nothing is damaged as far as it was read, but somebody else signed.
fn by_another_key(report: &VerifyReport) -> Failure {
    let shown = |keys: &[PublicKey]| -> String {
        let keys: Vec<String> = keys.iter().map(PublicKey::short).collect();
        keys.join(", ")
    };
    let what = "the audit log is signed by another key than the one here";
    let named = report.expected_keys.iter().chain(&report.other_keys);
    let named: Vec<String> = named.map(|key| format!("--key {key}")).collect();
    let mut failure = Failure::new(Kind::Failed, what).why(format!(
        "checkpoints are by key {}; expected is {}",
        shown(&report.other_keys),
        shown(&report.expected_keys)
    ));
    failure = match report.first_bad() {
        Some(seq) => failure.why(format!(
            "nothing is damaged up to record {seq}, where such a checkpoint stands; what follows was not looked at"
        )),
        None => failure.why("nothing is damaged"),
    };
    failure
        .fix(format!(
            "if you changed the key, or lost it, name both: airlock audit verify {}; if you did not, somebody else signed: keep the files as they are",
            named.join(" ")
        ))
        .json("intact", json!(false))
        .json("first_bad", json!(report.first_bad()))
        .json("other_keys", json!(report.other_keys))
}

/// Everything that is wrong, most telling first, not more than a person reads.
fn findings(report: &VerifyReport) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(report.chain.as_ref().err().map(chain_text));
    all.extend(
        report
            .unreadable
            .map(|seq| format!("record {seq} cannot be read at all")),
    );
    all.extend(report.unexplained_start.map(|head| {
        format!(
            "the log begins after record {}, and nothing says that what was before was deleted",
            head.seq
        )
    }));
    all.extend(
        report
            .bad_checkpoints
            .iter()
            .map(|line| format!("bad checkpoint: {line}")),
    );
    all.extend(report.structure.iter().cloned());
    let more = all.len().saturating_sub(8);
    all.truncate(8);
    if more > 0 {
        all.push(format!("and {more} more findings"));
    }
    all
}

fn chain_text(error: &impl Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn read_pins(path: Option<&Path>) -> Result<Vec<SignedCheckpoint>, Failure> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin().take(PIN_BYTES)).map_err(ReadError::Io)
    } else {
        reading::text(path, PIN_BYTES)
    };
    let text = text.map_err(|error| unreadable(path, &error))?;
    let mut pins = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let pin = line
            .trim()
            .parse()
            .map_err(|error: airlock_audit::CheckpointError| {
                let place = format!("{}:{}", path.display(), number + 1);
                Failure::new(Kind::Usage, format!("{place} is no checkpoint"))
                    .why(&error)
                    .fix("pin the line that `airlock audit checkpoint` prints, unchanged")
            })?;
        pins.push(pin);
    }
    if pins.is_empty() {
        return Err(Failure::new(
            Kind::Usage,
            format!("{} holds no checkpoint", path.display()),
        )
        .fix("pin the line that `airlock audit checkpoint` prints"));
    }
    Ok(pins)
}

fn unreadable(path: &Path, error: &ReadError) -> Failure {
    Failure::new(Kind::Failed, format!("cannot read {}", path.display()))
        .why(error)
        .fix("name an existing file that you may read")
}
