//! `airlock`: the program people call. It is small, so that it starts at once.

use std::process::ExitCode;

fn main() -> ExitCode {
    airlock_cli::airlock()
}
