//! Servers that others wrote and tests run, from npm: the reference server of MCP as a plugin, and one
//! of OpenAI's chat completions for the agent to ask.
//!
//! Each comes in the version and with the digests that its `package-lock.json` has, into the target
//! directory, where the tests look for it. None of its install scripts run. With it in place nothing
//! is called and no network is needed.

use crate::shell::{Failure, command, environment, root, run as run_command, say};
use std::path::{Path, PathBuf};

/// A package that is wanted as it is written down here.
pub(crate) struct Stock {
    /// What it is called there, and where its tests name it.
    pub(crate) name: &'static str,
    pub(crate) why: &'static str,
    /// Where what is wanted is written down.
    wanted: &'static str,
    /// Where it goes below the target directory.
    place: &'static str,
}

pub(crate) const MCP: Stock = Stock {
    name: "@modelcontextprotocol/server-everything",
    why: "a stock MCP server as a plugin, in tests",
    wanted: "tests/mcp/stock",
    place: "mcp-stock",
};

/// It needs no model, no key and no network.
pub(crate) const OPENAI: Stock = Stock {
    name: "@copilotkit/aimock",
    why: "a stock server of chat completions, in tests",
    wanted: "tests/openai/stock",
    place: "openai-stock",
};

pub(crate) const ALL: [Stock; 2] = [MCP, OPENAI];

const FILES: [&str; 2] = ["package.json", "package-lock.json"];
/// Says that installing came to its end.
const DONE: &str = "installed";

impl Stock {
    /// Where it is installed.
    pub(crate) fn directory(&self) -> PathBuf {
        let target = environment("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        root().join(target).join(self.place)
    }

    /// Whether it is installed as it is wanted.
    pub(crate) fn is_there(&self) -> bool {
        self.is_in(&self.directory())
    }

    /// Installed is what was installed by these very files, and is whole: the last of them is written
    /// after everything else.
    fn is_in(&self, directory: &Path) -> bool {
        let wanted = root().join(self.wanted);
        let read = |place: &Path, name: &str| std::fs::read(place.join(name)).ok();
        FILES.iter().all(|name| {
            let ours = read(&wanted, name);
            ours.is_some() && ours == read(directory, name)
        }) && directory.join("node_modules").join(self.name).is_dir()
            && directory.join(DONE).is_file()
    }

    /// Installs it where it is not.
    pub(crate) fn set_up(&self) -> Result<(), Failure> {
        if self.is_there() {
            return Ok(());
        }
        say(&format!("setup: installing {} from npm", self.name));
        let directory = self.directory();
        copy(&root().join(self.wanted), &directory)?;
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
        for stock in ALL {
            let place = format!("xtask-{}-{}", stock.place, std::process::id());
            let place = std::env::temp_dir().join(place);
            assert!(!stock.is_in(&place));
            copy(&root().join(stock.wanted), &place).unwrap();
            assert!(!stock.is_in(&place), "nothing is there yet");
            std::fs::create_dir_all(place.join("node_modules").join(stock.name)).unwrap();
            assert!(!stock.is_in(&place), "cut short");
            std::fs::write(place.join(DONE), "").unwrap();
            assert!(stock.is_in(&place));
            std::fs::write(place.join("package-lock.json"), "{}").unwrap();
            assert!(!stock.is_in(&place), "another version");
            std::fs::remove_dir_all(place).unwrap();
        }
    }

    #[test]
    fn every_package_of_it_has_a_digest() {
        for stock in ALL {
            let lock = root().join(stock.wanted).join("package-lock.json");
            let lock = std::fs::read_to_string(lock).unwrap();
            let count = |word: &str| lock.matches(word).count();
            let packages = count("\"node_modules/");
            let digests = count("\"integrity\": \"sha512-");
            assert!(packages > 0 && packages == digests, "{}", stock.name);
        }
    }
}
