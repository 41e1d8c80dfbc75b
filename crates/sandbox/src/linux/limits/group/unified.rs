//! Where in version 2 a cgroup can be made, and with which controllers.
//!
//! A cgroup that holds processes cannot give controllers to cgroups beneath it, and ours holds at
//! least us. So, in this order: our own, if it can already; our own, once we alone have stepped into
//! a leaf beneath it; an ancestor that was handed to us and already gives them. An ancestor's
//! settings are never changed: what else lives there is not ours.

use super::files;
use super::layout::{Controller, Place};
use crate::linux::limits::Stat;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A directory to make cgroups in, and what they will be able to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) directory: PathBuf,
    pub(super) controllers: Vec<Controller>,
}

const WANTED: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

/// The leaf a supervisor that is alone in its cgroup steps into.
pub(super) const LEAF: &str = "airlock-supervisor";

/// The best base there is; reasons where it falls short.
pub(super) fn base(place: &Place, own_pid: u32) -> (Option<Base>, Vec<String>) {
    let mut why_not = Vec::new();
    let mut best: Option<Base> = None;
    for directory in ancestors(place) {
        if let Err(error) = usable(directory) {
            let shown = directory.display();
            why_not.push(format!("no cgroup can be made in `{shown}`: {error}"));
            continue;
        }
        if directory == place.directory {
            enable(directory, own_pid, &mut why_not);
        }
        let controllers = named_in(directory, "cgroup.subtree_control");
        let better = best
            .as_ref()
            .is_none_or(|best| controllers.len() > best.controllers.len());
        if better {
            best = Some(Base {
                directory: directory.to_owned(),
                controllers,
            });
        }
        if best
            .as_ref()
            .is_some_and(|best| best.controllers.len() == WANTED.len())
        {
            break;
        }
    }
    (best, why_not)
}

/// Our own cgroup and those above it, up to the mount point.
fn ancestors(place: &Place) -> impl Iterator<Item = &Path> {
    let inside = |directory: &&Path| directory.starts_with(&place.mount);
    place.directory.ancestors().take_while(inside)
}

/// Whether a process can be moved into a cgroup made here; making it is tried when it is made.
fn usable(directory: &Path) -> io::Result<()> {
    // Absent in the root, which is a domain.
    match fs::read(directory.join("cgroup.type")) {
        Ok(kind) if kind.trim_ascii() != b"domain" => {
            return Err(io::Error::other("it is for threads"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK)?;
    // Moving a process needs this of the ancestor the old and the new cgroup have in common.
    fs::OpenOptions::new()
        .write(true)
        .open(directory.join("cgroup.procs"))
        .map(drop)
}

/// Turns on for the cgroups beneath what is there and not on yet.
fn enable(directory: &Path, own_pid: u32, why_not: &mut Vec<String>) {
    let given = named_in(directory, "cgroup.controllers");
    let already = named_in(directory, "cgroup.subtree_control");
    let missing = || given.iter().filter(|one| !already.contains(one));
    let turn_on = |controller: &Controller| {
        let word = format!("+{}", controller.name());
        files::write(&directory.join("cgroup.subtree_control"), &word)
    };
    let busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
    let mut stepped = false;
    for controller in missing() {
        let mut done = turn_on(controller);
        if done.as_ref().is_err_and(busy) && !stepped {
            stepped = true;
            if step_into_leaf(directory, own_pid).is_ok_and(|alone| alone) {
                done = turn_on(controller);
            }
        }
        if let Err(error) = done {
            why_not.push(format!(
                "the controller `{}` cannot be turned on in `{}`: {error}",
                controller.name(),
                directory.display()
            ));
        }
    }
}

/// Moves this process into a leaf, if nobody is in `directory` but it and its children, such as sandboxes
/// that are being made. Those go with it.
pub(super) fn step_into_leaf(directory: &Path, own_pid: u32) -> io::Result<bool> {
    let all = files::pids(&directory.join("cgroup.procs"))?;
    let is_child =
        |pid: u32| Stat::read(Path::new("/proc"), pid).is_ok_and(|stat| stat.parent == own_pid);
    let (own, others): (Vec<u32>, Vec<u32>) = all.into_iter().partition(|pid| *pid == own_pid);
    if own.is_empty() || !others.iter().all(|pid| is_child(*pid)) {
        return Ok(false);
    }
    let leaf = directory.join(LEAF);
    match files::make(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let procs = leaf.join("cgroup.procs");
    for child in others {
        // One that ended meanwhile is in nobody's way; one that stays is told by what cannot be turned on.
        let _moved = files::write(&procs, &child.to_string());
    }
    files::write(&procs, &own_pid.to_string()).map(|()| true)
}

/// The wanted controllers a file names.
fn named_in(directory: &Path, file: &str) -> Vec<Controller> {
    let text = fs::read(directory.join(file)).unwrap_or_default();
    let names: Vec<&[u8]> = text.split(u8::is_ascii_whitespace).collect();
    let is_named = |one: &Controller| names.contains(&one.name().as_bytes());
    WANTED.iter().copied().filter(is_named).collect()
}
