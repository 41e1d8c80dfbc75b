//! The table: what is attempted, in which scene, and what must be met.

mod bombs;
mod denied;
mod lifetime;
mod network;
mod privileges;
mod secrets;
mod state;
mod syscalls;
mod takeover;
mod terminal;
mod writing;

use crate::attack::Attack;
use crate::scene::Scene;
use serde_json::{Value, json};

/// What is there only to be read.
const READ_ONLY: &[&str] = &["EROFS", "EACCES", "EPERM", "EXDEV"];
/// What is masked, read-only, or not there at all.
const MASKED: &[&str] = &["EROFS", "EACCES", "EPERM", "ENOENT"];

/// Every attack, by class.
pub fn attacks() -> impl Iterator<Item = Attack> {
    [
        secrets::ROWS,
        denied::ROWS,
        writing::ROWS,
        state::ROWS,
        privileges::ROWS,
        syscalls::ROWS,
        network::ROWS,
        terminal::ROWS,
        bombs::ROWS,
        lifetime::ROWS,
        takeover::ROWS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// A scene in which the probe needs to know nothing.
fn nothing(_: &mut Scene) -> Value {
    json!({})
}

/// A scene in which a control has to bring its own ways.
fn own(scene: &mut Scene) -> Value {
    json!({ "own": !scene.confined })
}

/// Someone on the host who holds the secret.
fn victim(scene: &mut Scene) -> u64 {
    let given = json!({ "marker": scene.marker });
    let told = scene.victim("sleeper", &given);
    told.get("pid").and_then(Value::as_u64).unwrap_or(0)
}

/// Inside, the first process; for the control, a victim in its place.
fn first_process(scene: &mut Scene) -> u64 {
    if scene.confined { 1 } else { victim(scene) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::{Class, Judge};
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_name_of_its_own_an_expected_denial_and_a_wall() {
        let mut names = BTreeSet::new();
        for attack in attacks() {
            assert!(names.insert(attack.name), "{} twice", attack.name);
            let expects = !attack.denied.is_empty() || !attack.ends.is_empty();
            assert!(
                expects || attack.judge == Judge::Host || attack.orphaned,
                "{}",
                attack.name
            );
            assert!(!attack.walls.is_empty(), "{}", attack.name);
            assert!(!attack.about.is_empty(), "{}", attack.name);
        }
        assert!(names.len() >= 110, "{}", names.len());
    }

    #[test]
    fn only_these_rows_may_be_without_a_control_that_succeeds() {
        let lacking = attacks().filter(Attack::may_lack_control);
        let mut lacking: Vec<&str> = lacking.map(|attack| attack.name).collect();
        lacking.sort_unstable();
        let known = [
            "bomb-descriptors",
            "disk",
            "hotplug",
            "kernel-memory",
            "modprobe",
            "out-of-memory-score",
            "raw-disk",
            "sysrq",
            "user-limits",
        ];
        assert_eq!(lacking, known);
    }

    #[test]
    fn every_class_is_attacked() {
        for class in Class::ALL {
            assert!(attacks().any(|attack| attack.class == *class), "{class:?}");
        }
    }
}
