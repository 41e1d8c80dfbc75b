//! What is tried over a stage: it sees the stage's changes, and leaves none.

use crate::support::{Place, sh};
use airlock_sandbox::launch::Layers;
use airlock_sandbox::stage::{Stage, Stages};
use airlock_sandbox::{stage_owner, start};
use std::path::PathBuf;

/// A real tree, and the stages over it.
struct Bench {
    place: Place,
    stages: Stages,
}

impl Bench {
    /// With changes of every kind in its stage.
    fn new() -> Self {
        let place = Place::new();
        for directory in ["tree/kept", "tree/replaced", "tree/gone"] {
            std::fs::create_dir(place.path(directory)).unwrap();
        }
        for name in ["file", "deleted", "kept/inside", "replaced/old", "gone/in"] {
            place.write(&format!("tree/{name}"), "real\n");
        }
        let stages = Stages::open(&place.path("stages")).unwrap();
        let bench = Self { place, stages };
        let mut stage = bench.stage();
        let _claim = stage.claim().unwrap();
        let change = "echo staged >file; echo staged >added; rm deleted; \
                      rm -r gone replaced; mkdir replaced; echo staged >replaced/new";
        bench.runs(stage.layers(), change);
        bench
    }

    fn stage(&self) -> Stage {
        let tree = self.place.path("tree");
        let found = self.stages.open_or_create("default", &tree, stage_owner());
        found.unwrap()
    }

    fn runs(&self, layers: Layers, script: &str) -> String {
        let mut launch = self.place.launch(|plan| plan);
        launch.layers = Some(layers);
        sh(&mut start(launch).unwrap(), script)
    }

    /// What `script` prints that is only tried.
    fn tries(&self, script: &str) -> String {
        let mut stage = self.stage();
        let claim = stage.claim().unwrap();
        let trial = stage.trial(&claim).unwrap().unwrap();
        self.runs(trial.layers(), script)
    }

    /// Everything beneath the directory of the stage: names, and the contents of files.
    fn held(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let place = self.place.path("stages/default");
        let mut found = Vec::new();
        let mut waiting = vec![place.join("upper")];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let facts = std::fs::symlink_metadata(&path).unwrap();
                if facts.is_dir() {
                    waiting.push(path.clone());
                }
                let text = facts.is_file().then(|| std::fs::read(&path).unwrap());
                found.push((path, text));
            }
        }
        for entry in std::fs::read_dir(place).unwrap() {
            found.push((entry.unwrap().path(), None));
        }
        found.sort();
        found
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Overlays of an ordinary user leave directories that nobody may enter.
        self.stages.drop_stage("default").unwrap();
    }
}

const LOOK: &str =
    "cat file added kept/inside replaced/new; ls; ls replaced /tmp/left 2>/dev/null; true";
const SEEN: &str = "staged\nstaged\nreal\nstaged\nadded\nfile\nkept\nreplaced\nreplaced:\nnew\n";

#[test]
fn what_is_tried_sees_the_stage_and_leaves_it_as_it_was() {
    let bench = Bench::new();
    let before = bench.held();
    assert_eq!(bench.tries(LOOK), SEEN);
    let change = "echo tried >>file; echo tried >more; rm added; rm -r kept replaced; \
                  mkdir gone deleted; echo x >/tmp/left; cat file; ls";
    let changed = "staged\ntried\ndeleted\nfile\ngone\nmore\n";
    assert_eq!(bench.tries(change), changed);
    assert!(bench.held() == before, "the stage is as it was");
    // The next one meets nothing of it.
    assert_eq!(bench.tries(LOOK), SEEN);
    assert_eq!(bench.place.read("tree/file").as_deref(), Some("real\n"));
    // And the stage is used as before.
    let mut stage = bench.stage();
    let _claim = stage.claim().unwrap();
    assert_eq!(bench.runs(stage.layers(), LOOK), SEEN);
}

#[test]
fn what_a_killed_supervisor_left_of_a_trial_is_not_met_by_the_next() {
    let bench = Bench::new();
    let left = bench.place.path("stages/default/trial");
    std::fs::create_dir_all(left.join("replaced")).unwrap();
    std::fs::write(left.join("file"), "left\n").unwrap();
    assert_eq!(bench.tries(LOOK), SEEN);
    assert!(!left.exists());
}
