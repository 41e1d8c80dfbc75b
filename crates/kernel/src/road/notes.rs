//! Records of what else a call brought about, beside its attempt and its outcome: each a note under
//! its own name, so that whoever looks for such a thing finds it.
//!
//! They go with the record they belong to, in one write, and cost a call that brings about nothing
//! of the kind nothing.

use super::record::Trail;
use crate::content;
use crate::hold::Move;
use crate::policy_store::PolicyInForce;
use crate::sanitise::{Clean, Flag, Origin, Told, rules, sanitise_line};
use crate::tools::Keep;
use airlock_audit::{Entry, EventType, Stage};
use airlock_core::{Request, Tier, limits};
use airlock_sanitise::Bound;
use serde_json::Value;
use std::path::Path;

/// Under these names a record has the digests of whole arguments and results.
pub(super) const INPUT: &str = "content_input";
pub(super) const OUTPUT: &str = "content_output";

/// Whether `request` runs outside the kernel: in a sandbox, or where a plugin is hosted.
pub(super) fn is_foreign(request: &Request) -> bool {
    match request.tier {
        Tier::Kernel => false,
        Tier::Wasm | Tier::Process | Tier::Container => true,
    }
}

/// Whether a no to `syscall` is a no to a merge.
pub(crate) fn is_merge(syscall: &str) -> bool {
    matches!(syscall, "merge.apply" | "phase.commit")
}

impl Trail<'_> {
    /// Keeps whole contents from here on, if `policy` says so.
    pub(super) fn keeps_content(&mut self, policy: &PolicyInForce, arguments: &Value) {
        if !policy.policy().document().audit.keep_content {
            return;
        }
        let place = self.state();
        let whole = Bound::bytes(Keep::Head, usize::MAX / 2);
        let clean = self.cleaner().value(arguments.clone(), whole);
        let digest = kept(&place, &clean.value);
        self.keep_in(place, digest);
    }

    /// A tool outside the kernel is about to run.
    pub(super) fn begins(&self, request: &Request) -> Entry {
        let mut entry = self.entry(EventType::ToolExecute, Stage::Note);
        entry.tool = request.tool.as_deref().map(str::to_owned);
        put(&mut entry, "tier", request.tier.as_str());
        if let Some(template) = &request.template {
            put(&mut entry, "template", template);
        }
        entry
    }

    /// What had to be taken out of a result, and what in it may be instructions.
    pub(super) fn found(&self, clean: &Clean) -> impl Iterator<Item = Entry> {
        let secrets = clean.sanitised.secrets;
        let redacted = (secrets > 0).then(|| self.redacted("result", secrets));
        let flags = &clean.sanitised.flags;
        let flagged = self.flagged(flags, &clean.origin, clean.withheld.is_some());
        redacted.into_iter().chain(flagged)
    }

    /// The same for what was said of a failure.
    pub(super) fn suspected(&self, told: &Told) -> Vec<Entry> {
        let redacted = (told.secrets > 0).then(|| self.redacted("failure", told.secrets));
        let flagged = self.flagged(&told.flags, &told.origin, told.withheld);
        redacted.into_iter().chain(flagged).collect()
    }

    fn flagged(&self, flags: &[Flag], origin: &Origin, withheld: bool) -> Option<Entry> {
        if flags.is_empty() {
            return None;
        }
        let mut entry = self.entry(EventType::InjectionFlagged, Stage::Note);
        let treatment = if withheld { "withheld" } else { "marked" };
        put(&mut entry, "flags", &rules(flags));
        put(&mut entry, "origin", &origin.to_string());
        put(&mut entry, "treatment", treatment);
        Some(entry)
    }

    /// `count` secrets were taken out of the `place` of this call.
    pub(super) fn redacted(&self, place: &str, count: usize) -> Entry {
        let mut entry = self.entry(EventType::SecretRedacted, Stage::Note);
        put(&mut entry, "place", place);
        put(&mut entry, "secrets", &count.to_string());
        entry
    }

    /// Where the call took a session.
    pub(super) fn moved(&self, moved: &Move) -> Vec<Entry> {
        let step = |event, from: &str, to: &str| {
            let mut entry = self.entry(event, Stage::Note);
            put(&mut entry, "session", moved.session.as_str());
            put(&mut entry, "from", from);
            put(&mut entry, "to", to);
            entry
        };
        let ((mode, new_mode), (phase, new_phase)) = (moved.mode, moved.phase);
        let mut steps = Vec::new();
        if mode != new_mode {
            let (from, to) = (mode.as_str(), new_mode.as_str());
            steps.push(step(EventType::SessionModeChange, from, to));
        }
        if phase != new_phase {
            let (from, to) = (phase.as_str(), new_phase.as_str());
            steps.push(step(EventType::StateTransition, from, to));
        }
        steps
    }
}

fn put(entry: &mut Entry, name: &str, value: &str) {
    let value = sanitise_line(value, limits::SUMMARY_CHARS);
    entry.metadata.insert(name.to_owned(), value);
}

/// Keeps `value`; its digest, or in its place why it could not be kept.
pub(super) fn kept(state: &Path, value: &Value) -> String {
    match content::keep(state, value) {
        Ok(digest) => digest.to_string(),
        Err(error) => format!("not kept: {error}"),
    }
}
