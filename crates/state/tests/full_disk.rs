//! A disk that takes no more: refused with a clear error, nothing half done, and it goes on after.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and this one starts itself as a child process"
)]

mod support;

use airlock_state::{State, StateError};
use std::process::Command;
use support::{at, open, owner, place, session};

const PLACE: &str = "AIRLOCK_STATE_FULL";

/// Not a test of its own: the child of the one below, which may write small files only. Begins
/// sessions until the store refuses, and says how many it has.
#[test]
fn filler() {
    let Ok(directory) = std::env::var(PLACE) else {
        return;
    };
    let state = State::open(directory.as_ref(), at(0)).unwrap();
    let ada = owner("ada");
    for number in 0.. {
        let text = "x".repeat(8_000);
        let kept = state.observe(&ada, &"s".parse().unwrap(), &text, "user", at(number));
        match kept {
            Ok(_) => {}
            Err(error @ StateError::Unwritable { .. }) => {
                assert!(error.retryable() && error.hint().is_some());
                println!("kept {number}: {error}");
                return;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_was_taken_stays_and_what_was_refused_left_nothing() {
    let place = place();
    let state = open(place.path());
    session(&state, "ada", "s");
    drop(state);
    // In blocks of 512 bytes: room for some, not for many.
    let script = "trap '' XFSZ; ulimit -f 600; exec \"$0\" --exact filler --nocapture";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(PLACE, place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let (_, told) = told.split_once("kept ").unwrap();
    let kept: usize = told.split(':').next().unwrap().parse().unwrap();
    assert!(kept > 0, "{told}");
    let state = open(place.path());
    assert!(state.recovered().is_none());
    state.verify().unwrap();
    let (ada, id) = (owner("ada"), "s".parse().unwrap());
    let found = state.recall(&ada, &id, "", 10_000).unwrap().unwrap();
    assert_eq!(found.len(), kept);
    state
        .observe(&ada, &id, "room again", "user", at(0))
        .unwrap()
        .unwrap();
}
