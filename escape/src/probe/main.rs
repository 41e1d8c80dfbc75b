//! `airlock-probe ATTACK [JSON]` plays the attacker: it makes one attack and prints one line of
//! JSON that says whether it achieved anything, how, and which error each route met.
//!
//! It leaves with 0 whenever the attack could be made at all. Whether a denial is the right one is
//! for the suite. The probe trusts nothing around it: it needs no file but its own, and runs the
//! same inside a sandbox and outside. `airlock-probe victim KIND [JSON]` plays the one attacked.

#![expect(
    unsafe_code,
    reason = "an attacker makes raw system calls; this program is never shipped"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "arguments of system calls are words, and the probe is a program of its own"
)]

mod attempt;
mod bombs;
mod denied;
mod files;
mod lifetime;
mod network;
mod privileges;
mod processes;
mod processor;
mod sys;
mod syscalls;
mod takeover;
mod terminal;
mod victim;
mod writing;

use attempt::{Arguments, Attempt};
use std::process::ExitCode;

/// An attack by name.
type Entry = (&'static str, fn(&Arguments, &mut Attempt));

const CLASSES: &[&[Entry]] = &[
    files::ATTACKS,
    processes::ATTACKS,
    denied::ATTACKS,
    writing::ATTACKS,
    privileges::ATTACKS,
    syscalls::ATTACKS,
    network::ATTACKS,
    terminal::ATTACKS,
    bombs::ATTACKS,
    processor::ATTACKS,
    lifetime::ATTACKS,
    takeover::ATTACKS,
];

/// The probe was asked for something it does not have.
const MISUSED: u8 = 64;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let mut name = words.next().unwrap_or_default();
    let playing_victim = name == "victim";
    if playing_victim {
        name = words.next().unwrap_or_default();
    }
    let given = words.next().unwrap_or_else(|| "{}".to_owned());
    let Ok(value) = serde_json::from_str(&given) else {
        return ExitCode::from(MISUSED);
    };
    let arguments = Arguments(value);
    if playing_victim {
        return victim::play(&name, &arguments);
    }
    let entries = CLASSES.iter().flat_map(|class| class.iter());
    let Some((_, act)) = entries.into_iter().find(|(known, _)| *known == name) else {
        return ExitCode::from(MISUSED);
    };
    let mut attempt = Attempt::default();
    act(&arguments, &mut attempt);
    println!("{}", attempt.report(&name));
    ExitCode::SUCCESS
}
