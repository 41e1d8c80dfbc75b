//! Other ways to run a command confined, as their users call them.
//!
//! A peer that is not here, or does not run, is a row that says why.

use super::cold::once;
use super::person::plain_command;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command that was seen to work, or why there is none.
pub(super) enum Ready {
    Is(Command),
    Not(String),
}

/// A peer that takes a good part of a second.
pub(super) struct Peer {
    pub(super) name: &'static str,
    kind: Kind,
}

enum Kind {
    /// A program of an npm package, and its arguments.
    Npm {
        directory: PathBuf,
        program: &'static str,
        arguments: &'static [&'static str],
    },
    /// An engine that listens on this socket.
    Docker { socket: PathBuf },
    /// An engine that could not be started.
    Missing(String),
}

pub(super) const IMAGE: &str = "airlock-bench";
const INSTALL_NPM: &str = "not installed: cargo xtask bench --setup-peers";

/// `bwrap` with all namespaces and nothing else.
pub(super) fn bwrap(home: &Path) -> Ready {
    let mut command = plain_command("bwrap", home);
    command.args(["--unshare-all", "--ro-bind", "/", "/", "true"]);
    ready(command, "not installed: apt-get install bubblewrap")
}

/// The peers in `directory` that npm installed.
pub(super) fn npm(directory: &Path) -> [Peer; 2] {
    let peer = |name, program, arguments| Peer {
        name,
        kind: Kind::Npm {
            directory: directory.to_owned(),
            program,
            arguments,
        },
    };
    [
        peer("srt (sandbox-runtime)", "srt", &["true"]),
        peer("codex sandbox", "codex", &["sandbox", "--", "true"]),
    ]
}

pub(super) fn docker(engine: Result<&Path, &str>) -> Peer {
    Peer {
        name: "docker run",
        kind: match engine {
            Ok(socket) => Kind::Docker {
                socket: socket.to_owned(),
            },
            Err(why) => Kind::Missing(why.to_owned()),
        },
    }
}

impl Peer {
    pub(super) fn ready(&self, home: &Path) -> Ready {
        match &self.kind {
            Kind::Missing(why) => Ready::Not(why.clone()),
            Kind::Npm {
                directory,
                program,
                arguments,
            } => {
                let program = directory.join("node_modules/.bin").join(program);
                if !program.is_file() {
                    return Ready::Not(INSTALL_NPM.to_owned());
                }
                let mut command = plain_command(program, home);
                // Codex does not work with a home among temporary files.
                let own = home_of_peers(directory, home);
                command.env("CODEX_HOME", own).current_dir(home);
                command.args(*arguments);
                ready(command, INSTALL_NPM)
            }
            Kind::Docker { socket } => {
                let mut command = plain_command("docker", home);
                command.arg("-H").arg(address(socket));
                command.args(["run", "--rm", "--network", "none", IMAGE, "true"]);
                ready(
                    command,
                    "not installed: apt-get install docker.io busybox-static",
                )
            }
        }
    }
}

/// Where the peers of whoever lives in `home` keep their own files.
pub(super) fn home_of_peers(directory: &Path, home: &Path) -> PathBuf {
    let person = home.file_name().unwrap_or_default();
    directory.join("home").join(person)
}

pub(super) fn address(socket: &Path) -> String {
    format!("unix://{}", socket.display())
}

fn ready(mut command: Command, missing: &str) -> Ready {
    match once(&mut command) {
        Ok(()) => Ready::Is(command),
        Err(_) if !found(&command) => Ready::Not(missing.to_owned()),
        Err(error) => Ready::Not(format!("it does not run here: {error}")),
    }
}

fn found(command: &Command) -> bool {
    let program = Path::new(command.get_program());
    let on_path = |directory: &str| Path::new(directory).join(program).is_file();
    ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
        .into_iter()
        .any(on_path)
        || program.is_file()
}
