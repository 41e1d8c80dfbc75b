//! The capabilities Airlock itself knows. Data for warnings and documentation: a capability outside
//! the table is legal, it is just more often a typing mistake than a plan.

use super::Pattern;
use std::sync::LazyLock;

/// One row of [`FAMILIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// What belongs to it.
    pub pattern: &'static str,
    /// What holding it permits.
    pub meaning: &'static str,
}

const fn family(pattern: &'static str, meaning: &'static str) -> Family {
    Family { pattern, meaning }
}

/// Every family there is.
pub const FAMILIES: &[Family] = &[
    family("sessions.read", "read any session of the workspace"),
    family("sessions.read.self", "read the caller's own session"),
    family("sessions.write", "change any session of the workspace"),
    family("sessions.write.self", "change the caller's own session"),
    family("messages.send.*", "send messages to the channel named"),
    family("messages.receive", "receive messages"),
    family("exec.run", "run programs in a sandbox"),
    family("exec.run.sandboxed", "run programs in a sandbox"),
    family(
        "exec.shell.sandboxed",
        "run shell command lines in a sandbox",
    ),
    family("exec.container", "run containers"),
    family(
        "config.read.*",
        "read configuration: `self`, `global` or a plugin's",
    ),
    family(
        "config.write.*",
        "change configuration: `self`, `global` or a plugin's",
    ),
    family(
        "filesystem.read./**",
        "read files at the absolute path named",
    ),
    family(
        "filesystem.read.~/**",
        "read files at the path in the user's home, in a plugin's manifest",
    ),
    family(
        "filesystem.write./**",
        "write files at the absolute path named",
    ),
    family(
        "filesystem.write.~/**",
        "write files at the path in the user's home, in a plugin's manifest",
    ),
    family("kv.*", "use the plugin's key-value store"),
    family("tool.*", "call the tool named"),
    family("provider.chat", "ask a model"),
    family("network.connect.*", "connect to the host named"),
    family("secret.use.*", "use the stored secret named"),
    family("storage.*", "use the plugin's storage"),
    family(
        "merge.apply",
        "merge a stage into the tree, or undo a merge",
    ),
    family("plugin.*", "manage plugins"),
    family("policy.*", "change policy, under review"),
    family("approvals.decide", "answer approval requests"),
    family("approvals.read", "look at approval requests and grants"),
    family("trust.manage", "approve a workspace's own files"),
    family("stage.read", "look at stages"),
    family("stage.manage", "drop stages"),
    family("audit.read", "read the audit log"),
    family("kernel.stop", "end a kernel that stays"),
];

/// Whether `text`, a capability or a pattern, belongs to a known family or takes one in whole.
/// Malformed text belongs to none.
pub fn known_family(text: &str) -> bool {
    static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
        FAMILIES
            .iter()
            .filter_map(|family| Pattern::parse(family.pattern).ok())
            .collect()
    });
    Pattern::parse(text).is_ok_and(|pattern| {
        PATTERNS
            .iter()
            .any(|known| known.covers(&pattern) || pattern.covers(known))
    })
}
