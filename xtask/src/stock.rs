//! A stock MCP server, which tests run as a plugin: the protocol's reference server from npm.
//!
//! It comes in the version and with the digests that `tests/mcp/stock/package-lock.json` has, into
//! the target directory, where the tests look for it. None of its install scripts run. With it in
//! place nothing is called and no network is needed.

use crate::shell::{Failure, command, environment, root, run as run_command, say};
use std::path::{Path, PathBuf};

/// Where what is wanted is written down.
const WANTED: &str = "tests/mcp/stock";
const FILES: [&str; 2] = ["package.json", "package-lock.json"];
/// What it is called there, and in the manifest among the examples.
pub(crate) const NAME: &str = "@modelcontextprotocol/server-everything";
pub(crate) const WHY: &str = "a stock MCP server as a plugin, in tests";

/// Where it is installed.
pub(crate) fn directory() -> PathBuf {
    let target = environment("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target).join("mcp-stock")
}

/// Whether it is installed as it is wanted.
pub(crate) fn is_there() -> bool {
    is_in(&directory(), &root().join(WANTED))
}

/// Installed is what was installed by these very files, and is whole: the last of them is written
/// after everything else.
fn is_in(directory: &Path, wanted: &Path) -> bool {
    let read = |place: &Path, name: &str| std::fs::read(place.join(name)).ok();
    FILES.iter().all(|name| {
        let ours = read(wanted, name);
        ours.is_some() && ours == read(directory, name)
    }) && directory.join("node_modules").join(NAME).is_dir()
        && directory.join(DONE).is_file()
}

/// Says that installing came to its end.
const DONE: &str = "installed";

/// Installs it where it is not.
pub(crate) fn set_up() -> Result<(), Failure> {
    if is_there() {
        return Ok(());
    }
    say(&format!("setup: installing {NAME} from npm"));
    let directory = directory();
    copy(&root().join(WANTED), &directory)?;
    let mut npm = command("npm");
    // No link of a plugin is followed, so none is made.
    npm.args([
        "ci",
        "--ignore-scripts",
        "--no-bin-links",
        "--no-audit",
        "--no-fund",
        "--prefix",
    ]);
    npm.arg(&directory);
    run_command(&mut npm).map_err(|failure| {
        failure.hint(
            "`npm` comes with `apt-get install nodejs npm` and needs its registry once; then \
             `cargo xtask setup`",
        )
    })?;
    std::fs::write(directory.join(DONE), "").map_err(|error| unwritable(&directory, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let copied = std::fs::create_dir_all(to).and_then(|()| {
        // Until it is installed anew it is not installed.
        if to.join(DONE).exists() {
            std::fs::remove_file(to.join(DONE))?;
        }
        for name in FILES {
            std::fs::copy(from.join(name), to.join(name))?;
        }
        Ok(())
    });
    copied.map_err(|error| unwritable(to, &error))
}

fn unwritable(place: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write to `{}`: {error}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_these_files_installed_whole_is_installed() {
        let place = std::env::temp_dir().join(format!("xtask-stock-{}", std::process::id()));
        let wanted = root().join(WANTED);
        assert!(!is_in(&place, &wanted));
        copy(&wanted, &place).unwrap();
        assert!(!is_in(&place, &wanted), "nothing is there yet");
        std::fs::create_dir_all(place.join("node_modules").join(NAME)).unwrap();
        assert!(!is_in(&place, &wanted), "cut short");
        std::fs::write(place.join(DONE), "").unwrap();
        assert!(is_in(&place, &wanted));
        std::fs::write(place.join("package-lock.json"), "{}").unwrap();
        assert!(!is_in(&place, &wanted), "another version");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn every_package_of_it_has_a_digest() {
        let lock = std::fs::read_to_string(root().join(WANTED).join("package-lock.json")).unwrap();
        let count = |word: &str| lock.matches(word).count();
        let packages = count("\"node_modules/");
        assert!(packages > 1 && packages == count("\"integrity\": \"sha512-"));
    }
}
