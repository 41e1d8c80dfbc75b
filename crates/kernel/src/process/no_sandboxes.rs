//! Platforms without sandboxes: there is nothing to make ahead.

use super::ladder::Ladder;
use super::plan::Planned;
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
    pub fn in_reserve(_: Option<Arc<dyn Ladder>>) -> Self {
        Self
    }

    /// Nothing.
    pub fn by(_: Arc<dyn Ladder>) -> Self {
        Self
    }

    pub(crate) const fn has_reserve(&self) -> bool {
        false
    }
}

impl Planned {
    pub(crate) const fn begin(&mut self, _: &Workspace, _: &Sandboxes) {}
}
