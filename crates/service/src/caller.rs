//! Who a connection is: what its socket says, and within that what it calls itself.

use airlock_core::{Peer, PluginName, SandboxId};
use airlock_kernel::{Front, Machine, Whence, sanitise_line};
use airlock_wire::{Hello, Via, Visitor, WireError, code};

/// What a sandbox acts as: it can be no other front, whatever it says.
pub const SANDBOX_FRONT: Front = Front::Agent;

/// The name of a supervisor, which asks whether the kernel is alive and nothing else.
const SUPERVISOR: &str = "bootstrap";

/// What users whom the kernel's own lets in besides may act as: what a person does at the command
/// line is done in the name of the kernel's user, and nobody else has that.
const OTHERS: &[&str] = &["agent", "mcp"];

/// Most characters of a name that is said again.
const NAME: usize = 64;

/// Whether `peer` is a process of another user than the kernel's.
fn is_another(peer: Peer) -> bool {
    peer.uid != rustix::process::geteuid().as_raw()
}

/// Who a connection is.
#[derive(Debug, Clone)]
pub enum Identity {
    /// A front, in a process of the kernel's user or of one who was let in besides.
    Front {
        /// Which.
        front: Front,
        /// The process.
        peer: Peer,
    },
    /// Whatever runs in a sandbox.
    Sandbox {
        /// Which.
        sandbox: SandboxId,
        /// The process.
        peer: Peer,
    },
    /// A plugin, in its own sandbox.
    Plugin {
        /// Which.
        plugin: PluginName,
        /// Where it runs.
        sandbox: SandboxId,
        /// The process.
        peer: Peer,
    },
    /// Somebody who watches over the kernel.
    Supervisor,
}

impl Identity {
    /// Who `visitor` is that says `hello`; `plugin_in` knows which sandboxes are plugins'. What
    /// comes out of one is that plugin, whatever it calls itself.
    pub(crate) fn of(
        visitor: &Visitor,
        hello: &Hello,
        plugin_in: impl FnOnce(&SandboxId) -> Option<PluginName>,
    ) -> Result<Self, WireError> {
        let peer = visitor.peer;
        if let Via::Sandbox(sandbox) = &visitor.via
            && let Some(plugin) = plugin_in(sandbox)
        {
            return if hello.name == plugin.as_str() {
                Ok(Self::Plugin {
                    plugin,
                    sandbox: sandbox.clone(),
                    peer,
                })
            } else {
                let told = format!("this is the socket of the plugin `{plugin}`");
                Err(WireError::new(code::REFUSED, told))
            };
        }
        if visitor.via == Via::Main && is_another(peer) && !OTHERS.contains(&hello.name.as_str()) {
            let told = format!(
                "another user acts as {} here: the rest is the kernel's own user's",
                OTHERS.join(" or ")
            );
            return Err(WireError::new(code::REFUSED, told));
        }
        let named = Front::ALL
            .into_iter()
            .find(|front| front.as_str() == hello.name);
        match (&visitor.via, named) {
            (Via::Main, Some(front)) => Ok(Self::Front { front, peer }),
            (Via::Main, None) if hello.name == SUPERVISOR => Ok(Self::Supervisor),
            (Via::Sandbox(sandbox), Some(SANDBOX_FRONT)) => Ok(Self::Sandbox {
                sandbox: sandbox.clone(),
                peer,
            }),
            (Via::Main, None) => {
                let fronts = Front::ALL.map(Front::as_str).join(", ");
                let name = sanitise_line(&hello.name, NAME);
                let told = format!("nobody is called `{name}` here: {fronts}, {SUPERVISOR} are");
                Err(WireError::new(code::REFUSED, told))
            }
            (Via::Sandbox(_), Some(_) | None) => {
                let told = format!("a sandbox acts as `{SANDBOX_FRONT}` and as nobody else");
                Err(WireError::new(code::REFUSED, told))
            }
        }
    }

    /// The front it acts as, if it may act.
    pub(crate) const fn front(&self) -> Option<Front> {
        match self {
            Self::Front { front, .. } => Some(*front),
            Self::Sandbox { .. } => Some(SANDBOX_FRONT),
            Self::Plugin { .. } => Some(Front::Plugin),
            Self::Supervisor => None,
        }
    }

    /// Whether it is the person at the command line.
    pub(crate) fn is_person(&self) -> bool {
        matches!(
            self,
            Self::Front {
                front: Front::Cli,
                ..
            }
        )
    }

    /// Whether it is an MCP server of the kernel's user. What runs in a sandbox never is.
    pub(crate) fn is_mcp_server(&self) -> bool {
        match self {
            Self::Front { front, peer } => *front == Front::Mcp && !is_another(*peer),
            Self::Sandbox { .. } | Self::Plugin { .. } | Self::Supervisor => false,
        }
    }

    /// Where its calls come from.
    pub(crate) fn whence(&self, machine: Option<Machine>) -> Whence {
        let (peer, sandbox, plugin) = match self {
            Self::Front { peer, .. } => (Some(*peer), None, None),
            Self::Sandbox { sandbox, peer } => (Some(*peer), Some(sandbox.clone()), None),
            Self::Plugin {
                plugin,
                sandbox,
                peer,
            } => (Some(*peer), Some(sandbox.clone()), Some(plugin.clone())),
            Self::Supervisor => (None, None, None),
        };
        Whence {
            peer,
            sandbox,
            plugin,
            machine,
            agent: None,
            within: None,
            serves: None,
            user: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_decides_who_somebody_can_be() {
        let peer = Peer {
            pid: 1,
            uid: rustix::process::geteuid().as_raw(),
            started: 3,
        };
        let sandbox = SandboxId::new("box").unwrap();
        let who = |via: Via, name: &str| {
            Identity::of(&Visitor { peer, via }, &Hello::new(name, "1"), |_| None)
                .map(|identity| (identity.front(), identity.whence(None).sandbox))
                .map_err(|error| error.code)
        };
        for front in Front::ALL {
            let as_main = who(Via::Main, front.as_str());
            assert_eq!(as_main, Ok((Some(front), None)));
            let as_sandbox = who(Via::Sandbox(sandbox.clone()), front.as_str());
            if front == Front::Agent {
                assert_eq!(as_sandbox, Ok((Some(front), Some(sandbox.clone()))));
            } else {
                assert_eq!(as_sandbox, Err(code::REFUSED.into()), "{front}");
            }
        }
        let serves = |via: Via, name: &str| {
            let identity = Identity::of(&Visitor { peer, via }, &Hello::new(name, "1"), |_| None);
            identity.is_ok_and(|identity| identity.is_mcp_server())
        };
        assert!(serves(Via::Main, "mcp"));
        for (via, name) in [
            (Via::Sandbox(sandbox.clone()), "mcp"),
            (Via::Sandbox(sandbox.clone()), "agent"),
            (Via::Main, "cli"),
            (Via::Main, "bootstrap"),
        ] {
            assert!(!serves(via, name), "{name}");
        }
        assert_eq!(who(Via::Main, "bootstrap"), Ok((None, None)));
        for (via, name) in [
            (Via::Sandbox(sandbox), "bootstrap"),
            (Via::Main, "root"),
            (Via::Main, "CLI"),
            (Via::Main, "cli "),
        ] {
            assert_eq!(who(via, name), Err(code::REFUSED.into()), "{name}");
        }
    }

    #[test]
    fn another_user_is_never_at_the_command_line_nor_asks_for_the_person() {
        let peer = Peer {
            pid: 1,
            uid: rustix::process::geteuid().as_raw() + 1,
            started: 3,
        };
        let via = Via::Main;
        let visitor = Visitor { peer, via };
        for name in ["cli", "server", "bootstrap", "root"] {
            let refused = Identity::of(&visitor, &Hello::new(name, "1"), |_| None);
            assert_eq!(refused.unwrap_err().code, code::REFUSED, "{name}");
        }
        for name in ["agent", "mcp"] {
            let identity = Identity::of(&visitor, &Hello::new(name, "1"), |_| None).unwrap();
            assert!(!identity.is_person() && !identity.is_mcp_server(), "{name}");
            assert_eq!(identity.whence(None).peer, Some(peer));
        }
        // Processes of a sandbox run as whom the machine lets them; their socket says who they are.
        let sandbox = Via::Sandbox(SandboxId::new("box").unwrap());
        let visitor = Visitor { peer, via: sandbox };
        assert!(Identity::of(&visitor, &Hello::new("agent", "1"), |_| None).is_ok());
    }

    #[test]
    fn the_socket_of_a_plugin_is_that_plugin_and_nobody_else() {
        let peer = Peer {
            pid: 1,
            uid: 2,
            started: 3,
        };
        let sandbox = SandboxId::new("box").unwrap();
        let tickets = PluginName::new("tickets").unwrap();
        let who = |name: &str| {
            let via = Via::Sandbox(sandbox.clone());
            let visitor = Visitor { peer, via };
            let plugin_in = |inside: &SandboxId| (*inside == sandbox).then(|| tickets.clone());
            Identity::of(&visitor, &Hello::new(name, "1"), plugin_in)
        };
        let identity = who("tickets").unwrap();
        assert_eq!(identity.front(), Some(Front::Plugin));
        assert!(!identity.is_person() && !identity.is_mcp_server());
        let whence = identity.whence(None);
        assert_eq!(whence.plugin, Some(tickets.clone()));
        assert_eq!(whence.sandbox, Some(sandbox.clone()));
        for name in [
            "agent",
            "cli",
            "mcp",
            "server",
            "plugin",
            "bootstrap",
            "other",
            "",
        ] {
            assert_eq!(who(name).unwrap_err().code, code::REFUSED, "{name}");
        }
    }
}
