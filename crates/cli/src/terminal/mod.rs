//! The person's terminal while a command of theirs runs on it: what reaches it, and how it is left.

mod filter;
mod raw;
mod signals;

pub(crate) use filter::{Filter, Level};
pub(crate) use raw::{Raw, size};
pub(crate) use signals::{Stopper, Watch};
