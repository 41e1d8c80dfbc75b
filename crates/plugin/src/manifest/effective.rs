//! A manifest as it is in force, defaults filled in: what `airlock plugin show` prints.

use super::{Execution, Kind, Manifest, Protocol, SandboxAsk, WasmLimits};
use crate::tool::ToolDescription;
use airlock_core::{Span, Tier};
use serde_json::{Map, Value, json};
use std::time::Duration;

impl Manifest {
    /// Every value in force, defaults included, in the words of the file.
    pub fn effective(&self) -> Value {
        let dependencies: Map<String, Value> = self
            .dependencies
            .iter()
            .map(|(name, wanted)| (name.to_string(), json!(wanted.to_string())))
            .collect();
        json!({
            "name": self.name.as_str(),
            "version": self.version.to_string(),
            "type": self.kind.as_str(),
            "engine": self.engine.to_string(),
            "api_version": self.api_version,
            "license": self.license,
            "capabilities": self.capabilities,
            "deny_capabilities": self.deny_capabilities,
            "execution": (self.kind != Kind::Skill).then(|| execution(&self.execution)),
            "config_schema": self.config_schema,
            "dependencies": dependencies,
            "tags": self.tags,
            "lifecycle": {
                "hot_reload": self.lifecycle.hot_reload,
                "graceful_shutdown_timeout": time(self.lifecycle.graceful_shutdown_timeout),
            },
            "tools": self.tools.iter().map(|tool| self.tool(tool)).collect::<Vec<_>>(),
        })
    }

    fn tool(&self, tool: &ToolDescription) -> Value {
        let mut out = json!(tool);
        if let (Some(fields), Some(effects)) = (out.as_object_mut(), self.effects.get(&tool.name)) {
            fields.insert("effects".to_owned(), json!(effects));
        }
        out
    }
}

fn execution(execution: &Execution) -> Value {
    let mut out = json!({
        "tier": execution.tier.as_str(),
        "protocol": execution.protocol.as_str(),
        "entry": execution.entry,
    });
    let Some(fields) = out.as_object_mut() else {
        return out;
    };
    if execution.tier == Tier::Wasm {
        fields.insert("limits".to_owned(), limits(&execution.limits));
    } else {
        fields.insert("arguments".to_owned(), json!(execution.arguments));
        fields.insert("sandbox".to_owned(), sandbox(&execution.sandbox));
    }
    if execution.protocol == Protocol::Grpc {
        fields.insert("tls".to_owned(), json!(execution.tls));
    }
    if let Some(image) = &execution.image {
        fields.insert("image".to_owned(), json!(image));
    }
    out
}

fn sandbox(ask: &SandboxAsk) -> Value {
    json!({
        "template": ask.template,
        "filesystem": {
            "read_allow": ask.read_allow,
            "write_allow": ask.write_allow,
            "read_deny": ask.read_deny,
        },
        "network": { "allow": ask.network, "proxy": ask.proxy },
        "memory_limit": ask.memory_limit.map(|size| size.to_string()),
    })
}

fn limits(limits: &WasmLimits) -> Value {
    json!({
        "fuel": limits.fuel,
        "deadline": time(limits.deadline),
        "memory": limits.memory.to_string(),
        "tables": limits.tables,
        "stack": limits.stack.to_string(),
        "instances": limits.instances,
    })
}

fn time(time: Duration) -> String {
    Span::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).to_string()
}
