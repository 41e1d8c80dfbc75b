//! A served kernel in this process, on a workspace of its own.

#![expect(dead_code, reason = "no test file needs all of it")]

use airlock_core::{Digest, SandboxId};
use airlock_kernel::{
    AnswerFailure, Call, Clock, DEFAULT_OUTPUT_BYTES, Front, Hosting, Kernel, KernelConfig,
    Lifetime, Machine, Outcome, OwnDefinitions, Review,
};
use airlock_plugin::Hosts;
use airlock_plugin_grpc::GrpcHost;
use airlock_plugin_mcp::McpHost;
use airlock_service::{
    Ended, Lock, Options, Post, Program, Running, SandboxReception, Settings, Stopper, start,
};
use airlock_wire::{Client, Hello, Limits, SandboxSocket};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Reads are allowed, `private/` is not, and nothing else.
pub(crate) const READS: &str = "\
version: 1
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: reading is harmless
  - name: keep-private
    match: { effect: read, path_glob: [\"private/**\", \"private\"] }
    action: deny
    reason: private stays private
  - name: look-first
    match: { effect: read, path_glob: \"review/**\" }
    action: require_review
    reason: somebody should look
  - name: follow
    match: { syscall: audit.read }
    action: allow
    reason: the person reads the log
  - name: run
    match: { syscall: exec.run, plugin: cli }
    action: allow
    reason: the person runs commands
";

/// A workflow that waits for a person, and then looks.
pub(crate) const ASK: &str = "\
workflow: 1
name: ask
summary: Ask, then look
version: 1.0.0
inputs: { type: object, required: [path], properties: { path: { type: string } } }
steps:
  - { id: sure, approval: 'Look at ${inputs.path}?' }
  - { id: look, tool: fs.exists, with: { path: '${inputs.path}' } }
";

pub(crate) struct Place {
    pub(crate) outer: TempDir,
}

impl Place {
    /// A workspace with `READS` in force.
    pub(crate) fn new() -> Self {
        Self::governed(READS)
    }

    /// A workspace in which nothing is allowed.
    pub(crate) fn denying() -> Self {
        Self::governed("version: 1\nrules: []\n")
    }

    pub(crate) fn governed(policy: &str) -> Self {
        let place = Self {
            outer: tempfile::tempdir().unwrap(),
        };
        for (name, text) in [
            ("README.md", "hello\n"),
            ("a.txt", "a\n"),
            ("private/key", "secret\n"),
            ("review/plan", "maybe\n"),
            (".airlock/policy.yaml", policy),
        ] {
            let path = place.root().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let kernel = place.kernel(Lifetime::Command);
        let digest = kernel.workspace().trust().unwrap().digest();
        let call = Call::new("trust.approve", json!({ "digest": digest }));
        approved(&kernel, &call);
        kernel.close().unwrap();
        place
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.outer.path().join("w")
    }

    pub(crate) fn kernel(&self, lifetime: Lifetime) -> Kernel {
        let kernel = Kernel::open(KernelConfig {
            workspace: self.root(),
            state_home: self.outer.path().join("state"),
            clock: Clock::system(),
            lifetime,
            output_bytes: DEFAULT_OUTPUT_BYTES,
            search_threads: 2,
            worker: None,
        })
        .unwrap();
        let machine = Machine {
            home: PathBuf::from("/home/user"),
            own: vec![self.outer.path().join("state")],
            environment: std::iter::once(("PATH".into(), "/usr/bin:/bin".into())).collect(),
        };
        let own = OwnDefinitions {
            directory: Some(self.outer.path().join("config")),
            ..OwnDefinitions::default()
        };
        let kernel = kernel.defining(&own);
        let kernel = kernel.receiving(Arc::new(SandboxReception::new()));
        kernel.on(machine).hosting(Hosting::new(|boxes| Hosts {
            grpc: Some(Arc::new(GrpcHost::new(
                Arc::clone(boxes),
                airlock_plugin_grpc::Settings::default(),
            ))),
            mcp: Some(Arc::new(McpHost::new(Arc::clone(boxes)))),
            ..Hosts::default()
        }))
    }

    /// A workflow of the person's own.
    pub(crate) fn define(&self, name: &str, workflow: &str) {
        let directory = self.outer.path().join("config/workflows");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.yaml")), workflow).unwrap();
    }

    /// Where the plugin is written that [`Place::install`] installs.
    pub(crate) fn plugin(&self) -> PathBuf {
        self.outer.path().join("source")
    }

    /// Writes a plugin to install. `bin/run` is what runs.
    pub(crate) fn write_plugin(&self, manifest: &str, script: &str) {
        let (source, entry) = (self.plugin(), self.plugin().join("bin/run"));
        std::fs::create_dir_all(source.join("bin")).unwrap();
        std::fs::write(source.join("plugin.yaml"), manifest).unwrap();
        std::fs::write(&entry, script).unwrap();
        std::fs::set_permissions(&entry, Permissions::from_mode(0o755)).unwrap();
    }

    /// Installs it, as a person who trusts it.
    pub(crate) fn install(&self, manifest: &str, script: &str) {
        self.write_plugin(manifest, script);
        let kernel = self.kernel(Lifetime::Command);
        let arguments = json!({ "path": self.plugin(), "tier": "process" });
        approved(&kernel, &Call::new("plugin.install", arguments));
        kernel.close().unwrap();
    }

    /// Puts another policy in force, as a person who looked at it.
    pub(crate) fn update(&self, policy: &str) {
        let kernel = self.kernel(Lifetime::Command);
        let call = Call::new("policy.update", json!({ "text": policy }));
        approved(&kernel, &call);
        kernel.close().unwrap();
    }

    /// Serves it.
    pub(crate) fn serve(&self) -> Served {
        self.serve_with(Limits::MAIN)
    }

    /// The same within `limits`.
    pub(crate) fn serve_with(&self, limits: Limits) -> Served {
        self.serve_set(|options| options.wire.limits = limits)
    }

    /// The same with other options.
    pub(crate) fn serve_set(&self, set: impl FnOnce(&mut Options)) -> Served {
        let kernel = self.kernel(Lifetime::Long);
        let state = kernel.workspace().state().path().to_owned();
        let lock = Lock::take(&state).unwrap();
        let settings = Settings {
            output_bytes: DEFAULT_OUTPUT_BYTES,
            search_threads: 2,
            definitions: Digest::of(b""),
            program: Program::own().unwrap(),
            models: Digest::of(b""),
            serving: Digest::of(b""),
        };
        let mut options = Options::new(Vec::new(), settings);
        set(&mut options);
        let running = start(
            kernel,
            Post::take(lock, &state.join("run")).unwrap(),
            options,
        )
        .unwrap();
        Served {
            socket: running.socket().to_owned(),
            stopper: running.stopper(),
            state,
            running: Some(running),
            waiting: None,
            ended: None,
        }
    }
}

/// Has `call` done that needs a person, who says yes.
fn approved(kernel: &Kernel, call: &Call) {
    let Outcome::NeedsReview(mut asked) = kernel.submit(Front::Cli, call) else {
        panic!("{} needs no review", call.name);
    };
    yes(kernel, &mut asked).unwrap();
    let outcome = kernel.submit(Front::Cli, call);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
}

/// A person at a terminal says yes to `asked`.
pub(crate) fn yes(kernel: &Kernel, asked: &mut Review) -> Result<(), AnswerFailure> {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags).unwrap();
    let person = kernel.person(&terminal, None).unwrap();
    kernel.answer(person, asked, true)
}

/// A kernel that is served until dropped.
pub(crate) struct Served {
    pub(crate) socket: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) stopper: Stopper,
    running: Option<Running>,
    waiting: Option<std::thread::JoinHandle<Ended>>,
    ended: Option<Ended>,
}

impl Served {
    pub(crate) fn client(&self, name: &str) -> Client {
        let hello = Hello::new(name, "test");
        let mut client = Client::connect(&self.socket, &hello, PATIENCE).unwrap();
        client.wait_up_to(Some(PATIENCE)).unwrap();
        client
    }

    pub(crate) fn socket_for(&self, sandbox: &str) -> SandboxSocket {
        let user = rustix::process::geteuid().as_raw();
        let sandbox = SandboxId::new(sandbox).unwrap();
        let running = self.running.as_ref().unwrap();
        running.socket_for(&sandbox, user).unwrap()
    }

    /// Lets it serve until it ends by itself.
    pub(crate) fn wait(&mut self) {
        let running = self.running.take().unwrap();
        self.waiting = Some(std::thread::spawn(move || running.wait().unwrap()));
    }

    /// Ends it and waits until it has.
    pub(crate) fn end(&mut self) {
        self.stopper.stop();
        if self.running.is_some() {
            self.wait();
        }
        self.join();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn join(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.ended = Some(waiting.join().unwrap());
        }
    }

    /// How it ended.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        self.ended.take()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

pub(crate) fn call(name: &str, arguments: &Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// Has a command run, without a stage; its number, and what it writes.
pub(crate) fn exec(client: &mut Client, command: &[&str]) -> (u64, std::io::PipeReader) {
    exec_with(client, &json!({ "command": command, "no_stage": true }))
}

pub(crate) fn exec_with(client: &mut Client, arguments: &Value) -> (u64, std::io::PipeReader) {
    let (reader, stdout) = std::io::pipe().unwrap();
    // A stream nobody reads would end the command with its first word there.
    let stderr = stdout.try_clone().unwrap();
    let params = json!({ "arguments": arguments, "stdin": false, "run": 1 });
    let id = client
        .send("exec", params, &[stdout.as_fd(), stderr.as_fd()])
        .unwrap();
    (id, reader)
}

/// `program ARGUMENTS`, or the command that installs it.
#[expect(clippy::disallowed_methods, reason = "a client is another program")]
pub(crate) fn program(name: &str) -> Command {
    let found = Path::new("/usr/bin").join(name).exists();
    assert!(
        found,
        "this test needs `{name}`: apt-get install python3 util-linux"
    );
    Command::new(name)
}

/// Has the Python client play a scenario; what it printed, or how it failed.
pub(crate) fn python(wrapper: &[&str], arguments: &[&str]) -> Result<Value, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire/client.py");
    let mut command = match wrapper {
        [] => program("python3"),
        [first, rest @ ..] => {
            let mut command = program(first);
            command.args(rest).arg("python3");
            command
        }
    };
    let output = command.arg(script).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(error);
    }
    serde_json::from_slice(&output.stdout).map_err(|failed| format!("{failed}: {error}"))
}
