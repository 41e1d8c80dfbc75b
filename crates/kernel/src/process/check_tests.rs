//! Stages that a run filled so that nobody could judge them.

use super::check::Changes;
use crate::phases::Held;
use crate::some_caller::some_caller;
use crate::{Clock, DEFAULT_OUTPUT_BYTES, Kernel, KernelConfig, Lifetime};
use airlock_audit::{EventType, Filter};
use airlock_core::{ActionId, Request, Syscall, Tier, WorkspacePath};
use airlock_sandbox::stage::{Claim, Stage, Stages};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The most paths that are judged here.
const MOST: u64 = 20;

struct Place {
    outer: TempDir,
    kernel: Kernel,
}

impl Place {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        for name in ["w", "state"] {
            fs::create_dir(outer.path().join(name)).unwrap();
        }
        let kernel = Kernel::open(KernelConfig {
            workspace: outer.path().join("w"),
            state_home: outer.path().join("state"),
            clock: Clock::system(),
            lifetime: Lifetime::Command,
            output_bytes: DEFAULT_OUTPUT_BYTES,
            search_threads: 1,
            worker: None,
        });
        Self {
            outer,
            kernel: kernel.unwrap(),
        }
    }

    fn stage(&self) -> (Stage, Claim) {
        let stages = Stages::open(&self.outer.path().join("stages")).unwrap();
        let owner = airlock_sandbox::stage_owner();
        let workspace = self.outer.path().join("w");
        let mut stage = stages.open_or_create("default", &workspace, owner).unwrap();
        let claim = stage.claim().unwrap();
        (stage, claim)
    }

    /// Has the person's own run do `act` to the stage's layer; gives what was put back. A run that
    /// is `cut_off` is judged by whoever comes after it, who is told.
    fn run(&self, stage: &Stage, cut_off: bool, act: impl FnOnce(&Path)) -> Vec<String> {
        self.run_of("cli", stage, cut_off, act)
    }

    fn run_of(
        &self,
        plugin: &str,
        stage: &Stage,
        cut_off: bool,
        act: impl FnOnce(&Path),
    ) -> Vec<String> {
        let policy = self.kernel.policy();
        let enforcer = self.kernel.enforcer().snapshot();
        let syscall = Syscall::parse("exec.run").unwrap();
        let mut request = Request::new(syscall, Tier::Process, some_caller(plugin));
        request.caller.user = self.kernel.user().clone();
        let (kernel, action) = (&self.kernel, Kernel::next_action());
        let held = Held::default();
        let changes = Changes::new(kernel, &policy, &enforcer, &request, &action, held);
        let changes = changes.at_most(MOST);
        let aside = changes.begin(stage).unwrap();
        // What the run makes is later than its beginning, also by a clock of ten milliseconds.
        std::thread::sleep(Duration::from_millis(30));
        act(&stage.layers().upper);
        if cut_off {
            drop(aside);
            changes.settle(stage).unwrap();
            let told = changes.take_earlier();
            assert!(told.iter().all(|one| one.earlier), "{told:?}");
            assert_eq!(self.recorded(&action).is_empty(), told.is_empty());
            return told.into_iter().map(|one| one.path).collect();
        }
        let judged = changes.end(stage, aside, |_| Ok(())).unwrap();
        judged.put_back.into_iter().map(|one| one.path).collect()
    }

    /// Has an agent's call that was decided on for `path` write there; gives what was put back, or why
    /// nothing was done.
    fn write(&self, stage: &Stage, path: &str, answered: bool) -> Result<Vec<String>, String> {
        self.call(stage, ("fs.write", path), answered, |upper| {
            let file = upper.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "ours\n").unwrap();
        })
    }

    fn call(
        &self,
        stage: &Stage,
        (name, path): (&str, &str),
        answered: bool,
        act: impl FnOnce(&Path),
    ) -> Result<Vec<String>, String> {
        let policy = self.kernel.policy();
        let enforcer = self.kernel.enforcer().snapshot();
        let syscall = Syscall::parse(name).unwrap();
        let mut request = Request::new(syscall, Tier::Process, some_caller("agent"));
        request.caller.user = self.kernel.user().clone();
        request.paths.push(WorkspacePath::new(path).unwrap().into());
        let (kernel, action) = (&self.kernel, Kernel::next_action());
        let held = Held::default();
        let changes = Changes::new(kernel, &policy, &enforcer, &request, &action, held);
        let changes = changes.answered(answered);
        let aside = changes
            .begin(stage)
            .map_err(|failure| failure.to_string())?;
        std::thread::sleep(Duration::from_millis(30));
        act(&stage.layers().upper);
        let judged = changes.end(stage, aside, |_| Ok(())).unwrap();
        Ok(judged.put_back.into_iter().map(|one| one.path).collect())
    }

    /// What the log says was put back of the run of `action`, which was cut off.
    fn recorded(&self, action: &ActionId) -> Vec<String> {
        self.kernel.log().flush().unwrap();
        let records = self.kernel.log().read(Filter::default()).unwrap();
        let entries = records.map(|record| record.unwrap().entry);
        let own = entries.filter(|entry| entry.action.as_ref() == Some(action));
        own.map(|entry| {
            assert_eq!(entry.event, EventType::ToolResult);
            assert_eq!(entry.syscall.as_deref(), Some("exec.run"));
            entry.metadata["put_back"].clone()
        })
        .collect()
    }
}

fn names(stage: &Stage) -> Vec<PathBuf> {
    let touched = stage.touched(MOST).unwrap().into_iter();
    touched.map(|one| one.path.as_path().to_owned()).collect()
}

fn many(upper: &Path) {
    fs::create_dir(upper.join("bulk")).unwrap();
    for number in 0..2 * MOST {
        fs::write(upper.join(format!("bulk/{number}")), "").unwrap();
    }
}

#[test]
fn a_run_that_changes_more_than_can_be_judged_is_taken_back_and_the_stage_stays_of_use() {
    for cut_off in [false, true] {
        let place = Place::new();
        let (stage, _claim) = place.stage();
        assert_eq!(place.run(&stage, cut_off, many), ["."]);
        assert_eq!(names(&stage), Vec::<PathBuf>::new());
        let write = |upper: &Path| fs::write(upper.join("mine"), "mine\n").unwrap();
        assert_eq!(place.run(&stage, false, write), Vec::<String>::new());
        // What was staged before is nobody's to take back.
        assert_eq!(place.run(&stage, cut_off, many), ["."]);
        assert_eq!(names(&stage), [Path::new("mine")]);
        let kept = fs::read_to_string(stage.layers().upper.join("mine")).unwrap();
        assert_eq!(kept, "mine\n");
        assert_eq!(place.run(&stage, false, |_| {}), Vec::<String>::new());
    }
}

#[test]
fn a_draft_that_a_worker_left_is_nobodys_change() {
    for cut_off in [false, true] {
        let place = Place::new();
        let (stage, _claim) = place.stage();
        let told = place.run(&stage, cut_off, |upper| {
            fs::write(upper.join(".airlock-98-0"), "half of it").unwrap();
            fs::write(upper.join("mine"), "mine\n").unwrap();
        });
        assert_eq!(told, [".airlock-98-0"]);
        assert_eq!(names(&stage), [Path::new("mine")]);
    }
}

#[test]
fn who_was_asked_about_a_file_was_asked_about_the_directories_it_needs() {
    let place = Place::new();
    let (stage, _claim) = place.stage();
    // A person looks at what agents and editors obey, and at the directory itself.
    let told = place.run_of("agent", &stage, false, |upper| {
        fs::create_dir(upper.join(".vscode")).unwrap();
        fs::write(upper.join(".vscode/tasks.json"), "{}").unwrap();
    });
    assert_eq!(told, [".vscode", ".vscode/tasks.json"]);
    let deep = "vendor/.vscode/tasks.json";
    assert_eq!(place.write(&stage, deep, true), Ok(Vec::new()));
    assert_eq!(
        names(&stage).last().map(PathBuf::as_path),
        Some(Path::new(deep))
    );
    // In a directory that is there by now, too.
    assert_eq!(
        place.write(&stage, "vendor/.vscode/launch.json", true),
        Ok(Vec::new())
    );
}

#[test]
fn what_goes_out_of_a_directory_that_was_asked_about_leaves_the_stage_of_use() {
    let place = Place::new();
    let (stage, _claim) = place.stage();
    for path in [".vscode/tasks.json", ".vscode/launch.json"] {
        assert_eq!(place.write(&stage, path, true), Ok(Vec::new()), "{path}");
    }
    for path in [".vscode/tasks.json", ".vscode/launch.json"] {
        let gone = place.call(&stage, ("fs.delete", path), true, |upper| {
            fs::remove_file(upper.join(path)).unwrap();
        });
        assert_eq!(gone, Ok(Vec::new()), "{path}");
    }
    let told = place.run_of("cli", &stage, false, |upper| {
        fs::write(upper.join("mine"), "mine\n").unwrap();
    });
    assert_eq!(told, Vec::<String>::new());
}

#[test]
fn a_directory_that_needs_review_is_not_made_for_what_nobody_was_asked_about() {
    let place = Place::new();
    let (stage, _claim) = place.stage();
    let refused = place.write(&stage, "sub/.vscode/extensions.json", false);
    let refused = refused.unwrap_err();
    let begins = "the directory `sub/.vscode` would have to be made for it, and may not be: ";
    assert!(refused.starts_with(begins), "{refused}");
    assert!(refused.contains("needs review"), "{refused}");
    assert_eq!(names(&stage), Vec::<PathBuf>::new());
}

#[test]
fn where_a_directory_would_be_put_back_nothing_is_begun() {
    let place = Place::new();
    let (stage, _claim) = place.stage();
    let refused = place
        .write(&stage, ".airlock/adapters/one.yaml", true)
        .unwrap_err();
    let begins = "the directory `.airlock` would have to be made for it, and may not be: ";
    assert!(refused.starts_with(begins), "{refused}");
    assert!(refused.contains("built-in/policy-files"), "{refused}");
    assert_eq!(names(&stage), Vec::<PathBuf>::new());
    // One that is there needs nobody's leave.
    fs::create_dir(place.outer.path().join("w/.airlock")).unwrap();
    assert_eq!(
        place.write(&stage, ".airlock/adapters/one.yaml", true),
        Ok(Vec::new())
    );
}

/// Makes directories one in another until no path reaches the last.
fn deep(upper: &Path) {
    let name = "d".repeat(250);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(upper, flags, Mode::empty()).unwrap();
    for _ in 0..20 {
        rustix::fs::mkdirat(&at, &*name, Mode::from_raw_mode(0o755)).unwrap();
        at = rustix::fs::openat(&at, &*name, flags, Mode::empty()).unwrap();
    }
}

#[test]
fn what_is_deeper_than_any_path_is_put_back_and_the_stage_stays_of_use() {
    for cut_off in [false, true] {
        let place = Place::new();
        let (stage, _claim) = place.stage();
        let told = place.run(&stage, cut_off, |upper| {
            fs::write(upper.join("ok"), "ok\n").unwrap();
            deep(upper);
        });
        assert!(!told.is_empty());
        let left = names(&stage);
        assert_eq!(left.last().map(PathBuf::as_path), Some(Path::new("ok")));
        assert!(left.iter().all(|path| path.as_os_str().len() < 4096));
        assert_eq!(place.run(&stage, false, |_| {}), Vec::<String>::new());
        assert_eq!(names(&stage), left);
    }
}

#[test]
fn a_chain_of_directories_that_may_not_be_goes_at_once_with_what_was_at_its_end() {
    let place = Place::new();
    let (stage, _claim) = place.stage();
    let chain = ["d"; 12].join("/");
    let told = place.run_of("agent", &stage, false, |upper| {
        fs::create_dir_all(upper.join(&chain)).unwrap();
        fs::write(upper.join(&chain).join("x"), "").unwrap();
    });
    assert_eq!(told.len(), 13, "{told:?}");
    assert_eq!(names(&stage), Vec::<PathBuf>::new());
}
