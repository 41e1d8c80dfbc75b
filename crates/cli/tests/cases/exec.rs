//! `airlock exec`, `diff` and `stage`: commands in sandboxes, as a person meets them.

use crate::support::{Typed, World, at_terminal, fed, finished, program};
use rustix::process::Signal;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_command_runs_boxed_and_staged() {
    let mut world = World::project();
    world.run(&["exec", "--", "cat", "README.md"]);
    world.run(&[
        "exec",
        "--",
        "sh",
        "-c",
        "echo more >> README.md; rm Cargo.toml; exit 3",
    ]);
    world.run_all(&["diff --stat", "diff", "stage list"]);
    world.run_all(&[
        "exec --no-stage -- cat README.md",
        "exec --stage other -- touch new.txt",
    ]);
    world.run_all(&[
        "diff other --stat",
        "stage drop default",
        "stage drop default",
        "diff",
    ]);
    let text = std::fs::read_to_string(world.workspace().join("README.md")).unwrap();
    assert_eq!(text, "# Sample\n\nTODO: say what it does.\n");
    assert!(world.workspace().join("Cargo.toml").exists());
    world.compare("exec");
}

#[test]
fn exit_codes_are_an_interface() {
    let mut world = World::project();
    for (args, want) in [
        (&["exec", "--", "true"][..], 0),
        (&["exec", "--", "sh", "-c", "exit 42"], 42),
        (&["exec", "--", "sh", "-c", "kill -TERM $$"], 143),
        (&["exec", "--", "no-such-program"], 127),
        (&["exec", "--", "./README.md"], 126),
        (&["exec", "--timeout", "1s", "--", "sleep", "60"], 124),
        (
            &["exec", "--template", "integration-test", "--", "true"],
            120,
        ),
        (&["exec", "--template", "policy-sandbox", "--", "true"], 125),
        (&["exec", "--allow-read", "/proc", "--", "true"], 120),
        (&["exec", "--memory", "2GiB", "--", "true"], 125),
        (&["exec", "--env", "LD_PRELOAD=x", "--", "true"], 125),
        (&["exec", "--env", "HOME=/x", "--", "true"], 125),
        (&["exec", "--env", "PATH", "--", "true"], 125),
        (&["exec", "--stage", "../x", "--", "true"], 125),
        (&["exec", "--tty", "--", "true"], 125),
        (&["exec", "--timout", "1s", "--", "true"], 125),
        (&["exec"], 125),
    ] {
        let ran = world.run(args);
        assert_eq!(ran.code, Some(want), "{args:?}: {ran:?}");
    }
    world.compare("exec_codes");
}

#[test]
fn a_script_whose_interpreter_is_missing_is_not_said_to_be_missing_itself() {
    let world = World::project();
    world.write("run.sh", "#!/no/such/interpreter\n");
    let script = world.workspace().join("run.sh");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran = world.quiet(&["exec", "--", "./run.sh"]);
    assert_eq!(ran.code, Some(127), "{ran:?}");
    let told = "`./run.sh`, or the interpreter it names, is not in the sandbox";
    assert!(ran.stderr.contains(told), "{ran:?}");
}

#[test]
fn a_policy_without_a_rule_for_it_runs_nothing() {
    let world = World::project();
    world.write(".airlock/policy.yaml", "version: 1\nrules: []\n");
    let ran = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = world.quiet(&["exec", "--", "true"]);
    assert_eq!(ran.code, Some(120), "{ran:?}");
    assert!(ran.stderr.contains("no rule allows this"), "{ran:?}");
}

#[test]
fn what_policy_denies_is_denied_inside_and_named() {
    let world = World::project();
    let ran = world.quiet(&["exec", "--", "cat", ".env"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(!ran.stdout.contains("not-for-agents"), "{ran:?}");
    assert!(ran.stderr.contains("denied: "), "{ran:?}");
    let ran = world.quiet(&["exec", "--deny", "**/*.md", "--", "cat", "README.md"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for path in [
        world.path("state"),
        world.path("config"),
        world.path("home"),
    ] {
        let script = format!("ls {}/airlock", path.display());
        let ran = world.quiet(&["exec", "--", "sh", "-c", &script]);
        assert_ne!(ran.code, Some(0), "{ran:?}");
    }
    for path in [
        ".airlock/policy.yaml",
        ".git/hooks/pre-commit",
        ".git/config",
    ] {
        let script = format!("mkdir -p $(dirname {path}); echo x > {path}");
        let ran = world.quiet(&["exec", "--", "sh", "-c", &script]);
        assert_ne!(ran.code, Some(0), "{path}: {ran:?}");
    }
}

#[test]
fn bytes_pass_unchanged_in_both_directions() {
    let world = World::project();
    let ran = fed(
        &mut world.command(&["exec", "--", "cat"]),
        "one\u{1b}]0;x\u{7}\ntwo",
    );
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "one\u{1b}]0;x\u{7}\ntwo")
    );
    let mut command = world.command(&["exec", "--", "printf", "\\377\\000\\033[31m"]);
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"\xff\0\x1b[31m");
    let ran = world.quiet(&["exec", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("out\n", "err\n")
    );
}

#[test]
fn a_terminal_gets_colours_and_nothing_it_would_obey() {
    let world = World::project();
    let words = "exec -- printf '\\033[31mred\\033[0m\\033]0;title\\007\\033[6n.'";
    let ran = at_terminal(&world, words, Typed::Nothing);
    assert_eq!(ran.stdout, "\u{1b}[31mred\u{1b}[0m.", "{ran:?}");
}

#[test]
fn what_a_killed_command_left_is_gone_with_the_next() {
    let world = World::project();
    let notes = || {
        let states = std::fs::read_dir(world.path("state/airlock")).into_iter();
        let places = states.flatten().flatten();
        let noted =
            places.filter_map(|place| std::fs::read_dir(place.path().join("sandboxes")).ok());
        noted.flatten().count()
    };
    let mut killed = world
        .command(&["exec", "--", "sleep", "4751"])
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let sleeps = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\x004751")
    };
    while !std::fs::read_dir("/proc").unwrap().flatten().any(sleeps) {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    // Only a sandbox with a cgroup, which root can make, leaves something; and where a kernel runs, it
    // takes it away by itself.
    let is_root = rustix::process::geteuid().is_root();
    assert!(notes() <= usize::from(is_root));
    let mut last = None;
    for _ in 0..100 {
        let ran = world.quiet(&["exec", "--", "true"]);
        last = ran.code;
        if last == Some(0) && notes() == 0 {
            break;
        }
    }
    assert_eq!((last, notes()), (Some(0), 0));
}

const KEPT: &str = "\
version: 1
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: [exec.run, stage.read] }
    action: allow
  - name: kept
    match: { syscall: \"fs.*\", effect: [write, delete], path_glob: src/** }
    action: deny
  - name: change
    match: { syscall: \"fs.*\", effect: [write, delete], path_glob: \"**\" }
    action: allow
";

/// A supervisor that was killed could not put back what its command might not do.
#[test]
fn what_a_killed_supervisor_left_is_said_and_judged_before_anybody_is_shown_it() {
    let world = World::under(KEPT);
    world.alone();
    let script = "echo mine >README.md; echo forbidden >src/main.rs; echo >ready; exec sleep 4757";
    let mut killed = world
        .command(&["exec", "--", "sh", "-c", script])
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let sleeps = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\x004757")
    };
    while !std::fs::read_dir("/proc").unwrap().flatten().any(sleeps) {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    let diff = || -> serde_json::Value {
        let ran = world.quiet(&["diff", "--json"]);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    assert_eq!(diff()["unjudged"], false, "it is going on");
    killed.kill().unwrap();
    killed.wait().unwrap();
    // What ran in it ends by itself, a moment later.
    while diff()["unjudged"] != true {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    let told = world.quiet(&["diff"]);
    assert!(told.stdout.contains("+forbidden"), "{told:?}");
    assert!(told.stderr.contains("was never judged"), "{told:?}");
    assert!(
        told.stderr.contains("airlock stage drop default"),
        "{told:?}"
    );
    let listed = world.quiet(&["stage", "list"]);
    assert!(listed.stdout.contains("not judged"), "{listed:?}");
    let listed = world.quiet(&["stage", "list", "--json"]);
    assert!(listed.stdout.contains("\"unjudged\":true"), "{listed:?}");

    let read = world.quiet(&["tool", "call", "fs.read", "path=src/main.rs"]);
    assert_eq!(read.code, Some(0), "{read:?}");
    assert!(!read.stdout.contains("forbidden"), "{read:?}");
    assert!(read.stdout.contains("fn main"), "{read:?}");
    assert!(read.stderr.contains("put back: src/main.rs"), "{read:?}");
    let read = world.quiet(&["tool", "call", "fs.read", "path=README.md"]);
    assert!(read.stdout.contains("mine"), "{read:?}");
    assert!(!read.stderr.contains("put back"), "once: {read:?}");
    let now = diff();
    assert_eq!(now["unjudged"], false, "{now}");
    assert!(!now.to_string().contains("forbidden"), "{now}");
    let told = world.quiet(&["diff"]);
    assert!(!told.stderr.contains("judged"), "{told:?}");

    // What is left of it may be half written, which no other call makes better.
    let write = ["tool", "call", "fs.write", "path=other", "text=x"];
    let written = world.quiet(&write);
    assert_eq!(written.code, Some(0), "{written:?}");
    assert_eq!(diff()["cut_off"], true);
    for arguments in [&["diff"][..], &["merge"]] {
        let told = world.quiet(arguments);
        assert!(told.stderr.contains("half written"), "{told:?}");
    }
    let listed = world.quiet(&["stage", "list"]);
    assert!(listed.stdout.contains("cut off"), "{listed:?}");
    let ran = world.quiet(&["exec", "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(diff()["cut_off"], false);
}

/// Whose it was cannot be told: nobody is shown it, and it can be thrown away.
#[test]
fn what_cannot_be_judged_is_not_shown_and_can_be_dropped() {
    let world = World::under(KEPT);
    let ran = world.quiet(&["exec", "--", "sh", "-c", "echo mine >README.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // A kernel that runs may still have the stage, and writes its mark.
    world.alone();
    let states = std::fs::read_dir(world.path("state/airlock")).unwrap();
    let marks: Vec<_> = states
        .flatten()
        .map(|state| state.path().join("stages/default/run"))
        .filter(|mark| mark.exists())
        .collect();
    let [mark] = &*marks else {
        panic!("{marks:?}");
    };
    std::fs::write(mark, "open{}\n").unwrap();
    let read = world.quiet(&["tool", "call", "fs.read", "path=README.md"]);
    assert_eq!(read.code, Some(1), "{read:?}");
    assert!(read.stderr.contains("cannot be judged"), "{read:?}");
    assert!(
        read.stderr.contains("airlock stage drop default"),
        "{read:?}"
    );
    let dropped = world.quiet(&["stage", "drop", "default"]);
    assert_eq!(dropped.code, Some(0), "{dropped:?}");
    let read = world.quiet(&["tool", "call", "fs.read", "path=README.md"]);
    assert!(read.stdout.contains("# Sample"), "{read:?}");
}

#[test]
fn with_a_terminal_of_its_own_it_has_one() {
    let world = World::project();
    let ran = at_terminal(
        &world,
        "exec --tty -- sh -c 'test -t 0 && test -t 1 && stty size'",
        Typed::Nothing,
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = ran.stdout.split('\u{1b}').next().unwrap();
    assert_eq!(shown.split_whitespace().count(), 2, "{ran:?}");
}

#[test]
fn json_is_one_object_with_what_it_wrote() {
    let world = World::project();
    let ran = world.quiet(&[
        "exec",
        "--json",
        "--",
        "sh",
        "-c",
        "printf '\\377'; echo err >&2; echo x > new; exit 5",
    ]);
    let value = ran.json();
    assert_eq!(ran.code, Some(5));
    assert_eq!(
        (&value["exit"], &value["outcome"]),
        (&5.into(), &"exited".into())
    );
    assert_eq!(
        (&value["stdout"], &value["stdout_encoding"]),
        (&"/w==".into(), &"base64".into())
    );
    assert_eq!(
        (&value["stderr"], &value["stderr_encoding"]),
        (&"err\n".into(), &"utf-8".into())
    );
    assert_eq!(
        (&value["stage"], &value["changes"]),
        (&"default".into(), &1.into())
    );
    assert_eq!(value["report"]["launcher"], "native");
    let ran = world.quiet(&["exec", "--json", "--template", "ai-provider", "--", "true"]);
    assert_eq!(ran.code, Some(125));
    assert_eq!(ran.json()["error"]["code"], "invalid_arguments");
    let ran = world.quiet(&[
        "exec",
        "--json",
        "--allow-read",
        "/proc",
        "--allow-read",
        "/sys",
        "--",
        "true",
    ]);
    let error = &ran.json()["error"];
    assert_eq!(error["what"], "the sandbox plan is refused", "{ran:?}");
    assert_eq!(error["why"].as_array().unwrap().len(), 2, "{ran:?}");
}

#[test]
fn a_value_nothing_can_run_with_is_wrong_use() {
    let world = World::project();
    for (flag, value, fix) in [
        ("--timeout", "0s", "give at least 10ms"),
        ("--memory", "1", "give at least 64MiB"),
        ("--pids", "0", "give at least 1"),
        ("--deny", "", "name what to keep it from"),
        ("--deny", "a**b", "as a whole component"),
    ] {
        let ran = world.quiet(&["exec", flag, value, "--", "true"]);
        assert_eq!(ran.code, Some(125), "{flag} {value}: {ran:?}");
        assert!(ran.stderr.contains(fix), "{flag} {value}: {ran:?}");
    }
}

#[test]
fn a_grant_needs_the_capability_of_workspace_and_user() {
    let run = "rules:\n  - { name: run, match: { syscall: exec.run }, action: allow }\n";
    let without = "version: 1\nworkspace: { allow: [\"exec.*\", \"filesystem.read.*\"] }\n";
    for (policy, code) in [(without, 120), ("version: 1\n", 0)] {
        let world = World::under(&format!("{policy}{run}"));
        let granted = world.path("away").display().to_string();
        let write = format!("echo x > {granted}/written");
        let ran = world.quiet(&["exec", "--allow-write", &granted, "--", "sh", "-c", &write]);
        assert_eq!(ran.code, Some(code), "{policy}: {ran:?}");
        let written = world.path("away/written").exists();
        assert_eq!(written, code == 0, "{policy}: {ran:?}");
        let read = ["exec", "--allow-read", &granted, "--", "true"];
        assert_eq!(world.quiet(&read).code, Some(0), "{policy}");
    }
}

#[test]
fn it_starts_where_the_person_stands() {
    let world = World::project();
    let mut command = world.command(&["exec", "--", "cat", "main.rs"]);
    command.current_dir(world.workspace().join("src"));
    assert_eq!(finished(&mut command).code, Some(0));
}

/// A command, its arguments and where it starts are part of what is judged and recorded, which is
/// text.
#[test]
fn bytes_that_are_no_text_are_refused_before_anything_runs() {
    let world = World::project();
    let odd = || OsString::from_vec(b"odd\xff".to_vec());
    let ran = |command: &mut std::process::Command| {
        let ran = finished(command);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        assert!(ran.stderr.contains("UTF-8"), "{ran:?}");
        assert_eq!(ran.stdout, "", "{ran:?}");
    };
    for words in [
        vec!["exec".into(), "--".into(), odd()],
        vec!["exec".into(), "--".into(), "echo".into(), odd()],
        vec![
            "exec".into(),
            "--allow-read".into(),
            odd(),
            "--".into(),
            "true".into(),
        ],
        vec![
            "exec".into(),
            "--env".into(),
            odd(),
            "--".into(),
            "true".into(),
        ],
    ] {
        ran(&mut world.command(&words));
    }
    let there = world.workspace().join(odd());
    std::fs::create_dir(&there).unwrap();
    ran(world.command(&["exec", "--", "pwd"]).current_dir(there));
    // Outside of the workspace it does not matter where one stands.
    let away = world.path("away").join(odd());
    std::fs::create_dir(&away).unwrap();
    let root = world.workspace().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let mut command = world.command(&["--workspace", root, "exec", "--", "pwd"]);
    let ran = finished(command.current_dir(away));
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), root), "{ran:?}");
}

#[test]
fn a_directory_that_is_gone_is_nowhere_and_a_workspace_is_named_instead() {
    let world = World::project();
    let root = world.workspace().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    for (words, code, said) in [
        ("exec -- pwd".to_owned(), 125, "it may have been deleted"),
        (format!("--workspace {root} exec -- pwd"), 0, root),
        (
            format!("--workspace {root} exec --allow-read x -- true"),
            125,
            "it may have been deleted",
        ),
    ] {
        let gone = world.workspace().join("gone");
        std::fs::create_dir(&gone).unwrap();
        let mut command = program("sh");
        world.prepare(&mut command);
        command
            .args([
                "-c",
                &format!("rmdir \"$PWD\" && exec \"$AIRLOCK\" {words}"),
            ])
            .current_dir(&gone)
            .env("AIRLOCK", crate::support::binary());
        let ran = finished(&mut command);
        assert_eq!(ran.code, Some(code), "{words}: {ran:?}");
        assert!(
            format!("{}{}", ran.stdout, ran.stderr).contains(said),
            "{words}: {ran:?}"
        );
    }
}

#[test]
fn without_a_home_nothing_runs_and_with_directories_of_its_own_all_does() {
    let world = World::project();
    let mut command = world.command(&["exec", "--", "true"]);
    let ran = finished(command.env_remove("HOME").env_remove("XDG_STATE_HOME"));
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(ran.stderr.contains("set HOME"), "{ran:?}");
    for home in [None, Some("/nonexistent/home")] {
        let mut command = world.command(&["exec", "--", "sh", "-c", "cd && pwd && touch x"]);
        match home {
            None => command.env_remove("HOME"),
            Some(home) => command.env("HOME", home),
        };
        let ran = finished(&mut command);
        assert_eq!(ran.code, Some(0), "{home:?}: {ran:?}");
    }
}

/// The sandbox has a `/tmp` of its own, and needs none of the host's room.
#[test]
fn a_full_tmp_on_the_host_keeps_nothing_from_running() {
    let world = World::project();
    let full = world.path("full");
    std::fs::create_dir(&full).unwrap();
    // Where the workspace itself lies in it, it is shown there again.
    let root = world.path("").canonicalize().unwrap();
    let within = root.strip_prefix("/tmp").unwrap_or(Path::new("elsewhere"));
    let script = r#"mount -t tmpfs -o size=64k none "$FULL" \
        && mkdir -p "$FULL/$WITHIN" && mount --rbind "$ROOT" "$FULL/$WITHIN" \
        && ! head -c 1000000 /dev/zero 2>&- >"$FULL/fill" \
        && mount --rbind "$FULL" /tmp && cd "$ROOT/ws" \
        && ! (echo x >/tmp/more) 2>&- \
        && exec unshare --user --map-user=1000 --map-group=1000 \
            "$AIRLOCK" exec -- sh -c 'echo fine >/tmp/file && cat /tmp/file && echo x >staged'"#;
    let mut command = program("unshare");
    world.prepare(&mut command);
    command
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .env("FULL", &full)
        .env("ROOT", &root)
        .env("WITHIN", within)
        .env("AIRLOCK", crate::support::binary());
    let ran = finished(&mut command);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "fine\n"),
        "{ran:?}"
    );
}

/// No rule can be asked about such a name.
#[test]
fn a_name_that_is_no_text_is_put_back_and_the_rest_stands() {
    let world = World::project();
    let script = "echo x > \"$(printf 'odd\\377')\"; echo x > fine";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("put back: "), "{ran:?}");
    let ran = world.quiet(&["diff", "--stat"]);
    assert!(
        ran.stdout.contains("fine") && !ran.stdout.contains("odd"),
        "{ran:?}"
    );
}

#[test]
fn more_is_seen_only_if_granted() {
    let world = World::project();
    std::fs::write(world.path("away/data.txt"), "data\n").unwrap();
    let file = world.path("away/data.txt").display().to_string();
    let directory = world.path("away").display().to_string();
    assert_eq!(world.quiet(&["exec", "--", "cat", &file]).code, Some(1));
    let ran = world.quiet(&["exec", "--allow-read", &directory, "--", "cat", &file]);
    assert_eq!(ran.stdout, "data\n", "{ran:?}");
    let write = format!("echo more >> {file}");
    let ran = world.quiet(&["exec", "--allow-read", &directory, "--", "sh", "-c", &write]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    let ran = world.quiet(&[
        "exec",
        "--env",
        "A=1",
        "--",
        "sh",
        "-c",
        "echo $A$TZ$XDG_STATE_HOME",
    ]);
    assert_eq!(ran.stdout, "1UTC\n", "{ran:?}");
}

#[test]
fn what_holds_airlocks_own_files_is_granted_without_them() {
    let world = World::project();
    // There is something to keep from it.
    assert_eq!(world.quiet(&["exec", "--", "true"]).code, Some(0));
    std::fs::write(world.path("state/other"), "seen\n").unwrap();
    let state = world.path("state").display().to_string();
    let script = format!("cat {state}/other; ls -A {state}/airlock 2>/dev/null; true");
    for grant in ["--allow-read", "--allow-write"] {
        let ran = world.quiet(&["exec", grant, &state, "--", "sh", "-c", &script]);
        assert_eq!(ran.code, Some(0), "{grant}: {ran:?}");
        assert_eq!(ran.stdout, "seen\n", "{grant}: {ran:?}");
    }
}

#[test]
fn no_grant_reaches_the_policy_of_another_workspace() {
    let world = World::project();
    let policy = world.path("away/other/.airlock/policy.yaml");
    std::fs::create_dir_all(policy.parent().unwrap()).unwrap();
    std::fs::write(&policy, "version: 1\n").unwrap();
    let away = world.path("away").display().to_string();
    let other = format!("{away}/other");
    for script in [
        format!("echo 'version: 2' > {other}/.airlock/policy.yaml"),
        format!("rm {other}/.airlock/policy.yaml"),
        format!("mv {other}/.airlock {other}/was"),
        format!("mkdir {other}/.airlock/plugins"),
        format!("mkdir {away}/.airlock"),
        format!("mkdir {away}/made && mv {away}/made {away}/.airlock"),
    ] {
        let ran = world.quiet(&["exec", "--allow-write", &away, "--", "sh", "-c", &script]);
        assert!(matches!(ran.code, Some(1 | 2)), "{script}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(&policy).unwrap(), "version: 1\n");
    assert!(!world.path("away/.airlock").exists());
    // Beside it there is work to do, and it can be read.
    let script = format!("cat {other}/.airlock/policy.yaml > {other}/copy");
    let ran = world.quiet(&["exec", "--allow-write", &away, "--", "sh", "-c", &script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(world.path("away/other/copy").exists());
}

/// Somebody who could once write beside a place made a link of it.
#[test]
fn a_link_makes_no_grant_of_the_workspace_or_of_airlocks_own() {
    let world = World::project();
    assert_eq!(world.quiet(&["exec", "--", "true"]).code, Some(0));
    let out = world.path("away/out");
    let odd = world
        .workspace()
        .join(OsString::from_vec(b"odd\xff".to_vec()));
    std::fs::create_dir(&odd).unwrap();
    let granted = out.display().to_string();
    let write = format!("echo x > {granted}/written");
    for (target, code) in [
        (world.workspace(), 120),
        (world.workspace().join("src"), 120),
        (world.path("state/airlock"), 120),
        (odd, 125),
        (world.path("missing"), 125),
    ] {
        std::os::unix::fs::symlink(&target, &out).unwrap();
        let ran = world.quiet(&["exec", "--allow-write", &granted, "--", "sh", "-c", &write]);
        std::fs::remove_file(&out).unwrap();
        assert_eq!(ran.code, Some(code), "{target:?}: {ran:?}");
        assert!(!target.join("written").exists(), "{target:?}: {ran:?}");
    }
    // One that leads where nothing forbids is what it leads to.
    std::fs::create_dir(world.path("away/real")).unwrap();
    std::os::unix::fs::symlink("real", &out).unwrap();
    let real = world.path("away/real/written").display().to_string();
    let write = format!("echo x > {real}");
    let ran = world.quiet(&["exec", "--allow-write", &granted, "--", "sh", "-c", &write]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(world.path("away/real/written").exists());
}

const CATCHES_INTERRUPTS: &str =
    "trap 'echo caught; exit 9' INT; echo ready; for i in $(seq 600); do sleep 0.1; done";

/// What `airlock exec -- sh -c SCRIPT`, started by `wrapper`, comes to that is sent `signal` once the
/// script has said `ready`.
fn signalled(world: &World, wrapper: &[&str], script: &str, signal: Signal) -> Output {
    let mut command = world.through(wrapper, &["exec", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupt_reaches_the_command_and_its_outcome_is_recorded() {
    let world = World::project();
    let output = signalled(&world, &[], CATCHES_INTERRUPTS, Signal::INT);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert_eq!(output.stdout, b"caught\n");
    let log = world.quiet(&["audit", "log", "--text", "exited", "--json"]);
    assert!(log.stdout.contains("\"exit\":\"9\""), "{log:?}");
}

#[test]
fn what_airlock_was_made_to_ignore_the_command_does_not() {
    let world = World::project();
    // As a script does with what it puts in the background.
    let background = ["env", "--ignore-signal=INT,QUIT"];
    let output = signalled(&world, &background, CATCHES_INTERRUPTS, Signal::INT);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert_eq!(output.stdout, b"caught\n");
    // As `nohup` does, so that what it starts outlives the terminal.
    let nohup = ["env", "--ignore-signal=HUP"];
    let output = signalled(
        &world,
        &nohup,
        "echo ready; sleep 1; echo done",
        Signal::HUP,
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"done\n");
}

#[test]
fn agents_run_only_what_the_policy_lists() {
    let world = World::governed();
    let call = |command: &str| {
        world.quiet(&[
            "tool",
            "call",
            "exec.run",
            "--as",
            "agent",
            &format!("{{\"command\": {command}}}"),
        ])
    };
    let ran = call("[\"curl\", \"x\"]");
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("IV-01"), "{ran:?}");
    let ran = world.quiet(&[
        "tool",
        "call",
        "exec.own",
        "--as",
        "agent",
        "{\"command\": [\"true\"]}",
    ]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
