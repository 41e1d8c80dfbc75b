//! The native launcher for Linux.
//!
//! [`resolve`] looks up what a launch means on this machine, [`compile`] makes a program of it,
//! [`sys`] carries it out in a child that ends up as init of a sandbox, and [`sandbox`] and
//! [`supervise`] are its supervisor's side.

mod compile;
mod control;
mod identity;
mod landlock;
mod program;
mod pump;
mod request;
mod resolve;
mod sandbox;
mod supervise;
mod sys;
mod wire;

pub use control::Control;
pub use sandbox::{Sandbox, start};
