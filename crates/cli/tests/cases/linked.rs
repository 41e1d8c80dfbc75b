//! The programs as the linker left them.

use crate::support::{binary, whole};

/// Kinds of segments, and an entry of the dynamic one, by their numbers in the format.
const DYNAMIC: u64 = 2;
const CLOSED_AFTER_RELOCATION: u64 = 0x6474_e552;
const FLAGS: u64 = 0x6fff_fffb;
const BOUND_AT_START: u64 = 0x1;
const ANYWHERE: u64 = 0x0800_0000;

/// The number of `length` bytes at `at`.
fn number(file: &[u8], at: usize, length: usize) -> u64 {
    let bytes = file[at..at + length].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// How calls between crates are compiled must cost none of what a program has against being taken
/// over: every address is random, and every table of addresses is read-only before anything runs.
#[test]
fn the_programs_lie_anywhere_and_their_tables_are_closed_before_they_begin() {
    for program in [binary(), whole()] {
        lies_anywhere(program);
    }
}

fn lies_anywhere(program: &str) {
    let file = std::fs::read(program).unwrap();
    assert_eq!(&file[..6], b"\x7fELF\x02\x01", "64 bits, lowest byte first");
    let (first, size, count) = (
        place(number(&file, 32, 8)),
        place(number(&file, 54, 2)),
        place(number(&file, 56, 2)),
    );
    let segments: Vec<usize> = (0..count).map(|index| first + index * size).collect();
    let find = |kind| {
        let mut segments = segments.iter();
        segments.find(|at| number(&file, **at, 4) == kind).copied()
    };
    assert!(find(CLOSED_AFTER_RELOCATION).is_some(), "no RELRO");
    let dynamic = find(DYNAMIC).unwrap();
    let begin = place(number(&file, dynamic + 8, 8));
    let end = begin + place(number(&file, dynamic + 32, 8));
    let mut entries = (begin..end).step_by(16);
    let flags = entries.find(|at| number(&file, *at, 8) == FLAGS);
    let flags = number(&file, flags.unwrap() + 8, 8);
    assert_ne!(flags & BOUND_AT_START, 0, "bound late: {flags:x}");
    assert_ne!(flags & ANYWHERE, 0, "not position-independent: {flags:x}");
}
