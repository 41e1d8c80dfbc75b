//! Workers for tests, plugins to run in them, and short ways to call.

use airlock_core::{ByteSize, Digest, PluginName};
use airlock_plugin::{
    CallError, Callback, CallbackError, Execution, Grants, Host, Instance, Kind, LifecycleSettings,
    Manifest, Protocol, Reach, SandboxAsk, Start, StartError, Tier, ToolCall, WasmLimits,
};
use airlock_plugin_wasm::{CodeCache, Pipes, WasmHost};
use airlock_sandbox::seccomp::Profile;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the worker confines itself; set only for workers.
const CONFINE: &str = "AIRLOCK_TEST_WORKER";

/// Serves and ends the process, if it was started as a worker. Answers go to the standard error:
/// the test harness writes its own words to the standard output.
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a worker is told by its environment, and must not go on as a test"
)]
pub(crate) fn serve_if_started_for_it() {
    let Ok(how) = std::env::var(CONFINE) else {
        return;
    };
    let confine = || match how.as_str() {
        "strict" => airlock_sandbox::confine(Profile::Strict),
        "fails" => Err(io::Error::other("no filter\u{1b}[2J here")),
        other => panic!("{other}"),
    };
    let served = airlock_wasm_worker::serve(io::stdin().lock(), io::stderr(), confine);
    std::process::exit(i32::from(served.is_err()));
}

/// Every worker a test started, to count and to kill.
#[derive(Default)]
pub(crate) struct Workers {
    pub(crate) started: AtomicU32,
    pub(crate) killed: AtomicU32,
    running: Mutex<Vec<Arc<Mutex<Child>>>>,
}

impl Workers {
    /// Kills every worker from outside, as the system would for lack of memory.
    pub(crate) fn murder(&self) {
        for child in self.running.lock().unwrap().iter() {
            let mut child = child.lock().unwrap();
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// What the system says about the last worker, under `key`.
    pub(crate) fn status(&self, key: &str) -> String {
        let pid = self
            .running
            .lock()
            .unwrap()
            .last()
            .unwrap()
            .lock()
            .unwrap()
            .id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| *name == key).expect(key);
        found.1.trim().to_owned()
    }
}

/// Bytes a worker of tests may say in its life.
pub(crate) const MOST: u64 = 64 << 20;

#[expect(clippy::disallowed_methods, reason = "the worker is this program")]
pub(crate) fn spawn(workers: &Arc<Workers>, confine: &str, most: u64) -> io::Result<Pipes> {
    workers.started.fetch_add(1, SeqCst);
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "worker", "--nocapture", "--test-threads=1"])
        .env(CONFINE, confine)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take().expect("piped");
    let stdout = child.stderr.take().expect("piped");
    let child = Arc::new(Mutex::new(child));
    workers.running.lock().unwrap().push(Arc::clone(&child));
    let workers = Arc::clone(workers);
    let kill = move || {
        workers.killed.fetch_add(1, SeqCst);
        let mut child = child.lock().unwrap();
        let _ = child.kill();
        child.wait().expect("reaped");
    };
    Ok(Pipes {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        kill: Box::new(kill),
        sandbox: Some("box-7".to_owned()),
        report: json!({ "seccomp": confine }),
        most,
    })
}

type Answer = Box<dyn Fn(&str, &Value) -> Result<Value, CallbackError> + Send + Sync>;

/// What a plugin asked the kernel, and what the kernel says.
pub(crate) struct Kernel {
    pub(crate) asked: Mutex<Vec<(String, Value, Option<String>)>>,
    pub(crate) answer: Answer,
}

impl Kernel {
    pub(crate) fn new(
        answer: impl Fn(&str, &Value) -> Result<Value, CallbackError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            answer: Box::new(answer),
        })
    }

    /// Denies everything, as a kernel does with a plugin that has no capabilities.
    pub(crate) fn denying() -> Arc<Self> {
        Self::new(|name, _| {
            Err(CallbackError {
                code: "denied".to_owned(),
                message: format!("the plugin's manifest does not ask for `{name}`"),
                retryable: false,
            })
        })
    }
}

impl Callback for Kernel {
    fn submit(
        &self,
        name: &str,
        arguments: &Value,
        within: Option<&str>,
    ) -> Result<Value, CallbackError> {
        let asked = (
            name.to_owned(),
            arguments.clone(),
            within.map(ToOwned::to_owned),
        );
        self.asked.lock().unwrap().push(asked);
        (self.answer)(name, arguments)
    }
}

/// Limits that only what means to reach them reaches.
pub(crate) const WIDE: WasmLimits = WasmLimits {
    fuel: 10_000_000_000,
    deadline: Duration::from_mins(2),
    memory: ByteSize::from_bytes(1 << 20),
    tables: 1_000,
    stack: ByteSize::from_bytes(256 << 10),
    instances: 2,
};

/// A plugin to be started.
pub(crate) struct World {
    pub(crate) home: tempfile::TempDir,
    pub(crate) module: Vec<u8>,
    pub(crate) limits: WasmLimits,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) confine: &'static str,
    pub(crate) most: u64,
    pub(crate) is_cached: bool,
}

impl World {
    pub(crate) fn new(module: impl Into<Vec<u8>>) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            module: module.into(),
            limits: WIDE,
            kernel: Kernel::denying(),
            workers: Arc::default(),
            confine: "strict",
            most: MOST,
            is_cached: false,
        }
    }

    pub(crate) fn wat(text: &str) -> Self {
        Self::new(wat::parse_str(text).expect("the test's module is well formed"))
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut WasmLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn cache(&self) -> CodeCache {
        let home = self.home.path();
        CodeCache::open(&home.join("code"), &home.join("key")).unwrap()
    }

    pub(crate) fn host(&self) -> WasmHost {
        let (workers, confine, most) = (Arc::clone(&self.workers), self.confine, self.most);
        WasmHost::new(
            move || spawn(&workers, confine, most),
            self.is_cached.then(|| self.cache()),
        )
    }

    pub(crate) fn what(&self) -> Start {
        let directory = self.home.path().join("plugin");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("plugin.wasm"), &self.module).unwrap();
        Start {
            manifest: Arc::new(manifest(self.limits)),
            entry: Digest::of(&self.module),
            data: directory.join("data"),
            grants: Grants::default(),
            directory,
            configuration: json!({ "greeting": "hello" }),
            reach: Reach {
                directory: self.home.path().join("reach"),
                callback: Arc::clone(&self.kernel) as Arc<dyn Callback>,
            },
        }
    }

    pub(crate) fn try_start(&self) -> Result<Arc<dyn Instance>, StartError> {
        self.host().start(self.what())
    }

    pub(crate) fn start(&self) -> Arc<dyn Instance> {
        self.try_start().unwrap_or_else(|error| panic!("{error}"))
    }
}

pub(crate) fn manifest(limits: WasmLimits) -> Manifest {
    Manifest {
        name: PluginName::new("text-tools").unwrap(),
        version: semver::Version::new(1, 0, 0),
        kind: Kind::Tool,
        engine: semver::VersionReq::STAR,
        api_version: 1,
        license: None,
        capabilities: Vec::new(),
        deny_capabilities: Vec::new(),
        execution: Execution {
            tier: Tier::Wasm,
            protocol: Protocol::Wasm,
            entry: "plugin.wasm".to_owned(),
            arguments: Vec::new(),
            tls: true,
            sandbox: SandboxAsk::default(),
            limits,
            image: None,
        },
        config_schema: None,
        dependencies: BTreeMap::new(),
        tags: Vec::new(),
        lifecycle: LifecycleSettings {
            hot_reload: false,
            graceful_shutdown_timeout: Duration::from_secs(5),
        },
        tools: Vec::new(),
        effects: BTreeMap::new(),
    }
}

pub(crate) fn call_of(tool: &str, arguments: Value) -> ToolCall {
    ToolCall {
        action: "action-1".to_owned(),
        tool: tool.to_owned(),
        arguments,
        session: Some("session-1".to_owned()),
        mode: Some("strict".to_owned()),
        deadline: Duration::from_mins(1),
        max_output: 100_000,
    }
}

pub(crate) fn run(instance: &dyn Instance, call: &ToolCall) -> Result<Value, CallError> {
    instance.call(call, &mut Vec::new(), &AtomicBool::new(false))
}

/// Calls the one tool of a plugin made by [`plugin`].
pub(crate) fn ask(instance: &dyn Instance) -> Result<Value, CallError> {
    run(instance, &call_of("try", json!({})))
}

/// A text in a module's memory, as the interface packs it.
pub(crate) fn packed(at: usize, text: &str) -> String {
    ((at as u64) << 32 | text.len() as u64).to_string()
}

/// What [`plugin`] describes.
pub(crate) const DESCRIPTION: &str =
    r#"[{"name":"try","summary":"Try it","schema":{"type":"object"},"read_only":true}]"#;
/// What `$ok` returns.
pub(crate) const OK: &str = r#"{"ok":"done"}"#;

fn data(at: usize, text: &str) -> String {
    let escaped = text.bytes().fold(String::new(), |mut escaped, byte| {
        let _ = write!(escaped, "\\{byte:02x}");
        escaped
    });
    format!("(data (i32.const {at}) \"{escaped}\")")
}

/// A plain module with one tool, whose body is `execute` and can end in `(return (call $ok))`.
/// `more` stands among its definitions, and `text` lies at 4096.
pub(crate) fn plugin(more: &str, text: &str, execute: &str) -> String {
    format!(
        r#"(module
        (import "airlock" "call" (func $call (param i32 i32 i32 i32) (result i32)))
        (import "airlock" "take" (func $take (param i32 i32) (result i32)))
        (import "airlock" "log" (func $log (param i32 i32 i32)))
        (import "airlock" "emit" (func $emit (param i32 i32) (result i32)))
        (import "airlock" "cancelled" (func $cancelled (result i32)))
        (memory (export "memory") 2)
        {description} {ok} {text}
        (global $free (mut i32) (i32.const 65536))
        (func $alloc (export "airlock_alloc") (param i32) (result i32)
          global.get $free
          (global.set $free (i32.add (global.get $free) (local.get 0))))
        (func (export "airlock_describe") (result i64) (i64.const {described}))
        (func $ok (result i64) (i64.const {done}))
        {more}
        (func (export "airlock_execute") (param $in i32) (param $length i32) (result i64)
          (local $n i32)
          {execute}))"#,
        description = data(1024, DESCRIPTION),
        ok = data(2048, OK),
        text = data(4096, text),
        described = packed(1024, DESCRIPTION),
        done = packed(2048, OK),
    )
}
