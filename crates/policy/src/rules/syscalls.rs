//! Sets of syscalls as bits, and the position of a syscall in the table.

use airlock_core::{SYSCALLS, Syscall};

/// The position of `syscall` in the table.
pub(crate) fn position(syscall: Syscall) -> Option<u32> {
    u32::try_from(syscall.index()).ok()
}

/// A set of syscalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct SyscallSet(u128);

// The set has one bit for each row of the table.
const _: () = assert!(SYSCALLS.len() <= 128);

impl SyscallSet {
    /// Every syscall there is.
    pub(crate) fn all() -> Self {
        Syscall::all().fold(Self::default(), Self::with)
    }

    /// The syscalls a word of a policy means: a name, `area.*` or `*`. Empty if it means none.
    pub(crate) fn named(word: &str) -> Self {
        if word == "*" {
            return Self::all();
        }
        let area = word.strip_suffix(".*");
        Syscall::all()
            .filter(|syscall| syscall.name() == word || area == Some(syscall.area()))
            .fold(Self::default(), Self::with)
    }

    fn with(self, syscall: Syscall) -> Self {
        position(syscall).map_or(self, |at| Self(self.0 | 1 << at))
    }

    /// Both sets together.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the syscall at `position` is in the set.
    pub(crate) const fn contains(self, position: u32) -> bool {
        position < u128::BITS && self.0 & (1 << position) != 0
    }

    /// Whether all of `self` is in `other`.
    pub(crate) const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many syscalls are in the set.
    pub(crate) const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The positions in the set, ascending.
    pub(crate) fn positions(self) -> impl Iterator<Item = u32> {
        (0..u128::BITS).filter(move |at| self.contains(*at))
    }

    /// The syscalls in the set.
    pub(crate) fn syscalls(self) -> impl Iterator<Item = Syscall> {
        Syscall::all().filter(move |syscall| position(*syscall).is_some_and(|at| self.contains(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_a_name_an_area_or_everything() {
        let names = |word: &str| -> Vec<&str> {
            let set = SyscallSet::named(word);
            set.syscalls().map(Syscall::name).collect()
        };
        assert_eq!(names("fs.read"), ["fs.read"]);
        assert_eq!(
            names("git.*"),
            ["git.status", "git.diff", "git.log", "git.commit"]
        );
        assert_eq!(names("*").len(), SYSCALLS.len());
        for nothing in [
            "", "fs", "fs.", ".*", "f.*", "fs.raed", "FS.READ", "fs.*.*", "**",
        ] {
            assert!(names(nothing).is_empty(), "{nothing}");
        }
    }
}
