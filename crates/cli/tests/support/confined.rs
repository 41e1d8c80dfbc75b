//! Machines in a bad way, made with namespaces so that root and ordinary users see the same.

use super::{World, program};
use std::process::Command;

/// `airlock ARGS` with no power over files beyond what their permission bits say, root or not.
///
/// A user namespace without a mapping has no capability over any file outside it.
pub(crate) fn unprivileged(world: &World, args: &[&str]) -> Command {
    world.alone();
    world.through(&["unshare", "--user"], args)
}

/// A shell script in which `$STATE`, the state home, is a file system of its own, mounted with
/// `options`.
pub(crate) fn tiny_disk(world: &World, options: &str, script: &str) -> Command {
    let mount = world.path("tiny");
    std::fs::create_dir_all(&mount).unwrap();
    let script = format!(
        "mount -t tmpfs -o {options} none \"$STATE\" && export XDG_STATE_HOME=\"$STATE\" && {script}"
    );
    let mut command = program("unshare");
    world.prepare(&mut command);
    command
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .env("STATE", mount)
        .env("AIRLOCK", super::binary());
    command
}

/// `airlock ARGS` with the state and configuration home on a read-only file system.
pub(crate) fn read_only_disk(world: &World, args: &str) -> Command {
    let script = format!("export XDG_CONFIG_HOME=\"$STATE\" && exec \"$AIRLOCK\" {args}");
    tiny_disk(world, "ro,size=64k", &script)
}
