//! The explanation as lines under a headline, like a compiler's.

use super::place::{self, Spots};
use super::steps::Ids;
use super::text::quoted;
use super::{Explanation, Voice};
use crate::decision::{Imposed, Layer, Opinion};
use crate::rules::Policy;

/// Most rules whose line is shown.
const SHOWN_PLACES: usize = 3;

impl Voice {
    /// "rule `x` (policy, line 12) asks for review: because".
    pub(super) fn sentence(&self) -> String {
        let name = quoted(&self.rule);
        let who = match (self.layer, self.place) {
            (Layer::Rules, Some(place)) => format!("rule {name} (policy, line {})", place.line),
            (Layer::Rules | Layer::BuiltIn, _) => {
                format!("rule {name} ({})", self.layer.as_str())
            }
            (Layer::Capability, _) => format!("the capability gate {name}"),
            (Layer::Extension, _) => format!("extension {name}"),
            (Layer::Token, _) => format!("token {name}"),
            (Layer::Grant, _) => format!("the earlier answer {name}"),
            (Layer::Gate, _) => format!("gate {name}"),
            (Layer::Default, _) => return self.reason.clone(),
        };
        let says = match self.opinion {
            Opinion::Allow => "allows it",
            Opinion::Deny => "denies it",
            Opinion::RequireReview => "asks for review",
            Opinion::Pass => "passes, as an exception applies",
        };
        match self.own_reason() {
            Some(reason) => format!("{who} {says}: {reason}"),
            None => format!("{who} {says}"),
        }
    }

    /// The reason, unless it only repeats the rule's name, or the author's words no longer apply.
    fn own_reason(&self) -> Option<&str> {
        let repeats = self.reason.ends_with(&format!("by rule `{}`", self.rule));
        let author = self.layer == Layer::Rules && self.opinion == Opinion::Pass;
        (!repeats && !author).then_some(self.reason.as_str())
    }
}

pub(super) fn body(policy: &Policy, ids: &Ids<'_>, explanation: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    places(policy, ids, explanation, &mut lines);
    for voice in &explanation.contributions {
        lines.push(format!(
            "  = {}: {}",
            voice.layer.as_str(),
            voice.sentence()
        ));
    }
    if let Some(nearest) = &explanation.nearest {
        lines.push(format!("  = nearest: {}", nearest.sentence()));
    }
    if let Some(limits) = limits(explanation.imposed) {
        lines.push(format!("  = limits: {limits}"));
    }
    for fix in &explanation.fixes {
        let mut text = fix.text.lines();
        lines.push(format!("  = fix: {}", text.next().unwrap_or_default()));
        lines.extend(text.map(|line| format!("      {line}")));
    }
    lines
}

/// The lines of the file that decided, and of the fields that kept the nearest rule away.
fn places(policy: &Policy, ids: &Ids<'_>, explanation: &Explanation, lines: &mut Vec<String>) {
    let deciding = explanation.contributions.iter().filter(|one| one.deciding);
    for voice in deciding.take(SHOWN_PLACES) {
        let id = ids
            .get(voice.rule.as_str())
            .filter(|_| voice.place.is_some());
        let Some(spot) = id.and_then(|id| Spots::of(policy, *id).beginning()) else {
            continue;
        };
        let note = match voice.opinion {
            Opinion::Allow => "allowed here",
            Opinion::Deny => "denied here",
            Opinion::RequireReview => "held for review here",
            Opinion::Pass => "passed here",
        };
        lines.extend(place::pointed(policy, spot, note));
    }
    let Some(nearest) = &explanation.nearest else {
        return;
    };
    let spots = Spots::of(policy, nearest.id);
    for mismatch in nearest.mismatches.iter().take(SHOWN_PLACES) {
        if let Some(spot) = spots.field(&mismatch.field).or(spots.beginning()) {
            let note = match mismatch.place {
                Some(_) => mismatch.contrast(),
                None => format!("`{}` fails: {}", mismatch.field, mismatch.contrast()),
            };
            lines.extend(place::pointed(policy, spot, &note));
        }
    }
    let exception = nearest.exception.then(|| spots.beginning()).flatten();
    if let Some(spot) = exception {
        let note = "an exception of this rule applies";
        lines.extend(place::pointed(policy, spot, note));
    }
}

fn limits(imposed: Imposed) -> Option<String> {
    let parts: Vec<String> = [
        imposed
            .max_duration
            .map(|most| format!("max_duration {most}")),
        imposed.max_output.map(|most| format!("max_output {most}")),
        imposed.max_memory.map(|most| format!("max_memory {most}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
