//! A plugin for each host, with one tool that keeps count of its calls.

use super::super::kernel::Place;
use super::super::plugin_grpc;
use crate::failure::Failure;
use airlock_audit::{EventType, Filter};
use airlock_kernel::{
    Call, Clock, DEFAULT_OUTPUT_BYTES, Front, Kernel, KernelConfig, Lifetime, Outcome,
};
use rustix::pty::{OpenptFlags, openpt};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Reads and calls of tools are allowed.
const POLICY: &str = "\
version: 1
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: call-tools
    match: { syscall: tool.call }
    action: allow
";

/// How often each call was run.
pub(super) type Counts = BTreeMap<String, usize>;

/// What runs a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    Grpc,
    Mcp,
    Wasm,
}

impl Host {
    pub(super) const ALL: [Self; 3] = [Self::Grpc, Self::Mcp, Self::Wasm];

    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Grpc => "a gRPC plugin in Go, reloaded under load",
            Self::Mcp => "an MCP server in Python, reloaded under load",
            Self::Wasm => "a Wasm plugin that asks the kernel, reloaded under load",
        }
    }

    pub(super) const fn plugin(self) -> &'static str {
        match self {
            Self::Grpc => "of-grpc",
            Self::Mcp => "of-mcp",
            Self::Wasm => "of-wasm",
        }
    }

    const fn execution(self) -> &'static str {
        match self {
            Self::Grpc => "{ tier: process, protocol: grpc, entry: bin/run }",
            Self::Mcp => "{ tier: process, protocol: mcp, entry: bin/run }",
            Self::Wasm => {
                "{ tier: wasm, entry: plugin.wasm, limits: { memory: 1MiB, instances: 3 } }"
            }
        }
    }

    /// Brings its plugin into the workspace's kernel, as a person who trusts both.
    pub(super) fn install(self, place: &Place) -> Result<(), Failure> {
        let source = place.path("source");
        self.write(&source, &place.path("cache"))?;
        fs::create_dir_all(place.path("work/.airlock"))?;
        fs::write(place.path("work/.airlock/policy.yaml"), POLICY)?;
        let kernel = open(place)?;
        let digest = kernel.workspace().trust()?.digest();
        approved(&kernel, "trust.approve", json!({ "digest": digest }))?;
        kernel.close()?;
        let kernel = open(place)?;
        let asked = json!({ "path": source, "tier": "process" });
        approved(&kernel, "plugin.install", asked)?;
        kernel.close()?;
        Ok(())
    }

    fn write(self, directory: &Path, cache: &Path) -> Result<(), Failure> {
        fs::create_dir_all(directory.join("bin"))?;
        let manifest = format!(
            "name: {}\nversion: 1.0.0\ntype: tool\ncapabilities: [\"filesystem.read.*\"]\nexecution: {}\n",
            self.plugin(),
            self.execution()
        );
        fs::write(directory.join("plugin.yaml"), manifest)?;
        let entry = directory.join("bin/run");
        match self {
            Self::Grpc => plugin_grpc::build(&entry, cache)?,
            Self::Mcp => {
                fs::write(&entry, include_str!("hit.py"))?;
                fs::set_permissions(&entry, Permissions::from_mode(0o755))?;
            }
            Self::Wasm => {
                fs::remove_dir(directory.join("bin"))?;
                let module = wat::parse_str(include_str!("hit.wat"))?;
                fs::write(directory.join("plugin.wasm"), module)?;
            }
        }
        Ok(())
    }

    /// How often each call was run, by the plugin's own count.
    pub(super) fn counted(self, place: &Place) -> Result<Counts, Failure> {
        let mut counts = Counts::new();
        match self {
            Self::Grpc | Self::Mcp => {
                let data = place.path("state/airlock/plugins/data").join(self.plugin());
                for line in fs::read_to_string(data.join("hits"))?.lines() {
                    *counts.entry(line.to_owned()).or_default() += 1;
                }
            }
            Self::Wasm => {
                let kernel = open(place)?;
                let filter = Filter {
                    event: Some(EventType::CapabilityCheck),
                    plugin: Some(self.plugin().to_owned()),
                    ..Filter::default()
                };
                for record in kernel.log().read(filter)? {
                    let metadata = record?.entry.metadata;
                    let capability = metadata.get("capability");
                    if let Some((_, id)) = capability.and_then(|name| name.rsplit_once("/h/")) {
                        *counts.entry(id.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        Ok(counts)
    }
}

fn open(place: &Place) -> Result<Kernel, Failure> {
    Ok(Kernel::open(KernelConfig {
        workspace: place.path("work"),
        state_home: place.path("state"),
        clock: Clock::system(),
        lifetime: Lifetime::Command,
        output_bytes: DEFAULT_OUTPUT_BYTES,
        search_threads: 2,
        worker: None,
    })?)
}

/// Submits what needs a person, who says yes.
fn approved(kernel: &Kernel, name: &str, arguments: serde_json::Value) -> Result<(), Failure> {
    let call = Call::new(name, arguments);
    let Outcome::NeedsReview(mut review) = kernel.submit(Front::Cli, &call) else {
        return Err(Failure::new(format!("{name} needs no review")));
    };
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    let person = kernel.person(&terminal, None)?;
    kernel.answer(person, &mut review, true)?;
    match kernel.submit(Front::Cli, &call) {
        Outcome::Done(_) => Ok(()),
        other @ (Outcome::NeedsReview(_) | Outcome::Denied(_) | Outcome::Failed(_)) => {
            Err(Failure::new(format!("{name}: {other:?}")))
        }
    }
}
