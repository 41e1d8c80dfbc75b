//! The example as it is installed, and a host to start it with.

use crate::kernel::{Asked, serve};
use airlock_core::{ByteSize, Digest};
use airlock_plugin::boxed::{Boxes, Ground};
use airlock_plugin::{
    CallError, Callback, CallbackError, Grants, Instance, Manifest, Reach, Start, StartError,
    ToolCall,
};
use airlock_plugin_grpc::{GrpcHost, GrpcPlugin, Settings};
use airlock_sandbox::presets::Facts;
use airlock_sandbox::{HostPath, Launcher, Outfit, Surroundings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// More than anything here takes, on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// This plugin asks over its socket, not over the broker.
struct Nobody;

impl Callback for Nobody {
    fn submit(&self, name: &str, _: &Value, _: Option<&str>) -> Result<Value, CallbackError> {
        panic!("`{name}` was asked over the broker")
    }
}

pub(crate) struct Fixture {
    top: TempDir,
    manifest: Manifest,
    pub(crate) configuration: Value,
    pub(crate) asked: Asked,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        for name in ["plugin/bin", "own/data", "own/reach"] {
            fs::create_dir_all(top.path().join(name)).unwrap();
        }
        let entry = top.path().join("plugin/bin/file-tools");
        fs::copy(env!("CARGO_BIN_EXE_file-tools"), entry).unwrap();
        let asked = serve(&top.path().join("own/reach/kernel.sock"));
        Self {
            top,
            manifest: Manifest::parse(include_bytes!("../../plugin.yaml")).unwrap(),
            configuration: json!({}),
            asked,
        }
    }

    /// With a word among the program's arguments by which it is found.
    pub(crate) fn marked(mut self, mark: &str) -> Self {
        self.manifest.execution.arguments.push(mark.to_owned());
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    /// Names in the directory it shares with the host that are its own.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("own/reach")).unwrap().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("plugin-"))
            .map(|entry| entry.path())
            .collect()
    }

    fn host(&self) -> GrpcHost {
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
        let settings = Settings {
            start: PATIENCE,
            health: PATIENCE,
            ..Settings::default()
        };
        GrpcHost::new(Arc::new(Boxes::new(ground).unwrap()), settings)
    }

    pub(crate) fn launch(&self) -> Result<GrpcPlugin, StartError> {
        let entry = fs::read(self.path("plugin/bin/file-tools")).unwrap();
        self.host().launch(&Start {
            manifest: Arc::new(self.manifest.clone()),
            directory: self.path("plugin"),
            entry: Digest::of(&entry),
            data: self.path("own/data"),
            grants: Grants::default(),
            configuration: self.configuration.clone(),
            reach: Reach {
                directory: self.path("own/reach"),
                callback: Arc::new(Nobody),
            },
        })
    }

    pub(crate) fn started(&self) -> GrpcPlugin {
        self.launch().unwrap()
    }
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

/// Calls a tool: what it streamed, and what came of it.
pub(crate) fn call(
    plugin: &dyn Instance,
    tool: &str,
    arguments: Value,
) -> (Vec<String>, Result<Value, CallError>) {
    let mut said = Vec::new();
    let called = tool_call(tool, arguments);
    let came = plugin.call(&called, &mut said, &AtomicBool::new(false));
    (said, came)
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
