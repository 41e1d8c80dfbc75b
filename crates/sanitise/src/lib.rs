//! What leaves the kernel: free of secrets, harmless to a terminal, bounded, flagged.
//!
//! Guarantee: text that passed a [`Sanitiser`] holds no control sequence, no secret of a known
//! form and none of the values it was given, in any of their common encodings; how the text was
//! cut into pieces makes no difference. Time grows with the text and nothing else.
//!
//! Non-guarantee: a secret of no known form passes, and so does one that was encrypted, compressed
//! or put in other words; rules on what may be read are the first wall. Flags on suspicious
//! instructions are hints, never proof of harmlessness.
//!
//! Pure: no I/O, no clock. Order: control sequences go first, so that nothing hides behind them;
//! then secrets are replaced and instructions flagged; length is bounded last, so that a cut never
//! leaves half a secret.

mod across;
mod base64;
mod bound;
mod class;
mod emit;
mod find;
mod fit;
mod flags;
mod kinds;
mod named;
mod numbers;
mod origin;
mod patterns;
mod plain;
mod prefilter;
mod sanitiser;
mod scan;
mod stream;
mod terminal;
mod value;
mod values;
mod work;

pub use bound::{Bound, Keep, page};
pub use find::{LONGEST_SECRET, Secret};
pub use fit::{fitted, weight};
pub use flags::Flag;
pub use origin::{Origin, is_tagged, tag};
pub use patterns::{MOST_PATTERNS, Patterns, RefusedPattern};
pub use sanitiser::{Cleaned, Sanitiser, legible_path, sanitise_line, sanitise_path};
pub use stream::{Stream, Summary};
pub use terminal::{strip_control, write_out};
pub use value::{DEFAULT_OUTPUT_BYTES, Sanitised, sanitise};
pub use values::{LONGEST_VALUE, MOST_VALUES, RefusedValue, SHORTEST_VALUE, Values};
