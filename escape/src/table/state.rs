//! Airlock's own policy, audit and state, also where a grant holds them.

use crate::attack::{Attack, Class};
use crate::scene::Scene;
use airlock_sandbox::Wall::{Denials, Root};
use serde_json::{Value, json};

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::State, name, probe, about, scene)
}

const HIDDEN: &[&str] = &[
    "ENOENT",
    "EACCES",
    "EPERM",
    "EMPTY",
    "EROFS",
    "EXDEV",
    "EBUSY",
    "EEXIST",
    "ENOTEMPTY",
];
const FROZEN: &[&str] = &[
    "EROFS",
    "EACCES",
    "EPERM",
    "EXDEV",
    "EBUSY",
    "EEXIST",
    "ENOTEMPTY",
];

/// The same where the directory is empty.
const ABSENT: &[&str] = &[
    "EROFS", "EACCES", "EPERM", "EXDEV", "EBUSY", "EEXIST", "ENOENT",
];

pub(super) const ROWS: &[Attack] = &[
    row(
        "policy-directory",
        "write-protected-directory",
        "the workspace's policy, by every way to write",
        policy,
    )
    .denied(FROZEN)
    .by(&[Denials]),
    row(
        "policy-appears",
        "write-protected-directory",
        "a policy where the workspace has none yet",
        new_policy,
    )
    .denied(ABSENT)
    .by(&[Denials]),
    row(
        "audit-read",
        "read-path",
        "the audit log inside a read grant",
        audit,
    )
    .denied(HIDDEN)
    .by(&[Denials]),
    row(
        "key-read",
        "read-path",
        "the signing key inside a read grant",
        key,
    )
    .denied(HIDDEN)
    .by(&[Denials]),
    row(
        "audit-write",
        "write-protected-directory",
        "the audit log inside a write grant",
        audit_write,
    )
    .denied(HIDDEN)
    .by(&[Denials]),
    row(
        "state-listing",
        "list-directory",
        "what Airlock keeps",
        listing,
    )
    .denied(HIDDEN)
    .by(&[Denials]),
    row(
        "state-socket",
        "pathname-socket",
        "Airlock's own socket",
        socket,
    )
    .denied(&["ENOENT", "EACCES", "ECONNREFUSED"])
    .by(&[Denials]),
    row(
        "registry",
        "list-directory",
        "the notes about live sandboxes",
        registry,
    )
    .denied(&["ENOENT", "EACCES"])
    .by(&[Root]),
];

fn policy(scene: &mut Scene) -> Value {
    json!({ "directory": scene.told("tree/.airlock"), "name": "policy.yaml" })
}

fn new_policy(scene: &mut Scene) -> Value {
    let _ = std::fs::remove_dir_all(scene.path("tree/.airlock"));
    if !scene.confined {
        let _ = std::fs::create_dir(scene.path("tree/.airlock"));
    }
    json!({ "directory": scene.told("tree/.airlock"), "name": "policy.yaml" })
}

/// A grant that holds everything of the scene's state.
fn inside(scene: &mut Scene, writing: bool) {
    let root = scene.path(if writing { "shared" } else { "state" });
    let nested = root.join("airlock");
    let _ = std::fs::create_dir(&nested);
    let secret = scene.marker.clone();
    let _ = std::fs::write(nested.join("audit.db"), &secret);
    let _ = std::fs::write(nested.join("signing.key"), &secret);
    scene.grants.own.push(nested);
    if writing {
        scene.kept.push(root.join("airlock"));
        scene.grants.writes.push(root);
    } else {
        scene.grants.reads.push(root);
    }
}

fn audit(scene: &mut Scene) -> Value {
    inside(scene, false);
    json!({ "paths": [scene.told("state/airlock/audit.db")], "marker": scene.marker })
}

fn key(scene: &mut Scene) -> Value {
    inside(scene, false);
    json!({ "paths": [scene.told("state/airlock/signing.key")], "marker": scene.marker })
}

fn audit_write(scene: &mut Scene) -> Value {
    inside(scene, true);
    json!({ "directory": scene.told("shared/airlock"), "name": "audit.db" })
}

fn listing(scene: &mut Scene) -> Value {
    inside(scene, false);
    json!({ "paths": [scene.told("state/airlock")], "marker": "audit.db" })
}

fn socket(scene: &mut Scene) -> Value {
    inside(scene, false);
    let path = scene.path("state/airlock/s");
    scene.stream_at(&path);
    json!({ "paths": [path], "marker": scene.marker })
}

fn registry(scene: &mut Scene) -> Value {
    let _ = std::fs::write(scene.path("run/note"), "");
    json!({ "paths": [scene.told("run")], "marker": "note" })
}
