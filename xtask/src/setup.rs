//! `setup`: the programs that tests and the build call, the servers from npm that tests run, and the
//! compiler's own tools for coverage, installed where that is possible.
//!
//! Looks before it acts: with everything in place it calls nothing and needs no network.

use crate::llvm_tools;
use crate::shell::{Failure, command, environment, output, run as run_command, say};
use crate::stock;
use std::ffi::OsStr;
use std::path::Path;

struct Need {
    /// A program, or the path of something else.
    program: &'static str,
    /// Debian's packages.
    packages: &'static [&'static str],
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        program: "bwrap",
        packages: &["bubblewrap"],
        why: "the second launcher, in tests and the escape suite",
    },
    Need {
        program: "gcc",
        packages: &["gcc", "libc6-dev"],
        why: "builds SQLite",
    },
    Need {
        program: "git",
        packages: &["git"],
        why: "tidy, and repositories in tests",
    },
    Need {
        program: "go",
        packages: &["golang-go"],
        why: "a toolchain that must work in the sandbox",
    },
    Need {
        program: "javac",
        packages: &["default-jdk-headless"],
        why: "a toolchain that must work in the sandbox",
    },
    Need {
        program: "mvn",
        packages: &["maven"],
        why: "a toolchain that must work in the sandbox",
    },
    Need {
        program: "node",
        packages: &["nodejs"],
        why: "a toolchain that must work in the sandbox",
    },
    Need {
        program: "npm",
        packages: &["npm"],
        why: "a toolchain that must work in the sandbox",
    },
    Need {
        program: "pytest",
        packages: &["python3-pytest"],
        why: "a toolchain that must work in the sandbox",
    },
    Need {
        program: "python3",
        packages: &["python3"],
        why: "the independent audit verifier, and a toolchain",
    },
    Need {
        program: "/usr/lib/python3/dist-packages/cryptography",
        packages: &["python3-cryptography"],
        why: "plugins in Python with mutual TLS, in tests",
    },
    Need {
        program: "/usr/lib/python3/dist-packages/grpc",
        packages: &["python3-grpcio", "python3-protobuf"],
        why: "plugins in Python, in tests",
    },
    Need {
        program: "/usr/share/gocode/src/github.com/hashicorp/go-plugin",
        // The library's own package does not name what it needs.
        packages: &[
            "golang-github-hashicorp-go-plugin-dev",
            "golang-github-oklog-run-dev",
            "golang-golang-x-net-dev",
            "golang-google-grpc-dev",
            "golang-goprotobuf-dev",
        ],
        why: "a plugin in Go on HashiCorp's library, in tests and the bench",
    },
    Need {
        program: "rg",
        packages: &["ripgrep"],
        why: "the peer that search is held against",
    },
    Need {
        program: "script",
        packages: &["bsdutils"],
        why: "pseudo-terminals in CLI tests",
    },
];

/// What may be done about a missing program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Root,
    Sudo,
    Nothing,
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let missing = missing();
    match words.as_slice() {
        [] => {
            if !missing.is_empty() {
                install(&missing)?;
            }
            // What one of them fails for keeps no other from being tried.
            let mut set_up = Ok(());
            for stock in stock::ALL {
                set_up = set_up.and(stock.set_up());
            }
            set_up.and(llvm_tools::set_up())
        }
        ["--check"] => {
            for need in NEEDS {
                report(need.program, is_there(need.program), need.why);
            }
            for stock in stock::ALL {
                report(stock.name, stock.is_there(), stock.why);
            }
            report(llvm_tools::NAME, llvm_tools::is_there(), llvm_tools::WHY);
            if !missing.is_empty() {
                return Err(by_hand(&missing));
            }
            let Some(stock) = stock::ALL.into_iter().find(|stock| !stock.is_there()) else {
                return Ok(());
            };
            let what = format!("missing: {}", stock.name);
            Err(Failure::new(what).hint("`cargo xtask setup` installs it from npm"))
        }
        _ => Err(Failure::usage("`setup` takes nothing but `--check`")),
    }
}

fn report(name: &str, is_there: bool, why: &str) {
    let found = if is_there { "found" } else { "missing" };
    say(&format!("{name:8} {found:8} {why}"));
}

fn missing() -> Vec<&'static Need> {
    NEEDS
        .iter()
        .filter(|need| !is_there(need.program))
        .collect()
}

fn is_there(program: &str) -> bool {
    if program.starts_with('/') {
        Path::new(program).exists()
    } else {
        on_path(program)
    }
}

fn on_path(program: &str) -> bool {
    environment("PATH").is_some_and(|path| found_in(&path, program))
}

fn found_in(path: &OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|directory| is_executable(&directory.join(program)))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file)
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file() || file.with_extension("exe").is_file()
}

fn install(needs: &[&Need]) -> Result<(), Failure> {
    let Some(prefix) = prefix(means()) else {
        return Err(by_hand(needs));
    };
    let packages = packages(needs);
    say(&format!("setup: installing {}", packages.join(" ")));
    let install = apt_get(
        prefix,
        &[
            &["install", "--yes", "--no-install-recommends"],
            packages.as_slice(),
        ]
        .concat(),
    );
    // Package lists are often absent on fresh machines; where they are there, the update is spared.
    if run_command(&mut command_of(&install)).is_err() {
        run_command(&mut command_of(&apt_get(prefix, &["update"])))?;
        run_command(&mut command_of(&install))?;
    }
    let still = missing();
    if still.is_empty() {
        Ok(())
    } else {
        Err(by_hand(&still))
    }
}

fn means() -> Means {
    if !on_path("apt-get") {
        return Means::Nothing;
    }
    if output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0") {
        return Means::Root;
    }
    let sudo = on_path("sudo") && output(command("sudo").args(["-n", "true"])).is_ok();
    if sudo { Means::Sudo } else { Means::Nothing }
}

fn prefix(means: Means) -> Option<&'static [&'static str]> {
    match means {
        Means::Root => Some(&[]),
        Means::Sudo => Some(&["sudo", "-n"]),
        Means::Nothing => None,
    }
}

fn packages(needs: &[&Need]) -> Vec<&'static str> {
    needs
        .iter()
        .flat_map(|need| need.packages)
        .copied()
        .collect()
}

/// Through `env`, because sudo drops variables: a question from a package would wait for ever.
fn apt_get<'a>(prefix: &[&'a str], arguments: &[&'a str]) -> Vec<&'a str> {
    [
        prefix,
        &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"],
        arguments,
    ]
    .concat()
}

fn command_of(words: &[&str]) -> std::process::Command {
    let (program, arguments) = words.split_first().unwrap_or((&"false", &[]));
    let mut command = command(program);
    command.args(arguments);
    command
}

fn by_hand(needs: &[&Need]) -> Failure {
    let programs: Vec<&str> = needs.iter().map(|need| need.program).collect();
    Failure::new(format!("missing: {}", programs.join(", "))).hint(format!(
        "on Debian, `sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}`",
        packages(needs).join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_up_in_each_directory_of_the_path() {
        let path = std::env::join_paths(["/nowhere", "/bin", "/usr/bin"]).unwrap();
        assert!(found_in(&path, "sh"));
        assert!(!found_in(&path, "no-such-program-anywhere"));
        assert!(!found_in(OsStr::new("/nowhere"), "sh"));
        assert!(
            !found_in(OsStr::new("/usr"), "bin"),
            "a directory is no program"
        );
    }

    #[test]
    fn a_path_is_there_if_something_is() {
        assert!(is_there("/usr"));
        assert!(!is_there("/usr/no-such-library"));
    }

    #[test]
    fn apt_runs_as_root_or_through_sudo_or_not_at_all() {
        let line = |means| prefix(means).map(|prefix| apt_get(prefix, &["update"]).join(" "));
        let root = "env DEBIAN_FRONTEND=noninteractive apt-get update";
        assert_eq!(line(Means::Root).as_deref(), Some(root));
        assert_eq!(line(Means::Sudo), Some(format!("sudo -n {root}")));
        assert_eq!(line(Means::Nothing), None);
    }

    #[test]
    fn what_cannot_be_installed_is_named_with_the_command_that_would() {
        let wanted = ["gcc", "python3", "rg", "script"];
        let needs = NEEDS.iter().filter(|need| wanted.contains(&need.program));
        let text = by_hand(&needs.collect::<Vec<_>>()).to_string();
        assert!(text.contains("missing: gcc, python3, rg, script"), "{text}");
        assert!(
            text.contains("gcc libc6-dev python3 ripgrep bsdutils`"),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_argument_is_refused() {
        assert_eq!(run(&["--force".to_owned()]).unwrap_err().code(), 2);
    }
}
