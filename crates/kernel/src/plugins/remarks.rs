//! What the log has to say of plugins beside the calls about them: which were passed over, and what
//! each was given or refused of the paths it asked for.
//!
//! They come up while a call is carried out, or while nobody calls, where there is no record to write
//! them with. Guarantee: they are written with the next record, in order, before it. Non-guarantee:
//! what comes up when nothing follows is lost with the kernel; nothing but telling hangs on it.

use super::locked;
use crate::sanitise::sanitise_line;
use airlock_audit::{Entry, EventType, Stage};
use airlock_core::{Caller, Timestamp, limits};
use airlock_plugin::Rejected;
use std::sync::{Arc, Mutex};

/// Plugins that are told one by one each time: a workspace that nobody trusts can have any number.
const TOLD: usize = 100;
/// Remarks that wait to be written.
const WAITING: usize = 1_000;

struct Remark {
    event: EventType,
    caller: Option<Caller>,
    reason: Option<String>,
    metadata: Vec<(&'static str, String)>,
}

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Remarks(Mutex<Vec<Remark>>);

impl Remarks {
    /// A path that a plugin asks for in its box was looked at: `gate` is the one that is closed.
    pub(super) fn checked(&self, caller: &Caller, capability: &str, gate: Option<&str>) {
        let result = gate.map_or_else(|| "allowed".to_owned(), |gate| format!("denied: {gate}"));
        self.add(Remark {
            event: EventType::CapabilityCheck,
            caller: Some(caller.clone()),
            reason: None,
            metadata: vec![
                ("capability", sanitise_line(capability, 1_024)),
                ("plugin", caller.plugin.to_string()),
                ("result", result),
            ],
        });
    }

    /// These look like plugins and are none.
    pub(super) fn skipped(&self, rejected: &[Arc<Rejected>]) {
        for one in rejected.iter().take(TOLD) {
            let path = one.path.display().to_string();
            let mut metadata = vec![("path", sanitise_line(&path, limits::SUMMARY_CHARS))];
            metadata.extend(one.name.as_ref().map(|name| ("plugin", name.to_string())));
            let reason = sanitise_line(&one.reason.to_string(), limits::SUMMARY_CHARS);
            self.add(passed_over(reason, metadata));
        }
        let more = rejected.len().saturating_sub(TOLD);
        if more > 0 {
            let reason = format!("{more} more, which `airlock plugin list --rejected` shows");
            self.add(passed_over(reason, Vec::new()));
        }
    }

    fn add(&self, remark: Remark) {
        let mut waiting = locked(&self.0);
        if waiting.len() < WAITING {
            waiting.push(remark);
        }
    }

    /// All that waits, as records of `now`.
    pub(crate) fn take(&self, now: Timestamp) -> Vec<Entry> {
        let waiting = std::mem::take(&mut *locked(&self.0));
        waiting
            .into_iter()
            .map(|remark| {
                let mut entry = Entry::new(now, remark.event, Stage::Note);
                entry.caller = remark.caller;
                entry.reason = remark.reason;
                let metadata = remark.metadata.into_iter();
                let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
                entry.metadata.extend(metadata);
                entry
            })
            .collect()
    }
}

fn passed_over(reason: String, metadata: Vec<(&'static str, String)>) -> Remark {
    Remark {
        event: EventType::PluginSkipped,
        caller: None,
        reason: Some(reason),
        metadata,
    }
}
