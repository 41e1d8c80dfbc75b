//! The path a call names: parsed, reached if it can be, and what the decision must see of it.

use super::contract::{InvalidArguments, ToolFailure};
use crate::beneath::{Kind, OpenError, Opened, Root};
use airlock_core::RequestPath;
use airlock_sanitise::legible_path;

/// A named path and what became of reaching it.
#[derive(Debug)]
pub(super) struct Target {
    asked: RequestPath,
    paths: Vec<RequestPath>,
    reached: Result<Opened, Unreached>,
}

#[derive(Debug)]
enum Unreached {
    Outside,
    Failed(OpenError),
}

impl Target {
    /// Reads `text` as the argument `path` and reaches for it.
    ///
    /// Failing to reach it is kept for [`Target::open`]: the decision comes first, so that a
    /// caller who may not read there cannot tell what is there.
    pub(super) fn reach(text: &str, root: &Root) -> Result<Self, InvalidArguments> {
        let asked = RequestPath::parse(text, root.path()).map_err(|error| InvalidArguments {
            at: "path".to_owned(),
            what: error.to_string(),
            fix: Some("give a path relative to the workspace root".to_owned()),
        })?;
        let reached = match asked.inside() {
            Some(path) => root.open_beneath(path).map_err(Unreached::Failed),
            None => Err(Unreached::Outside),
        };
        let real = match (&reached, asked.inside()) {
            (Ok(opened), _) => Some(opened.real.clone()),
            (Err(_), Some(path)) => root.intended(path),
            (Err(_), None) => None,
        };
        let mut paths = vec![asked.clone()];
        paths.extend(real.map(RequestPath::from).filter(|real| *real != asked));
        Ok(Self {
            asked,
            paths,
            reached,
        })
    }

    /// The path as asked and, if it differs, as reached.
    pub(super) fn paths(&self) -> &[RequestPath] {
        &self.paths
    }

    /// The path as results and failures show it.
    pub(super) fn shown(&self) -> String {
        legible_path(self.asked.as_str())
    }

    /// The directory that was reached, or why none was.
    pub(super) fn open_directory(self) -> Result<Opened, ToolFailure> {
        let path = self.shown();
        let opened = self.open()?;
        match opened.kind {
            Kind::Directory => Ok(opened),
            Kind::File | Kind::Symlink | Kind::Other => Err(ToolFailure::Open {
                path,
                source: OpenError::NotADirectory,
            }),
        }
    }

    /// What was reached, or why nothing was.
    pub(super) fn open(self) -> Result<Opened, ToolFailure> {
        let path = self.shown();
        self.reached.map_err(|unreached| match unreached {
            Unreached::Outside => ToolFailure::Outside { path },
            Unreached::Failed(source) => ToolFailure::Open { path, source },
        })
    }
}
