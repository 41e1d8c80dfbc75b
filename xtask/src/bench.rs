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
    if measures_programs(arguments) {
        run_command(&mut cargo(&[
            "build",
            "--profile",
            "dist",
            "--package",
            "airlock-cli",
            "--package",
            "airlock-wasm-worker",
        ]))?;
    }
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

/// Groups that measure no whole program, so that none is built for them.
const WITHOUT_PROGRAMS: &[&str] = &[
    "token",
    "decision",
    "capability",
    "append",
    "durable",
    "verify",
    "read",
    "search",
    "exec",
    "grpc",
    "sanitise",
    "stage",
];

/// Whether programs are measured as they are handed out, which takes long to build.
fn measures_programs(arguments: &[String]) -> bool {
    let mut only = arguments
        .windows(2)
        .filter(|pair| pair.first().is_some_and(|word| word == "--only"))
        .filter_map(|pair| pair.last())
        .peekable();
    let looks = ["--list", "--help", "-h"];
    let looks = |word: &String| looks.contains(&word.as_str());
    let measured = only.peek().is_none() || only.any(|group| !WITHOUT_PROGRAMS.contains(&&**group));
    measured && !arguments.iter().any(looks)
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
    fn the_programs_are_built_for_what_measures_them_alone() {
        let measures = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            measures_programs(&words)
        };
        for line in [
            "",
            "--strict",
            "--only sandbox",
            "--only token --only wire --quick",
        ] {
            assert!(measures(line), "{line}");
        }
        for line in [
            "--list",
            "--only decision --quick",
            "--only token --only exec",
        ] {
            assert!(!measures(line), "{line}");
        }
    }

    #[test]
    fn a_peer_is_installed_in_the_version_that_is_written_down() {
        let readme = std::fs::read_to_string(crate::shell::root().join("bench/README.md")).unwrap();
        for package in NPM {
            assert!(readme.contains(package), "{package}");
        }
    }
}
