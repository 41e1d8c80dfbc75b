//! The tools that read what the compiler's instrumentation leaves: with them, tests that measure
//! Rust projects measure one for real.
//!
//! With them in place nothing is called and no network is needed. A toolchain that did not come from
//! rustup gets none; the tests then hold what Airlock says of that.

use crate::shell::{Failure, command, output, run as run_command, say};
use std::path::Path;

pub(crate) const NAME: &str = "llvm-tools";
pub(crate) const WHY: &str = "coverage of Rust projects, in tests";

/// Whether the toolchain in use has them.
pub(crate) fn is_there() -> bool {
    let sysroot = output(command("rustc").args(["--print", "sysroot"]));
    sysroot.is_ok_and(|sysroot| is_in(Path::new(sysroot.trim())))
}

fn is_in(sysroot: &Path) -> bool {
    let targets = std::fs::read_dir(sysroot.join("lib/rustlib"));
    let mut targets = targets.into_iter().flatten().flatten();
    targets.any(|target| {
        let bin = target.path().join("bin");
        let tools = ["llvm-cov", "llvm-profdata"];
        tools.iter().all(|tool| bin.join(tool).is_file())
    })
}

/// Installs them where they are not.
pub(crate) fn set_up() -> Result<(), Failure> {
    if is_there() {
        return Ok(());
    }
    say(&format!("setup: installing {NAME} with rustup"));
    let mut rustup = command("rustup");
    rustup.args(["component", "add", NAME]);
    run_command(&mut rustup)
        .map_err(|failure| failure.hint("`rustup component add llvm-tools` needs the network once"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tools_of_one_target_have_to_be_there() {
        let place = std::env::temp_dir().join(format!("xtask-llvm-{}", std::process::id()));
        let bin = place.join("lib/rustlib/some-target/bin");
        assert!(!is_in(&place));
        std::fs::create_dir_all(&bin).unwrap();
        for (tool, whole) in [("llvm-cov", false), ("llvm-profdata", true)] {
            std::fs::write(bin.join(tool), "").unwrap();
            assert_eq!(is_in(&place), whole, "{tool}");
        }
        std::fs::remove_dir_all(place).unwrap();
    }
}
