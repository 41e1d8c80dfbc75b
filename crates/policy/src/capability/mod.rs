//! Capabilities: dotted names with path scopes, patterns over them, compiled sets.

/// Why text is not a capability or a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a capability")]
pub struct CapabilityError;

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern;

impl Pattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, CapabilityError> {
        if text.is_empty() {
            Err(CapabilityError)
        } else {
            Ok(Self)
        }
    }
}
