//! A plugin in Python, in a workspace, on a machine.

use crate::support::{Place, approved, done};
use airlock_kernel::{Done, Hosting, Kernel, Machine};
use airlock_plugin::Hosts;
use airlock_plugin_mcp::McpHost;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const SCRIPT: &str = include_str!("server.py");

/// Calls of tools are allowed to agents, those of one are not; reading is.
pub(crate) const TOOLS: &str = "\
version: 1
approvals: { automatic: [AG-01] }
rules:
  - name: read-all
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: call-tools
    match: { syscall: tool.call }
    action: allow
  - name: leave-it-alive
    match: { tool: tickets.die, plugin: mcp }
    action: deny
    reason: it should live
  - name: keep-private
    match: { effect: read, path_glob: \"private/**\" }
    action: deny
    reason: private stays private
";

pub(crate) fn manifest(more: &str) -> String {
    format!(
        "name: tickets\nversion: 1.0.0\ntype: tool\nexecution:\n  tier: process\n  protocol: mcp\n  entry: bin/run\n{more}"
    )
}

/// Writes a plugin to `directory`.
pub(crate) fn write(directory: &Path, manifest: &str, script: &str) {
    let entry = directory.join("bin/run");
    fs::create_dir_all(entry.parent().unwrap()).unwrap();
    fs::write(directory.join("plugin.yaml"), manifest).unwrap();
    fs::write(&entry, script).unwrap();
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A kernel that can run programs.
pub(crate) fn open(place: &Place) -> Kernel {
    fs::create_dir_all(place.beside("home")).unwrap();
    let hosting = Hosting::new(|boxes| Hosts {
        mcp: Some(Arc::new(McpHost::new(Arc::clone(boxes)))),
        ..Hosts::default()
    });
    let machine = Machine {
        home: place.beside("home"),
        own: vec![place.beside("state")],
        environment: BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]),
    };
    place.open().on(machine).hosting(hosting)
}

/// A workspace, and the plugin's directory beside it.
pub(crate) fn place() -> (Place, PathBuf) {
    let place = Place::governed(TOOLS, &[("a.txt", "a\n"), ("private/key", "k\n")]);
    let directory = place.beside("source");
    write(&directory, &manifest(""), SCRIPT);
    (place, directory)
}

pub(crate) fn install(kernel: &Kernel, directory: &Path) -> Done {
    done(approved(kernel, "plugin.install", asked(directory)))
}

pub(crate) fn asked(directory: &Path) -> Value {
    json!({ "path": directory, "tier": "process" })
}

/// What the plugin wrote to its data.
pub(crate) fn data(place: &Place) -> PathBuf {
    place.beside("state/airlock/plugins/data/tickets")
}

pub(crate) fn calls(place: &Place) -> usize {
    let text = fs::read_to_string(data(place).join("calls")).unwrap_or_default();
    text.lines().count()
}
