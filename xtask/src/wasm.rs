//! `wasm`: the Rust example of a Wasm plugin, from its own tests to a call of the module built of it.
//!
//! Needs a toolchain with the target `wasm32-unknown-unknown`: cargo's own if it has it, else Debian's,
//! which builds the standard library along.

use crate::shell::{Failure, cargo, command, output, run as run_command, say, target_directory};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
const EXAMPLE: &str = "examples/plugins/rust-wasm/Cargo.toml";
/// Debian's programs, which lie beside those of rustup.
const DEBIAN: (&str, &str) = ("/usr/bin/cargo", "/usr/bin/rustc");

/// Calls of the built module: tool, arguments, answer.
const CALLS: &[(&str, &str, &str)] = &[
    (
        "count",
        r#"{"text":"one two\nthree"}"#,
        r#"{"characters":13,"lines":2,"words":3}"#,
    ),
    ("slug", r#"{"text":"Hello, World!"}"#, r#""hello-world""#),
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::usage(format!("`wasm` takes no `{argument}`")));
    }
    let place = target_directory().join("wasm-example");
    run_command(cargo(&["test", "--manifest-path", EXAMPLE, "--target-dir"]).arg(&place))?;
    run_command(&mut build(&place)?)?;
    let module = place.join(TARGET).join("release/text_tools.wasm");
    for (tool, given, wanted) in CALLS {
        let called = output(
            cargo(&[
                "run",
                "--quiet",
                "-p",
                "airlock-wasm-worker",
                "--example",
                "call",
                "--",
            ])
            .arg(&module)
            .args([tool, given]),
        )?;
        if called.trim() != *wanted {
            let answer = called.trim();
            return Err(Failure::new(format!(
                "`{tool}` answers {answer}, not {wanted}"
            )));
        }
    }
    say(&format!(
        "{}: built, and every call answered",
        module.display()
    ));
    Ok(())
}

fn build(place: &Path) -> Result<Command, Failure> {
    let arguments = [
        "build",
        "--release",
        "--manifest-path",
        EXAMPLE,
        "--target",
        TARGET,
    ];
    let mut build = if has_target()? {
        cargo(&arguments)
    } else {
        debian(&arguments)?
    };
    build.arg("--target-dir").arg(place);
    Ok(build)
}

/// Whether cargo's own toolchain has the target's library.
fn has_target() -> Result<bool, Failure> {
    let library = output(command("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    Ok(Path::new(library.trim()).is_dir())
}

fn debian(arguments: &[&str]) -> Result<Command, Failure> {
    let (cargo, rustc) = DEBIAN;
    if !Path::new(rustc).exists() {
        let what = format!("no toolchain here has the target `{TARGET}`");
        let hint = "apt-get install rustc-web cargo-web rust-web-src lld, or \
                    rustup target add wasm32-unknown-unknown";
        return Err(Failure::new(what).hint(hint));
    }
    let mut build = command(cargo);
    build
        .args(arguments)
        .arg("-Zbuild-std=std,panic_abort")
        .env("RUSTC", rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld");
    // Those of the toolchain that runs this program would be taken for Debian's.
    for own in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC_WRAPPER"] {
        build.env_remove(own);
    }
    Ok(build)
}
