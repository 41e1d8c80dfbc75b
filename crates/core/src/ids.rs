//! Identifiers as types of their own, so that one can never stand where another is meant.
//!
//! Each is a short, printable string that was checked when it was made: it can be logged, put in a
//! file name or shown in a terminal without further care.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a string is not an identifier of that kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a {kind}: {rule}")]
pub struct IdError {
    kind: &'static str,
    rule: &'static str,
    value: String,
}

const MAX_ID: usize = 128;

fn plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_ID
        && !text.starts_with(['.', '-'])
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-@:".contains(&b))
}

fn lower(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn tag(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

const PLAIN_RULE: &str = "use 1 to 128 letters, digits or `._-@:`, not beginning with `.` or `-`";
const LOWER_RULE: &str = "use 1 to 64 of a-z, 0-9 and `-`, not at either end";
const TAG_RULE: &str = "use 1 to 64 of a-z, 0-9, `_` and `-`";

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:ident, $rule:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and wraps it.
            pub fn new(text: &str) -> Result<Self, IdError> {
                if $check(text) {
                    Ok(Self(Arc::from(text)))
                } else {
                    let value = text.chars().take(40).collect();
                    Err(IdError { kind: $kind, rule: $rule, value })
                }
            }

            /// Whether [`Self::new`] would take `text`, without keeping it.
            pub fn is_valid(text: &str) -> bool {
                $check(text)
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// Whose resources these are, on a shared server; `local` on one person's machine.
    TenantId, "tenant id", plain, PLAIN_RULE
);
id!(
    /// The person (or service account) on whose behalf a caller acts.
    UserId, "user id", plain, PLAIN_RULE
);
id!(
    /// A directory Airlock governs.
    WorkspaceId, "workspace id", plain, PLAIN_RULE
);
id!(
    /// One conversation or job in a workspace.
    SessionId, "session id", plain, PLAIN_RULE
);
id!(
    /// Joins the attempt of an action with its outcome in the log.
    ActionId, "action id", plain, PLAIN_RULE
);
id!(
    /// One isolated execution environment.
    SandboxId, "sandbox id", plain, PLAIN_RULE
);
id!(
    /// A registered plugin; the built-in fronts are plugins too.
    PluginName, "plugin name", lower, LOWER_RULE
);
id!(
    /// A capability tag such as `third_party`, given by policy or at install.
    TagName, "tag", tag, TAG_RULE
);

impl ActionId {
    /// The id of an action that has this UUID.
    pub fn from_uuid(uuid: uuid::Uuid) -> Self {
        // Hexadecimal digits and dashes: what every id accepts.
        Self(Arc::from(uuid.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_refuse_what_could_confuse_a_file_name_or_a_terminal() {
        for bad in [
            "",
            ".",
            "../x",
            "-rf",
            "a b",
            "a/b",
            "a\nb",
            "\u{1b}[2J",
            &"x".repeat(129),
        ] {
            assert!(SessionId::new(bad).is_err(), "{bad:?}");
            assert!(!SessionId::is_valid(bad), "{bad:?}");
        }
        assert!(SessionId::is_valid("0192f3a4-7c1e"));
        assert!(SessionId::new("0192f3a4-7c1e").is_ok());
        for bad in ["", "Upper", "a_b", "-a", "a-", "a.b"] {
            assert!(PluginName::new(bad).is_err(), "{bad:?}");
        }
        assert!(PluginName::new("ticket-tools").is_ok());
    }
}
