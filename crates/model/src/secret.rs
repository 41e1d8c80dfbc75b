//! A key: wiped when it is no longer needed, and never shown.

use std::fmt;
use zeroize::Zeroizing;

/// A key of a provider.
///
/// It has no `Display`, no `Serialize`, and a `Debug` that says nothing: the one way out is the
/// header of a request to the host it was configured for.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a key over. White space around it is not part of it: files end with a newline.
    pub fn new(text: String) -> Self {
        let text = Zeroizing::new(text);
        Self(Zeroizing::new(text.trim().to_owned()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
