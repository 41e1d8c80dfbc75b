//! What a host asks of a plugin by its environment. Pure but for [`Asked::from_environment`].

use crate::handshake::VERSIONS;
use std::path::PathBuf;

/// The variable, and its value, by which a plugin knows that Airlock started it. No secret: it keeps
/// people from running a plugin by hand and wondering.
const COOKIE: (&str, &str) = ("AIRLOCK_PLUGIN", "4e0c1d0f6f5b4d1fa9b35a8d1c7e2b90");

/// Why there is nothing to serve.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AskedError {
    /// Somebody ran it by hand.
    #[error("this is a plugin for Airlock and does nothing by itself")]
    NotAirlock,
    /// A socket has to lie somewhere.
    #[error("`PLUGIN_UNIX_SOCKET_DIR` does not say where to listen")]
    NoDirectory,
}

impl AskedError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotAirlock => Some("install it with `airlock plugin install`"),
            Self::NoDirectory => None,
        }
    }
}

/// What the host asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The directory that is shared with the host.
    pub(crate) directory: PathBuf,
    /// The host's certificate as PEM, if it wants TLS.
    pub(crate) certificate: Option<String>,
    /// The version of the services to speak.
    pub(crate) version: u32,
}

impl Asked {
    /// Reads the environment of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "the protocol begins in the environment"
    )]
    pub fn from_environment() -> Result<Self, AskedError> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads an environment.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, AskedError> {
        let (cookie, value) = COOKIE;
        if variable(cookie).as_deref() != Some(value) {
            return Err(AskedError::NotAirlock);
        }
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let directory = set("PLUGIN_UNIX_SOCKET_DIR").ok_or(AskedError::NoDirectory)?;
        Ok(Self {
            directory: directory.into(),
            certificate: set("PLUGIN_CLIENT_CERT"),
            version: version(&set("PLUGIN_PROTOCOL_VERSIONS").unwrap_or_default()),
        })
    }
}

/// The newest version both sides speak. Where there is none our own newest: the host says what is
/// wrong with it.
fn version(offered: &str) -> u32 {
    let offered: Vec<u32> = offered
        .split(',')
        .filter_map(|version| version.trim().parse().ok())
        .collect();
    let common = VERSIONS.iter().filter(|version| offered.contains(version));
    common
        .max()
        .or(VERSIONS.iter().max())
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Asked, AskedError> {
        Asked::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn only_a_host_with_the_cookie_is_served() {
        let directory = ("PLUGIN_UNIX_SOCKET_DIR", "/reach");
        for (variables, wanted) in [
            (vec![], AskedError::NotAirlock),
            (vec![directory], AskedError::NotAirlock),
            (vec![(COOKIE.0, ""), directory], AskedError::NotAirlock),
            (vec![COOKIE], AskedError::NoDirectory),
            (
                vec![COOKIE, ("PLUGIN_UNIX_SOCKET_DIR", "")],
                AskedError::NoDirectory,
            ),
        ] {
            assert_eq!(read(&variables), Err(wanted), "{variables:?}");
        }
        let asked = read(&[COOKIE, directory]).unwrap();
        assert_eq!(asked.directory, PathBuf::from("/reach"));
        assert_eq!((asked.certificate, asked.version), (None, 1));
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        for (offered, wanted) in [
            ("1", 1),
            ("2,1", 1),
            (" 1 ", 1),
            ("7", 1),
            ("", 1),
            ("x", 1),
        ] {
            assert_eq!(version(offered), wanted, "{offered}");
        }
    }
}
