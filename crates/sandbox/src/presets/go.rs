//! Go: the toolchain and the module cache.
//!
//! Go reads a module cache it cannot write, as long as a module was unpacked before. What was
//! cloned (`cache/vcs`) stays out: a clone's settings may have a login in an address.

use super::Content;
use super::gate::{Gate, above, is_system, names_in, setting, text};
use crate::looked;
use crate::plan::HostPath;
use std::ffi::OsStr;

/// Where builds are cached inside.
const BUILD_CACHE: &str = "/tmp/go-build";

pub(super) fn detect(gate: &mut Gate<'_>) {
    let Some(root) = toolchain(gate) else {
        return;
    };
    if !is_system(&root) {
        gate.grant(&root);
        gate.search(&root.join(OsStr::new("bin")));
    }
    let toolchains = modules(gate);
    gate.set("GOCACHE", BUILD_CACHE);
    if !toolchains {
        gate.set("GOTOOLCHAIN", "local");
    }
    if gate.offline() {
        // The variable itself is one that never passes into a sandbox.
        gate.put(".config/go/env", Content::File("GOPROXY=off\n".to_owned()));
    }
}

/// The root of the toolchain, by `PATH`, a version manager or `GOROOT`.
fn toolchain(gate: &mut Gate<'_>) -> Option<HostPath> {
    let managed = super::managers::chosen(gate, &["golang", "go"]);
    let managed = managed.into_iter().flat_map(|install| {
        let inner = install.join(OsStr::new("go"));
        [(install, "version manager"), (inner, "version manager")]
    });
    let on_path = gate.program("go").and_then(|program| above(&program, 2));
    let named = gate.variable("GOROOT");
    let candidates = named
        .map(|root| (root, "GOROOT"))
        .into_iter()
        .chain(managed)
        .chain(on_path.map(|root| (root, "PATH")));
    for (root, how) in candidates.collect::<Vec<_>>() {
        if is_toolchain(&root) {
            gate.found("go", &root, how);
            return Some(root);
        }
    }
    // `/usr/bin/go` may be a script that leads on.
    let program = gate.program("go").filter(is_system)?;
    gate.found("go", &program, "PATH");
    Some(program)
}

fn is_toolchain(root: &HostPath) -> bool {
    let has = |name: &str| looked::exists(&root.as_path().join(name));
    has("bin/go") && has("src/runtime") && has("VERSION")
}

/// Grants the module cache; whether it holds toolchains to choose from.
fn modules(gate: &mut Gate<'_>) -> bool {
    let settings = gate.at_home(".config/go/env");
    let settings = settings.and_then(|file| text(file.as_path()));
    let set = |key: &str| {
        let value = settings.as_deref().and_then(|text| setting(text, key))?;
        HostPath::new(value).ok()
    };
    let beneath = |path: HostPath| path.join(OsStr::new("pkg/mod"));
    let cache = gate
        .variable("GOMODCACHE")
        .or_else(|| set("GOMODCACHE"))
        .or_else(|| gate.variable("GOPATH").map(beneath))
        .or_else(|| set("GOPATH").map(beneath))
        .or_else(|| gate.at_home("go/pkg/mod"));
    let Some(cache) = cache else {
        return false;
    };
    let download = cache.join(OsStr::new("cache/download"));
    if !looked::is_dir(download.as_path()) || !gate.grant(&download) {
        return false;
    }
    gate.found("module cache", &cache, "go");
    for name in names_in(&cache) {
        // Modules lie beneath a host's name, which has a dot, or have a version.
        let module = name
            .as_encoded_bytes()
            .iter()
            .any(|byte| b".@".contains(byte));
        if module && !name.as_encoded_bytes().starts_with(b".") {
            gate.grant(&cache.join(&name));
        }
    }
    gate.set("GOMODCACHE", cache.as_os_str());
    names_in(&cache.join(OsStr::new("golang.org")))
        .iter()
        .any(|name| name.as_encoded_bytes().starts_with(b"toolchain@"))
}
