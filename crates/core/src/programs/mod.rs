//! Programs that run others, and what is code to them: by their names and arguments. Pure.
//!
//! [`inner`] looks through wrappers to the program that is really run, where that can be told at all.
//! [`exposed`] finds the place in a command made of fixed words and of values where a value would be
//! a program or code.
//!
//! Non-guarantee: programs that are in none of the tables may run whatever they like.

mod exposed;
mod interpreters;
mod shells;
mod wrappers;

pub use exposed::{Exposed, Input, Word, exposed};
pub use wrappers::{Opaque, base_name, inner, is_system};
