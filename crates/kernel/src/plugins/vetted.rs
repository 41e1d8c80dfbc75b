//! Hosts that start nothing of a workspace that nobody approved.
//!
//! The files of a workspace's plugins are approved together with its policy, by digest. What is
//! about to run is held against that record here, at the last moment before its host is asked; the
//! host then runs those very bytes or none.

use super::desk::Desk;
use airlock_plugin::{Host, Hosts, Instance, MANIFEST, Origin, Start, StartError};
use std::sync::Arc;

/// A host behind the record of approvals.
struct Vetted {
    host: Arc<dyn Host>,
    desk: Arc<Desk>,
}

/// Each host, vetted.
pub(super) fn all(hosts: Hosts, desk: &Arc<Desk>) -> Hosts {
    let vetted = |host: Option<Arc<dyn Host>>| {
        host.map(|host| -> Arc<dyn Host> {
            let desk = Arc::clone(desk);
            Arc::new(Vetted { host, desk })
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
            let approved = |file: &str| self.desk.approved_digest(&start.directory, file);
            let entry = &start.manifest.execution.entry;
            if approved(entry) != Some(start.entry) || approved(MANIFEST).is_none() {
                return Err(StartError::Entry {
                    entry: entry.clone(),
                    why: "nobody approved it: `airlock trust` shows the workspace's files"
                        .to_owned(),
                });
            }
        }
        self.host.start(start)
    }
}
