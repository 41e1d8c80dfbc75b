//! A process that makes the children of sandboxes for the one that made it.
//!
//! Guarantee: it keeps nothing of its maker's open but the socket between them, has its memory as that
//! was when it was made, runs nothing, and ends when that socket closes. What it makes is its maker's child, not its
//! own, and has the socket that came with the order.
//! Invariant: nothing here allocates, locks, panics or returns.

use super::super::wire::{Notice, Order};
use super::calls::{self, kept};
use super::child::{Descriptors, Start, next_order, tell, try_tell_with};
use super::memory::forget_arguments;
use rustix::fd::{AsFd, AsRawFd};

/// The null device, once it is on every standard stream.
const NULL: i32 = 0;

impl Start {
    /// Makes children as it is told to. Gives the code to end with.
    pub(crate) fn nurse(&self) -> i32 {
        forget_arguments(&self.arguments);
        calls::forget_signals();
        if self.close_others().is_err() {
            return 1;
        }
        let control = kept(self.control);
        loop {
            let mut descriptors = Descriptors::default();
            let Some(Order::Bear { namespaces }) = next_order(control, &mut descriptors) else {
                return 1;
            };
            let [Some(theirs), ..] = descriptors else {
                return 1;
            };
            let start = Self {
                control: theirs.as_raw_fd(),
                null: NULL,
                arguments: self.arguments.clone(),
            };
            match calls::clone_sibling(namespaces, || start.run()) {
                Ok(child) => {
                    let born = Notice::Born { pid: child.pid };
                    // Where there is no room for the descriptor, the number tells whose end to see to.
                    if try_tell_with(control, born, &[child.pidfd.as_fd()]).is_err() {
                        tell(control, born);
                    }
                }
                Err(errno) => {
                    let errno = errno.raw_os_error();
                    tell(control, Notice::Unborn { errno });
                }
            }
        }
    }
}
