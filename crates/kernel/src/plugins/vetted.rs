//! Hosts that start nothing of a workspace that nobody approved, and give no box what workspace and
//! user do not.
//!
//! The files of a workspace's plugins are approved together with its policy, by digest. All that is
//! there of what is about to run is held against that record here, at the last moment before its
//! host is asked; the host then runs those very bytes of the entry or none. Paths that a manifest wants in its box are capabilities
//! like any other: what the plugin could not ask the kernel for, its box does not show it either.

use super::desk::Desk;
use airlock_core::Digest;
use airlock_plugin::{
    Contents, Host, Hosts, Instance, MANIFEST, Origin, SandboxAsk, Start, StartError,
};
use std::collections::BTreeMap;
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
        self.check_paths(&start.manifest.execution.sandbox)?;
        self.host.start(start)
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
        let found: BTreeMap<String, Digest> = found
            .files()
            .map(|(path, digest)| (path.to_owned(), digest))
            .collect();
        let is_whole = found.get(entry) == Some(&start.entry) && found.contains_key(MANIFEST);
        if found != approved || !is_whole {
            return Err(refused(
                "nobody approved it as it is: `airlock trust` shows the workspace's files"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Each path that is asked for must be one that workspace and user allow.
    fn check_paths(&self, ask: &SandboxAsk) -> Result<(), StartError> {
        let reads = ask.read_allow.iter().map(|path| ("filesystem.read", path));
        let writes = ask
            .write_allow
            .iter()
            .map(|path| ("filesystem.write", path));
        for (right, path) in reads.chain(writes) {
            if let Some(gate) = closed_path(&self.desk, &self.home, right, path) {
                let why = format!("`{right}` of `{path}` is not granted: {gate}");
                return Err(StartError::Confinement(why));
            }
        }
        Ok(())
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
    let path = path
        .strip_suffix("/**")
        .or(path.strip_suffix("/*"))
        .unwrap_or(path);
    let path = match path.strip_prefix("~/") {
        Some(below) => home.join(below),
        None => PathBuf::from(path),
    };
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
