//! Rust: Cargo's caches and rustup's toolchains.
//!
//! Cargo works with a `CARGO_HOME` it cannot write: it goes without the lock of its package cache
//! and without tracking what was used when. So the real directories are shown at their own place,
//! one by one, because `credentials.toml` lies beside them.

use super::gate::{Gate, names_in, real, setting, text};
use crate::base::file_holds_secret;
use crate::looked;
use crate::plan::HostPath;
use std::ffi::OsStr;

pub(super) fn detect(gate: &mut Gate<'_>) {
    if let Some(program) = gate.program("cargo") {
        gate.found("cargo", &program, "PATH");
    }
    cargo(gate);
    rustup(gate);
}

fn cargo(gate: &mut Gate<'_>) {
    let Some((home, how)) = gate.directory("CARGO_HOME", &[".cargo"]) else {
        return;
    };
    let has = |name: &str| looked::exists(&home.as_path().join(name));
    if !has("bin") && !has("registry") && !has("git") {
        return;
    }
    gate.found("Cargo's caches", &home, how);
    let bin = home.join(OsStr::new("bin"));
    if gate.grant(&bin) {
        gate.search(&bin);
    }
    gate.pieces(&home, &["env", "registry/cache", "registry/src"]);
    gate.pieces(
        &home,
        &["registry/CACHEDIR.TAG", "git/CACHEDIR.TAG", "git/checkouts"],
    );
    repositories(gate, &home.join(OsStr::new("registry/index")));
    repositories(gate, &home.join(OsStr::new("git/db")));
    for name in ["config.toml", "config"] {
        settings(gate, &home.join(OsStr::new(name)));
    }
    gate.set("CARGO_HOME", home.as_os_str());
    if gate.offline() {
        gate.set("CARGO_NET_OFFLINE", "true");
    }
}

/// Grants what was cloned, but for what was cloned with a login in its address.
fn repositories(gate: &mut Gate<'_>, directory: &HostPath) {
    let all: Vec<HostPath> = names_in(directory)
        .iter()
        .map(|name| directory.join(name))
        .collect();
    if !all.iter().any(cloned_with_login) {
        gate.grant(directory);
        return;
    }
    for repository in all {
        if cloned_with_login(&repository) {
            gate.note(format!(
                "`{repository}` is left out: its address has a login"
            ));
        } else {
            gate.grant(&repository);
        }
    }
}

fn cloned_with_login(repository: &HostPath) -> bool {
    ["FETCH_HEAD", "config", ".git/FETCH_HEAD", ".git/config"]
        .iter()
        .map(|name| repository.as_path().join(name))
        .any(|file| looked::exists(&file) && file_holds_secret(&file))
}

fn settings(gate: &mut Gate<'_>, file: &HostPath) {
    if !looked::exists(file.as_path()) {
        return;
    }
    if file_holds_secret(file.as_path()) {
        gate.note(format!("`{file}` is left out: it mentions a secret"));
    } else {
        gate.grant(file);
    }
}

fn rustup(gate: &mut Gate<'_>) {
    let Some((home, how)) = gate.directory("RUSTUP_HOME", &[".rustup"]) else {
        return;
    };
    let toolchains = home.join(OsStr::new("toolchains"));
    if !gate.grant(&toolchains) {
        return;
    }
    gate.found("toolchains", &toolchains, how);
    for name in names_in(&toolchains) {
        let toolchain = toolchains.join(&name);
        let linked = real(&toolchain).filter(|real| !toolchains.holds(real));
        if linked.is_some_and(|real| looked::exists(&real.as_path().join("bin/rustc"))) {
            gate.grant(&toolchain);
        }
    }
    // rustup refuses to start where it can neither find nor make these two.
    let complete = ["settings.toml", "update-hashes"].map(|name| home.join(OsStr::new(name)));
    let complete = complete.iter().filter(|path| gate.grant(path)).count() == 2;
    gate.set("RUSTUP_HOME", home.as_os_str());
    if !complete {
        without_rustup(gate, &home, &toolchains);
    }
}

/// The default toolchain itself goes before rustup's stand-ins.
fn without_rustup(gate: &mut Gate<'_>, home: &HostPath, toolchains: &HostPath) {
    let chosen = text(&home.as_path().join("settings.toml"))
        .and_then(|settings| setting(&settings, "default_toolchain"))
        .map(Into::into);
    let names = names_in(toolchains);
    let chosen = chosen.filter(|name| names.contains(name));
    let Some(name) = chosen.or_else(|| names.first().cloned()) else {
        return;
    };
    let bin = toolchains.join(&name).join(OsStr::new("bin"));
    gate.note("rustup cannot choose a toolchain inside; the default is used directly");
    gate.search_first(&bin);
}
