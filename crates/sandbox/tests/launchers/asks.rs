//! Whoever is in a sandbox that may ask the kernel reaches whoever runs it, and nobody else.

use crate::support::{Place, command};
use airlock_sandbox::launch::{KERNEL_SOCKET, Stdin, Streams};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{PlanBuilder, Sandbox};
use std::io::Write as _;

const ASKS: &str = "\
import os, socket
path = os.environ['AIRLOCK_SOCKET']
held = []
for _ in range(3):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(path)
    held.append(stream)
    print(stream.recv(100).decode(), os.listdir(os.path.dirname(path)), flush=True)
try:
    os.unlink(path)
    print('gone')
except OSError as error:
    print(error.strerror)
";

/// Runs `script`; what it printed, and how many came.
fn asked(sandbox: &mut Sandbox, script: &str) -> (String, u32) {
    let (mut printed, mut errors, mut visits) = (Vec::new(), Vec::new(), 0);
    let streams = Streams {
        stdin: Stdin::Empty,
        stdout: &mut printed,
        stderr: &mut errors,
        terminal: None,
    };
    let mut held = Vec::new();
    let mut visit = |mut stream: std::os::unix::net::UnixStream| {
        visits += 1;
        // Some are gone by then.
        let _written = stream.write_all(format!("number {visits}").as_bytes());
        held.push(stream);
    };
    let mut command = command(&["python3", "-c", script]);
    let socket = ("AIRLOCK_SOCKET".into(), KERNEL_SOCKET.into());
    command.environment.extend([socket]);
    let ended = sandbox.run_visited(&command, streams, &mut visit).unwrap();
    let errors = String::from_utf8_lossy(&errors);
    assert_eq!(ended.outcome, Outcome::Exited(0), "{errors}");
    (String::from_utf8(printed).unwrap(), visits)
}

#[test]
fn it_reaches_whoever_runs_it_by_a_socket_it_cannot_change() {
    let place = Place::new();
    let mut sandbox = place.start_with(PlanBuilder::kernel_socket);
    for _ in 0..2 {
        let (printed, visits) = asked(&mut sandbox, ASKS);
        assert_eq!(
            printed,
            "number 1 ['kernel.sock']\nnumber 2 ['kernel.sock']\nnumber 3 ['kernel.sock']\n\
             Read-only file system\n"
        );
        assert_eq!(visits, 3);
    }
}

#[test]
fn whoever_waited_when_a_command_ended_is_not_let_in_with_the_next() {
    let place = Place::new();
    let mut sandbox = place.start_with(PlanBuilder::kernel_socket);
    // More than are let in at once, so that some are left waiting.
    let leaves = "\
import os, socket
for _ in range(100_000):
    stream = socket.socket(socket.AF_UNIX)
    stream.setblocking(False)
    try:
        stream.connect(os.environ['AIRLOCK_SOCKET'])
    except BlockingIOError:
        break
";
    let (_, _) = asked(&mut sandbox, leaves);
    let (_, visits) = asked(&mut sandbox, "import os");
    assert_eq!(visits, 0);
}

#[test]
fn a_command_that_sends_its_output_along_holds_nobody_up() {
    let place = Place::new();
    let mut sandbox = place.start_with(PlanBuilder::kernel_socket);
    // Some are let in and never read from, some are left waiting: all of them hold what was sent.
    let sends = "\
import os, socket
print('said', flush=True)
for _ in range(100_000):
    stream = socket.socket(socket.AF_UNIX)
    stream.setblocking(False)
    try:
        stream.connect(os.environ['AIRLOCK_SOCKET'])
        socket.send_fds(stream, [b'x'], [1, 2])
    except BlockingIOError:
        break
";
    let begun = std::time::Instant::now();
    for _ in 0..2 {
        assert_eq!(asked(&mut sandbox, sends).0, "said\n");
    }
    assert!(begun.elapsed() < std::time::Duration::from_mins(1));
}

#[test]
fn without_one_in_its_plan_there_is_none() {
    let place = Place::new();
    let mut sandbox = place.start_with(|plan| plan);
    let (printed, visits) = asked(
        &mut sandbox,
        "import os; print(os.path.exists(os.environ['AIRLOCK_SOCKET']), os.listdir('/run'))",
    );
    assert_eq!((printed.as_str(), visits), ("False []\n", 0));
}
