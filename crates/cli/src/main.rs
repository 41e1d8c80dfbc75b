//! `airlock-main`: the program that does what `airlock` hands over to it, which lies beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    airlock_cli::airlock_main()
}
