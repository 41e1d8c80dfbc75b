//! Plugins in their boxes: what they see, what they are kept from, and that they go.

#![cfg(target_os = "linux")]

mod contained;
mod entry;
mod sees;
mod support;
