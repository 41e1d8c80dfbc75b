//! What this machine gives every sandbox of a person: the system's directories and the toolchains,
//! looked up, or remembered from the last time if nothing that was looked at has changed since.
//!
//! Guarantee: an outfit that is remembered is the one that would be found, as far as [`looked`] can
//! tell. The record counts only for the same program, person, home, workspace and variables, and only
//! if nobody else can have written it: it belongs into a directory that nobody else can enter.

use crate::base;
use crate::generate::{Mask, SystemEntry};
use crate::kept;
use crate::launch::Base;
use crate::looked::{self, Evidence};
use crate::plan::{HostPath, OwnVariable, PlanBuilder};
use crate::presets::{self, Content, Facts, HomeEntry};
use crate::template::Reach;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What a machine gives every sandbox of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Outfit {
    base: Base,
    home: Vec<HomeEntry>,
    reads: Vec<HostPath>,
    environment: Vec<(OsString, OsString)>,
    search: OsString,
}

impl Outfit {
    /// Looks at the machine. `home` is the home inside.
    pub fn look(facts: &Facts<'_>, home: &HostPath) -> Self {
        let found = presets::detect(facts);
        let each = || found.iter();
        Self {
            base: base::detect(Path::new("/"), home),
            home: presets::home_entries(&found, home),
            reads: each().flat_map(|preset| preset.reads.clone()).collect(),
            environment: each()
                .flat_map(|preset| preset.environment.clone())
                .collect(),
            search: presets::search_path(&found),
        }
    }

    /// The same, from the record in `file` if that still holds; else it is written anew.
    pub fn remembered(file: &Path, facts: &Facts<'_>, home: &HostPath) -> Remembered {
        let remembered = Asked::of(facts, home).and_then(|asked| recall(file, &asked, facts));
        remembered.unwrap_or_else(|| Self::look_and_keep(file, facts, home))
    }

    fn look_and_keep(file: &Path, facts: &Facts<'_>, home: &HostPath) -> Remembered {
        let begun = SystemTime::now();
        let (outfit, evidence) = looked::watching(|| {
            // Another program has other tables.
            looked::whole(Path::new(PROGRAM));
            Self::look(facts, home)
        });
        let evidence = evidence.filter(|evidence| evidence.is_settled(begun));
        let mut known = None;
        if let Some(((evidence, asked), things)) = evidence
            .zip(Asked::of(facts, home))
            .zip(Things::of(&outfit))
        {
            let record = Record {
                asked,
                evidence,
                things,
            };
            // One that cannot be kept is looked up again.
            let _kept = serde_json::to_vec(&record)
                .map_err(Into::into)
                .and_then(|bytes| kept::write(file, &bytes));
            known = Some(Known {
                asked: record.asked,
                evidence: record.evidence,
            });
        }
        Remembered {
            outfit: Arc::new(outfit),
            known,
        }
    }

    /// What every sandbox sees of the system.
    pub const fn base(&self) -> &Base {
        &self.base
    }

    /// What the home inside begins with.
    pub fn home(&self) -> &[HomeEntry] {
        &self.home
    }

    /// Adds what the toolchains need to a plan: reads, variables and `PATH`.
    pub fn apply(&self, builder: PlanBuilder) -> PlanBuilder {
        let reads = self.reads.iter();
        let builder = reads.fold(builder, |builder, path| builder.read(path.as_os_str()));
        let builder = self
            .environment
            .iter()
            .fold(builder, |builder, (name, value)| builder.set(name, value));
        builder.own(OwnVariable::Path, &self.search)
    }
}

/// The program that runs, whatever its name.
const PROGRAM: &str = "/proc/self/exe";

/// Whom and what an outfit was looked up for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    user: u32,
    home: String,
    workspace: String,
    own: Vec<String>,
    persons_home: Option<String>,
    offline: bool,
}

impl Asked {
    fn of(facts: &Facts<'_>, home: &HostPath) -> Option<Self> {
        let text = |path: &HostPath| path.as_os_str().to_str().map(str::to_owned);
        let persons_home = facts.surroundings.home.as_ref();
        Some(Self {
            user: rustix::process::geteuid().as_raw(),
            home: text(home)?,
            workspace: text(facts.workspace)?,
            own: facts
                .surroundings
                .own
                .iter()
                .map(text)
                .collect::<Option<_>>()?,
            persons_home: match persons_home {
                Some(path) => Some(text(path)?),
                None => None,
            },
            offline: facts.network == Reach::None,
        })
    }
}

/// Whom an outfit is for, and what it follows from.
#[derive(Debug)]
struct Known {
    asked: Asked,
    evidence: Evidence,
}

impl Known {
    /// Whether the same would be found for `asked` now.
    fn holds(&self, asked: &Asked, facts: &Facts<'_>) -> bool {
        let variable = |name: &str| {
            let value = facts.environment.get(OsStr::new(name));
            value.map(OsString::as_os_str)
        };
        self.asked == *asked && self.evidence.holds(variable)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    asked: Asked,
    evidence: Evidence,
    things: Things,
}

fn recall(file: &Path, asked: &Asked, facts: &Facts<'_>) -> Option<Remembered> {
    let bytes = kept::read(file, asked.user)?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    let known = Known {
        asked: record.asked,
        evidence: record.evidence,
    };
    if !known.holds(asked, facts) {
        return None;
    }
    Some(Remembered {
        outfit: Arc::new(record.things.outfit()?),
        known: Some(known),
    })
}

/// An outfit, and how to tell whether it is still the one that would be found.
#[derive(Debug)]
pub struct Remembered {
    outfit: Arc<Outfit>,
    /// None of one that may be another the next moment.
    known: Option<Known>,
}

impl Remembered {
    /// The outfit.
    pub const fn outfit(&self) -> &Arc<Outfit> {
        &self.outfit
    }

    /// Whether it was looked up with the same variables, of those that matter. The machine itself is
    /// not looked at: only [`Remembered::holds`] says that the same would be found.
    pub fn fits(&self, environment: &BTreeMap<OsString, OsString>) -> bool {
        let variable = |name: &str| {
            let value = environment.get(OsStr::new(name));
            value.map(OsString::as_os_str)
        };
        let known = self.known.as_ref();
        known.is_some_and(|known| known.evidence.fits(variable))
    }

    /// Whether looking for `facts` now would find the same.
    pub fn holds(&self, facts: &Facts<'_>, home: &HostPath) -> bool {
        let known = self.known.as_ref().zip(Asked::of(facts, home));
        known.is_some_and(|(known, asked)| known.holds(&asked, facts))
    }
}

/// An outfit as text.
#[derive(Debug, Serialize, Deserialize)]
struct Things {
    /// Places, and what those that are links say.
    system: Vec<(String, Option<String>)>,
    /// Places, and whether they are directories.
    masks: Vec<(String, bool)>,
    home: String,
    /// Places at home, and whether the text is where a link leads.
    at_home: Vec<(String, bool, String)>,
    reads: Vec<String>,
    environment: Vec<(String, String)>,
    search: String,
}

impl Things {
    fn of(outfit: &Outfit) -> Option<Self> {
        let text = |text: &OsStr| text.to_str().map(str::to_owned);
        let path = |path: &HostPath| text(path.as_os_str());
        let system = outfit.base.system.iter().map(|entry| match entry {
            SystemEntry::Existing(place) => Some((path(place)?, None)),
            SystemEntry::Link {
                path: place,
                target,
            } => Some((path(place)?, Some(text(target)?))),
        });
        let masks = outfit.base.masks.iter().map(|mask| match mask {
            Mask::Directory(place) => Some((path(place)?, true)),
            Mask::File(place) => Some((path(place)?, false)),
        });
        let at_home = outfit.home.iter().map(|entry| {
            let (is_link, content) = match &entry.content {
                Content::Link(target) => (true, path(target)?),
                Content::File(content) => (false, content.clone()),
            };
            Some((text(entry.at.as_os_str())?, is_link, content))
        });
        let environment = outfit.environment.iter();
        let environment = environment.map(|(name, value)| Some((text(name)?, text(value)?)));
        Some(Self {
            system: system.collect::<Option<_>>()?,
            masks: masks.collect::<Option<_>>()?,
            home: path(&outfit.base.home)?,
            at_home: at_home.collect::<Option<_>>()?,
            reads: outfit.reads.iter().map(path).collect::<Option<_>>()?,
            environment: environment.collect::<Option<_>>()?,
            search: text(&outfit.search)?,
        })
    }

    fn outfit(self) -> Option<Outfit> {
        let path = |text: &str| HostPath::new(text).ok();
        let system = self.system.into_iter().map(|(place, target)| {
            let path = path(&place)?;
            Some(match target {
                Some(target) => SystemEntry::Link {
                    path,
                    target: target.into(),
                },
                None => SystemEntry::Existing(path),
            })
        });
        let masks = self.masks.into_iter().map(|(place, is_directory)| {
            let place = path(&place)?;
            Some(if is_directory {
                Mask::Directory(place)
            } else {
                Mask::File(place)
            })
        });
        let home = self.at_home.into_iter().map(|(at, is_link, content)| {
            let content = if is_link {
                Content::Link(path(&content)?)
            } else {
                Content::File(content)
            };
            let at = PathBuf::from(at);
            Some(HomeEntry { at, content })
        });
        let environment = self.environment.into_iter();
        Some(Outfit {
            base: Base {
                system: system.collect::<Option<_>>()?,
                masks: masks.collect::<Option<_>>()?,
                home: path(&self.home)?,
            },
            home: home.collect::<Option<_>>()?,
            reads: self
                .reads
                .iter()
                .map(|read| path(read))
                .collect::<Option<_>>()?,
            environment: environment
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            search: self.search.into(),
        })
    }
}

#[cfg(test)]
mod tests;
