//! `airlock` inside a sandbox: it asks the kernel that runs the sandbox, and is governed like anybody.

use crate::support::{Ran, World, binary, finished, program};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

/// Where a sandbox has its socket.
const SOCKET: &str = "/run/airlock/kernel.sock";

/// What `airlock exec -- airlock ARGS` gives.
fn inside(world: &World, args: &[&str]) -> Ran {
    let mut words = vec!["exec", "--", binary()];
    words.extend(args);
    world.quiet(&words)
}

fn records(world: &World, syscall: &str) -> Vec<Value> {
    let log = world.quiet(&["audit", "log", "--json", "--limit", "500"]);
    let records = log
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    records
        .filter(|record: &Value| record["syscall"] == syscall)
        .collect()
}

fn governs(world: &World) {
    let read = inside(world, &["tool", "call", "fs.read", "path=README.md"]);
    assert_eq!(read.code, Some(0), "{read:?}");
    assert!(read.stdout.contains("# Sample"), "{read:?}");
    let denied = inside(world, &["tool", "call", "fs.read", "path=.env"]);
    assert_ne!(denied.code, Some(0), "{denied:?}");
    assert!(denied.stderr.contains("rule"), "{denied:?}");
    let program = inside(world, &["tool", "call", "exec.run", "command=[\"true\"]"]);
    assert_ne!(program.code, Some(0), "{program:?}");
    let session = inside(
        world,
        &[
            "tool",
            "call",
            "fs.read",
            "path=README.md",
            "--session",
            "s",
        ],
    );
    assert_ne!(session.code, Some(0), "{session:?}");
    let reads = records(world, "fs.read");
    let of_sandbox = |record: &&Value| record["caller"]["sandbox"].is_string();
    let first = reads.iter().find(of_sandbox).unwrap();
    assert_eq!(first["caller"]["plugin"], "agent", "{first}");
    assert!(first["metadata"]["within"].is_string(), "{first}");
}

#[test]
fn it_asks_whoever_runs_the_sandbox_and_is_governed() {
    let world = World::governed();
    world.write(".env", "TOKEN=x\n");
    governs(&world);
    let _served = world.serve();
    governs(&world);
}

/// Files are changed beside the command that asks, and judged with what it changes itself.
#[test]
fn it_changes_files_beside_the_command_that_asks() {
    let world = World::governed();
    let script = format!(
        "set -e; '{0}' tool call fs.write path=src/made.rs text=fn >&2; cat src/made.rs; \
         echo more >> src/made.rs; '{0}' tool call fs.read path=src/made.rs; \
         '{0}' tool call fs.delete path=src/made.rs >&2; test ! -e src/made.rs",
        binary()
    );
    for served in [false, true] {
        let _served = served.then(|| world.serve());
        let ran = world.quiet(&["exec", "--", "timeout", "60", "sh", "-c", &script]);
        assert_eq!(ran.code, Some(0), "{served} {ran:?}");
        assert!(ran.stdout.starts_with("fn"), "{ran:?}");
        assert!(ran.stdout.contains("more"), "{ran:?}");
    }
    assert!(!world.workspace().join("src/made.rs").exists());
    let writes = records(&world, "fs.write");
    assert!(!writes.is_empty());
    for write in writes {
        assert!(write["caller"]["sandbox"].is_string(), "{write}");
    }
}

#[test]
fn without_anybody_at_the_socket_it_says_so_and_opens_no_kernel_of_its_own() {
    let world = World::governed();
    let mut command = world.command(&["tool", "call", "fs.read", "path=README.md", "--json"]);
    command.env("AIRLOCK_SOCKET", SOCKET);
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(!ran.stdout.contains("# Sample"), "{ran:?}");
    assert_eq!(records(&world, "fs.read"), Vec::<Value>::new());
    assert_eq!(json!(ran.stdout.contains("AIRLOCK_SOCKET")), json!(true));
}

#[test]
fn no_socket_but_a_sandboxs_own_is_asked_whatever_the_environment_names() {
    let world = World::governed();
    let path = world.path("named.sock");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut command = world.command(&["tool", "call", "fs.read", "path=README.md"]);
    command.env("AIRLOCK_SOCKET", &path);
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("# Sample"), "{ran:?}");
    let warnings = ran.stderr.matches("AIRLOCK_SOCKET is not used").count();
    assert_eq!(warnings, 1, "{ran:?}");
    assert!(ran.stderr.contains(SOCKET), "{ran:?}");
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
}

/// Listens at once under the name that is waited for.
const LISTEN: &str = "import os, socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind('/run/airlock/made')
listener.listen()
os.rename('/run/airlock/made', '/run/airlock/kernel.sock')
time.sleep(60)
";

#[test]
fn another_user_at_the_socket_of_a_sandbox_is_not_asked() {
    // Only root can listen as somebody else.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::governed();
    let script = "mount -t tmpfs none /run && mkdir -m 777 /run/airlock || exit 99
        setpriv --reuid=4711 --regid=4711 --clear-groups python3 -c \"$LISTEN\" &
        listener=$!
        trap 'kill $listener' EXIT
        until [ -S \"$AIRLOCK_SOCKET\" ]; do sleep 0.05; done
        \"$AIRLOCK\" tool call fs.read path=README.md";
    // `timeout` ends what would wait for ever: the test fails then, and does not hang.
    let mut command = program("timeout");
    world.prepare(&mut command);
    command
        .args(["60", "unshare", "--mount", "sh", "-c", script])
        .env("LISTEN", LISTEN)
        .env("AIRLOCK", binary())
        .env("AIRLOCK_SOCKET", SOCKET);
    let ran = finished(&mut command);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("user 4711's, not yours"), "{ran:?}");
}
