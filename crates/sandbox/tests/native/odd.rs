//! Odd requests, odd programs, odd surroundings: each with what exactly comes of it.

use crate::support::{Place, Ran, command, limits, run, sh};
use airlock_core::{ByteSize, Span};
use airlock_sandbox::launch::{Command, NotStarted, StartError, Stdin, Streams};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::plan::Limits;
use airlock_sandbox::{HostPath, Sandbox, start};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn limited(place: &Place, change: impl FnOnce(&mut Limits)) -> Sandbox {
    let limits = limits(change);
    start(place.launch(|plan| plan.limits(limits))).unwrap()
}

fn shell(sandbox: &mut Sandbox, script: &str) -> Ran {
    run(sandbox, &command(&["sh", "-c", script]))
}

fn python(sandbox: &mut Sandbox, script: &str) -> Ran {
    run(sandbox, &command(&["/usr/bin/python3", "-c", script]))
}

/// Nothing runs in it but init and the shell that counts, and it works.
fn is_well(sandbox: &mut Sandbox) {
    assert_eq!(sh(sandbox, "set -- /proc/[0-9]*; echo $#"), "2\n");
}

#[test]
fn bytes_that_are_no_text_pass_as_arguments_variables_and_directories() {
    let place = Place::new();
    let odd: &[&[u8]] = &[
        b"new\nline",
        b"\xff\xfe",
        b"-rf",
        b"",
        b"$(id)`id`",
        b"\x1b[31m",
    ];
    for bytes in odd.iter().filter(|bytes| !bytes.is_empty()) {
        fs::create_dir(place.path("tree").join(OsStr::from_bytes(bytes))).unwrap();
    }
    let mut sandbox = place.start();
    for bytes in odd {
        let text = OsStr::from_bytes(bytes);
        let mut odd = command(&[
            "sh",
            "-c",
            r#"printf '%s|%s|%s' "$1" "$ODD" "${PWD##*/}""#,
            "sh",
        ]);
        odd.arguments.push(text.to_owned());
        odd.environment.insert("ODD".into(), text.to_owned());
        if !bytes.is_empty() {
            let directory = HostPath::new(place.path("tree").join(text)).unwrap();
            odd.directory = Some(directory);
        }
        let ran = run(&mut sandbox, &odd);
        let last: &[u8] = if bytes.is_empty() { b"tree" } else { bytes };
        let want = [bytes, &b"|"[..], bytes, b"|", last].concat();
        assert_eq!(ran.out, want, "{text:?} {}", ran.errors());
    }
    // A name of a variable that is none to a shell is one to the kernel.
    let mut named = command(&["/usr/bin/env", "-0"]);
    named.environment = [(OsString::from("a b\n"), OsString::from("c"))].into();
    assert_eq!(run(&mut sandbox, &named).out, b"a b\n=c\0");
}

#[test]
fn without_a_home_variable_there_is_still_a_home() {
    let place = Place::new();
    let mut sandbox = place.start();
    let bare = Command {
        arguments: ["/bin/sh", "-c", "echo \"${HOME-unset}\"; cd ~ 2>/dev/null; echo x > /home/airlock/f && cat /home/airlock/f"]
            .map(OsString::from)
            .to_vec(),
        ..Command::default()
    };
    let ran = run(&mut sandbox, &bare);
    assert_eq!(
        (ran.text().as_str(), ran.ended.outcome),
        ("unset\nx\n", Outcome::Exited(0))
    );
    let ran = python(&mut sandbox, "import os; print(os.path.expanduser('~'))");
    assert_eq!(ran.text(), "/home/airlock\n");
}

#[test]
fn a_directory_that_is_gone_is_told_from_one_that_never_was() {
    let place = Place::new();
    let mut sandbox = place.start();
    // While it runs: as on any machine.
    let script = "mkdir d && cd d && rmdir ../d && (ls; echo x > f) 2>&1; echo on";
    let ran = shell(&mut sandbox, script);
    assert!(ran.text().contains("cannot create f"), "{}", ran.text());
    assert!(ran.text().ends_with("on\n"), "{}", ran.text());
    // Before it starts, but while the sandbox lives.
    sh(&mut sandbox, "mkdir kept; mkdir gone; rmdir gone");
    for (name, want) in [("kept", None), ("gone", Some(NotStarted::NoDirectory))] {
        let mut there = command(&["true"]);
        there.directory = Some(HostPath::new(place.path("tree").join(name)).unwrap());
        let ran = run(&mut sandbox, &there);
        assert_eq!(ran.ended.not_started, want, "{name}");
        let code = if want.is_some() { 125 } else { 0 };
        assert_eq!(ran.ended.outcome, Outcome::Exited(code), "{name}");
    }
    // Before the sandbox is made.
    let launch = place.launch(|plan| plan);
    fs::remove_dir(place.path("tree")).unwrap();
    let error = start(launch).unwrap_err();
    assert!(matches!(error, StartError::Step { .. }), "{error}");
    assert!(error.to_string().contains("tree"), "{error}");
}

const WITHIN: &str = "AIRLOCK_TEST_ODD";

/// Runs the test `name` of this file in a process of its own, started by `script` of a shell in
/// which `"$@"` is that process. It leaves what it found out at the path it is given.
fn elsewhere(name: &str, script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let answer = directory.path().join("answer");
    let done = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("odd::{name}"),
            "--test-threads=1",
            "--nocapture",
        ])
        .env(WITHIN, &answer)
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{name}: {said}");
    fs::read_to_string(answer).unwrap()
}

fn answer(text: &str) -> Option<()> {
    let to = std::env::var_os(WITHIN)?;
    fs::write(to, text).unwrap();
    Some(())
}

#[test]
fn supervisor_without_streams() {
    if std::env::var_os(WITHIN).is_none() {
        return;
    }
    let place = Place::new();
    let mut sandbox = place.start();
    let input = std::io::pipe().unwrap();
    let (reader, mut writer) = input;
    std::io::Write::write_all(&mut writer, b"typed\n").unwrap();
    drop(writer);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams {
        stdin: Stdin::From(reader.into()),
        stdout: &mut out,
        stderr: &mut err,
        terminal: None,
    };
    let script = "cat; echo err >&2; ls /proc/self/fd | wc -l";
    sandbox
        .run(&command(&["sh", "-c", script]), streams)
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    answer(&format!("{out}{err}"));
}

#[test]
fn a_supervisor_without_streams_or_directory_gives_sandboxes_all_they_need() {
    // Standard streams and the directory being listed: four, and none of the supervisor's.
    let want = "typed\n4\nerr\n";
    for script in [
        "exec \"$@\" <&- >&- 2>&-",
        "exec \"$@\" <&-",
        "exec 7</etc/passwd 8>&1 9</; exec \"$@\"",
        "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"",
    ] {
        assert_eq!(
            elsewhere("supervisor_without_streams", script),
            want,
            "{script}"
        );
    }
}

/// The most memory this process has had, in kibibytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

#[test]
fn supervisor_of_a_gusher() {
    if std::env::var_os(WITHIN).is_none() {
        return;
    }
    let place = Place::new();
    let mut sandbox = place.start();
    let most = limits(|_| {}).stdout.as_bytes();
    let mut gush = |amount: &str| {
        let streams = Streams {
            stdin: Stdin::Empty,
            stdout: &mut std::io::sink(),
            stderr: &mut std::io::sink(),
            terminal: None,
        };
        let ended = sandbox.run(&command(&["head", "-c", amount, "/dev/zero"]), streams);
        let ended = ended.unwrap();
        (ended.outcome, ended.stdout)
    };
    assert_eq!(gush("1000000"), (Outcome::Exited(0), 1_000_000));
    let before = peak();
    for _ in 0..5 {
        assert_eq!(gush("10000000000"), (Outcome::TooMuchOutput, most));
    }
    answer(&(peak() - before).to_string());
}

#[test]
fn ten_gigabytes_of_output_are_cut_and_take_no_memory() {
    let grown: u64 = elsewhere("supervisor_of_a_gusher", "exec \"$@\"")
        .parse()
        .unwrap();
    assert!(grown < 8 << 10, "{grown} KiB more");
}

/// Watches whether any directory of a tree is opened: who walks it cannot do without.
struct Untouched {
    notes: rustix::fd::OwnedFd,
}

impl Untouched {
    fn watch(directories: impl Iterator<Item = std::path::PathBuf>) -> Self {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let notes = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        for directory in directories {
            add_watch(&notes, directory, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        }
        Self { notes }
    }

    /// Whether one was opened since this was last asked.
    fn is_still(&self) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let mut still = true;
        while rustix::io::read(&self.notes, &mut buffer).is_ok_and(|read| read > 0) {
            still = false;
        }
        still
    }
}

#[test]
fn no_start_walks_the_workspace_however_large_and_whatever_is_denied() {
    let place = Place::new();
    let names: Vec<_> = (0..60)
        .map(|number| place.path(&format!("tree/d{number}")))
        .collect();
    for directory in &names {
        fs::create_dir(directory).unwrap();
        let first = directory.join("0");
        fs::write(&first, "").unwrap();
        for number in 1..500 {
            fs::hard_link(&first, directory.join(number.to_string())).unwrap();
        }
    }
    place.write("tree/d7/.env", "SECRET");
    let watched = Untouched::watch(names.iter().cloned());
    let denials = ["**/.env", "**/*.pem", "**/secrets/**"];
    for count in [0, denials.len()] {
        let launch = place.launch(|plan| {
            let denied = denials.iter().take(count);
            denied.fold(plan, |plan, denial| plan.deny_pattern(denial))
        });
        let mut sandbox = start(launch).unwrap();
        sh(&mut sandbox, "true");
        assert!(watched.is_still(), "{count} denials");
        let seen = shell(&mut sandbox, "cat d7/.env");
        assert_eq!(seen.text().contains("SECRET"), count == 0);
        let _seen = watched.is_still();
    }
    // That it would have been noticed.
    assert_eq!(fs::read_dir(names.last().unwrap()).unwrap().count(), 500);
    assert!(!watched.is_still());
}

#[test]
fn what_a_program_makes_is_not_everybodys_to_change() {
    let place = Place::new();
    let mut sandbox = place.start();
    let made = sh(
        &mut sandbox,
        "umask; touch file; mkdir dir; stat -c %a file dir",
    );
    assert_eq!(made, "0022\n644\n755\n");
}

#[test]
fn a_deep_directory_is_reached_and_copied_up() {
    let place = Place::new();
    let deep = vec!["d"; 300].join("/");
    fs::create_dir_all(place.path("tree").join(&deep)).unwrap();
    place.write(&format!("tree/{deep}/file"), "below\n");
    let mut sandbox = place.start();
    let script = format!("cat {deep}/file; cd {deep}; echo more >> file; mkdir -p e/e/e; cat file");
    assert_eq!(sh(&mut sandbox, &script), "below\nbelow\nmore\n");
    assert_eq!(place.read(&format!("tree/{deep}/file")).unwrap(), "below\n");
    assert_eq!(
        place.read(&format!("stage/upper/{deep}/file")).unwrap(),
        "below\nmore\n"
    );
}

#[test]
fn a_sparse_terabyte_is_too_large_a_file() {
    let place = Place::new();
    let mut sandbox = place.start();
    let ran = run(&mut sandbox, &command(&["truncate", "-s", "1T", "huge"]));
    assert_eq!(ran.ended.outcome, Outcome::FileTooLarge);
    // Who handles the signal is told by an error, and goes on.
    let script = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n\
                  try: open('huge', 'wb').truncate(1 << 40)\nexcept OSError as e: print(e.strerror)";
    assert_eq!(python(&mut sandbox, script).text(), "File too large\n");
    is_well(&mut sandbox);
}

#[test]
fn scratch_is_bounded_in_bytes_and_in_files() {
    let place = Place::new();
    let small = ByteSize::from_bytes(64 << 20);
    let mut sandbox = limited(&place, |limits| limits.memory = small);
    // What fills it stays, and leaves room for what comes after.
    for _ in 0..2 {
        let fill = ["dd", "if=/dev/zero", "of=/tmp/big", "bs=64k"];
        let ran = run(&mut sandbox, &command(&fill));
        assert_eq!(ran.ended.outcome, Outcome::Exited(1), "{}", ran.errors());
        assert!(ran.errors().contains("No space left on device"));
        is_well(&mut sandbox);
    }
    let shared = "echo x > /dev/shm/f || echo full; rm /tmp/big; echo x > /tmp/f; cat /tmp/f";
    assert_eq!(sh(&mut sandbox, shared), "full\nx\n");
    let script = "import os, errno\ntry:\n  for n in range(200000): os.mknod(f'/tmp/{n}')\n\
                  except OSError as e: print(errno.errorcode[e.errno], n)";
    let ran = python(&mut sandbox, script);
    assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
    assert!(ran.text().starts_with("ENOSPC 81"), "{}", ran.text());
    is_well(&mut sandbox);
}

#[test]
fn bombs_of_processes_and_threads_go_off_inside() {
    let place = Place::new();
    let bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass";
    let mut sandbox = limited(&place, |limits| limits.duration = Span::from_millis(1_000));
    assert_eq!(python(&mut sandbox, bomb).ended.outcome, Outcome::TimedOut);
    is_well(&mut sandbox);
    let mut sandbox = place.start();
    let gives_up = "import os, time\nfor _ in range(1000):\n  if os.fork() == 0: time.sleep(60)";
    assert_eq!(
        python(&mut sandbox, gives_up).ended.outcome,
        Outcome::TooManyProcesses
    );
    is_well(&mut sandbox);
    // It stays a moment at what it reached: without a cgroup only that can be seen, not the refusal.
    let threads = "import threading, time\ntry:\n  for _ in range(1000): \
                   threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n\
                   except RuntimeError:\n  time.sleep(0.5)\n  raise";
    let ran = python(&mut sandbox, threads);
    assert!(
        ran.errors().contains("can't start new thread"),
        "{}",
        ran.errors()
    );
    assert_eq!(ran.ended.outcome, Outcome::TooManyProcesses);
    is_well(&mut sandbox);
}

#[test]
fn ten_thousand_orphans_are_reaped() {
    let place = Place::new();
    let mut sandbox = place.start();
    // At most a hundred processes are allowed: this ends only if those that ended are gone. On a
    // busy machine init comes to it late, so every fifty are waited for.
    let script = "i=0; while [ $i -lt 200 ]; do j=0; while [ $j -lt 50 ]; do ( : & ) || exit 1; \
                  j=$((j+1)); done; set -- /proc/[0-9]*; while [ $# -gt 20 ]; do \
                  set -- /proc/[0-9]*; done; i=$((i+1)); done; echo $((i*j))";
    assert_eq!(sh(&mut sandbox, script), "10000\n");
    is_well(&mut sandbox);
}

#[test]
fn a_command_that_resists_its_end_ends() {
    let place = Place::new();
    let mut sandbox = limited(&place, |limits| limits.duration = Span::from_millis(400));
    for script in [
        "kill -STOP $$; echo never",
        "trap '' TERM INT HUP QUIT; while :; do sleep 1; done",
        "setsid setsid sh -c 'trap \"\" TERM HUP; sleep 60' & sleep 60",
        "setsid sh -c 'setsid sleep 60 & sleep 60' & kill -STOP $$",
    ] {
        let ran = shell(&mut sandbox, script);
        assert_eq!(ran.ended.outcome, Outcome::TimedOut, "{script}");
        assert_eq!(ran.text(), "", "{script}");
        is_well(&mut sandbox);
    }
}

#[test]
fn a_command_may_close_everything_and_open_much() {
    let place = Place::new();
    let mut sandbox = place.start();
    let closes = "import os, time\nos.closerange(0, 4096)\ntime.sleep(0.2)\nos._exit(3)";
    let ran = python(&mut sandbox, closes);
    assert_eq!(ran.ended.outcome, Outcome::Exited(3));
    assert!(ran.ended.wall >= std::time::Duration::from_millis(200));
    let opens = "import resource, os\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n\
                 held = []\ntry:\n  while True: held.append(os.open('/dev/null', os.O_RDONLY))\n\
                 except OSError as e: print(e.strerror, len(held) > 4000)";
    let ran = python(&mut sandbox, opens);
    assert_eq!(ran.text(), "Too many open files True\n", "{}", ran.errors());
    is_well(&mut sandbox);
}

#[test]
fn a_setuid_program_gives_nothing_and_a_new_program_runs_where_it_may_be_written() {
    let place = Place::new();
    let program = place.path("tree/id");
    fs::copy("/usr/bin/id", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
    let mut sandbox = place.start();
    assert_eq!(
        sh(&mut sandbox, "./id -u; ./id -g; ./id -G"),
        "1000\n1000\n1000\n"
    );
    let script = "import os\nfor place in ['.', '/tmp', '/usr', '/etc', '/proc', '/dev/null', '/dev/shm', \
                  '/home/airlock', '/']:\n  assert os.statvfs(place).f_flag & os.ST_NOSUID, place\n\
                  print('nowhere')";
    let ran = python(&mut sandbox, script);
    assert_eq!(ran.text(), "nowhere\n", "{}", ran.errors());
    for to in ["/tmp", "/home/airlock", "/dev/shm", "."] {
        let script =
            format!("cp /usr/bin/true {to}/own && chmod 755 {to}/own && {to}/own && echo ran");
        assert_eq!(sh(&mut sandbox, &script), "ran\n", "{to}");
    }
}

#[test]
fn output_that_is_no_text_and_has_no_end_of_line_arrives_whole() {
    let place = Place::new();
    let mut sandbox = place.start();
    let script = "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 3)\n\
                  sys.stderr.buffer.write(b'\\xff\\x00\\x1b]0;title\\x07')";
    let ran = python(&mut sandbox, script);
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(ran.out, all.repeat(3));
    assert_eq!(ran.err, b"\xff\x00\x1b]0;title\x07");
}

#[test]
fn files_the_supervisor_may_not_read_are_not_in_the_way() {
    let place = Place::new();
    let closed = place.path("tree/closed");
    fs::create_dir(&closed).unwrap();
    place.write("tree/closed/file", "x");
    place.write("tree/open", "y\n");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let launch = place.launch(|plan| plan.deny_pattern("**/.env"));
    let mut sandbox = start(launch).unwrap();
    let ran = shell(&mut sandbox, "cat open; cat closed/file");
    assert_eq!(
        (ran.text().as_str(), ran.ended.outcome),
        ("y\n", Outcome::Exited(1))
    );
    assert!(
        ran.errors().contains("Permission denied"),
        "{}",
        ran.errors()
    );
    drop(sandbox);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(Path::new(&closed).join("file").exists());
}
