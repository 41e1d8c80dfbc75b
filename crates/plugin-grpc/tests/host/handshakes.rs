//! Programs that do not get as far as being a plugin.

use crate::support::{Fixture, PATIENCE, mark, runs};
use airlock_plugin::StartError;
use std::time::{Duration, Instant};

/// What a script gets, in `$REACH`, with what it prints first.
fn script(lines: &str) -> Fixture {
    Fixture::new(format!(
        "#!/bin/sh\nREACH=$PLUGIN_UNIX_SOCKET_DIR\n{lines}\n"
    ))
    .in_the_clear()
}

#[test]
fn what_is_no_handshake_is_refused_for_its_reason() {
    let certificate = "*".repeat(80);
    for (case, lines, wanted) in [
        (
            "garbage",
            "echo hello; sleep 600",
            "its first line is no handshake: `hello`",
        ),
        (
            "terminal",
            "printf '\\033[2J|||\\n'; sleep 600",
            "\\u{1b}[2J",
        ),
        (
            "bytes",
            "head -c 300 /dev/urandom | tr -d '\\n'; echo; sleep 600",
            "`",
        ),
        (
            "gigabytes",
            "exec cat /dev/zero",
            "too long for a handshake",
        ),
        (
            "a line without end",
            "yes | tr -d '\\n'",
            "too long for a handshake",
        ),
        (
            "core",
            "echo '2|1|unix|/x|grpc'; sleep 600",
            "version `2` of go-plugin's handshake",
        ),
        (
            "version",
            "echo '1|9|unix|/x|grpc'; sleep 600",
            "version `9` of Airlock's services",
        ),
        (
            "tcp",
            "echo '1|1|tcp|127.0.0.1:9|grpc'; sleep 600",
            "only a Unix socket",
        ),
        ("net/rpc", "echo '1|1|unix|/x|netrpc'; sleep 600", "net/rpc"),
        (
            "outside",
            "echo '1|1|unix|/run/docker.sock|grpc'; sleep 600",
            "not directly in",
        ),
        (
            "above",
            "echo \"1|1|unix|$REACH/../x|grpc\"; sleep 600",
            "not directly in",
        ),
        (
            "absent",
            "echo \"1|1|unix|$REACH/x|grpc\"; sleep 600",
            "No such file",
        ),
        (
            "file",
            "touch $REACH/x; echo \"1|1|unix|$REACH/x|grpc\"; sleep 600",
            "is no socket",
        ),
        (
            "link",
            "ln -s /run/docker.sock $REACH/x; echo \"1|1|unix|$REACH/x|grpc\"; sleep 600",
            "is no socket",
        ),
        (
            "kernel",
            "echo \"1|1|unix|$REACH/kernel.sock|grpc\"; sleep 600",
            "is the kernel's own socket",
        ),
        (
            "certificate",
            &format!("echo \"1|1|unix|$REACH/x|grpc|{certificate}\"; sleep 600"),
            "certificate is none",
        ),
    ] {
        let begun = Instant::now();
        let error = script(lines).refused();
        assert_eq!(error.code(), "plugin_protocol", "{case}: {error}");
        assert!(error.to_string().contains(wanted), "{case}: {error}");
        assert!(
            !error.to_string().contains('\x1b') && error.to_string().len() < 4_000,
            "{case}"
        );
        assert!(begun.elapsed() < PATIENCE / 2, "{case}");
    }
}

#[test]
fn a_certificate_is_given_exactly_if_it_was_asked_for() {
    let certificate = "QUFB".repeat(20);
    for (case, given, is_asked, wanted) in [
        ("none given", "", true, "it gave no certificate"),
        ("an old extra", "extra", true, "it gave no certificate"),
        ("given unasked", &*certificate, false, "it was not asked to"),
    ] {
        let lines = format!("echo \"1|1|unix|$REACH/x|grpc|{given}\"; sleep 600");
        let mut fixture = script(&lines);
        fixture.manifest.execution.tls = is_asked;
        let error = fixture.refused();
        assert_eq!(error.code(), "plugin_protocol", "{case}: {error}");
        assert!(error.to_string().contains(wanted), "{case}: {error}");
    }
    for (is_asked, wanted) in [(true, "BEGIN CERTIFICATE"), (false, "unset")] {
        let mut fixture = script("echo \"${PLUGIN_CLIENT_CERT-unset}\" >&2; exit 3");
        fixture.manifest.execution.tls = is_asked;
        let running = fixture.host().launch(&fixture.start()).map(|_| ());
        let said = running.unwrap_err().to_string();
        let is_said = said.contains(wanted) || (is_asked && said.contains("END CERTIFICATE"));
        assert!(is_said, "{said}");
    }
}

#[test]
fn what_ends_instead_says_how_and_why() {
    for (lines, wanted) in [
        (
            "echo 'no licence' >&2; exit 3",
            "it exited with code 3; it said `no licence`",
        ),
        ("kill -9 $$", "signal 9"),
        ("exec /nonexistent", "exited with code 127"),
    ] {
        let error = script(lines).refused();
        assert!(matches!(error, StartError::Ended(_)), "{lines}: {error}");
        assert!(error.to_string().contains(wanted), "{lines}: {error}");
    }
}

#[test]
fn silence_ends_at_the_deadline_and_leaves_nothing_running() {
    let mark = mark();
    for lines in [
        format!("sleep {mark}"),
        // Nobody else than it could finish the line.
        format!("printf '1|1|unix'; exec >&-; sleep {mark}"),
        // Chatter on the other stream is no handshake either.
        format!("yes >&2 & setsid sleep {mark} & sleep {mark}"),
    ] {
        let limit = Duration::from_secs(2);
        let begun = Instant::now();
        let error = script(&lines).patience(limit).refused();
        assert!(
            matches!(error, StartError::TimedOut(deadline) if deadline == limit),
            "{error}"
        );
        assert!(begun.elapsed() < limit + PATIENCE / 4);
        assert!(!runs(&mark));
    }
}

#[test]
fn a_socket_that_does_not_speak_grpc_is_refused_in_time() {
    let listen = |act: &str| {
        format!(
            "#!/usr/bin/python3\nimport os, socket, time\n\
             path = os.environ['PLUGIN_UNIX_SOCKET_DIR'] + '/s'\n\
             s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()\n\
             print('1|1|unix|' + path + '|grpc', flush=True)\n\
             c, _ = s.accept()\n{act}\ntime.sleep(600)\n"
        )
    };
    for (act, wanted) in [
        (
            "c.sendall(b'220 hello\\r\\n' * 1000)",
            "plugin_protocol plugin_ended",
        ),
        ("c.close(); s.close()", "plugin_protocol plugin_ended"),
        ("pass", "plugin_not_ready"),
        (
            "[c.sendall(b'\\0\\0\\0\\4\\0\\0\\0\\0\\0') for _ in iter(int, 1)]",
            "plugin_not_ready plugin_ended plugin_protocol",
        ),
    ] {
        let error = Fixture::new(listen(act))
            .in_the_clear()
            .patience(Duration::from_secs(6))
            .refused();
        assert!(wanted.contains(error.code()), "{act}: {error}");
    }
}

#[test]
fn other_bytes_than_those_approved_do_not_run() {
    let fixture = script("touch $REACH/ran; sleep 600");
    let mut start = fixture.start();
    start.entry = airlock_core::Digest::of(b"something else");
    let error = fixture.host().launch(&start).map(|_| ()).unwrap_err();
    assert!(matches!(error, StartError::Entry { .. }), "{error}");
    assert!(!fixture.path("own/reach/ran").exists());
}
