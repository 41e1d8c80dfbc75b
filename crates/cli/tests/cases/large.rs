//! A workspace of a million files.

use crate::support::World;
use std::fs;

const DIRECTORIES: usize = 1_000;
const FILES: usize = 1_000;

/// Names of one file a directory: what counts is how many there are to be walked over.
fn fill(world: &World, directories: std::ops::Range<usize>) {
    for directory in directories {
        let first = world.write(&format!("d{directory}/0"), "old\n");
        let beside = first.parent().unwrap();
        for file in 1..FILES {
            fs::hard_link(&first, beside.join(file.to_string())).unwrap();
        }
    }
}

#[test]
fn a_workspace_of_a_million_files_is_boxed_in_staged_and_compared_like_any_other() {
    let world = World::governed();
    std::thread::scope(|scope| {
        scope.spawn(|| fill(&world, 0..DIRECTORIES / 2));
        scope.spawn(|| fill(&world, DIRECTORIES / 2..DIRECTORIES));
    });
    let script = "cat d999/999; echo new > d500/777; rm d0/1; cat .env";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.stdout, "old\n", "{ran:?}");
    assert_eq!(ran.code, Some(1), "what policy denies is denied here, too");
    let changed = world.quiet(&["diff", "--json"]).json();
    assert_eq!(changed["changes"].as_array().unwrap().len(), 2, "{changed}");
    assert_eq!(
        fs::read_to_string(world.path("ws/d500/777")).unwrap(),
        "old\n"
    );
    let listed = world.quiet(&["tool", "call", "fs.list", "path=d7"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
}
