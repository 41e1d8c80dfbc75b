//! A person at a terminal: the command runs on a pseudo-terminal of its own.

use super::{Ran, World, fed, program};

/// What the person does when asked.
#[derive(Clone, Copy)]
pub(crate) enum Typed<'a> {
    /// Types this and presses return.
    Line(&'a str),
    /// Closes the terminal's input.
    Nothing,
}

/// Runs `airlock WORDS` on a terminal; everything it shows there is `stdout`.
pub(crate) fn at_terminal(world: &World, words: &str, typed: Typed<'_>) -> Ran {
    let line = format!("{} {words}", super::binary());
    let mut command = program("script");
    world.prepare(&mut command);
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb");
    let input = match typed {
        Typed::Line(text) => format!("{text}\n"),
        Typed::Nothing => String::new(),
    };
    let mut ran = fed(&mut command, &input);
    ran.stdout = ran.stdout.replace("\r\n", "\n");
    ran
}
