//! From text to checked values, with a place for every problem.

mod fields;
mod problems;
mod tree;

pub(crate) use fields::{Mapping, Names};
pub use problems::{CODES, DefinitionError};
pub(crate) use problems::{Problems, Spot, code, shown};
pub(crate) use tree::{Node, Tree, documents, read, text};
