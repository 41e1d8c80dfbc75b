//! Exact values that no result may show: secrets the person gave to plugins.
//!
//! Guarantee: from the moment one is held until the kernel ends, it is taken out of every result,
//! also after the person set another. Non-guarantee: one too short or too plain to be told from
//! other text is not looked for.

use airlock_sanitise::{Patterns, Sanitiser, Values};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The longest name of a value in its placeholder.
const NAME: usize = 60;

/// The longest line that is told on.
const LINE: usize = 2_000;

/// What is held.
#[derive(Default)]
pub(crate) struct Held(Mutex<State>);

#[derive(Default)]
struct State {
    known: BTreeSet<(String, String)>,
    /// Counts the changes.
    version: u64,
    values: Arc<Values>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Held")
    }
}

impl Held {
    /// Holds these from now on, each with the name that stands in its place.
    pub(crate) fn hold(&self, named: &[(String, String)]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.known.len();
        let plain = |name: &str| -> String {
            let plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
            let name: String = name.chars().filter(plain).take(NAME).collect();
            if name.is_empty() {
                "setting".to_owned()
            } else {
                name
            }
        };
        let named = named.iter();
        let named = named.map(|(name, value)| (plain(name), value.clone()));
        state.known.extend(named);
        if state.known.len() == before {
            return;
        }
        let mut values = Values::new();
        for (name, value) in &state.known {
            // What is refused cannot be told from other text.
            let _looked_for = values.add(name, value.as_bytes());
        }
        state.values = Arc::new(values);
        state.version += 1;
    }

    /// One line of a plugin's own words, without what is held.
    pub(crate) fn cleaned(&self, text: &str) -> String {
        let (_, values) = self.now();
        Sanitiser::with(values, Arc::new(Patterns::new())).line(text, LINE)
    }

    /// What is held now, and which version that is.
    pub(super) fn now(&self) -> (u64, Arc<Values>) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.version, Arc::clone(&state.values))
    }
}
