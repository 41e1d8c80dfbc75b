//! Node: an interpreter outside the system directories, from whichever manager.
//!
//! Of an installation only programs and libraries are read: `etc/npmrc` beside them may hold a
//! token, as `~/.npmrc` does. Dependencies are those in the workspace's `node_modules`.

use super::Content;
use super::gate::{Gate, above, is_system, names_in, real, text};
use super::managers::{self, is_plain, numbers};
use crate::looked;
use crate::plan::HostPath;
use std::ffi::OsStr;

/// Of an installation.
const INSTALLATION: [&str; 4] = ["bin", "lib", "include", "share"];
/// npm's settings inside. The variables of the same meaning never pass into a sandbox.
const QUIET: &str = "update-notifier=false\nfund=false\naudit=false\n";
const OFFLINE: &str = "offline=true\n";

pub(super) fn detect(gate: &mut Gate<'_>) {
    let installations = installations(gate);
    let mut any = false;
    for (home, how) in installations {
        if !looked::exists(&home.as_path().join("bin/node")) {
            continue;
        }
        // The first is the one that is used; the others are not even shown.
        if is_system(&home) {
            gate.found("node", &home.join(OsStr::new("bin/node")), how);
        } else if gate.pieces(&home, &INSTALLATION) {
            gate.found("node", &home, how);
            gate.search(&home.join(OsStr::new("bin")));
        } else {
            continue;
        }
        any = true;
        break;
    }
    any |= others(gate);
    if any {
        let offline = if gate.offline() { OFFLINE } else { "" };
        gate.put(".npmrc", Content::File(format!("{QUIET}{offline}")));
    }
}

/// Where node is installed, the one in use first.
fn installations(gate: &mut Gate<'_>) -> Vec<(HostPath, &'static str)> {
    let mut found = Vec::new();
    let on_path = gate.program("node").and_then(|program| above(&program, 2));
    // A stand-in of a manager is no installation, and falls out for having no libraries beside it.
    let installed = |home: &HostPath| {
        is_system(home) || looked::exists(&home.as_path().join("lib/node_modules"))
    };
    found.extend(on_path.filter(installed).map(|home| (home, "PATH")));
    found.extend(volta(gate).map(|home| (home, "Volta")));
    let managed = managers::chosen(gate, &["nodejs", "node"]);
    found.extend(managed.map(|home| (home, "version manager")));
    found.extend(nvm(gate).map(|home| (home, "nvm")));
    found.extend(fnm(gate).map(|home| (home, "fnm")));
    let n = gate.directory("N_PREFIX", &["n"]);
    found.extend(n.map(|(home, _)| (home, "n")));
    found
}

/// Volta's default; its stand-ins want to write a lock.
fn volta(gate: &mut Gate<'_>) -> Option<HostPath> {
    let (root, _) = gate.directory("VOLTA_HOME", &[".volta"])?;
    let platform = text(&root.as_path().join("tools/user/platform.json"))?;
    let platform: serde_json::Value = serde_json::from_str(&platform).ok()?;
    let version = platform.pointer("/node/runtime")?.as_str()?;
    is_plain(version).then(|| {
        root.join(OsStr::new("tools/image/node"))
            .join(OsStr::new(version))
    })
}

/// The version nvm's default names, or the last.
fn nvm(gate: &mut Gate<'_>) -> Option<HostPath> {
    let (root, _) = gate.directory("NVM_DIR", &[".nvm", ".config/nvm"])?;
    let versions = root.join(OsStr::new("versions/node"));
    let wanted = text(&root.as_path().join("alias/default"));
    let wanted = wanted.map(|text| text.trim().trim_start_matches('v').to_owned());
    let names = names_in(&versions);
    let fits = |name: &OsStr, wanted: &str| {
        let name = name.to_string_lossy();
        let name = name.trim_start_matches('v');
        name == wanted || name.starts_with(&format!("{wanted}."))
    };
    let last = |fitting: &dyn Fn(&OsStr) -> bool| {
        let fitting = names.iter().filter(|name| fitting(name));
        fitting.max_by_key(|name| numbers(name)).cloned()
    };
    let name = wanted
        .and_then(|wanted| last(&|name| fits(name, &wanted)))
        .or_else(|| last(&|_| true))?;
    Some(versions.join(&name))
}

/// The version fnm's default names, or the last.
fn fnm(gate: &mut Gate<'_>) -> Option<HostPath> {
    let (root, _) = gate.directory("FNM_DIR", &[".local/share/fnm", ".fnm"])?;
    let versions = root.join(OsStr::new("node-versions"));
    let default = real(&root.join(OsStr::new("aliases/default")));
    let default = default.filter(|real| root.holds(real));
    default.or_else(|| {
        let names = names_in(&versions);
        let last = names.iter().max_by_key(|name| numbers(name))?;
        Some(versions.join(last).join(OsStr::new("installation")))
    })
}

/// Runtimes and package managers that are one program each.
fn others(gate: &mut Gate<'_>) -> bool {
    let mut any = false;
    for (what, directory, program) in [
        ("bun", ".bun/bin", "bun"),
        ("deno", ".deno/bin", "deno"),
        ("pnpm", ".local/share/pnpm", "pnpm"),
    ] {
        let Some(directory) = gate.at_home(directory) else {
            continue;
        };
        let program = directory.join(OsStr::new(program));
        if looked::is_file(program.as_path()) && gate.grant(&program) {
            gate.found(what, &program, "usual place");
            gate.search(&directory);
            any = true;
        }
    }
    any
}
