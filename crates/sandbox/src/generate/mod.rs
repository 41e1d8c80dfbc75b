//! Plans as the input of other programs: bubblewrap's arguments, a Seatbelt profile.
//!
//! Pure, and the same on every platform, so that what cannot be run here is at least tested by its
//! content. Whatever a plan contains is data in what is generated: it stands as one argument of its
//! own, or inside one string literal.
//!
//! Not here: whoever hands them to `bwrap`, looks at the machine for the facts they need, and raises
//! the walls it cannot. Not anywhere yet: whoever does so for `sandbox-exec`.

mod bwrap;
mod seatbelt;

pub use bwrap::{AtHome, Bwrap, BwrapError, BwrapFacts, Handed, Mask, SystemEntry, bwrap};
pub use seatbelt::{SeatbeltError, SeatbeltFacts, seatbelt};
