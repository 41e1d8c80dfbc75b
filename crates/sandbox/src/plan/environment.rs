//! The environment of a sandboxed process: what is listed by name, and nothing else.
//!
//! A name is passed on from the caller's environment only if the plan lists it exactly; there are
//! no wildcards, so that a secret is never inherited unnamed. Variables that make loaders,
//! interpreters, version control or clients run or trust something else ([`HIJACKS`](super::HIJACKS)) are refused
//! even when listed. Airlock sets some of them itself: those are the closed list of
//! [`OwnVariable`].
//!
//! Not guaranteed: a value that passes is passed unread.

use super::hijack::hijack;
use super::path::shown;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// Why a variable cannot be in a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableProblem {
    /// Empty, or with `=` or NUL.
    #[error("`{0}` is not a name for an environment variable")]
    Name(String),
    /// A NUL ends the value early.
    #[error("the value of `{0}` contains a NUL byte")]
    Value(String),
    /// In the table of hijacks.
    #[error("`{name}` {reason}")]
    Hijack {
        /// The variable.
        name: String,
        /// What it does.
        reason: &'static str,
    },
}

impl VariableProblem {
    /// How to mend it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Name(_) => "use letters, digits and `_`",
            Self::Value(_) => "remove the NUL byte",
            Self::Hijack { .. } => "remove it from the plan; the command line can say the same",
        }
    }
}

/// The variables Airlock sets itself, whatever the plan lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnVariable {
    /// Where programs are.
    Path,
    /// The empty home.
    Home,
    /// The private temporary directory.
    TemporaryDirectory,
    /// The proxy, for plain HTTP.
    HttpProxy,
    /// The proxy, for HTTPS.
    HttpsProxy,
    /// The proxy, for everything else.
    AllProxy,
    /// What is reached without the proxy: loopback.
    NoProxy,
    /// The socket to the kernel.
    KernelSocket,
}

impl OwnVariable {
    /// Those that every command finds set.
    pub const ALWAYS: [Self; 3] = [Self::Path, Self::Home, Self::TemporaryDirectory];

    /// The names it is set under: clients disagree about the case.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Path => &["PATH"],
            Self::Home => &["HOME"],
            Self::TemporaryDirectory => &["TMPDIR"],
            Self::HttpProxy => &["HTTP_PROXY", "http_proxy"],
            Self::HttpsProxy => &["HTTPS_PROXY", "https_proxy"],
            Self::AllProxy => &["ALL_PROXY", "all_proxy"],
            Self::NoProxy => &["NO_PROXY", "no_proxy"],
            Self::KernelSocket => &["AIRLOCK_SOCKET"],
        }
    }
}

/// What a process finds in its environment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Environment {
    inherited: BTreeSet<OsString>,
    set: BTreeMap<OsString, OsString>,
    own: BTreeMap<OwnVariable, OsString>,
}

impl Environment {
    pub(super) fn inherit(&mut self, name: &OsStr) -> Result<(), VariableProblem> {
        check_name(name)?;
        self.inherited.insert(name.to_owned());
        Ok(())
    }

    pub(super) fn set(&mut self, name: &OsStr, value: &OsStr) -> Result<(), VariableProblem> {
        check_name(name)?;
        check_value(name, value)?;
        self.set.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    pub(super) fn own(&mut self, name: OwnVariable, value: &OsStr) -> Result<(), VariableProblem> {
        let shown = name.names().first().copied().unwrap_or_default();
        check_value(OsStr::new(shown), value)?;
        self.own.insert(name, value.to_owned());
        Ok(())
    }

    /// The names it would pass on.
    pub fn inherited(&self) -> impl Iterator<Item = &OsStr> {
        self.inherited.iter().map(OsString::as_os_str)
    }

    /// The whole environment of the process, given the caller's.
    ///
    /// A set value replaces an inherited one, and Airlock's own replaces both.
    pub fn resolve<I>(&self, caller: I) -> BTreeMap<OsString, OsString>
    where
        I: IntoIterator<Item = (OsString, OsString)>,
    {
        let mut whole: BTreeMap<OsString, OsString> = caller
            .into_iter()
            .filter(|(name, value)| {
                self.inherited.contains(name) && check_value(name, value).is_ok()
            })
            .collect();
        whole.extend(self.set.clone());
        for (name, value) in &self.own {
            whole.extend(name.names().iter().map(|name| (name.into(), value.clone())));
        }
        whole
    }

    /// What both have; Airlock's own variables are those of `self`.
    pub(super) fn narrow(&self, other: &Self) -> Self {
        let same = self
            .set
            .iter()
            .filter(|entry| other.allows(entry.0, entry.1));
        let theirs = other
            .set
            .iter()
            .filter(|entry| self.allows(entry.0, entry.1));
        // A name one of them fixes may not fall back to whatever the caller has.
        let free =
            |name: &&OsString| !self.set.contains_key(*name) && !other.set.contains_key(*name);
        Self {
            inherited: self
                .inherited
                .intersection(&other.inherited)
                .filter(free)
                .cloned()
                .collect(),
            set: same
                .chain(theirs)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            own: self.own.clone(),
        }
    }

    /// Whether a process with this environment may see `name` with `value`.
    pub fn allows(&self, name: &OsStr, value: &OsStr) -> bool {
        let own = self
            .own
            .iter()
            .find(|(own, _)| own.names().iter().any(|text| name == *text));
        match (own, self.set.get(name)) {
            (Some((_, own)), _) => own == value,
            (None, Some(set)) => set == value,
            (None, None) => self.inherited.contains(name),
        }
    }
}

fn check_name(name: &OsStr) -> Result<(), VariableProblem> {
    let bytes = name.as_encoded_bytes();
    if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
        return Err(VariableProblem::Name(shown(name)));
    }
    hijack(bytes).map_or(Ok(()), |reason| {
        Err(VariableProblem::Hijack {
            name: shown(name),
            reason,
        })
    })
}

fn check_value(name: &OsStr, value: &OsStr) -> Result<(), VariableProblem> {
    if value.as_encoded_bytes().contains(&0) {
        return Err(VariableProblem::Value(shown(name)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    #[test]
    fn hijacks_are_refused_in_any_case_inherited_or_set() {
        for name in [
            "LD_PRELOAD",
            "ld_library_path",
            "DYLD_INSERT_LIBRARIES",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "npm_config_registry",
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_ls%%",
            "GIT_SSH_COMMAND",
            "GIT_DIR",
            "http_proxy",
            "HTTPS_PROXY",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "RUSTC_WRAPPER",
            "SSL_CERT_FILE",
            "SSLKEYLOGFILE",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "DOCKER_HOST",
            "MAKEFLAGS",
            "AIRLOCK_SOCKET",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "GLIBC_TUNABLES",
        ] {
            let mut environment = Environment::default();
            let name = OsStr::new(name);
            let hijack = |got| matches!(got, Err(VariableProblem::Hijack { .. }));
            assert!(hijack(environment.inherit(name)), "{name:?}");
            assert!(hijack(environment.set(name, OsStr::new("x"))), "{name:?}");
            assert_eq!(environment, Environment::default());
        }
    }

    #[test]
    fn ordinary_variables_pass_by_name_alone() {
        let mut environment = Environment::default();
        for name in [
            "PATH",
            "LANG",
            "TERM",
            "CARGO_HOME",
            "GOPATH",
            "ENVIRONMENT",
            "NODE_ENV",
            "LDFLAGS",
        ] {
            environment.inherit(OsStr::new(name)).unwrap();
        }
        environment
            .set(OsStr::new("LANG"), OsStr::new("C"))
            .unwrap();
        environment
            .own(OwnVariable::HttpProxy, OsStr::new("p"))
            .unwrap();
        let caller = pairs(&[
            ("PATH", "/bin"),
            ("LANG", "de"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("LD_PRELOAD", "x"),
            ("http_proxy", "evil"),
        ]);
        let want = pairs(&[
            ("PATH", "/bin"),
            ("LANG", "C"),
            ("HTTP_PROXY", "p"),
            ("http_proxy", "p"),
        ]);
        assert_eq!(environment.resolve(caller), want.into_iter().collect());
    }

    #[test]
    fn names_and_values_cannot_smuggle() {
        let mut environment = Environment::default();
        for name in ["", "A=B", "A\0"] {
            assert!(environment.inherit(OsStr::new(name)).is_err(), "{name:?}");
        }
        assert!(
            environment
                .set(OsStr::new("A"), OsStr::new("a\0B=b"))
                .is_err()
        );
        assert!(
            environment
                .own(OwnVariable::Home, OsStr::new("\0"))
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn nothing_passes_that_is_not_listed(
            listed in proptest::collection::btree_set("[A-D]", 0..4),
            caller in proptest::collection::btree_map("[A-F]{1,2}", "[a-z]", 0..8),
        ) {
            let mut environment = Environment::default();
            for name in &listed {
                environment.inherit(OsStr::new(name)).unwrap();
            }
            let whole = environment.resolve(caller.into_iter().map(|(n, v)| (n.into(), v.into())));
            prop_assert!(whole.keys().all(|name| listed.contains(name.to_str().unwrap())));
        }
    }
}
