//! What every sandbox on this machine sees: the system directories, without what is secret in them.
//!
//! Distributions differ: a directory may be missing, a symlink, or live in a store. [`detect`]
//! lists what is there, links as links, and hides what of `/etc` may hold keys or passwords.
//!
//! Not guaranteed: that nothing secret is left in a system directory. The table knows the usual
//! places; beyond it a file is protected by its own permissions, as for every user of the machine.
//! A link in `/etc` that leads out of what is visible (`resolv.conf` into `/run`) is broken inside.
//!
//! Invariant: nothing but the listed places and what their links lead to is ever listed, and
//! never a home directory.

mod identity;
mod secret;
mod table;
mod tree;

pub use identity::{IdentityFiles, identity_files};
pub(crate) use secret::file_holds_secret;
pub use table::{SECRETS, Secret, When};

use crate::generate::{Mask, SystemEntry};
use crate::launch::Base;
use crate::plan::HostPath;
use std::path::{Path, PathBuf};
use tree::{Kind, Tree};

/// What becomes of a place that is a symlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linked {
    /// It says the same inside: its target is another of the places, or nothing.
    AsItIs,
    /// It says where it finally leads, which must be in a store.
    IntoStore,
    /// It says the same, and what it leads to is seen too if it is this.
    To(&'static str),
}

/// System directories, a directory before what lies in it.
const PLACES: &[(&str, Linked)] = &[
    ("/usr", Linked::AsItIs),
    ("/usr/local", Linked::To("/var/usrlocal")),
    ("/bin", Linked::AsItIs),
    ("/sbin", Linked::AsItIs),
    ("/lib", Linked::AsItIs),
    ("/lib32", Linked::AsItIs),
    ("/lib64", Linked::AsItIs),
    ("/libx32", Linked::AsItIs),
    ("/etc", Linked::AsItIs),
    ("/opt", Linked::To("/var/opt")),
    ("/nix/store", Linked::AsItIs),
    ("/gnu/store", Linked::AsItIs),
    // Where openSUSE keeps the certificates `/etc/ssl/certs` leads to.
    ("/var/lib/ca-certificates", Linked::AsItIs),
    ("/run/current-system", Linked::IntoStore),
];

/// Directories whose every file is meant for every user.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];

/// What every sandbox sees of the system at `root`, which is `/` but for tests.
pub fn detect(root: &Path, home: &HostPath) -> Base {
    let tree = Tree::new(root);
    let system: Vec<SystemEntry> = PLACES
        .iter()
        .flat_map(|(place, linked)| entries(&tree, place, *linked))
        .collect();
    let masks = masks(&tree, &system);
    Base {
        system,
        masks,
        home: home.clone(),
    }
}

fn entries(tree: &Tree, place: &str, linked: Linked) -> Vec<SystemEntry> {
    let Ok(path) = HostPath::new(place) else {
        return Vec::new();
    };
    // `/usr/local` is part of `/usr`: only what a link there leads to is more.
    let part_of_usr = place == "/usr/local";
    match (tree.kind(path.as_path()), linked) {
        (Some(Kind::Directory), _) if part_of_usr => Vec::new(),
        (Some(Kind::Directory), _) => vec![SystemEntry::Existing(path)],
        (Some(Kind::Link(target)), Linked::AsItIs) => vec![SystemEntry::Link { path, target }],
        (Some(Kind::Link(_)), Linked::IntoStore) => stored(tree, path).into_iter().collect(),
        (Some(Kind::Link(target)), Linked::To(expected)) => {
            let seen = tree.resolve(path.as_path()).filter(|real| {
                real == Path::new(expected) && tree.kind(real) == Some(Kind::Directory)
            });
            let seen = seen.and_then(|real| HostPath::new(real).ok());
            let link = (!part_of_usr).then_some(SystemEntry::Link { path, target });
            link.into_iter()
                .chain(seen.map(SystemEntry::Existing))
                .collect()
        }
        (Some(Kind::File) | None, _) => Vec::new(),
    }
}

/// A link straight to where `path` finally leads, if that is in a store: what lies between is not
/// visible inside.
fn stored(tree: &Tree, path: HostPath) -> Option<SystemEntry> {
    let real = tree.resolve(path.as_path())?;
    STORES
        .iter()
        .any(|store| real.starts_with(store))
        .then(|| SystemEntry::Link {
            path,
            target: real.into_os_string(),
        })
}

/// Everything of the table that is there, by the name it is really reached under.
fn masks(tree: &Tree, system: &[SystemEntry]) -> Vec<Mask> {
    let mut found: Vec<PathBuf> = SECRETS
        .iter()
        .flat_map(|secret| {
            let there = tree.matching(Path::new(secret.path)).into_iter();
            there.filter(|path| match secret.when {
                When::There => true,
                When::HoldsSecret => tree.holds_secret(path),
            })
        })
        .filter_map(|path| tree.resolve(&path))
        .filter(|path| visible(system, path))
        .collect();
    found.sort();
    found.dedup();
    let all = found.clone();
    // What lies in a hidden directory is hidden with it, and no longer there to be mounted on.
    found.retain(|path| {
        !all.iter()
            .any(|outer| outer != path && path.starts_with(outer))
    });
    found
        .into_iter()
        .filter_map(|path| {
            let host = HostPath::new(&path).ok()?;
            match tree.kind(&path)? {
                Kind::Directory => Some(Mask::Directory(host)),
                Kind::File => Some(Mask::File(host)),
                Kind::Link(_) => None,
            }
        })
        .collect()
}

fn visible(system: &[SystemEntry], path: &Path) -> bool {
    system.iter().any(|entry| match entry {
        SystemEntry::Existing(place) => path.starts_with(place.as_path()),
        SystemEntry::Link { .. } => false,
    })
}
