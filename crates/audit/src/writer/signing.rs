//! Whether the head of the chain may be signed.
//!
//! What is signed counts as verified at the next start. Whoever stops at a break must not sign over it:
//! a few records later nobody would stop any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Leave to sign, shared by the writer and by whoever verifies. By default it is always given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signing(Option<Arc<AtomicBool>>);

impl Signing {
    /// Given only while the chain is known to hold, which it is not yet.
    pub(crate) fn once_verified() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn is_allowed(&self) -> bool {
        let held = self.0.as_ref();
        held.is_none_or(|allowed| allowed.load(Ordering::Relaxed))
    }

    /// The chain holds.
    pub(crate) fn allow(&self) {
        self.set(true);
    }

    /// The chain does not hold after all.
    pub(crate) fn withhold(&self) {
        self.set(false);
    }

    fn set(&self, allowed: bool) {
        if let Some(held) = &self.0 {
            held.store(allowed, Ordering::Relaxed);
        }
    }
}
