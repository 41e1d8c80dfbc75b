//! Stored records: the stream they come in, their frame, and the entry inside. What is accepted
//! has one encoding, and every record that decodes can be exported and verified.
//!
//! The digest guards against damage, not against somebody who can compute one: each input is also
//! tried as an entry under a digest that matches.

use super::Target;
use airlock_audit::{
    EventType, ExportFormat, ExportHeader, Exporter, FORMAT_VERSION, Head, LogId, Sealed, Trust,
    read_stored, seal, verify_export, write_stored,
};
use airlock_core::Digest;

pub(super) const TARGET: Target = Target {
    name: "record_decoding",
    run,
    seeds: &[
        include_bytes!("../../seeds/record_decoding/stream"),
        include_bytes!("../../seeds/record_decoding/rich-entry"),
        include_bytes!("../../seeds/record_decoding/outcome-entry"),
        include_bytes!("../../seeds/record_decoding/bare-entry"),
        b"\0\0\0\x49",
        b"\xff\xff\xff\xff\x01",
        b"",
    ],
    dictionary: &[
        "\0",
        "\0\0\0\0",
        "\u{1}",
        "\0\0\0\u{1}",
        "\u{7f}\u{7f}\u{7f}\u{7f}",
        "\0\0\0\u{4}read",
        "\0\0\0\u{7}execute",
        "\0\0\0\u{2}..",
        "\0\0\0\u{1}/",
        "\0\0\0\u{1}.",
        "fs.write",
        "exec.run",
        "process",
        "strict",
        "agent",
        "//",
        "/../",
    ],
    iterations: 20_000,
};

/// Most records followed in one stream.
const RECORDS: usize = 64;

fn run(input: &[u8]) {
    stream(input);
    stored(input);
    let sealed = Sealed::from_stored(under_a_digest(input));
    if let Ok(sealed) = &sealed {
        assert_eq!(sealed.body(), input);
        one(sealed);
    }
}

/// Reads records until one is refused; written again they are the bytes that were read.
fn stream(input: &[u8]) {
    let mut rest = input;
    let (mut buffer, mut written) = (Vec::new(), Vec::new());
    for _ in 0..RECORDS {
        if !matches!(read_stored(&mut rest, &mut buffer), Ok(true)) {
            break;
        }
        let read = input.len() - rest.len();
        stored(&buffer);
        let Ok(sealed) = Sealed::from_stored(buffer.clone()) else {
            break;
        };
        assert!(write_stored(&mut written, &sealed).is_ok());
        assert_eq!(Some(written.as_slice()), input.get(..read));
    }
}

fn stored(bytes: &[u8]) {
    if let Ok(sealed) = Sealed::from_stored(bytes.to_vec()) {
        one(&sealed);
        assert_eq!(sealed.stored(), bytes);
        assert_eq!(sealed.into_stored(), bytes);
    }
}

/// `body` as record 1 of the sample log, with the digest anybody can compute.
fn under_a_digest(body: &[u8]) -> Vec<u8> {
    let previous = Head::genesis(&LOG).digest;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let number = 1_u64.to_be_bytes();
    let front = [&[FORMAT_VERSION], number.as_slice(), previous.as_bytes()].concat();
    let tag = b"airlock/audit/record\0".as_slice();
    let digest = Digest::of(&[tag, &front, &length.to_be_bytes(), body].concat());
    [front.as_slice(), digest.as_bytes(), body].concat()
}

const LOG: LogId = LogId::from_bytes(*b"fuzzed log, v1..");

fn one(sealed: &Sealed) {
    let Ok(entry) = sealed.entry() else {
        return;
    };
    assert_eq!(sealed.event(), Some(entry.event));
    let before = Head {
        seq: sealed.seq() - 1,
        digest: *sealed.previous(),
    };
    assert_eq!(
        seal(&before, &entry).as_ref(),
        Ok(sealed),
        "an entry has a second encoding"
    );
    // A checkpoint record must hold a checkpoint about its predecessor, which is another matter.
    if entry.event != EventType::Checkpoint {
        exported(sealed, before);
    }
}

fn exported(sealed: &Sealed, start: Head) {
    let header = ExportHeader {
        log: LOG,
        start,
        last: sealed.seq(),
        key: None,
    };
    for format in [ExportFormat::Jsonl, ExportFormat::Csv, ExportFormat::Ocsf] {
        let export = export(sealed, header, format);
        assert!(export.is_some(), "{sealed:?} cannot be written");
        if format == ExportFormat::Jsonl && (start.seq > 0 || start == Head::genesis(&LOG)) {
            let verified = verify_export(export.unwrap_or_default().as_slice(), Trust::default());
            assert!(
                verified.is_ok(),
                "{sealed:?} exported does not verify: {verified:?}"
            );
        }
    }
}

fn export(sealed: &Sealed, header: ExportHeader, format: ExportFormat) -> Option<Vec<u8>> {
    let mut exporter = Exporter::new(Vec::new(), format, header).ok()?;
    exporter.record(sealed.stored()).ok()?;
    exporter.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_records() {
        let [stream, entries @ ..] = TARGET.seeds.first_chunk::<4>().unwrap();
        let (mut rest, mut buffer, mut read) = (*stream, Vec::new(), 0);
        while read_stored(&mut rest, &mut buffer).unwrap() {
            read += 1;
            Sealed::from_stored(buffer.clone())
                .unwrap()
                .entry()
                .unwrap();
        }
        assert_eq!(read, 3);
        for entry in entries {
            let sealed = Sealed::from_stored(under_a_digest(entry)).unwrap();
            sealed.entry().unwrap();
        }
    }
}
