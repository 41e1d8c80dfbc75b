//! The native launcher for Linux.

mod collector;
mod limits;
mod sys;
