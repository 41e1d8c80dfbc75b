//! Places and commands for tests of the launcher.

use airlock_sandbox::launch::{Command, Ended, Launch, Layers, LayersKind, Stdin, Streams};
use airlock_sandbox::plan::Limits;
use airlock_sandbox::{
    HostPath, Minimum, Plan, PlanBuilder, Sandbox, Surroundings, Template, View, start,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
            }),
            registry: self.path("run"),
        }
    }

    pub(crate) fn start(&self) -> Sandbox {
        start(self.launch(|plan| plan)).unwrap()
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

/// The limits of the template, changed by `change`.
pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Template::find("code-executor").unwrap().limits;
    change(&mut limits);
    limits
}

/// A command with the usual search path.
pub(crate) fn command(arguments: &[&str]) -> Command {
    Command {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        directory: None,
        lasting: false,
    }
}

/// What came of a command.
pub(crate) struct Ran {
    pub(crate) ended: Ended,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl Ran {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }
}

pub(crate) fn run(sandbox: &mut Sandbox, command: &Command) -> Ran {
    run_with(sandbox, command, Stdin::Empty)
}

pub(crate) fn run_with(sandbox: &mut Sandbox, command: &Command, stdin: Stdin) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams {
        stdin,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let ended = sandbox.run(command, streams).unwrap();
    Ran { ended, out, err }
}

/// What a shell script prints; it must succeed.
pub(crate) fn sh(sandbox: &mut Sandbox, script: &str) -> String {
    let ran = run(sandbox, &command(&["sh", "-c", script]));
    let ended = &ran.ended.outcome;
    let fine = *ended == airlock_sandbox::lifecycle::Outcome::Exited(0);
    assert!(
        fine,
        "{script}: {ended:?}\n{}\n{}",
        ran.text(),
        ran.errors()
    );
    ran.text()
}
