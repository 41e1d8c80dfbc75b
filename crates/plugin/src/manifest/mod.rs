//! What a plugin is and asks for.
//!
//! Guarantee: a [`Manifest`] that was read is well-formed in every part: names, versions, patterns,
//! paths, hosts, sizes and schemas were checked, and nothing in the file was passed over. Every
//! problem of a file is told at once, with its place. Non-guarantee: what it asks for is a request;
//! what it gets is decided elsewhere, and whether the file may be believed at all is a person's
//! word.

mod effective;
mod execution;
mod read;
mod values;

pub use read::is_tool_name;

use crate::tool::ToolDescription;
use airlock_core::{ByteSize, EffectSet, PluginName, Tier};
use semver::{Version, VersionReq};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A checked manifest: one type for the runtime and for whoever writes plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Its name, unique among plugins.
    pub name: PluginName,
    /// Its version.
    pub version: Version,
    /// What it is for.
    pub kind: Kind,
    /// The versions of Airlock it works with.
    pub engine: VersionReq,
    /// The version of the plugin interface it was written for.
    pub api_version: u32,
    /// Its licence.
    pub license: Option<String>,
    /// Capability patterns it asks for.
    pub capabilities: Vec<String>,
    /// Capability patterns it does without, whatever it is granted.
    pub deny_capabilities: Vec<String>,
    /// How it runs.
    pub execution: Execution,
    /// JSON Schema of its configuration.
    pub config_schema: Option<Value>,
    /// Plugins it needs.
    pub dependencies: BTreeMap<PluginName, VersionReq>,
    /// Words it is found by.
    pub tags: Vec<String>,
    /// How it comes and goes.
    pub lifecycle: LifecycleSettings,
    /// Tools it describes here. One that describes them when it runs must say the same.
    pub tools: Vec<ToolDescription>,
    /// What tools say here that they do, by name. Whatever they say, they run code: this only ever
    /// adds to that.
    pub effects: BTreeMap<String, EffectSet>,
}

/// The file in a plugin's directory that says what it is.
pub const MANIFEST: &str = "plugin.yaml";
/// The version of the plugin interface there is now.
pub const API_VERSION: u32 = 2;

/// What a plugin is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A model backend.
    Provider,
    /// A messaging bridge.
    Channel,
    /// Tools for agents.
    Tool,
    /// Instructions and resources without code.
    Skill,
}

/// What it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// go-plugin over gRPC.
    Grpc,
    /// MCP over its standard streams.
    Mcp,
    /// The interface of Wasm plugins.
    Wasm,
}

/// How it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Where.
    pub tier: Tier,
    /// What it speaks.
    pub protocol: Protocol,
    /// The program or module, relative to the plugin's directory.
    pub entry: String,
    /// Arguments for the program.
    pub arguments: Vec<String>,
    /// Whether the connection to a gRPC plugin is secured by mutual TLS. Such a plugin is not spoken
    /// to without.
    pub tls: bool,
    /// What its sandbox is to have.
    pub sandbox: SandboxAsk,
    /// What a Wasm plugin may use.
    pub limits: WasmLimits,
    /// The image of a container.
    pub image: Option<String>,
}

/// What a plugin's sandbox is to have beyond the base. Paths are absolute, or begin with `~/` or
/// `self/`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxAsk {
    /// The template it is made from.
    pub template: Option<String>,
    /// What it may read.
    pub read_allow: Vec<String>,
    /// What it may write, and read.
    pub write_allow: Vec<String>,
    /// What it may not read, whatever else is granted.
    pub read_deny: Vec<String>,
    /// Hosts with ports it may reach.
    pub network: Vec<String>,
    /// Whether it reaches them through the proxy.
    pub proxy: bool,
    /// Memory for all its processes together.
    pub memory_limit: Option<ByteSize>,
}

/// What a Wasm plugin may use. The defaults are in force where a manifest says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WasmLimits {
    /// Units of work in one call.
    pub fuel: u64,
    /// Time one call may take.
    pub deadline: Duration,
    /// Bytes of each linear memory.
    pub memory: ByteSize,
    /// Elements of each table.
    pub tables: u32,
    /// Bytes of stack.
    pub stack: ByteSize,
    /// Instances alive at once.
    pub instances: u32,
}

/// How a plugin comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifecycleSettings {
    /// Whether a new version may take over while it runs.
    pub hot_reload: bool,
    /// How long it has to end by itself.
    pub graceful_shutdown_timeout: Duration,
}

impl Kind {
    /// The words manifests use.
    pub(crate) const WORDS: &'static [(&'static str, Self)] = &[
        ("provider", Self::Provider),
        ("channel", Self::Channel),
        ("tool", Self::Tool),
        ("skill", Self::Skill),
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Channel => "channel",
            Self::Tool => "tool",
            Self::Skill => "skill",
        }
    }
}

impl Protocol {
    /// The words manifests use.
    pub(crate) const WORDS: &'static [(&'static str, Self)] = &[
        ("grpc", Self::Grpc),
        ("mcp", Self::Mcp),
        ("wasm", Self::Wasm),
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Mcp => "mcp",
            Self::Wasm => "wasm",
        }
    }
}

/// The template that plugins' boxes are made from.
pub(crate) const TEMPLATE: &str = "code-executor";

impl Manifest {
    /// What it does without that takes `right` of `path`, or of something below it, from it.
    pub fn denial(&self, right: &str, path: &str) -> Option<&str> {
        values::denial(&self.deny_capabilities, right, path)
    }

    /// The most memory that one of its calls can take: that of its box, or of an instance in Wasm.
    pub fn memory(&self) -> ByteSize {
        if self.execution.tier == Tier::Wasm {
            return self.execution.limits.memory;
        }
        let asked = self.execution.sandbox.memory_limit;
        asked.unwrap_or_else(box_memory)
    }
}

/// The most memory the box of a plugin can have.
pub(crate) fn box_memory() -> ByteSize {
    let template = airlock_sandbox::Template::find(TEMPLATE);
    // Without the template nothing starts.
    template.map_or(ByteSize::from_bytes(u64::MAX), |one| one.limits.memory)
}

impl WasmLimits {
    /// The most memory that all instances of a plugin have together: what its box has room for.
    pub const POOL: ByteSize = ByteSize::from_bytes(64 << 20);
    /// The most calls at once: the box has five threads, of which one reads and one keeps time.
    pub const CALLS: u32 = 3;
    /// The most elements of tables.
    pub const TABLES: u32 = 100_000;
    /// The largest stack.
    pub const STACK: ByteSize = ByteSize::from_bytes(1 << 20);
    /// The longest deadline.
    pub const DEADLINE: Duration = Duration::from_mins(10);

    /// How many instances with so much memory there is room for.
    pub fn fit(memory: ByteSize) -> u32 {
        let fit = Self::POOL.as_bytes() / memory.as_bytes().max(1);
        u32::try_from(fit).map_or(Self::CALLS, |fit| fit.clamp(1, Self::CALLS))
    }

    /// What holds where a manifest says nothing: enough for a text tool, not for a miner.
    pub const USUAL: Self = Self {
        fuel: 1_000_000_000,
        deadline: Duration::from_secs(10),
        memory: ByteSize::from_bytes(64 << 20),
        tables: 10_000,
        stack: ByteSize::from_bytes(512 << 10),
        instances: 1,
    };
}

impl SandboxAsk {
    /// The paths it asks for outside of its own data, each with every capability that it takes: what
    /// can be written in a box can be read there as well.
    pub fn rights(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let written = self.write_allow.iter();
        let also_read = written
            .clone()
            .filter(move |path| !self.read_allow.contains(path));
        let reads = self.read_allow.iter().chain(also_read);
        let reads = reads.map(|path| ("filesystem.read", path));
        let writes = written.map(|path| ("filesystem.write", path));
        // Its own data is its own.
        let is_own = |path: &str| path.starts_with("self/");
        reads.chain(writes).filter(move |(_, path)| !is_own(path))
    }
}

impl LifecycleSettings {
    /// What holds where a manifest says nothing.
    pub const USUAL: Self = Self {
        hot_reload: true,
        graceful_shutdown_timeout: Duration::from_secs(30),
    };
}
