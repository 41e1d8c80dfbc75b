//! What the log has to say of plugins beside the calls about them: which were passed over, and what
//! each was given or refused of the paths it asked for.
//!
//! They come up while a call is carried out, or while nobody calls, where there is no record to write
//! them with: they are noted in the kernel's book.

use crate::book::Book;
use crate::sanitise::{sanitise_line, sanitise_path};
use airlock_audit::EventType;
use airlock_core::{Caller, limits};
use airlock_plugin::{Place, Rejected};
use airlock_policy::CapabilityGate;
use std::sync::Arc;

/// Plugins that are told one by one each time: a workspace that nobody trusts can have any number.
const TOLD: usize = 100;

/// Tells the kernel's book of plugins.
pub(super) struct Remarks(pub(super) Book);

impl Remarks {
    /// A path that a plugin asks for in its box was looked at: `gate` is the one that is closed. It is
    /// noted by where it really is, and by what the manifest calls it where that is elsewhere.
    pub(super) fn checked(
        &self,
        caller: &Caller,
        (right, place): (&str, &Place),
        gate: Option<CapabilityGate>,
    ) {
        let result = gate.map_or_else(|| "allowed".to_owned(), |gate| format!("denied: {gate}"));
        let capability = sanitise_path(&format!("{right}.{}", place.real().display()));
        let mut entry = self.0.entry(EventType::CapabilityCheck);
        entry.caller = Some(caller.clone());
        entry.metadata.extend([
            ("capability".to_owned(), sanitise_line(&capability, 1_024)),
            ("plugin".to_owned(), caller.plugin.to_string()),
            ("result".to_owned(), result),
        ]);
        if place.real() != place.named() {
            let asked = sanitise_line(place.asked(), 1_024);
            entry.metadata.insert("asked".to_owned(), asked);
        }
        self.0.add(entry);
    }

    /// These look like plugins and are none.
    pub(super) fn skipped(&self, rejected: &[Arc<Rejected>]) {
        for one in rejected.iter().take(TOLD) {
            let path = one.path.display().to_string();
            let mut metadata = vec![("path", sanitise_line(&path, limits::SUMMARY_CHARS))];
            metadata.extend(one.name.as_ref().map(|name| ("plugin", name.to_string())));
            let reason = sanitise_line(&one.reason.to_string(), limits::SUMMARY_CHARS);
            self.passed_over(reason, metadata);
        }
        let more = rejected.len().saturating_sub(TOLD);
        if more > 0 {
            let reason = format!("{more} more, which `airlock plugin list --rejected` shows");
            self.passed_over(reason, Vec::new());
        }
    }

    fn passed_over(&self, reason: String, metadata: Vec<(&'static str, String)>) {
        let mut entry = self.0.entry(EventType::PluginSkipped);
        entry.reason = Some(reason);
        let metadata = metadata.into_iter();
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
        entry.metadata.extend(metadata);
        self.0.add(entry);
    }
}
