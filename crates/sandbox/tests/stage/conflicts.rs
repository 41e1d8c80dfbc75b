//! Whatever changes in the real tree after a stage began is a conflict, if the stage changes it too.

use super::support::{Bench, lines, on_every_overlay, shell};
use airlock_sandbox::stage::ConflictReason::{self, Appeared, Changed, Vanished};
use airlock_sandbox::stage::{Diff, DiffOptions, Stage, TreePath};

type Case = (
    &'static str,
    /* before */ &'static str,
    /* inside */ &'static str,
    /* meanwhile, outside */ &'static str,
    &'static [(&'static str, ConflictReason)],
);

const CASES: &[Case] = &[
    (
        "untouched inside",
        "echo a >a; echo b >b",
        "echo x >b",
        "echo y >a",
        &[],
    ),
    (
        "written after copy-up",
        "echo a >a",
        "echo x >>a",
        "echo y >>a",
        &[("a", Changed)],
    ),
    (
        "same size and time",
        "echo a >a",
        "echo x >a",
        "touch -r a t; echo y >a; touch -r t a; rm t",
        &[("a", Changed)],
    ),
    (
        "replaced",
        "echo a >a",
        "echo x >a",
        "echo y >n; mv n a",
        &[("a", Appeared)],
    ),
    (
        "chmod outside",
        "echo a >a",
        "echo x >a",
        "chmod 600 a",
        &[("a", Changed)],
    ),
    (
        "deleted inside",
        "echo a >a",
        "rm a",
        "echo y >a",
        &[("a", Changed)],
    ),
    (
        "deleted outside",
        "echo a >a",
        "echo x >>a",
        "rm a",
        &[("a", Vanished)],
    ),
    ("deleted by both", "echo a >a", "rm a", "rm a", &[]),
    ("same by both", "echo a >a", "echo x >a", "echo x >a", &[]),
    (
        "added by both",
        "",
        "echo x >a",
        "echo y >a",
        &[("a", Appeared)],
    ),
    (
        "renamed inside",
        "echo a >a",
        "mv a b",
        "echo y >a",
        &[("a", Changed)],
    ),
    (
        "directory swapped for another",
        "mkdir d e; echo a >d/a; echo e >e/a; echo b >b",
        "echo x >>d/a; echo n >d/n; echo x >b",
        "mv d old; mv e d",
        &[("d/a", Changed)],
    ),
    (
        "deleted directory swapped for another",
        "mkdir d e; echo a >d/a; echo e >e/a",
        "rm -r d",
        "mv d old; mv e d",
        &[("d/a", Changed)],
    ),
    (
        "moved inside, beside a change",
        "echo a >a",
        "mv a b",
        "echo y >other",
        &[],
    ),
    (
        "moved and written to inside",
        "echo a >a",
        "mv a b; echo x >>b",
        ":",
        &[],
    ),
    (
        "new in a deleted directory",
        "mkdir d; echo a >d/a",
        "rm -r d",
        "echo y >d/new",
        &[("d/new", Appeared)],
    ),
    (
        "deep in a replaced directory",
        "mkdir -p d/s; echo a >d/s/a",
        "rm -r d; mkdir d",
        "echo y >d/s/a",
        &[("d/s/a", Changed)],
    ),
    (
        "beside",
        "mkdir d; echo a >d/a",
        "echo x >d/a",
        "echo y >d/other",
        &[],
    ),
    (
        "directory gone outside",
        "mkdir d; echo a >d/a",
        "echo x >>d/a",
        "rm -r d",
        &[("d", Vanished), ("d/a", Vanished)],
    ),
];

#[test]
fn a_change_on_both_sides_is_a_conflict() {
    for (case, prepare, inside, outside, want) in CASES {
        on_every_overlay(prepare, |bench| {
            bench.inside(inside);
            shell(&bench.workspace(), outside);
            let diff = bench.diff();
            assert_eq!(conflicts(&diff), *want, "{case}: {:?}", lines(&diff));
        });
    }
}

fn conflicts(diff: &Diff) -> Vec<(&str, ConflictReason)> {
    let conflicts = diff.conflicts.iter();
    let found =
        conflicts.map(|conflict| (conflict.path.as_path().to_str().unwrap(), conflict.reason));
    found.collect()
}

/// Looks at what is touched, as whoever ran a command does afterwards.
fn look(bench: &Bench) {
    assert!(!bench.stage.touched(100).unwrap().is_empty());
}

const TWO_DIRECTORIES: &str =
    "mkdir -p d/s e/s; echo a >d/a; echo a >d/s/a; cp d/a e; cp d/s/a e/s";
const SWAPPED: &str = "mv d old; mv e d; echo n >d/new";

#[test]
fn an_entry_that_came_later_does_not_hide_that_a_directory_was_swapped() {
    let cases: [Case; 4] = [
        (
            "swapped",
            TWO_DIRECTORIES,
            "echo x >>d/a; echo x >>d/s/a; echo x >d/own",
            SWAPPED,
            &[("d/a", Changed), ("d/s/a", Changed)],
        ),
        (
            "deleted inside",
            TWO_DIRECTORIES,
            "rm d/a; rm -r d/s",
            "mv d/s old; mv e/s d; echo n >d/s/new",
            &[("d/s/a", Changed), ("d/s/new", Appeared)],
        ),
        (
            "entries that come and go",
            TWO_DIRECTORIES,
            "echo x >>d/a; echo x >>d/s/a",
            "echo n >d/new; rm -r e; mkdir d/more; echo n >d/s/new; rm d/s/new",
            &[],
        ),
        (
            "moved away and back",
            TWO_DIRECTORIES,
            "echo x >>d/a",
            "mv d old; mv old d; echo n >d/new",
            &[],
        ),
    ];
    for (case, prepare, inside, outside, want) in cases {
        on_every_overlay(prepare, |bench| {
            bench.inside(inside);
            look(&bench);
            shell(&bench.workspace(), outside);
            // Looking again notes nothing anew.
            look(&bench);
            let diff = bench.diff();
            assert_eq!(conflicts(&diff), want, "{case}: {:?}", lines(&diff));
        });
    }
}

#[test]
fn what_an_emptied_stage_lay_over_is_forgotten() {
    on_every_overlay(TWO_DIRECTORIES, |mut bench| {
        bench.inside("echo x >>d/a");
        look(&bench);
        shell(&bench.workspace(), SWAPPED);
        std::fs::remove_dir_all(bench.upper().join("d")).unwrap();
        // What was changed in the very tick in which it begins counts as changed afterwards.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let _claim = bench.stage.claim().unwrap();
        bench.inside("echo x >>d/a");
        look(&bench);
        shell(&bench.workspace(), "echo n >d/newer");
        assert!(conflicts(&bench.diff()).is_empty());
    });
}

#[test]
fn what_changed_before_a_sandbox_began_on_an_empty_stage_is_no_conflict() {
    on_every_overlay("echo a >a", |mut bench| {
        shell(&bench.workspace(), "echo mine >>a");
        // What was changed in the very tick in which it begins counts as changed afterwards.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let claim = bench.stage.claim().unwrap();
        bench.inside("echo theirs >>a");
        drop(claim);
        assert!(bench.diff().conflicts.is_empty());
        // With changes in it, it does not begin anew.
        shell(&bench.workspace(), "echo mine >>a");
        let _claim = bench.stage.claim().unwrap();
        assert_eq!(bench.diff().conflicts.len(), 1);
    });
}

#[test]
fn where_the_latest_beginning_is_lost_an_earlier_one_holds() {
    on_every_overlay("echo a >a", |mut bench| {
        let home = bench.temp.path().join("stages/default");
        let record = std::fs::read(home.join("stage.json")).unwrap();
        shell(&bench.workspace(), "echo mine >>a");
        std::thread::sleep(std::time::Duration::from_millis(30));
        drop(bench.stage.claim().unwrap());
        bench.inside("echo theirs >>a");
        // Beginning anew writes little, and whoever opens it next knows of it.
        assert_eq!(std::fs::read(home.join("stage.json")).unwrap(), record);
        assert!(reasons(&bench.noted(|_| {})).is_empty());
        // As after a power failure.
        let latest = std::fs::read(home.join("base")).unwrap();
        std::fs::write(home.join("base"), "").unwrap();
        assert_eq!(reasons(&bench.noted(|_| {})).len(), 1);
        // Nor does it count beside another record.
        std::fs::write(home.join("base"), latest).unwrap();
        assert!(reasons(&bench.noted(|_| {})).is_empty());
        let other = bench.noted(|record| add(&mut record["base"]["stamp"]["seconds"], -1));
        assert_eq!(reasons(&other).len(), 1);
    });
}

#[test]
fn a_stage_with_changes_has_its_beginning_in_its_record() {
    on_every_overlay("echo a >a", |mut bench| {
        let home = bench.temp.path().join("stages/default");
        let noted = || std::fs::read(home.join("stage.json")).unwrap();
        let before = noted();
        shell(&bench.workspace(), "echo mine >>a");
        std::thread::sleep(std::time::Duration::from_millis(30));
        let _claim = bench.stage.claim().unwrap();
        let run = |bench: &Bench, script| {
            let aside = bench.stage.set_aside(&[], serde_json::Value::Null).unwrap();
            bench.inside(script);
            bench.stage.settle(aside).unwrap();
        };
        run(&bench, "true");
        assert_eq!(noted(), before, "nothing was changed");
        run(&bench, "echo theirs >>a");
        let kept = noted();
        assert_ne!(kept, before);
        run(&bench, "echo more >>a");
        assert_eq!(noted(), kept, "once is enough");
        std::fs::remove_file(home.join("base")).unwrap();
        assert!(reasons(&bench.noted(|_| {})).is_empty());
    });
}

#[test]
fn whoever_claims_a_stage_knows_what_others_noted_since_they_opened_it() {
    on_every_overlay("echo a >a", |mut bench| {
        let mut other = bench.noted(|_| {});
        drop(bench.stage.claim().unwrap());
        shell(&bench.workspace(), "echo mine >>a");
        std::thread::sleep(std::time::Duration::from_millis(30));
        drop(other.claim().unwrap());
        let again = bench.noted(|record| record["unsure"] = true.into());
        assert!(reasons(&again).is_empty());
        bench.inside("echo theirs >>a");
        assert_eq!(
            reasons(&bench.noted(|_| {})),
            [ConflictReason::ClockWentBack]
        );
        let _claim = bench.stage.claim().unwrap();
        assert_eq!(reasons(&bench.stage), [ConflictReason::ClockWentBack]);
    });
}

#[test]
fn a_stage_with_something_to_put_back_does_not_begin_anew() {
    on_every_overlay("echo a >a", |mut bench| {
        bench.inside("echo new >new");
        let path = TreePath::from(std::path::Path::new("new"));
        let _aside = bench
            .stage
            .set_aside(&[path], serde_json::Value::Null)
            .unwrap();
        bench.inside("rm new");
        // Whoever ran that was killed; meanwhile the real tree has a file there, too.
        shell(&bench.workspace(), "echo mine >new");
        std::thread::sleep(std::time::Duration::from_millis(30));
        let _claim = bench.stage.claim().unwrap();
        bench.inside("echo new >new");
        assert_eq!(reasons(&bench.stage).len(), 1);
    });
}

#[test]
fn a_clock_that_went_back_vouches_for_nothing() {
    on_every_overlay("echo a >a", |bench| {
        bench.inside("echo x >a");
        let stage = bench.noted(|record| {
            record["base"]["stamp"]["seconds"] = 1_u64.checked_shl(40).unwrap().into();
        });
        assert_eq!(reasons(&stage), [ConflictReason::ClockWentBack]);
    });
}

fn reasons(stage: &Stage) -> Vec<ConflictReason> {
    let diff = stage.diff(&DiffOptions::default()).unwrap();
    let reasons = diff.conflicts.iter().map(|conflict| conflict.reason);
    reasons.collect()
}

/// Adds to a number of the record.
fn add(record: &mut serde_json::Value, seconds: i64) {
    *record = (record.as_i64().unwrap() + seconds).into();
}

#[test]
fn a_clock_that_was_set_back_since_hides_no_change() {
    on_every_overlay("echo a >a", |bench| {
        bench.inside("echo x >a");
        assert!(reasons(&bench.stage).is_empty());
        // It was an hour ahead then. What bears a stamp of that hour may be of any time since.
        let stage =
            bench.noted(|record| add(&mut record["base"]["clock"]["started"]["seconds"], 3_600));
        let found = reasons(&stage);
        assert_eq!(found.len(), 1);
        assert_ne!(found, [ConflictReason::ClockWentBack]);
        // And being set forward changes nothing.
        let stage =
            bench.noted(|record| add(&mut record["base"]["clock"]["started"]["seconds"], -7_200));
        assert!(reasons(&stage).is_empty());
    });
}

#[test]
fn a_stage_that_began_after_the_machine_was_started_anew_vouches_for_nothing() {
    on_every_overlay("echo a >a", |bench| {
        bench.inside("echo x >a");
        let mut own = serde_json::Value::Null;
        let mut stage = bench.noted(|record| {
            let boot = &mut record["base"]["clock"]["boot"];
            own = std::mem::replace(boot, "0".repeat(64).into());
        });
        assert_eq!(reasons(&stage), [ConflictReason::ClockWentBack]);
        // Once seen, it stays known, also when the clock has caught up.
        drop(stage.claim().unwrap());
        let stage = bench.noted(|record| record["base"]["clock"]["boot"] = own);
        assert_eq!(reasons(&stage), [ConflictReason::ClockWentBack]);
        // What began before it is told by its stamp.
        let stage = bench.noted(|record| {
            record["unsure"] = false.into();
            record["base"]["clock"]["boot"] = "0".repeat(64).into();
            let started = record["base"]["clock"]["started"]["seconds"].clone();
            record["base"]["stamp"]["seconds"] = started;
            add(&mut record["base"]["stamp"]["seconds"], -10);
        });
        assert_eq!(reasons(&stage).len(), 1);
        assert_ne!(reasons(&stage), [ConflictReason::ClockWentBack]);
    });
}
