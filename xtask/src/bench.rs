//! `bench`: measures against peers, whose minutes of build time nothing else pays.

use crate::shell::{Failure, cargo, command, run as run_command, say, target_directory};
use std::path::PathBuf;

/// The peers that come from npm, each with the version the figures are about.
const NPM: &[&str] = &[
    "@anthropic-ai/sandbox-runtime@0.0.83",
    "@openai/codex@0.166.0",
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let [only] = arguments
        && only == "--setup-peers"
    {
        return set_up_peers();
    }
    // Some groups measure the program itself, which lies beside the bench.
    run_command(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "airlock-cli",
        "--package",
        "airlock-wasm-worker",
    ]))?;
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

/// Installs the peers that need no root into the target directory, where the bench looks for them.
fn set_up_peers() -> Result<(), Failure> {
    let directory = peers();
    std::fs::create_dir_all(&directory)
        .map_err(|error| Failure::new(format!("cannot make `{}`: {error}", directory.display())))?;
    let mut npm = command("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"]);
    npm.arg(&directory).args(NPM);
    run_command(&mut npm).map_err(|failure| {
        failure.hint("`npm` comes with `apt-get install nodejs npm`, or from nodejs.org")
    })?;
    say("the others: apt-get install bubblewrap socat ripgrep docker.io busybox-static");
    Ok(())
}

fn peers() -> PathBuf {
    target_directory().join("bench-peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_installed_in_the_version_that_is_written_down() {
        let readme = std::fs::read_to_string(crate::shell::root().join("bench/README.md")).unwrap();
        for package in NPM {
            assert!(readme.contains(package), "{package}");
        }
    }
}
