//! A caller for unit tests.

use airlock_core::Caller;

/// Ada, who calls as `plugin`, in no session and out of no sandbox.
pub(crate) fn some_caller(plugin: &str) -> Caller {
    Caller {
        tenant: "local".parse().unwrap(),
        user: "ada".parse().unwrap(),
        workspace: "work".parse().unwrap(),
        session: None,
        plugin: plugin.parse().unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    }
}
