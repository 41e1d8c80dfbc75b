//! Plugins that are exchanged while they are called from all sides, on the whole road: every call is
//! run once, by the old instance or the new one.
//!
//! Who counts is the plugin: a process writes each call down, and what a Wasm guest asks is in the
//! log. So a call that is run twice shows, also if only one answer comes back.

mod load;
mod plugin;

use super::kernel::{Place, Served};
use super::plugin_grpc;
use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::programs;
use crate::table::Row;
use load::Load;
use plugin::Host;

const RATE: f64 = 1_000.0;
const WANTED: &str = "none lost, none doubled, over 1,000 calls/s";

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let program = programs::handed_out("airlock")?;
    let mut rows = Vec::new();
    for host in Host::ALL {
        let what = host.what();
        let missing = if !program.is_file() {
            Some(programs::NOT_BUILT)
        } else if host == Host::Grpc && !plugin_grpc::is_possible() {
            Some("go-plugin is not here: cargo xtask setup")
        } else {
            None
        };
        if let Some(why) = missing {
            rows.push(Row::missing(what, WANTED, why));
            continue;
        }
        let place = Place::new(program.clone())?;
        host.install(&place)?;
        let (served, _client) = place.kernel()?;
        let load = Load::put_on(&served, host, options.pick(50, 10))?;
        drop::<Served<'_>>(served);
        rows.extend(judged(host, load, &host.counted(&place)?));
    }
    Ok(rows)
}

/// How it went, by what the plugin counted.
fn judged(host: Host, load: Load, counts: &plugin::Counts) -> [Row; 2] {
    let doubled = counts.values().filter(|count| **count > 1).count();
    let lost = load.failed.max(load.asked.saturating_sub(counts.len()));
    let rate = load.rate();
    let (reloads, longest) = (load.reloads, load.longest);
    let times = Samples::new(load.nanos);
    let time = |percent| measure::time_text(times.at(percent));
    [
        Row::new(host.what())
            .measured(format!(
                "{lost} lost, {doubled} doubled of {} calls, {rate:.0} calls/s over {reloads} reloads",
                load.asked
            ))
            .against("a limit")
            .wanted(WANTED, lost == 0 && doubled == 0 && rate > RATE),
        Row::new(format!("{}: a call, p50 / p99", host.what())).measured(format!(
            "{} / {}, the longest {}",
            time(50),
            time(99),
            measure::time_text(measure::nanos(longest))
        )),
    ]
}
