//! A workspace of its own for every test, the real binary, and a transcript of what it said.
//!
//! Hermetic: the environment is cleared, every directory is below one temporary root, and whatever
//! differs from run to run is replaced before the transcript is compared.

mod confined;
mod conversation;
mod fits;
pub(crate) mod mcp_client;
mod normal;
mod processes;
mod provider;
mod row;
mod served;
mod terminal;

pub(crate) use confined::{read_only_disk, tiny_disk, unprivileged};
pub(crate) use conversation::Conversation;
pub(crate) use fits::assert_fits;
pub(crate) use normal::normalised;
pub(crate) use processes::{Nap, is_alive, runs, wait_until};
pub(crate) use provider::Provider;
pub(crate) use served::{PATIENCE, Served};
pub(crate) use terminal::{Typed, answering, at_terminal};

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A workspace, its state and configuration, and what was said in it so far.
pub(crate) struct World {
    accompanying: served::Accompanying,
    root: TempDir,
    transcript: String,
}

/// How one command ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// An empty workspace.
    pub(crate) fn new() -> Self {
        let root = TempDir::with_prefix("airlock-cli-").unwrap();
        for name in ["ws/.git", "state", "config", "home", "away"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        Self {
            accompanying: served::Accompanying::default(),
            root,
            transcript: String::new(),
        }
    }

    /// A small Rust project with something to find and something to hide.
    pub(crate) fn project() -> Self {
        let world = Self::new();
        world.write("Cargo.toml", "[package]\nname = \"sample\"\n");
        world.write("README.md", "# Sample\n\nTODO: say what it does.\n");
        world.write("src/main.rs", "fn main() {\n    // TODO\n}\n");
        world.write(".env", "TOKEN=not-for-agents\n");
        world
    }

    /// The same with its starter policy in force.
    pub(crate) fn governed() -> Self {
        Self::project().initialised()
    }

    /// The same where no kernel ever runs: for whoever names records by their numbers, because a kernel
    /// that runs has records of its own.
    pub(crate) fn governed_alone() -> Self {
        let world = Self::project();
        world.alone();
        world.initialised()
    }

    fn initialised(self) -> Self {
        let ran = self.quiet(&["init"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        self
    }

    /// The same under `policy`, which a person approved.
    pub(crate) fn under(policy: &str) -> Self {
        let world = Self::project();
        world.write(".airlock/policy.yaml", policy);
        let ran = at_terminal(&world, "trust", Typed::Line("y"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        world
    }

    /// A path outside the workspace, below the temporary root.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The workspace itself.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("ws")
    }

    /// The one state directory below the state home.
    pub(crate) fn state(&self) -> PathBuf {
        let found = std::fs::read_dir(self.path("state/airlock")).unwrap();
        let found = found.map(|entry| entry.unwrap().path());
        // What is about plugins is the person's, and lies beside it.
        let mut found = found.filter(|path| !path.ends_with("plugins"));
        found.next().unwrap()
    }

    /// Writes a file of the workspace.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// `airlock ARGS` in the workspace, not started yet.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        self.through(&[], args)
    }

    /// The same, started by the program and arguments in `wrapper`.
    pub(crate) fn through<A: AsRef<OsStr>>(&self, wrapper: &[&str], args: &[A]) -> Command {
        let mut command = match wrapper {
            [] => program(binary()),
            [first, rest @ ..] => {
                let mut command = program(first);
                command.args(rest).arg(binary());
                command
            }
        };
        self.prepare(&mut command);
        command.args(args);
        command
    }

    /// Gives `command` this world's directories and nothing of the person's own environment.
    pub(crate) fn prepare(&self, command: &mut Command) {
        self.accompany();
        self.settle(command);
    }

    fn settle(&self, command: &mut Command) {
        command
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            // What a test leaves behind is not to depend on how fast it was.
            .env("AIRLOCK_KERNEL_START", "never")
            .stdin(Stdio::null());
    }

    /// Runs `airlock ARGS` without writing it down.
    pub(crate) fn quiet(&self, args: &[&str]) -> Ran {
        finished(&mut self.command(args))
    }

    /// Runs `airlock ARGS` and writes it down.
    pub(crate) fn run(&mut self, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        self.record(&typed(args), &mut command)
    }

    /// Runs every command in turn, words apart by spaces, and writes them down.
    pub(crate) fn run_all(&mut self, lines: &[&str]) {
        for line in lines {
            let args: Vec<&str> = line.split_whitespace().collect();
            self.run(&args);
        }
    }

    /// Runs a command and writes it down as `shown`.
    pub(crate) fn record(&mut self, shown: &str, command: &mut Command) -> Ran {
        let ran = finished(command);
        self.note(shown, &ran);
        ran
    }

    /// Writes down how `shown` ended.
    pub(crate) fn note(&mut self, shown: &str, ran: &Ran) {
        let code = ran
            .code
            .map_or("signal".to_owned(), |code| code.to_string());
        let _ = writeln!(self.transcript, "$ airlock {shown}\n[exit {code}]");
        for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            if text.is_empty() {
                continue;
            }
            let _ = writeln!(self.transcript, "[{name}]");
            self.transcript.push_str(text);
            if !text.ends_with('\n') {
                self.transcript.push_str("[no newline]\n");
            }
        }
        self.transcript.push('\n');
    }

    /// Compares everything written down with the snapshot called `name`.
    pub(crate) fn compare(self, name: &str) {
        let text = normalised(&self.transcript, self.root.path());
        insta::with_settings!({
            snapshot_path => "../snapshots",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name, text);
        });
    }
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Only the first `lines` of stdout, with a mark where more followed.
    pub(crate) fn first(mut self, lines: usize) -> Self {
        let total = self.stdout.lines().count();
        let kept: Vec<&str> = self.stdout.lines().take(lines).collect();
        self.stdout = format!("{}\n[and more: {}]\n", kept.join("\n"), total > lines);
        self
    }

    /// Stdout as one JSON value.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}\n{}{}", self.code, self.stdout, self.stderr)
    }
}

pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_airlock")
}

/// The program that the binary hands most of its work to.
pub(crate) fn whole() -> &'static str {
    env!("CARGO_BIN_EXE_airlock-main")
}

/// Copies the binary to `to`, and beside it what it hands most of its work to. Another process does: what
/// this one holds open for writing, a thread that starts something meanwhile hands on, and nobody can run
/// such a file.
pub(crate) fn copy_binary(to: &Path) {
    for (from, to) in [
        (binary(), to),
        (whole(), &to.with_file_name("airlock-main")),
    ] {
        let copied = program("cp").arg(from).arg(to).status().unwrap();
        assert!(copied.success());
    }
}

/// A program, or the command that installs it when it is missing.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests run the binary from outside, as a person does"
)]
pub(crate) fn program(name: &str) -> Command {
    if !name.contains('/') {
        let found = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"]
            .iter()
            .any(|directory| Path::new(directory).join(name).exists());
        assert!(
            found,
            "this test needs `{name}`: apt-get install util-linux bsdutils"
        );
    }
    Command::new(name)
}

/// A server from npm, where `cargo xtask setup` puts it.
pub(crate) fn stock(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let stock = target.join(name);
    assert!(
        stock.join("installed").is_file(),
        "`{}` is not whole: run `cargo xtask setup`, which gets it from npm",
        stock.display()
    );
    stock
}

pub(crate) fn finished(command: &mut Command) -> Ran {
    Ran::of(&command.output().unwrap())
}

/// Runs `command` with `input` on its stdin.
pub(crate) fn fed(command: &mut Command, input: &str) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its stdin closes it: that is what such a test is about.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Ran::of(&child.wait_with_output().unwrap())
}

/// Arguments as somebody would type them.
fn typed(args: &[&str]) -> String {
    let quote = |word: &&str| {
        if word.is_empty() || word.contains([' ', '"', '*', '\'', '\u{1b}', '\n']) {
            format!("{word:?}")
        } else {
            (*word).to_owned()
        }
    };
    args.iter().map(quote).collect::<Vec<_>>().join(" ")
}
