//! Hosts that start nothing of a workspace that nobody approved, and give no box what workspace and
//! user do not.
//!
//! The files of a workspace's plugins are approved together with its policy, by digest. All that is
//! there of what is about to run is held against that record here, at the last moment before its
//! host is asked; the host then runs those very bytes of the entry or none. Paths that a manifest
//! wants in its box are capabilities like any other: what the plugin could not ask the kernel for,
//! its box does not show it either. They are looked up once, judged by where they really are, and
//! given to the host as they were found. What policy denies it to read or write in them as things are
//! is taken out of its box; what policy says later holds from its next start on.

use super::desk::Desk;
use super::paths::{Paths, refusal};
use super::warnings::{ANY, caller};
use crate::process::denied_elsewhere;
use airlock_core::{Caller, Request, RequestPath, Syscall, TagName, Tier};
use airlock_plugin::{
    Contents, Grants, Host, Hosts, Instance, MANIFEST, Manifest, Origin, Start, StartError,
    THIRD_PARTY,
};
use std::collections::BTreeSet;
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
        // The only time that links are followed: what was found is judged, and is what the box has.
        let grants = Grants::find(&start.manifest.execution.sandbox, Some(&self.home))?;
        self.check_paths(&start.manifest, origin, &grants)?;
        let manifest = self.narrowed(&start.manifest, &grants)?;
        let (asked, directory) = (Arc::clone(&manifest), start.reach.directory.clone());
        let started = self.host.start(Start {
            manifest,
            grants,
            ..start
        });
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

    /// Each path that is asked for must be what was approved, and what workspace and user allow, and
    /// what the plugin does not do without by its own word. What was found of each is for the log, as
    /// with any other capability.
    fn check_paths(
        &self,
        manifest: &Manifest,
        origin: Origin,
        grants: &Grants,
    ) -> Result<(), StartError> {
        if grants.places().is_empty() {
            return Ok(());
        }
        let caller = self.caller(manifest)?;
        let paths = Paths::new(&self.desk, manifest, origin, grants);
        for (right, place, gate) in paths.judged() {
            self.desk.remarks().checked(&caller, (right, place), gate);
            if let Some(gate) = gate {
                return Err(refusal(right, place, gate));
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
    fn narrowed(
        &self,
        manifest: &Arc<Manifest>,
        grants: &Grants,
    ) -> Result<Arc<Manifest>, StartError> {
        if grants.places().is_empty() {
            return Ok(Arc::clone(manifest));
        }
        let ask = &manifest.execution.sandbox;
        let caller = self.caller(manifest)?;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for place in named(grants, &ask.read_allow) {
            self.check_place(&caller, "fs.read", &place)?;
            reads.push(place.0);
        }
        for place in named(grants, &ask.write_allow) {
            self.check_place(&caller, "fs.read", &place)?;
            self.check_place(&caller, "fs.write", &place)?;
            writes.push(place.0);
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

    /// Fails if a rule keeps the plugin from `syscall` of a place as a whole.
    fn check_place(
        &self,
        caller: &Caller,
        syscall: &str,
        (place, is_directory): &(String, bool),
    ) -> Result<(), StartError> {
        let within = format!("{}/{ANY}", place.trim_end_matches('/'));
        let within = is_directory.then_some(within);
        for path in [Some(place.clone()), within].into_iter().flatten() {
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

/// Every name that what is asked for goes by, and whether it is a directory: a rule may go by any.
fn named(grants: &Grants, asked: &[String]) -> BTreeSet<(String, bool)> {
    let places = asked.iter().filter_map(|asked| grants.place(asked));
    let names = places.flat_map(|place| {
        let paths = [place.named(), place.real()].into_iter();
        let names = paths.flat_map(move |path| grants.names(path));
        names.map(move |name| (name.display().to_string(), place.is_directory()))
    });
    names.collect()
}

fn request(caller: &Caller, syscall: &str) -> Result<Request, StartError> {
    let syscall = Syscall::parse(syscall).map_err(|error| refused(error.to_string()))?;
    Ok(Request::new(syscall, Tier::Process, caller.clone()))
}

fn refused(why: impl Into<String>) -> StartError {
    StartError::Confinement(why.into())
}
