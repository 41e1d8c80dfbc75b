//! Runs that did more than can be judged: what they made goes, what was there before stays.

use super::support::{Bench, on_every_stage, tree};
use airlock_sandbox::stage::{Aside, StageError, StageKind, TreePath};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const TREE: &str = "umask 022; mkdir -p d/sub big; echo keep >d/keep; echo deep >d/sub/deep; \
                    echo f >f; echo g >g; seq 1 200 | sed 's,^,big/,' | xargs touch";

/// How much a stage may touch in these tests. Of a copy everything is looked at, changed or not.
fn most(bench: &Bench) -> u64 {
    match bench.stage.kind() {
        StageKind::Overlay => 100,
        StageKind::Copy => 400,
    }
}

fn begun(bench: &Bench, kept: &[&str]) -> Aside {
    let kept: Vec<TreePath> = kept.iter().map(|name| Path::new(name).into()).collect();
    let aside = bench.stage.set_aside(&kept, json!({})).unwrap();
    // A file system stamps in ticks of up to ten milliseconds.
    std::thread::sleep(Duration::from_millis(30));
    aside
}

fn names(bench: &Bench) -> Vec<String> {
    let touched = bench.stage.touched(most(bench)).unwrap().into_iter();
    let text = |path: &TreePath| String::from_utf8(path.as_bytes().to_vec()).unwrap();
    touched.map(|one| text(&one.path)).collect()
}

/// Ways to do too much.
const RUNS: &[&str] = &[
    "mkdir bulk; cd bulk; seq 1 300 | xargs touch",
    "seq 1 300 | sed 's,^,z,' | xargs touch",
    "for i in 1 2 3 4 5 6; do mkdir -p many/$i; seq 1 50 | sed \"s,^,many/$i/,\" | xargs touch; \
     chmod 000 many/$i; done",
    "rm -r big",
    "rm -r big; mkdir big; echo x >big/x",
    "mkdir links; echo x >links/0; for i in $(seq 1 250); do ln links/0 links/$i; done",
    "mkdir copies; for i in $(seq 1 250); do cp f copies/$i; done; echo n >t; mv t g",
];

/// The same over what was there before.
const OVER: &str =
    "rm -f f; chmod 700 big; mkdir n; rm -r d; mkdir d; cd d; seq 1 300 | xargs touch";

#[test]
fn a_run_in_a_stage_that_changed_nothing_is_taken_back_whole() {
    for run in RUNS.iter().chain([&OVER]) {
        on_every_stage(TREE, |bench| {
            // A copy holds too little for its deletion to be too much.
            if bench.stage.kind() == StageKind::Copy && run.starts_with("rm -r big") {
                return;
            }
            let aside = begun(&bench, &[]);
            bench.inside(run);
            let error = bench.stage.touched(most(&bench)).unwrap_err();
            assert!(matches!(error, StageError::TooManyChanges { .. }), "{run}");
            bench.stage.undo(&aside, true).unwrap();
            assert_eq!(names(&bench), Vec::<String>::new(), "{run}");
            bench.stage.settle(aside).unwrap();
            let left = bench.inside_kept("");
            assert_eq!(tree(&left), tree(&bench.workspace()), "{run}");
        });
    }
}

#[test]
fn what_a_stage_held_before_the_run_stays() {
    for run in RUNS {
        for kept in [&[][..], &["f"]] {
            super::support::on_every_overlay(TREE, |bench| {
                bench.inside("echo staged >f; mkdir -p old/in; echo o >old/in/o; rm d/keep");
                let before = names(&bench);
                assert_eq!(before, ["d/keep", "f", "old", "old/in", "old/in/o"]);
                let aside = begun(&bench, kept);
                bench.inside(run);
                assert!(bench.stage.touched(most(&bench)).is_err(), "{run}");
                bench.stage.undo(&aside, false).unwrap();
                assert_eq!(names(&bench), before, "{run}");
                let seen = std::fs::read_to_string(bench.upper().join("f")).unwrap();
                assert_eq!(seen, "staged\n", "{run}");
            });
        }
    }
}

#[test]
fn new_names_of_what_was_there_before_do_not_help() {
    on_every_stage(TREE, |bench| {
        bench.inside("mkdir old; echo o >old/o");
        let aside = begun(&bench, &[]);
        bench.inside("mkdir links; for i in $(seq 1 250); do ln old/o links/$i; done");
        assert!(bench.stage.touched(most(&bench)).is_err());
        bench.stage.undo(&aside, false).unwrap();
        // One of its names stays, with what it holds.
        let left = names(&bench);
        let files: Vec<&String> = left.iter().filter(|name| name.contains('/')).collect();
        let [file] = files.as_slice() else {
            panic!("{left:?}");
        };
        let text = std::fs::read_to_string(bench.upper().join(file)).unwrap();
        assert_eq!(text, "o\n");
    });
}
