//! Where the command stands: directories from the environment, the workspace it works on.
//!
//! The only module that reads the environment, so that the libraries below never do.

use crate::failure::{Failure, Kind};
use airlock_kernel::{CONFIG_FILE, Machine};
use airlock_sandbox::launch::KERNEL_SOCKET;
use airlock_service::Person;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The directories a command works with.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) workspace: PathBuf,
    pub(crate) state_home: PathBuf,
    pub(crate) config_home: PathBuf,
}

/// A variable, if it is set and not empty.
#[expect(
    clippy::disallowed_methods,
    reason = "the one reader of the environment"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Where the kernel is asked from inside the sandbox this process is in; none outside of one.
///
/// The environment does not choose whom a command obeys: the one place that counts is where sandboxes
/// have their socket, which nobody inside can replace and only root can make outside.
pub(crate) fn kernel_socket() -> Option<PathBuf> {
    named_socket().filter(|path| is_of_sandbox(path))
}

/// A socket that the environment names and that is not used, because no sandbox has its own there.
pub(crate) fn unused_socket() -> Option<PathBuf> {
    named_socket().filter(|path| !is_of_sandbox(path))
}

fn named_socket() -> Option<PathBuf> {
    variable("AIRLOCK_SOCKET").map(PathBuf::from)
}

fn is_of_sandbox(path: &Path) -> bool {
    path == Path::new(KERNEL_SOCKET)
}

/// The whole environment, for programs that are allowed some of it.
pub(crate) fn environment() -> BTreeMap<OsString, OsString> {
    std::env::vars_os().collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command line knows where it stands"
)]
pub(crate) fn current_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        Failure::new(Kind::Failed, "cannot tell the current directory")
            .why(format!("{error}; it may have been deleted"))
            .fix("change to an existing directory, or pass --workspace DIR")
    })
}

impl Place {
    /// From the environment and `--workspace`.
    pub(crate) fn find(workspace: Option<&Path>) -> Result<Self, Failure> {
        let workspace = match workspace {
            Some(path) => existing(path)?,
            None => enclosing(&current_directory()?),
        };
        Ok(Self {
            workspace,
            state_home: home("XDG_STATE_HOME", ".local/state")?,
            config_home: home("XDG_CONFIG_HOME", ".config")?,
        })
    }

    /// What the process tier must know.
    pub(crate) fn machine(&self) -> Machine {
        Machine {
            own: self.own(),
            ..Self::machine_here()
        }
    }

    /// The person's home and environment, with nothing of Airlock's own.
    pub(crate) fn machine_here() -> Machine {
        let home = variable("HOME").map(PathBuf::from);
        Machine {
            // A home has to have a name inside, also for those who have none.
            home: home
                .filter(|home| home.is_absolute())
                .unwrap_or_else(|| PathBuf::from("/home/user")),
            own: Vec::new(),
            environment: environment(),
        }
    }

    /// The person's home and environment, for a kernel in another process; none where they are not
    /// text.
    pub(crate) fn person(&self) -> Option<Person> {
        let machine = self.machine();
        let text = |word: OsString| word.into_string().ok();
        let pair = |(name, value)| Some((text(name)?, text(value)?));
        let environment: Option<BTreeMap<String, String>> =
            machine.environment.into_iter().map(pair).collect();
        Some(Person {
            home: machine.home,
            environment: environment?,
        })
    }

    /// Airlock's own directories.
    pub(crate) fn own(&self) -> Vec<PathBuf> {
        vec![
            self.state_home.join("airlock"),
            self.config_home.join("airlock"),
        ]
    }

    /// Whether the workspace brings settings, or something in their place.
    pub(crate) fn has_settings(&self) -> bool {
        let file = self.workspace.join(CONFIG_FILE);
        let found = std::fs::symlink_metadata(file);
        !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The user's own configuration file.
    pub(crate) fn user_config(&self) -> PathBuf {
        self.config_home.join("airlock/config.yaml")
    }
}

/// The directory the person named. A workspace they mistyped must not pass for an empty one.
fn existing(path: &Path) -> Result<PathBuf, Failure> {
    let why = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(path.to_owned()),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    let what = format!("cannot open workspace `{}`", path.display());
    Err(Failure::new(Kind::Usage, what)
        .why(why)
        .fix("name an existing directory with --workspace DIR"))
}

/// The nearest directory upwards that has a policy or is a repository; else the directory itself.
fn enclosing(start: &Path) -> PathBuf {
    let marked =
        |directory: &&Path| directory.join(".airlock").is_dir() || directory.join(".git").exists();
    start.ancestors().find(marked).unwrap_or(start).to_owned()
}

/// An XDG base directory; a relative value is ignored, as the XDG rules ask.
fn home(name: &str, fallback: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = variable(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
    {
        return Ok(path);
    }
    match variable("HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
    {
        Some(home) => Ok(home.join(fallback)),
        None => Err(Failure::new(
            Kind::Failed,
            "cannot tell where to keep state and configuration",
        )
        .why("neither HOME nor XDG_STATE_HOME and XDG_CONFIG_HOME is set to an absolute path")
        .fix("set HOME, or both XDG_STATE_HOME and XDG_CONFIG_HOME")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_marked_directory_is_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(dir.path().join("a/.airlock")).unwrap();
        assert_eq!(enclosing(&deep), dir.path().join("a"));
    }
}
