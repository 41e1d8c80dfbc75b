//! `airlock demo`: all of it, where a machine is not as usual, and when somebody has seen enough.
//! Where a test does not put cargo on the path, the demo says so, and leaves the agent's work out.

use crate::support::{Conversation, World, assert_fits, finished, program, tiny_disk, wait_until};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The demo with a temporary directory of its own.
fn demo(world: &World, temporary: &str) -> Command {
    let place = world.path("away").join(temporary);
    std::fs::create_dir_all(&place).unwrap();
    let mut command = world.command(&["demo"]);
    command
        .env("TMPDIR", &place)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn left(world: &World, temporary: &str) -> Vec<std::ffi::OsString> {
    let place = world.path("away").join(temporary);
    let found = std::fs::read_dir(place).unwrap();
    found.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn a_demo_goes_well_wherever_it_may_write_and_leaves_nothing_behind() {
    let world = World::new();
    let gone = world.path("no such home");
    for (case, temporary, home) in [
        ("spaces", "with spaces in it", Some(world.path("home"))),
        ("no home", "plain", None),
        ("a home that is not there", "plain", Some(gone)),
    ] {
        let mut command = demo(&world, temporary);
        match &home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        let ran = command.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(
            ran.status.code(),
            Some(0),
            "{case}: {said}\n{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        assert!(said.contains("That is the road"), "{case}: {said}");
        // Nothing is reviewed or undone where there is no work; a machine's own cargo may do it.
        assert_ne!(
            said.contains("undoable"),
            said.contains("There is no cargo here"),
            "{case}: {said}"
        );
        assert!(said.contains("the fork bomb"), "{case}: {said}");
        assert_eq!(
            left(&world, temporary),
            Vec::<std::ffi::OsString>::new(),
            "{case}"
        );
    }
    assert!(!world.path("no such home").exists());
}

#[test]
fn a_demo_without_a_place_to_be_says_what_to_do() {
    let world = World::new();
    let mut command = world.command(&["demo"]);
    command.env("TMPDIR", world.path("away/no/such"));
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("fix: set TMPDIR"), "{said}");
}

/// What git says of the repository at `place`.
fn git(world: &World, place: &Path, words: &[&str]) -> String {
    let mut command = program("git");
    world.prepare(&mut command);
    command.args(["-c", "user.name=me", "-c", "user.email=me@example.org"]);
    let ran = finished(command.arg("-C").arg(place).args(words));
    assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
    ran.stdout
}

#[test]
fn a_demo_leaves_alone_the_repository_that_the_environment_names() {
    let world = World::new();
    let (own, hooks) = (world.path("own"), world.path("template/hooks"));
    let told = world.path("told");
    for place in [&own, &hooks] {
        std::fs::create_dir_all(place).unwrap();
    }
    for name in ["pre-commit", "post-commit", "reference-transaction"] {
        let hook = hooks.join(name);
        std::fs::write(&hook, format!("#!/bin/sh\n: > '{}'\n", told.display())).unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    git(&world, &own, &["init", "-q", "-b", "main"]);
    git(
        &world,
        &own,
        &["commit", "-q", "--allow-empty", "-m", "mine"],
    );
    let looks = || {
        [
            &["rev-list", "--all"][..],
            &["ls-files"],
            &["count-objects", "-v"],
        ]
        .map(|words| git(&world, &own, words))
    };
    let before = looks();
    let repository = own.join(".git");
    // As in a hook of git's, and with hooks besides.
    let ran = finished(
        demo(&world, "t")
            .env("GIT_DIR", &repository)
            .env("GIT_WORK_TREE", &own)
            .env("GIT_INDEX_FILE", repository.join("index"))
            .env("GIT_OBJECT_DIRECTORY", repository.join("objects"))
            .env("GIT_TEMPLATE_DIR", world.path("template"))
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "core.hooksPath")
            .env("GIT_CONFIG_VALUE_0", &hooks),
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let made = "it is a git repository, and has a commit";
    assert!(ran.stdout.contains(made), "{ran:?}");
    assert_eq!(looks(), before);
    assert!(!told.exists(), "a hook ran");
    assert_eq!(left(&world, "t"), Vec::<std::ffi::OsString>::new());
}

/// Reads what `child` says until `text` is in it.
fn until(child: &mut Child, text: &str) {
    let stdout = child.stdout.as_mut().unwrap();
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&said).contains(text) {
        assert_eq!(
            stdout.read(&mut byte).unwrap(),
            1,
            "{}",
            String::from_utf8_lossy(&said)
        );
        said.extend(byte);
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    use rustix::process::{Pid, Signal, kill_process_group};
    for (signal, after) in [
        (Signal::INT, "A repository from somewhere"),
        (Signal::INT, "airlock init"),
        (Signal::INT, "airlock run"),
        (Signal::TERM, "bomb"),
        (Signal::HUP, "What it got"),
    ] {
        let world = World::new();
        let mut child = demo(&world, "t").process_group(0).spawn().unwrap();
        until(&mut child, after);
        assert_eq!(
            left(&world, "t").len(),
            1,
            "{after}: the demo is somewhere else"
        );
        let begun = Instant::now();
        // As a terminal does it: whatever the demo runs at that moment is hit, too.
        kill_process_group(Pid::from_child(&child), signal).unwrap();
        let ran = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{after}");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(
            ran.status.code(),
            Some(128 + signal.as_raw()),
            "{after}: {said}"
        );
        assert!(said.contains("nothing is left behind"), "{after}: {said}");
        let told = String::from_utf8_lossy(&ran.stdout);
        let untrue = ["without git here", "UNEXPECTED", "That is the road"];
        assert!(
            !untrue.iter().any(|text| told.contains(text)),
            "{after}: {told}"
        );
        assert_eq!(
            left(&world, "t"),
            Vec::<std::ffi::OsString>::new(),
            "{after}"
        );
    }
}

/// The cargo that runs this test.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells its tests where it is in the environment"
)]
fn cargo() -> PathBuf {
    std::env::var_os("CARGO").unwrap().into()
}

/// Where the toolchain is that built this test.
#[expect(
    clippy::disallowed_methods,
    reason = "so do rustup and cargo, of where they keep things"
)]
fn toolchain() -> Vec<(&'static str, String)> {
    let path = format!("{}:/usr/bin:/bin", cargo().parent().unwrap().display());
    let home = std::env::var("HOME").unwrap();
    let mut found = vec![("PATH", path)];
    for (name, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let value = std::env::var(name).unwrap_or_else(|_| format!("{home}/{usual}"));
        if Path::new(&value).is_dir() {
            found.push((name, value));
        }
    }
    found
}

/// What a newcomer is to see: what was tried, and what stopped it.
const STORY: &[(&str, &[&str])] = &[
    (
        "a policy that came along counts for nothing",
        &[
            "its .airlock/policy.yaml would allow everything",
            "ok: policy in force: default",
            "reading .env is denied",
        ],
    ),
    (
        "source before tests",
        &[
            "denied fs.write src/lib.rs",
            "rule `phases/no-writes` (built-in) denies it: nothing may be written in `planning`",
        ],
    ),
    (
        "a key in ~/.ssh",
        &[
            "denied fs.read",
            "/.ssh/id_ed25519",
            "rule `keep-private-keys` (policy, line ",
            "private keys prove who you are",
        ],
    ),
    (
        "the policy",
        &[
            "denied fs.write .airlock/policy.yaml",
            "rule `built-in/policy-files`",
            "denied policy.update",
            "capability `policy.update` is not granted",
        ],
    ),
    (
        "the network",
        &[
            "exec.run bash tools/report.sh",
            "Operation not permitted",
            "no way out",
            "ok: in its sandbox there is no network, no ~/.ssh and no .env",
            "ok: its report got nowhere: the port it was meant for is open, and nothing reached it",
        ],
    ),
    (
        "a fork bomb",
        &["exec.run bash tools/bomb.sh", "of processes"],
    ),
    (
        "a planted secret",
        &[
            "[secret:github-token#1]",
            "ok: the token in it is a secret: the agent gets a placeholder",
            "ok: the token that it printed reached the agent as a placeholder, too",
        ],
    ),
    (
        "a smuggled instruction",
        &[
            "flagged: text from file:CONTRIBUTING.md reads like an instruction",
            "ok: the instruction in CONTRIBUTING.md reached it only as marked data",
        ],
    ),
    (
        "a softer test",
        &[
            "denied fs.write tests/errors.rs",
            "rule `phases/tests-are-read-only`",
        ],
    ),
    (
        "the work",
        &[
            "error[E0432]",
            "ok: RED, for the right reason",
            "test a_line_without_a_key_is_an_error ... ok",
            "ok: GREEN: ",
            "2 new tests noticed",
            "state code_writing",
            "state validating",
            "All tests pass",
        ],
    ),
    (
        "review, merge and undo",
        &[
            "+pub enum ParseError {",
            "ok: src/lib.rs and tests/errors.rs are in the real tree",
            "ok: committed: \"Return an error",
            "ok: every file is back, byte for byte",
            "ok: and so is the branch",
        ],
    ),
    (
        "the log",
        &[
            "records, chain whole",
            "ok: caught: record",
            "is not what was sealed",
            "ok: caught by the pinned checkpoint",
        ],
    ),
    (
        "the end",
        &[
            ", and nothing is left behind",
            "That is the road: decided, sandboxed, staged, recorded, reviewed, undoable, proven.",
        ],
    ),
];

fn assert_story(shown: &str) {
    // Where lines are broken says nothing.
    let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for (attempt, signs) in STORY {
        for sign in *signs {
            assert!(text.contains(sign), "{attempt}: `{sign}` is not in {shown}");
        }
    }
    for wrong in [
        "UNEXPECTED",
        "not noticed",
        "do-not-read-me",
        "d3m0d3m0",
        "panicked",
    ] {
        assert!(!text.contains(wrong), "{wrong}: {shown}");
    }
}

/// Whether any process still has something open or at work below `place`.
fn processes_in(place: &Path) -> Vec<String> {
    let place = place.display().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbered = all.filter(|one| one.file_name().to_string_lossy().parse::<u32>().is_ok());
    let holds = |one: &std::fs::DirEntry| {
        let names = ["cwd", "root", "exe"].map(|name| std::fs::read_link(one.path().join(name)));
        let mounts = std::fs::read_to_string(one.path().join("mounts")).unwrap_or_default();
        let below = |path: &PathBuf| path.to_string_lossy().starts_with(&place);
        names.iter().flatten().any(below) || mounts.contains(&place)
    };
    let held = numbered.filter(holds);
    held.map(|one| std::fs::read_to_string(one.path().join("cmdline")).unwrap_or_default())
        .collect()
}

fn assert_left_nothing(world: &World, temporary: &str) {
    assert_eq!(left(world, temporary), Vec::<std::ffi::OsString>::new());
    let place = world.path("away").join(temporary);
    wait_until("its processes are gone", || processes_in(&place).is_empty());
    for own in ["state", "config", "home"] {
        let found: Vec<_> = std::fs::read_dir(world.path(own)).unwrap().collect();
        assert!(found.is_empty(), "{own}: {found:?}");
    }
}

/// What the demo says of its time is so: no more than it took, and under a minute only if it was.
fn assert_timed(said: &str, took: Duration) {
    let (_, rest) = said.split_once("it took ").unwrap();
    let (seconds, _) = rest.split_once(" seconds").unwrap();
    let seconds: u64 = seconds.parse().unwrap();
    assert!(seconds <= took.as_secs().max(1), "{seconds}: {said}");
    assert_eq!(said.contains("under a minute"), seconds < 60, "{said}");
}

#[test]
fn a_whole_demo_tells_its_story_to_an_ordinary_user_too() {
    if !rustix::process::geteuid().is_root() {
        // Then every whole demo here is this one.
        return;
    }
    let world = World::new();
    let (user, airlock) = (65_432, world.path("away/airlock"));
    let (cargo, shown) = (cargo().canonicalize().unwrap(), world.path("away/rust"));
    let own = cargo.parent().and_then(Path::parent).unwrap();
    // Where the binary and the toolchain lie may be out of another user's reach. The toolchain is too
    // large to be copied; so it is mounted, for this demo alone, and linked as rustup has it.
    crate::support::copy_binary(&airlock);
    for name in ["away/t", "away/rust", "rustup/toolchains"] {
        std::fs::create_dir_all(world.path(name)).unwrap();
    }
    std::os::unix::fs::symlink(&shown, world.path("rustup/toolchains/own")).unwrap();
    let own_directories = ["", "ws", "state", "config", "home", "away", "away/t"];
    let given = ["away/airlock", "rustup", "rustup/toolchains"];
    for name in own_directories.into_iter().chain(given) {
        std::os::unix::fs::chown(world.path(name), Some(user), Some(user)).unwrap();
    }
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec setpriv \"$@\"";
    let mut command = program("unshare");
    world.prepare(&mut command);
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(own)
        .arg(&shown)
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .arg("--clear-groups")
        .arg(&airlock)
        .arg("demo")
        .env("PATH", format!("{}/bin:/usr/bin:/bin", shown.display()))
        .env("RUSTUP_HOME", world.path("rustup"))
        .env("TMPDIR", world.path("away/t"));
    let begun = Instant::now();
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_timed(&ran.stdout, begun.elapsed());
    assert!(
        !ran.stdout.contains("There is no cargo here"),
        "without the work, because another user cannot run this toolchain: chmod -R o+rX {}\n{ran:?}",
        own.display()
    );
    let sign = "ok: programs run in a sandbox";
    assert!(ran.stdout.contains(sign), "{sign}: {ran:?}");
    assert_story(&ran.stdout);
    assert_left_nothing(&world, "t");
}

#[test]
fn a_whole_demo_tells_its_story_with_a_home_that_cannot_be_written() {
    let world = World::new();
    let place = world.path("away/t");
    std::fs::create_dir_all(&place).unwrap();
    let home = world.path("home");
    // Root may write whatever the bits say, so for root it is a disk that cannot be written.
    let root = rustix::process::geteuid().is_root();
    let mut command = if root {
        let mut command = program("unshare");
        let script = "mount --bind \"$HOME\" \"$HOME\" && mount -o remount,bind,ro \"$HOME\" && ! touch \"$HOME/x\" 2>/dev/null && exec \"$AIRLOCK\" demo";
        command.args(["--mount", "sh", "-c", script]);
        command
    } else {
        let mut closed = std::fs::metadata(&home).unwrap().permissions();
        closed.set_mode(0o555);
        std::fs::set_permissions(&home, closed).unwrap();
        let mut command = program(crate::support::binary());
        command.arg("demo");
        command
    };
    world.prepare(&mut command);
    command
        .envs(toolchain())
        .env("AIRLOCK", crate::support::binary())
        .env("TMPDIR", &place)
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME");
    let begun = Instant::now();
    let ran = command.output().unwrap();
    let (said, told) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert_eq!(ran.status.code(), Some(0), "{said}\n{told}");
    assert_timed(&said, begun.elapsed());
    assert_eq!(told, "", "all of it is the story");
    assert!(!said.contains('\u{1b}'), "{said}");
    assert_story(&said);
    // Nothing is cut where nobody says how wide it may be.
    assert!(
        said.lines().any(|line| line.chars().count() > 100),
        "{said}"
    );
    assert_left_nothing(&world, "t");
}

/// What a terminal shows in the end: a line that says what runs is wiped before anything else is
/// written.
fn without_progress(shown: &str) -> String {
    let mut pieces = shown.split("\r\u{1b}[K");
    let first = pieces.next().unwrap_or_default().to_owned();
    let frame = |piece: &&str| {
        ["| ", "/ ", "- ", "\\ "]
            .iter()
            .any(|at| piece.starts_with(at))
    };
    pieces
        .filter(|piece| !frame(piece))
        .fold(first, |all, piece| all + piece)
}

#[test]
fn a_program_reads_every_claim_of_the_demo_and_whether_it_holds() {
    let world = World::new();
    let mut command = demo(&world, "t");
    let ran = command.arg("--json").output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{told}");
    let value: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(value["surprises"], 0, "{value}");
    assert!(value["seconds"].is_u64(), "{value}");
    let claims = value["claims"].as_array().unwrap();
    assert!(claims.len() > 10, "{value}");
    assert!(claims.iter().all(|one| one["holds"] == true), "{value}");
    assert!(told.contains("That is the road"), "{told}");
}

#[test]
fn a_demo_without_room_says_what_to_do_and_leaves_nothing() {
    let world = World::new();
    let mut command = tiny_disk(
        &world,
        "size=400k",
        "export TMPDIR=\"$STATE\" && \"$AIRLOCK\" demo; code=$?; ls -A \"$STATE\" >&2; exit $code",
    );
    let ran = command.output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(told.contains("disk is full"), "{told}");
    let fix = "fix: set TMPDIR to a directory with some room that you can write\n";
    assert!(told.ends_with(fix), "{told}");
}

#[test]
fn a_demo_on_a_narrow_terminal_tells_the_same() {
    for (columns, term) in [(60, "dumb"), (60, "xterm")] {
        let world = World::new();
        std::fs::create_dir_all(world.path("away/t")).unwrap();
        let mut more: Vec<String> = toolchain()
            .into_iter()
            .map(|(name, value)| format!("{name}='{value}'"))
            .collect();
        more.push(format!("TMPDIR='{}'", world.path("away/t").display()));
        let talk = Conversation::begin_with(&world, columns, term, &more.join(" "), "demo");
        let mut ran = talk.finish();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        // Where a line can be wiped, it is shown that something runs.
        let moving = ran.stdout.contains("exec.run bash tools/bomb.sh  1.");
        assert_eq!(moving, term == "xterm", "{ran:?}");
        ran.stdout = without_progress(&ran.stdout);
        assert_story(&ran.stdout);
        assert_fits(&ran.stdout, usize::from(columns));
        // Asked for by NO_COLOR, and by a terminal that has none.
        assert!(!ran.stdout.contains('\u{1b}'), "{ran:?}");
        assert!(
            ran.stdout
                .contains("\nairlock init && airlock exec -- make test\n"),
            "{ran:?}"
        );
        assert_left_nothing(&world, "t");
    }
}

#[test]
fn a_demo_that_is_interrupted_at_work_leaves_nothing_behind() {
    use rustix::process::{Pid, Signal, kill_process_group};
    for after in ["On to the code", "airlock diff: what waits", "airlock undo"] {
        let world = World::new();
        let mut command = demo(&world, "t");
        command.envs(toolchain());
        let mut child = command.process_group(0).spawn().unwrap();
        until(&mut child, after);
        kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(130), "{after}: {said}");
        assert!(said.contains("nothing is left behind"), "{after}: {said}");
        assert_left_nothing(&world, "t");
    }
}
