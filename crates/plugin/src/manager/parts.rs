//! What a manager is given: hosts, a way to the kernel's enforcer, a clock.

use super::discover::{Origin, Rejected};
use super::files::ApprovedFile;
use crate::host::{Host, Reach};
use crate::manifest::{Manifest, Protocol};
use crate::tool::ToolDescription;
use airlock_core::PluginName;
use airlock_policy::CapabilityGrants;
use airlock_policy::capability::{CapabilitySet, Pattern};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The hosts there are. A plugin whose protocol has none does not start.
#[derive(Clone, Default)]
pub struct Hosts {
    /// For go-plugins over gRPC.
    pub grpc: Option<Arc<dyn Host>>,
    /// For MCP servers.
    pub mcp: Option<Arc<dyn Host>>,
    /// For Wasm components and modules.
    pub wasm: Option<Arc<dyn Host>>,
}

impl Hosts {
    pub(super) fn of(&self, protocol: Protocol) -> Option<&Arc<dyn Host>> {
        match protocol {
            Protocol::Grpc => self.grpc.as_ref(),
            Protocol::Mcp => self.mcp.as_ref(),
            Protocol::Wasm => self.wasm.as_ref(),
        }
    }
}

/// The kernel's side of a plugin's coming and going.
///
/// A plugin is registered before anything of it runs and until all of it has ended. While an old and
/// a new version run beside each other, the grants are those that both have.
pub trait Registrar: Send + Sync {
    /// Makes the plugin known, with these grants and no others.
    fn register(&self, plugin: &Manifest, grants: CapabilityGrants) -> Result<(), String>;

    /// Gives a plugin that is known other grants.
    fn replace(&self, plugin: &PluginName, grants: CapabilityGrants) -> Result<(), String>;

    /// Forgets the plugin: nothing of it runs any more.
    fn unregister(&self, plugin: &PluginName);

    /// Opens a way back to the kernel for one instance, before it starts.
    fn reach(&self, plugin: &Manifest, instance: u64) -> Result<Reach, String>;

    /// Closes the way of an instance that has ended, or did not start.
    fn close(&self, plugin: &PluginName, instance: u64);

    /// What is set for the plugin that came so, or why it cannot be read. Another of its name that
    /// came from elsewhere is another plugin. It is checked against the plugin's schema.
    fn configuration(&self, _plugin: &Manifest, _origin: Origin) -> Result<Value, String> {
        Ok(Value::Object(Map::new()))
    }

    /// It is about to end, because nobody wants it any more: it may ask for nothing but what the calls
    /// need that it still serves. Registering it anew ends that.
    fn leaves(&self, _plugin: &PluginName) {}

    /// It goes on after all.
    fn stays(&self, _plugin: &PluginName) {}

    /// Forgets what is set for a plugin that is being removed, before anything else of it goes:
    /// whoever has its name next must not find it.
    fn forget(&self, _plugin: &PluginName) -> Result<(), String> {
        Ok(())
    }

    /// Whether whoever answered for what lies in `path` still does. What runs of it ends otherwise.
    fn is_answered_for(&self, _plugin: &PluginName, _origin: Origin, _path: &Path) -> bool {
        true
    }

    /// The files in `path` that were approved, by their paths in it, where the kernel keeps that:
    /// for what it keeps no record of, the files have to stay as they were when they were found.
    fn approved_files(
        &self,
        _origin: Origin,
        _path: &Path,
    ) -> Option<BTreeMap<String, ApprovedFile>> {
        None
    }

    /// Another instance has the place of this one, which may ask for nothing from now on but what the
    /// calls need that it still serves.
    fn retires(&self, _plugin: &PluginName, _instance: u64) {}

    /// The call `action` is this instance's to serve from now on.
    fn takes(&self, _action: &str, _instance: u64) {}

    /// These look like plugins and are none; each is told once for each reason.
    fn skipped(&self, _rejected: &[Arc<Rejected>]) {}

    /// From now on these are its tools.
    fn serving(&self, _plugin: &PluginName, _tools: &[ToolDescription]) {}
}

/// Time that never goes back.
pub trait Clock: Send + Sync {
    /// Time since some moment that stays the same.
    fn now(&self) -> Duration;
}

/// The machine's own clock.
#[derive(Debug)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// What a manifest asks for, as grants. The patterns were checked when it was read; one that is none
/// all the same grants nothing, and denies everything.
pub(super) fn grants(manifest: &Manifest) -> CapabilityGrants {
    let everything = || Pattern::parse("*").map(|all| CapabilitySet::compile([all]));
    CapabilityGrants {
        allow: CapabilitySet::parse(&manifest.capabilities)
            .unwrap_or_else(|_| CapabilitySet::empty()),
        deny: CapabilitySet::parse(&manifest.deny_capabilities)
            .or_else(|_| everything())
            .unwrap_or_else(|_| CapabilitySet::empty()),
    }
}

/// What both grant: of each the patterns that the other covers, and everything either denies. It may
/// be less than their intersection, never more.
pub(super) fn common(one: &CapabilityGrants, other: &CapabilityGrants) -> CapabilityGrants {
    let covered = |of: &CapabilitySet, by: &CapabilitySet| -> Vec<Pattern> {
        let patterns = of.patterns().iter();
        patterns.filter(|one| by.covers(one)).cloned().collect()
    };
    let mut allow = covered(&one.allow, &other.allow);
    allow.extend(covered(&other.allow, &one.allow));
    let deny = one.deny.patterns().iter().chain(other.deny.patterns());
    CapabilityGrants {
        allow: CapabilitySet::compile(allow),
        deny: CapabilitySet::compile(deny.cloned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(patterns: &[&str]) -> CapabilitySet {
        CapabilitySet::parse(patterns).unwrap()
    }

    #[test]
    fn beside_each_other_two_versions_have_only_what_both_have() {
        let old = CapabilityGrants {
            allow: set(&["kv.*", "sessions.read", "exec.run.sandboxed"]),
            deny: set(&["kv.delete"]),
        };
        let new = CapabilityGrants {
            allow: set(&["kv.get", "sessions.*", "network.connect.*"]),
            deny: set(&["exec.*"]),
        };
        for both in [common(&old, &new), common(&new, &old)] {
            for (capability, want) in [
                ("kv.get", true),
                ("kv.put", false),
                ("sessions.read", true),
                ("sessions.write", false),
                ("network.connect.h", false),
                ("exec.run.sandboxed", false),
            ] {
                assert_eq!(both.allow.contains(capability), want, "{capability}");
            }
            assert!(both.deny.contains("kv.delete") && both.deny.contains("exec.x"));
        }
    }
}
