//! Names swapped and directories renamed while tools read: nothing outside is ever returned.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::WorkspacePath;
use airlock_kernel::tools::{ReadFilter, Registry, RunContext, Sanitiser};
use airlock_kernel::{Call, Front, Kernel, KernelConfig, Lifetime, Outcome, Root, Staged};
use airlock_sandbox::stage::Stages;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::Place;

/// In the content and the name of every file outside, and of the file policy denies.
const SECRET: &str = "top-secret";

const READS: u64 = 90_000;
const SEARCHES: u64 = 10_000;
/// A fifth of them once more on the whole road, to the real tree and to a stage.
const ON_THE_ROAD: (u64, u64) = (READS / 5, SEARCHES / 5);

/// Policy: `denied` may not be read.
struct NotDenied;

impl ReadFilter for NotDenied {
    fn may_read(&self, path: &WorkspacePath) -> bool {
        path.components().next() != Some("denied")
    }
}

struct Arena {
    _outer: Option<tempfile::TempDir>,
    workspace: PathBuf,
    outside: PathBuf,
    /// Where names are swapped: the workspace, or the upper layer of a stage of it.
    swapped: PathBuf,
}

/// Which layer the hostile program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Real,
    Upper,
}

impl Arena {
    fn new() -> Self {
        Self::on(Layer::Real)
    }

    fn on(layer: Layer) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let upper = (layer == Layer::Upper).then(|| outer.path().join("upper"));
        let arena = Self::in_directory(outer.path(), upper);
        Self {
            _outer: Some(outer),
            ..arena
        }
    }

    /// One in `outer`, whose names are swapped in `upper` if there is one.
    fn in_directory(outer: &Path, upper: Option<PathBuf>) -> Self {
        let workspace = outer.join("w");
        let outside = outer.join("outside");
        for directory in [&workspace.join("d"), &workspace.join("denied"), &outside] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(workspace.join("d/file"), "harmless\n").unwrap();
        fs::write(workspace.join("file"), "harmless\n").unwrap();
        fs::write(workspace.join("denied/file"), SECRET).unwrap();
        fs::write(outside.join("file"), SECRET).unwrap();
        fs::write(outside.join(format!("{SECRET}.txt")), SECRET).unwrap();
        if let Some(upper) = &upper {
            fs::create_dir_all(upper.join("d")).unwrap();
            fs::create_dir_all(upper.join("e")).unwrap();
            fs::write(upper.join("d/file"), "harmless\n").unwrap();
            fs::write(upper.join("e/file"), "harmless\n").unwrap();
            fs::write(upper.join("file"), "harmless\n").unwrap();
        }
        Self {
            _outer: None,
            swapped: upper.unwrap_or_else(|| workspace.clone()),
            workspace,
            outside,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.swapped.join(name)
    }

    fn root(&self) -> Root {
        let root = Root::open(&self.workspace).unwrap();
        if self.swapped == self.workspace {
            return root;
        }
        let marks = airlock_sandbox::stage::Marks::User;
        root.through(&Staged::Over(self.swapped.clone(), marks))
            .unwrap()
    }

    /// Swaps names in every way until told to stop. Each link and each real thing comes and goes
    /// by rename, so that the name is never missing for long.
    fn swap(&self, way: Way, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match way {
                Way::File => self.replace(&self.outside.join("file"), "file"),
                Way::Directory => self.replace(&self.outside, "d"),
                Way::Denied => self.replace(Path::new("denied"), "e"),
                Way::Whiteout => self.hide("d"),
                Way::MovedOut => {
                    let away = self.workspace.with_file_name("away");
                    let _ = fs::rename(self.path("d"), &away);
                    let _ = fs::rename(&away, self.path("d"));
                }
            }
        }
    }

    /// Deletes a name the way an overlay does, and brings it back.
    fn hide(&self, name: &str) {
        let aside = self.path(&format!(".{name}-hidden"));
        if fs::rename(self.path(name), &aside).is_err() {
            return;
        }
        let (kind, mode) = (
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::empty(),
        );
        let device = rustix::fs::makedev(0, 0);
        let _ = rustix::fs::mknodat(rustix::fs::CWD, self.path(name), kind, mode, device);
        let _ = fs::remove_file(self.path(name));
        let _ = fs::rename(&aside, self.path(name));
    }

    fn replace(&self, target: &Path, name: &str) {
        let link = self.path(&format!(".{name}-link"));
        let aside = self.path(&format!(".{name}-aside"));
        let _ = fs::remove_file(&link);
        if symlink(target, &link).is_err() || fs::rename(self.path(name), &aside).is_err() {
            return;
        }
        let _ = fs::rename(&link, self.path(name));
        let _ = fs::remove_file(self.path(name));
        let _ = fs::rename(&aside, self.path(name));
    }
}

#[derive(Debug, Clone, Copy)]
enum Way {
    File,
    Directory,
    MovedOut,
    /// A link to what policy denies.
    Denied,
    Whiteout,
}

/// Calls a tool as the kernel does: the decision sees every path first.
fn call(registry: &Registry, root: &Root, tool: &str, arguments: &Value) -> Option<Value> {
    let prepared = registry
        .get(tool)
        .unwrap()
        .prepare(arguments, root)
        .unwrap();
    let allowed = prepared
        .paths()
        .iter()
        .all(|path| path.inside().is_some_and(|path| NotDenied.may_read(path)));
    if !allowed {
        return None;
    }
    let context = RunContext {
        filter: &NotDenied,
        max_output: 100_000,
        cancelled: &AtomicBool::new(false),
        threads: 2,
        secrets: &Sanitiser::new(),
    };
    prepared.run(&context).ok().map(|output| output.value)
}

type Calls = Vec<(&'static str, Value)>;

/// What is called while names are swapped, and how often.
struct Mix {
    reads: Calls,
    searches: Calls,
    times: (u64, u64),
}

impl Mix {
    fn new(layer: Layer, times: (u64, u64)) -> Self {
        let mut reads = vec![
            ("fs.read", json!({"path": "file"})),
            ("fs.read", json!({"path": "d/file"})),
        ];
        let mut searches = vec![
            ("search.grep", json!({"pattern": SECRET, "all": true})),
            ("search.grep", json!({"pattern": ".", "path": "d"})),
            ("search.glob", json!({"pattern": "**", "all": true})),
            ("search.glob", json!({"pattern": "*", "path": "d"})),
            ("fs.list", json!({"depth": 3, "all": true})),
            ("fs.list", json!({"path": "d"})),
            ("fs.read", json!({"path": format!("d/{SECRET}.txt")})),
        ];
        if layer == Layer::Upper {
            reads.push(("fs.read", json!({"path": "e/file"})));
            searches.push(("search.grep", json!({"pattern": SECRET, "path": "e"})));
            searches.push(("fs.list", json!({"path": "e", "all": true})));
        }
        Self {
            reads,
            searches,
            times,
        }
    }
}

/// How names are swapped in a layer.
fn ways(layer: Layer) -> &'static [Way] {
    match layer {
        Layer::Real => &[Way::File, Way::Directory, Way::MovedOut],
        Layer::Upper => &[Way::File, Way::Directory, Way::Denied, Way::Whiteout],
    }
}

/// Runs `body` while names are swapped in every way.
fn while_swapping<T>(arena: &Arena, ways: &[Way], body: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for way in ways {
            scope.spawn(|| arena.swap(*way, &stop));
        }
        // Unwinding must stop the swappers, or the scope would wait for them for ever.
        let stopper = Stopper(&stop);
        let outcome = body();
        drop(stopper);
        outcome
    })
}

struct Stopper<'a>(&'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_hundred_thousand_racing_calls_return_nothing_from_outside() {
    race_tools(Layer::Real);
}

#[test]
fn a_hundred_thousand_calls_racing_a_stage_return_nothing_from_outside() {
    race_tools(Layer::Upper);
}

fn race_tools(layer: Layer) {
    let arena = Arena::on(layer);
    let (root, registry) = (arena.root(), Registry::built_in());
    let mix = Mix::new(layer, (READS, SEARCHES));
    race(&arena, ways(layer), &mix, |tool, arguments| {
        call(&registry, &root, tool, arguments)
    });
}

fn race(
    arena: &Arena,
    ways: &[Way],
    mix: &Mix,
    call: impl Fn(&str, &Value) -> Option<Value> + Sync,
) {
    let answered = AtomicU64::new(0);
    let refused = AtomicU64::new(0);
    let try_all = |calls: &[(&'static str, Value)], times: u64| {
        for (tool, arguments) in calls.iter().cycle().take(usize::try_from(times).unwrap()) {
            match call(tool, arguments) {
                Some(value) => {
                    let text = value.to_string();
                    assert!(!text.contains(SECRET), "{tool} {arguments} gave {text}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                None => {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    let (reads, searches) = mix.times;
    while_swapping(arena, ways, || {
        thread::scope(|scope| {
            scope.spawn(|| try_all(&mix.searches, searches));
            scope.spawn(|| try_all(&mix.reads, reads));
        });
    });
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    assert_eq!(answered + refused, reads + searches);
    // A race that was never or always lost proves nothing.
    assert!(
        answered > 1_000 && refused > 1_000,
        "{answered} answered, {refused} refused"
    );
}

/// Everything may be read but what is in `denied`.
const POLICY: &str = "\
version: 1
rules:
  - { name: read, match: { effect: read, path_glob: '**' }, action: allow }
  - { name: keep, match: { effect: read, path_glob: ['denied', 'denied/**'] }, action: deny }
";

#[test]
fn twenty_thousand_calls_racing_on_the_whole_road_return_nothing_from_outside() {
    race_road(Layer::Real);
}

#[test]
fn twenty_thousand_calls_racing_a_stage_on_the_whole_road_return_nothing_from_outside() {
    race_road(Layer::Upper);
}

/// The same race against a whole kernel: with the policy that it decides by, what it opens again
/// after waiting, the filter of its searches, and whatever it says when it fails.
fn race_road(layer: Layer) {
    let place = Place::governed(POLICY, &[]);
    let kernel = Kernel::open(KernelConfig {
        lifetime: Lifetime::Long,
        ..place.config()
    })
    .unwrap();
    let upper = (layer == Layer::Upper).then(|| {
        let stages = Stages::open(&support::state(&kernel).join("stages")).unwrap();
        let owner = airlock_sandbox::stage_owner();
        let stage = stages.open_or_create("default", &place.root(), owner);
        stage.unwrap().layers().upper
    });
    let arena = Arena::in_directory(place.outer.path(), upper);
    let mut mix = Mix::new(layer, ON_THE_ROAD);
    mix.reads.push(("fs.exists", json!({"path": "d/file"})));
    let hidden = json!({"path": format!("d/{SECRET}.txt")});
    mix.searches.push(("fs.exists", hidden));
    race(&arena, ways(layer), &mix, |tool, arguments| {
        on_the_road(&kernel, tool, arguments)
    });
}

/// What an agent is told. A refusal tells nothing that was not asked with.
fn on_the_road(kernel: &Kernel, tool: &str, arguments: &Value) -> Option<Value> {
    let asked = arguments.to_string();
    let outcome = kernel.submit(Front::Agent, &Call::new(tool, arguments.clone()));
    match outcome {
        Outcome::Done(done) if tool == "fs.exists" => {
            let exists = &done.value["exists"];
            assert!(exists == false || !asked.contains(SECRET), "{done:?}");
            Some(exists.clone())
        }
        Outcome::Done(done) => Some(done.value),
        Outcome::Failed(failed) => {
            let told = format!("{} {:?}", failed.what, failed.fix);
            assert!(!told.contains(SECRET) || asked.contains(SECRET), "{told}");
            None
        }
        Outcome::Denied(denied) => {
            let told = denied.explanation.headline();
            assert!(!told.contains(SECRET) || asked.contains(SECRET), "{told}");
            None
        }
        Outcome::NeedsReview(review) => panic!("{tool} {asked} needs review: {review:?}"),
    }
}

#[test]
fn the_same_race_leaks_to_a_reader_that_trusts_names() {
    for (way, name) in [(Way::File, "file"), (Way::Directory, "d/file")] {
        let arena = Arena::new();
        let leaked = while_swapping(&arena, &[way], || {
            let deadline = Instant::now() + Duration::from_mins(1);
            while Instant::now() < deadline {
                let path = arena.path(name);
                // What a careful but racy reader does: look, then open.
                let harmless = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file())
                    && !path.parent().is_some_and(Path::is_symlink);
                if harmless && fs::read_to_string(&path).is_ok_and(|text| text.contains(SECRET)) {
                    return true;
                }
            }
            false
        });
        assert!(leaked, "{way:?}: the race is too weak to prove anything");
    }
}

/// Policy that, asked about a path, swaps it at that very moment: the narrowest race there is.
struct Swapping<'a> {
    swap: &'a (dyn Fn(&str) + Sync),
}

impl ReadFilter for Swapping<'_> {
    fn may_read(&self, path: &WorkspacePath) -> bool {
        (self.swap)(path.as_str());
        true
    }
}

#[test]
fn a_swap_right_after_the_decision_gains_nothing() {
    type Swap = fn(&Arena);
    let swaps: [(&str, Swap); 4] = [
        ("file to symlink", |arena| {
            fs::remove_file(arena.path("d/file")).unwrap();
            symlink(arena.outside.join("file"), arena.path("d/file")).unwrap();
        }),
        ("directory to symlink", |arena| {
            fs::rename(arena.path("d"), arena.path("aside")).unwrap();
            symlink(&arena.outside, arena.path("d")).unwrap();
        }),
        ("file to FIFO", |arena| {
            fs::remove_file(arena.path("d/file")).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o644);
            rustix::fs::mkfifoat(rustix::fs::CWD, arena.path("d/file"), mode).unwrap();
        }),
        ("file to directory", |arena| {
            fs::remove_file(arena.path("d/file")).unwrap();
            fs::create_dir(arena.path("d/file")).unwrap();
        }),
    ];
    for ((case, swap), layer) in swaps
        .into_iter()
        .flat_map(|swap| [(swap, Layer::Real), (swap, Layer::Upper)])
    {
        for (tool, arguments) in [
            ("search.grep", json!({"pattern": ".", "path": "d"})),
            (
                "search.grep",
                json!({"pattern": ".", "path": "d", "files_only": true}),
            ),
            ("fs.list", json!({"path": ".", "depth": 4})),
        ] {
            let arena = Arena::on(layer);
            fs::remove_dir_all(arena.workspace.join("denied")).unwrap();
            let root = arena.root();
            let registry = Registry::built_in();
            let tool_of = registry.get(tool).unwrap();
            let swapped = AtomicBool::new(false);
            let swap = |path: &str| {
                if path.starts_with('d') && !swapped.swap(true, Ordering::Relaxed) {
                    swap(&arena);
                }
            };
            let context = RunContext {
                filter: &Swapping { swap: &swap },
                max_output: 100_000,
                cancelled: &AtomicBool::new(false),
                threads: 1,
                secrets: &Sanitiser::new(),
            };
            let output = tool_of
                .prepare(&arguments, &root)
                .unwrap()
                .run(&context)
                .unwrap();
            let text = output.value.to_string();
            assert!(!text.contains(SECRET), "{case}: {tool} gave {text}");
            assert!(swapped.into_inner(), "{case}: {tool} never asked");
        }
    }
}
