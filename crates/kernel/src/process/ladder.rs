//! Which launcher raises the walls of a kernel's sandboxes.
//!
//! What a machine can do is found out by trying, once, by whoever opens the kernel; the kernel only
//! asks. There is no going down behind anybody's back: what raised the walls is in the report and in
//! the log, and what policy asks for at least holds on every rung.

/// What can raise the walls on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rung {
    /// Airlock's own launcher.
    Native,
    /// Bubblewrap, on copies of the workspace.
    Bwrap,
    /// Nothing.
    Nothing {
        /// Why not, for people.
        why: String,
    },
}

/// Knows a machine, or can find out.
pub trait Ladder: Send + Sync {
    /// What is known of it already.
    fn known(&self) -> Option<Rung>;
    /// Finds out by trying, which takes its time, and remembers.
    fn find_out(&self) -> Rung;
}
