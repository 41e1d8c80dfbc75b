//! One table for each mapping of the file: field, type, default, decoder, documentation.
//!
//! [`fields!`] makes the struct, its default, its decoder and its JSON Schema out of that one
//! table, so that none of them can know a key the others do not.

use super::code;
use super::problems::{Problems, Spot};
use super::shape::mapping;
use super::tree::{Entry, Node};

/// A type that can be read from a node of the file.
pub(crate) trait Decode: Sized {
    /// Every key of the mapping, in the order of the table.
    const KEYS: &'static [&'static str];

    /// Reads what is sound of the node; fields with an error keep their default.
    fn decode_partly(node: &Node, problems: &mut Problems) -> Option<Self>;

    /// Reads the node; `None` if anything in it was an error.
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let before = problems.errors();
        let value = Self::decode_partly(node, problems)?;
        (node.sound && problems.errors() == before).then_some(value)
    }
}

/// Makes a struct that is a mapping of the file: fields with type, default and decoder.
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident in $context:literal requires [$($required:literal),*] {
            $(
                $(#[$field_meta:meta])*
                $field:ident $(as $key:literal)? : $type:ty = $default:expr => $decoder:expr;
            )+
        }
    ) => {
        #[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
        $(#[$meta])*
        #[schemars(default, deny_unknown_fields, extend("required" = [$($required),*]))]
        $vis struct $name {
            $(
                $(#[$field_meta])*
                $(#[serde(rename = $key)])?
                pub $field: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }

        impl $crate::load::Decode for $name {
            const KEYS: &'static [&'static str] =
                &[$($crate::load::fields!(@key $field $($key)?)),+];

            fn decode_partly(
                node: &$crate::load::Node,
                problems: &mut $crate::load::Problems,
            ) -> Option<Self> {
                let entries = $crate::load::entries(node, $context, &[$($required),*], problems)?;
                let mut value = Self::default();
                for entry in entries {
                    $(
                        if entry.key == $crate::load::fields!(@key $field $($key)?) {
                            if let Some(found) = ($decoder)(&entry.value, problems) {
                                value.$field = found;
                            }
                            continue;
                        }
                    )+
                    $crate::load::unknown_field(entry, $context, Self::KEYS, problems);
                }
                Some(value)
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}
pub(crate) use fields;

/// The entries of a mapping; reports required ones that are missing.
pub(crate) fn entries<'a>(
    node: &'a Node,
    context: &str,
    required: &[&str],
    problems: &mut Problems,
) -> Option<&'a [Entry]> {
    let entries = mapping(node, context, problems)?;
    for name in required {
        if !entries.iter().any(|entry| entry.key == *name) {
            missing_field(node.spot, context, name, problems);
        }
    }
    Some(entries)
}

/// Reports a field that must be there.
pub(crate) fn missing_field(spot: Spot, context: &str, name: &str, problems: &mut Problems) {
    problems.error(
        code::MISSING_FIELD,
        spot,
        format!("`{name}` is missing in {context}"),
        if name == "version" {
            "add `version: 1`".to_owned()
        } else {
            format!("add `{name}:`")
        },
    );
}

/// Reports a field that does not exist, with the nearest that does.
pub(crate) fn unknown_field(entry: &Entry, context: &str, known: &[&str], problems: &mut Problems) {
    problems.unknown_in(
        code::UNKNOWN_FIELD,
        entry.spot,
        ("field", &entry.key),
        context,
        known,
    );
}
