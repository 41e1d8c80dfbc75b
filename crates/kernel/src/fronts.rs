//! The built-in fronts: plugins of our own, with manifests of our own.
//!
//! A front can do what its manifest, the workspace and the user all allow, like any plugin. What
//! only a person may do - change policy, trust files, answer approvals - is granted to the command
//! line alone.

use crate::agents::AgentCaller;
use crate::process::{Machine, Within};
use airlock_core::{
    ActionId, Caller, CapabilityForm, IdError, Peer, PluginName, SandboxId, SessionId, Syscall,
    TagName, TenantId, UserId, WorkspaceId,
};
use airlock_policy::capability::CapabilitySet;
use std::fmt;
use std::sync::Arc;

/// Where a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Front {
    /// The person at the command line.
    Cli,
    /// The built-in agent loop.
    Agent,
    /// An MCP client.
    Mcp,
    /// An HTTP client.
    Server,
    /// A plugin: which one is in [`Whence::plugin`], and its manifest is its own.
    Plugin,
}

impl Front {
    /// Every front of our own.
    pub const ALL: [Self; 4] = [Self::Cli, Self::Agent, Self::Mcp, Self::Server];

    /// The front's name as a plugin.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Agent => "agent",
            Self::Mcp => "mcp",
            Self::Server => "server",
            Self::Plugin => "plugin",
        }
    }

    /// The capabilities of the front's manifest.
    pub const fn allow(self) -> &'static [&'static str] {
        match self {
            Self::Cli => &["*"],
            // Each has what its own manifest says.
            Self::Plugin => &[],
            Self::Agent | Self::Mcp | Self::Server => &[
                "filesystem.*",
                "exec.run.sandboxed",
                "exec.shell.sandboxed",
                "exec.container",
                "network.connect.*",
                "secret.use.*",
                "tool.*",
                "provider.chat",
                "merge.apply",
                "sessions.*",
            ],
        }
    }

    /// The capabilities the front's manifest gives up for good.
    pub const fn deny(self) -> &'static [&'static str] {
        match self {
            Self::Cli => &[],
            Self::Agent | Self::Mcp | Self::Server | Self::Plugin => &[
                "policy.*",
                "approvals.*",
                "trust.*",
                "plugin.*",
                "audit.*",
                "kernel.*",
            ],
        }
    }

    /// Whether some policy could give it `syscall`. To list or suggest what it gave up for good would
    /// only invite denials. A plugin has a manifest of its own, so nothing is said of it here.
    pub fn could_use(self, syscall: Syscall) -> bool {
        let set = |patterns: &[&str]| CapabilitySet::parse(patterns).ok();
        let (Some(allow), Some(deny)) = (set(self.allow()), set(self.deny())) else {
            return false;
        };
        let sample = match syscall.spec().capability {
            CapabilityForm::Fixed(name) => name.to_owned(),
            CapabilityForm::Path(name) => format!("{name}./workspace/file"),
            CapabilityForm::Host(name) | CapabilityForm::Secret(name) => format!("{name}.any"),
            CapabilityForm::Tool(name) => format!("{name}.any.any"),
        };
        allow.contains(&sample) && !deny.contains(&sample)
    }
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a call comes from, as somebody who checked it says: a front fills this in from what the
/// operating system told it, never from what the caller said.
#[derive(Debug, Clone, Default)]
pub struct Whence {
    /// The process that asks; absent: this one.
    pub peer: Option<Peer>,
    /// The sandbox it asks from.
    pub sandbox: Option<SandboxId>,
    /// The plugin that asks, where the front is one.
    pub plugin: Option<PluginName>,
    /// The home and the environment of the person who asks; absent: the kernel's own.
    pub machine: Option<Machine>,
    /// The agent that asks, where the kernel's own loop drives it.
    pub agent: Option<Arc<AgentCaller>>,
    /// The command it comes out of, where one that is being run asks.
    pub within: Option<Arc<Within>>,
    /// The call that a plugin serves by asking. One that serves none only reads.
    pub serves: Option<ActionId>,
    /// For whom what is in a sandbox asks: whoever has it run there. Absent: the kernel's own user.
    pub user: Option<UserId>,
}

/// What the operating system says of this process, taken once at start.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    tenant: TenantId,
    user: UserId,
    peer: Peer,
}

impl Local {
    /// Asks the operating system who runs this process.
    pub(crate) fn detect() -> Result<Self, IdError> {
        let uid = rustix::process::getuid().as_raw();
        let name = user_name(uid).and_then(|name| UserId::new(&name).ok());
        let user = name.map_or_else(|| UserId::new(&format!("uid:{uid}")), Ok)?;
        let peer = Peer {
            pid: std::process::id(),
            uid,
            started: own_start_time(),
        };
        Ok(Self {
            tenant: TenantId::new("local")?,
            user,
            peer,
        })
    }

    /// For whom a call from `whence` is made. A process of another user, who was let in besides, acts
    /// for that one; what runs in a sandbox acts for whoever has it run, as whomever the machine has it
    /// run.
    pub(crate) fn user_of(&self, whence: &Whence) -> Result<UserId, IdError> {
        if whence.sandbox.is_some()
            && let Some(user) = &whence.user
        {
            return Ok(user.clone());
        }
        let other = whence.peer.map(|peer| peer.uid);
        let other = other.filter(|uid| *uid != self.peer.uid && whence.sandbox.is_none());
        let Some(uid) = other else {
            return Ok(self.user.clone());
        };
        let name = user_name(uid).and_then(|name| UserId::new(&name).ok());
        // One that has our name has another number, and so is somebody else.
        let name = name.filter(|name| *name != self.user);
        name.map_or_else(|| UserId::new(&format!("uid:{uid}")), Ok)
    }

    /// The user.
    pub(crate) fn user(&self) -> &UserId {
        &self.user
    }

    /// The tenant.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The caller that `front` is, with the tags policy gives it.
    pub(crate) fn caller(
        &self,
        front: Front,
        whence: &Whence,
        workspace: &WorkspaceId,
        session: Option<SessionId>,
        tags: Vec<TagName>,
    ) -> Result<Caller, IdError> {
        let plugin = match (front, &whence.plugin) {
            (Front::Plugin, Some(plugin)) => plugin.clone(),
            // A plugin nobody named is registered under no name, and so has no capability.
            (Front::Cli | Front::Agent | Front::Mcp | Front::Server | Front::Plugin, _) => {
                PluginName::new(front.as_str())?
            }
        };
        Ok(Caller {
            tenant: self.tenant.clone(),
            user: self.user_of(whence)?,
            workspace: workspace.clone(),
            session,
            plugin,
            tags,
            peer: Some(whence.peer.unwrap_or(self.peer)),
            sandbox: whence.sandbox.clone(),
            mode: None,
            phase: None,
        })
    }
}

/// The name of `uid` in the system's own user table.
fn user_name(uid: u32) -> Option<String> {
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    let wanted = uid.to_string();
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    })
}

/// Start time of this process in clock ticks since boot: the 22nd field of its `stat`.
fn own_start_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the command name in parentheses and may contain anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name
        .split_whitespace()
        .nth(19)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_user_acts_for_that_one_and_never_for_ours() {
        let local = Local::detect().unwrap();
        let from = |uid: u32, sandbox: Option<&str>| Whence {
            peer: Some(Peer { uid, ..local.peer }),
            sandbox: sandbox.map(|name| SandboxId::new(name).unwrap()),
            ..Whence::default()
        };
        let own = local.user().clone();
        assert_eq!(local.user_of(&Whence::default()).unwrap(), own);
        assert_eq!(local.user_of(&from(local.peer.uid, None)).unwrap(), own);
        let other = local.user_of(&from(4_000_000_001, None)).unwrap();
        assert_eq!(other.as_str(), "uid:4000000001");
        let inside = local.user_of(&from(4_000_000_001, Some("box"))).unwrap();
        assert_eq!(inside, own, "a sandbox's socket says who is in it");
    }

    #[test]
    fn what_a_person_alone_may_do_no_other_front_could_use() {
        for (name, others) in [
            ("fs.read", true),
            ("exec.run", true),
            ("session.log", true),
            ("net.connect", true),
            ("policy.update", false),
            ("trust.approve", false),
            ("approval.decide", false),
            ("audit.read", false),
            ("stage.drop", false),
        ] {
            let syscall = Syscall::parse(name).unwrap();
            for front in Front::ALL {
                let want = others || front == Front::Cli;
                assert_eq!(front.could_use(syscall), want, "{front} {name}");
            }
        }
    }

    #[test]
    fn this_process_has_a_user_and_a_start_time() {
        let local = Local::detect().unwrap();
        assert!(!local.user().as_str().is_empty());
        assert_ne!(local.peer.started, 0);
    }
}
