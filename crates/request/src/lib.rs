//! One HTTPS request, made by a worker that has no network of its own.
//!
//! Whoever starts the worker makes the connection, hands it an [`Order`] and carries bytes to and
//! fro without looking at them; the worker does TLS and HTTP and gives an [`Answer`]. So what a
//! hostile server sends is read by a process that can reach nothing.
//!
//! Guarantee: the server's certificate is checked for the host of the order, redirects are not
//! followed, and an answer is bounded. Non-guarantee: which hosts may be reached is decided before.

mod exchange;
mod frame;
mod http;

pub use exchange::{Answer, Order, Problem, serve};
pub use frame::{Frame, FrameError, Frames};
