//! Writing outside the stage.

use super::{READ_ONLY, nothing};
use crate::attack::{Attack, Class};
use crate::scene::{Owner, Scene, copy_program};
use airlock_sandbox::Wall::{Capabilities, HostUser, Landlock, MountNamespace, Root, Seccomp};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Writing, name, probe, about, scene)
}

const OUTSIDE: &[&str] = &["ENOENT", "EACCES", "EROFS", "EPERM", "EXDEV"];

pub(super) const ROWS: &[Attack] = &[
    row(
        "dot-dot",
        "write-path",
        "a file outside, also by `..` and magic links",
        target,
    )
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root, Landlock]),
    row(
        "grant-becomes-link",
        "write-path",
        "the real tree, where a link was put in place of a directory that is granted",
        linked_grant,
    )
    .seen_from_outside()
    .refused("which is not granted")
    .denied(OUTSIDE)
    .by(&[Root]),
    row(
        "shell-startup",
        "write-path",
        "the shell's start-up file",
        startup,
    )
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root]),
    row(
        "host-tmp",
        "write-path",
        "a file in the host's /tmp",
        host_tmp,
    )
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root]),
    row(
        "host-var-tmp",
        "write-path",
        "a file in the host's /var/tmp",
        host_var_tmp,
    )
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root]),
    row(
        "host-shm",
        "write-path",
        "a file in the host's /dev/shm",
        host_shm,
    )
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root]),
    row(
        "cron",
        "write-path",
        "a job for cron, a unit for systemd",
        cron,
    )
    .root()
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root, HostUser]),
    row(
        "programs",
        "write-path",
        "a program in /usr/bin and /usr/local/bin",
        programs,
    )
    .root()
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root, HostUser, Landlock]),
    row(
        "write-by-symlink",
        "write-by-symlink",
        "through symlinks, planted and own",
        target,
    )
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root]),
    row(
        "write-symlink-race",
        "write-symlink-race",
        "a directory becomes a symlink",
        target,
    )
    .seen_from_outside()
    .denied(&["ENOENT", "EACCES", "NEVER", "ENOTDIR", "EISDIR"])
    .by(&[Root]),
    row(
        "write-rename-race",
        "write-rename-race",
        "a directory moves under a walk by `..`",
        target,
    )
    .seen_from_outside()
    .denied(&["ENOENT", "EACCES", "NEVER", "EXDEV"])
    .by(&[Root]),
    row(
        "write-by-hard-link",
        "write-by-hard-link",
        "through a new hard link",
        target,
    )
    .seen_from_outside()
    .denied(OUTSIDE)
    .by(&[Root]),
    row(
        "write-by-tmpfile",
        "write-by-tmpfile",
        "a nameless file is given a name outside",
        tmpfile,
    )
    .seen_from_outside()
    .denied(&["ENOENT", "EACCES", "EXDEV", "EOPNOTSUPP"])
    .by(&[Root]),
    row(
        "write-by-descriptor",
        "write-by-descriptor",
        "through descriptors and magic links",
        target,
    )
    .seen_from_outside()
    .denied(&["ENOENT", "EACCES", "ENOTDIR", "EPERM"])
    .by(&[Root]),
    row(
        "write-by-bind",
        "write-by-bind",
        "through a bind mount",
        target,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp, Capabilities]),
    row(
        "real-tree",
        "change-file",
        "a file of the real tree, through the stage",
        real_file,
    )
    .seen_from_outside()
    .denied(&["EOPNOTSUPP", "ENOENT"])
    .by(&[MountNamespace]),
    row(
        "real-hooks",
        "change-file",
        "a git hook of the real tree, through the stage",
        real_hook,
    )
    .seen_from_outside()
    .denied(&["EOPNOTSUPP", "ENOENT"])
    .by(&[MountNamespace]),
    row(
        "real-new-file",
        "write-path",
        "a new file in the real tree",
        real_new,
    )
    .seen_from_outside()
    .denied(&[])
    .by(&[MountNamespace]),
    row(
        "read-grant",
        "change-file",
        "a file granted for reading",
        read_grant,
    )
    .denied(READ_ONLY)
    .by(&[Root, Landlock]),
    row(
        "read-grant-new",
        "write-path",
        "a new file where reading is granted",
        read_grant_new,
    )
    .denied(READ_ONLY)
    .of_init()
    .by(&[Root, Landlock]),
    row(
        "own-program",
        "own-executable",
        "the program that runs, as the host will run it again",
        program,
    )
    .denied(&["EACCES", "EROFS", "ETXTBSY"])
    .by(&[Root, Landlock]),
    row(
        "remount",
        "remount",
        "making a read-only mount writable",
        read_grant,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp, Capabilities]),
    row(
        "unmount",
        "unmount",
        "taking a mask or the stage away",
        unmount,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp, Capabilities]),
    row(
        "mount-over",
        "mount-over",
        "mounting over /etc, and a fresh /proc",
        nothing,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp, Capabilities]),
    row(
        "device-in-stage",
        "make-device",
        "device nodes in the stage and in /tmp",
        device,
    )
    .root()
    .denied(&["EPERM"])
    .by(&[Seccomp, Landlock]),
    row(
        "setuid-in-stage",
        "make-setuid",
        "a set-user-id file in the stage, as the host sees it",
        setuid_stage,
    )
    .root()
    .seen_from_outside()
    .denied(&["EPERM", "EACCES", "BITS-DROPPED"])
    .by(&[HostUser, Seccomp]),
    row(
        "setuid-in-grant",
        "make-setuid",
        "a set-user-id file where writing is granted",
        setuid_grant,
    )
    .seen_from_outside()
    .denied(&["EPERM", "EACCES", "BITS-DROPPED"])
    .by(&[Seccomp]),
    row(
        "overlay-attribute",
        "overlay-attribute",
        "attributes that redirect the overlay",
        attribute,
    )
    .seen_from_outside()
    .denied(&["EPERM", "EOPNOTSUPP", "EACCES"])
    .by(&[MountNamespace]),
    row(
        "overlay-whiteout",
        "overlay-whiteout",
        "whiteouts of its own making",
        overlay,
    )
    .root()
    .denied(&["EPERM", "EINVAL"])
    .by(&[Seccomp, Landlock]),
    row(
        "change-owner",
        "change-owner",
        "a file given to root",
        owner,
    )
    .root()
    .denied(&["EPERM", "EINVAL"])
    .by(&[Capabilities, HostUser]),
    row(
        "stage-traps",
        "stage-traps",
        "links, pipes and depths for whoever reads the stage",
        traps,
    )
    .seen_from_outside()
    .by(&[MountNamespace]),
    row(
        "between-grants",
        "move-between-grants",
        "a file that can be read, moved to where writing is granted",
        between,
    )
    .denied(READ_ONLY)
    .by(&[Root, Landlock]),
];

/// Confined, the stage is one that can be asked for its changes.
fn traps(scene: &mut Scene) -> Value {
    scene.keep_stage();
    json!({ "workspace": scene.told("tree"), "outside": scene.told("outside") })
}

fn between(scene: &mut Scene) -> Value {
    scene.grants.reads.push(scene.path("readable"));
    scene.grants.writes.push(scene.path("shared"));
    json!({ "from": scene.told("readable/file.txt"), "to": scene.told("shared") })
}

fn target(scene: &mut Scene) -> Value {
    json!({
        "paths": [scene.told("outside/new.txt")],
        "path": scene.told("outside/target.txt"),
        "outside": scene.told("outside"),
        "workspace": scene.told("tree"),
        "name": "new.txt",
    })
}

fn startup(scene: &mut Scene) -> Value {
    json!({ "paths": [scene.told("home/.bashrc"), scene.told("home/.profile")] })
}

fn unique(scene: &mut Scene, directories: &[&str]) -> Value {
    let paths: Vec<String> = directories
        .iter()
        .map(|directory| format!("{directory}/{}", scene.marker))
        .collect();
    scene.watched.extend(paths.iter().map(Into::into));
    scene.leftovers.extend(paths.iter().map(Into::into));
    json!({ "paths": paths, "plain": true })
}

fn host_tmp(scene: &mut Scene) -> Value {
    unique(scene, &["/tmp"])
}

fn host_var_tmp(scene: &mut Scene) -> Value {
    unique(scene, &["/var/tmp"])
}

fn host_shm(scene: &mut Scene) -> Value {
    unique(scene, &["/dev/shm"])
}

fn cron(scene: &mut Scene) -> Value {
    unique(
        scene,
        &[
            "/etc/cron.d",
            "/var/spool/cron/crontabs",
            "/etc/systemd/system",
            "/etc/profile.d",
        ],
    )
}

fn programs(scene: &mut Scene) -> Value {
    unique(scene, &["/usr/local/bin", "/usr/bin", "/usr/lib", "/etc"])
}

fn tmpfile(scene: &mut Scene) -> Value {
    json!({ "path": scene.told("outside/new.txt"), "places": [scene.told("tree"), "/tmp", scene.told("outside")] })
}

fn real_file(scene: &mut Scene) -> Value {
    json!({ "path": scene.told("tree/sub/keep.txt") })
}

fn real_hook(scene: &mut Scene) -> Value {
    json!({ "path": scene.told("tree/.git/hooks/pre-commit") })
}

fn real_new(scene: &mut Scene) -> Value {
    json!({ "paths": [scene.told("tree/new.txt")] })
}

fn read_grant(scene: &mut Scene) -> Value {
    scene.grants.reads.push(scene.path("readable"));
    json!({ "path": scene.told("readable/file.txt") })
}

fn read_grant_new(scene: &mut Scene) -> Value {
    scene.grants.reads.push(scene.path("readable"));
    json!({ "paths": [scene.told("readable/new.txt")] })
}

/// A program granted for reading; the control may write its copy.
fn program(scene: &mut Scene) -> Value {
    let copy = scene.path("readable/program");
    let _ = copy_program(std::path::Path::new("/bin/true"), &copy);
    scene.grants.reads.push(scene.path("readable"));
    json!({ "program": copy })
}

fn unmount(scene: &mut Scene) -> Value {
    json!({ "paths": [scene.told("tree"), "/tmp"], "mount": !scene.confined })
}

fn device(scene: &mut Scene) -> Value {
    scene
        .watches_bits
        .push((scene.path("stage/upper"), Owner::Root));
    json!({ "places": [scene.told("tree"), "/tmp"] })
}

fn setuid_stage(scene: &mut Scene) -> Value {
    // The control has no stage: it writes where the stage's writes would land.
    scene
        .watches_bits
        .push((scene.path("stage/upper"), Owner::Root));
    let place = if scene.confined {
        "tree"
    } else {
        "stage/upper"
    };
    json!({ "places": [scene.told(place)] })
}

fn setuid_grant(scene: &mut Scene) -> Value {
    scene.grants.writes.push(scene.path("shared"));
    scene
        .watches_bits
        .push((scene.path("shared"), Owner::Anyone));
    json!({ "places": [scene.told("shared")] })
}

fn overlay(scene: &mut Scene) -> Value {
    json!({ "directory": scene.told("tree/sub") })
}

fn owner(scene: &mut Scene) -> Value {
    json!({ "path": scene.told("tree/mine") })
}

/// The control sets it where overlayfs would read it.
fn attribute(scene: &mut Scene) -> Value {
    let below = if scene.confined {
        "tree/sub"
    } else {
        "stage/upper/sub"
    };
    let _ = fs::create_dir_all(scene.path(below));
    scene.watches_attributes.push(scene.path("stage/upper/sub"));
    json!({ "directory": scene.told(below), "all": true })
}

/// What a program may have done that could write in `shared`, before the next one may in `out`.
fn linked_grant(scene: &mut Scene) -> Value {
    let out = scene.path("shared/out");
    let _ = symlink(scene.path("tree"), &out);
    scene.grants.writes = vec![out];
    json!({ "paths": [scene.told("shared/out/planted")], "plain": true })
}
