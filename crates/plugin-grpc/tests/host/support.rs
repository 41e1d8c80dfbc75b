//! A plugin on disk, the host to start it with, and a kernel that notes what it is asked.

use airlock_core::{ByteSize, Digest};
use airlock_plugin::boxed::{Boxes, Ground};
use airlock_plugin::{
    CallError, Callback, CallbackError, Grants, Instance, Kind, Manifest, Reach, Start, StartError,
    ToolCall,
};
use airlock_plugin_grpc::{GrpcHost, GrpcPlugin, Settings};
use airlock_sandbox::presets::Facts;
use airlock_sandbox::{HostPath, Launcher, Outfit, Surroundings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// More than anything here takes, on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// What a plugin asked of the kernel: name, arguments, the action it is part of.
pub(crate) type Asked = (String, Value, Option<String>);

#[derive(Default)]
pub(crate) struct Kernel {
    pub(crate) asked: Mutex<Vec<Asked>>,
    inside: AtomicUsize,
    /// The most that were asked at once.
    pub(crate) most: AtomicUsize,
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
            within.map(str::to_owned),
        );
        self.asked.lock().unwrap().push(asked);
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        self.inside.fetch_sub(1, Ordering::SeqCst);
        match name {
            "fs.read" => Ok(json!({"text": "hello", "path": arguments["path"]})),
            _ => Err(CallbackError {
                code: "denied".to_owned(),
                message: format!("`{name}` is not allowed here"),
                retryable: false,
            }),
        }
    }
}

pub(crate) struct Fixture {
    top: TempDir,
    pub(crate) manifest: Manifest,
    pub(crate) configuration: Value,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) settings: Settings,
}

impl Fixture {
    /// A plugin whose entry `bin/run` is `program`.
    pub(crate) fn new(program: impl AsRef<[u8]>) -> Self {
        let top = tempfile::tempdir().unwrap();
        for name in ["plugin/bin", "plugin/lib", "own/data", "own/reach"] {
            fs::create_dir_all(top.path().join(name)).unwrap();
        }
        let entry = top.path().join("plugin/bin/run");
        fs::write(&entry, program).unwrap();
        fs::set_permissions(&entry, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            top,
            manifest: manifest(),
            configuration: json!({}),
            kernel: Arc::default(),
            settings: Settings {
                start: PATIENCE,
                health: PATIENCE,
                ..Settings::default()
            },
        }
    }

    /// A plugin in Python, with the SDK beside it.
    pub(crate) fn python(program: &str) -> Self {
        needs("/usr/lib/python3/dist-packages/grpc");
        let fixture = Self::new(program);
        let sdk = root().join("sdk/python/airlock_plugin");
        let lib = fixture.path("plugin/lib/airlock_plugin");
        fs::create_dir(&lib).unwrap();
        for entry in fs::read_dir(sdk).unwrap().flatten() {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), lib.join(entry.file_name())).unwrap();
            }
        }
        fixture
    }

    /// The plugin in Go.
    pub(crate) fn go() -> Self {
        Self::new(fs::read(go_program()).unwrap())
    }

    /// Its manifest says that it gives no certificate.
    pub(crate) fn in_the_clear(mut self) -> Self {
        self.manifest.execution.tls = false;
        self
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.manifest.execution.arguments.push(argument.to_owned());
        self
    }

    pub(crate) fn patience(mut self, start: Duration) -> Self {
        self.settings.start = start;
        self
    }

    pub(crate) fn kind(mut self, kind: Kind) -> Self {
        self.manifest.kind = kind;
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    pub(crate) fn host(&self) -> GrpcHost {
        let home = HostPath::new(self.path("home")).unwrap();
        let surroundings = Surroundings {
            own: vec![HostPath::new(self.path("own")).unwrap()],
            home: Some(home.clone()),
        };
        let facts = Facts {
            surroundings: &surroundings,
            environment: &BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            workspace: &HostPath::new(self.path("workspace")).unwrap(),
            network: airlock_sandbox::Reach::None,
        };
        let ground = Ground {
            outfit: Outfit::look(&facts, &home),
            surroundings,
            launcher: Launcher::Native,
            place: self.path("own/place"),
            disk: ByteSize::from_bytes(8 << 20),
        };
        GrpcHost::new(Arc::new(Boxes::new(ground).unwrap()), self.settings.clone())
    }

    pub(crate) fn start(&self) -> Start {
        let entry = fs::read(self.path("plugin/bin/run")).unwrap();
        Start {
            manifest: Arc::new(self.manifest.clone()),
            directory: self.path("plugin"),
            entry: Digest::of(&entry),
            data: self.path("own/data"),
            grants: Grants::default(),
            configuration: self.configuration.clone(),
            reach: Reach {
                directory: self.path("own/reach"),
                callback: Arc::clone(&self.kernel) as Arc<dyn Callback>,
            },
        }
    }

    /// Starts it, with a host of its own.
    pub(crate) fn launch(&self) -> Result<GrpcPlugin, StartError> {
        self.host().launch(&self.start())
    }

    pub(crate) fn started(&self) -> GrpcPlugin {
        self.launch().unwrap()
    }

    /// Why it does not start.
    pub(crate) fn refused(&self) -> StartError {
        self.launch().map(|_| ()).unwrap_err()
    }

    /// What the plugin wrote into its data directory, once it is there.
    pub(crate) fn written(&self, name: &str) -> String {
        let path = self.path("own/data").join(name);
        until(|| {
            fs::read_to_string(&path)
                .ok()
                .filter(|text| !text.is_empty())
        })
    }
}

/// Waits until there is something.
pub(crate) fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Calls a tool and waits for its result.
pub(crate) fn call(
    plugin: &dyn Instance,
    tool: &str,
    arguments: Value,
) -> Result<Value, CallError> {
    let mut said = Vec::new();
    let called = tool_call(tool, arguments);
    plugin.call(&called, &mut said, &AtomicBool::new(false))
}

pub(crate) fn tool_call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall {
        action: "action-1".to_owned(),
        tool: tool.to_owned(),
        arguments,
        session: Some("session-1".to_owned()),
        mode: Some("plan".to_owned()),
        deadline: PATIENCE,
        max_output: 1 << 20,
    }
}

/// Whether anything that runs on this machine has `mark` among its arguments.
pub(crate) fn runs(mark: &str) -> bool {
    running(mark) > 0
}

/// How many processes have `mark` among their arguments.
pub(crate) fn running(mark: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(mark))
        .count()
}

/// A word no other process has.
pub(crate) fn mark() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    format!("7{}{:09}", std::process::id(), now.subsec_nanos())
}

fn needs(path: &str) {
    assert!(
        Path::new(path).exists(),
        "`{path}` is missing: run `cargo xtask setup`"
    );
}

/// Builds the plugin in Go, once.
fn go_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        needs("/usr/bin/go");
        needs("/usr/share/gocode/src/github.com/hashicorp/go-plugin");
        let place = go_place();
        let program = place.join(format!("plugin-{}", std::process::id()));
        let built = go(&place, &program).output().unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        program
    })
}

/// Where Go keeps what it has compiled: the target directory, or one of the user's own.
fn go_place() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let usual = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("go-{user}"));
    if fs::create_dir_all(&usual).is_ok() {
        return usual;
    }
    let own = std::env::temp_dir().join(format!("airlock-go-{user}"));
    fs::create_dir_all(&own).unwrap();
    own
}

#[expect(
    clippy::disallowed_methods,
    reason = "a compiler of the test's own, outside any sandbox"
)]
fn go(place: &Path, program: &Path) -> Command {
    let mut command = Command::new("/usr/bin/go");
    command
        .args(["build", "-trimpath", "-o"])
        .arg(program)
        .arg(".")
        .current_dir(root().join("crates/plugin-grpc/tests/go-plugin"))
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOFLAGS", "")
        .env("GOCACHE", place.join("cache"));
    command
}

fn manifest() -> Manifest {
    let text = "{name: tried, version: 1.2.3, type: tool, execution: {entry: bin/run}}";
    Manifest::parse(text.as_bytes()).unwrap()
}
