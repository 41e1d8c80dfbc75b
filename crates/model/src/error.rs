//! Why there is no answer.

use crate::budget::OverBudget;
use crate::scripted::ScriptError;
use std::time::Duration;

/// Where a question was when its time ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reaching the server.
    Connect,
    /// Waiting for its answer to begin.
    FirstByte,
    /// Waiting for more of it.
    BetweenChunks,
    /// All of it.
    Total,
}

impl Phase {
    const fn doing(self) -> &'static str {
        match self {
            Self::Connect => "connecting",
            Self::FirstByte => "waiting for the first byte",
            Self::BetweenChunks => "waiting for the next piece",
            Self::Total => "answering",
        }
    }
}

/// What is wrong with the certificate that a server shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// Nobody who is trusted has signed it.
    #[error("no authority that this machine or `ca_file` knows has signed it")]
    UnknownIssuer,
    /// It is another host's.
    #[error("it is made out to another name")]
    WrongName,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// Its time has not come.
    #[error("it is not valid yet")]
    NotYetValid,
    /// Something else.
    #[error("{0}")]
    Other(String),
}

impl CertificateFault {
    const fn hint(&self) -> &'static str {
        match self {
            Self::UnknownIssuer => {
                "if you trust this server, name a file with its authority's certificate as \
                 `ca_file` of the model"
            }
            Self::WrongName => {
                "check the host in `base_url`: it has to be the name in the certificate"
            }
            Self::Expired => {
                "have the server's certificate renewed, or set the clock of this machine right"
            }
            Self::NotYetValid => "set the clock of this machine right, or wait",
            Self::Other(_) => "check `base_url` and the certificate of the server",
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model is not configured in a way that could work.
    #[error("model `{model}` is not configured rightly: {why}")]
    Configuration {
        /// The model.
        model: String,
        /// What is wrong.
        why: String,
    },
    /// Nobody answers there.
    #[error("cannot reach `{host}`: {why}")]
    Unreachable {
        /// Where.
        host: String,
        /// Why.
        why: String,
    },
    /// Whoever is there cannot show that it is the right one, and was told nothing.
    #[error("the certificate of `{host}` is not accepted: {fault}")]
    Certificate {
        /// Where.
        host: String,
        /// What is wrong with it.
        fault: CertificateFault,
    },
    /// It took too long.
    #[error("`{host}` took more than {after:?} {}", phase.doing())]
    TimedOut {
        /// Where.
        host: String,
        /// At what.
        phase: Phase,
        /// How long it had.
        after: Duration,
    },
    /// The key is not accepted.
    #[error("`{host}` does not accept the key (status {status}): {message}")]
    Unauthorized {
        /// Where.
        host: String,
        /// The HTTP status.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// Too many questions, or the server has too much to do.
    #[error("`{host}` asks to come back later (status {status}): {message}")]
    Busy {
        /// Where.
        host: String,
        /// The HTTP status.
        status: u16,
        /// What the server says.
        message: String,
        /// When to come back, if it says so.
        after: Option<Duration>,
    },
    /// The server does not take the question.
    #[error("`{host}` refuses the request (status {status}): {message}")]
    Rejected {
        /// Where.
        host: String,
        /// The HTTP status.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// The conversation is longer than the model can take.
    #[error("the conversation is too long for model `{model}`: {message}")]
    ContextLength {
        /// The model.
        model: String,
        /// What the server says.
        message: String,
    },
    /// The server will not look at the question, for its content.
    #[error("`{host}` filtered the request: {message}")]
    Filtered {
        /// Where.
        host: String,
        /// What the server says.
        message: String,
    },
    /// The server sends elsewhere, where the key must not go.
    #[error("`{host}` redirects to `{to}`, which is not followed")]
    Redirected {
        /// Where.
        host: String,
        /// Where to.
        to: String,
    },
    /// What came is not the protocol.
    #[error("`{host}` sent something that is no answer: {what}")]
    Malformed {
        /// Where.
        host: String,
        /// What is wrong with it.
        what: String,
    },
    /// What came is more than anybody needs.
    #[error("`{host}` sent more than {most} bytes of {what}")]
    TooLarge {
        /// Where.
        host: String,
        /// Of what.
        what: &'static str,
        /// The bound.
        most: usize,
    },
    /// The connection ended in the middle of the answer.
    #[error("`{host}` broke off in the middle of the answer: {why}")]
    Disconnected {
        /// Where.
        host: String,
        /// How it ended.
        why: String,
    },
    /// It was taken back.
    #[error("the question was taken back")]
    Cancelled,
    /// It would go over a budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The script does not fit what happens.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Every configured model failed; the last one for this reason.
    #[error("none of the configured models answers: {}", told.join("; "))]
    NoneAnswers {
        /// What each of them said.
        told: Vec<String>,
        /// The last reason.
        #[source]
        last: Box<ModelError>,
    },
}

impl ModelError {
    /// Whether the same question may be answered later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Busy { .. }
            | Self::Disconnected { .. } => true,
            Self::Configuration { .. }
            | Self::Certificate { .. }
            | Self::Unauthorized { .. }
            | Self::Rejected { .. }
            | Self::ContextLength { .. }
            | Self::Filtered { .. }
            | Self::Redirected { .. }
            | Self::Malformed { .. }
            | Self::TooLarge { .. }
            | Self::Cancelled
            | Self::OverBudget(_)
            | Self::Script(_)
            | Self::NoneAnswers { .. } => false,
        }
    }

    /// Whether another model may answer the same question.
    pub fn is_of_this_model(&self) -> bool {
        match self {
            Self::Configuration { .. }
            | Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::TimedOut { .. }
            | Self::Unauthorized { .. }
            | Self::Busy { .. }
            | Self::Rejected { .. }
            | Self::Redirected { .. }
            | Self::Malformed { .. }
            | Self::TooLarge { .. }
            | Self::Disconnected { .. } => true,
            Self::ContextLength { .. }
            | Self::Filtered { .. }
            | Self::Cancelled
            | Self::OverBudget(_)
            | Self::Script(_)
            | Self::NoneAnswers { .. } => false,
        }
    }

    /// What would help.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Configuration { .. } => "mend its entry under `models:` in your configuration",
            Self::Unreachable { .. } => "check `base_url`, `proxy` and the network",
            Self::Certificate { fault, .. } => fault.hint(),
            Self::TimedOut { .. } | Self::Disconnected { .. } => {
                "try again, or configure another model"
            }
            Self::Unauthorized { .. } => "check the key of this model in your configuration",
            Self::Busy { .. } => "try again later, or configure another model",
            Self::Rejected { .. } => "check `model` and `base_url` in your configuration",
            Self::ContextLength { .. } => "set `window` of the model to what it really takes",
            Self::Filtered { .. } => "say it differently; the provider decides what it looks at",
            Self::Redirected { .. } => "if you trust that host, make it the `base_url`",
            Self::Malformed { .. } | Self::TooLarge { .. } => {
                "check that `base_url` is a server of OpenAI's chat completions"
            }
            Self::Cancelled => return None,
            Self::OverBudget(error) => return Some(error.hint().to_owned()),
            Self::Script(error) => return Some(error.hint().to_owned()),
            Self::NoneAnswers { last, .. } => return last.hint(),
        };
        Some(hint.to_owned())
    }
}
