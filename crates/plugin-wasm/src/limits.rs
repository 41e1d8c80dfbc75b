//! What a Wasm plugin may really use: what its manifest asks for, within what its box can hold.
//!
//! Invariant: the memories of all instances together fit the box with room for the rest of the
//! worker, so a guest comes to its own limit before the box comes to its.

use airlock_core::ByteSize;
use airlock_plugin::WasmLimits;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A page of linear memory.
pub(crate) const PAGE: u64 = 64 * 1024;
/// Bytes of linear memory in one worker. The box of workers has twice that.
const POOL_BYTES: u64 = WasmLimits::POOL.as_bytes();
/// Less, and not even the entry of a compiled function fits.
const LEAST_STACK: u64 = 16 * 1024;

/// The limits that hold for a plugin whose manifest asks for `asked`.
pub fn effective(asked: &WasmLimits) -> WasmLimits {
    let memory = asked.memory.as_bytes().clamp(PAGE, POOL_BYTES);
    // Whole pages: that is how memories grow.
    let memory = memory - memory % PAGE;
    let memory = ByteSize::from_bytes(memory);
    let most_stack = WasmLimits::STACK.as_bytes();
    WasmLimits {
        fuel: asked.fuel.max(1),
        deadline: asked.deadline.min(WasmLimits::DEADLINE),
        memory,
        tables: asked.tables.min(WasmLimits::TABLES),
        stack: ByteSize::from_bytes(asked.stack.as_bytes().clamp(LEAST_STACK, most_stack)),
        instances: asked.instances.clamp(1, WasmLimits::fit(memory)),
    }
}

/// Effective limits, as a worker is told them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[doc(hidden)]
pub struct Bounds {
    pub fuel: u64,
    pub deadline_millis: u64,
    pub memory: u64,
    pub tables: u32,
    pub stack: u64,
    pub instances: u32,
}

impl Bounds {
    pub fn of(limits: &WasmLimits) -> Self {
        Self {
            fuel: limits.fuel,
            deadline_millis: millis(limits.deadline),
            memory: limits.memory.as_bytes(),
            tables: limits.tables,
            stack: limits.stack.as_bytes(),
            instances: limits.instances,
        }
    }

    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_millis)
    }
}

/// `time` in whole milliseconds, not less than it is.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_asked_the_pool_fits_and_nothing_grows_but_to_the_least_that_works(
            fuel: u64, seconds in 0u64..100_000, memory: u64, tables: u32, stack: u64, instances: u32,
        ) {
            let asked = WasmLimits {
                fuel,
                deadline: Duration::from_secs(seconds),
                memory: ByteSize::from_bytes(memory),
                tables,
                stack: ByteSize::from_bytes(stack),
                instances,
            };
            let held = effective(&asked);
            prop_assert!(held.memory.as_bytes() * u64::from(held.instances) <= POOL_BYTES);
            prop_assert_eq!(held.memory.as_bytes() % PAGE, 0);
            prop_assert!(held.memory.as_bytes() <= memory.max(PAGE));
            prop_assert!(held.stack.as_bytes() <= stack.max(LEAST_STACK));
            prop_assert!((1..=WasmLimits::CALLS).contains(&held.instances));
            prop_assert!(held.instances <= instances.max(1));
            prop_assert!(held.tables <= tables && held.deadline <= asked.deadline);
            prop_assert_eq!(effective(&held), held, "what holds can be asked for");
        }
    }

    #[test]
    fn a_part_of_a_millisecond_counts_as_one() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(7)), 7);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
