//! Path globs, until the crate's own matcher takes over: same two functions.

use airlock_core::WorkspacePath;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct PathGlobs {
    included: GlobSet,
    excluded: GlobSet,
}

impl PathGlobs {
    pub(super) fn compile(globs: &[Arc<str>]) -> Result<Self, globset::Error> {
        let (mut included, mut excluded) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for glob in globs {
            let (set, text) = match glob.strip_prefix('!') {
                Some(text) => (&mut excluded, text),
                None => (&mut included, &**glob),
            };
            let anchored = if text.contains('/') || text == "**" {
                text.to_owned()
            } else {
                format!("**/{text}")
            };
            set.add(
                GlobBuilder::new(&anchored)
                    .literal_separator(true)
                    .build()?,
            );
        }
        Ok(Self {
            included: included.build()?,
            excluded: excluded.build()?,
        })
    }

    pub(super) fn matches(&self, path: &WorkspacePath) -> bool {
        self.included.is_match(path.as_str()) && !self.excluded.is_match(path.as_str())
    }
}
