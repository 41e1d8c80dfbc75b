//! Gaining rights.

use super::{first_process, nothing, own};
use crate::attack::{Attack, Class};
use crate::scene::{Scene, copy_program};
use airlock_sandbox::Wall::{
    Capabilities, HostUser, NoNewPrivileges, Root, Seccomp, UserNamespace, UtsNamespace,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Privileges, name, probe, about, scene)
}

/// The filter's answer, and no other.
const REFUSED: &[&str] = &["EPERM"];

pub(super) const ROWS: &[Attack] = &[
    row(
        "setuid-programs",
        "setuid-program",
        "su, passwd, sudo, newuidmap and their like",
        nothing,
    )
    .denied(&["OWN-USER", "EACCES", "EPERM", "ENOENT"])
    .by(&[NoNewPrivileges]),
    row(
        "setuid-own",
        "privileged-file",
        "a set-user-id-root program that is granted",
        setuid_file,
    )
    .root()
    .denied(&["OWN-USER", "EACCES", "EPERM"])
    .by(&[NoNewPrivileges, Root]),
    row(
        "file-capabilities",
        "privileged-file",
        "a program with file capabilities that is granted",
        capable_file,
    )
    .root()
    .denied(&["OWN-USER", "EACCES", "EPERM"])
    .by(&[NoNewPrivileges, Root]),
    row(
        "not-root-inside",
        "effective-user",
        "being uid 0 or having capabilities",
        nothing,
    )
    .root()
    .denied(&["OWN-USER", "NONE"])
    .by(&[Capabilities]),
    row(
        "capabilities-held",
        "capabilities-held",
        "capabilities of any set",
        nothing,
    )
    .denied(&["NONE"])
    .by(&[Capabilities]),
    row("capability-set", "capability-set", "capset", nothing)
        .denied(REFUSED)
        .by(&[Seccomp]),
    row(
        "capability-ambient",
        "capability-ambient",
        "ambient, kept and secure-bit capabilities",
        nothing,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row(
        "namespace-unshare",
        "namespace-unshare",
        "new namespaces by unshare",
        nothing,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row(
        "namespace-clone",
        "namespace-clone",
        "new namespaces by clone and clone3",
        nothing,
    )
    .denied(&["EPERM", "ENOSYS"])
    .by(&[Seccomp]),
    row(
        "namespace-enter",
        "namespace-enter",
        "other namespaces by setns",
        namespaces,
    )
    .denied(&["EPERM", "EACCES"])
    .of_init()
    .by(&[Seccomp, UserNamespace]),
    row("uid-map", "uid-map", "another mapping of users", own)
        .denied(&["EPERM", "EACCES", "EROFS"])
        .by(&[UserNamespace]),
    row("become-root", "become-root", "the setuid family", nothing)
        .denied(REFUSED)
        .by(&[Seccomp]),
    row("groups", "groups", "groups of the host", nothing)
        .root()
        .denied(&["EPERM", "NONE"])
        .by(&[Seccomp, UserNamespace]),
    row("change-root", "change-root", "chroot", nothing)
        .denied(REFUSED)
        .by(&[Seccomp]),
    row("pivot-root", "pivot-root", "pivot_root", nothing)
        .denied(REFUSED)
        .by(&[Seccomp]),
    row(
        "no-new-privileges",
        "no-new-privileges",
        "turning no_new_privs or the filter off",
        nothing,
    )
    .denied(&["EINVAL", "SET", "EPERM"])
    .by(&[NoNewPrivileges, Seccomp]),
    row(
        "seccomp-listener",
        "seccomp-listener",
        "a filter of its own that answers in ours's place",
        nothing,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row(
        "process-settings",
        "process-settings",
        "prctl and personality beyond the listed",
        nothing,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row(
        "priority",
        "priority",
        "a better priority than everyone's",
        nothing,
    )
    .root()
    .denied(&["EACCES", "EPERM"])
    .by(&[Capabilities]),
    row("real-time", "real-time", "real-time scheduling", nothing)
        .root()
        .denied(&["EPERM"])
        .by(&[Capabilities]),
    row("io-priority", "io-priority", "real-time reading", nothing)
        .root()
        .denied(&["EPERM"])
        .by(&[Seccomp, Capabilities]),
    row(
        "out-of-memory-score",
        "score",
        "being the last that is ended for memory",
        nothing,
    )
    .full_root()
    .denied(&["EACCES", "EPERM", "EROFS"])
    .by(&[Capabilities]),
    row(
        "leave-cgroup",
        "cgroup-escape",
        "leaving the cgroup that limits it",
        nothing,
    )
    .root()
    .denied(super::MASKED)
    .by(&[Root, Seccomp]),
    row(
        "raise-limits",
        "raise-limits",
        "resource limits raised again",
        nothing,
    )
    .denied(&["EPERM"])
    .by(&[Capabilities]),
    row(
        "init-settings",
        "steer-process",
        "limits and scheduling of the sandbox's first process",
        steer,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row("host-name", "host-name", "the host's name", name)
        .denied(&["EPERM", "EROFS", "EACCES"])
        .by(&[Seccomp, UtsNamespace]),
    row(
        "host-user",
        "write-path",
        "being root on the host behind the mapping",
        whose,
    )
    .root()
    .seen_from_outside()
    .by(&[HostUser]),
];

fn setuid_file(scene: &mut Scene) -> Value {
    let copy = scene.path("readable/setuid");
    let _ = copy_program(&scene.probe, &copy);
    let _ = fs::set_permissions(&copy, fs::Permissions::from_mode(0o6755));
    scene.grants.reads.push(scene.path("readable"));
    json!({ "paths": [copy] })
}

fn capable_file(scene: &mut Scene) -> Value {
    let copy = scene.path("readable/capable");
    let _ = copy_program(&scene.probe, &copy);
    let _ = fs::set_permissions(&copy, fs::Permissions::from_mode(0o755));
    // Version 2, effective: to change owners.
    let words: [u32; 5] = [0x0200_0001, 1, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let flags = rustix::fs::XattrFlags::empty();
    let _ = rustix::fs::setxattr(&copy, "security.capability", &value, flags);
    scene.grants.reads.push(scene.path("readable"));
    json!({ "paths": [copy] })
}

fn namespaces(scene: &mut Scene) -> Value {
    json!({ "pid": first_process(scene), "own": !scene.confined })
}

fn steer(scene: &mut Scene) -> Value {
    json!({ "pid": first_process(scene), "confined": scene.confined })
}

fn name(scene: &mut Scene) -> Value {
    json!({ "confined": scene.confined })
}

/// The line of the mapping whose second number, the host's, is 0.
/// What a mapping says is true of the namespace above alone; a file's owner is the host's word.
fn whose(scene: &mut Scene) -> Value {
    let made = scene.path("stage/upper/whose");
    let told = if scene.confined {
        scene.path("tree/whose")
    } else {
        made.clone()
    };
    scene.watches_owners.push(made);
    json!({ "paths": [told], "plain": true })
}
