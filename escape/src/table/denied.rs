//! Reaching what is denied inside a grant.

use crate::attack::{Attack, Class, Limit};
use crate::scene::{Scene, copy_program};
use airlock_sandbox::Wall::Denials;
use serde_json::{Value, json};

const fn row(name: &'static str, probe: &'static str, about: &'static str) -> Attack {
    Attack::new(Class::Denied, name, probe, about, denied_file).by(&[Denials])
}

/// A denial looks like one: never another error, and never as if the file were not there.
const DENIED: &[&str] = &["EACCES"];

pub(super) const ROWS: &[Attack] = &[
    row(
        "denied-spellings",
        "denied-spellings",
        "`.env` by every spelling of its path",
    )
    .denied(DENIED),
    row(
        "denied-reopened",
        "denied-reopened",
        "`.env` by a descriptor that only names it",
    )
    .denied(&["EACCES", "ENOENT"]),
    row(
        "denied-copied",
        "denied-copied",
        "`.env` by mapping, copying, cloning, another program",
    )
    .denied(&["EACCES", "CAT-FAILED"]),
    row(
        "denied-by-symlink",
        "denied-by-symlink",
        "`.env` through symlinks, planted and own",
    )
    .denied(DENIED),
    row(
        "denied-by-hard-link",
        "denied-by-hard-link",
        "`.env` through a new hard link",
    )
    .denied(&["EACCES", "EPERM", "EXDEV"]),
    row(
        "denied-by-rename",
        "denied-by-rename",
        "`.env` under a new name",
    )
    .denied(&["EACCES", "EPERM", "EXDEV"]),
    row(
        "denied-by-directory-rename",
        "denied-by-directory-rename",
        "`.env` in a renamed directory",
    )
    .denied(&["EACCES", "EPERM", "EXDEV"]),
    row(
        "denied-by-exchange",
        "denied-by-exchange",
        "`.env` exchanged with a harmless file",
    )
    .denied(&["EACCES", "EPERM", "EXDEV", "EINVAL"]),
    row("denied-executed", "denied-executed", "`.env` as a script")
        // The kernel finds out that it is no program before the interpreter is kept from it.
        .denied(&["EACCES", "OTHER-CONTENT", "EMPTY", "ENOEXEC"]),
    row(
        "denied-created",
        "denied-created",
        "a `.env` that did not exist",
    )
    .denied(&["EACCES", "EPERM"]),
    row(
        "denied-path-race",
        "denied-path-race",
        "the name changes between check and use",
    )
    .denied(&["EACCES", "NEVER"]),
    row(
        "denied-symlink-race",
        "denied-symlink-race",
        "a symlink changes between check and use",
    )
    .denied(&["EACCES", "NEVER"]),
    row(
        "denied-directory-race",
        "denied-directory-race",
        "directories change between check and use",
    )
    .denied(&["EACCES", "NEVER", "EXDEV"]),
    row(
        "denied-replaced",
        "denied-replaced",
        "`.env` truncated and rewritten",
    )
    .denied(DENIED),
    row(
        "denied-attributes",
        "denied-attributes",
        "extended attributes of `.env`",
    )
    .denied(&["EACCES", "EPERM", "ENODATA", "EOPNOTSUPP"]),
    row(
        "denied-by-socket",
        "denied-by-socket",
        "`.env` through another process's descriptor",
    )
    .denied(&["EACCES", "NONE", "ENOENT"]),
    Attack::new(
        Class::Denied,
        "denied-read-grant",
        "denied-spellings",
        "`.env` in a directory granted for reading",
        denied_readable,
    )
    .by(&[Denials])
    .denied(&["EACCES", "EROFS"]),
    Attack::new(
        Class::Denied,
        "denied-directory",
        "denied-directory",
        "a file in a denied directory, from outside and inside",
        denied_directory,
    )
    .by(&[Denials])
    .denied(&["EACCES", "EPERM", "EXDEV"]),
    Attack::new(
        Class::Denied,
        "denied-program",
        "denied-program",
        "a denied program that is run",
        denied_program,
    )
    .by(&[Denials])
    .denied(&["EACCES", "EPERM", "EMPTY"])
    .limits(&[RUN]),
];

/// The kernel can only be told to go on with an `execve`, and then reads its arguments anew.
const RUN: Limit = Limit::new("execve", "a denied file that is executable can be run");

fn denied_directory(scene: &mut Scene) -> Value {
    scene.grants.patterns = vec!["**/private"];
    json!({ "path": scene.told("tree/private/key"), "marker": scene.marker })
}

fn denied_program(scene: &mut Scene) -> Value {
    scene.grants.patterns = vec!["**/*.secret"];
    let copy = scene.path("tree/tools/program.secret");
    let _ = copy_program(&scene.probe, &copy);
    json!({ "path": copy })
}

fn denied_file(scene: &mut Scene) -> Value {
    scene.grants.patterns = vec!["**/.env"];
    let path = scene.path("tree/.env");
    let _ = rustix::fs::setxattr(
        &path,
        "user.secret",
        scene.marker.as_bytes(),
        rustix::fs::XattrFlags::empty(),
    );
    json!({
        "path": path,
        "nested": scene.told("tree/nested/.env"),
        "absent": scene.told("tree/sub/.env"),
        "allowed": scene.told("tree/okay"),
        "marker": scene.marker,
    })
}

fn denied_readable(scene: &mut Scene) -> Value {
    scene.grants.patterns = vec!["**/.env"];
    scene.grants.reads.push(scene.path("readable"));
    json!({ "path": scene.told("readable/.env"), "marker": scene.marker })
}
