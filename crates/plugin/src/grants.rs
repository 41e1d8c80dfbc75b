//! Where the paths are that a manifest asks for in its box: looked up once a start, before anything is
//! decided about them.
//!
//! Guarantee: what was found is what is judged and what the box is made with; nobody follows the links
//! of a granted path a second time. Whoever may write on the way to one could otherwise have one place
//! judged and another shown. A box is made of no path that is not among what was found.
//!
//! Non-guarantee: nothing is decided here, and nothing keeps what was found in its place: whoever
//! makes the box refuses what is a link by then.

use crate::host::StartError;
use crate::manifest::SandboxAsk;
use airlock_sandbox::HostPath;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How a path begins that lies in the plugin's own data.
pub(crate) const OWN: &str = "self/";

/// What makes a path a pattern.
const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];

/// The places that a manifest asks for. Without any: what is asked for is not granted.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    home: Option<Home>,
    places: Vec<Place>,
}

/// A path that a manifest asks for outside of its own data.
#[derive(Debug, Clone)]
pub struct Place {
    asked: String,
    named: PathBuf,
    /// What it is called in the home by the home's other name.
    other: Option<PathBuf>,
    real: PathBuf,
    found: Found,
}

#[derive(Debug, Clone)]
enum Found {
    Directory,
    Other,
    Nothing { why: String },
}

/// The person's home, which may be a link.
#[derive(Debug, Clone)]
struct Home {
    named: PathBuf,
    real: PathBuf,
}

fn refused(why: impl Into<String>) -> StartError {
    StartError::Confinement(why.into())
}

impl Grants {
    /// Looks up what `ask` asks for, once each. What is not there is a place all the same, of which no
    /// box is made.
    pub fn find(ask: &SandboxAsk, home: Option<&Path>) -> Result<Self, StartError> {
        let home = home.map(Home::find);
        let mut places: Vec<Place> = Vec::new();
        for asked in ask.read_allow.iter().chain(&ask.write_allow) {
            let is_known = places.iter().any(|place| place.asked == *asked);
            if !is_known && !asked.starts_with(OWN) {
                places.push(Place::find(asked, home.as_ref())?);
            }
        }
        Ok(Self { home, places })
    }

    /// What the manifest asks for in these words.
    pub fn place(&self, asked: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.asked == asked)
    }

    /// All that is asked for, each once.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Where each is, by what the manifest says: what a person approves.
    pub fn real_places(&self) -> BTreeMap<String, String> {
        let places = self.places.iter();
        let places = places.map(|place| (place.asked.clone(), place.real.display().to_string()));
        places.collect()
    }

    /// Every name that `path` goes by: its own, and in the home that by the home's other name.
    pub fn names(&self, path: &Path) -> Vec<PathBuf> {
        let other = self.home.as_ref().and_then(|home| home.other(path));
        let other = other.filter(|other| other.to_str().is_some());
        [path.to_owned()].into_iter().chain(other).collect()
    }

    /// The home, by each name it has.
    pub fn homes(&self) -> impl Iterator<Item = &Path> {
        let homes = self.home.iter();
        homes.flat_map(|home| [home.named.as_path(), home.real.as_path()])
    }
}

impl Place {
    fn find(asked: &str, home: Option<&Home>) -> Result<Self, StartError> {
        let path = whole(asked)?;
        let named = match path.strip_prefix("~/") {
            Some(below) => {
                let home = home.ok_or_else(|| refused(format!("`{asked}`: there is no home")))?;
                home.named.join(below)
            }
            None => PathBuf::from(path),
        };
        let named = HostPath::new(&named).map_err(|error| refused(error.to_string()))?;
        let named = named.as_path().to_owned();
        let (real, found) = match named.canonicalize() {
            Ok(real) => {
                let found = Found::at(&real);
                (real, found)
            }
            Err(error) => {
                let why = error.to_string();
                (leading(&named), Found::Nothing { why })
            }
        };
        if named.to_str().is_none() || real.to_str().is_none() {
            return Err(refused(format!("`{asked}` is no text on this machine")));
        }
        Ok(Self {
            asked: asked.to_owned(),
            other: home.and_then(|home| home.other(&named)),
            named,
            real,
            found,
        })
    }

    /// In the words of the manifest.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// What these words mean on this machine.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Where that leads. Of what is not there, where it would be.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Whether it can hold other things.
    pub const fn is_directory(&self) -> bool {
        match self.found {
            Found::Directory => true,
            Found::Other | Found::Nothing { .. } => false,
        }
    }

    /// Why it is not there, if it is not.
    pub fn missing(&self) -> Option<&str> {
        match &self.found {
            Found::Directory | Found::Other => None,
            Found::Nothing { why } => Some(why),
        }
    }

    /// Whether a link on the way leads to what its name does not say. That the home itself is a link
    /// is no such thing.
    pub fn leads_elsewhere(&self) -> bool {
        self.real != self.named && self.other.as_ref() != Some(&self.real)
    }
}

impl Found {
    fn at(real: &Path) -> Self {
        match real.symlink_metadata() {
            Ok(looked) if looked.is_symlink() => Self::Nothing {
                why: "it changed while it was looked at".to_owned(),
            },
            Ok(looked) if looked.is_dir() => Self::Directory,
            Ok(_) => Self::Other,
            Err(error) => Self::Nothing {
                why: error.to_string(),
            },
        }
    }
}

impl Home {
    fn find(named: &Path) -> Self {
        Self {
            real: named.canonicalize().unwrap_or_else(|_| named.to_owned()),
            named: named.to_owned(),
        }
    }

    /// What `path` in it is called by its other name, if it has one.
    fn other(&self, path: &Path) -> Option<PathBuf> {
        if self.named == self.real {
            return None;
        }
        match (
            path.strip_prefix(&self.named),
            path.strip_prefix(&self.real),
        ) {
            (Ok(below), _) => Some(joined(&self.real, below)),
            (Err(_), Ok(below)) => Some(joined(&self.named, below)),
            (Err(_), Err(_)) => None,
        }
    }
}

/// The path that is granted by `text`: all of a directory is what granting it means.
pub(crate) fn whole(text: &str) -> Result<&str, StartError> {
    let path = text.strip_suffix("/**").or(text.strip_suffix("/*"));
    let path = path.unwrap_or(text);
    if is_pattern(path) {
        return Err(refused(format!(
            "`{text}` is a pattern, and only paths can be granted"
        )));
    }
    Ok(path)
}

pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(WILDCARDS)
}

/// Where `path` leads as far as it is there; what is not goes by its name.
pub(crate) fn leading(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| {
        let below = path.strip_prefix(above).ok()?;
        Some(joined(&above.canonicalize().ok()?, below))
    });
    found.unwrap_or_else(|| path.to_owned())
}

/// `below` in `directory`, without a slash at the end where that is itself.
fn joined(directory: &Path, below: &Path) -> PathBuf {
    directory.join(below).components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn one(asked: &str, home: &Path) -> Place {
        let ask = SandboxAsk {
            read_allow: vec![asked.to_owned()],
            ..SandboxAsk::default()
        };
        let grants = Grants::find(&ask, Some(home)).unwrap();
        grants.place(asked).unwrap().clone()
    }

    #[test]
    fn a_linked_home_is_what_its_name_says_and_a_link_below_it_is_not() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let (home, real) = (top.join("home"), top.join("data/me"));
        fs::create_dir_all(real.join("notes")).unwrap();
        fs::create_dir_all(real.join("vault")).unwrap();
        symlink(&real, &home).unwrap();
        symlink(real.join("vault"), real.join("way")).unwrap();
        let absolute = |path: PathBuf| path.display().to_string();
        for (case, asked, leads, elsewhere) in [
            ("in the home", "~/notes/*".to_owned(), "notes", false),
            ("by its name", absolute(home.join("notes")), "notes", false),
            ("where it is", absolute(real.join("notes")), "notes", false),
            ("not there", "~/notes/new".to_owned(), "notes/new", false),
            ("a link", "~/way/**".to_owned(), "vault", true),
            (
                "by the home's name",
                absolute(home.join("way")),
                "vault",
                true,
            ),
            (
                "not there by a link",
                "~/way/new".to_owned(),
                "vault/new",
                true,
            ),
        ] {
            let place = one(&asked, &home);
            assert_eq!(place.real(), real.join(leads), "{case}");
            assert_eq!(place.leads_elsewhere(), elsewhere, "{case}");
            assert_eq!(place.missing().is_some(), leads.ends_with("new"), "{case}");
            assert_eq!(place.is_directory(), !leads.ends_with("new"), "{case}");
        }
    }

    #[test]
    fn what_is_asked_for_twice_is_looked_up_once_and_own_data_not_at_all() {
        let ask = SandboxAsk {
            read_allow: vec!["/usr/share".to_owned(), "self/cache".to_owned()],
            write_allow: vec!["/usr/share".to_owned()],
            ..SandboxAsk::default()
        };
        let grants = Grants::find(&ask, None).unwrap();
        assert_eq!(grants.places().len(), 1);
        assert!(grants.place("self/cache").is_none());
        for (asked, want) in [
            ("/usr/*/x", "pattern"),
            ("~/x", "no home"),
            ("/a/../b", ".."),
        ] {
            let ask = SandboxAsk {
                read_allow: vec![asked.to_owned()],
                ..SandboxAsk::default()
            };
            let error = Grants::find(&ask, None).unwrap_err().to_string();
            assert!(error.contains(want), "{asked}: {error}");
        }
    }
}
