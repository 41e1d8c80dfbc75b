//! A project that is worked on twice: outside in a copy, and inside over a stage.

use airlock_sandbox::launch::{Command, Launch, Layers, Stdin, Streams};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::plan::OwnVariable;
use airlock_sandbox::presets::{self, Facts, Preset};
use airlock_sandbox::{
    HostPath, Minimum, Plan, Reach, Sandbox, Surroundings, Template, View, start,
};
use regex::Regex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const HOME_INSIDE: &str = "/home/airlock";

/// What a file is: mode, size, time of change, content.
type Kept = (u32, u64, i64, i64, Vec<u8>);

/// One tool called once.
pub(crate) struct Step {
    pub(crate) line: &'static [&'static str],
    pub(crate) code: u8,
    /// What of its output is a result, and how many there are.
    pub(crate) results: (&'static str, usize),
}

pub(crate) struct Project {
    root: PathBuf,
    _directory: tempfile::TempDir,
}

impl Project {
    /// A project of these files. Fails with the way to get them if `tools` are not there.
    pub(crate) fn new(tools: &[&str], files: &[(&str, &str)]) -> Self {
        for tool in tools {
            let there = program(tool).is_some();
            assert!(
                there,
                "`{tool}` is not on PATH: `cargo xtask setup` gets it"
            );
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in [
            "tree",
            "outside",
            "cache",
            "stage",
            "stage/upper",
            "stage/work",
            "run",
        ] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let owner = airlock_sandbox::stage_owner();
        let (user, group) = (Some(owner.uid), Some(owner.gid));
        std::os::unix::fs::chown(root.join("stage/upper"), user, group).unwrap();
        let project = Self {
            root,
            _directory: directory,
        };
        for (name, text) in files {
            let file = project.tree().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        project
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// What the sandbox wrote, or nothing.
    pub(crate) fn staged(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.root.join("stage/upper").join(name)).ok()
    }

    /// Runs a tool in `directory`, outside, with caches of its own.
    fn outside(&self, directory: &Path, line: &[&str]) -> (Option<i32>, String) {
        let (tool, arguments) = line.split_first().unwrap();
        let mut command = std::process::Command::new(tool);
        command.args(arguments).current_dir(directory).env_clear();
        for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        let cache = self.root.join("cache");
        command
            .env("CARGO_NET_OFFLINE", "true")
            .env("GOCACHE", cache.join("go"))
            .env("GOPROXY", "off")
            .env("npm_config_cache", cache.join("npm"))
            .stdin(std::process::Stdio::null());
        let ran = command.output().unwrap();
        let text = [ran.stdout, ran.stderr].concat();
        (
            ran.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// Prepares the real tree with a tool, outside. It must succeed.
    pub(crate) fn prepare(&self, line: &[&str]) {
        let (code, text) = self.outside(&self.tree(), line);
        assert_eq!(code, Some(0), "{line:?} outside: {text}");
    }

    /// Runs a tool inside for someone who has no home, and no variable but `PATH`.
    pub(crate) fn run_for_nobody(&self, line: &[&str]) -> (Outcome, String) {
        let path = std::env::var_os("PATH").unwrap();
        run(&mut self.start(&[("PATH".into(), path)].into()), line)
    }

    /// Takes every step outside in a copy and inside over the stage. Both must come to the same,
    /// which is what each step says, and the real tree must stay as it is.
    pub(crate) fn works_inside_as_outside(&self, steps: &[Step]) {
        let copy = self.root.join("outside");
        copy_tree(&self.tree(), &copy);
        let before = contents(&self.tree());
        let mut sandbox = self.start(&std::env::vars_os().collect());
        for step in steps {
            let results = Regex::new(step.results.0).unwrap();
            let (code, outside) = self.outside(&copy, step.line);
            assert_eq!(
                code,
                Some(i32::from(step.code)),
                "{:?} outside: {outside}",
                step.line
            );
            let (outcome, inside) = run(&mut sandbox, step.line);
            let want = Outcome::Exited(step.code);
            assert_eq!(outcome, want, "{:?} inside: {inside}", step.line);
            let (inside, outside) = (found(&results, &inside), found(&results, &outside));
            assert_eq!(inside, outside, "{:?}", step.line);
            assert_eq!(inside.len(), step.results.1, "{:?}: {inside:?}", step.line);
        }
        drop(sandbox);
        assert!(
            contents(&self.tree()) == before,
            "the real tree has changed"
        );
    }

    /// A sandbox as the presets make it for someone with this environment, with the template's
    /// limits.
    fn start(&self, environment: &BTreeMap<OsString, OsString>) -> Sandbox {
        let template = Template::find("code-executor").unwrap();
        let tree = HostPath::new(self.tree()).unwrap();
        let home = environment.get(&OsString::from("HOME"));
        let surroundings = Surroundings {
            own: Vec::new(),
            home: home.and_then(|home| HostPath::new(home).ok()),
        };
        let found: Vec<Preset> = presets::detect(&Facts {
            surroundings: &surroundings,
            environment,
            workspace: &tree,
            network: Reach::None,
        });
        let inside = HostPath::new(HOME_INSIDE).unwrap();
        let builder = Plan::builder(template, &surroundings)
            .workspace(tree.as_os_str(), View::Staged)
            .directory(tree.as_os_str());
        let plan = presets::apply(builder, &found)
            .own(OwnVariable::Home, HOME_INSIDE)
            .own(OwnVariable::TemporaryDirectory, "/tmp")
            .build()
            .unwrap();
        let launch = Launch {
            minimum: Minimum::of(&plan),
            plan,
            base: airlock_sandbox::base::detect(Path::new("/"), &inside),
            home: presets::home_entries(&found, &inside),
            layers: Some(Layers {
                kind: airlock_sandbox::launch::LayersKind::Overlay,
                upper: self.root.join("stage/upper"),
                work: self.root.join("stage/work"),
                without: Vec::new(),
            }),
            registry: self.root.join("run"),
        };
        start(launch).unwrap()
    }
}

impl Drop for Project {
    /// Overlayfs makes directories nobody may enter: an ordinary user could not remove them.
    fn drop(&mut self) {
        let mut directory = self.root.join("stage/work");
        for name in ["work", "incompat", "volatile"] {
            directory.push(name);
            let open = fs::Permissions::from_mode(0o700);
            let _opened = fs::set_permissions(&directory, open);
        }
    }
}

/// Runs a tool inside: how it ended, and everything it said.
fn run(sandbox: &mut Sandbox, line: &[&str]) -> (Outcome, String) {
    let command = Command {
        arguments: line.iter().map(OsString::from).collect(),
        environment: sandbox.plan().environment().resolve(std::env::vars_os()),
        ..Command::default()
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let ended = sandbox.run(&command, streams).unwrap();
    let text = [out, err].concat();
    (ended.outcome, String::from_utf8_lossy(&text).into_owned())
}

/// Where a program of `PATH` is, if this user may run it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    candidates.find(|file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

/// What `results` matches, sorted: tests run in any order.
fn found(results: &Regex, text: &str) -> Vec<String> {
    let mut all: Vec<String> = results
        .find_iter(text)
        .map(|found| found.as_str().to_owned())
        .collect();
    all.sort();
    all
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_tree(&source, &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source).unwrap(), &target).unwrap();
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

/// Everything there is in a directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Kept> {
    let mut all = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let data = path.symlink_metadata().unwrap();
            let content = if data.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else if data.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            let (mode, time) = (data.permissions().mode(), (data.mtime(), data.mtime_nsec()));
            all.insert(path, (mode, data.len(), time.0, time.1, content));
        }
    }
    all
}
