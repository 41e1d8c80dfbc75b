//! Typing into a terminal.

use super::{nothing, own};
use crate::attack::{Attack, Class};
use crate::scene::Scene;
use airlock_sandbox::Wall::{Root, Seccomp, Session};
use airlock_sandbox::launch::TerminalSize;
use serde_json::{Value, json};

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Terminal, name, probe, about, scene)
}

/// Refused by the filter, or no terminal to type into.
const NO_INPUT: &[&str] = &["EPERM", "ENXIO", "EACCES", "ENOENT"];

pub(super) const ROWS: &[Attack] = &[
    row(
        "terminal-input",
        "terminal-input",
        "TIOCSTI, also with bits the kernel drops",
        nothing,
    )
    .root()
    .denied(NO_INPUT)
    .by(&[Seccomp, Session]),
    row(
        "terminal-output",
        "terminal-output",
        "escape sequences straight to the terminal",
        own,
    )
    .denied(&["ENXIO", "ENOENT", "EACCES", "ENOTTY", "EINVAL"])
    .by(&[Session, Root]),
    row(
        "terminal-steal",
        "terminal-steal",
        "taking the terminal from its session",
        own,
    )
    .denied(&["ENOTTY", "EINVAL", "EIO", "EPERM"])
    .by(&[Session]),
    row(
        "terminal-console",
        "terminal-console",
        "TIOCLINUX, TIOCCONS and key maps",
        nothing,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp]),
    row(
        "terminal-discipline",
        "terminal-discipline",
        "line disciplines",
        nothing,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp]),
    row(
        "terminal-others",
        "terminal-others",
        "a terminal someone sits at",
        others,
    )
    .denied(&["ENOENT", "EACCES", "NOT-THERE", "EIO"])
    .by(&[Root]),
    row(
        "terminal-input-own",
        "terminal-input",
        "TIOCSTI on the terminal the command was given",
        on_terminal,
    )
    .root()
    .denied(NO_INPUT)
    .by(&[Seccomp]),
    row(
        "terminal-console-own",
        "terminal-console",
        "console requests with a terminal at hand",
        on_terminal,
    )
    .denied(&["EPERM"])
    .by(&[Seccomp]),
];

fn on_terminal(scene: &mut Scene) -> Value {
    scene.terminal = Some(TerminalSize {
        rows: 24,
        columns: 80,
    });
    json!({})
}

fn others(scene: &mut Scene) -> Value {
    let told = scene.victim("terminal", &json!({}));
    json!({ "paths": [told.get("path")] })
}
