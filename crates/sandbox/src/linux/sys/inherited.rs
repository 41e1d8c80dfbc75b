//! What every process of a sandbox inherits from its init and others may change: resource limits, and
//! which processors it may use.
//!
//! Guarantee: after [`Inherited::set_anew`] both are what they were when the walls stood. The filter
//! lets nobody inside change the limits, niceness or scheduling of another process, but does let them
//! change its processors: libraries name their own threads by number.
//! Invariant: nothing here allocates.

use super::calls;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How many resources Linux limits, from 0.
const RESOURCES: usize = 16;

/// What a sandbox was given.
pub(super) struct Inherited {
    /// By the number of the resource.
    limits: [[u64; 2]; RESOURCES],
    /// None on a machine with more than can be told.
    processors: Option<CpuSet>,
}

impl Inherited {
    /// As it is now.
    pub(super) fn now() -> Result<Self, Errno> {
        let mut limits = [[0; 2]; RESOURCES];
        for (resource, limit) in (0..).zip(&mut limits) {
            *limit = calls::limit_of(resource)?;
        }
        Ok(Self {
            limits,
            processors: sched_getaffinity(None).ok(),
        })
    }

    /// Sets what somebody changed. A limit that was lowered for good cannot be.
    pub(super) fn set_anew(&self) -> Result<(), Errno> {
        for (resource, given) in (0..).zip(self.limits) {
            if calls::limit_of(resource)? != given {
                let [soft, hard] = given;
                calls::set_limit(resource, soft, hard)?;
            }
        }
        match self.processors {
            Some(given) if sched_getaffinity(None)? != given => sched_setaffinity(None, &given),
            Some(_) | None => Ok(()),
        }
    }
}
