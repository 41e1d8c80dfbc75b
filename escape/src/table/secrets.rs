//! Reading what was not granted.

use super::{first_process, nothing, victim};
use crate::attack::{Attack, Class};
use crate::scene::Scene;
use airlock_sandbox::Wall::{
    Capabilities, Descriptors, HostUser, IpcNamespace, Landlock, MountNamespace, PidNamespace,
    Root, Seccomp,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Secrets, name, probe, about, scene)
}

/// The host's processes are not there; the sandbox's own know no secret.
const OTHERS: &[&str] = &["ENOENT", "EACCES", "OTHER-CONTENT", "EMPTY"];

pub(super) const ROWS: &[Attack] = &[
    row(
        "home-key",
        "read-path",
        "a private key in the home directory",
        home_key,
    )
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root, Landlock]),
    row(
        "read-grant-becomes-link",
        "read-path",
        "a private key, where a link was put in place of a directory that is granted",
        linked_grant,
    )
    .refused("which is not granted")
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root]),
    row(
        "home-listing",
        "list-directory",
        "which files the home directory has",
        home_listing,
    )
    .denied(&["ENOENT", "EACCES", "EMPTY"])
    .by(&[Root]),
    row(
        "file-outside",
        "read-path",
        "a file beside the workspace",
        file_outside,
    )
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root, Landlock]),
    row("shadow", "read-path", "password hashes", shadow)
        .root()
        .denied(&["ENOENT", "EACCES", "EMPTY"])
        .by(&[Root, HostUser]),
    row(
        "root-home",
        "list-directory",
        "root's home directory",
        root_home,
    )
    .root()
    .denied(&["ENOENT", "EACCES", "EMPTY"])
    .by(&[Root, HostUser]),
    row(
        "host-mounts",
        "find-in-file",
        "what else the host has mounted",
        host_mounts,
    )
    .denied(&["NOT-THERE"])
    .of_init()
    .by(&[MountNamespace]),
    row(
        "process-environment",
        "process-environment",
        "a host process's environment",
        host_process,
    )
    .denied(OTHERS)
    .by(&[PidNamespace]),
    row(
        "process-memory",
        "process-memory",
        "a host process's memory",
        host_process,
    )
    .denied(OTHERS)
    .by(&[PidNamespace]),
    row(
        "process-descriptors",
        "process-descriptors",
        "a deleted file a host process holds",
        open_file,
    )
    .denied(&["ENOENT", "EACCES", "NONE"])
    .by(&[PidNamespace]),
    row(
        "process-directories",
        "process-directories",
        "through a host process's root and directory",
        directories,
    )
    .denied(&["ENOENT", "EACCES"])
    .by(&[PidNamespace]),
    row(
        "process-list",
        "process-list",
        "which host processes there are",
        host_list,
    )
    .denied(&["NOT-THERE", "OTHER-CONTENT", "EMPTY"])
    .of_init()
    .by(&[PidNamespace]),
    row(
        "init-environment",
        "process-environment",
        "the sandbox's first process's environment",
        init,
    )
    .denied(&["EACCES", "EMPTY"])
    .of_init()
    .by(&[PidNamespace]),
    row(
        "init-arguments",
        "process-arguments",
        "what the sandbox's first process was started with",
        init,
    )
    .denied(&["EACCES", "EMPTY"])
    .of_init()
    .by(&[PidNamespace]),
    row(
        "init-memory",
        "process-memory",
        "the sandbox's first process's memory",
        init,
    )
    .denied(&["EACCES", "EPERM"])
    .of_init()
    .by(&[PidNamespace]),
    row(
        "init-maps",
        "process-maps",
        "the sandbox's first process's layout",
        init,
    )
    .denied(&["EACCES", "EPERM", "EMPTY"])
    .of_init()
    .by(&[PidNamespace]),
    row(
        "init-descriptors",
        "process-descriptors",
        "the sandbox's first process's descriptors",
        init_file,
    )
    .denied(&["EACCES", "EPERM"])
    .of_init()
    .by(&[PidNamespace]),
    row(
        "init-executable",
        "init-executable",
        "Airlock's own program through the first process",
        init,
    )
    .denied(&["EACCES", "EPERM", "ENOENT"])
    .by(&[PidNamespace]),
    row("vm-read", "vm-read", "process_vm_readv", init)
        .denied(&["EPERM"])
        .by(&[Seccomp]),
    row("vm-write", "vm-write", "process_vm_writev", nothing)
        .denied(&["EPERM", "OWN-CHILD", "EACCES", "EROFS"])
        .by(&[Seccomp]),
    row("ptrace", "ptrace", "tracing another process", init)
        .denied(&["EPERM"])
        .by(&[Seccomp]),
    row(
        "pidfd-getfd",
        "pidfd-getfd",
        "taking another process's descriptors",
        init,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp]),
    row(
        "inherited-file",
        "inherited-descriptors",
        "a file the supervisor has open",
        inherited_file,
    )
    .denied(&["NONE-OPEN"])
    .by(&[Descriptors]),
    row(
        "inherited-socket",
        "inherited-descriptors",
        "a connection the supervisor has",
        inherited_socket,
    )
    .denied(&["NONE-OPEN"])
    .by(&[Descriptors]),
    row(
        "core-dump",
        "core-dump",
        "a core for the host to keep or handle",
        nothing,
    )
    .denied(&["EPERM", "NO-CORE"])
    .by(&[Seccomp]),
    row(
        "kernel-memory",
        "trigger",
        "/proc/kcore and /dev/mem",
        kernel_memory,
    )
    .root()
    .rare_target("/proc/kcore")
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root]),
    row("kernel-log", "kernel-log", "the kernel's log", nothing)
        .root()
        .denied(&["EPERM", "ENOENT", "EACCES", "EMPTY"])
        .by(&[Seccomp, Root]),
    row(
        "kernel-symbols",
        "kernel-symbols",
        "addresses in the kernel",
        nothing,
    )
    .root()
    .denied(&["EMPTY", "ZEROED", "EACCES"])
    .by(&[Root, Capabilities]),
    row(
        "debug-files",
        "list-directory",
        "debugfs and tracefs",
        debug_files,
    )
    .root()
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root]),
    row(
        "system-files",
        "list-directory",
        "devices and settings in /sys",
        system_files,
    )
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root]),
    row(
        "shared-memory",
        "shared-memory",
        "System V shared memory of the host",
        exchange,
    )
    .denied(&["ENOENT", "NONE"])
    .by(&[IpcNamespace]),
    row(
        "message-queue",
        "message-queue",
        "System V and POSIX queues of the host",
        exchange,
    )
    .denied(&["ENOENT", "EPERM"])
    .by(&[IpcNamespace, Seccomp]),
    row(
        "shared-file",
        "read-path",
        "POSIX shared memory of the host",
        shared_file,
    )
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root]),
    row("keyring", "keyring", "a key in the user's ring", key)
        .denied(&["EPERM"])
        .by(&[Seccomp]),
    row(
        "disk",
        "block-device",
        "the host's disk by a node of its own",
        disk,
    )
    .full_root()
    .denied(&["EPERM", "ENOENT"])
    .by(&[Seccomp, Root]),
    row("handle", "handle", "a file by its handle", handle)
        .root()
        .denied(&["EPERM"])
        .by(&[Seccomp]),
    row("fanotify", "fanotify", "watching what others open", handle)
        .denied(&["EPERM"])
        .by(&[Seccomp]),
    row(
        "stage-layers",
        "list-directory",
        "the stage's own layers, past the overlay",
        stage_layers,
    )
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root]),
];

fn home_key(scene: &mut Scene) -> Value {
    json!({ "paths": [scene.told("home/.ssh/id_ed25519")], "marker": scene.marker })
}

fn linked_grant(scene: &mut Scene) -> Value {
    let granted = scene.path("shared/input");
    let _ = symlink(scene.path("home/.ssh"), &granted);
    scene.grants.reads = vec![granted];
    json!({ "paths": [scene.told("shared/input/id_ed25519")], "marker": scene.marker })
}

fn home_listing(scene: &mut Scene) -> Value {
    json!({ "paths": [scene.told("home"), scene.told("home/.ssh")], "marker": "id_ed25519" })
}

fn file_outside(scene: &mut Scene) -> Value {
    json!({ "paths": [scene.told("outside/target.txt")], "marker": scene.marker })
}

fn shadow(_: &mut Scene) -> Value {
    json!({ "paths": ["/etc/shadow", "/etc/gshadow", "/etc/shadow-"], "marker": ":" })
}

fn root_home(_: &mut Scene) -> Value {
    json!({ "paths": ["/root"], "marker": "." })
}

/// The scene's own directory lies on a mount of the host that has nothing to do with a sandbox.
fn host_mounts(_: &mut Scene) -> Value {
    json!({ "paths": ["/proc/self/mountinfo", "/proc/1/mountinfo"], "marker": " /sys/fs/cgroup" })
}

fn host_process(scene: &mut Scene) -> Value {
    json!({ "pid": victim(scene), "marker": scene.marker })
}

fn host_list(scene: &mut Scene) -> Value {
    let pid = victim(scene);
    json!({ "pid": pid, "marker": scene.marker })
}

fn open_file(scene: &mut Scene) -> Value {
    let path = scene.path("run/held");
    let _ = fs::write(&path, &scene.marker);
    let given = json!({ "marker": "", "path": path });
    let told = scene.victim("sleeper", &given);
    json!({ "pid": told.get("pid"), "marker": scene.marker })
}

fn directories(scene: &mut Scene) -> Value {
    json!({
        "pid": victim(scene),
        "marker": scene.marker,
        "path": scene.told("outside/target.txt"),
        "name": "target.txt",
    })
}

fn init(scene: &mut Scene) -> Value {
    let marker = if scene.confined { "" } else { &scene.marker }.to_owned();
    json!({ "pid": first_process(scene), "marker": marker, "only": true })
}

fn init_file(scene: &mut Scene) -> Value {
    if scene.confined {
        return json!({ "pid": 1, "marker": "", "only": true });
    }
    let mut given = open_file(scene);
    if let Some(given) = given.as_object_mut() {
        given.insert("only".to_owned(), json!(true));
    }
    given
}

/// A descriptor of the suite itself that is not closed when programs start.
fn leave_open(descriptor: impl std::os::fd::AsFd) {
    let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::empty());
    std::mem::forget(descriptor);
}

fn inherited_file(scene: &mut Scene) -> Value {
    let path = scene.path("run/inherited");
    let _ = fs::write(&path, &scene.marker);
    if let Ok(file) = fs::File::open(&path) {
        leave_open(file);
    }
    json!({ "marker": scene.marker })
}

fn inherited_socket(scene: &mut Scene) -> Value {
    use std::io::Write;
    if let Ok((mut ours, theirs)) = std::os::unix::net::UnixStream::pair() {
        let _ = ours.write_all(scene.marker.as_bytes());
        std::mem::forget(ours);
        leave_open(theirs);
    }
    json!({ "marker": scene.marker })
}

fn kernel_memory(_: &mut Scene) -> Value {
    json!({ "paths": ["/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port"] })
}

fn debug_files(_: &mut Scene) -> Value {
    json!({ "paths": ["/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/slab"], "marker": "" })
}

fn system_files(_: &mut Scene) -> Value {
    json!({ "paths": ["/sys/class/net", "/sys/block", "/sys/fs/cgroup", "/sys"], "marker": "" })
}

fn exchange(scene: &mut Scene) -> Value {
    let number: String = scene.marker.chars().filter(char::is_ascii_digit).collect();
    let key = number.parse::<u64>().unwrap_or(1) % 0x7fff_0000 + 1;
    let queue = format!("airlock-{key}");
    let given = json!({ "marker": scene.marker, "key": key, "queue": queue });
    let _ = scene.victim("exchange", &given);
    given
}

fn shared_file(scene: &mut Scene) -> Value {
    let path = format!("/dev/shm/{}", scene.marker);
    let _ = fs::write(&path, &scene.marker);
    scene.leftovers.push(path.clone().into());
    json!({ "paths": [path], "marker": scene.marker })
}

fn key(scene: &mut Scene) -> Value {
    let description = format!("airlock:{}", scene.marker);
    let given = json!({ "marker": scene.marker, "description": description });
    let _ = scene.victim("key", &given);
    given
}

/// The device numbers of the disk the root lies on.
pub(super) fn disk(scene: &mut Scene) -> Value {
    let device = fs::metadata("/").map_or(0, |about| about.dev());
    let nodes = fs::read_dir("/dev").into_iter().flatten().flatten();
    let nodes = nodes.filter(|entry| {
        let about = entry.metadata();
        about.is_ok_and(|about| about.rdev() == device && about.mode() & 0o170_000 == 0o060_000)
    });
    let nodes: Vec<String> = nodes
        .map(|entry| entry.path().to_string_lossy().into_owned())
        .collect();
    let kernel = (device >> 8 & 0xfff) << 8 | (device & 0xff) | (device >> 12 & 0x000f_ff00) << 12;
    json!({
        "device": kernel,
        "places": [scene.told("tree"), "/tmp"],
        "paths": nodes,
        "devices": nodes,
    })
}

fn handle(scene: &mut Scene) -> Value {
    let path = if scene.confined {
        "tree/plain.txt"
    } else {
        "outside/target.txt"
    };
    let marker = if scene.confined { "" } else { &scene.marker };
    let mount = if Path::new("/var/tmp").exists() {
        scene.told("tree")
    } else {
        "/".to_owned()
    };
    json!({ "path": scene.told(path), "marker": marker, "mount": mount })
}

fn stage_layers(scene: &mut Scene) -> Value {
    let _ = fs::write(scene.path("stage/upper/.keep"), "");
    json!({ "paths": [scene.told("stage/upper"), scene.told("stage"), scene.told("run")], "marker": "" })
}
