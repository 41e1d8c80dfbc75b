//! Code on disk: used where it is as it was kept, and made anew where it is not.

use crate::support::{World, ask, plugin};
use airlock_plugin::{CallError, Instance};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

fn entries(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.home.path().join("code")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn cached(world: &World) -> bool {
    let instance = world.start();
    assert_eq!(ask(&*instance), Ok(json!("done")));
    instance.report()["code"] == "cached"
}

fn world() -> World {
    let mut world = World::wat(&plugin("", "", "(return (call $ok))"));
    world.is_cached = true;
    world
}

#[test]
fn the_second_start_takes_the_code_of_the_first() {
    let world = world();
    assert!(!cached(&world));
    assert!(cached(&world));
    assert_eq!(entries(&world).len(), 1);
}

#[test]
fn a_tampered_entry_is_refused_and_made_anew() {
    let world = world();
    assert!(!cached(&world));
    let entry = entries(&world).pop().unwrap();
    let kept = fs::read(&entry).unwrap();
    for at in [0, 20, 48, kept.len() / 2, kept.len() - 1] {
        let mut changed = kept.clone();
        changed[at] ^= 0xff;
        fs::write(&entry, changed).unwrap();
        assert!(!cached(&world), "byte {at} was changed");
        assert!(cached(&world), "the entry is good again");
    }
}

#[test]
fn code_of_another_module_is_not_taken_for_this_one() {
    let world = world();
    assert!(!cached(&world));
    let own = entries(&world).pop().unwrap();
    let mut other = World::wat(&plugin("", "", "unreachable"));
    other.is_cached = true;
    drop(other.start());
    // With the same key even: what it authenticates is another module's code.
    fs::copy(entries(&other).pop().unwrap(), &own).unwrap();
    fs::copy(other.home.path().join("key"), world.home.path().join("key")).unwrap();
    let instance = world.start();
    assert_eq!(instance.report()["code"], "compiled");
    assert_eq!(ask(&*instance), Ok(json!("done")));
}

#[test]
fn code_for_other_settings_is_kept_beside() {
    let spinning = plugin("", "", "(loop $again (br $again)) unreachable");
    let mut world = World::wat(&spinning);
    world.is_cached = true;
    world.limits.fuel = 100_000;
    let out_of_fuel = |instance: &dyn Instance| {
        assert_eq!(ask(instance), Err(CallError::Limit("fuel")));
        instance.report()["code"] == "cached"
    };
    assert!(!out_of_fuel(&*world.start()));
    // What code does not depend on does not make it another.
    world.limits.fuel = 200_000;
    assert!(
        out_of_fuel(&*world.start()),
        "limits hold for cached code, too"
    );
}
