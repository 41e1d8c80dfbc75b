//! Machines in a bad way: no home, no room, no permission, no directory.

use crate::support::{World, program, read_only_disk, tiny_disk, unprivileged};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_state_home_that_cannot_be_used_says_so_and_nothing_is_done() {
    let mut world = World::project();
    world.alone();
    let below_a_file = world.path("file");
    std::fs::write(&below_a_file, "").unwrap();
    for (shown, home) in [
        ("below a file", below_a_file.join("x").display().to_string()),
        (
            "inside the workspace",
            world.workspace().join("state").display().to_string(),
        ),
    ] {
        let mut command = world.command(&["tool", "call", "fs.read", "path=README.md"]);
        command.env("XDG_STATE_HOME", home);
        let line = format!("tool call fs.read path=README.md (state {shown})");
        let ran = world.record(&line, &mut command);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{shown}");
    }
    let words = "tool call fs.read path=README.md";
    let mut command = read_only_disk(&world, words);
    let ran = world.record(
        &format!("{words} (state on a read-only disk)"),
        &mut command,
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    let state = world.path("state");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = unprivileged(&world, &["tool", "call", "fs.read", "path=README.md"]);
    let ran = world.record(
        "tool call fs.read path=README.md (state not writable)",
        &mut command,
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    world.compare("machine_state");
}

#[test]
fn a_full_disk_stops_the_action_before_it_happens() {
    let mut world = World::project();
    let mut command = tiny_disk(
        &world,
        "size=64k",
        "dd if=/dev/zero of=\"$STATE/filler\" bs=1k 2>/dev/null; exec \"$AIRLOCK\" tool call fs.read path=README.md",
    );
    let ran = world.record(
        "tool call fs.read path=README.md (no room at all)",
        &mut command,
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    let mut command = tiny_disk(
        &world,
        "size=1200k",
        "\"$AIRLOCK\" tool call fs.list >/dev/null && dd if=/dev/zero of=\"$STATE/filler\" bs=1k 2>/dev/null; exec \"$AIRLOCK\" tool call fs.read path=README.md --json",
    );
    let ran = world.record(
        "tool call fs.read path=README.md --json (room gone)",
        &mut command,
    );
    assert_eq!(ran.code, Some(1));
    assert!(!ran.stdout.contains("say what it does"), "{ran:?}");
    world.compare("machine_full");
}

#[test]
fn without_a_home_it_says_what_to_set() {
    let mut world = World::project();
    for (shown, name, value) in [
        ("HOME unset", "", ""),
        ("HOME relative", "HOME", "here"),
        ("HOME empty", "HOME", ""),
    ] {
        let mut command = world.command(&["trust", "show"]);
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        if !name.is_empty() {
            command.env(name, value);
        }
        let ran = world.record(&format!("trust show ({shown})"), &mut command);
        assert_eq!(ran.code, Some(1), "{shown}");
    }
    let mut command = world.command(&["trust", "show"]);
    command
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME");
    world.record("trust show (HOME alone)", &mut command);
    assert!(world.path("home/.local/state/airlock").is_dir());
    world.compare("machine_home");
}

#[test]
fn a_deleted_directory_says_so() {
    let mut world = World::project();
    let gone = world.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut command = program("sh");
    world.prepare(&mut command);
    command
        .args(["-c", "rmdir \"$PWD\" && exec \"$AIRLOCK\" trust show"])
        .current_dir(&gone)
        .env("AIRLOCK", crate::support::binary());
    let ran = world.record("trust show (in a deleted directory)", &mut command);
    assert_eq!(ran.code, Some(1));
    world.compare("machine_deleted");
}

#[test]
fn a_workspace_that_is_none_is_refused_by_every_command() {
    let mut world = World::project();
    world.run_all(&[
        "--workspace missing trust show",
        "--workspace README.md trust show",
        "--workspace missing config show",
        "--workspace missing policy check",
        "--workspace missing audit verify --json",
    ]);
    let mut command = world.command(&["trust", "show"]);
    command.env("AIRLOCK_WORKSPACE", "missing");
    world.record("trust show (AIRLOCK_WORKSPACE=missing)", &mut command);
    for words in [
        "kernel --foreground",
        "mcp serve",
        "tool call fs.list",
        "tool list",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        for place in ["missing", "README.md"] {
            let ran = world.quiet(&[&["--workspace", place][..], &words[..]].concat());
            assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
            assert!(ran.stderr.contains("cannot open workspace"), "{ran:?}");
        }
    }
    // Its other codes are the command's own.
    let ran = world.quiet(&["--workspace", "missing", "exec", "--", "true"]);
    assert_eq!(ran.code, Some(125), "{ran:?}");
    world.compare("machine_workspace");
}

#[test]
fn directories_that_cannot_be_read_say_so() {
    let mut world = World::governed();
    world.write("locked/file.txt", "hidden\n");
    let locked = world.workspace().join("locked");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    for line in [
        "tool call fs.list path=locked",
        "tool call fs.read path=locked/file.txt",
        "tool call search.grep pattern=hidden",
        "--workspace locked trust show",
    ] {
        let args: Vec<&str> = line.split_whitespace().collect();
        let mut command = unprivileged(&world, &args);
        world.record(line, &mut command);
    }
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.compare("machine_locked");
}

#[test]
fn a_workspace_is_found_from_below_it() {
    let world = World::governed();
    let mut command = world.command(&["policy", "check"]);
    command.current_dir(world.workspace().join("src"));
    let ran = crate::support::finished(&mut command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
