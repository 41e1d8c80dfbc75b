//! A kernel on the wire, and the door through which commands reach one.
//!
//! [`start`] serves a kernel to other processes; [`Door`] is what a command talks to: a kernel of
//! its own, or the one that runs for its workspace, with the same results.
//!
//! Guarantee: whatever comes over the wire takes the road, as the process the operating system named
//! and as the front its socket lets it be. Non-guarantee: any process of the same user outside a
//! sandbox can be the command line, as it can start the command line itself.

mod accompanied;
mod answers;
mod caller;
mod door;
mod events;
mod exec;
mod inside;
mod lock;
mod methods;
mod remote;
mod renewal;
mod running;
mod service;
mod workflows;

pub use accompanied::{Accompanied, accompany};
pub use airlock_wire::{ClientError, DEFAULT_FRAME_BYTES, FRAME_BYTES};
pub use caller::{Identity, SANDBOX_FRONT};
pub use door::{Door, DoorError, Standing};
pub use inside::SandboxReception;
pub use lock::{Lock, LockError, Notice, Wish, running, socket_directory};
pub use methods::{CallParams, CallResult, Kept, Method, Person};
pub use remote::{Ends, Hailed, Remote, Steer};
pub use renewal::{Afresh, Renewal};
pub use running::{Ended, Options, Post, Running, ServeError, Stopper, start};
pub use service::{Program, Settings};
pub use workflows::{BeginRun, CancelRun, ResumeRun, RunAsk, RunCame, RunResult};
