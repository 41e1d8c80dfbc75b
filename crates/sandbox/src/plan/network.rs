//! What a sandbox can reach: nothing, or destinations by way of the proxy.
//!
//! Hosts are for the proxy to judge. They never become part of a generated profile or argument
//! list: a restricted sandbox sees the proxy's port and nothing else.
//!
//! Invariant: a [`Host`] is lower-case letters, digits, `-`, `.` and `:` (of an address), maybe
//! after `*.`; nothing in it can be read as syntax.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;

/// Why text is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    /// `*` would be every host.
    #[error("`*` is every host")]
    Everything,
    /// Not a name, not an address.
    #[error("`{0}` is not a host name or address")]
    Syntax(String),
}

impl HostProblem {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Everything => "name the hosts, or `*.example.org` for the names below one",
            Self::Syntax(_) => "write a name such as `example.org`, `*.example.org`, or an address",
        }
    }
}

/// A host by name or address, or every name below one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// This name or address.
    Exactly(String),
    /// `*.name`: every name below it, not itself.
    Below(String),
}

impl Host {
    /// Reads `name`, `*.name` or an address.
    pub fn new(text: &str) -> Result<Self, HostProblem> {
        if matches!(text, "*" | "*.") {
            return Err(HostProblem::Everything);
        }
        let invalid =
            || HostProblem::Syntax(text.chars().take(80).flat_map(char::escape_debug).collect());
        let lower = text.to_ascii_lowercase();
        if let Ok(address) = lower.parse::<IpAddr>() {
            return Ok(Self::Exactly(address.to_string()));
        }
        match lower.strip_prefix("*.") {
            Some(name) if is_name(name) => Ok(Self::Below(name.to_owned())),
            None if is_name(&lower) => Ok(Self::Exactly(lower)),
            Some(_) | None => Err(invalid()),
        }
    }

    /// Whether every host that `other` means is meant by this.
    pub fn covers(&self, other: &Self) -> bool {
        let below = |name: &str, other: &str| {
            other
                .strip_suffix(name)
                .is_some_and(|front| front.ends_with('.'))
        };
        match (self, other) {
            (Self::Exactly(own), Self::Exactly(theirs)) => own == theirs,
            (Self::Exactly(_), Self::Below(_)) => false,
            (Self::Below(own), Self::Exactly(theirs)) => below(own, theirs),
            (Self::Below(own), Self::Below(theirs)) => own == theirs || below(own, theirs),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(name) => f.write_str(name),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

/// Labels of letters, digits and inner hyphens. A last label of digits alone would be an address
/// in a form only some clients read.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.split('.').all(label)
        && !last.bytes().all(|b| b.is_ascii_digit())
        && !last.starts_with("0x")
}

/// A host and port that can be asked of the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: NonZeroU16,
}

impl Destination {
    /// Whether everything that `other` means is meant by this.
    pub fn covers(&self, other: &Self) -> bool {
        self.port == other.port && self.host.covers(&other.host)
    }
}

/// What a sandbox can reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Network {
    /// Nothing: an empty network namespace.
    None,
    /// The proxy alone, which lets these through.
    Restricted(BTreeSet<Destination>),
}

impl Network {
    /// Whether `destination` could be asked for.
    pub fn allows(&self, destination: &Destination) -> bool {
        match self {
            Self::None => false,
            Self::Restricted(allowed) => allowed.iter().any(|own| own.covers(destination)),
        }
    }

    /// What both reach.
    pub(super) fn narrow(&self, other: &Self) -> Self {
        let (Self::Restricted(own), Self::Restricted(theirs)) = (self, other) else {
            return Self::None;
        };
        let both = own
            .iter()
            .filter(|destination| other.allows(destination))
            .chain(theirs.iter().filter(|destination| self.allows(destination)));
        Self::Restricted(both.cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses() {
        for (text, want) in [
            ("example.org", Some("example.org")),
            ("EXAMPLE.org", Some("example.org")),
            ("*.example.org", Some("*.example.org")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("::1", Some("::1")),
            ("localhost", Some("localhost")),
            ("*", None),
            ("*.", None),
            ("*.*", None),
            ("a.*.org", None),
            ("", None),
            ("a..b", None),
            ("-a.org", None),
            ("a b", None),
            ("a\nb", None),
            ("a\")(allow default)", None),
            ("--bind", None),
            ("0177.1", None),
            ("2130706433", None),
            ("0x7f000001", None),
            ("a/b", None),
            ("a:80", None),
            ("ex\u{e4}mple.org", None),
        ] {
            let got = Host::new(text).ok().map(|host| host.to_string());
            assert_eq!(got.as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn a_star_covers_the_names_below() {
        for (own, other, want) in [
            ("*.a.org", "b.a.org", true),
            ("*.a.org", "c.b.a.org", true),
            ("*.a.org", "a.org", false),
            ("*.a.org", "ba.org", false),
            ("*.a.org", "*.b.a.org", true),
            ("*.b.a.org", "*.a.org", false),
            ("a.org", "*.a.org", false),
        ] {
            let covers = Host::new(own).unwrap().covers(&Host::new(other).unwrap());
            assert_eq!(covers, want, "{own} {other}");
        }
    }
}
