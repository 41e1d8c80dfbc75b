//! Making, finding, claiming and dropping stages.

use super::support::{Bench, fed, inode, is_root, lines, on_every_overlay, on_every_stage, owner};
use airlock_sandbox::launch::LayersKind;
use airlock_sandbox::stage::{DiffOptions, Owner, Setup, Stage, StageError, StageKind, Stages};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct Place {
    temp: TempDir,
    stages: Stages,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("workspace")).unwrap();
        let stages = Stages::open(&temp.path().join("stages")).unwrap();
        Self { temp, stages }
    }

    fn workspace(&self) -> PathBuf {
        self.temp.path().join("workspace")
    }

    fn stages_place(&self) -> PathBuf {
        self.temp.path().join("stages")
    }

    fn make(&self, name: &str) -> Stage {
        self.stages
            .open_or_create(name, &self.workspace(), owner())
            .unwrap()
    }
}

#[test]
fn a_stage_is_made_once_and_found_again() {
    let place = Place::new();
    assert!(place.stages.find("one").unwrap().is_none());
    let made = place.make("one");
    let again = place.make("one");
    assert_eq!(made.layers(), again.layers());
    assert_eq!(made.created(), again.created());
    let workspace = place.workspace().canonicalize().unwrap();
    let found = place.stages.find("one").unwrap().unwrap();
    assert_eq!(found.workspace(), workspace);
    assert_eq!(found.kind(), StageKind::Overlay);
    assert_eq!(found.layers().kind, LayersKind::Overlay);
}

#[test]
fn making_a_stage_does_not_look_into_the_workspace() {
    // A tree that could not be looked into: as an ordinary user not even its directories open.
    let place = Place::new();
    let closed = place.workspace().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let before = closed.metadata().unwrap();
    let stage = place.make("one");
    let after = closed.metadata().unwrap();
    assert_eq!(before.atime(), after.atime());
    assert!(
        stage
            .diff(&airlock_sandbox::stage::DiffOptions::default())
            .unwrap()
            .is_empty()
    );
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    // Nothing is left in it either.
    assert_eq!(std::fs::read_dir(place.workspace()).unwrap().count(), 1);
}

#[test]
fn names_that_are_none_are_refused_everywhere() {
    let place = Place::new();
    for name in ["", "..", "../x", ".dropped-x", "a/b", "-x", "a\n"] {
        let refused = |result: Result<(), StageError>| {
            assert!(matches!(result, Err(StageError::Name(_))), "{name:?}");
        };
        refused(place.stages.find(name).map(|_| ()));
        refused(place.stages.drop_stage(name));
        let made = place
            .stages
            .open_or_create(name, &place.workspace(), owner());
        refused(made.map(|_| ()));
    }
    assert!(matches!(
        place.stages.drop_stage("none"),
        Err(StageError::Missing(_))
    ));
}

#[test]
fn a_stage_belongs_to_one_workspace() {
    let place = Place::new();
    place.make("one");
    let other = place.temp.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let error = place
        .stages
        .open_or_create("one", &other, owner())
        .unwrap_err();
    assert!(matches!(error, StageError::OtherWorkspace { .. }));
    // Whichever way it is named.
    let link = place.temp.path().join("link");
    std::os::unix::fs::symlink(place.workspace(), &link).unwrap();
    assert!(place.stages.open_or_create("one", &link, owner()).is_ok());
    assert!(
        place
            .stages
            .open_or_create("one", &link.join("."), owner())
            .is_ok()
    );
}

#[test]
fn a_workspace_and_the_stages_may_not_lie_in_one_another() {
    let place = Place::new();
    let inner = place.stages_place().join("inner");
    std::fs::create_dir(&inner).unwrap();
    for workspace in [
        place.temp.path(),
        &place.stages_place(),
        &inner,
        Path::new("/"),
    ] {
        for setup in [Setup::OVERLAY, Setup::COPY] {
            let made = place
                .stages
                .open_or_create_as("one", workspace, owner(), setup);
            assert!(
                matches!(made, Err(StageError::Overlap { .. })),
                "{workspace:?}"
            );
        }
    }
}

#[test]
fn a_damaged_stage_in_use_is_not_dropped() {
    let place = Place::new();
    let claim = place.make("one").claim().unwrap();
    std::fs::remove_file(place.stages_place().join("one/stage.json")).unwrap();
    let dropped = place.stages.drop_stage("one");
    assert!(
        matches!(dropped, Err(StageError::InUse { .. })),
        "{dropped:?}"
    );
    drop(claim);
    place.stages.drop_stage("one").unwrap();
}

#[test]
fn the_upper_root_is_like_the_workspace_and_the_rest_is_ours() {
    for mode in [0o755, 0o700, 0o775] {
        let place = Place::new();
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.workspace(), permissions).unwrap();
        let wanted = if is_root() {
            Owner {
                uid: 1_879_048_192,
                gid: 1_879_048_192,
            }
        } else {
            owner()
        };
        let workspace = place.workspace();
        let stage = place
            .stages
            .open_or_create("one", &workspace, wanted)
            .unwrap();
        let upper = stage.layers().upper.metadata().unwrap();
        assert_eq!(upper.mode() & 0o7777, mode);
        assert_eq!((upper.uid(), upper.gid()), (wanted.uid, wanted.gid));
        for path in [place.stages_place(), place.stages_place().join("one")] {
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        }
    }
}

#[test]
fn the_directory_of_stages_must_be_ours() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("real")).unwrap();
    let link = temp.path().join("link");
    std::os::unix::fs::symlink("real", &link).unwrap();
    assert!(matches!(Stages::open(&link), Err(StageError::NotOurs(_))));
    if is_root() {
        let theirs = temp.path().join("real");
        std::os::unix::fs::chown(&theirs, Some(1001), None).unwrap();
        assert!(matches!(Stages::open(&theirs), Err(StageError::NotOurs(_))));
    }
}

#[test]
fn one_claim_at_a_time_names_its_holder() {
    let place = Place::new();
    let mut stage = place.make("one");
    let claim = stage.claim().unwrap();
    let mut other = place.make("one");
    match other.claim() {
        Err(StageError::InUse { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        result => panic!("{result:?}"),
    }
    assert!(other.in_use().unwrap());
    // Looking needs no claim.
    other
        .diff(&airlock_sandbox::stage::DiffOptions::default())
        .unwrap();
    drop(claim);
    assert!(!other.in_use().unwrap());
    let _claim = other.claim().unwrap();
}

#[test]
fn a_claim_of_another_process_holds_until_it_ends() {
    let place = Place::new();
    let mut stage = place.make("one");
    let lock = place.stages_place().join("one/lock");
    let mut holder = Command::new("flock")
        .arg(&lock)
        .args(["sh", "-c", "echo held; read _"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    assert!(matches!(stage.claim(), Err(StageError::InUse { .. })));
    assert!(matches!(
        place.stages.drop_stage("one"),
        Err(StageError::InUse { .. })
    ));
    assert!(place.stages.find("one").unwrap().is_some());
    drop(holder.stdin.take());
    holder.wait().unwrap();
    drop(stage.claim().unwrap());
    place.stages.drop_stage("one").unwrap();
}

#[test]
fn a_dropped_stage_cannot_be_claimed_and_its_name_is_free() {
    let place = Place::new();
    let mut stale = place.make("one");
    let old = inode(&place.stages_place().join("one"));
    place.stages.drop_stage("one").unwrap();
    assert!(stale.claim().is_err());
    let mut fresh = place.make("one");
    // The old one is still open, so that its number cannot be another's.
    assert_ne!(inode(&place.stages_place().join("one")), old);
    assert!(stale.claim().is_err());
    let _claim = fresh.claim().unwrap();
}

#[test]
fn only_a_stage_with_which_nothing_is_lost_is_dropped_for_being_unchanged() {
    for setup in [Setup::OVERLAY, Setup::COPY] {
        let bench = Bench::with("echo a >a; echo b >b; chmod 644 a b", setup);
        let dropped = || bench.stages.drop_unchanged("default");
        let there = || bench.stages.find("default").unwrap().is_some();
        // Somebody has it, and may be writing to it at this moment.
        let mut claimed = bench.stages.find("default").unwrap().unwrap();
        let claim = claimed.claim().unwrap();
        assert!(matches!(dropped(), Err(StageError::InUse { .. })) && there());
        drop(claim);
        // What never leaves a stage is in it all the same.
        bench.inside("mkfifo p");
        assert!(bench.diff().changes.is_empty());
        assert!(!dropped().unwrap() && there());
        bench.inside("rm p");
        // A run that was cut off deleted what was staged before: it is nowhere but in what was kept.
        bench.inside("echo staged >new");
        let kept = [Path::new("new").into()];
        drop(bench.stage.set_aside(&kept, serde_json::json!({})).unwrap());
        bench.inside("rm new");
        assert!(bench.diff().is_empty());
        assert!(!dropped().unwrap() && there());
        let aside = bench.stage.unsettled().unwrap().unwrap();
        bench.stage.settle(aside).unwrap();
        bench.inside("echo changed >a");
        assert!(!dropped().unwrap() && there());
        bench.inside("echo a >a");
        assert!(dropped().unwrap() && !there());
        assert!(!dropped().unwrap());
    }
}

#[test]
fn a_drop_that_was_interrupted_is_finished_at_the_next_opening() {
    on_every_overlay("mkdir d; echo a >d/a", |bench| {
        bench.inside("rm -r d; mkdir -p x/y; echo a >x/y/a; chmod 0 x/y");
        let place = bench.temp.path().join("stages");
        std::fs::rename(place.join("default"), place.join(".dropped-default-1")).unwrap();
        std::fs::create_dir_all(place.join(".new-half-made/upper")).unwrap();
        let stages = Stages::open(&place).unwrap();
        assert!(stages.find("default").unwrap().is_none());
        assert_eq!(names(&place), [".making"]);
    });
}

#[test]
fn a_stage_being_made_is_no_leftover() {
    let place = Place::new();
    let draft = place.stages_place().join(".new-other-1");
    std::fs::create_dir(&draft).unwrap();
    let making = std::fs::File::create(place.stages_place().join(".making")).unwrap();
    rustix::fs::flock(&making, rustix::fs::FlockOperation::LockShared).unwrap();
    Stages::open(&place.stages_place()).unwrap();
    assert!(draft.exists());
    drop(making);
    Stages::open(&place.stages_place()).unwrap();
    assert!(!draft.exists());
}

#[test]
fn a_mount_in_a_stage_is_not_entered() {
    if !is_root() {
        // Only root can mount where others see it.
        return;
    }
    let place = Place::new();
    let stage = place.make("one");
    let upper = stage.layers().upper;
    std::fs::create_dir(upper.join("mounted")).unwrap();
    std::fs::create_dir(place.temp.path().join("precious")).unwrap();
    std::fs::write(place.temp.path().join("precious/kept"), "kept").unwrap();
    let (source, target) = (place.temp.path().join("precious"), upper.join("mounted"));
    fed(
        Command::new("mount").arg("--bind").arg(source).arg(&target),
        "",
    );
    let dropped = place.stages.drop_stage("one");
    // What cannot be removed keeps nobody from the others, and is told to whoever asks.
    let others = Stages::open(&place.stages_place()).unwrap();
    let told = others.collect();
    let grave = names(&place.stages_place());
    let grave = grave
        .iter()
        .find(|name| name.starts_with(".dropped-"))
        .cloned();
    let grave = place.stages_place().join(grave.unwrap_or_default());
    fed(Command::new("umount").arg(grave.join("upper/mounted")), "");
    assert!(dropped.is_err());
    assert!(told.is_err());
    assert!(place.temp.path().join("precious/kept").exists());
    Stages::open(&place.stages_place()).unwrap();
    assert_eq!(names(&place.stages_place()), [".making"]);
}

#[test]
fn files_of_the_sandbox_uid_can_be_dropped_by_root() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let upper = place.make("one").layers().upper;
    std::fs::create_dir_all(upper.join("a/b")).unwrap();
    std::fs::write(upper.join("a/b/c"), "c").unwrap();
    for path in ["a/b/c", "a/b", "a"] {
        let id = Some(1_879_048_192);
        std::os::unix::fs::chown(upper.join(path), id, id).unwrap();
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(upper.join(path), closed).unwrap();
    }
    place.stages.drop_stage("one").unwrap();
    assert_eq!(names(&place.stages_place()), [".making"]);
}

#[test]
fn records_of_the_future_and_damaged_ones_are_told_apart() {
    let place = Place::new();
    for (name, record) in [
        ("future", r#"{"format": 2, "anything": []}"#),
        ("damaged", r#"{"format": 1}"#),
        ("nonsense", "\u{0}"),
    ] {
        place.make(name);
        std::fs::write(place.stages_place().join(name).join("stage.json"), record).unwrap();
    }
    assert!(matches!(
        place.stages.find("future"),
        Err(StageError::NewerFormat {
            format: 2,
            known: 1,
            ..
        })
    ));
    for name in ["damaged", "nonsense"] {
        let found = place.stages.find(name);
        assert!(matches!(found, Err(StageError::Damaged { .. })), "{name}");
        place.stages.drop_stage(name).unwrap();
    }
    // What a later version made is for that version to drop.
    assert!(place.stages.drop_stage("future").is_err());
    let list = place.stages.list().unwrap();
    assert_eq!(list.len(), 1);
    assert!(list[0].is_err());
}

#[test]
fn the_list_says_what_each_stage_changes() {
    on_every_overlay("echo a >a; echo b >b; echo same >same", |mut bench| {
        bench.inside("echo 12345 >a; rm b; mkdir d; echo 123 >d/n; touch same");
        let claim = bench.stage.claim().unwrap();
        assert_eq!(bench.diff().changes.len(), 4);
        let list = bench.stages.list().unwrap();
        let [Ok(summary)] = &list[..] else {
            panic!("{list:?}");
        };
        assert_eq!(summary.name.as_str(), "default");
        assert_eq!(summary.kind, StageKind::Overlay);
        assert_eq!((summary.files, summary.bytes, summary.more), (4, 10, false));
        assert!(summary.in_use);
        drop(claim);
        assert!(!bench.stages.list().unwrap()[0].as_ref().unwrap().in_use);
    });
}

/// Says of a stage that it was last written to before the machine was started anew.
fn of_another_run(record: &mut serde_json::Value) {
    assert!(record["written"].is_string());
    record["written"] = "0".repeat(64).into();
}

#[test]
fn what_was_written_before_the_machine_was_started_anew_is_suspect() {
    on_every_stage("echo a >a", |bench| {
        bench.inside("echo x >a");
        let listed = || bench.stages.list().unwrap()[0].as_ref().unwrap().suspect;
        assert!(!bench.diff().suspect && !listed());
        let mut stage = bench.noted(of_another_run);
        let suspect = |stage: &Stage| stage.diff(&DiffOptions::default()).unwrap().suspect;
        assert!(suspect(&stage) && listed());
        // Whoever goes on in it makes what is there no better.
        drop(stage.claim().unwrap());
        let stage = bench.stages.find("default").unwrap().unwrap();
        assert!(suspect(&stage) && listed());
    });
}

#[test]
fn a_stage_that_holds_nothing_is_not_suspect() {
    on_every_overlay("echo a >a", |bench| {
        let mut stage = bench.noted(of_another_run);
        let listed = || bench.stages.list().unwrap()[0].as_ref().unwrap().suspect;
        assert!(!stage.diff(&DiffOptions::default()).unwrap().suspect && !listed());
        let claim = stage.claim().unwrap();
        bench.inside("echo x >a");
        drop(claim);
        assert!(!stage.diff(&DiffOptions::default()).unwrap().suspect && !listed());
    });
}

#[test]
fn a_run_that_was_cut_off_is_told_of_until_another_has_ended() {
    on_every_stage("echo a >a", |bench| {
        let told = || {
            let listed = bench.stages.list().unwrap();
            (bench.diff().cut_off, listed[0].as_ref().unwrap().cut_off)
        };
        bench.inside("echo half >a");
        assert_eq!(told(), (false, false));
        bench.stage.note_cut_off().unwrap();
        assert_eq!(told(), (true, true));
        for _ in 0..2 {
            bench.stage.forget_cut_off().unwrap();
            assert_eq!(told(), (false, false));
        }
    });
}

#[test]
fn nothing_is_told_of_a_run_that_was_cut_off_and_left_nothing() {
    on_every_overlay("echo a >a", |bench| {
        bench.stage.note_cut_off().unwrap();
        assert!(!bench.diff().cut_off);
        let mut stage = bench.stages.find("default").unwrap().unwrap();
        let claim = stage.claim().unwrap();
        bench.inside("echo x >a");
        drop(claim);
        assert!(!bench.diff().cut_off);
    });
}

#[test]
fn a_stage_survives_a_restart() {
    on_every_overlay("echo a >a", |bench| {
        bench.inside("echo b >a");
        let before = bench.diff();
        let Bench {
            temp,
            stages,
            stage,
            ..
        } = bench;
        drop((stages, stage));
        let stages = Stages::open(&temp.path().join("stages")).unwrap();
        let stage = stages.find("default").unwrap().unwrap();
        let after = stage
            .diff(&airlock_sandbox::stage::DiffOptions::default())
            .unwrap();
        assert_eq!(lines(&after), ["modified a"]);
        assert_eq!(before, after);
    });
}

#[test]
fn many_at_once_make_one_stage() {
    let place = Place::new();
    let inodes = std::thread::scope(|scope| {
        let threads = (0..8).map(|_| {
            scope.spawn(|| {
                let stages = Stages::open(&place.stages_place()).unwrap();
                let workspace = place.workspace();
                stages
                    .open_or_create_as("one", &workspace, owner(), Setup::OVERLAY)
                    .unwrap()
                    .created()
            })
        });
        let threads = threads.collect::<Vec<_>>();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert!(inodes.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(names(&place.stages_place()), [".making", "one"]);
}

fn names(place: &Path) -> Vec<String> {
    let mut names = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    // A stage that was never made needed no lock.
    if names.is_empty() {
        names.push(".making".into());
    }
    names
}
