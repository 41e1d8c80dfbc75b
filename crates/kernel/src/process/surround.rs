//! What the machine gives a sandbox, and what it must keep clear of.
//!
//! The only place of the kernel that looks at the machine for the process tier. Which variables
//! and directories are the person's is told by whoever opens the kernel, never looked up.

use super::failure::{CheckId, ProcessFailure};
use super::unwritable::is_repository;
use crate::workspace::Workspace;
use airlock_core::limits::PATH_BYTES;
use airlock_sandbox::plan::OwnVariable;
use airlock_sandbox::presets::Facts;
use airlock_sandbox::{HostPath, Outfit, PlanBuilder, Reach, Remembered, Surroundings};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What the process tier must know of the machine and the person.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The person's home directory.
    pub home: PathBuf,
    /// Airlock's own directories: state, configuration.
    pub own: Vec<PathBuf>,
    /// The person's environment. Nothing of it is passed on that a plan does not name.
    pub environment: BTreeMap<OsString, OsString>,
}

/// Variables of the person's that say how to talk to them, and nothing else.
const USUAL: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
];
/// Those that say so of their terminal.
const TERMINAL: &[&str] = &["TERM", "COLORTERM", "NO_COLOR"];

/// Where a workspace is, and where its state.
pub(super) struct Ground {
    pub(super) root: PathBuf,
    pub(super) state: PathBuf,
}

impl Ground {
    pub(super) fn of(workspace: &Workspace) -> Self {
        Self {
            root: PathBuf::from(workspace.root().path()),
            state: workspace.state().path().to_owned(),
        }
    }
}

/// Whether the machine is looked at before something is planned on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is.
    First,
    /// What was found the last time is presumed. Whoever plans on it has it confirmed
    /// ([`Around::holds`]) before anything is run.
    Later,
}

/// What is around one sandbox.
pub(super) struct Around {
    told: Told,
    place: Place,
    outfit: Remembered,
}

/// What it was looked up for.
#[derive(PartialEq)]
struct Told {
    home: PathBuf,
    own: Vec<PathBuf>,
    root: PathBuf,
    state: PathBuf,
}

impl Told {
    fn of(machine: &Machine, ground: &Ground) -> Self {
        Self {
            home: machine.home.clone(),
            own: machine.own.clone(),
            root: ground.root.clone(),
            state: ground.state.clone(),
        }
    }
}

/// What of it is told, and what is looked up anew each time.
#[derive(PartialEq)]
struct Place {
    surroundings: Surroundings,
    home: HostPath,
    root: HostPath,
    repository: bool,
}

impl Place {
    fn of(machine: &Machine, ground: &Ground) -> Result<Self, ProcessFailure> {
        let root = ground.root.as_path();
        let named = |path: &Path| {
            HostPath::new(path).map_err(|error| ProcessFailure::Sandbox(error.to_string()))
        };
        let home = named(&machine.home)?;
        let mut own = Vec::new();
        let mine = machine.own.iter().map(PathBuf::as_path);
        for path in mine.chain([ground.state.as_path()]) {
            own.push(named(path)?);
            // Denials are judged by where a file really is.
            if let Ok(real) = path.canonicalize() {
                own.push(named(&real)?);
            }
        }
        Ok(Self {
            surroundings: Surroundings {
                own,
                home: Some(home.clone()),
            },
            home,
            root: named(root)?,
            repository: is_repository(root),
        })
    }

    fn facts<'a>(&'a self, machine: &'a Machine) -> Facts<'a> {
        Facts {
            surroundings: &self.surroundings,
            environment: &machine.environment,
            workspace: &self.root,
            network: Reach::None,
        }
    }
}

/// Equal if every sandbox would be given the same.
impl PartialEq for Around {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place && self.outfit.outfit() == other.outfit.outfit()
    }
}

impl Around {
    /// Looks at the machine.
    pub(super) fn look(machine: &Machine, ground: &Ground) -> Result<Self, ProcessFailure> {
        let place = Place::of(machine, ground)?;
        let record = ground.state.join("outfit.json");
        let outfit = Outfit::remembered(&record, &place.facts(machine), &place.home);
        let told = Told::of(machine, ground);
        Ok(Self {
            told,
            place,
            outfit,
        })
    }

    /// Whether it was looked up for the same person and workspace. What became of the machine since
    /// is not looked at.
    pub(super) fn is_for(&self, machine: &Machine, ground: &Ground) -> bool {
        self.told == Told::of(machine, ground) && self.outfit.fits(&machine.environment)
    }

    /// Whether looking now would find the same.
    pub(super) fn holds(&self, machine: &Machine, ground: &Ground) -> bool {
        let place = Place::of(machine, ground).ok();
        place.is_some_and(|place| {
            place == self.place && self.outfit.holds(&place.facts(machine), &place.home)
        })
    }

    pub(super) fn outfit(&self) -> &Outfit {
        self.outfit.outfit()
    }

    pub(super) const fn surroundings(&self) -> &Surroundings {
        &self.place.surroundings
    }

    /// Whether the workspace is a repository, whose hooks and settings git obeys.
    pub(super) const fn is_repository(&self) -> bool {
        self.place.repository
    }

    /// Gives a plan the toolchains, the usual variables and the directories every program has.
    pub(super) fn apply(&self, builder: PlanBuilder) -> PlanBuilder {
        let builder = self
            .outfit()
            .apply(builder)
            .own(OwnVariable::Home, self.place.home.as_os_str())
            .own(OwnVariable::TemporaryDirectory, "/tmp");
        USUAL
            .iter()
            .chain(TERMINAL)
            .fold(builder, PlanBuilder::inherit)
    }
}

/// Where a granted path really is: a grant is for the file, whatever links lead to it, and it is
/// judged there. What cannot be told is not granted by the name it was asked for: that may lead
/// anywhere.
pub(super) fn real(path: &str) -> Result<String, ProcessFailure> {
    let refused = |why: &str| ProcessFailure::Check {
        id: CheckId::Paths,
        what: format!("`{path}` cannot be granted: {why}"),
        fix: "name an existing file or directory".to_owned(),
    };
    let real = Path::new(path).canonicalize();
    let real = real.map_err(|error| refused(&error.to_string()))?;
    let real = real.into_os_string().into_string();
    let real = real.map_err(|_| refused("it leads to a path that is not UTF-8"))?;
    if real.len() > PATH_BYTES {
        return Err(refused("it leads to a path that is too long"));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_grant_is_for_what_its_links_lead_to_or_for_nothing() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let bytes = OsStr::from_bytes(b"no text\xff");
        for directory in [OsStr::new("here"), bytes] {
            fs::create_dir(place.join(directory)).unwrap();
        }
        let here = place.join("here");
        for (name, target) in [
            ("to", here.as_path()),
            ("odd", Path::new(bytes)),
            ("nowhere", Path::new("missing")),
            ("circle", Path::new("circle")),
        ] {
            symlink(target, place.join(name)).unwrap();
        }
        for (name, leads) in [
            ("here", true),
            ("to", true),
            ("odd", false),
            ("nowhere", false),
            ("circle", false),
            ("missing", false),
        ] {
            let asked = place.join(name);
            let found = real(asked.to_str().unwrap());
            match found {
                Ok(found) => assert!(leads && Path::new(&found) == here, "{name}: {found}"),
                Err(error) => {
                    assert!(!leads && error.code() == "check_failed", "{name}: {error}");
                    assert!(
                        error.to_string().contains(asked.to_str().unwrap()),
                        "{error}"
                    );
                }
            }
        }
    }
}
