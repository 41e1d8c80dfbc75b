//! What a verifier must notice, name, and cannot notice.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod formats;

use airlock_audit::{
    Break, CheckpointError, Depth, ExportFormat, Exporter, FrameError, Head, LogId, PublicKey,
    Sealed, SignedCheckpoint, StoredError, Trust, Verified, Verifier, read_stored, seal,
    verify_export, write_stored,
};
use common::{LOG, at, checkpoint_entry, entry, export, header, key, log, other_key, sign};

const DEPTHS: [Depth; 2] = [Depth::Digests, Depth::Entries];

fn verify(records: &[Sealed], depth: Depth, trust: Trust) -> Result<Verified, Break> {
    let mut verifier = Verifier::new(LOG, Head::genesis(&LOG), depth, trust)?;
    for record in records {
        verifier.push(record.stored())?;
    }
    verifier.finish()
}

fn pinned(pins: &[SignedCheckpoint]) -> Trust {
    Trust::new(vec![key().public()], pins.to_vec()).unwrap()
}

#[test]
fn a_whole_chain_holds_and_says_how_far_it_is_attested() {
    for depth in DEPTHS {
        let records = log(30);
        let verified = verify(&records, depth, pinned(&[])).unwrap();
        assert_eq!(verified.records, 30);
        assert_eq!(verified.head, records[29].head());
        assert_eq!(verified.checkpoints, 1);
        assert_eq!(verified.attested.unwrap().seq, 10);
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_stored_record_names_that_record() {
    let records = log(12);
    for depth in DEPTHS {
        for (index, record) in records.iter().enumerate().skip(9) {
            let start = records[index - 1].head();
            for at in 0..record.stored().len() {
                let mut bytes = record.stored().to_vec();
                bytes[at] ^= 1 << (at % 8);
                let mut verifier = Verifier::new(LOG, start, depth, pinned(&[])).unwrap();
                let broken = verifier.push(&bytes).unwrap_err();
                assert_eq!(broken.seq(), record.seq(), "byte {at}");
                assert!(
                    matches!(broken, Break::Edited { .. } | Break::Unreadable { .. }),
                    "byte {at}: {broken:?}"
                );
                assert!(Sealed::from_stored(bytes).is_err(), "byte {at}");
            }
        }
    }
}

#[test]
fn records_dropped_repeated_moved_or_inserted_are_named() {
    let records = log(12);
    let edited = |edit: &dyn Fn(&mut Vec<Sealed>)| {
        let mut records = records.clone();
        edit(&mut records);
        records
    };
    let inserted = seal(&records[4].head(), &entry(99)).unwrap();
    let (expected, found) = (6, 7);
    for (case, records, want) in [
        (
            "first dropped",
            edited(&|r| drop(r.remove(0))),
            Break::Gap {
                expected: 1,
                found: 2,
            },
        ),
        (
            "dropped",
            edited(&|r| drop(r.remove(5))),
            Break::Gap { expected, found },
        ),
        (
            "swapped",
            edited(&|r| r.swap(5, 6)),
            Break::Gap { expected, found },
        ),
        (
            "repeated",
            edited(&|r| r.insert(6, r[5].clone())),
            Break::Reordered {
                expected: 7,
                found: 6,
            },
        ),
        (
            "inserted",
            edited(&|r| r.insert(5, inserted.clone())),
            Break::Reordered {
                expected: 7,
                found: 6,
            },
        ),
        (
            "replaced",
            edited(&|r| r[5] = inserted.clone()),
            Break::Unlinked { seq: 7 },
        ),
    ] {
        for depth in DEPTHS {
            assert_eq!(
                verify(&records, depth, pinned(&[])),
                Err(want.clone()),
                "{case}"
            );
        }
    }
}

#[test]
fn a_cut_off_tail_shows_only_against_a_checkpoint_beyond_it() {
    let records = log(30);
    let pin = sign(records[24].head());
    for depth in DEPTHS {
        assert_eq!(
            verify(&records[..20], depth, pinned(&[])).unwrap().records,
            20
        );
        let (last, checkpoint) = (20, 25);
        assert_eq!(
            verify(&records[..20], depth, pinned(&[pin])),
            Err(Break::Truncated { last, checkpoint })
        );
        assert_eq!(
            verify(&records[..25], depth, pinned(&[pin]))
                .unwrap()
                .checkpoints,
            2
        );
    }
}

/// Seals records 1 to 12 anew, each a little different, with the checkpoint record kept or not.
fn rewritten(keep_checkpoint: bool) -> Vec<Sealed> {
    let mut head = Head::genesis(&LOG);
    let original = log(12);
    (1..=12)
        .map(|seq| {
            let forged = match seq {
                11 if keep_checkpoint => original[10].entry().unwrap(),
                _ => entry(seq + 100),
            };
            let sealed = seal(&head, &forged).unwrap();
            head = sealed.head();
            sealed
        })
        .collect()
}

#[test]
fn a_rewritten_chain_shows_against_a_pin_and_against_its_own_old_checkpoints() {
    let pins = [sign(log(12)[7].head())];
    for depth in DEPTHS {
        assert!(verify(&rewritten(false), depth, pinned(&[])).is_ok());
        let broken = verify(&rewritten(false), depth, pinned(&pins));
        assert_eq!(broken, Err(Break::Rewritten { checkpoint: 8 }));
        let broken = verify(&rewritten(true), depth, pinned(&[]));
        assert_eq!(broken, Err(Break::Rewritten { checkpoint: 10 }));
    }
}

#[test]
fn a_checkpoint_record_must_hold_a_valid_checkpoint_of_this_log_by_an_expected_key() {
    let records = log(5);
    let head = records[4].head();
    let other_log = LogId::from_bytes([9; 16]);
    let signed = [
        (
            "other key",
            other_key().sign(LOG, head, at(5)).unwrap().to_string(),
        ),
        (
            "other log",
            key().sign(other_log, head, at(5)).unwrap().to_string(),
        ),
        ("other record", sign(records[3].head()).to_string()),
        (
            "changed",
            sign(head).to_string().replace("12:00:05", "12:00:06"),
        ),
        ("no text", String::new()),
    ];
    for (case, text) in signed {
        let mut forged = checkpoint_entry(&sign(head));
        forged.metadata.insert("checkpoint".to_owned(), text);
        let mut records = records.clone();
        records.push(seal(&head, &forged).unwrap());
        for depth in DEPTHS {
            let broken = verify(&records, depth, pinned(&[])).unwrap_err();
            match case {
                "other key" | "changed" | "no text" => {
                    assert!(
                        matches!(broken, Break::BadCheckpoint { seq: 6, .. }),
                        "{case}"
                    );
                }
                "other log" => {
                    assert_eq!(
                        broken,
                        Break::OtherLog {
                            seq: 6,
                            log: other_log
                        }
                    );
                }
                _ => assert_eq!(broken, Break::Rewritten { checkpoint: 5 }),
            }
        }
    }
}

#[test]
fn a_pin_of_another_log_or_signer_or_from_before_the_start_is_refused() {
    let records = log(12);
    let head = records[4].head();
    let log = LogId::from_bytes([9; 16]);
    let foreign = key().sign(log, head, at(5)).unwrap();
    assert_eq!(
        verify(&records, Depth::Digests, pinned(&[foreign])),
        Err(Break::OtherLog { seq: 5, log })
    );
    let stranger = other_key().sign(LOG, head, at(5)).unwrap();
    let refused = Trust::new(vec![key().public()], vec![stranger]).unwrap_err();
    assert!(matches!(
        refused,
        CheckpointError::UnexpectedKey { seq: 5, .. }
    ));
    let early = pinned(&[sign(head), sign(records[2].head())]);
    let unmet = Verifier::new(LOG, head, Depth::Digests, early).unwrap_err();
    let (start, checkpoint) = (5, 3);
    assert_eq!(unmet, Break::Unmet { start, checkpoint });
    let mut verifier = Verifier::new(LOG, head, Depth::Digests, pinned(&[sign(head)])).unwrap();
    verifier.push(records[5].stored()).unwrap();
    assert_eq!(verifier.finish().unwrap().checkpoints, 1);
}

#[test]
fn where_no_key_is_expected_a_checkpoint_must_agree_but_attests_nothing() {
    let records = log(12);
    let verified = verify(&records, Depth::Digests, Trust::default()).unwrap();
    assert_eq!((verified.checkpoints, verified.attested), (1, None));
}

#[test]
fn a_chain_must_begin_at_the_origin_of_its_log() {
    let elsewhere = Head::genesis(&LogId::from_bytes([9; 16]));
    let begun = Verifier::new(LOG, elsewhere, Depth::Digests, Trust::default());
    assert_eq!(begun.unwrap_err(), Break::Origin { log: LOG });
}

#[test]
fn a_broken_chain_stays_broken_whatever_follows() {
    let records = log(3);
    let mut verifier =
        Verifier::new(LOG, Head::genesis(&LOG), Depth::Digests, Trust::default()).unwrap();
    let broken = verifier.push(records[1].stored()).unwrap_err();
    assert_eq!(verifier.push(records[0].stored()), Err(broken.clone()));
    assert_eq!(
        verifier.push_checkpoint(&sign(Head::genesis(&LOG))),
        Err(broken.clone())
    );
    assert_eq!(verifier.finish(), Err(broken));
}

/// An export in which line `number` of the whole export comes early, and that line's index.
/// The lines before it are left out, and the header says so: they cannot matter.
fn part_with_line(records: &[Sealed], number: usize) -> (Vec<u8>, usize) {
    let end = sign(records.last().unwrap().head());
    if number == 0 {
        return (export(Head::genesis(&LOG), records, Some(&end)), 0);
    }
    let before = records[..number - 1].last();
    let start = before.map_or(Head::genesis(&LOG), Sealed::head);
    let until = records.len().min(number + 1);
    let part = &records[number - 1..until];
    (
        export(start, part, (until == records.len()).then_some(&end)),
        1,
    )
}

#[test]
fn a_flipped_bit_in_any_byte_of_an_export_names_its_record() {
    let records = log(30);
    let mut flipped = 0;
    for number in 0..=31 {
        let (part, index) = part_with_line(&records, number);
        assert!(verify_export(part.as_slice(), pinned(&[])).is_ok());
        let lines: Vec<_> = part.split_inclusive(|byte| *byte == b'\n').collect();
        let begin: usize = lines[..index].iter().map(|line| line.len()).sum();
        for at in begin..begin + lines[index].len() {
            let mut bytes = part.clone();
            bytes[at] ^= 1 << (flipped % 8);
            flipped += 1;
            let broken = verify_export(bytes.as_slice(), pinned(&[])).unwrap_err();
            let seq = (1..=30).contains(&number).then_some(number as u64);
            assert_eq!(broken.seq(), seq, "line {number}, byte {at}: {broken:?}");
        }
    }
    let whole = export(
        Head::genesis(&LOG),
        &records,
        Some(&sign(records[29].head())),
    );
    assert_eq!(flipped, whole.len());
}

#[test]
fn flips_in_the_whole_export_are_named_too() {
    let records = log(30);
    let good = export(
        Head::genesis(&LOG),
        &records,
        Some(&sign(records[29].head())),
    );
    for at in (0..good.len()).step_by(97) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        let line = good[..at].split(|byte| *byte == b'\n').count() as u64 - 1;
        let seq = (1..=30).contains(&line).then_some(line);
        let broken = verify_export(bytes.as_slice(), pinned(&[])).unwrap_err();
        assert_eq!(broken.seq(), seq, "byte {at}: {broken:?}");
    }
}

#[test]
fn a_broken_record_can_be_exported_and_the_export_shows_it() {
    let records = log(4);
    let mut bytes = records[2].stored().to_vec();
    *bytes.get_mut(80).unwrap() ^= 1;
    let head = Head::genesis(&LOG);
    let mut exporter = Exporter::new(Vec::new(), ExportFormat::Jsonl, header(head, 4)).unwrap();
    for stored in [
        records[0].stored(),
        records[1].stored(),
        &bytes,
        records[3].stored(),
    ] {
        exporter.record(stored).unwrap();
    }
    let export = exporter.finish().unwrap();
    let broken = verify_export(export.as_slice(), Trust::default()).unwrap_err();
    assert_eq!((broken.kind(), broken.seq()), ("edited", Some(3)));
}

#[test]
fn an_exporter_ends_where_its_header_says_and_puts_checkpoints_in_place() {
    let records = log(2);
    let begin = || {
        let header = header(Head::genesis(&LOG), 2);
        Exporter::new(Vec::new(), ExportFormat::Jsonl, header).unwrap()
    };
    let mut exporter = begin();
    exporter.record(records[0].stored()).unwrap();
    assert!(exporter.checkpoint(&sign(records[1].head())).is_err());
    assert!(exporter.finish().is_err());
}

#[test]
fn a_checkpoint_has_one_spelling_and_no_byte_of_it_can_change() {
    let signed = sign(log(3)[2].head());
    let text = signed.to_string();
    assert_eq!(text.parse(), Ok(signed));
    for at in 0..text.len() {
        for bit in 0..7 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.parse::<SignedCheckpoint>().is_err(), "{text}");
        }
    }
    for other in [
        format!(" {text}"),
        format!("{text}\n"),
        text.replace(',', ", "),
    ] {
        assert!(other.parse::<SignedCheckpoint>().is_err(), "{other}");
    }
}

#[test]
fn a_weak_or_malformed_public_key_is_refused() {
    let identity = format!("01{}", "00".repeat(31));
    let second_spelling = format!("ee{}7f", "ff".repeat(30));
    for bad in [
        "",
        "00",
        &"00".repeat(32),
        &identity,
        &second_spelling,
        &"0g".repeat(32),
    ] {
        assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
    }
}

#[test]
fn a_signing_key_survives_its_file_and_is_never_shown() {
    let key = key();
    let again = airlock_audit::SigningKey::from_secret(&key.secret());
    assert_eq!(again.public(), key.public());
    assert!(!format!("{key:?}").contains("0707"));
}

#[test]
fn framed_records_read_back_and_damage_to_the_frame_is_an_error() {
    let records = log(5);
    let mut stream = Vec::new();
    for record in &records {
        write_stored(&mut stream, record).unwrap();
    }
    let (mut rest, mut buffer) = (stream.as_slice(), Vec::new());
    for record in &records {
        assert!(read_stored(&mut rest, &mut buffer).unwrap());
        assert_eq!(buffer, record.stored());
    }
    assert!(!read_stored(&mut rest, &mut buffer).unwrap());
    for cut in [1, 3, 4, 70, stream.len() - 1] {
        let mut rest = &stream[..cut];
        let error = loop {
            match read_stored(&mut rest, &mut buffer) {
                Ok(more) => assert!(more, "a cut at {cut} went unnoticed"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, FrameError::Short), "{cut}");
    }
    for length in [0_u32, 72, u32::MAX] {
        let error = read_stored(&mut length.to_be_bytes().as_slice(), &mut buffer);
        assert!(matches!(error, Err(FrameError::Length { .. })), "{length}");
    }
}

#[test]
fn stored_bytes_that_are_no_record_are_refused() {
    let good = log(1)[0].stored().to_vec();
    let mut newer = good.clone();
    newer[0] = 2;
    let mut zero = good.clone();
    zero[1..9].fill(0);
    for (bytes, want) in [
        (Vec::new(), StoredError::Short),
        (good[..72].to_vec(), StoredError::Short),
        (newer, StoredError::Version { version: 2 }),
        (zero, StoredError::Seq { seq: 0 }),
    ] {
        assert_eq!(Sealed::from_stored(bytes), Err(want));
    }
}
