//! Places and commands for tests of the launcher.

#[path = "../launchers/commands.rs"]
mod commands;

pub(crate) use commands::{command, limits, run, run_with, sh};

use airlock_sandbox::launch::{Launch, Layers, LayersKind, StartError};
use airlock_sandbox::{
    HostPath, Launcher, Minimum, Plan, PlanBuilder, Sandbox, Surroundings, Template, View,
    start_with,
};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

/// Where a terminal of a command's own is found inside.
pub(crate) const TERMINAL: &str = "/dev/console";
/// What of a place holds what commands wrote.
pub(crate) const WRITTEN: &str = "stage/copy";

/// The host user of what root starts.
const HOST_USER: u32 = 1_879_048_192;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A workspace with a copy as its stage, gone when dropped.
pub(crate) struct Place {
    root: PathBuf,
    /// None where it is somebody else's.
    _directory: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["tree", "stage", "stage/work", "run"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        // Whoever the sandbox is on the host must be able to reach it.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        Self {
            root: directory.path().canonicalize().unwrap(),
            _directory: Some(directory),
        }
    }

    /// A place another process made.
    pub(crate) fn of_another(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            _directory: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// Copies the tree as it is now, unless that was done before.
    pub(crate) fn copy(&self) {
        self.copy_of(&self.path("tree"));
    }

    pub(crate) fn copy_of(&self, tree: &Path) {
        let copy = self.path("stage/copy");
        if !copy.exists() {
            copy_tree(tree, &copy);
        }
    }

    /// A launch over the workspace, changed by `change`.
    pub(crate) fn launch(&self, change: impl FnOnce(PlanBuilder) -> PlanBuilder) -> Launch {
        self.copy();
        let template = Template::find("code-executor").unwrap();
        let tree = self.path("tree");
        let builder = Plan::builder(template, &Surroundings::default())
            .workspace(&tree, View::Staged)
            .directory(&tree);
        let plan = change(builder).build().unwrap();
        let home = HostPath::new("/home/airlock").unwrap();
        Launch {
            minimum: Minimum::of(&plan),
            plan,
            base: airlock_sandbox::base::detect(Path::new("/"), &home),
            home: Vec::new(),
            layers: Some(Layers {
                kind: LayersKind::Copy,
                upper: self.path("stage/copy"),
                work: self.path("stage/work"),
                without: Vec::new(),
            }),
            registry: self.path("run"),
        }
    }

    pub(crate) fn start(&self) -> Sandbox {
        self.start_with(|plan| plan)
    }

    pub(crate) fn start_with(&self, change: impl FnOnce(PlanBuilder) -> PlanBuilder) -> Sandbox {
        start(self.launch(change)).unwrap()
    }
}

pub(crate) fn start(launch: Launch) -> Result<Sandbox, StartError> {
    start_with(Launcher::Bwrap, launch)
}

fn copy_tree(from: &Path, to: &Path) {
    let kind = std::fs::symlink_metadata(from).unwrap();
    if kind.is_symlink() {
        std::os::unix::fs::symlink(std::fs::read_link(from).unwrap(), to).unwrap();
    } else if kind.is_dir() {
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_tree(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::copy(from, to).unwrap();
    }
    if is_root() {
        lchown(to, Some(HOST_USER), Some(HOST_USER)).unwrap();
    }
}
