//! Platforms without sandboxes: there is nothing to make ahead.

use super::failure::ProcessFailure;
use super::ladder::Ladder;
use super::plan::Planned;
use super::surround::{Around, Ground, Look, Machine};
use crate::book::Book;
use crate::workspace::Workspace;
use std::sync::Arc;

/// The sandboxes of one kernel: none.
#[derive(Debug, Clone, Default)]
pub struct Sandboxes;

impl Sandboxes {
    /// Nothing.
    pub fn ahead(_: Option<Arc<dyn Ladder>>) -> Self {
        Self
    }

    /// Nothing.
    #[must_use]
    pub fn on(self, _: Option<Arc<dyn Ladder>>) -> Self {
        self
    }

    /// Nothing.
    pub fn in_reserve(_: Option<Arc<dyn Ladder>>) -> Self {
        Self
    }

    /// Nothing.
    pub fn by(_: Arc<dyn Ladder>) -> Self {
        Self
    }

    /// Nothing.
    pub fn dress(&self, _: Machine, _: &Workspace) {}

    pub(super) fn around(
        &self,
        machine: &Machine,
        workspace: &Workspace,
        _: Look,
    ) -> Result<(Arc<Around>, Look), ProcessFailure> {
        let around = Around::look(machine, &Ground::of(workspace))?;
        Ok((Arc::new(around), Look::First))
    }

    pub(crate) const fn has_reserve(&self) -> bool {
        false
    }

    pub(crate) const fn settle(&self) {}

    pub(crate) const fn note_in(&self, _: &Book) {}
}

impl Planned {
    pub(crate) const fn begin(&mut self, _: &Workspace, _: &Sandboxes) {}
}
