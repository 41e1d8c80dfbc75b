//! Outliving the command, the sandbox, the supervisor.

use super::first_process;
use crate::attack::{Attack, Class};
use crate::scene::{Limited, Scene};
use airlock_sandbox::Wall::{Lifetime, PidNamespace};
use serde_json::{Value, json};

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Lifetime, name, probe, about, scene)
}

const fn outlive(
    name: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    row(name, "outlive", about, scene)
        .seen_from_outside()
        .by(&[PidNamespace, Lifetime])
}

pub(super) const ROWS: &[Attack] = &[
    outlive(
        "double-fork",
        "a daemon's double fork and setsid",
        |scene| leaves(scene, &["double fork", "own group"]),
    ),
    outlive(
        "deaf-daemon",
        "a daemon that ignores every signal it can",
        |scene| {
            leaves(
                scene,
                &["double fork", "ignoring signals", "no death signal"],
            )
        },
    ),
    outlive(
        "stopped-daemon",
        "a process that has stopped itself",
        |scene| leaves(scene, &["double fork", "stopped"]),
    ),
    outlive(
        "pipe-holder",
        "a daemon that keeps the command's output open",
        |scene| leaves(scene, &["double fork", "holding pipes"]),
    ),
    outlive("many-daemons", "daemons that multiply", |scene| {
        leaves(scene, &["double fork", "many", "ignoring signals"])
    }),
    outlive("subreaper", "a parent that adopts orphans", |scene| {
        leaves(scene, &["subreaper", "double fork"])
    }),
    outlive(
        "past-the-timeout",
        "a command that waits past its time with daemons around it",
        |scene| {
            scene.grants.limits = Limited {
                millis: Some(1_500),
                ..Limited::default()
            };
            let waiting = if scene.confined {
                "waiting"
            } else {
                "not waiting"
            };
            leaves(scene, &["double fork", "ignoring signals", "many", waiting])
        },
    )
    .ends(&["timed-out"]),
    outlive(
        "blocked-on-a-pipe",
        "processes that wait for ever in an open the supervisor makes for them",
        |scene| {
            scene.grants.patterns = vec!["**/.env"];
            scene.grants.limits = Limited {
                millis: Some(1_500),
                ..Limited::default()
            };
            let waiting = if scene.confined {
                "waiting"
            } else {
                "not waiting"
            };
            leaves(scene, &["many", "blocked on a pipe", waiting])
        },
    )
    .ends(&["timed-out"]),
    row(
        "hold-up-init",
        "hold-up",
        "stopping what the sandbox's first process starts before it is a program",
        company,
    )
    .ends(&["timed-out"])
    .by(&[PidNamespace, Lifetime]),
    row(
        "kill-init",
        "kill-process",
        "ending the sandbox's first process",
        init,
    )
    .denied(&["IGNORED", "EPERM"])
    .by(&[PidNamespace]),
    row(
        "kill-everyone",
        "kill-everyone",
        "ending every process there is",
        everyone,
    )
    .denied(&["OWN-NAMESPACE", "ESRCH", "EPERM"])
    .by(&[PidNamespace]),
    row(
        "signal-supervisor",
        "signal-process",
        "a process of the host by its number",
        supervisor,
    )
    .denied(&["ESRCH", "EPERM"])
    .by(&[PidNamespace]),
    Attack::new(
        Class::Lifetime,
        "supervisor-killed",
        "outlive",
        "daemons after the supervisor was killed without warning",
        super::nothing,
    )
    .orphaned()
    .by(&[Lifetime]),
];

fn leaves(scene: &mut Scene, ways: &[&str]) -> Value {
    scene.watches_processes = true;
    json!({ "token": scene.marker, "ways": ways })
}

/// Airlock has programs of its own started beside the command; the control starts its own.
fn company(scene: &mut Scene) -> Value {
    scene.grants.company = true;
    scene.grants.limits = Limited {
        millis: Some(1_500),
        ..Limited::default()
    };
    json!({ "own": !scene.confined })
}

fn init(scene: &mut Scene) -> Value {
    json!({ "pid": first_process(scene) })
}

fn everyone(scene: &mut Scene) -> Value {
    let _ = super::victim(scene);
    json!({ "harmless": !scene.confined })
}

fn supervisor(scene: &mut Scene) -> Value {
    json!({ "pid": super::victim(scene) })
}
