//! The one strict reader of YAML definitions: trees with places, checked fields, schemas. Pure: no
//! I/O, no clock.
//!
//! Guarantee: what is read means what is written. Every key is asked for or refused, nothing is an
//! anchor, an alias or a tag, and no file makes memory or time grow beyond its own size. Every
//! problem is gathered with its place. Non-guarantee: what a definition is about is its reader's
//! business.

mod fields;
mod problems;
mod schema;
mod tree;

pub use fields::{Mapping, Names};
pub use problems::{CODES, DefinitionError, Problems, Spot, code, shown};
pub use schema::{Mismatch, Schema, pattern};
pub use tree::{BYTES, Entry, Node, Tree, document, documents, read, text};
