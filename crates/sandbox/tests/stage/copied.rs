//! Stages that are copies say the same as overlays.

use super::support::{Bench, Seen, lines, owner, shell, tree};
use airlock_sandbox::launch::LayersKind;
use airlock_sandbox::stage::{ConflictReason, CopyLimits, Setup, StageError, StageKind, Stages};
use std::path::Path;

fn bench(prepare: &str) -> Bench {
    Bench::with(prepare, Setup::COPY)
}

const PREPARE: &str = "mkdir -p d/s; echo a >a; echo b >b; echo c >d/c; echo s >d/s/s; \
                       ln -s a l; chmod 755 b; mkfifo p; mkdir empty; chmod 750 d";

#[test]
fn a_copy_is_the_tree_without_what_could_not_be_used() {
    let bench = bench(PREPARE);
    assert_eq!(bench.stage.kind(), StageKind::Copy);
    assert_eq!(bench.stage.layers().kind, LayersKind::Copy);
    let mut want = tree(&bench.workspace());
    assert_eq!(want.remove(Path::new("p")), Some(Seen::Other));
    assert_eq!(tree(&bench.stage.layers().upper), want);
    assert!(bench.diff().is_empty());
}

#[test]
fn every_kind_of_change_is_found() {
    let bench = bench(PREPARE);
    bench.inside(
        "echo x >>a; chmod 644 b; mv d/c moved; rm -r d/s; rm l; mkdir l; rmdir empty; \
         echo n >new; touch d; mkfifo q",
    );
    let diff = bench.diff();
    let want = [
        "modified a",
        "mode b",
        "deleted d/s",
        "deleted d/s/s",
        "deleted empty",
        "type l",
        "renamed d/c moved",
        "added new",
    ];
    assert_eq!(lines(&diff), want);
    assert_eq!(diff.refused.len(), 1);
    assert!(diff.conflicts.is_empty());
    assert_eq!(diff.kind, StageKind::Copy);
}

#[test]
fn what_was_changed_in_the_real_tree_is_a_conflict_only_if_changed_here_too() {
    let bench = bench("echo a >a; echo b >b; echo c >c; echo u >u; mkdir d; echo x >d/x");
    bench.inside("echo here >a; echo here >>c; echo here >n; rm b; rm -r d");
    shell(
        &bench.workspace(),
        "echo there >a; rm c; echo there >n; echo there >b; echo there >u; echo y >d/y",
    );
    let found = bench
        .diff()
        .conflicts
        .iter()
        .map(|c| (c.path.as_path().to_str().unwrap().to_owned(), c.reason))
        .collect::<Vec<_>>();
    let want = [
        ("a", ConflictReason::Changed),
        ("b", ConflictReason::Changed),
        ("c", ConflictReason::Vanished),
        ("d/y", ConflictReason::Appeared),
        ("n", ConflictReason::Appeared),
    ]
    .map(|(path, reason)| (path.to_owned(), reason));
    assert_eq!(found, want);
}

#[test]
fn a_directory_swapped_for_another_is_a_conflict() {
    let bench = bench("mkdir d e; echo a >d/a; echo e >e/a");
    bench.inside("echo here >>d/a");
    shell(&bench.workspace(), "mv d old; mv e d; echo n >d/n");
    assert_eq!(bench.diff().conflicts.len(), 1);
}

#[test]
fn more_than_the_limits_is_refused_with_the_figures_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let workspace = temp.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    shell(&workspace, "seq 1 20 | xargs touch; truncate -s 1000 big");
    let stages = Stages::open(&temp.path().join("stages")).unwrap();
    for (files, bytes, works) in [(21, 1000, true), (20, 1000, false), (21, 999, false)] {
        let setup = Setup {
            limits: CopyLimits { files, bytes },
            ..Setup::COPY
        };
        let made = stages.open_or_create_as("one", &workspace, owner(), setup);
        match made {
            Ok(_) => {
                assert!(works, "{files} {bytes}");
                stages.drop_stage("one").unwrap();
            }
            Err(StageError::TooLargeToCopy {
                most_files,
                most_bytes,
                ..
            }) => {
                assert!(!works, "{files} {bytes}");
                assert_eq!((most_files, most_bytes), (files, bytes));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(stages.list().unwrap().is_empty());
        let left = std::fs::read_dir(temp.path().join("stages"))
            .unwrap()
            .count();
        assert_eq!(left, 1, "only the lock");
    }
}

#[test]
fn special_bits_are_not_copied_and_their_absence_is_no_change() {
    let bench = bench("echo a >a; chmod 4755 a; mkdir d; chmod 2755 d");
    bench.inside("touch a d; test ! -u a");
    assert!(bench.diff().is_empty());
}

#[test]
fn an_untouched_file_is_not_looked_up_in_the_real_tree() {
    let bench = bench("seq 1 500 | xargs touch; echo a >a");
    bench.inside("echo b >a");
    // 501 entries of the copy, and the one that changed.
    assert_eq!(bench.diff().visited, 502);
}

#[test]
fn a_whiteout_in_a_copy_is_a_device() {
    let bench = bench("echo a >a");
    bench.inside("rm a; mknod a c 0 0");
    let diff = bench.diff();
    assert!(diff.changes.is_empty());
    assert_eq!(
        diff.refused[0].reason,
        airlock_sandbox::stage::RefusedReason::Device
    );
}
