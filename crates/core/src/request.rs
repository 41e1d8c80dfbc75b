//! One request as the decision sees it, and the capabilities it needs.

use crate::{Caller, CapabilityForm, EffectSet, RequestPath, Syscall, Tier};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything a decision may look at. Built by the validate step; plain data afterwards.
///
/// Serialised it is the *decision input* of an audit record: `arguments` stay out of it, because
/// they may hold file contents and secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What is asked.
    pub syscall: Syscall,
    /// What it does; at least the table's effects, more where a tool declares more.
    pub effects: EffectSet,
    /// Every path it touches, real targets of symlinks included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RequestPath>,
    /// The host it connects to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// The port it connects to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The argument vector it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<Arc<str>>,
    /// The tool, `<plugin>.<tool>` for a plugin's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    /// The secret it uses, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Arc<str>>,
    /// Where it would run.
    pub tier: Tier,
    /// The sandbox template it would run under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Arc<str>>,
    /// The largest file it would write, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size: Option<u64>,
    /// The validated arguments, for rules on `arg`.
    #[serde(skip)]
    pub arguments: serde_json::Value,
    /// Who asks.
    pub caller: Caller,
}

/// The capabilities a request needs: all of them.
pub type Needs = Vec<String>;

impl Request {
    /// A request for `syscall` by `caller` with nothing else filled in.
    pub fn new(syscall: Syscall, tier: Tier, caller: Caller) -> Self {
        Self {
            syscall,
            effects: syscall.spec().effects,
            paths: Vec::new(),
            host: None,
            port: None,
            command: Vec::new(),
            tool: None,
            secret: None,
            tier,
            template: None,
            file_size: None,
            arguments: serde_json::Value::Null,
            caller,
        }
    }

    /// The capabilities this request needs, in a workspace whose absolute root is `root`.
    ///
    /// Empty means that a detail the syscall must carry is missing: such a request needs what
    /// nobody can have and must be refused.
    pub fn needs(&self, root: &str) -> Needs {
        let with = |name: &str, detail: Option<&Arc<str>>| {
            detail
                .map(|detail| format!("{name}.{detail}"))
                .into_iter()
                .collect()
        };
        match self.syscall.spec().capability {
            CapabilityForm::Fixed(name) => vec![name.to_owned()],
            CapabilityForm::Path(name) => self
                .paths
                .iter()
                .map(|path| format!("{name}.{}", path.absolute(root)))
                .collect(),
            CapabilityForm::Host(name) => self
                .host
                .as_deref()
                .and_then(crate::canonical_host)
                .map(|host| format!("{name}.{host}"))
                .into_iter()
                .collect(),
            CapabilityForm::Secret(name) => with(name, self.secret.as_ref()),
            CapabilityForm::Tool(name) => with(name, self.tool.as_ref()),
        }
    }
}
