//! Who may use which capability: the plugin, the workspace and the user must all grant it.
//!
//! Guarantee: a check sees one consistent snapshot of the registrations, whatever other threads
//! register, replace or unregister meanwhile, and never waits for them; and every check hands
//! exactly one [`CapabilityCheck`] to the sink it was given, granted or not. There is no check
//! without a sink.
//!
//! Not guaranteed: that a plugin is still registered when the check returns. What must not outlive
//! a registration is checked again when it runs.
//!
//! Invariant: a plugin's allow and deny sets are one value and are swapped together.

use crate::capability::{Capability, CapabilitySet};
use crate::hash::Seeded;
use airlock_core::{PluginName, UserId, WorkspaceId};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What a plugin was granted at registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityGrants {
    /// What it may use.
    pub allow: CapabilitySet,
    /// What it may not use, whoever grants it.
    pub deny: CapabilitySet,
}

/// The condition that a denied capability failed: the first, in the order given here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CapabilityGate {
    /// The plugin is registered.
    UnknownPlugin,
    /// Its allow set contains the capability.
    Plugin,
    /// Its deny set does not.
    PluginDeny,
    /// The workspace's allow set contains it.
    Workspace,
    /// The user's permission set contains it.
    User,
}

impl CapabilityGate {
    /// The words used in logs and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownPlugin => "unknown plugin",
            Self::Plugin => "plugin",
            Self::PluginDeny => "plugin deny",
            Self::Workspace => "workspace",
            Self::User => "user",
        }
    }
}

impl fmt::Display for CapabilityGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a check that nobody looks at protects nothing"]
pub enum CheckResult {
    /// Every gate let it through.
    Allowed,
    /// This gate, the first that did not, stopped it.
    Denied(CapabilityGate),
}

impl CheckResult {
    /// Whether every gate let it through.
    pub const fn is_allowed(self) -> bool {
        match self {
            Self::Allowed => true,
            Self::Denied(_) => false,
        }
    }

    /// The first gate that failed.
    pub const fn failed_gate(self) -> Option<CapabilityGate> {
        match self {
            Self::Allowed => None,
            Self::Denied(gate) => Some(gate),
        }
    }
}

/// What is asked of a check.
#[derive(Debug, Clone, Copy)]
pub struct CheckQuery<'a> {
    /// The plugin that acts.
    pub plugin: &'a PluginName,
    /// The capability it needs. A malformed one is in no set, so it is denied.
    pub capability: &'a str,
    /// The allow set of the workspace.
    pub workspace: &'a CapabilitySet,
    /// The permission set of the user.
    pub user: &'a CapabilitySet,
    /// The workspace, for the record.
    pub workspace_id: &'a WorkspaceId,
    /// The user, for the record.
    pub user_id: &'a UserId,
}

/// One check as the audit log keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapabilityCheck<'a> {
    /// The plugin that asked.
    pub plugin: &'a PluginName,
    /// What it asked for, as it asked: maybe malformed, of any length.
    pub capability: &'a str,
    /// In which workspace.
    pub workspace: &'a WorkspaceId,
    /// On whose behalf.
    pub user: &'a UserId,
    /// The answer.
    pub result: CheckResult,
}

/// Takes the record of every check.
pub trait CheckSink {
    /// Called exactly once a check, before its result is known to the caller.
    fn record(&mut self, check: &CapabilityCheck<'_>);
}

impl<F: FnMut(&CapabilityCheck<'_>)> CheckSink for F {
    fn record(&mut self, check: &CapabilityCheck<'_>) {
        self(check);
    }
}

/// A plugin of that name is registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{0}` is already registered")]
pub struct AlreadyRegistered(pub PluginName);

impl AlreadyRegistered {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        "unregister it first, or give one of the two another name"
    }
}

/// No plugin of that name is registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{0}` is not registered")]
pub struct NotRegistered(pub PluginName);

impl NotRegistered {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        "register it first; `airlock plugin list` shows what is"
    }
}

type Registrations = HashMap<PluginName, Arc<CapabilityGrants>, Seeded>;

/// The registrations of all plugins.
#[derive(Debug, Default)]
pub struct Enforcer {
    // INVARIANT: a published map never changes; every update publishes a new one.
    registrations: ArcSwap<Registrations>,
}

impl Enforcer {
    /// An enforcer that knows no plugin, so denies everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers `plugin`. Of several threads that register one name, exactly one succeeds.
    pub fn register(
        &self,
        plugin: PluginName,
        grants: CapabilityGrants,
    ) -> Result<(), AlreadyRegistered> {
        let grants = Arc::new(grants);
        let mut taken = false;
        self.registrations.rcu(|current| {
            taken = current.contains_key(&plugin);
            if taken {
                return Arc::clone(current);
            }
            with(current, &plugin, &grants)
        });
        if taken {
            Err(AlreadyRegistered(plugin))
        } else {
            Ok(())
        }
    }

    /// Gives a registered plugin other grants, both sets at once.
    ///
    /// A plugin that is not registered stays so: a replacement that comes after the plugin was
    /// unregistered must not bring it back.
    pub fn replace(
        &self,
        plugin: &PluginName,
        grants: CapabilityGrants,
    ) -> Result<(), NotRegistered> {
        let grants = Arc::new(grants);
        let mut known = false;
        self.registrations.rcu(|current| {
            known = current.contains_key(plugin);
            if !known {
                return Arc::clone(current);
            }
            with(current, plugin, &grants)
        });
        if known {
            Ok(())
        } else {
            Err(NotRegistered(plugin.clone()))
        }
    }

    /// Forgets `plugin`: every check that begins afterwards denies it.
    pub fn unregister(&self, plugin: &PluginName) -> Result<(), NotRegistered> {
        let mut known = false;
        self.registrations.rcu(|current| {
            known = current.contains_key(plugin);
            if !known {
                return Arc::clone(current);
            }
            let mut registrations = Registrations::clone(current);
            registrations.remove(plugin);
            Arc::new(registrations)
        });
        if known {
            Ok(())
        } else {
            Err(NotRegistered(plugin.clone()))
        }
    }

    /// The registrations as they are now, for several checks that belong together.
    pub fn snapshot(&self) -> EnforcerSnapshot {
        EnforcerSnapshot(self.registrations.load_full())
    }

    /// Checks one capability against the registrations as they are now.
    pub fn check(
        &self,
        query: &CheckQuery<'_>,
        sink: &mut (impl CheckSink + ?Sized),
    ) -> CheckResult {
        check(&self.registrations.load(), query, sink)
    }
}

/// The registrations at one moment. It does not change, whatever is registered later.
#[derive(Debug, Clone)]
pub struct EnforcerSnapshot(Arc<Registrations>);

impl EnforcerSnapshot {
    /// Checks one capability.
    pub fn check(
        &self,
        query: &CheckQuery<'_>,
        sink: &mut (impl CheckSink + ?Sized),
    ) -> CheckResult {
        check(&self.0, query, sink)
    }

    /// What a check would answer, without a record.
    ///
    /// Only for filtering the results of a bulk read, file by file, inside a request whose own check
    /// was recorded: a search over a million files is one act, not a million.
    pub fn would_grant(&self, query: &CheckQuery<'_>) -> bool {
        judge(&self.0, query).is_allowed()
    }

    /// What `plugin` was granted, if it is registered.
    pub fn grants(&self, plugin: &PluginName) -> Option<&CapabilityGrants> {
        self.0.get(plugin).map(|grants| &**grants)
    }

    /// The registered plugins, by name.
    pub fn plugins(&self) -> Vec<&PluginName> {
        let mut plugins: Vec<_> = self.0.keys().collect();
        plugins.sort_unstable();
        plugins
    }
}

/// `current` with `plugin` holding `grants`.
fn with(
    current: &Registrations,
    plugin: &PluginName,
    grants: &Arc<CapabilityGrants>,
) -> Arc<Registrations> {
    let mut registrations = current.clone();
    registrations.insert(plugin.clone(), Arc::clone(grants));
    Arc::new(registrations)
}

fn check(
    registrations: &Registrations,
    query: &CheckQuery<'_>,
    sink: &mut (impl CheckSink + ?Sized),
) -> CheckResult {
    let result = judge(registrations, query);
    sink.record(&CapabilityCheck {
        plugin: query.plugin,
        capability: query.capability,
        workspace: query.workspace_id,
        user: query.user_id,
        result,
    });
    result
}

fn judge(registrations: &Registrations, query: &CheckQuery<'_>) -> CheckResult {
    let Some(grants) = registrations.get(query.plugin) else {
        return CheckResult::Denied(CapabilityGate::UnknownPlugin);
    };
    // Malformed text is in no set, so the first set that should contain it is where it fails. It is
    // not in the deny set either: that must never be what lets it through.
    let Ok(capability) = Capability::parse(query.capability) else {
        return CheckResult::Denied(CapabilityGate::Plugin);
    };
    let gates = [
        (CapabilityGate::Plugin, &grants.allow, true),
        (CapabilityGate::PluginDeny, &grants.deny, false),
        (CapabilityGate::Workspace, query.workspace, true),
        (CapabilityGate::User, query.user, true),
    ];
    gates
        .into_iter()
        .find(|(_, set, wanted)| set.contains_parsed(&capability) != *wanted)
        .map_or(CheckResult::Allowed, |(gate, _, _)| {
            CheckResult::Denied(gate)
        })
}
