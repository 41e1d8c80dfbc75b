//! What a call has: who asks, and the way to the kernel.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a call is part of.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct About {
    /// The action's id: the same in the log, and for what the plugin asks of the kernel.
    pub action: String,
    /// The plugin's name.
    pub plugin: String,
    /// The box the plugin runs in.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// The session the call belongs to.
    #[serde(default)]
    pub session: Option<String>,
    /// The mode of that session.
    #[serde(default)]
    pub mode: Option<String>,
    /// The plugin's configuration, valid by its schema.
    #[serde(default)]
    pub configuration: Value,
    /// The directory that is the plugin's own to write. A Wasm plugin has none.
    #[serde(default)]
    pub data: Option<String>,
    /// Variables of the plugin's environment. A Wasm plugin has none.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// The way to the kernel.
pub trait Kernel {
    /// Makes the syscall `name` and waits for its result.
    fn call(&self, name: &str, arguments: &Value) -> Result<Value, Failure>;
    /// Writes a line to the plugin's log.
    fn log(&self, level: Level, text: &str);
    /// Passes on a piece of output. False: nobody wants more.
    fn emit(&self, text: &str) -> bool;
    /// Whether nobody wants the result any more.
    fn is_cancelled(&self) -> bool;
}

/// Why the kernel did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// A stable word: `denied`, `review`, or that of the failure.
    pub code: String,
    /// What happened and why.
    pub message: String,
    /// Whether the same may succeed a moment later.
    #[serde(default)]
    pub retryable: bool,
}

impl Failure {
    /// Whether policy denied it.
    pub fn is_denied(&self) -> bool {
        self.code == "denied"
    }

    fn unexpected(name: &str) -> Self {
        Self {
            code: "unexpected".to_owned(),
            message: format!("`{name}` gave a result of another form"),
            retryable: false,
        }
    }
}

/// How much a line of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For whoever writes the plugin.
    Debug,
    /// Good to know.
    Info,
    /// Not as it should be.
    Warn,
    /// Something failed.
    Error,
}

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// Relative to the workspace root.
    pub path: String,
    /// `file`, `directory`, `symlink`, or another word of the kernel's.
    pub kind: String,
    /// Bytes of a file.
    #[serde(default)]
    pub size: Option<u64>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Its exit code, if it ended by itself.
    pub code: Option<i64>,
    /// Everything the kernel says about it.
    pub result: Value,
}

/// One call's context.
pub struct Context<'a> {
    kernel: &'a dyn Kernel,
    about: About,
}

impl<'a> Context<'a> {
    /// A context with this way to the kernel.
    pub fn new(kernel: &'a dyn Kernel, about: About) -> Self {
        Self { kernel, about }
    }

    /// What the call is part of.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// A variable of the plugin's environment.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.about.environment.get(name).map(String::as_str)
    }

    /// Makes the syscall `name` with `arguments`. It needs the capability that belongs to it: from
    /// the manifest, the workspace and the user alike.
    pub fn call(&self, name: &str, arguments: &Value) -> Result<Value, Failure> {
        self.kernel.call(name, arguments)
    }

    /// The text of a file of the workspace, as the session's stage has it.
    pub fn read(&self, path: &str) -> Result<String, Failure> {
        let read = self.call("fs.read", &json!({ "path": path }))?;
        let text = read.get("text").and_then(Value::as_str);
        text.map(ToOwned::to_owned)
            .ok_or_else(|| Failure::unexpected("fs.read"))
    }

    /// Writes a file of the workspace, into the session's stage.
    pub fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        self.call("fs.write", &json!({ "path": path, "text": text }))
            .map(drop)
    }

    /// What a directory of the workspace holds.
    pub fn list(&self, path: &str) -> Result<Vec<Entry>, Failure> {
        let mut listed = self.call("fs.list", &json!({ "path": path }))?;
        let entries = listed.get_mut("entries").map(Value::take);
        entries
            .and_then(|entries| serde_json::from_value(entries).ok())
            .ok_or_else(|| Failure::unexpected("fs.list"))
    }

    /// Whether there is something at a path of the workspace.
    pub fn exists(&self, path: &str) -> Result<bool, Failure> {
        let found = self.call("fs.exists", &json!({ "path": path }))?;
        let exists = found.get("exists").and_then(Value::as_bool);
        exists.ok_or_else(|| Failure::unexpected("fs.exists"))
    }

    /// Runs a program in a sandbox, against the session's stage.
    pub fn run(&self, command: &[&str]) -> Result<Ran, Failure> {
        let result = self.call("exec.run", &json!({ "command": command }))?;
        let code = result.get("exit_code").and_then(Value::as_i64);
        Ok(Ran { code, result })
    }

    /// Writes a line to the plugin's log.
    pub fn log(&self, level: Level, text: &str) {
        self.kernel.log(level, text);
    }

    /// Passes on a piece of output before the call has ended. False: nobody wants more, and the
    /// call may as well end.
    pub fn emit(&self, text: &str) -> bool {
        self.kernel.emit(text)
    }

    /// Whether nobody wants the result any more.
    pub fn is_cancelled(&self) -> bool {
        self.kernel.is_cancelled()
    }
}
