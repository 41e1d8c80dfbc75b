//! A store of runs that does not do what a store does.

use airlock_core::Digest;
use airlock_kernel::{MemoryRuns, RunEvent, RunRecord, RunStore, RunStoreError};
use airlock_state::{Owner, RunStatus};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is odd about a store.
pub(super) enum Oddity {
    /// It breaks off as a process would: after so many events, nothing more is taken.
    CrashesAfter(AtomicUsize),
    /// It cancels its run as its first step begins.
    Cancels,
    /// It says of each run that it took ten minutes before.
    Ages,
}

/// An odd store over one that others may look into.
pub(super) struct OddStore {
    inner: Arc<MemoryRuns>,
    oddity: Oddity,
}

impl OddStore {
    pub(super) fn over(inner: &Arc<MemoryRuns>, oddity: Oddity) -> Arc<Self> {
        let inner = Arc::clone(inner);
        Arc::new(Self { inner, oddity })
    }

    pub(super) fn new(oddity: Oddity) -> Arc<Self> {
        Self::over(&Arc::default(), oddity)
    }

    fn pass(&self) -> Result<(), RunStoreError> {
        let Oddity::CrashesAfter(left) = &self.oddity else {
            return Ok(());
        };
        let one_less = |left: usize| left.checked_sub(1);
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
            .map(drop)
            .map_err(|_| RunStoreError::Unusable("crashed".to_owned()))
    }
}

impl RunStore for OddStore {
    fn create(
        &self,
        owner: &Owner,
        id: &str,
        name: &str,
        definition: Digest,
        input: &Value,
    ) -> Result<(), RunStoreError> {
        self.inner.create(owner, id, name, definition, input)
    }

    fn step_started(
        &self,
        owner: &Owner,
        run: &str,
        step: &str,
        effects: bool,
    ) -> Result<(), RunStoreError> {
        self.pass()?;
        self.inner.step_started(owner, run, step, effects)?;
        match self.oddity {
            Oddity::Cancels => self.inner.finish(owner, run, RunStatus::Cancelled, None),
            Oddity::CrashesAfter(_) | Oddity::Ages => Ok(()),
        }
    }

    fn step_done(&self, owner: &Owner, run: &str, event: &RunEvent) -> Result<(), RunStoreError> {
        self.pass()?;
        self.inner.step_done(owner, run, event)
    }

    fn finish(
        &self,
        owner: &Owner,
        run: &str,
        status: RunStatus,
        output: Option<Value>,
    ) -> Result<(), RunStoreError> {
        self.pass()?;
        self.inner.finish(owner, run, status, output)
    }

    fn load(&self, owner: &Owner, run: &str) -> Result<Option<RunRecord>, RunStoreError> {
        let mut found = self.inner.load(owner, run)?;
        if let (Oddity::Ages, Some(found)) = (&self.oddity, &mut found) {
            let spent = 600_000;
            found.events.push(RunEvent::Interrupted { spent });
        }
        Ok(found)
    }

    fn list(&self, owner: &Owner) -> Result<Vec<RunRecord>, RunStoreError> {
        self.inner.list(owner)
    }
}
