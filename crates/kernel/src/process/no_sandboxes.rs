//! Platforms without sandboxes: there is nothing to make ahead.

use super::plan::Planned;
use crate::workspace::Workspace;

/// The sandboxes of one kernel: none.
#[derive(Debug, Clone, Default)]
pub struct Sandboxes;

impl Sandboxes {
    /// Nothing.
    pub const fn ahead() -> Self {
        Self
    }

    /// Nothing.
    pub const fn in_reserve() -> Self {
        Self
    }

    pub(crate) const fn has_reserve(&self) -> bool {
        false
    }
}

impl Planned {
    pub(crate) const fn begin(&mut self, _: &Workspace, _: &Sandboxes) {}
}
