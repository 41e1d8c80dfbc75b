//! Attempts to have a forged log believed. Each test is one attempt that must fail.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use airlock_audit::{Head, Sealed, Trust, seal, verify_export};
use airlock_core::Digest;
use common::{LOG, at, entry, export, log, other_key, sign};

/// Records that were never in the log, after a beginning that was made up.
fn forged_after(start: Head, count: u64) -> Vec<Sealed> {
    let mut head = start;
    (1..=count)
        .map(|number| {
            let sealed = seal(&head, &entry(number)).unwrap();
            head = sealed.head();
            sealed
        })
        .collect()
}

#[test]
fn an_export_that_begins_after_the_pin_is_no_proof_against_it() {
    let real = log(9);
    let pin = sign(real[4].head());
    let start = Head {
        seq: 1_000,
        digest: Digest::of(b"made up"),
    };
    let forged = export(start, &forged_after(start, 5), None);
    let trust = Trust::new(Vec::new(), vec![pin]).unwrap();
    let broken = verify_export(&*forged, trust).unwrap_err();
    assert_eq!((broken.kind(), broken.seq()), ("unmet", Some(5)));
}

#[test]
fn a_checkpoint_by_a_key_the_pins_do_not_know_attests_nothing() {
    let real = log(5);
    let pin = sign(real[4].head());
    let mut records = real.clone();
    let head = real[4].head();
    records.extend(forged_after(head, 3));
    let last = records[7].head();
    let foreign = other_key().sign(LOG, last, at(last.seq)).unwrap();
    let forged = export(Head::genesis(&LOG), &records, Some(&foreign));
    let trust = Trust::new(Vec::new(), vec![pin]).unwrap();
    let broken = verify_export(&*forged, trust).unwrap_err();
    assert_eq!((broken.kind(), broken.seq()), ("bad_checkpoint", Some(8)));
    // Nor without pins: the header names another key.
    let broken = verify_export(&*forged, Trust::default()).unwrap_err();
    assert_eq!((broken.kind(), broken.seq()), ("bad_checkpoint", Some(8)));
}
