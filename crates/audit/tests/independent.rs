//! Two verifiers in two languages that share no code must agree about every export: on the
//! verdict, the first bad record and the line.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use airlock_audit::{
    ExportBreak, Head, LogId, PublicKey, Sealed, SignedCheckpoint, Trust, seal, verify_export,
};
use common::{LOG, entry, export, key, log, other_key, sign};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a verifier says. Where one sees a damaged line and the other an edited record, both are
/// right: which words are known is not part of the format.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Holds {
        records: u64,
        checkpoints: u64,
    },
    Broken {
        kind: String,
        seq: Option<u64>,
        line: u64,
    },
}

fn broken(kind: &str, seq: Option<u64>, line: u64) -> Verdict {
    let kind = if kind == "record" { "edited" } else { kind };
    Verdict::Broken {
        kind: kind.to_owned(),
        seq,
        line,
    }
}

fn ours(bytes: &[u8], keys: &[PublicKey], pins: &[SignedCheckpoint]) -> Verdict {
    let trust = Trust::new(keys.to_vec(), pins.to_vec()).unwrap();
    match verify_export(bytes, trust) {
        Ok((_, verified)) => Verdict::Holds {
            records: verified.records,
            checkpoints: verified.checkpoints,
        },
        Err(error) => broken(error.kind(), error.seq(), line(&error)),
    }
}

fn line(error: &ExportBreak) -> u64 {
    match error {
        ExportBreak::Io { line, .. }
        | ExportBreak::Record { line, .. }
        | ExportBreak::Checkpoint { line, .. }
        | ExportBreak::Surplus { line }
        | ExportBreak::Chain { line, .. }
        | ExportBreak::Short { line, .. } => *line,
        ExportBreak::Header { .. } => 1,
    }
}

/// Runs the other verifier over all of `files` at once.
#[expect(
    clippy::disallowed_methods,
    reason = "the independent verifier is another program"
)]
fn theirs(files: &[PathBuf], keys: &[PublicKey], pins: &[PathBuf]) -> Vec<Verdict> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/audit/verify_export.py");
    let mut command = Command::new("python3");
    command.arg(script);
    for key in keys {
        command.arg("--key").arg(key.to_string());
    }
    for pin in pins {
        command.arg("--pin").arg(pin);
    }
    let output = command
        .args(files)
        .output()
        .unwrap_or_else(|error| panic!("python3 is needed; `apt install python3`: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let verdicts: Vec<_> = stdout.lines().map(parse_verdict).collect();
    assert_eq!(verdicts.len(), files.len(), "the script failed: {errors}");
    let all_hold = verdicts
        .iter()
        .all(|verdict| matches!(verdict, Verdict::Holds { .. }));
    assert_eq!(output.status.code(), Some(i32::from(!all_hold)), "{errors}");
    verdicts
}

fn parse_verdict(line: &str) -> Verdict {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    match value["verdict"].as_str().unwrap() {
        "ok" => Verdict::Holds {
            records: value["records"].as_u64().unwrap(),
            checkpoints: value["checkpoints"].as_u64().unwrap(),
        },
        _ => broken(
            value["kind"].as_str().unwrap(),
            value["seq"].as_u64(),
            value["line"].as_u64().unwrap(),
        ),
    }
}

struct Vector {
    name: &'static str,
    bytes: Vec<u8>,
    want: Verdict,
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

/// The log from record 6 on, sealed anew with another record 6: whole in itself.
fn rewritten(records: &[Sealed]) -> Vec<Sealed> {
    let mut rewritten = records[..5].to_vec();
    for seq in 6..=10 {
        let mut forged = entry(seq);
        forged.reason = Some("nothing to see here".to_owned());
        rewritten.push(seal(&rewritten.last().unwrap().head(), &forged).unwrap());
    }
    rewritten
}

fn vector(name: &'static str, bytes: Vec<u8>, want: Verdict) -> Vector {
    Vector { name, bytes, want }
}

fn holds(records: u64, checkpoints: u64) -> Verdict {
    Verdict::Holds {
        records,
        checkpoints,
    }
}

/// The line of record N is N + 1; record 11 is a checkpoint, line 14 another.
fn good() -> Vec<u8> {
    let records = log(12);
    export(genesis(), &records, Some(&sign(records[11].head())))
}

fn genesis() -> Head {
    Head::genesis(&LOG)
}

/// The good export with its lines moved about.
fn moved(edit: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    let mut pieces = lines(&good());
    edit(&mut pieces);
    pieces.concat()
}

/// Exports that hold in themselves, the last two of them although the log was tampered with.
fn good_vectors() -> Vec<Vector> {
    let records = log(12);
    let part = export(records[4].head(), &records[5..], None);
    let cut = export(genesis(), &records[..9], None);
    let anew = export(genesis(), &rewritten(&records), None);
    vec![
        vector("good", good(), holds(12, 2)),
        vector("good-empty", export(genesis(), &[], None), holds(0, 0)),
        vector("good-part", part, holds(7, 1)),
        vector("good-cut-without-checkpoint", cut, holds(9, 0)),
        vector("good-rewritten-whole", anew, holds(10, 0)),
    ]
}

/// Record 1 changed in ways that mean something, or nothing at all.
fn edited_vectors() -> Vec<Vector> {
    [
        ("edited-reason", "quote", "Quote"),
        (
            "edited-metadata-order",
            r#""":"","a":"1""#,
            r#""a":"1","":"""#,
        ),
        ("edited-spelling", "quote", "q\\u0075ote"),
        ("raw-control", "\\u009b", "\u{9b}"),
        ("raw-direction", "\\u202e", "\u{202e}"),
        ("unknown-key", r#""stage":"#, r#""extra":1,"stage":"#),
        ("repeated-key", r#""tool":"#, r#""tool":"exec","tool":"#),
        ("null-for-a-value", r#""token":"tok-1""#, r#""token":null"#),
        ("number-as-float", r#""pid":4321"#, r#""pid":4321.0"#),
        ("space-at-the-end", "}}\n", "}} \n"),
        ("carriage-return", "}}\n", "}}\r\n"),
        ("half-a-character", "quote", "\\ud800"),
    ]
    .map(|(name, from, to)| {
        vector(
            name,
            replaced(&good(), from, to),
            broken("edited", Some(1), 2),
        )
    })
    .into()
}

fn moved_vectors() -> Vec<Vector> {
    let end = lines(&good()).pop().unwrap().len();
    let cut = good()[..good().len() - end - 20].to_vec();
    let mut replaced = log(9);
    replaced[5] = seal(&replaced[4].head(), &entry(99)).unwrap();
    let replaced = export(genesis(), &replaced, None);
    vec![
        vector("replaced", replaced, broken("unlinked", Some(7), 8)),
        vector(
            "dropped",
            moved(|pieces| drop(pieces.remove(5))),
            broken("gap", Some(5), 6),
        ),
        vector(
            "repeated",
            moved(|pieces| pieces.insert(5, pieces[5].clone())),
            broken("reordered", Some(6), 7),
        ),
        vector(
            "swapped",
            moved(|pieces| pieces.swap(5, 6)),
            broken("gap", Some(5), 6),
        ),
        vector(
            "cut-short",
            moved(|pieces| pieces.truncate(9)),
            broken("short", Some(9), 10),
        ),
        vector("cut-inside-a-line", cut, broken("record", Some(12), 13)),
        vector(
            "surplus",
            moved(|pieces| pieces.push(b"{}\n".to_vec())),
            broken("surplus", None, 15),
        ),
    ]
}

fn header_vectors() -> Vec<Vector> {
    let header = || broken("header", None, 1);
    let range = replaced(&good(), r#""last":12"#, r#""last":11"#);
    vec![
        vector("header-range", range, header()),
        vector("not-an-export", b"hello\n".to_vec(), header()),
        vector("nothing", Vec::new(), header()),
    ]
}

fn checkpoint_vectors() -> Vec<Vector> {
    let records = log(12);
    let mut anew = rewritten(&records);
    anew.push(seal(&anew[9].head(), &records[10].entry().unwrap()).unwrap());
    let foreign = other_key().sign(LOG, records[11].head(), common::at(12));
    let elsewhere = LogId::from_bytes([9; 16]);
    let elsewhere = key().sign(elsewhere, records[11].head(), common::at(12));
    let misplaced = sign(records[10].head()).to_string() + "\n";
    vec![
        vector(
            "rewritten-checkpoint-left",
            export(genesis(), &anew, None),
            broken("rewritten", Some(10), 12),
        ),
        vector(
            "forged-signature",
            moved(|pieces| pieces[13] = replaced(&pieces[13], "12:00:12", "12:00:13")),
            broken("checkpoint", None, 14),
        ),
        vector(
            "misplaced-checkpoint",
            moved(|pieces| pieces[13] = misplaced.into_bytes()),
            broken("rewritten", Some(12), 14),
        ),
        vector(
            "other-log",
            export(genesis(), &records, Some(&elsewhere.unwrap())),
            broken("other_log", Some(12), 14),
        ),
        vector(
            "foreign-key",
            export(genesis(), &records, Some(&foreign.unwrap())),
            broken("bad_checkpoint", Some(12), 14),
        ),
    ]
}

/// Good exports and every way of spoiling one.
fn vectors() -> Vec<Vector> {
    let kinds = [
        good_vectors(),
        edited_vectors(),
        moved_vectors(),
        header_vectors(),
        checkpoint_vectors(),
    ];
    kinds.into_iter().flatten().collect()
}

fn vector_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{name}.jsonl"))
}

/// Set, the vectors are written anew: for a deliberate change of the format, with a new version.
const REWRITE: &str = "AIRLOCK_REWRITE_VECTORS";

fn rewrite_the_vectors() {
    for vector in vectors() {
        fs::write(vector_path(vector.name), vector.bytes).unwrap();
    }
    let pin = sign(log(10)[9].head()).to_string() + "\n";
    fs::write(vector_path("pin-10"), pin).unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "rewriting is asked for from outside, as with any snapshot"
)]
#[test]
fn the_format_has_not_changed_since_the_vectors_were_written() {
    if std::env::var_os(REWRITE).is_some() {
        rewrite_the_vectors();
    }
    for vector in vectors() {
        let kept = fs::read(vector_path(vector.name)).unwrap();
        assert!(kept == vector.bytes, "{} differs", vector.name);
    }
}

#[test]
fn both_verifiers_give_the_known_verdict_on_every_vector() {
    let vectors = vectors();
    let files: Vec<_> = vectors.iter().map(|v| vector_path(v.name)).collect();
    let keys = [key().public()];
    for (vector, theirs) in vectors.iter().zip(theirs(&files, &keys, &[])) {
        assert_eq!(
            ours(&vector.bytes, &keys, &[]),
            vector.want,
            "{}",
            vector.name
        );
        assert_eq!(theirs, vector.want, "{} in Python", vector.name);
    }
}

#[test]
fn both_verifiers_hold_exports_against_a_pinned_checkpoint() {
    let pin = fs::read_to_string(vector_path("pin-10")).unwrap();
    let pins = [pin.trim_end().parse().unwrap()];
    let names = [
        "good",
        "good-part",
        "good-cut-without-checkpoint",
        "good-rewritten-whole",
    ];
    let want = [
        Verdict::Holds {
            records: 12,
            checkpoints: 3,
        },
        Verdict::Holds {
            records: 7,
            checkpoints: 2,
        },
        broken("truncated", Some(10), 11),
        broken("rewritten", Some(10), 11),
    ];
    let files = names.map(vector_path);
    let theirs = theirs(&files, &[], &[vector_path("pin-10")]);
    for (((name, file), want), theirs) in names.iter().zip(&files).zip(want).zip(theirs) {
        let bytes = fs::read(file).unwrap();
        assert_eq!(ours(&bytes, &[], &pins), want, "{name}");
        assert_eq!(theirs, want, "{name} in Python");
    }
}

#[test]
fn both_verifiers_take_a_file_of_several_pins() {
    let folder = tempfile::tempdir().unwrap();
    let pins = [2, 9].map(|at: usize| sign(log(10)[at].head()));
    let file = folder.path().join("pins");
    fs::write(&file, format!("{}\n{}\n", pins[0], pins[1])).unwrap();
    let good = vector_path("good");
    let ours = ours(&fs::read(&good).unwrap(), &[], &pins);
    assert!(matches!(ours, Verdict::Holds { .. }), "{ours:?}");
    assert_eq!(theirs(&[good], &[], &[file]), [ours]);
}

#[test]
fn both_verifiers_refuse_an_export_that_begins_after_the_pin() {
    let folder = tempfile::tempdir().unwrap();
    let signed = sign(log(3)[2].head());
    let pin = folder.path().join("pin-3");
    fs::write(&pin, format!("{signed}\n")).unwrap();
    let names = ["good", "good-part"];
    let files = names.map(vector_path);
    let want = [holds(12, 3), broken("unmet", Some(3), 1)];
    let theirs = theirs(&files, &[], &[pin]);
    for ((file, want), theirs) in files.iter().zip(want).zip(theirs) {
        assert_eq!(ours(&fs::read(file).unwrap(), &[], &[signed]), want);
        assert_eq!(theirs, want, "in Python");
    }
}

/// Without named keys the signers of the pins are expected, and without pins the header's key.
#[test]
fn both_verifiers_take_checkpoints_by_expected_keys_alone() {
    let folder = tempfile::tempdir().unwrap();
    let records = log(5);
    let head = records[4].head();
    let foreign = other_key().sign(LOG, head, common::at(5)).unwrap();
    let mut recorded = records.clone();
    recorded.push(seal(&head, &common::checkpoint_entry(&foreign)).unwrap());
    let files = [
        ("line", export(genesis(), &records, Some(&foreign))),
        ("record", export(genesis(), &recorded, None)),
    ]
    .map(|(name, bytes)| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        file
    });
    let pin = |name: &str, signed: &SignedCheckpoint| {
        let file = folder.path().join(name);
        fs::write(&file, format!("{signed}\n")).unwrap();
        (*signed, file)
    };
    let own = pin("own", &sign(records[1].head()));
    let other = other_key().sign(LOG, records[1].head(), common::at(2));
    let other = pin("other", &other.unwrap());
    let refused = || {
        [
            broken("bad_checkpoint", Some(5), 7),
            broken("bad_checkpoint", Some(6), 7),
        ]
    };
    let (mine, strange) = (key().public(), other_key().public());
    for (keys, pin, want) in [
        (vec![], None, refused()),
        (vec![], Some(&own), refused()),
        (vec![], Some(&other), [holds(5, 2), holds(6, 2)]),
        (vec![mine], None, refused()),
        (vec![strange], None, [holds(5, 1), holds(6, 1)]),
        (vec![mine, strange], Some(&own), [holds(5, 2), holds(6, 2)]),
    ] {
        let pins: Vec<_> = pin.iter().map(|pin| pin.0).collect();
        let pin_files: Vec<_> = pin.iter().map(|pin| pin.1.clone()).collect();
        let theirs = theirs(&files, &keys, &pin_files);
        for ((file, want), theirs) in files.iter().zip(want).zip(theirs) {
            assert_eq!(ours(&fs::read(file).unwrap(), &keys, &pins), want);
            assert_eq!(theirs, want, "in Python");
        }
    }
}

#[test]
fn both_verifiers_agree_wherever_a_bit_flips() {
    let good = good();
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    // A prime stride and a walking bit: every kind of byte and every bit, in a tolerable time.
    for (round, at) in (0..good.len()).step_by(61).enumerate() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (round % 8);
        let file = folder.path().join(round.to_string());
        fs::write(&file, bytes).unwrap();
        files.push(file);
    }
    for (round, theirs) in theirs(&files, &[], &[]).into_iter().enumerate() {
        let ours = ours(&fs::read(&files[round]).unwrap(), &[], &[]);
        assert!(matches!(ours, Verdict::Broken { .. }), "flip {round}");
        assert_eq!(ours, theirs, "flip {round}");
    }
}
