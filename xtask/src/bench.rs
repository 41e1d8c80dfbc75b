//! `bench`: measures against peers, whose minutes of build time nothing else pays.

use crate::shell::{Failure, cargo, run as run_command};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut command = cargo(&[
        "run",
        "--release",
        "--package",
        "airlock-bench",
        "--features",
        "peers",
        "--",
    ]);
    run_command(command.args(arguments))
}
