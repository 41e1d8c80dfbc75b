//! `airlock doctor`: what this machine can enforce, found out by doing it.

#[cfg(target_os = "linux")]
mod here;
#[cfg(target_os = "linux")]
mod ladder;
#[cfg(target_os = "linux")]
mod table;

use crate::args::Global;
use crate::failure::Ending;
use crate::output::Output;
use crate::place::Place;
use airlock_kernel::Ladder;
use clap::Args;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Arguments {
    /// Use what was found out before, if it still holds
    #[arg(long)]
    cached: bool,
    /// Act inside a sandbox that is being tried
    #[arg(long, hide = true)]
    inside: bool,
}

/// What raises the walls here, as far as this program found out before or can find out.
#[cfg(target_os = "linux")]
pub(super) fn ladder(place: &Place) -> Option<Arc<dyn Ladder>> {
    Some(Arc::new(ladder::Probed::of(place)?))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn ladder(_: &Place) -> Option<Arc<dyn Ladder>> {
    None
}

#[cfg(target_os = "linux")]
pub(super) fn run(global: &Global, arguments: Arguments, output: &mut Output) -> Ending {
    if arguments.inside {
        return here::act();
    }
    here::run(global, arguments.cached, output)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn run(_: &Global, _: Arguments, _: &mut Output) -> Ending {
    use crate::failure::{Failure, Kind};
    Err(
        Failure::new(Kind::Unenforceable, "nothing can be enforced here")
            .why("there is no sandbox for this platform")
            .fix("run Airlock on Linux"),
    )
}
