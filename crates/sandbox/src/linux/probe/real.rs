//! This machine.

use super::engine;
use super::kernel;
use super::machine::{
    Ability, Bubble, Cgroups, Engine, Machine, StateDirectory, Terminal, Toolchain, Trial, Who,
};
use super::place::Ground;
use super::trial::{self, Helper};
use super::{Feature, bubble};
use crate::linux::hold::new_id;
use crate::linux::limits::Group;
use crate::plan::{HostPath, Surroundings};
use crate::presets::{self, Facts};
use crate::template::{Reach, Template};
use rustix::fs::XattrFlags;
use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a probe of this machine needs.
#[derive(Debug, Clone, Copy)]
pub struct ProbeOptions<'a> {
    /// An existing directory of Airlock's own, where stages would lie. Left as it was.
    pub scratch: &'a Path,
    /// Where live sandboxes are noted, for the collector.
    pub registry: &'a Path,
    /// Airlock's state directory.
    pub state: &'a Path,
    /// The program that calls [`super::act`] with the variable [`super::TASK`]: this one.
    pub program: &'a Path,
    /// The arguments with which it does.
    pub arguments: &'a [OsString],
    /// The workspace, which no toolchain is taken from.
    pub workspace: &'a Path,
    /// The person's environment: where their tools are.
    pub environment: &'a BTreeMap<OsString, OsString>,
}

/// This machine.
#[derive(Debug)]
pub struct Real<'a> {
    options: &'a ProbeOptions<'a>,
}

/// The most that is read of a file to explain with.
const TEXT: u64 = 1 << 20;

impl<'a> Real<'a> {
    /// The machine as `options` show it.
    pub const fn new(options: &'a ProbeOptions<'a>) -> Self {
        Self { options }
    }

    const fn ground(&self) -> Ground<'_> {
        Ground {
            scratch: self.options.scratch,
            registry: self.options.registry,
        }
    }

    const fn helper(&self) -> Helper<'_> {
        Helper {
            program: self.options.program,
            arguments: self.options.arguments,
        }
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        let value = self.options.environment.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }

    fn directory(&self, name: &str) -> Option<&Path> {
        let path = self.variable(name).map(Path::new);
        path.filter(|path| path.is_absolute())
    }
}

impl Machine for Real<'_> {
    fn who(&self) -> Who {
        Who {
            user: geteuid().as_raw(),
            release: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            program: self.options.program.display().to_string(),
        }
    }

    fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let file = fs::File::open(path).ok()?;
        file.take(TEXT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn ability(&self, ability: Ability) -> Result<String, String> {
        kernel::use_ability(ability, self.options.scratch)
    }

    fn native(&self) -> Result<Trial, String> {
        trial::native(self.ground(), self.helper())
    }

    fn cgroups(&self) -> Cgroups {
        let Some(template) = Template::find("code-executor") else {
            return Cgroups::default();
        };
        let (group, held, mut why_not) = Group::create(&new_id(), &template.limits);
        if let Some(Err(error)) = group.map(|group| group.remove()) {
            why_not.push(format!("it cannot be removed again: {error}"));
        }
        Cgroups {
            held: held.into_keys().collect(),
            why_not,
        }
    }

    fn bwrap(&self) -> Option<Bubble> {
        bubble::tried(self.ground(), self.helper())
    }

    fn engines(&self) -> Vec<Engine> {
        engine::engines(self.directory("HOME"), self.directory("XDG_RUNTIME_DIR"))
    }

    fn toolchains(&self) -> Vec<Toolchain> {
        let Ok(workspace) = HostPath::new(self.options.workspace) else {
            return Vec::new();
        };
        let own = |path: &Path| HostPath::new(path).ok();
        let surroundings = Surroundings {
            own: own(self.options.state).into_iter().collect(),
            home: self.directory("HOME").and_then(own),
        };
        let found = presets::detect(&Facts {
            surroundings: &surroundings,
            environment: self.options.environment,
            workspace: &workspace,
            network: Reach::None,
        });
        let shown = |preset: presets::Preset| {
            let place = |found: &presets::Found| {
                format!("{} {}", found.what, found.path.as_path().display())
            };
            Some(Toolchain {
                feature: feature(preset.name)?,
                found: preset.found.iter().map(place).collect(),
                notes: preset.notes,
            })
        };
        found.into_iter().filter_map(shown).collect()
    }

    fn state(&self) -> Result<StateDirectory, String> {
        let path = self.options.state;
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        let space = rustix::fs::statvfs(path).map_err(|error| error.to_string())?;
        Ok(StateDirectory {
            path: path.display().to_string(),
            mode: metadata.mode() & 0o7777,
            owner: metadata.uid(),
            free: space.f_bavail.saturating_mul(space.f_frsize),
            attributes: takes_attributes(self.options.scratch),
        })
    }

    fn terminal(&self) -> Terminal {
        let name = self.variable("TERM");
        Terminal {
            input: std::io::stdin().is_terminal(),
            output: std::io::stdout().is_terminal(),
            name: name.map(|name| name.to_string_lossy().into_owned()),
        }
    }
}

fn feature(preset: &str) -> Option<Feature> {
    Some(match preset {
        "rust" => Feature::Rust,
        "node" => Feature::Node,
        "python" => Feature::Python,
        "go" => Feature::Go,
        "java" => Feature::Java,
        _ => return None,
    })
}

/// Whether files take the attributes an overlay marks them with.
fn takes_attributes(scratch: &Path) -> bool {
    let path = scratch.join(format!("attributes-{}", std::process::id()));
    let taken = fs::File::create_new(&path).and_then(|file| {
        let set = rustix::fs::fsetxattr(&file, c"user.airlock", b"1", XattrFlags::empty());
        Ok(set?)
    });
    let _removed = fs::remove_file(path);
    taken.is_ok()
}
