//! Machines in a bad way, made with namespaces so that root and ordinary users see the same.

use super::{World, program};
use std::process::Command;

/// `airlock ARGS` with no power over files beyond what their permission bits say, root or not.
///
/// A user namespace without a mapping has no capability over any file outside it.
pub(crate) fn unprivileged(world: &World, args: &[&str]) -> Command {
    world.through(&["unshare", "--user"], args)
}

/// A shell script in which `$STATE` is a file system of `size`, gone when the script ends.
pub(crate) fn full_disk(world: &World, size: &str, script: &str) -> Command {
    let mount = world.path("tiny");
    std::fs::create_dir_all(&mount).unwrap();
    let script = format!(
        "mount -t tmpfs -o size={size} none \"$STATE\" && export XDG_STATE_HOME=\"$STATE\" && {script}"
    );
    let mut command = program("unshare");
    world.prepare(&mut command);
    command
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .env("STATE", mount)
        .env("AIRLOCK", super::binary());
    command
}
