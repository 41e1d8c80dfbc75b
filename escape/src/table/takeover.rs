//! Taking the host over through what root may write.

use super::{MASKED, first_process, nothing};
use crate::attack::{Attack, Class};
use crate::scene::{Owner, Scene};
use airlock_sandbox::Wall::{Capabilities, HostUser, Landlock, Root, Seccomp};
use serde_json::{Value, json};

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Takeover, name, probe, about, scene).root()
}

const fn setting(
    name: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    row(name, "setting", about, scene)
        .denied(MASKED)
        .by(&[Root, HostUser])
}

pub(super) const ROWS: &[Attack] = &[
    setting("core-pattern", "the program that handles crashes", |_| {
        paths(&["/proc/sys/kernel/core_pattern"])
    })
    .target("/proc/sys/kernel/core_pattern"),
    setting("modprobe", "the program that loads modules", |_| {
        paths(&["/proc/sys/kernel/modprobe"])
    })
    .rare_target("/proc/sys/kernel/modprobe"),
    setting("hotplug", "the program that handles devices", |_| {
        paths(&["/sys/kernel/uevent_helper", "/proc/sys/kernel/hotplug"])
    })
    .rare_target("/sys/kernel/uevent_helper"),
    setting(
        "poweroff-command",
        "the program that turns the machine off",
        |_| paths(&["/proc/sys/kernel/poweroff_cmd"]),
    )
    .target("/proc/sys/kernel/poweroff_cmd"),
    setting(
        "helper-capabilities",
        "what programs the kernel starts may do",
        |_| paths(&["/proc/sys/kernel/usermodehelper/bset"]),
    )
    .target("/proc/sys/kernel/usermodehelper/bset"),
    setting("dumpable", "cores of set-user-id programs", |_| {
        paths(&["/proc/sys/fs/suid_dumpable"])
    })
    .target("/proc/sys/fs/suid_dumpable"),
    setting(
        "memory-settings",
        "how the machine's memory is given out",
        |_| {
            paths(&[
                "/proc/sys/vm/overcommit_memory",
                "/proc/sys/vm/panic_on_oom",
                "/proc/sys/vm/drop_caches",
            ])
        },
    )
    .target("/proc/sys/vm/overcommit_memory"),
    setting(
        "protections",
        "links, modules and addresses the kernel protects",
        |_| {
            paths(&[
                "/proc/sys/fs/protected_symlinks",
                "/proc/sys/kernel/kptr_restrict",
                "/proc/sys/kernel/randomize_va_space",
            ])
        },
    )
    .target("/proc/sys/kernel/randomize_va_space"),
    setting("network-settings", "forwarding and its like", |_| {
        paths(&[
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/sys/net/core/somaxconn",
        ])
    })
    .target("/proc/sys/net/ipv4/ip_forward"),
    setting("user-limits", "how many namespaces there may be", |_| {
        paths(&["/proc/sys/user/max_user_namespaces"])
    })
    .full_root()
    .target("/proc/sys/user/max_user_namespaces"),
    setting("interrupts", "which processor serves which device", |_| {
        paths(&["/proc/irq/default_smp_affinity"])
    })
    .target("/proc/irq/default_smp_affinity"),
    setting("system-settings", "settings in /sys", |_| {
        paths(&["/sys/kernel/rcu_expedited", "/sys/kernel/rcu_normal"])
    })
    .target("/sys/kernel/rcu_expedited"),
    row(
        "sysrq",
        "trigger",
        "the key that restarts the machine",
        |_| paths(&["/proc/sysrq-trigger"]),
    )
    .rare_target("/proc/sysrq-trigger")
    .denied(&["EACCES", "EROFS", "ENOENT"])
    .by(&[Root]),
    row(
        "kernel-messages",
        "trigger",
        "writing the kernel's log",
        |_| paths(&["/dev/kmsg"]),
    )
    .target("/dev/kmsg")
    .denied(&["EACCES", "ENOENT"])
    .by(&[Root]),
    row(
        "devices",
        "trigger",
        "virtual machines, tunnels, file systems, loops, terminals",
        |_| {
            paths(&[
                "/dev/kvm",
                "/dev/net/tun",
                "/dev/fuse",
                "/dev/loop-control",
                "/dev/loop0",
                "/dev/ttyS0",
                "/dev/vsock",
            ])
        },
    )
    .target("/dev/fuse")
    .denied(&["EACCES", "ENOENT"])
    .by(&[Root]),
    row("raw-disk", "trigger", "the host's disk", raw_disk)
        .full_root()
        .denied(&["EACCES", "ENOENT"])
        .by(&[Root]),
    row(
        "release-agent",
        "release-agent",
        "the program run when a cgroup empties",
        agents,
    )
    .denied(MASKED)
    .by(&[Root, Seccomp]),
    row(
        "binary-formats",
        "binary-formats",
        "a handler for programs root will run",
        nothing,
    )
    .denied(MASKED)
    .by(&[Root, Seccomp]),
    row(
        "mount-disk",
        "mount-disk",
        "the host's disk mounted again",
        super::secrets::disk,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp, Capabilities]),
    row(
        "mount-kernel",
        "mount-kernel",
        "debugfs, tracefs, a fresh /proc and /sys",
        nothing,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp, Capabilities]),
    row(
        "first-namespaces",
        "namespace-enter",
        "the namespaces of the first process",
        namespaces,
    )
    .denied(&["EPERM", "EACCES"])
    .of_init()
    .by(&[Seccomp]),
    row(
        "root-keys",
        "write-path",
        "a key for root's logins",
        root_keys,
    )
    .seen_from_outside()
    .denied(MASKED)
    .by(&[Root, HostUser]),
    row(
        "password-file",
        "change-file",
        "accounts of the host",
        accounts,
    )
    .denied(super::READ_ONLY)
    .by(&[Root, HostUser, Landlock]),
    row(
        "setuid-root-copy-up",
        "make-setuid",
        "a file of root's copied up and made set-user-id",
        copy_up,
    )
    .seen_from_outside()
    .denied(&["EPERM", "EACCES", "BITS-DROPPED"])
    .by(&[HostUser, Seccomp]),
];

fn paths(paths: &[&str]) -> Value {
    json!({ "paths": paths })
}

fn raw_disk(scene: &mut Scene) -> Value {
    let mut given = super::secrets::disk(scene);
    if given
        .get("paths")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
    {
        given = paths(&["/dev/vda", "/dev/sda", "/dev/nvme0n1"]);
    }
    given
}

fn agents(_: &mut Scene) -> Value {
    let controllers = std::fs::read_dir("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .flatten();
    let agents = controllers.map(|entry| entry.path().join("release_agent"));
    let agents: Vec<_> = agents.filter(|path| path.exists()).collect();
    json!({ "paths": agents })
}

fn namespaces(scene: &mut Scene) -> Value {
    json!({ "pid": first_process(scene), "own": !scene.confined })
}

fn root_keys(scene: &mut Scene) -> Value {
    let path = format!("{}/{}", "/root", scene.marker);
    scene.watched.push(path.clone().into());
    scene.leftovers.push(path.clone().into());
    json!({ "paths": [path], "plain": true })
}

fn copy_up(scene: &mut Scene) -> Value {
    scene
        .watches_bits
        .push((scene.path("stage/upper"), Owner::Root));
    let place = if scene.confined {
        "tree/sub"
    } else {
        "stage/upper"
    };
    let _ = std::fs::write(scene.path("tree/sub/setuid"), "#!/bin/sh\n");
    json!({ "places": [scene.told(place)] })
}

/// The control changes a copy.
fn accounts(scene: &mut Scene) -> Value {
    if scene.confined {
        return json!({ "path": "/etc/passwd" });
    }
    let copy = scene.path("outside/passwd");
    let _ = std::fs::copy("/etc/passwd", &copy);
    json!({ "path": copy })
}
