//! The native launcher for Linux.

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "its first caller, the launcher, comes next")
)]
mod broker;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "its first caller, the launcher, comes next")
)]
mod sys;
