//! The program that Airlock runs.

mod tools;

use std::process::ExitCode;

fn main() -> ExitCode {
    airlock_sdk_process::run(tools::Files::default())
}
