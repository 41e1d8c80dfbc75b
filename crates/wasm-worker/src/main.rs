//! `airlock-wasm`: the worker of one Wasm plugin. Only the kernel starts it, in a sandbox.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

/// It was started by somebody who takes it for something else.
const USAGE: u8 = 2;

const HELP: &str = "\
airlock-wasm serves one Wasm plugin. `airlock` starts it in a sandbox, from the directory it lies in
itself, and tells it on its standard input what to do: there is nothing to be given on a command line.
";

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        None if io::stdin().is_terminal() => written(io::stderr(), HELP, USAGE),
        None => serve(),
        Some(word) if word == "--version" || word == "-V" => {
            let version = concat!("airlock-wasm ", env!("CARGO_PKG_VERSION"), "\n");
            written(io::stdout(), version, 0)
        }
        Some(word) if word == "--help" || word == "-h" => written(io::stdout(), HELP, 0),
        Some(_) => written(io::stderr(), HELP, USAGE),
    }
}

fn serve() -> ExitCode {
    match airlock_wasm_worker::serve(io::stdin().lock(), io::stdout(), confine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => written(
            io::stderr(),
            &format!("error: the worker cannot go on\n  why: {error}\n"),
            1,
        ),
    }
}

fn written(mut to: impl Write, text: &str, code: u8) -> ExitCode {
    // Whoever does not read it knows the code.
    let _ = to.write_all(text.as_bytes());
    ExitCode::from(code)
}

#[cfg(target_os = "linux")]
fn confine() -> io::Result<()> {
    airlock_sandbox::confine(airlock_sandbox::seccomp::Profile::Strict)
}

#[cfg(not(target_os = "linux"))]
fn confine() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
