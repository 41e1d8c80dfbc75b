//! Hosts that start nothing of a workspace that nobody approved, and give no box what workspace and
//! user do not.
//!
//! The files of a workspace's plugins are approved together with its policy, by digest. All that is
//! there of what is about to run is held against that record here, at the last moment before its
//! host is asked; the host then runs those very bytes of the entry or none. Paths that a manifest
//! wants in its box are capabilities like any other: what the plugin could not ask the kernel for,
//! its box does not show it either. What policy denies it to read or write in them as things are is
//! taken out of its box; what policy says later holds from its next start on.

use super::desk::Desk;
use super::warnings::{ANY, caller};
use crate::process::denied_elsewhere;
use airlock_core::{Caller, Request, RequestPath, Syscall, TagName, Tier};
use airlock_plugin::{
    Contents, Host, Hosts, Instance, MANIFEST, Manifest, Origin, Start, StartError, THIRD_PARTY,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A host behind the record of approvals.
struct Vetted {
    host: Arc<dyn Host>,
    desk: Arc<Desk>,
    home: PathBuf,
}

/// Each host, vetted.
pub(super) fn all(hosts: Hosts, desk: &Arc<Desk>, home: &Path) -> Hosts {
    let vetted = |host: Option<Arc<dyn Host>>| {
        host.map(|host| -> Arc<dyn Host> {
            Arc::new(Vetted {
                host,
                desk: Arc::clone(desk),
                home: home.to_owned(),
            })
        })
    };
    Hosts {
        grpc: vetted(hosts.grpc),
        mcp: vetted(hosts.mcp),
        wasm: vetted(hosts.wasm),
    }
}

impl Host for Vetted {
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError> {
        let origin = self.desk.brought(&start.manifest.name, &start.directory);
        if origin == Origin::Workspace {
            self.check_files(&start)?;
        }
        self.check_paths(&start.manifest)?;
        let manifest = self.narrowed(&start.manifest)?;
        let (asked, directory) = (Arc::clone(&manifest), start.reach.directory.clone());
        let started = self.host.start(Start { manifest, ..start });
        let failed = started.as_ref().err().map(ToString::to_string);
        self.desk.note_start(&asked, &directory, failed.as_deref());
        started
    }
}

impl Vetted {
    /// Every file of a workspace's plugin is one that a person approved, and none is missing: what
    /// the entry reads beside it is code as well.
    fn check_files(&self, start: &Start) -> Result<(), StartError> {
        let entry = &start.manifest.execution.entry;
        let refused = |why: String| StartError::Entry {
            entry: entry.clone(),
            why,
        };
        let approved = self.desk.files_approved_in(&start.directory);
        let found = Contents::of(&start.directory).map_err(|error| refused(error.to_string()))?;
        let is_whole = found.file(entry) == Some(start.entry) && found.file(MANIFEST).is_some();
        if !found.is_exactly(&approved) || !is_whole {
            return Err(refused(
                "nobody approved it as it is: `airlock trust` shows the workspace's files"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Each path that is asked for must be one that workspace and user allow, and that the plugin does
    /// not do without by its own word. What was found of each
    /// is for the log, as with any other capability.
    fn check_paths(&self, manifest: &Manifest) -> Result<(), StartError> {
        let ask = &manifest.execution.sandbox;
        if ask.read_allow.is_empty() && ask.write_allow.is_empty() {
            return Ok(());
        }
        let caller = self.caller(manifest)?;
        for (right, path) in ask.rights() {
            let gate = own_denial(manifest, &self.home, right, path)
                .or_else(|| closed_path(&self.desk, &self.home, right, path));
            let capability = format!("{right}.{}", granted(&self.home, path).display());
            self.desk.remarks().checked(&caller, &capability, gate);
            if let Some(gate) = gate {
                let why = format!("`{right}` of `{path}` is not granted: {gate}");
                return Err(StartError::Confinement(why));
            }
        }
        Ok(())
    }

    /// The plugin as it would ask.
    fn caller(&self, manifest: &Manifest) -> Result<Caller, StartError> {
        // Nobody gives a plugin other tags when it is installed.
        let given: Vec<TagName> = TagName::new(THIRD_PARTY).into_iter().collect();
        caller(&self.desk, &manifest.name, &given)
            .ok_or_else(|| refused("who asks for it cannot be told"))
    }

    /// The manifest with what policy denies added to what it gives up by itself.
    fn narrowed(&self, manifest: &Arc<Manifest>) -> Result<Arc<Manifest>, StartError> {
        let ask = &manifest.execution.sandbox;
        let (reads, writes) = (
            self.places(&ask.read_allow)?,
            self.places(&ask.write_allow)?,
        );
        if reads.is_empty() && writes.is_empty() {
            return Ok(Arc::clone(manifest));
        }
        let caller = self.caller(manifest)?;
        for place in &reads {
            self.check_place(&caller, "fs.read", place)?;
        }
        for place in &writes {
            self.check_place(&caller, "fs.read", place)?;
            self.check_place(&caller, "fs.write", place)?;
        }
        let request = request(&caller, "tool.call")?;
        let policy = self.desk.policy();
        let places = (&*reads, &*writes);
        let denied = denied_elsewhere(policy.document(), &request, self.desk.root(), places);
        let denied = denied.map_err(|error| refused(error.to_string()))?;
        let mut narrowed = Manifest::clone(manifest);
        narrowed.execution.sandbox.read_deny.extend(denied);
        Ok(Arc::new(narrowed))
    }

    /// What is asked for outside of its own data, as it is named and where it really is.
    fn places(&self, asked: &[String]) -> Result<Vec<String>, StartError> {
        let mut places = Vec::new();
        for path in asked.iter().filter(|path| !path.starts_with("self/")) {
            let named = granted(&self.home, path);
            let real = named.canonicalize().unwrap_or_else(|_| named.clone());
            for place in [named, real] {
                let place = place.into_os_string().into_string();
                let place = place.map_err(|_| refused(format!("`{path}` is no text here")))?;
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        Ok(places)
    }

    /// Fails if a rule keeps the plugin from `syscall` of a place as a whole.
    fn check_place(&self, caller: &Caller, syscall: &str, place: &str) -> Result<(), StartError> {
        let within = format!("{}/{ANY}", place.trim_end_matches('/'));
        let is_directory = Path::new(place).is_dir();
        let within = is_directory.then_some(within);
        for path in [Some(place.to_owned()), within].into_iter().flatten() {
            let mut request = request(caller, syscall)?;
            let path = RequestPath::parse(&path, self.desk.root());
            request.paths = vec![path.map_err(|error| refused(error.to_string()))?];
            // Nobody can be asked inside. What is written is granted by a person, once.
            let no = match syscall {
                "fs.read" => self.desk.reservation(&request),
                _ => self.desk.objection(&request),
            };
            if let Some(no) = no {
                let (rule, reason) = (no.rule, no.reason);
                return Err(refused(format!(
                    "`{syscall}` of `{place}` is kept from it by rule `{rule}`: {reason}"
                )));
            }
        }
        Ok(())
    }
}

fn request(caller: &Caller, syscall: &str) -> Result<Request, StartError> {
    let syscall = Syscall::parse(syscall).map_err(|error| refused(error.to_string()))?;
    Ok(Request::new(syscall, Tier::Process, caller.clone()))
}

fn refused(why: impl Into<String>) -> StartError {
    StartError::Confinement(why.into())
}

/// The path that a manifest asks for: all of a directory is what granting it means.
fn granted(home: &Path, path: &str) -> PathBuf {
    let path = path
        .strip_suffix("/**")
        .or(path.strip_suffix("/*"))
        .unwrap_or(path);
    match path.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => PathBuf::from(path),
    }
}

/// The gate that the manifest itself closes to `right` of a path that it asks for, if it does.
fn own_denial(manifest: &Manifest, home: &Path, right: &str, path: &str) -> Option<&'static str> {
    let named = granted(home, path);
    let real = named.canonicalize().unwrap_or_else(|_| named.clone());
    let denied = |path: &Path| {
        let is_denied = |path: &str| manifest.denial(right, path).is_some();
        is_denied(&path.display().to_string())
            || of_home(home, path).is_some_and(|path| is_denied(&path))
    };
    (denied(&named) || denied(&real)).then_some("plugin deny")
}

/// The part of `path` that is in the home, as a pattern would name it.
fn of_home(home: &Path, path: &Path) -> Option<String> {
    match path.strip_prefix(home) {
        Ok(below) => Some(format!("~/{}", below.display())),
        Err(_) if home.starts_with(path) => Some("~".to_owned()),
        Err(_) => None,
    }
}

/// The gate that is closed to `right` of a path that a manifest asks for, if one is.
pub(super) fn closed_path(
    desk: &Desk,
    home: &Path,
    right: &str,
    path: &str,
) -> Option<&'static str> {
    // Its own data is its own.
    if path.starts_with("self/") {
        return None;
    }
    let path = granted(home, path);
    // Links are followed when it is granted; what is asked for and what it is must both pass.
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    // Whoever is given a directory is given what lies in it.
    let below = if real.is_dir() { "/**" } else { "" };
    let gates = |path: &Path| {
        let path = path.display().to_string();
        let path = path.trim_end_matches('/');
        desk.closed(&format!("{right}.{path}{below}"))
    };
    gates(&path).or_else(|| gates(&real))
}
