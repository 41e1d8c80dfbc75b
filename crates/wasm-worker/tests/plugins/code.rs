//! Code on disk: used where it is as it was kept, and made anew where it is not.

use crate::support::{World, ask, plugin};
use airlock_core::Digest;
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

/// Exchanges the entry of a world, or what is around it.
type Spoil = fn(&std::path::Path, &World);

#[test]
fn an_entry_that_is_not_whole_private_and_its_own_is_refused_and_made_anew() {
    let spoils: [(&str, Spoil); 9] = [
        ("cut", |entry, _| {
            let kept = fs::read(entry).unwrap();
            fs::write(entry, &kept[..kept.len() - 1]).unwrap();
        }),
        ("cut to its head", |entry, _| {
            let kept = fs::read(entry).unwrap();
            fs::write(entry, &kept[..40]).unwrap();
        }),
        ("empty", |entry, _| fs::write(entry, b"").unwrap()),
        ("longer", |entry, _| {
            let kept = fs::read(entry).unwrap();
            fs::write(entry, [&kept[..], &kept[..]].concat()).unwrap();
        }),
        ("swapped for a link to itself", |entry, world| {
            let away = world.home.path().join("away");
            fs::rename(entry, &away).unwrap();
            std::os::unix::fs::symlink(away, entry).unwrap();
        }),
        ("readable to the group", |entry, _| mode(entry, 0o640)),
        ("writable to others", |entry, _| mode(entry, 0o602)),
        ("another key", |_, world| {
            fs::remove_file(world.home.path().join("key")).unwrap();
        }),
        ("another owner", |entry, _| {
            // Only root can give a file away.
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(entry, Some(65_432), None).unwrap();
            } else {
                mode(entry, 0o644);
            }
        }),
    ];
    for (case, spoil) in spoils {
        let world = world();
        assert!(!cached(&world), "{case}");
        let entry = entries(&world).pop().unwrap();
        spoil(&entry, &world);
        assert!(!cached(&world), "{case}: it was taken");
        assert!(cached(&world), "{case}: it was not made anew");
    }
}

fn mode(path: &std::path::Path, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(path, mode).unwrap();
}

#[test]
fn entries_that_were_swapped_are_both_refused() {
    let (one, mut two) = (world(), world());
    // The same cache, two modules.
    two.module = wat::parse_str(plugin("", "other", "(return (call $ok))")).unwrap();
    assert!(!cached(&one));
    let first = entries(&one).pop().unwrap();
    fs::copy(one.home.path().join("key"), two.home.path().join("key")).unwrap();
    assert!(!cached(&two));
    let second = entries(&two).pop().unwrap();
    let (a, b) = (fs::read(&first).unwrap(), fs::read(&second).unwrap());
    fs::write(&first, b).unwrap();
    fs::write(&second, a).unwrap();
    assert!(!cached(&one) && !cached(&two));
    assert!(cached(&one) && cached(&two), "each is good again");
}

#[test]
fn code_of_another_engine_is_not_taken_though_its_entry_is_good() {
    // As if the engine had been another when the code was kept: authentic, under the name it would
    // have had then, and under the name it is looked for by.
    let world = world();
    assert!(!cached(&world));
    let cache = world.cache();
    let module = Digest::of(&world.module);
    let entry = entries(&world).pop().unwrap();
    let code = fs::read(&entry).unwrap().split_off(48);
    cache
        .keep(&module, &Digest::of(b"another engine"), &code)
        .unwrap();
    let mut others = entries(&world);
    others.retain(|path| *path != entry);
    let other = others.pop().unwrap();
    assert!(cached(&world), "what is beside does not matter");
    fs::rename(other, &entry).unwrap();
    assert!(!cached(&world), "an entry for another engine");
    assert!(cached(&world));
}

#[test]
fn authentic_code_that_the_engine_did_not_make_is_compiled_anew() {
    let world = world();
    assert!(!cached(&world));
    let engine = engine(&world);
    let module = Digest::of(&world.module);
    // Of another configuration: wasmtime itself says so. And bytes that are no code at all.
    let configured = another_configuration(&world.module);
    for (case, bytes) in [
        ("another configuration", configured),
        ("no code", b"nothing of the kind".to_vec()),
        ("nothing", Vec::new()),
    ] {
        world.cache().keep(&module, &engine, &bytes).unwrap();
        assert!(!cached(&world), "{case}");
        assert!(cached(&world), "{case}: it was not made anew");
    }
}

/// The module as wasmtime compiles it when it is asked for nothing in particular.
fn another_configuration(module: &[u8]) -> Vec<u8> {
    let engine = wasmtime::Engine::default();
    engine.precompile_module(module).unwrap()
}

/// The digest of the engine that workers say they have: the one under which the entry is found.
fn engine(world: &World) -> Digest {
    let said = world.start().report()["engine"].clone();
    said.as_str().unwrap().parse().unwrap()
}

#[test]
fn what_code_does_not_depend_on_does_not_make_it_another() {
    let spinning = plugin("", "", "(loop $again (br $again)) unreachable");
    let mut world = World::wat(&spinning);
    world.is_cached = true;
    world.limits.fuel = 100_000;
    let out_of_fuel = |instance: &dyn Instance| {
        assert_eq!(ask(instance), Err(CallError::Limit("fuel")));
        instance.report()["code"] == "cached"
    };
    assert!(!out_of_fuel(&*world.start()));
    world.limits.fuel = 200_000;
    assert!(
        out_of_fuel(&*world.start()),
        "limits hold for cached code, too"
    );
}
