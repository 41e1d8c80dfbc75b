//! The path a change names: parsed, followed in the staged view, and what the decision must see.

use super::operation::{Code, Refusal};
use crate::beneath::Root;
use crate::tools::InvalidArguments;
use airlock_core::{RequestPath, WorkspacePath};
use airlock_sanitise::legible_path;

/// Whether a symlink at the end of a path is what is meant, or what it points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Follow,
    Keep,
}

/// A named path and where it leads.
#[derive(Debug, Clone)]
pub(super) struct Target {
    asked: RequestPath,
    real: Result<WorkspacePath, Refusal>,
    size: Option<u64>,
}

impl Target {
    pub(super) fn reach(
        at: &str,
        text: &str,
        last: Last,
        root: &Root,
    ) -> Result<Self, InvalidArguments> {
        let asked = RequestPath::parse(text, root.path()).map_err(|error| InvalidArguments {
            at: at.to_owned(),
            what: error.to_string(),
            fix: Some("give a path relative to the workspace root".to_owned()),
        })?;
        let real = match asked.inside() {
            None => Err(Refusal::new(
                Code::Outside,
                format!(
                    "`{}` is outside the workspace",
                    legible_path(asked.as_str())
                ),
            )),
            Some(path) if path.is_root() => Err(Refusal::new(
                Code::NotAFile,
                "the workspace root itself cannot be changed",
            )),
            Some(path) => led_to(root, path, last).ok_or_else(|| {
                let asked = legible_path(asked.as_str());
                let what = format!("a symlink on the way to `{asked}` leads out or in circles");
                Refusal::new(Code::Escapes, what)
            }),
        };
        let size = real.as_ref().ok().and_then(|real| root.file_size(real));
        Ok(Self { asked, real, size })
    }

    /// The path as asked and, if it differs, as reached.
    pub(super) fn paths(&self) -> impl Iterator<Item = RequestPath> {
        let real = self.real.clone().ok().map(RequestPath::from);
        let real = real.filter(|real| *real != self.asked);
        [self.asked.clone()].into_iter().chain(real)
    }

    /// Where it leads, as the worker is told.
    pub(super) fn real(&self) -> Result<String, Refusal> {
        self.real.clone().map(|real| real.as_str().to_owned())
    }

    /// Bytes of the file that is there.
    pub(super) const fn size(&self) -> Option<u64> {
        self.size
    }
}

fn led_to(root: &Root, path: &WorkspacePath, last: Last) -> Option<WorkspacePath> {
    match last {
        Last::Follow => root.intended(path),
        Last::Keep => match path.as_str().rsplit_once('/') {
            None => Some(path.clone()),
            Some((above, name)) => {
                let above = WorkspacePath::new(above).ok()?;
                root.intended(&above)?.join(name).ok()
            }
        },
    }
    .filter(|real| !real.is_root())
}
