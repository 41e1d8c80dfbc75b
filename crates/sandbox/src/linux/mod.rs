//! The native launcher for Linux.

mod sys;
