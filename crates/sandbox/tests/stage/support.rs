//! A workspace, a stage of it, and scripts that run where a sandboxed process would.

use airlock_sandbox::launch::LayersKind;
use airlock_sandbox::stage::{
    ChangeKind, Diff, DiffOptions, Marks, Owner, Setup, Stage, StageError, Stages,
};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A temporary directory that goes even if it holds directories nobody may enter, as every
/// overlay's own does.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A test that failed says why; what is left of it is only in the way.
        let _ = Command::new("chmod")
            .args(["-R", "u+rwx"])
            .arg(self.0.path())
            .output();
    }
}

pub(crate) struct Bench {
    pub(crate) temp: Scratch,
    pub(crate) stages: Stages,
    pub(crate) stage: Stage,
    marks: Marks,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn owner() -> Owner {
    Owner {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

/// Every way of mounting an overlay that this user has.
pub(crate) fn every_kind_of_marks() -> Vec<Marks> {
    if is_root() {
        vec![Marks::User, Marks::Trusted]
    } else {
        vec![Marks::User]
    }
}

/// Runs `check` on a bench of each kind whose workspace `prepare` filled.
pub(crate) fn on_every_overlay(prepare: &str, check: impl Fn(Bench)) {
    for marks in every_kind_of_marks() {
        check(Bench::new(prepare, marks));
    }
}

/// The same on a bench whose stage is a copy, too.
pub(crate) fn on_every_stage(prepare: &str, check: impl Fn(Bench)) {
    on_every_overlay(prepare, &check);
    check(Bench::with(prepare, Setup::COPY));
}

impl Bench {
    pub(crate) fn new(prepare: &str, marks: Marks) -> Self {
        let setup = Setup {
            marks: Some(marks),
            ..Setup::OVERLAY
        };
        Self::with(prepare, setup)
    }

    pub(crate) fn with(prepare: &str, setup: Setup) -> Self {
        let temp = Scratch::new();
        let workspace = temp.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::create_dir(temp.path().join("merged")).unwrap();
        shell(&workspace, prepare);
        let stages = Stages::open(&temp.path().join("stages")).unwrap();
        let stage = stages
            .open_or_create_as("default", &workspace, owner(), setup)
            .unwrap();
        Self {
            temp,
            stages,
            marks: stage.marks(),
            stage,
        }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.temp.path().join("workspace")
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.temp.path().join("stages/default/upper")
    }

    /// Runs a script in the merged view, or in the copy.
    pub(crate) fn inside(&self, script: &str) {
        let layers = self.stage.layers();
        if layers.kind == LayersKind::Copy {
            shell(&layers.upper, script);
            return;
        }
        let (namespaces, option): (&[&str], _) = match self.marks {
            Marks::User => (&["-Ur", "-m"], ",userxattr"),
            Marks::Trusted => (&["-m"], ""),
        };
        let options = format!(
            "lowerdir={},upperdir={},workdir={}{option}",
            self.workspace().display(),
            layers.upper.display(),
            layers.work.display(),
        );
        let mut command = Command::new("unshare");
        command
            .args(namespaces)
            .args(["sh", "-euc"])
            .arg(r#"mount -t overlay overlay -o "$1" "$2"; cd "$2"; exec sh -eu -s"#)
            .args(["sh", &options])
            .arg(self.temp.path().join("merged"));
        fed(&mut command, script);
    }

    /// The stage opened anew, with what it noted of itself changed.
    pub(crate) fn noted(&self, change: impl FnOnce(&mut serde_json::Value)) -> Stage {
        let place = self.temp.path().join("stages/default/stage.json");
        let text = std::fs::read(&place).unwrap();
        let mut record: serde_json::Value = serde_json::from_slice(&text).unwrap();
        change(&mut record);
        std::fs::write(&place, record.to_string()).unwrap();
        self.stages.find("default").unwrap().unwrap()
    }

    /// Runs a script in the merged view and keeps what the view was at its end.
    pub(crate) fn inside_kept(&self, script: &str) -> PathBuf {
        let kept = self.temp.path().join("kept");
        self.inside(&format!("{script}\ncp -a . '{}'\n", kept.display()));
        kept
    }

    pub(crate) fn diff(&self) -> Diff {
        self.try_diff().unwrap()
    }

    pub(crate) fn try_diff(&self) -> Result<Diff, StageError> {
        self.stage.diff(&DiffOptions::default())
    }
}

pub(crate) fn shell(directory: &Path, script: &str) {
    fed(
        Command::new("sh").arg("-eus").current_dir(directory),
        script,
    );
}

/// Runs a program that must succeed, with `input` to read.
pub(crate) fn fed(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end before it has read everything; its own words say why.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}\n{input}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Changes, one short line each.
pub(crate) fn lines(diff: &Diff) -> Vec<String> {
    diff.changes
        .iter()
        .map(|change| {
            let path = change.path.as_bytes().escape_ascii();
            match &change.kind {
                ChangeKind::Added => format!("added {path}"),
                ChangeKind::Modified => format!("modified {path}"),
                ChangeKind::Deleted => format!("deleted {path}"),
                ChangeKind::ModeChanged => format!("mode {path}"),
                ChangeKind::TypeChanged => format!("type {path}"),
                ChangeKind::Renamed { from } => {
                    format!("renamed {} {path}", from.as_bytes().escape_ascii())
                }
            }
        })
        .collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    File(u32, Vec<u8>),
    Directory(u32),
    Link(PathBuf),
    Other,
}

/// Everything below `root`.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut seen = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            let what = if metadata.is_dir() {
                pending.push(path.clone());
                Seen::Directory(mode)
            } else if metadata.is_symlink() {
                Seen::Link(std::fs::read_link(&path).unwrap())
            } else if metadata.is_file() {
                Seen::File(mode, std::fs::read(&path).unwrap())
            } else {
                Seen::Other
            };
            seen.insert(path.strip_prefix(root).unwrap().to_owned(), what);
        }
    }
    seen
}

pub(crate) fn inode(path: &Path) -> u64 {
    path.symlink_metadata().unwrap().ino()
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
