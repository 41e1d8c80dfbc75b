//! `airlock kernel`: one for a workspace, found by commands, gone when nobody needs it.

use crate::support::{PATIENCE, Served, World, finished, wait_until};
use airlock_wire::{Client, ClientError, Hello, code};
use rustix::process::Signal;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn it_starts_says_how_it_is_and_stops() {
    let world = World::project();
    let none = world.quiet(&["kernel", "status"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert_eq!(
        world.quiet(&["kernel", "status", "--json"]).json(),
        json!({ "running": false })
    );
    assert_eq!(world.quiet(&["kernel", "stop"]).code, Some(0));
    let served = world.serve();
    let status = world.quiet(&["kernel", "status", "--json"]).json();
    assert_eq!(
        (&status["pid"], &status["running"]),
        (&json!(served.pid), &json!(true))
    );
    let shown = world.quiet(&["kernel", "status"]);
    assert!(
        shown.stdout.contains(&format!("process {}", served.pid)),
        "{shown:?}"
    );
    assert_eq!(served.stop().code, Some(0));
    served.wait_for_end();
    assert!(!served.socket.exists());
    assert_eq!(world.quiet(&["kernel", "status"]).code, Some(1));
    // Its beginning and its end are in the log.
    let log = world.quiet(&["audit", "log", "--json"]).stdout;
    for event in ["kernel_start", "kernel_shutdown"] {
        assert_eq!(log.matches(event).count(), 1, "{event}");
    }
}

#[test]
fn a_second_one_is_refused_and_told_of_the_first() {
    let world = World::project();
    let served = world.serve();
    for args in [
        &["kernel"][..],
        &["kernel", "--foreground"],
        &["kernel", "--json"],
    ] {
        let ran = world.quiet(args);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(&served.pid.to_string()), "{ran:?}");
    }
    assert!(served.is_alive());
}

#[test]
fn one_client_does_not_take_every_place() {
    let world = World::project();
    let served = world.serve();
    let hello = Hello::new("agent", "test");
    let mut held = Vec::new();
    let refused = loop {
        match Client::connect(&served.socket, &hello, PATIENCE) {
            Ok(client) => held.push(client),
            Err(error) => break error,
        }
        assert!(held.len() < 512, "it has every place");
    };
    let overloaded =
        matches!(&refused, ClientError::Closed(error) if error.code == code::OVERLOADED);
    assert!(overloaded, "after {}: {refused}", held.len());
    // Everybody else notices nothing.
    for _ in 0..8 {
        let status = world.quiet(&["kernel", "status"]);
        assert_eq!(status.code, Some(0), "{status:?}");
    }
    for mut client in held {
        assert_eq!(client.call("ping", json!(null)).unwrap(), json!("pong"));
    }
}

/// A command uses the kernel that is as one of its own would be, and no other.
#[test]
fn a_kernel_of_another_build_or_with_other_models_is_not_used() {
    let world = World::governed();
    // Old kernels go on after an update put another program in the place of theirs.
    let program = world.path("airlock");
    crate::support::copy_binary(&program);
    let run = |args: &[&str]| {
        let mut command = crate::support::program(program.to_str().unwrap());
        world.prepare(&mut command);
        let ran = finished(command.args(args));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    };
    world.alone();
    run(&["kernel", "--idle", "5m"]);
    let calls = || {
        run(&["kernel", "status", "--json"]).json()["calls"]
            .as_u64()
            .unwrap()
    };
    let is_used = || {
        let [one, other] = [
            &["tool", "call", "fs.read", "path=README.md"][..],
            &["exec", "--", "true"],
        ]
        .map(|line| {
            let before = calls();
            run(line);
            calls() > before
        });
        assert_eq!(one, other);
        one
    };
    assert!(is_used());
    let configuration = world.path("config/airlock/config.yaml");
    let models = "models:\n  - { name: new, provider: scripted, script: /nowhere }\n";
    std::fs::create_dir_all(configuration.parent().unwrap()).unwrap();
    std::fs::write(&configuration, models).unwrap();
    assert!(!is_used(), "it has other models");
    std::fs::remove_file(configuration).unwrap();
    assert!(is_used());
    for one in [&program, &world.path("airlock-main")] {
        std::fs::remove_file(one).unwrap();
    }
    crate::support::copy_binary(&program);
    assert!(!is_used(), "it is another build");
    run(&["kernel", "stop"]);
}

/// The first line a kernel in the foreground says.
#[test]
fn a_kernel_whose_directory_was_replaced_is_not_used() {
    let world = World::governed();
    world.write("told.txt", "one tree\n");
    let served = world.serve();
    let read = || {
        world
            .quiet(&["tool", "call", "fs.read", "path=told.txt"])
            .stdout
    };
    assert!(read().contains("one tree"), "the control");
    let calls = || world.quiet(&["kernel", "status", "--json"]).json()["calls"].clone();
    let before = calls();
    let (here, away) = (world.workspace(), world.path("away"));
    std::fs::rename(&here, &away).unwrap();
    std::fs::create_dir(&here).unwrap();
    world.write("told.txt", "another tree\n");
    assert!(read().contains("another tree"), "{}", read());
    let status = world.quiet(&["kernel", "status"]);
    assert!(
        status.stderr.contains("another directory stands"),
        "{status:?}"
    );
    assert_eq!(calls(), before, "it was asked nothing");
    std::fs::remove_dir_all(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    assert!(read().contains("one tree"));
    assert_ne!(calls(), before, "it is used again");
    assert_eq!(served.stop().code, Some(0));
}

fn first_line(child: &mut std::process::Child) -> String {
    let mut line = String::new();
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    line
}

/// What others hold open must not use up the files its own work needs, and programs are to see what
/// they see without a kernel: some break where many files may be open.
#[test]
fn it_may_open_many_files_and_what_it_runs_as_many_as_ever() {
    let world = World::project();
    let wrapper = ["sh", "-c", "ulimit -S -n 256; exec \"$0\" \"$@\""];
    let args = ["kernel", "--foreground", "--until-closed", "--idle=0s"];
    let mut command = world.through(&wrapper, &args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let line = first_line(&mut child);
    assert!(line.starts_with("kernel ready: process "), "{line}");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let mut lines = limits.lines();
    let files = lines.find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = files.unwrap().split_whitespace().collect();
    let [soft, hard] = [3, 4].map(|word: usize| words[word].parse::<u64>().unwrap());
    assert_eq!(soft, hard.min(65_536), "{limits}");
    let ran = world.quiet(&["exec", "--", "sh", "-c", "ulimit -S -n"]);
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "1024"), "{ran:?}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn it_ends_when_idle_and_not_before() {
    let world = World::project();
    let mut command = world.command(&["kernel", "--foreground", "--idle", "2s", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let told: serde_json::Value = serde_json::from_str(&first_line(&mut child)).unwrap();
    let socket = std::path::PathBuf::from(told["socket"].as_str().unwrap());
    let mut client = Client::connect(&socket, &Hello::new("cli", "test"), PATIENCE).unwrap();
    // Whoever is connected keeps it, also without a word.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(client.call("ping", json!(null)).unwrap(), json!("pong"));
    drop(client);
    assert!(child.wait().unwrap().success());
    for wrong in ["", "soon", "-1s"] {
        let ran = world.quiet(&["kernel", &format!("--idle={wrong}")]);
        assert_eq!(ran.code, Some(2), "{wrong}: {ran:?}");
    }
}

#[test]
fn it_ends_with_whoever_holds_its_input() {
    let world = World::project();
    let mut command = world.command(&["kernel", "--foreground", "--until-closed", "--idle=0s"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let line = first_line(&mut child);
    assert!(line.starts_with("kernel ready: process "), "{line}");
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"words do not end it\n").unwrap();
    assert_eq!(world.quiet(&["kernel", "status"]).code, Some(0));
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(world.quiet(&["kernel", "status"]).code, Some(1));
}

#[test]
fn signals_end_it_in_order() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let world = World::project();
        let served = world.serve();
        let mut client = served.client("cli");
        client.call("ping", json!(null)).unwrap();
        served.signal(signal);
        served.wait_for_end();
        assert!(!served.socket.exists());
        let log = world.quiet(&["audit", "log", "--json"]).stdout;
        assert!(log.contains("kernel_shutdown"), "{signal:?}");
        assert!(!world.quiet(&["audit", "log"]).stderr.contains("died"));
    }
}

#[test]
fn a_killed_one_is_in_nobodys_way() {
    let world = World::project();
    let served = world.serve();
    served.signal(Signal::KILL);
    served.wait_for_end();
    assert!(served.socket.exists(), "nobody cleaned up after it");
    let ran = world.quiet(&["tool", "call", "fs.read", "path=README.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(world.quiet(&["kernel", "status"]).code, Some(1));
    let next = world.serve();
    assert_eq!(next.socket, served.socket);
    let ran = world.quiet(&["tool", "call", "fs.read", "path=README.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Nobody is told that none runs while one holds the workspace.
#[test]
fn one_that_does_not_answer_is_not_said_to_be_none() {
    let world = World::project();
    let served = world.serve();
    served.signal(Signal::STOP);
    for words in [["kernel", "status"], ["kernel", "stop"]] {
        let ran = world.quiet(&words);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("does not answer"), "{ran:?}");
        assert!(ran.stderr.contains(&served.pid.to_string()), "{ran:?}");
    }
    served.signal(Signal::CONT);
    let ran = world.quiet(&["kernel", "status"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// It was said hello to before the line was read.
#[test]
fn a_command_that_is_none_leaves_a_kernel_that_was_greeted_as_it_was() {
    let world = World::governed();
    let served = world.serve();
    for wrong in [["--timeout", "soon"], ["--bogus", "x"]] {
        let ran = world.quiet(&["exec", wrong[0], wrong[1], "--", "true"]);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        assert!(
            ran.stderr.contains(wrong[0].trim_start_matches('-')),
            "{ran:?}"
        );
    }
    let ran = world.quiet(&["exec", "--", "echo", "on"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "on\n"));
    assert!(served.is_alive());
}

#[test]
fn a_command_that_met_a_kernel_that_hangs_is_run_without_it() {
    let world = World::governed();
    let served = world.serve();
    served.signal(Signal::STOP);
    let ran = world.quiet(&["exec", "--", "echo", "on"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "on\n"),
        "{ran:?}"
    );
    served.signal(Signal::CONT);
    wait_until("it goes on", || {
        world.quiet(&["kernel", "status"]).code == Some(0)
    });
}

/// The sandbox that takes it was made for the last one.
#[test]
fn what_a_denied_name_leads_to_by_now_is_denied_to_the_next_command() {
    let world = World::governed();
    let _served = world.serve();
    let at = |name: &str| world.workspace().join(name);
    std::fs::write(at("key"), "SECRET").unwrap();
    std::fs::write(at("plain"), "plain").unwrap();
    std::os::unix::fs::symlink("plain", at("link")).unwrap();
    for name in ["link", "new"] {
        let before = world.quiet(&["exec", "--deny", name, "--", "cat", "key"]);
        assert_eq!(before.stdout, "SECRET", "{before:?}");
        let _old = std::fs::remove_file(at(name));
        std::os::unix::fs::symlink("key", at(name)).unwrap();
        let ran = world.quiet(&["exec", "--deny", name, "--", "cat", name, "key"]);
        assert!(!ran.stdout.contains("SECRET"), "{ran:?}");
    }
}

/// Neither sandboxes it held ready, nor what bears them.
#[test]
fn a_killed_one_leaves_no_process() {
    let world = World::governed();
    let served = world.serve();
    for _ in 0..3 {
        assert_eq!(world.quiet(&["exec", "--", "true"]).code, Some(0));
    }
    let own = served.pid.to_string();
    let of_it = || -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        pids.filter(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            let status = status.unwrap_or_default();
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
            parent.is_some_and(|parent| parent.trim() == own)
        })
        .collect()
    };
    let children = of_it();
    assert!(!children.is_empty(), "a sandbox is held ready");
    served.signal(Signal::KILL);
    served.wait_for_end();
    for child in children {
        let process = std::path::Path::new("/proc").join(child);
        wait_until("its children are gone", || !process.exists());
    }
}

#[test]
fn its_socket_is_private_and_in_the_runtime_directory_where_that_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::project();
    let runtime = world.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let mode = |path: &std::path::Path| {
        let found = std::fs::symlink_metadata(path).unwrap();
        found.permissions().mode() & 0o777
    };
    for (open, inside) in [(0o755, false), (0o700, true)] {
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(open)).unwrap();
        let mut command = world.command(&["kernel", "--json"]);
        command.env("XDG_RUNTIME_DIR", &runtime);
        let ran = finished(&mut command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let socket = std::path::PathBuf::from(ran.json()["socket"].as_str().unwrap());
        assert_eq!(socket.starts_with(&runtime), inside, "{socket:?}");
        assert_eq!(mode(&socket), 0o600);
        assert_eq!(mode(socket.parent().unwrap()), 0o700);
        // Found whatever the environment of whoever looks.
        assert_eq!(world.quiet(&["kernel", "status"]).code, Some(0));
        assert_eq!(world.quiet(&["kernel", "stop"]).code, Some(0));
    }
}

#[test]
fn a_state_directory_with_a_very_long_name_serves_as_well() {
    let world = World::project();
    let long = world.path(&"x".repeat(150));
    let mut command = world.command(&["kernel", "--json"]);
    command.env("XDG_STATE_HOME", &long);
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for words in [
        &["kernel", "status"][..],
        &["tool", "call", "fs.list"],
        &["kernel", "stop"],
    ] {
        let mut command = world.command(words);
        command.env("XDG_STATE_HOME", &long);
        let ran = finished(&mut command);
        assert_eq!(ran.code, Some(0), "{words:?} {ran:?}");
    }
}

/// A program in a sandbox finds neither the socket nor anything behind it.
#[test]
fn no_sandbox_reaches_the_socket() {
    let world = World::governed();
    let served: Served<'_> = world.serve();
    let socket = served.socket.display().to_string();
    let script = format!("test ! -e '{socket}' && test ! -e \"$(dirname '{socket}')\"");
    let ran = world.quiet(&["exec", "--", "sh", "-c", &script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let directory = served.socket.parent().unwrap().display().to_string();
    let ran = world.quiet(&["exec", "--allow-write", &directory, "--", "true"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
}
