//! Landlock rules: a second wall, independent of mounts.

use super::program::Ruleset;
use super::resolve::Kind;

/// What may be done beneath a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// Listing directories.
    List,
    /// Reading and running.
    Read,
    /// Everything but devices.
    Write,
    /// Reading and writing devices that are there: `/dev`.
    Devices,
}

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const MAKE_CHARACTER_DEVICE: u64 = 1 << 6;
const MAKE_BLOCK_DEVICE: u64 = 1 << 11;
const TRUNCATE: u64 = 1 << 14;
const DEVICE_CONTROL: u64 = 1 << 15;

/// What a rule for something other than a directory may speak of.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL;

/// Everything `version` governs of files.
const fn governed(version: u32) -> u64 {
    let bits = match version {
        0 => 0,
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

/// Everything is governed that `version` can govern, so that what no rule allows is refused.
pub(super) const fn ruleset(version: u32) -> Ruleset {
    Ruleset {
        files: governed(version),
        // Binding and connecting.
        network: if version >= 4 { 3 } else { 0 },
        // Abstract sockets of others, and signals to others.
        scoped: if version >= 6 { 3 } else { 0 },
    }
}

/// How many bytes of a [`Ruleset`] `version` knows.
pub(super) const fn ruleset_bytes(version: u32) -> u32 {
    match version {
        0..=3 => 8,
        4 | 5 => 16,
        _ => 24,
    }
}

/// The bits of `right` that `version` has and something of this kind can be given.
pub(super) const fn access(right: Right, kind: Kind, version: u32) -> u64 {
    let read = EXECUTE | READ_FILE | READ_DIRECTORY;
    let wanted = match right {
        Right::List => READ_DIRECTORY,
        Right::Read => read,
        Right::Write => !(MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE | DEVICE_CONTROL),
        Right::Devices => READ_FILE | READ_DIRECTORY | WRITE_FILE | TRUNCATE | DEVICE_CONTROL,
    };
    let possible = match kind {
        Kind::Directory => u64::MAX,
        Kind::Other => OF_FILES,
    };
    wanted & possible & governed(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_speaks_of_what_its_version_or_kind_does_not_know() {
        let rights = [Right::List, Right::Read, Right::Write, Right::Devices];
        for version in 0..9 {
            for right in rights {
                let whole = access(right, Kind::Directory, version);
                assert_eq!(whole & !ruleset(version).files, 0, "{version} {right:?}");
                let file = access(right, Kind::Other, version);
                assert_eq!(file & !(whole & OF_FILES), 0, "{version} {right:?}");
            }
        }
    }

    #[test]
    fn reading_never_writes_and_nothing_makes_devices() {
        for version in 1..9 {
            let writes = !(EXECUTE | READ_FILE | READ_DIRECTORY);
            assert_eq!(access(Right::Read, Kind::Directory, version) & writes, 0);
            let write = access(Right::Write, Kind::Directory, version);
            assert_eq!(write & (MAKE_BLOCK_DEVICE | MAKE_CHARACTER_DEVICE), 0);
            assert_ne!(write & WRITE_FILE, 0);
        }
    }
}
