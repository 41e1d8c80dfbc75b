//! What a decision is, and the one function that makes it out of contributions.
//!
//! Invariant: [`combine`] depends only on the set of contributions, never on their order. Any deny
//! denies; else any review asks; else any allow allows; else the answer is no.

use airlock_core::{ByteSize, Digest, Span};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// The result of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// It may not.
    Deny,
    /// It may happen after a person, or an authorised approver, said so.
    RequireReview,
}

impl Verdict {
    /// The word used in policy, logs and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireReview => "require_review",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one rule says about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opinion {
    /// In favour; does not end the evaluation.
    Allow,
    /// Against; final.
    Deny,
    /// Only after review; collected.
    RequireReview,
    /// No opinion: an exception applied.
    Pass,
}

/// Who holds an opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The capability enforcer.
    Capability,
    /// Rules compiled into Airlock.
    #[serde(rename = "built-in")]
    BuiltIn,
    /// Rules of the policy file.
    #[serde(rename = "policy")]
    Rules,
    /// User scripts and modules.
    Extension,
    /// A valid capability token.
    Token,
    /// A person's earlier answer that still holds.
    Grant,
    /// An approval gate: what a session may not do by itself.
    Gate,
    /// Nothing allowed it.
    Default,
}

impl Layer {
    /// The word used in logs and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Capability => "capability",
            Self::BuiltIn => "built-in",
            Self::Rules => "policy",
            Self::Extension => "extension",
            Self::Token => "token",
            Self::Grant => "grant",
            Self::Gate => "gate",
            Self::Default => "default",
        }
    }
}

/// One rule's opinion, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contribution {
    /// The layer the rule belongs to.
    pub layer: Layer,
    /// The rule's name.
    pub rule: Arc<str>,
    /// What it says.
    pub opinion: Opinion,
    /// Why, in the policy author's words or ours.
    pub reason: Arc<str>,
}

/// Opinions in the order the layers were asked: the few of a usual decision need no heap.
pub type Contributions = SmallVec<[Contribution; 2]>;

/// Limits that matching allow rules impose on the run: the strictest of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imposed {
    /// Longest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<Span>,
    /// Most output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<ByteSize>,
    /// Most memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<ByteSize>,
}

/// Identifies one policy by its content: equal text, equal generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(Digest);

impl Generation {
    /// The generation of a policy with this digest.
    pub const fn new(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest behind it.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.short())
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Generation({self})")
    }
}

/// The answer to a request, with everything that led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The result.
    pub verdict: Verdict,
    /// Every opinion that was given, in the order the layers were asked.
    pub contributions: Contributions,
    /// What the run is held to if it is allowed.
    pub imposed: Imposed,
    /// The policy that decided.
    pub generation: Generation,
}

impl Decision {
    /// The contributions that made the verdict what it is.
    pub fn deciding(&self) -> impl Iterator<Item = &Contribution> {
        let wanted = match self.verdict {
            Verdict::Allow => Opinion::Allow,
            Verdict::Deny => Opinion::Deny,
            Verdict::RequireReview => Opinion::RequireReview,
        };
        self.contributions
            .iter()
            .filter(move |c| c.opinion == wanted)
    }
}

/// The verdict over `opinions`, whatever their order.
pub fn combine(opinions: impl IntoIterator<Item = Opinion>) -> Verdict {
    let (mut review, mut allow) = (false, false);
    for opinion in opinions {
        match opinion {
            Opinion::Deny => return Verdict::Deny,
            Opinion::RequireReview => review = true,
            Opinion::Allow => allow = true,
            Opinion::Pass => {}
        }
    }
    match (review, allow) {
        (true, _) => Verdict::RequireReview,
        (false, true) => Verdict::Allow,
        (false, false) => Verdict::Deny,
    }
}
