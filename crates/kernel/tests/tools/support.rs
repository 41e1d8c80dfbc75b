//! A workspace to call tools in.

use airlock_core::WorkspacePath;
use airlock_kernel::Root;
use airlock_kernel::tools::{
    InvalidArguments, Prepared, ReadFilter, Registry, RunContext, Sanitiser, ToolFailure,
    ToolOutput,
};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// Denies paths that are one of these or below.
pub(crate) struct Denying(pub(crate) &'static [&'static str]);

impl ReadFilter for Denying {
    fn may_read(&self, path: &WorkspacePath) -> bool {
        !self.0.iter().any(|denied| {
            path.as_str()
                .strip_prefix(denied)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

pub(crate) const NOTHING_DENIED: Denying = Denying(&[]);

pub(crate) struct Workspace {
    // The workspace is `w`; everything beside it is outside.
    pub(crate) outer: TempDir,
    pub(crate) root: Root,
}

impl Workspace {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("w")).unwrap();
        fs::write(outer.path().join("secret.txt"), "outside-secret\n").unwrap();
        let root = Root::open(&outer.path().join("w")).unwrap();
        let workspace = Self { outer, root };
        for (path, text) in files {
            workspace.write(path, text);
        }
        workspace
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.outer.path().join("w").join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.path(path)).unwrap();
    }

    pub(crate) fn prepare(
        &self,
        tool: &str,
        arguments: &Value,
    ) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let registry = Registry::built_in();
        registry.get(tool).unwrap().prepare(arguments, &self.root)
    }

    pub(crate) fn run(
        &self,
        tool: &str,
        arguments: &Value,
        filter: &dyn ReadFilter,
    ) -> Result<ToolOutput, ToolFailure> {
        let context = RunContext {
            filter,
            max_output: 1 << 20,
            cancelled: &AtomicBool::new(false),
            threads: 3,
            secrets: &Sanitiser::new(),
        };
        self.prepare(tool, arguments).unwrap().run(&context)
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.run(tool, arguments, &NOTHING_DENIED)
            .unwrap_or_else(|failure| panic!("{tool} {arguments}: {failure}"))
            .value
    }

    pub(crate) fn failure(&self, tool: &str, arguments: &Value) -> &'static str {
        match self.run(tool, arguments, &NOTHING_DENIED) {
            Ok(output) => panic!("{tool} {arguments} gave {}", output.value),
            Err(failure) => failure.code(),
        }
    }

    pub(crate) fn decided_on(&self, tool: &str, arguments: &Value) -> Vec<String> {
        let prepared = self.prepare(tool, arguments).unwrap();
        prepared.paths().iter().map(ToString::to_string).collect()
    }

    pub(crate) fn glob(&self, arguments: &Value) -> Vec<String> {
        strings(&self.call("search.glob", arguments)["paths"])
    }
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().expect("an array");
    items
        .iter()
        .map(|item| item.as_str().expect("a string").to_owned())
        .collect()
}

pub(crate) fn entry_paths(value: &Value) -> Vec<String> {
    let entries = value["entries"].as_array().expect("entries");
    entries
        .iter()
        .map(|entry| entry["path"].as_str().unwrap().to_owned())
        .collect()
}
