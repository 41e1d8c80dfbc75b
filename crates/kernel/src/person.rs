//! A person at a terminal: who alone may answer.
//!
//! Guarantee: a [`Person`] exists only for whoever holds a terminal, and has said their passphrase
//! if they were asked for it. Non-guarantee: a program of the same user can make itself a terminal;
//! the passphrase is what it cannot make.

use crate::kernel::Kernel;
use crate::policy_store::PolicyOrigin;
use airlock_state::{PassphraseError, PassphraseFile};
use std::os::fd::AsFd;

/// Why nobody can answer here.
#[derive(Debug, thiserror::Error)]
pub enum PersonError {
    /// What was given is no terminal.
    #[error("answering needs a terminal, and this is none")]
    NoTerminal,
    /// The passphrase does not count.
    #[error(transparent)]
    Passphrase(#[from] PassphraseError),
}

impl PersonError {
    /// What would help.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoTerminal => Some("run the command in a terminal"),
            Self::Passphrase(error) => error.hint(),
        }
    }
}

/// A person at a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Person {
    passphrase: bool,
}

impl Person {
    /// Whether they said the passphrase.
    pub(crate) const fn said_passphrase(self) -> bool {
        self.passphrase
    }
}

impl Kernel {
    /// The person at `terminal`, with the passphrase they typed there, if they were asked for one.
    pub fn person(
        &self,
        terminal: impl AsFd,
        passphrase: Option<&str>,
    ) -> Result<Person, PersonError> {
        if !rustix::termios::isatty(terminal) {
            return Err(PersonError::NoTerminal);
        }
        if let Some(text) = passphrase {
            self.passphrase().check(text)?;
        }
        Ok(Person {
            passphrase: passphrase.is_some(),
        })
    }

    /// Whether a yes needs the passphrase. The workspace's policy says so while it is in force. Where
    /// none is, whoever set a passphrase is asked for it: what was changed in a workspace, or taken
    /// out of it, must not be approved with less than before.
    pub fn asks_passphrase(&self) -> bool {
        let policy = self.policy();
        match policy.origin() {
            PolicyOrigin::Workspace | PolicyOrigin::Tried => {
                policy.policy().document().approvals.require_passphrase
            }
            PolicyOrigin::Default | PolicyOrigin::Untrusted => self.passphrase().is_set(),
        }
    }

    /// Where the passphrase is kept.
    pub fn passphrase(&self) -> PassphraseFile {
        PassphraseFile::below(self.state_home())
    }
}
