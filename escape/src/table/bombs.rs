//! Taking more than its share. Every bomb is several times the limit it meets.

use super::nothing;
use crate::attack::{Attack, Class, Limit};
use crate::scene::{Limited, Scene};
use airlock_sandbox::Launcher;
use airlock_sandbox::Wall::{IpcNamespace, Lifetime, MountNamespace, Seccomp, UserNamespace};
use serde_json::{Value, json};

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Bombs, name, probe, about, scene)
}

/// What memory is refused with.
const MEMORY: &[&str] = &["ENOMEM", "ENOSPC", "EMFILE", "EAGAIN", "EFBIG", "EDQUOT"];

pub(super) const ROWS: &[Attack] = &[
    row("bomb-fork", "bomb-fork", "processes", many)
        .denied(&["EAGAIN"])
        .ends(&["too-many-processes"])
        .by(&[Lifetime, UserNamespace]),
    row("bomb-threads", "bomb-threads", "threads", many)
        .denied(&["EAGAIN"])
        .ends(&["too-many-processes"])
        .by(&[Lifetime, UserNamespace]),
    row(
        "bomb-memory",
        "bomb-memory",
        "memory of one process",
        memory,
    )
    .denied(&["ENOMEM"])
    .ends(&["out-of-memory"])
    .by(&[Lifetime]),
    row(
        "bomb-shared-memory",
        "bomb-shared-memory",
        "memory in segments nobody has attached",
        memory,
    )
    .denied(MEMORY)
    .ends(&["out-of-memory"])
    .by(&[IpcNamespace])
    .limits(&[UNSEEN_SEGMENTS]),
    row(
        "bomb-memory-file",
        "bomb-memory-file",
        "memory in files nobody maps",
        memory,
    )
    .denied(MEMORY)
    .ends(&["out-of-memory"])
    .by(&[Lifetime]),
    row(
        "bomb-tmp",
        "bomb-files",
        "files in /tmp, which is memory",
        tmp,
    )
    .denied(MEMORY)
    .ends(&["out-of-memory"])
    // Where the workspace itself lies in /var/tmp.
    .denied_by_bwrap(&["EROFS"])
    .by(&[MountNamespace]),
    row(
        "bomb-shm",
        "bomb-files",
        "files in /dev/shm, which is memory",
        shm,
    )
    .denied(MEMORY)
    .ends(&["out-of-memory"])
    .by(&[MountNamespace]),
    row(
        "bomb-inodes",
        "bomb-inodes",
        "empty files, each of which costs the kernel memory",
        inodes,
    )
    .denied(MEMORY)
    .ends(&["out-of-memory"])
    .by(&[MountNamespace])
    .limits(&[EMPTY_FILES]),
    row(
        "bomb-file-size",
        "bomb-file-size",
        "one large file",
        file_size,
    )
    .denied(&["EFBIG"])
    .ends(&["file-too-large"])
    .by(&[Lifetime]),
    row("bomb-output", "bomb-output", "output without end", output)
        .ends(&["too-much-output"])
        .by(&[Lifetime]),
    row("bomb-errors", "bomb-output", "errors without end", errors)
        .ends(&["too-much-output"])
        .by(&[Lifetime]),
    row(
        "bomb-descriptors",
        "bomb-descriptors",
        "descriptors",
        descriptors,
    )
    .full_root()
    .denied(&["EMFILE"])
    .by(&[Lifetime]),
    row("bomb-pipes", "bomb-pipes", "memory in pipes", pipes)
        .root()
        .denied(MEMORY)
        .ends(&["out-of-memory"])
        .by(&[Lifetime]),
    row("bomb-sockets", "bomb-sockets", "memory in sockets", memory)
        .denied(MEMORY)
        .ends(&["out-of-memory"])
        .by(&[Lifetime])
        .limits(&[UNSEEN_SOCKETS]),
    row(
        "bomb-time",
        "bomb-time",
        "computing without end, deaf to signals",
        time,
    )
    .ends(&["timed-out"])
    .by(&[Lifetime]),
    row(
        "bomb-processor",
        "bomb-processor",
        "more of the processor than its share",
        processor,
    )
    .denied(SHARE)
    .ends(STOPPED)
    .by(&[Lifetime]),
    row(
        "bomb-processor-woken",
        "bomb-processor-woken",
        "the same, with a timer that continues whoever is stopped",
        processor,
    )
    .denied(SHARE)
    .ends(STOPPED)
    .by(&[Lifetime]),
    row("bomb-queue", "bomb-queue", "message queues", nothing)
        .denied(&["EPERM"])
        .by(&[Seccomp]),
    row(
        "bomb-names",
        "bomb-names",
        "directories nested deeper than a path can say",
        names,
    )
    .denied(MEMORY)
    .ends(&["exited-0"])
    .by(&[MountNamespace]),
];

/// What is had of the processor: no more than the share, or not for long.
const SHARE: &[&str] = &["ITS-SHARE"];
const STOPPED: &[&str] = &["timed-out"];

/// The least memory a plan can have, and several times as much.
const LEAST: u64 = 64;
const MUCH: u64 = 384;

fn many(scene: &mut Scene) -> Value {
    scene.grants.limits = Limited {
        pids: Some(20),
        ..Limited::default()
    };
    json!({ "want": 200 })
}

fn memory(scene: &mut Scene) -> Value {
    scene.grants.limits = Limited {
        mebibytes: Some(LEAST),
        ..Limited::default()
    };
    json!({ "mebibytes": MUCH })
}

fn pipes(scene: &mut Scene) -> Value {
    memory(scene)
}

fn tmp(scene: &mut Scene) -> Value {
    memory(scene);
    json!({ "mebibytes": MUCH, "places": ["/tmp", "/var/tmp"] })
}

fn shm(scene: &mut Scene) -> Value {
    memory(scene);
    json!({ "mebibytes": MUCH, "places": ["/dev/shm"] })
}

fn inodes(scene: &mut Scene) -> Value {
    memory(scene);
    json!({ "want": 200_000, "places": ["/dev/shm"] })
}

fn file_size(scene: &mut Scene) -> Value {
    scene.grants.limits = Limited {
        file_mebibytes: Some(1),
        ..Limited::default()
    };
    // The tree of the real one is not changed by a stage; the control has no stage.
    let place = if scene.confined {
        scene.told("tree")
    } else {
        scene.told("shared")
    };
    json!({ "mebibytes": 16, "places": [place] })
}

fn output(scene: &mut Scene) -> Value {
    scene.grants.limits = Limited {
        output_kibibytes: Some(64),
        ..Limited::default()
    };
    json!({ "mebibytes": 4 })
}

fn descriptors(_: &mut Scene) -> Value {
    json!({ "want": 100_000 })
}

fn time(scene: &mut Scene) -> Value {
    scene.grants.limits = Limited {
        millis: Some(700),
        ..Limited::default()
    };
    json!({ "millis": 4_000 })
}

/// The excess is beyond what a supervisor leaves whoever it stops: a burst, what runs between two
/// looks, and half a second for those that do not stand still. A busy machine lets the control wait
/// for its turn.
fn processor(scene: &mut Scene) -> Value {
    const CPUS: u32 = 100;
    scene.grants.limits = Limited {
        cpus: Some(CPUS),
        ..Limited::default()
    };
    let millis = if scene.confined { 6_000 } else { 25_000 };
    json!({ "cpus": CPUS, "excess": 1_200, "millis": millis })
}

fn names(scene: &mut Scene) -> Value {
    json!({ "want": 300, "place": if scene.confined { "/tmp".to_owned() } else { scene.told("shared") } })
}

fn errors(scene: &mut Scene) -> Value {
    output(scene);
    json!({ "mebibytes": 4, "errors": true })
}

/// A cgroup counts it; a supervisor that looks from outside does not see it.
const UNSEEN: &str = "memory of the kernel itself is counted by cgroups alone";
/// Bubblewrap hands over no list of them.
const UNSEEN_SEGMENTS: Limit = Limit::new("shmget, fill, detach", UNSEEN)
    .with(Launcher::Bwrap)
    .without_cgroup();
const UNSEEN_SOCKETS: Limit = Limit::new("fill sockets", UNSEEN).without_cgroup();

/// Bubblewrap cannot limit how many files a place in memory holds.
const EMPTY_FILES: Limit = Limit::new(
    "empty files in ",
    "empty files in memory are bounded by cgroups alone, and else counted at each look",
)
.with(Launcher::Bwrap)
.without_cgroup();
