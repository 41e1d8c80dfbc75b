//! Places and commands for tests of the launcher.

#[path = "../launchers/commands.rs"]
mod commands;

pub(crate) use airlock_sandbox::start;
pub(crate) use commands::{Ran, command, limits, run, run_with, sh};

use airlock_sandbox::launch::{Launch, Layers, LayersKind};
use airlock_sandbox::{
    HostPath, Minimum, Plan, PlanBuilder, Sandbox, Surroundings, Template, View,
};
use std::path::{Path, PathBuf};

/// Where a terminal of a command's own is found inside.
pub(crate) const TERMINAL: &str = "/dev/pts/0";
/// What of a place holds what commands wrote.
pub(crate) const WRITTEN: &str = "stage/upper";

/// A workspace with a stage, gone when dropped.
pub(crate) struct Place {
    root: PathBuf,
    /// None where it is somebody else's.
    _directory: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::beneath(&std::env::temp_dir())
    }

    pub(crate) fn beneath(parent: &Path) -> Self {
        let directory = tempfile::tempdir_in(parent).unwrap();
        for name in ["tree", "stage", "stage/upper", "stage/work", "run"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        // A stage belongs to whoever the sandbox is on the host.
        if rustix::process::geteuid().is_root() {
            let owner = Some(1_879_048_192);
            let upper = directory.path().join("stage/upper");
            std::os::unix::fs::chown(upper, owner, owner).unwrap();
        }
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

    /// A launch over the workspace, changed by `change`.
    pub(crate) fn launch(&self, change: impl FnOnce(PlanBuilder) -> PlanBuilder) -> Launch {
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
                kind: LayersKind::Overlay,
                upper: self.path("stage/upper"),
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

impl Drop for Place {
    /// Overlayfs makes directories nobody may enter: an ordinary user could not remove them.
    fn drop(&mut self) {
        let mut directory = self.path("stage/work");
        for name in ["work", "incompat", "volatile"] {
            directory.push(name);
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            let _opened = std::fs::set_permissions(&directory, open);
        }
    }
}
