//! Path globs with gitignore meaning, compiled and indexed.

/// Why text is not a path glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a path glob")]
pub struct GlobError;

/// Checks one glob of a policy file, with its leading `!` if it has one.
pub(crate) fn check(text: &str) -> Result<(), GlobError> {
    if text.is_empty() {
        Err(GlobError)
    } else {
        Ok(())
    }
}
