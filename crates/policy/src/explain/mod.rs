//! Says why a request was decided as it was, and what would make it pass.
//!
//! Guarantee: every suggested change of rules was tried before it is said: with all of them made,
//! the same request gets the verdict in [`Explanation::then`]. Everything shown is plain text: no
//! colours, no control characters, whatever paths, names and reasons hold. Arguments are never
//! shown.
//!
//! Non-guarantees: what extensions say after a change is not known, and a change of capabilities,
//! tokens or answers is named but not tried: they lie outside of the policy. Of several rules that
//! come equally close the first is named.
//!
//! Invariant: explaining decides nothing. It reads a decision and a policy, and is asked only after
//! the answer is given.

mod allowing;
mod elsewhere;
mod fix;
mod headline;
mod lifting;
mod nearest;
mod place;
mod render;
mod settings;
mod steps;
mod summary;
mod text;
mod unsaid;

pub use fix::{Fix, Remedy};
pub use nearest::{Mismatch, Nearest};
pub use settings::SettingSummary;
pub use summary::RuleSummary;

use crate::decision::{Contribution, Decision, Generation, Imposed, Layer, Opinion, Verdict};
use crate::document::Place;
use crate::engine::Engine;
use crate::rules::Policy;
use airlock_core::Request;
use serde::{Deserialize, Serialize};
use steps::Ids;

/// Why a request was decided as it was, and what would make it pass.
///
/// Serialised it is the `--json` form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    verdict: Verdict,
    headline: String,
    generation: Generation,
    contributions: Vec<Voice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<Nearest>,
    fixes: Vec<Fix>,
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<Verdict>,
    imposed: Imposed,
    #[serde(skip)]
    body: Vec<String>,
}

/// One contribution, with where its rule stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Voice {
    layer: Layer,
    rule: String,
    opinion: Opinion,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<Place>,
    deciding: bool,
}

/// Explains `decision`, which was taken on `request` under `policy`.
pub fn explain(policy: &Policy, request: &Request, decision: &Decision) -> Explanation {
    // Names of another generation may be other rules.
    let ids: Ids<'_> = if decision.generation == policy.generation() {
        let rules = policy.rules.iter().enumerate();
        rules.map(|(id, rule)| (&*rule.name, id)).collect()
    } else {
        Ids::new()
    };
    let steps = steps::steps(policy, &ids, request, decision);
    let voices = decision.contributions.iter();
    let mut explanation = Explanation {
        verdict: decision.verdict,
        headline: headline::headline(request, decision.verdict),
        generation: decision.generation,
        contributions: voices
            .map(|one| voice(policy, &ids, decision.verdict, one))
            .collect(),
        nearest: steps.nearest,
        fixes: steps.fixes,
        then: steps.then,
        imposed: decision.imposed,
        body: Vec::new(),
    };
    explanation.body = render::body(policy, &ids, &explanation);
    explanation
}

fn voice(policy: &Policy, ids: &Ids<'_>, verdict: Verdict, one: &Contribution) -> Voice {
    let id = ids.get(&*one.rule).filter(|_| one.layer == Layer::Rules);
    let place = id
        .and_then(|id| policy.rules.get(*id))
        .map(|rule| rule.place)
        .filter(|place| place.line > 0);
    Voice {
        layer: one.layer,
        rule: text::plain(&one.rule),
        opinion: one.opinion,
        reason: text::prose(&one.reason),
        place,
        deciding: match verdict {
            Verdict::Allow => one.opinion == Opinion::Allow,
            Verdict::Deny => one.opinion == Opinion::Deny,
            Verdict::RequireReview => one.opinion == Opinion::RequireReview,
        },
    }
}

impl Engine {
    /// Explains `decision`, which this engine took on `request`.
    ///
    /// If the policy was reloaded meanwhile nothing is suggested: it might no longer be true.
    pub fn explain(&self, request: &Request, decision: &Decision) -> Explanation {
        explain(&self.policy(), request, decision)
    }
}

impl Explanation {
    /// What was decided.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// One line: what was asked, and what became of it.
    pub fn headline(&self) -> &str {
        &self.headline
    }

    /// One line for each contribution that decided, and for a denial by default the nearest rule.
    pub fn reasons(&self) -> impl Iterator<Item = String> {
        let deciding = self.contributions.iter().filter(|one| one.deciding);
        let nearest = self.nearest.iter().map(Nearest::sentence);
        deciding.map(Voice::sentence).chain(nearest)
    }

    /// What to do to have it allowed. Every one is needed; a rule to add spans several lines.
    pub fn fixes(&self) -> impl Iterator<Item = String> {
        self.fixes.iter().map(|fix| fix.text.clone())
    }

    /// The fixes as data.
    pub fn remedies(&self) -> &[Fix] {
        &self.fixes
    }

    /// The allow rule that comes closest, where nothing allowed.
    pub const fn nearest(&self) -> Option<&Nearest> {
        self.nearest.as_ref()
    }

    /// The verdict once every fix is made, where that is known: rules alone decide it.
    pub const fn then(&self) -> Option<Verdict> {
        self.then
    }

    /// The lines under the headline: every contribution, the places they point at, the fixes.
    pub fn body(&self) -> Vec<String> {
        self.body.clone()
    }

    /// The same with other lines under the headline: they are no part of what is serialised.
    #[must_use]
    pub fn with_body(mut self, body: Vec<String>) -> Self {
        self.body = body;
        self
    }
}
