//! Who is told that a merge came to an end, before it is put away.

use crate::error::MergeError;
use crate::journal::Journal;
use crate::outcome::MergeOutcome;
use std::fmt;
use std::sync::Arc;

/// Told of a merge: what it was to do, and what came of it. It may be told more than once of one:
/// whoever is killed between telling and putting it away tells again.
type Tell = dyn Fn(&Journal, &MergeOutcome) -> Result<(), String> + Send + Sync;

/// Somebody to tell, or nobody.
#[derive(Clone, Default)]
pub(crate) struct Telling(Option<Arc<Tell>>);

impl Telling {
    pub(crate) fn of(
        tell: impl Fn(&Journal, &MergeOutcome) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn tell(&self, journal: &Journal, outcome: &MergeOutcome) -> Result<(), MergeError> {
        let Some(tell) = &self.0 else {
            return Ok(());
        };
        tell(journal, outcome).map_err(|why| MergeError::Untold {
            id: journal.id.clone(),
            why,
        })
    }
}

impl fmt::Debug for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Telling").field(&self.0.is_some()).finish()
    }
}
