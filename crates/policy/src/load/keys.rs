//! The keys of a mapping: plain text, each once.

use super::code;
use super::problems::{Problems, Spot, shown};
use super::tree::{Entry, Node, Value};
use std::collections::HashMap;

/// A key that waits for its value.
pub(super) struct Key {
    /// `None` if it was refused.
    pub(super) text: Option<String>,
    /// Where it stands.
    pub(super) spot: Spot,
}

/// Takes a node as a key; a key without text was reported and takes its value with it.
pub(super) fn read_key(node: Node, problems: &mut Problems) -> Key {
    let spot = node.spot;
    let refused = Key { text: None, spot };
    let (text, plain) = match node.value {
        Value::Scalar { text, plain } => (text, plain),
        Value::Broken => return refused,
        Value::Sequence(_) | Value::Mapping(_) => {
            problems.error(
                code::KEY_NOT_TEXT,
                spot,
                "a list or mapping stands where a key belongs",
                "write a plain word before the `:`; quote text that begins with `[` or `{`",
            );
            return refused;
        }
    };
    if plain && text == "<<" {
        problems.error(
            code::MERGE_KEY,
            spot,
            "a YAML merge key: it would hide what applies here",
            "write the fields out",
        );
        return refused;
    }
    Key {
        text: Some(text),
        spot,
    }
}

/// The entries without later ones that repeat a key, which are reported.
pub(super) fn unique(entries: Vec<Entry>, problems: &mut Problems) -> Vec<Entry> {
    let mut lines: HashMap<&str, u32> = HashMap::with_capacity(entries.len());
    let mut repeated = Vec::new();
    for (index, Entry { key, spot, .. }) in entries.iter().enumerate() {
        if let Some(line) = lines.get(key.as_str()) {
            problems.error(
                code::DUPLICATE_KEY,
                *spot,
                format!(
                    "`{}` is given twice; the first is on line {line}",
                    shown(key)
                ),
                "keep one of the two",
            );
            repeated.push(index);
        } else {
            lines.insert(key, spot.place.line);
        }
    }
    let mut repeated = repeated.into_iter().peekable();
    entries
        .into_iter()
        .enumerate()
        .filter(|(index, _)| repeated.next_if_eq(index).is_none())
        .map(|(_, entry)| entry)
        .collect()
}
