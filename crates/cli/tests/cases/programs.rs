//! `airlock` is two programs: the small one hands on what it does not do to its end itself.

use crate::support::{Ran, World, binary, copy_binary, finished, program, wait_until, whole};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A command line that runs a command, for every way in which that ends.
const ENDS: &[&[&str]] = &[
    &["--", "true"],
    &["--", "false"],
    &["--", "sh", "-c", "echo out; echo err >&2; exit 3"],
    &["--", "sh", "-c", "echo new > made; rm README.md"],
    &["--", "cat", ".env"],
    &["--", "no-such-program"],
    &["--", "./README.md"],
    &["--", "sh", "-c", "kill -9 $$"],
    &["--timeout", "1s", "--", "sleep", "60"],
    &["--memory", "900GiB", "--", "true"],
    &["--template", "no-such", "--", "true"],
    &["--deny", "**/*.md", "--", "ls"],
    &["--stage", "other", "--", "touch", "there"],
    &["--no-stage", "--", "touch", "there"],
    &["--json", "--", "sh", "-c", "printf '\\377'; exit 5"],
    &["--color", "always", "--", "no-such-program"],
    &["--timeout", "soon", "--", "true"],
    &["--no-such-flag", "--", "true"],
    &["--", "sh", "-c", "yes | head -c 300000"],
    &["--"],
];

/// What a program says, with what differs from run to run made equal.
fn said(program: &str, world: &World, words: &[&str]) -> String {
    let mut command = crate::support::program(program);
    world.prepare(&mut command);
    let ran = finished(command.arg("exec").args(words));
    let hidden = regex::Regex::new(r#""(action|sandbox|wall_ms|peak_memory)":[^,}]*"#).unwrap();
    hidden.replace_all(&format!("{ran:?}"), "$1").into_owned()
}

#[test]
fn the_small_program_says_and_does_what_the_whole_one_would() {
    let world = World::governed();
    world.write(".env", "TOKEN=x\n");
    for served in [false, true] {
        let _served = served.then(|| world.serve());
        for words in ENDS {
            let [by_small, by_whole] = [binary(), whole()].map(|one| {
                let said = said(one, &world, words);
                for stage in ["default", "other"] {
                    world.quiet(&["stage", "drop", stage]);
                }
                said
            });
            assert_eq!(by_small, by_whole, "served: {served}, {words:?}");
        }
    }
}

/// With colours as a setting has them, which tests otherwise have none of.
#[test]
fn what_the_whole_program_says_in_the_end_has_the_colours_one_set() {
    let world = World::governed();
    let _served = world.serve();
    for (color, colored) in [("always", true), ("never", false)] {
        for one in [binary(), whole()] {
            let mut command = program(one);
            world.prepare(&mut command);
            command.env("AIRLOCK_COLOR", color).env_remove("NO_COLOR");
            let ran = finished(command.args(["exec", "--", "no-such-program"]));
            assert_eq!(ran.stderr.contains('\u{1b}'), colored, "{one}: {ran:?}");
        }
    }
}

/// A kernel of a copy of both programs, and that copy.
fn copied(world: &World) -> std::path::PathBuf {
    world.alone();
    let small = world.path("programs/airlock");
    std::fs::create_dir_all(small.parent().unwrap()).unwrap();
    copy_binary(&small);
    let ran = run(world, &small, &["kernel", "--idle", "5m"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    small
}

fn run(world: &World, airlock: &Path, words: &[&str]) -> Ran {
    let mut command = program(airlock.to_str().unwrap());
    world.prepare(&mut command);
    finished(command.args(words))
}

fn may_run(program: &Path, may: bool) {
    let mode = if may { 0o755 } else { 0o644 };
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(program, permissions).unwrap();
}

#[test]
fn a_command_of_which_there_is_nothing_to_say_is_over_in_the_small_program() {
    let world = World::governed();
    let small = copied(&world);
    let other = small.with_file_name("airlock-main");
    may_run(&other, false);
    for (script, code) in [("exit 0", 0), ("echo out; exit 7", 7)] {
        let ran = run(&world, &small, &["exec", "--", "sh", "-c", script]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_eq!(ran.stderr, "");
    }
    // What there is to be said, it does not say itself.
    for (script, why) in [
        ("echo x > made", "it changed a file"),
        ("cat .env", "it was kept from a file"),
    ] {
        world.write(".env", "TOKEN=x\n");
        let ran = run(&world, &small, &["exec", "--", "sh", "-c", script]);
        assert_eq!(ran.code, Some(125), "{why}: {ran:?}");
        assert!(
            ran.stderr.contains("cannot start `airlock-main`"),
            "{ran:?}"
        );
    }
    may_run(&other, true);
    assert_eq!(run(&world, &small, &["kernel", "stop"]).code, Some(0));
}

#[test]
fn without_the_whole_program_nothing_is_done_and_what_is_missing_is_said() {
    let world = World::governed();
    let small = copied(&world);
    assert_eq!(run(&world, &small, &["kernel", "stop"]).code, Some(0));
    std::fs::remove_file(small.with_file_name("airlock-main")).unwrap();
    for (words, code) in [
        (&["exec", "--", "touch", "made"][..], 125),
        (&["trust", "show"], 1),
        (&["--json", "exec", "--", "true"], 125),
        (&["--help"], 1),
        (&[], 1),
    ] {
        let ran = run(&world, &small, words);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("cannot start `airlock-main`"), "{ran:?}");
        assert!(said.contains("fix"), "{ran:?}");
    }
    let told = run(&world, &small, &["trust", "show", "--json"]).json();
    assert_eq!(told["error"]["kind"], json!("failed"));
}

#[test]
fn nobody_has_something_said_of_a_command_that_did_not_run() {
    let world = World::governed();
    for input in ["", "{}", "[1]", "nonsense"] {
        let mut command = world.command(&["outcome-worker", "--", "true"]);
        let ran = crate::support::fed(&mut command, input);
        assert_eq!(ran.code, Some(125), "{input}: {ran:?}");
        assert_eq!(ran.stdout, "");
        assert!(ran.stderr.contains("there is nothing to say"), "{ran:?}");
    }
}

/// `airlock exec` of somebody who left it to the commands whether a kernel is started.
fn repeated(world: &World) -> Ran {
    let mut command = world.command(&["exec", "--", "true"]);
    let ran = finished(command.env_remove("AIRLOCK_KERNEL_START"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

fn serves(world: &World) -> bool {
    world.quiet(&["kernel", "status"]).code == Some(0)
}

/// Whether a kernel was ever begun here.
fn was_begun(world: &World) -> bool {
    world.state().join("run/kernel.lock").exists()
}

/// The kernel that commands started.
fn started_by_commands(world: &World) -> u64 {
    repeated(world);
    repeated(world);
    wait_until("a kernel serves", || serves(world));
    status(world, "pid")
}

fn status(world: &World, field: &str) -> u64 {
    let status = world.quiet(&["kernel", "status", "--json"]).json();
    status[field].as_u64().unwrap()
}

fn stop(world: &World) {
    assert_eq!(world.quiet(&["kernel", "stop"]).code, Some(0));
}

#[test]
fn commands_in_quick_succession_start_a_kernel_for_those_to_come() {
    let world = World::governed();
    world.alone();
    repeated(&world);
    let long_ago = SystemTime::now() - Duration::from_mins(2);
    let noted = world.state().join("commanded");
    let file = std::fs::File::options().write(true).open(&noted).unwrap();
    file.set_modified(long_ago).unwrap();
    repeated(&world);
    assert!(file.metadata().unwrap().modified().unwrap() > long_ago);
    // Had either started one, its lock would be there by the time the next is over.
    repeated(&world);
    wait_until("a kernel serves", || serves(&world));
    let before = status(&world, "calls");
    repeated(&world);
    assert!(status(&world, "calls") > before, "it takes the next one");
    assert!(!noted.exists(), "those it takes count for nothing");
    stop(&world);
}

#[test]
fn a_kernel_that_commands_started_holds_nothing_of_theirs() {
    let world = World::governed();
    world.alone();
    // Descriptor 9 stands for a lock, or for the end of a pipe that somebody reads.
    let script = "for each in 1 2; do \"$AIRLOCK\" exec -- true || exit; done 9>held";
    let mut command = program("sh");
    world.prepare(&mut command);
    command
        .args(["-c", script])
        .env("AIRLOCK", binary())
        .env_remove("AIRLOCK_KERNEL_START");
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    wait_until("a kernel serves", || serves(&world));
    let kernel = format!("/proc/{}", status(&world, "pid"));
    let held = std::fs::read_dir(format!("{kernel}/fd")).unwrap();
    let held = held.filter_map(|one| std::fs::read_link(one.unwrap().path()).ok());
    let held: Vec<_> = held.filter(|path| path.ends_with("ws/held")).collect();
    assert!(held.is_empty(), "{held:?}");
    let stat = std::fs::read_to_string(format!("{kernel}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let session = rest.split_whitespace().nth(3).unwrap();
    assert_eq!(session, status(&world, "pid").to_string(), "its own");
    stop(&world);
}

#[test]
fn a_kernel_that_commands_started_makes_way_for_one_that_a_person_starts() {
    let world = World::governed();
    world.alone();
    let first = started_by_commands(&world);
    let ran = world.quiet(&["kernel", "--idle", "5m"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let second = status(&world, "pid");
    assert_ne!(first, second);
    assert!(!world.state().join("run/kernel.wanted").exists());
    // And that one makes way for nobody.
    let ran = world.quiet(&["kernel"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(status(&world, "pid"), second);
    stop(&world);
}

#[test]
fn whoever_wants_no_kernel_started_has_none() {
    let world = World::governed();
    world.alone();
    let models = "models:\n  - { name: m, provider: openai, model: x, key: { env: KEY } }\n";
    for (setting, value) in [
        ("config.yaml", "kernel.start: never\n"),
        ("config.yaml", "kernel.users: 12345\n"),
        ("config.yaml", models),
    ] {
        let path = world.path("config/airlock").join(setting);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value).unwrap();
        for _ in 0..3 {
            repeated(&world);
        }
        assert!(!world.state().join("commanded").exists(), "{value}");
    }
    assert!(!was_begun(&world));
    let mut command = world.command(&["config", "show"]);
    let shown = finished(command.env("AIRLOCK_KERNEL_START", "always"));
    assert_eq!(shown.code, Some(2), "{shown:?}");
    assert!(shown.stderr.contains("use repeated or never"), "{shown:?}");
}
