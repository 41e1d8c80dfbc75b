//! Exports of the audit log: what verifies is the only spelling of what it says, and against a
//! pinned checkpoint it says what the pinned log says.

use super::Target;
use airlock_audit::{
    Entry, ExportFormat, ExportHeader, Exporter, Head, SignedCheckpoint, SigningKey, Trust, seal,
    verify_export,
};
use serde_json::Value;

const GOOD: &[u8] = include_bytes!("../../../crates/audit/tests/vectors/good.jsonl");
const RECORD: &[u8] = br#"{"type":"record","#;
const CHECKPOINT: &[u8] = br#"{"type":"checkpoint","#;

pub(super) const TARGET: Target = Target {
    name: "audit_export",
    run,
    seeds: &[
        GOOD,
        include_bytes!("../../../crates/audit/tests/vectors/good-part.jsonl"),
        include_bytes!("../../../crates/audit/tests/vectors/good-empty.jsonl"),
        include_bytes!("../../../crates/audit/tests/vectors/good-rewritten-whole.jsonl"),
        include_bytes!("../../../crates/audit/tests/vectors/good-cut-without-checkpoint.jsonl"),
        include_bytes!("../../../crates/audit/tests/vectors/repeated-key.jsonl"),
        include_bytes!("../../../crates/audit/tests/vectors/misplaced-checkpoint.jsonl"),
        b"",
        b"\n\n\n",
    ],
    dictionary: &[
        "{\"type\":\"record\",",
        "{\"type\":\"checkpoint\",",
        "{\"type\":\"header\",",
        "\"version\":1,",
        "\"seq\":",
        "\"last\":",
        "\"entry\":",
        "\"metadata\":{\"a\":\"1\"}",
        "\"reason\":null,",
        "\"reason\":\"",
        "\"time\":\"1970-01-01T00:00:00.000000Z\"",
        "9998-12-31T23:59:59.999999Z",
        "syscall",
        "checkpoint",
        "\\u0000",
        "\\ud800",
        "\\/",
        "1.0",
        "-0",
        ",",
        "}",
        "{",
        "[",
        "\n",
        "\r\n",
        " ",
    ],
    iterations: 1_000,
};

fn run(input: &[u8]) {
    entries(input);
    if let Ok((header, verified)) = verify_export(input, Trust::default()) {
        assert_eq!(verified.start, header.start);
        assert_eq!(verified.head.seq, header.last);
        assert_eq!(verified.records, header.last - header.start.seq);
        let (again, end) = again(input, header).unwrap_or_default();
        assert_eq!(end, Some(verified.head), "sealed anew it ends elsewhere");
        assert!(again == input, "an export has a second spelling");
    }
    pinned(input);
}

/// With a key and a pin, only records of the pinned log get through.
fn pinned(input: &[u8]) {
    let key = SigningKey::from_secret(&[7; 32]).public();
    let pins = pin().into_iter().collect();
    let Ok(trust) = Trust::new(vec![key], pins) else {
        return;
    };
    let Ok((_, verified)) = verify_export(input, trust) else {
        return;
    };
    if verified.pins_before_start == 0 {
        let genuine: Vec<&[u8]> = records(GOOD).collect();
        let first = usize::try_from(verified.start.seq).unwrap_or(usize::MAX);
        assert!(
            records(input).eq(genuine.into_iter().skip(first)),
            "a pinned log was rewritten"
        );
    }
}

/// The checkpoint over the last record of the good export.
fn pin() -> Option<SignedCheckpoint> {
    let line = lines(GOOD).rfind(|line| line.starts_with(CHECKPOINT))?;
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn lines(export: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    export.split(|byte| *byte == b'\n')
}

fn records(export: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(export).filter(|line| line.starts_with(RECORD))
}

/// Reads the lines apart from the verifier, seals their entries anew and exports them.
fn again(export: &[u8], header: ExportHeader) -> Option<(Vec<u8>, Option<Head>)> {
    let mut head = header.start;
    let mut exporter = Exporter::new(Vec::new(), ExportFormat::Jsonl, header).ok()?;
    for line in lines(export) {
        if line.starts_with(RECORD) {
            let sealed = seal(&head, &entry(line)?).ok()?;
            head = sealed.head();
            exporter.record(sealed.stored()).ok()?;
        } else if line.starts_with(CHECKPOINT) {
            let signed = std::str::from_utf8(line).ok()?.parse().ok()?;
            exporter.checkpoint(&signed).ok()?;
        }
    }
    Some((exporter.finish().ok()?, Some(head)))
}

fn entry(line: &[u8]) -> Option<Entry> {
    let mut line: Value = serde_json::from_slice(line).ok()?;
    serde_json::from_value(line.get_mut("entry")?.take()).ok()
}

/// Whatever entry a line holds, chain or not: once sealed it reads back the same.
fn entries(export: &[u8]) {
    for entry in lines(export).filter_map(entry) {
        let start = Head {
            seq: 0,
            digest: airlock_core::Digest::of(b"fuzz"),
        };
        if let Ok(sealed) = seal(&start, &entry) {
            assert_eq!(sealed.entry().as_ref(), Ok(&entry));
            assert_eq!(sealed.event(), Some(entry.event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_good_export_is_accepted_and_pinned() {
        let trust = Trust::new(Vec::new(), vec![pin().unwrap()]).unwrap();
        let (header, verified) = verify_export(GOOD, trust).unwrap();
        assert_eq!((verified.records, verified.pins_before_start), (12, 0));
        assert_eq!(
            again(GOOD, header),
            Some((GOOD.to_vec(), Some(verified.head)))
        );
    }
}
