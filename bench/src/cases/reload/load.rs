//! Callers without a pause, and reloads among them.

use super::super::kernel::Served;
use super::plugin::Host;
use crate::failure::Failure;
use crate::measure;
use airlock_wire::Client;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Connections that call without a pause.
const CALLERS: usize = 16;
/// From one reload to the next, unless a reload takes longer.
const PACE: Duration = Duration::from_millis(200);

/// What was asked, and what came of it.
pub(super) struct Load {
    pub(super) asked: usize,
    /// Calls whose answer is no result.
    pub(super) failed: usize,
    pub(super) nanos: Vec<f64>,
    pub(super) longest: Duration,
    pub(super) reloads: usize,
    took: Duration,
}

impl Load {
    /// Calls the plugin of `host` from all sides while it is reloaded so many times.
    pub(super) fn put_on(served: &Served<'_>, host: Host, reloads: usize) -> Result<Self, Failure> {
        let mut person = served.client("cli")?;
        // Its tools are known once it has run.
        reload(&mut person, host)?;
        let callers = (0..CALLERS).map(|_| served.client("agent"));
        let callers: Vec<Client> = callers.collect::<Result<_, _>>()?;
        let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let begun = Instant::now();
        let (reloaded, said) = std::thread::scope(|scope| {
            let callers: Vec<_> = callers
                .into_iter()
                .map(|client| scope.spawn(|| call_until(client, host, &next, &over)))
                .collect();
            let reloaded = (0..reloads).try_for_each(|_| {
                let due = Instant::now() + PACE;
                reload(&mut person, host)?;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                Ok::<_, Failure>(())
            });
            over.store(true, Ordering::SeqCst);
            let said: Vec<_> = callers.into_iter().map(ScopedJoinHandle::join).collect();
            (reloaded, said)
        });
        let took = begun.elapsed();
        reloaded?;
        let mut load = Self {
            asked: next.load(Ordering::SeqCst),
            failed: 0,
            nanos: Vec::new(),
            longest: Duration::ZERO,
            reloads,
            took,
        };
        for said in said {
            let (failed, times) = said.map_err(|_| Failure::new("a caller panicked"))?;
            load.failed += failed;
            load.longest = load
                .longest
                .max(times.iter().max().copied().unwrap_or_default());
            load.nanos.extend(times.into_iter().map(measure::nanos));
        }
        Ok(load)
    }

    /// Calls a second, of all together.
    #[expect(clippy::cast_precision_loss, reason = "nobody makes 2^53 calls")]
    pub(super) fn rate(&self) -> f64 {
        self.asked as f64 / self.took.as_secs_f64()
    }
}

/// How many calls failed, and how long each took. A connection that is lost is one of them, and the
/// last.
fn call_until(
    mut client: Client,
    host: Host,
    next: &AtomicUsize,
    over: &AtomicBool,
) -> (usize, Vec<Duration>) {
    let (mut failed, mut times) = (0, Vec::new());
    while !over.load(Ordering::SeqCst) {
        let id = next.fetch_add(1, Ordering::SeqCst);
        let arguments = json!({ "id": format!("{id:08}") });
        let params = json!({ "name": format!("{}.hit", host.plugin()), "arguments": arguments });
        let asked = Instant::now();
        let answer = client.call("call", params);
        times.push(asked.elapsed());
        match answer {
            Ok(answer) if is_done(&answer) => {}
            Ok(_) => failed += 1,
            Err(_) => return (failed + 1, times),
        }
    }
    (failed, times)
}

fn is_done(answer: &Value) -> bool {
    answer.pointer("/outcome/done").is_some()
}

fn reload(person: &mut Client, host: Host) -> Result<(), Failure> {
    let params = json!({ "name": "plugin.reload", "arguments": { "name": host.plugin() } });
    let answer = person.call("call", params);
    let answer = answer.map_err(|error| Failure::new(error.to_string()))?;
    if is_done(&answer) {
        Ok(())
    } else {
        Err(Failure::new(format!("it was not reloaded: {answer}")))
    }
}
