//! Exact values that no result may show: secrets the person gave to plugins.
//!
//! Guarantee: from the moment one is held until the kernel ends, it is taken out of every result,
//! also after the person set another. Non-guarantee: one too short or too plain to be told from
//! other text is not looked for, and whoever has it held is told so.

use airlock_sanitise::{Patterns, RefusedValue, Sanitiser, Values};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest name of a value in its placeholder.
const NAME: usize = 60;

/// The longest line that is told on.
const LINE: usize = 2_000;

/// What is held.
#[derive(Default)]
pub(crate) struct Held(Mutex<State>);

/// The name of a value, and the value.
type Named = (String, String);

#[derive(Default)]
struct State {
    known: BTreeSet<Named>,
    /// Those that are not looked for, and why.
    refused: BTreeMap<Named, RefusedValue>,
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
    /// Holds these from now on, each with the name that stands in its place. Says of which that is
    /// not so and why, in words for people, each once and without the value.
    pub(crate) fn hold(&self, named: &[Named]) -> BTreeSet<String> {
        let named = named.iter();
        let named = named.map(|(name, value)| (plain(name), value.clone()));
        let named: Vec<Named> = named.collect();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.known.len();
        state.known.extend(named.iter().cloned());
        if state.known.len() > before {
            state.renew();
        }
        let refused = named.iter().filter_map(|one| state.refused.get(one));
        refused.map(told).collect()
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

impl State {
    fn renew(&mut self) {
        let mut values = Values::new();
        self.refused.clear();
        for named in &self.known {
            let (name, value) = named;
            if let Err(refused) = values.add(name, value.as_bytes()) {
                self.refused.insert(named.clone(), refused);
            }
        }
        self.values = Arc::new(values);
        self.version += 1;
    }
}

/// Which of these values would not be taken out of results, by name, and why. No value is in it.
pub fn not_held(named: &[Named]) -> BTreeSet<String> {
    Held::default().hold(named)
}

/// `name` as it can stand in a placeholder.
fn plain(name: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let name: String = name.chars().filter(plain).take(NAME).collect();
    if name.is_empty() {
        "setting".to_owned()
    } else {
        name
    }
}

fn told(refused: &RefusedValue) -> String {
    format!("{refused}: {}", refused.hint())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, value: &str) -> Named {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_is_not_looked_for_is_told_each_time_and_never_shown() {
        let long = "long".repeat(4_000);
        let given = [
            named("pin", "4711-x"),
            named("file", &long),
            named("key", "zebra-Quartz-41907"),
        ];
        let held = Held::default();
        for time in ["at first", "again"] {
            let told: Vec<String> = held.hold(&given).into_iter().collect();
            let [file, pin] = told.as_slice() else {
                panic!("{time}: {told:?}");
            };
            assert!(
                file.contains("`file` is longer than 8192 bytes"),
                "{time}: {file}"
            );
            assert!(pin.contains("`pin` is too short"), "{time}: {pin}");
            assert!(!file.contains("longlong") && !pin.contains("4711"));
        }
        assert_eq!(
            held.cleaned("zebra-Quartz-41907 4711-x"),
            "[secret:key#1] 4711-x"
        );
        assert!(held.hold(&[named("key", "zebra-Quartz-41907")]).is_empty());
    }
}
