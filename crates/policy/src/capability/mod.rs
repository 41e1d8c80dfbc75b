//! Capabilities: dotted names with path scopes, patterns over them, compiled sets.
//!
//! A capability is dotted segments, the last of which may be a path scope: a segment that begins
//! with `/` or `~` runs to the end of the text, and dots in it are ordinary characters.
//!
//! | pattern has | it matches |
//! | --- | --- |
//! | `*` as a whole segment | one or more segments; a path scope counts as one, the last |
//! | `*` inside a segment | any run of characters of that segment, also none; never a path scope |
//! | `*` as the last path component | everything below, at any depth, but not the directory itself |
//! | `*` elsewhere in a path | characters of one component |
//! | `**` as a path component | any number of components, also none |
//!
//! There is no other syntax: no alternatives, no classes, no negation, no escapes. In a capability
//! that is asked for, `*` is a character like any other, so asking for `*` gains nothing.
//!
//! Guarantee: malformed text matches nothing, not even `*`; the work of a match is bounded by
//! pattern size times capability size, whatever the two hold; and [`CapabilitySet::contains`]
//! follows an index, so that unrelated patterns cost nothing.
//!
//! Not guaranteed: nothing here touches the file system. `~` is not expanded but by whoever knows the
//! home ([`Pattern::in_home`]), and symlinks are not followed; paths are compared as the normalised
//! text the kernel hands in.
//!
//! Invariant: a [`Pattern`] is well formed because [`Pattern::parse`] alone makes one, and a
//! [`CapabilitySet`] never changes once compiled.

mod error;
mod families;
mod index;
mod pattern;
mod set;
mod text;
mod token;
mod walk;

pub use error::CapabilityError;
pub use families::{FAMILIES, Family, known_family};
pub use pattern::Pattern;
pub use set::{CapabilitySet, PatternError};
pub use text::Capability;
