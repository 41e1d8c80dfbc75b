//! The limits every process of a sandbox inherits from its init, as a table.
//!
//! Never the address space: Go, Node and Java reserve far more than they use. They hold for each
//! process alone, but for those the kernel counts by user and user namespace (processes, queued
//! signals, message queues): in a user namespace of its own that is the whole sandbox.

use super::OWN_TASKS;
use crate::plan::{Class, Limit, Limits};
use crate::report::Held;
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;

/// One row: what a resource is limited to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rlimit {
    /// Which, as the kernel numbers them.
    pub(crate) resource: Resource,
    /// What holds at first.
    pub(crate) soft: u64,
    /// How far a process may raise it by itself.
    pub(crate) hard: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The table for a sandbox, nowhere above what this process may itself give away.
///
/// With `cgroup_holds` the number of processes is left to the cgroup, which also counts what it
/// refused; a wider limit stands behind it.
pub(crate) fn rlimits(limits: &Limits, cgroup_holds: &BTreeMap<Limit, Held>) -> Vec<Rlimit> {
    let rows = table(limits, cgroup_holds);
    rows.into_iter()
        .map(|row| row.within(getrlimit(row.resource).maximum))
        .collect()
}

/// How the number of processes is held by this table where no cgroup does.
pub(crate) fn pids_held() -> Held {
    Held {
        class: Class::Enforced,
        how: "RLIMIT_NPROC in a user namespace of its own".to_owned(),
    }
}

/// How the size of a file is held by this table.
pub(crate) fn file_size_held() -> Held {
    Held {
        class: Class::Enforced,
        how: "RLIMIT_FSIZE".to_owned(),
    }
}

fn table(limits: &Limits, cgroup_holds: &BTreeMap<Limit, Held>) -> Vec<Rlimit> {
    let row = |resource, soft, hard| Rlimit {
        resource,
        soft,
        hard,
    };
    let both = |resource, value| row(resource, value, value);
    let tasks = u64::from(limits.pids.saturating_add(OWN_TASKS));
    let tasks = if cgroup_holds.contains_key(&Limit::Pids) {
        // The kernel asks this limit first: equal to the cgroup's it would refuse what the cgroup
        // is to refuse and count.
        tasks * 2 + 64
    } else {
        tasks
    };
    // Open files take kernel memory. A memory cgroup is charged for it; without one, a hundred
    // processes of 65,536 would be gigabytes nobody counts.
    let files = if cgroup_holds.contains_key(&Limit::Memory) {
        65_536
    } else {
        4_096
    };
    vec![
        both(Resource::Nproc, tasks),
        both(Resource::Fsize, limits.file_size.as_bytes()),
        // `select` breaks over 1,024; a runtime that knows better raises it itself.
        row(Resource::Nofile, 1_024, files),
        // A core would be a copy of memory, secrets included.
        both(Resource::Core, 0),
        // What Linux gives by default; crypto libraries lock keys.
        both(Resource::Memlock, 8 * MIB),
        // What Linux gives by default.
        both(Resource::Msgqueue, 800 * KIB),
        // Timers take one each.
        both(Resource::Sigpending, 4_096),
        // Compilers raise theirs to 64 MiB. More would be memory reserved for each thread.
        row(Resource::Stack, 8 * MIB, 64 * MIB),
        both(Resource::Nice, 0),
        both(Resource::Rtprio, 0),
    ]
}

impl Rlimit {
    /// No higher than `maximum`, the hard limit of whoever sets it: it could not be raised.
    fn within(self, maximum: Option<u64>) -> Self {
        let hard = maximum.map_or(self.hard, |maximum| self.hard.min(maximum));
        Self {
            soft: self.soft.min(hard),
            hard,
            ..self
        }
    }

    /// The number of the resource, for a table that is read without any library.
    pub(crate) const fn number(self) -> u32 {
        self.resource as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::TEMPLATES;

    fn held(limit: Limit) -> BTreeMap<Limit, Held> {
        BTreeMap::from([(limit, pids_held())])
    }

    #[test]
    fn what_the_kernel_refuses_by_itself_is_enforced() {
        for (held, how) in [
            (pids_held(), "RLIMIT_NPROC in a user namespace of its own"),
            (file_size_held(), "RLIMIT_FSIZE"),
        ] {
            assert_eq!((held.class, held.how.as_str()), (Class::Enforced, how));
        }
    }

    fn find(rows: &[Rlimit], resource: Resource) -> Rlimit {
        let found = rows.iter().find(|row| row.resource == resource);
        *found.unwrap()
    }

    #[test]
    fn every_template_has_its_processes_and_its_file_size() {
        for template in TEMPLATES {
            let limits = template.limits;
            let rows = table(&limits, &BTreeMap::new());
            let tasks = u64::from(limits.pids) + 1;
            assert_eq!(
                find(&rows, Resource::Nproc).hard,
                tasks,
                "{}",
                template.name
            );
            let size = limits.file_size.as_bytes();
            assert_eq!(find(&rows, Resource::Fsize).hard, size);
            assert_eq!(find(&rows, Resource::Core).hard, 0);
        }
    }

    #[test]
    fn the_address_space_is_never_limited_and_no_row_comes_twice() {
        for holds in [BTreeMap::new(), held(Limit::Memory), held(Limit::Pids)] {
            let rows = table(&TEMPLATES[0].limits, &holds);
            assert!(rows.iter().all(|row| row.resource != Resource::As));
            assert!(rows.iter().all(|row| row.resource != Resource::Data));
            assert!(rows.iter().all(|row| row.soft <= row.hard));
            let mut numbers: Vec<u32> = rows.iter().map(|row| row.number()).collect();
            numbers.sort_unstable();
            let all = numbers.len();
            numbers.dedup();
            assert_eq!(numbers.len(), all);
        }
    }

    #[test]
    fn a_cgroup_is_asked_before_the_limit_behind_it() {
        let limits = TEMPLATES[0].limits;
        let alone = find(&table(&limits, &BTreeMap::new()), Resource::Nproc).hard;
        let behind = find(&table(&limits, &held(Limit::Pids)), Resource::Nproc).hard;
        assert!(behind > alone);
    }

    #[test]
    fn files_are_fewer_where_no_cgroup_is_charged_for_them() {
        let limits = TEMPLATES[0].limits;
        let alone = find(&table(&limits, &BTreeMap::new()), Resource::Nofile);
        let charged = find(&table(&limits, &held(Limit::Memory)), Resource::Nofile);
        assert_eq!((alone.soft, alone.hard), (1_024, 4_096));
        assert_eq!((charged.soft, charged.hard), (1_024, 65_536));
    }

    #[test]
    fn no_row_is_above_what_can_be_given_away() {
        let row = Rlimit {
            resource: Resource::Nofile,
            soft: 1_024,
            hard: 65_536,
        };
        for (maximum, want) in [
            (None, (1_024, 65_536)),
            (Some(1 << 20), (1_024, 65_536)),
            (Some(4_096), (1_024, 4_096)),
            (Some(100), (100, 100)),
            (Some(0), (0, 0)),
        ] {
            let got = row.within(maximum);
            assert_eq!((got.soft, got.hard), want, "{maximum:?}");
        }
        for row in rlimits(&TEMPLATES[0].limits, &BTreeMap::new()) {
            let maximum = getrlimit(row.resource).maximum;
            assert!(maximum.is_none_or(|maximum| row.hard <= maximum));
        }
    }
}
