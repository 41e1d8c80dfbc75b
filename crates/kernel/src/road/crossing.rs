//! What of an outcome needs help to cross from one process to another.

/// Different words for failures that are remembered. Ours are a few dozen.
const WORDS: usize = 1024;
/// Longest word for a failure.
const WORD_BYTES: usize = 64;

/// An explanation, with the lines that its own serialised form leaves to whoever shows them.
pub(super) mod explanation {
    use airlock_policy::Explanation;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Told<'a> {
        explanation: &'a Explanation,
        body: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Heard {
        explanation: Explanation,
        body: Vec<String>,
    }

    pub(in crate::road) fn serialize<S: Serializer>(
        explanation: &Explanation,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let body = explanation.body();
        Told { explanation, body }.serialize(serializer)
    }

    pub(in crate::road) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Explanation, D::Error> {
        let Heard { explanation, body } = Heard::deserialize(deserializer)?;
        Ok(explanation.with_body(body))
    }
}

/// A stable word for a failure. Words are few and live as long as the process, so each is kept once;
/// a peer that sends ever new ones gets one word for all of them.
pub(super) mod code {
    use super::{WORD_BYTES, WORDS};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::HashSet;
    use std::sync::{Mutex, PoisonError};

    static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

    pub(in crate::road) fn serialize<S: Serializer>(
        word: &str,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(word)
    }

    pub(in crate::road) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<&'static str, D::Error> {
        String::deserialize(deserializer).map(known)
    }

    fn known(text: String) -> &'static str {
        let mut words = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let words = words.get_or_insert_default();
        if let Some(word) = words.get(text.as_str()) {
            return word;
        }
        if words.len() >= WORDS || text.len() > WORD_BYTES {
            return "unknown";
        }
        let word: &'static str = Box::leak(text.into_boxed_str());
        words.insert(word);
        word
    }
}
