//! The policy file: bytes in, checked document or every problem out.

mod diagnostic;

pub use diagnostic::{Diagnostic, Severity};
