//! `airlock doctor`: this machine as it is, and machines that a record tells of.

use crate::support::{Ran, Typed, World, at_terminal, copy_binary, finished};
use serde_json::{Value, json};
use std::path::PathBuf;

fn record(world: &World) -> PathBuf {
    world.path("state/airlock/doctor.json")
}

fn holds(ran: &Ran) {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let found = ran.json();
    assert_eq!(found["rung"], "native", "{ran:?}");
    assert_eq!(
        (&found["cached"], &found["unmet"]),
        (&json!(false), &json!([]))
    );
    let findings = found["findings"].as_array().unwrap();
    for feature in [
        "user_namespaces",
        "overlay",
        "reads",
        "writes",
        "lifetime",
        "time_limit",
    ] {
        let finding = findings.iter().find(|one| one["feature"] == feature);
        assert_eq!(finding.unwrap()["state"], "works", "{feature}: {ran:?}");
    }
}

fn nothing_left(world: &World) {
    for entry in std::fs::read_dir(world.path("state/airlock")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with("doctor-"), "{name}");
    }
    let notes = std::fs::read_dir(world.path("state/airlock/sandboxes"));
    assert_eq!(notes.unwrap().count(), 0, "no sandbox is noted");
}

#[test]
fn this_machine_holds_the_first_rung_and_nothing_is_left_behind() {
    let world = World::project();
    holds(&world.quiet(&["doctor", "--json"]));
    nothing_left(&world);
    let tree = std::fs::read_to_string(world.workspace().join("src/main.rs")).unwrap();
    assert_eq!(tree, "fn main() {\n    // TODO\n}\n");
}

/// Runs `airlock ARGUMENTS` as somebody who is not root, whoever runs this.
fn by_ordinary_user(world: &World, arguments: &[&str]) -> Ran {
    const USER: u32 = 65_432;
    if !rustix::process::geteuid().is_root() {
        return world.quiet(arguments);
    }
    // Where the binary lies may be out of another user's reach.
    let program = world.path("away/airlock");
    if !program.exists() {
        copy_binary(&program);
        for name in [
            "",
            "ws",
            "ws/.git",
            "state",
            "config",
            "home",
            "away",
            "away/airlock",
        ] {
            std::os::unix::fs::chown(world.path(name), Some(USER), Some(USER)).unwrap();
        }
    }
    let mut command = crate::support::program("setpriv");
    world.prepare(&mut command);
    command
        .args([format!("--reuid={USER}"), format!("--regid={USER}")])
        .arg("--clear-groups")
        .arg(program)
        .args(arguments);
    finished(&mut command)
}

#[test]
fn it_holds_for_an_ordinary_user_too() {
    let world = World::project();
    holds(&by_ordinary_user(&world, &["doctor", "--json"]));
    nothing_left(&world);
}

#[test]
fn where_only_bubblewrap_raises_walls_commands_run_on_a_copy_without_what_is_denied() {
    let world = World::project();
    std::fs::write(world.workspace().join(".env"), "TOKEN\n").unwrap();
    assert_eq!(by_ordinary_user(&world, &["doctor"]).code, Some(0));
    let ladder = json!([
        rung("native", "missing", "no namespaces"),
        rung("bwrap", "works", "it started"),
        rung("container", "missing", "no engine is installed"),
    ]);
    told(&world, &json!([]), Some("bwrap"), &ladder);
    let script = "cat .env; echo new > made; ls -A";
    let ran = by_ordinary_user(&world, &["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("made\n"), "{ran:?}");
    assert!(!ran.stdout.contains("TOKEN"), "{ran:?}");
    assert!(ran.stderr.contains("No such file"), "{ran:?}");
    assert!(!world.workspace().join("made").exists());
}

/// A finding as the record has it.
fn finding(feature: &str, state: &str, how: &str, fix: Option<&str>) -> Value {
    json!({ "feature": feature, "state": state, "how": how, "fix": fix })
}

fn rung(launcher: &str, state: &str, reason: &str) -> Value {
    json!({ "launcher": launcher, "state": state, "reason": reason })
}

/// Makes the record of `world` tell of another machine.
fn told(world: &World, findings: &Value, rung: Option<&str>, ladder: &Value) {
    if !record(world).exists() {
        assert_eq!(world.quiet(&["doctor"]).code, Some(0));
    }
    let text = std::fs::read_to_string(record(world)).unwrap();
    let mut known: Value = serde_json::from_str(&text).unwrap();
    known["findings"] = json!({ "findings": findings, "rung": rung, "ladder": ladder });
    std::fs::write(record(world), known.to_string()).unwrap();
}

const SETTING: &str = "echo 'kernel.unprivileged_userns_clone = 1' | sudo tee -a /etc/sysctl.d/60-airlock.conf\nsudo sysctl -p /etc/sysctl.d/60-airlock.conf";
const DELEGATE: &str = "systemd-run --user --scope -p Delegate=yes $SHELL";

fn nothing(world: &World) {
    let findings = json!([
        finding(
            "user_namespaces",
            "missing",
            "tried: Operation not permitted (os error 1); kernel.unprivileged_userns_clone is 0",
            Some(SETTING),
        ),
        finding(
            "landlock",
            "works",
            "version 3; was refused a directory by a rule",
            None
        ),
        finding(
            "cgroups",
            "missing",
            "version 2: none can be made",
            Some(DELEGATE)
        ),
        finding(
            "memory_limit",
            "limited",
            "supervised: watched",
            Some(DELEGATE)
        ),
        finding(
            "bwrap",
            "missing",
            "looked\u{1b}[2J for it",
            Some("sudo apt-get install bubblewrap")
        ),
    ]);
    let why = "cannot start a sandbox: make namespaces: Operation not permitted (os error 1)";
    let ladder = json!([
        rung("native", "missing", why),
        rung("bwrap", "missing", "it is not installed"),
        rung("container", "missing", "no engine is installed"),
    ]);
    told(world, &findings, None, &ladder);
}

#[test]
fn a_machine_that_holds_nothing_is_told_what_to_do_and_ends_with_five() {
    let mut world = World::project();
    nothing(&world);
    for columns in ["100", "60"] {
        let mut command = world.command(&["doctor", "--cached"]);
        command.env("COLUMNS", columns);
        let ran = world.record(
            &format!("doctor --cached ({columns} columns)"),
            &mut command,
        );
        assert_eq!(ran.code, Some(5), "{ran:?}");
        let columns: usize = columns.parse().unwrap();
        // What is to be copied stays on its line.
        let prose = ran.stdout.lines().filter(|line| !line.starts_with("  "));
        for line in prose {
            assert!(line.chars().count() <= columns, "{line}");
        }
        for line in SETTING.lines() {
            assert!(
                ran.stdout.lines().any(|shown| shown.trim() == line),
                "{line}"
            );
        }
    }
    let ran = world.run(&["doctor", "--cached", "--json"]);
    assert_eq!(ran.code, Some(5));
    world.compare("doctor_nothing");
}

#[test]
fn a_lower_rung_is_enough_unless_policy_asks_for_more() {
    let mut world = World::project();
    world.write(
        ".airlock/policy.yaml",
        "version: 1\nworkspace: { minimum_tier: container }\n",
    );
    let ladder = json!([
        rung(
            "native",
            "missing",
            "mount proc at /proc: Operation not permitted"
        ),
        rung(
            "bwrap",
            "works",
            "it started, and everything forbidden was refused"
        ),
        rung("container", "missing", "no engine is installed"),
    ]);
    let findings = json!([
        finding("proc", "missing", "tried: Operation not permitted", None),
        finding(
            "time_limit",
            "works",
            "enforced: ended by the supervisor",
            None
        ),
        finding(
            "output_limit",
            "works",
            "enforced: cut by the supervisor",
            None
        ),
    ]);
    told(&world, &findings, Some("bwrap"), &ladder);
    let ran = world.run(&["doctor", "--cached"]);
    assert_eq!(
        ran.code,
        Some(0),
        "a policy nobody approved asks for nothing"
    );
    let trusted = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let ran = world.run(&["doctor", "--cached"]);
    assert_eq!(ran.code, Some(5));
    world.compare("doctor_bwrap");
}

#[test]
fn limits_that_a_template_must_have_enforced_are_needed() {
    let world = World::project();
    world.write(
        ".airlock/policy.yaml",
        "version: 1\ntemplates: { code-executor: { must_enforce: [memory, cpus] } }\n",
    );
    let works = "it started, and everything forbidden was refused";
    let ladder = json!([rung("native", "works", works)]);
    let watched = "supervised: watched";
    let findings = json!([
        finding("memory_limit", "limited", watched, Some(DELEGATE)),
        finding("processor_limit", "limited", watched, Some(DELEGATE)),
        finding("time_limit", "works", "enforced: ended", None),
        finding("output_limit", "works", "enforced: cut", None),
    ]);
    told(&world, &findings, Some("native"), &ladder);
    let ran = world.quiet(&["doctor", "--cached"]);
    assert_eq!(ran.code, Some(0), "nobody approved it: {ran:?}");
    let trusted = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let ran = world.quiet(&["doctor", "--cached", "--json"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let lacking = ["memory", "cpus"];
    let lacking = lacking.map(|limit| format!("the limit `{limit}` must be enforced, and is not"));
    assert_eq!(ran.json()["unmet"], json!(lacking), "{ran:?}");
    // With the command that mends it.
    let ran = world.quiet(&["doctor", "--cached"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stdout.contains(DELEGATE), "{ran:?}");
}

#[test]
fn a_record_that_is_damaged_or_of_another_boot_is_not_believed() {
    let world = World::project();
    nothing(&world);
    let text = std::fs::read_to_string(record(&world)).unwrap();
    let mut other: Value = serde_json::from_str(&text).unwrap();
    other["key"]["boot"] = json!("another");
    for bad in ["{", &other.to_string()] {
        std::fs::write(record(&world), bad).unwrap();
        holds(&world.quiet(&["doctor", "--cached", "--json"]));
    }
    let ran = world.quiet(&["doctor", "--cached", "--json"]);
    assert_eq!(
        ran.json()["cached"],
        true,
        "what was found out instead is kept"
    );
    nothing(&world);
    holds(&world.quiet(&["doctor", "--json"]));
}

#[test]
fn states_are_words_and_colour_comes_on_top() {
    let world = World::project();
    nothing(&world);
    let mut command = world.command(&["doctor", "--cached", "--color", "always"]);
    command.env_remove("NO_COLOR");
    let ran = finished(&mut command);
    assert!(
        ran.stdout.contains("\u{1b}[1m\u{1b}[31mmissing\u{1b}[0m"),
        "{ran:?}"
    );
    assert!(!ran.stdout.contains("\u{1b}[2J"), "{ran:?}");
    let plain = world.quiet(&["doctor", "--cached"]);
    assert!(!plain.stdout.contains('\u{1b}'), "{plain:?}");
    assert!(plain.stdout.contains("missing"), "{plain:?}");
}

#[test]
fn nobody_can_make_it_act_outside_a_sandbox() {
    let world = World::project();
    assert_eq!(world.quiet(&["doctor", "--inside"]).code, Some(2));
    for task in ["\"beat\"", "{\"file\": 4096}", "nonsense"] {
        let mut command = world.command(&["doctor", "--inside"]);
        command.env("AIRLOCK_PROBE_TASK", task);
        let ran = finished(&mut command);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{task}");
    }
    assert!(!world.workspace().join("beat").exists());
    assert!(!world.workspace().join("large").exists());
}
