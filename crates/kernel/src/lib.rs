//! The road every syscall takes, and the read-only built-in tools on it.

mod beneath;
pub mod tools;

pub use beneath::{OpenError, Root, RootError};
