//! The whole program against kernels that live, crash, hang and lie.

#![expect(
    clippy::unwrap_used,
    clippy::exit,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts programs and reads what it was started with"
)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A directory of its own; short, because sockets have short names.
fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("ab-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A program that is this test file as a kernel. Written once, before anything is started: a file
/// that is being written cannot be executed, and other threads hand on open files when they fork.
fn fake() -> &'static Path {
    static FAKE: OnceLock<PathBuf> = OnceLock::new();
    FAKE.get_or_init(|| {
        let path = directory().join("kernel");
        let own = std::env::current_exe().unwrap();
        // It names its socket on its first line, as a kernel does.
        let script = format!(
            "#!/bin/sh\necho \"kernel ready: process $$, $FAKE_DIRECTORY/s\"\nFAKE_ARGUMENTS=\"$*\" exec '{}' --exact --nocapture the_disguise_answers_as_a_kernel_does\n",
            own.display()
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    })
}

struct Started {
    child: Child,
    directory: PathBuf,
    lines: Vec<String>,
}

impl Started {
    fn new(mode: &str, settings: &[(&str, &str)]) -> Self {
        let directory = directory();
        let mut command = Command::new(env!("CARGO_BIN_EXE_airlock-bootstrap"));
        command
            .env("AIRLOCK_KERNEL", fake())
            .env("AIRLOCK_WORKSPACE", &directory)
            .env("AIRLOCK_SOCKET", directory.join("s"))
            .env("AIRLOCK_PING_EVERY", "1")
            .env("AIRLOCK_PING_TIMEOUT", "1")
            .env("FAKE_MODE", mode)
            .env("FAKE_DIRECTORY", &directory)
            .env_remove("AIRLOCK_BOOTSTRAP_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for (name, value) in settings {
            if value.is_empty() {
                command.env_remove(name);
            } else {
                command.env(name, value);
            }
        }
        let child = command.spawn().unwrap();
        Self { child, directory, lines: Vec::new() }
    }

    fn finish(mut self) -> (ExitStatus, Vec<String>) {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        self.lines.extend(text.lines().map(str::to_owned));
        (status, self.lines)
    }

    /// How often the kernel was started.
    fn starts(directory: &Path) -> usize {
        std::fs::read_to_string(directory.join("starts")).unwrap_or_default().lines().count()
    }
}

fn count(lines: &[String], wanted: &str) -> usize {
    lines.iter().filter(|line| line.contains(wanted)).count()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn answer(mut stream: UnixStream, lie: bool) -> std::io::Result<()> {
    for id in 1.. {
        let mut head = [0; 4];
        stream.read_exact(&mut head)?;
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        stream.read_exact(&mut body)?;
        let text = String::from_utf8(body).unwrap();
        let wanted = if id == 1 { "\"handshake\"" } else { "\"ping\"" };
        assert!(text.contains(wanted) && text.contains("\"type\":\"request\""), "{text}");
        let said = if lie {
            format!(r#"{{"id":{id},"type":"response","error":{{"code":"nope"}}}}"#)
        } else {
            format!(r#"{{"id":{id},"type":"response","result":{{}}}}"#)
        };
        stream.write_all(&u32::try_from(said.len()).unwrap().to_be_bytes())?;
        stream.write_all(said.as_bytes())?;
    }
    Ok(())
}

/// Answers `most` connections; then takes them and says nothing.
fn serve(socket: PathBuf, most: usize, lie: bool) {
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            if number < most {
                let _ = answer(stream, lie);
            } else {
                silent.push(stream);
            }
        }
    });
}

/// Answers one connection. Then it tells whoever comes that there are too many, before they could ask,
/// and notes each.
fn serve_one(socket: PathBuf, refused: PathBuf) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut notes = std::fs::File::create(refused).unwrap();
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            if number == 0 {
                let _ = answer(stream, false);
                continue;
            }
            let said =
                r#"{"id":0,"type":"response","error":{"code":"overloaded","message":"full"}}"#;
            stream.write_all(&u32::try_from(said.len()).unwrap().to_be_bytes()).unwrap();
            stream.write_all(said.as_bytes()).unwrap();
            drop(stream);
            writeln!(notes, "refused").unwrap();
        }
    });
}

/// Also the kernel the other tests start: it is this one, with a mode to be in.
#[test]
fn the_disguise_answers_as_a_kernel_does() {
    if let Ok(mode) = std::env::var("FAKE_MODE") {
        std::process::exit(disguised(&mode));
    }
    let socket = directory().join("s");
    serve(socket.clone(), 1, false);
    let mut stream = UnixStream::connect(socket).unwrap();
    for (id, method) in [(1, "handshake"), (2, "ping")] {
        let asked = format!(r#"{{"id":{id},"type":"request","method":"{method}"}}"#);
        stream.write_all(&u32::try_from(asked.len()).unwrap().to_be_bytes()).unwrap();
        stream.write_all(asked.as_bytes()).unwrap();
        let mut head = [0; 4];
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        stream.read_exact(&mut body).unwrap();
        let wanted = format!(r#"{{"id":{id},"type":"response","result":{{}}}}"#);
        assert_eq!(String::from_utf8(body).unwrap(), wanted);
    }
}

/// Is a kernel in `mode`; its exit code.
fn disguised(mode: &str) -> i32 {
    let directory = PathBuf::from(std::env::var("FAKE_DIRECTORY").unwrap());
    let arguments = std::env::var("FAKE_ARGUMENTS").unwrap();
    let mut starts = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("starts"))
        .unwrap();
    writeln!(starts, "{} {arguments}", std::process::id()).unwrap();
    let state = std::env::var("XDG_STATE_HOME").unwrap_or_default();
    std::fs::write(directory.join("state"), state).unwrap();
    let socket = directory.join("s");
    match mode {
        "crash" => 7,
        "usage" => 2,
        "taken" => 75,
        "done" => 0,
        "killed" => std::process::abort(),
        _ => {
            match mode {
                "lives" => serve(socket, usize::MAX, false),
                "hangs" => serve(socket, 2, false),
                "lies" => serve(socket, usize::MAX, true),
                "full" => serve_one(socket, directory.join("refused")),
                "mute" => {}
                other => assert_eq!(other, "a mode there is"),
            }
            // Lives until its input is closed, as it was told to.
            let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
            std::fs::write(directory.join("closed"), "").unwrap();
            0
        }
    }
}

#[test]
fn a_kernel_that_ends_well_ends_the_supervisor_well() {
    let started = Started::new("done", &[]);
    let directory = started.directory.clone();
    let (status, lines) = started.finish();
    assert_eq!(status.code(), Some(0), "{lines:?}");
    assert_eq!(Started::starts(&directory), 1);
    let told = std::fs::read_to_string(directory.join("starts")).unwrap();
    let wanted =
        format!("kernel --foreground --until-closed --idle=0s --workspace={}", directory.display());
    assert!(told.trim_end().ends_with(&wanted), "{told}");
}

#[test]
fn a_crash_loop_is_three_restarts_and_a_structured_error() {
    for (mode, why) in [("crash", "exit status: 7"), ("killed", "signal: 6")] {
        let started = Started::new(mode, &[]);
        let directory = started.directory.clone();
        let (status, lines) = started.finish();
        assert_eq!(status.code(), Some(1), "{lines:?}");
        assert_eq!(Started::starts(&directory), 4, "the first start and three more");
        assert_eq!(count(&lines, "\"event\":\"restarting\""), 3, "{lines:?}");
        let last = lines.last().unwrap();
        for part in ["{\"error\":\"crash_loop\"", why, "\"what\":", "\"why\":", "\"fix\":"] {
            assert!(last.contains(part), "{part}: {last}");
        }
    }
}

#[test]
fn refused_settings_are_not_tried_again() {
    let started = Started::new("usage", &[]);
    let directory = started.directory.clone();
    let (status, lines) = started.finish();
    assert_eq!((status.code(), Started::starts(&directory)), (Some(2), 1), "{lines:?}");
    assert!(lines.last().unwrap().contains("\"error\":\"refused\""));
}

#[test]
fn a_workspace_that_another_kernel_serves_is_left_to_it() {
    let started = Started::new("taken", &[]);
    let directory = started.directory.clone();
    let (status, lines) = started.finish();
    assert_eq!((status.code(), Started::starts(&directory)), (Some(75), 1), "{lines:?}");
    assert!(lines.last().unwrap().starts_with("{\"error\":\"taken\""), "{lines:?}");
    assert_eq!(count(&lines, "\"event\":\"restarting\""), 0, "{lines:?}");
}

#[test]
fn a_kernel_with_too_many_connections_lives() {
    let mut started = Started::new("full", &[]);
    let directory = started.directory.clone();
    let refused = || {
        let notes = std::fs::read_to_string(directory.join("refused"));
        notes.unwrap_or_default().lines().count()
    };
    // One more than the questions it may leave unanswered.
    until("a row of refusals", || refused() >= 4 || Started::starts(&directory) > 1);
    assert_eq!(Started::starts(&directory), 1, "it was started again");
    started.child.kill().unwrap();
    started.child.wait().unwrap();
}

#[test]
fn a_kernel_that_never_answers_or_only_with_errors_counts_as_crashed() {
    for mode in ["mute", "lies"] {
        let started = Started::new(mode, &[("AIRLOCK_START_TIMEOUT", "1")]);
        let directory = started.directory.clone();
        let (status, lines) = started.finish();
        assert_eq!(status.code(), Some(1), "{lines:?}");
        assert_eq!(Started::starts(&directory), 4);
        assert_eq!(count(&lines, "it did not come up"), 4, "{lines:?}");
        assert_eq!(count(&lines, "\"event\":\"ready\""), 0);
        assert!(directory.join("closed").exists(), "it was ended by closing its input");
    }
}

#[test]
fn a_kernel_that_stops_answering_is_started_again() {
    let mut started = Started::new("hangs", &[]);
    let mut reader = BufReader::new(started.child.stderr.take().unwrap());
    let mut seen = Vec::new();
    until("a restart after silence", || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        seen.push(line);
        count(&seen, "it stopped answering") == 1 && count(&seen, "\"event\":\"ready\"") == 2
    });
    assert_eq!(count(&seen, "\"event\":\"started\""), 2, "{seen:?}");
    started.child.kill().unwrap();
    started.child.wait().unwrap();
}

/// Waits until a kernel that was started so answers, and ends it.
fn comes_up(settings: &[(&str, &str)]) {
    let mut started = Started::new("lives", settings);
    let mut reader = BufReader::new(started.child.stderr.take().unwrap());
    let mut seen = String::new();
    until("the first pong", || {
        reader.read_line(&mut seen).unwrap();
        seen.contains("\"event\":\"ready\"")
    });
    started.child.kill().unwrap();
    started.child.wait().unwrap();
}

#[test]
fn the_kernel_says_itself_where_it_answers() {
    comes_up(&[("AIRLOCK_SOCKET", "")]);
}

#[test]
fn a_socket_is_reached_whose_path_no_address_holds() {
    let directory = directory();
    let long = directory.join("x".repeat(120));
    std::os::unix::fs::symlink(&directory, &long).unwrap();
    let socket = long.join("s");
    assert_eq!(UnixStream::connect(&socket).unwrap_err().kind(), ErrorKind::InvalidInput);
    let at = ("FAKE_DIRECTORY", directory.to_str().unwrap());
    comes_up(&[at, ("AIRLOCK_SOCKET", socket.to_str().unwrap())]);
}

#[test]
fn a_plain_kernel_keeps_its_state_where_the_setting_says() {
    for (setting, inherited, want) in [("/s", "/i", "/s"), ("", "/i", "/i"), ("", "", "")] {
        let settings = [("AIRLOCK_STATE", setting), ("XDG_STATE_HOME", inherited)];
        let started = Started::new("done", &settings);
        let directory = started.directory.clone();
        let (status, lines) = started.finish();
        assert_eq!(status.code(), Some(0), "{lines:?}");
        let told = std::fs::read_to_string(directory.join("state")).unwrap();
        assert_eq!(told, want, "{settings:?}");
    }
}

#[test]
fn nobody_has_to_listen_for_a_kernel_to_be_started_again() {
    let mut started = Started::new("killed", &[]);
    drop(started.child.stderr.take());
    let status = started.child.wait().unwrap();
    assert_eq!((status.code(), Started::starts(&started.directory)), (Some(1), 4));
}

#[test]
fn help_names_the_settings_on_standard_output() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airlock-bootstrap"));
    let output = command.arg("--help").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("usage: ") && text.ends_with(" start_timeout\n"), "{text}");
}

#[test]
fn the_kernel_ends_when_the_supervisor_is_killed() {
    let mut started = Started::new("lives", &[]);
    let directory = started.directory.clone();
    until("a start", || directory.join("s").exists());
    assert!(!directory.join("closed").exists());
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    until("the kernel's end", || directory.join("closed").exists());
}

#[test]
fn what_cannot_be_started_is_told_at_once() {
    for (settings, code, exit) in [
        ([("AIRLOCK_KERNEL", "/nowhere/airlock"), ("AIRLOCK_STATE", "/var/tmp")], "not_started", 1),
        ([("AIRLOCK_KERNEL", "/etc/passwd"), ("AIRLOCK_STATE", "/var/tmp")], "not_started", 1),
        ([("AIRLOCK_ENGINE", "auto"), ("PATH", "/nowhere")], "no_engine", 5),
        ([("AIRLOCK_ENGINE", "/bin/true"), ("AIRLOCK_IMAGE", "--privileged")], "config", 2),
        ([("AIRLOCK_BOOTSTRAP_CONFIG", "/nowhere"), ("AIRLOCK_STATE", "/var/tmp")], "config", 2),
        ([("AIRLOCK_PING_EVERY", "soon"), ("AIRLOCK_STATE", "/var/tmp")], "config", 2),
    ] {
        let (status, lines) = Started::new("done", &settings).finish();
        assert_eq!(status.code(), Some(exit), "{settings:?}: {lines:?}");
        let wanted = format!("{{\"error\":\"{code}\"");
        assert!(lines.last().unwrap().starts_with(&wanted), "{lines:?}");
    }
}

#[test]
fn an_engine_gets_the_walls_and_the_kernel_the_rest() {
    // The engine is the same disguise: it only notes what it is given.
    let engine = fake().to_str().unwrap();
    let started =
        Started::new("done", &[("AIRLOCK_ENGINE", engine), ("AIRLOCK_STATE", "/var/tmp")]);
    let directory = started.directory.clone();
    let (status, lines) = started.finish();
    assert_eq!(status.code(), Some(0), "{lines:?}");
    let told = std::fs::read_to_string(directory.join("starts")).unwrap();
    for word in [
        " run ",
        "--network=none",
        "--cap-drop=ALL",
        "--read-only",
        " airlock kernel --foreground ",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

/// The lines that are no module of tests; comments and blank ones count.
fn shipped(text: &str) -> usize {
    let mut in_tests = false;
    let ships = |line: &&str| {
        in_tests |= *line == "#[cfg(test)]";
        let ships = !in_tests;
        in_tests &= *line != "}";
        ships
    };
    text.lines().filter(ships).count()
}

/// Every line of source, and what the manifest depends on: the reasons this program can be trusted to
/// be understood.
#[test]
fn it_stays_small_and_depends_on_nothing() {
    assert_eq!(shipped("// a\n\nfn a() {\n}\n#[cfg(test)]\nmod tests {\n    x\n}\nfn b() {}\n"), 5);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lines = 0;
    for entry in std::fs::read_dir(root.join("src")).unwrap() {
        lines += shipped(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    assert!((200..500).contains(&lines), "{lines} lines");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("dependencies"), "{manifest}");
}
