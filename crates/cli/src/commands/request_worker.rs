//! `airlock request-worker`: this program as the worker that speaks to a server. Only the kernel
//! starts it, in a sandbox without a network.

use crate::failure::{Ending, Failure, Kind};
use std::io;

pub(super) fn run() -> Ending {
    airlock_kernel::serve_request(io::stdin().lock(), io::stdout().lock())
        .map(|()| 0)
        .map_err(|error| Failure::new(Kind::Failed, "the worker cannot go on").why(error))
}
