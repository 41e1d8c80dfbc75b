//! Plugins are exchanged under load: every call is run once, by the old instance or the new one.
//!
//! Who counts is the plugin: a process writes each call down, and what a Wasm guest asks is in the
//! log. So a call that is run twice shows, also if only one answer comes back.

use crate::made::{Host, POLICY, data, governed, person};
use crate::support::{Served, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections that call without a pause.
const CALLERS: u64 = 8;

struct Load {
    answered: u64,
    took: Duration,
    /// In order.
    times: Vec<Duration>,
}

impl Load {
    fn told(&self, host: Host, reloads: u32) -> String {
        let at =
            |part: usize| self.times[(self.times.len() * part / 1_000).min(self.times.len() - 1)];
        format!(
            "{host:?}: {} calls in {:.1} s ({:.0}/s) over {reloads} reloads, p50 {:?}, p99 {:?}, longest {:?}",
            self.answered,
            self.took.as_secs_f64(),
            u32::try_from(self.answered).map_or(0.0, f64::from) / self.took.as_secs_f64(),
            at(500),
            at(990),
            at(1_000),
        )
    }
}

/// Calls `hit` from all sides while the plugin is reloaded so many times.
fn under_load(served: &Served<'_>, host: Host, reloads: u32) -> Load {
    let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = served.client("agent");
                    let mut times = Vec::new();
                    while !over.load(Ordering::SeqCst) {
                        let id = next.fetch_add(1, Ordering::SeqCst);
                        let arguments = json!({ "id": format!("{id:08}") });
                        let name = format!("{}.hit", host.plugin());
                        let params = json!({ "name": name, "arguments": arguments });
                        let asked = Instant::now();
                        let answer = client.call("call", params).unwrap();
                        times.push(asked.elapsed());
                        assert!(answer["outcome"]["done"].is_object(), "{id}: {answer}");
                    }
                    times
                })
            })
            .collect();
        let mut client = person(served);
        for number in 0..reloads {
            let params = json!({ "name": "plugin.reload", "arguments": { "name": host.plugin() } });
            let answer = client.call("call", params).unwrap();
            assert!(answer["outcome"]["done"].is_object(), "{number}: {answer}");
        }
        over.store(true, Ordering::SeqCst);
        let times = callers.into_iter().flat_map(|one| one.join().unwrap());
        times.collect()
    });
    times.sort();
    Load {
        answered: next.load(Ordering::SeqCst),
        took: begun.elapsed(),
        times,
    }
}

/// How often each call was run, by the plugin's own count.
fn counted(world: &World, host: Host) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    match host {
        Host::Grpc | Host::Mcp => {
            let text = std::fs::read_to_string(data(world, host.plugin()).join("hits")).unwrap();
            for line in text.lines() {
                *counts.entry(line.to_owned()).or_default() += 1;
            }
        }
        Host::Wasm => {
            let ran = world.quiet(&[
                "audit",
                "log",
                "--plugin",
                host.plugin(),
                "-n",
                "1000000",
                "--json",
            ]);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            for line in ran.stdout.lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                let capability = record["metadata"]["capability"]
                    .as_str()
                    .unwrap_or_default();
                if record["event"] == "capability_check"
                    && let Some((_, id)) = capability.rsplit_once("/h/")
                {
                    *counts.entry(id.to_owned()).or_default() += 1;
                }
            }
        }
    }
    counts
}

#[expect(
    clippy::print_stderr,
    reason = "how long calls took is what somebody runs this by hand for"
)]
fn none_is_lost_or_doubled(host: Host) {
    let world = governed(POLICY);
    host.install(&world, "capabilities: [\"filesystem.read.*\"]\n");
    let served = world.serve();
    let load = under_load(&served, host, RELOADS);
    eprintln!("{}", load.told(host, RELOADS));
    let counts = counted(&world, host);
    let wrong: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(wrong.is_empty(), "run more than once: {wrong:?}");
    assert_eq!(counts.len() as u64, load.answered, "not all were run");
    assert!(load.answered > u64::from(RELOADS), "there was no load");
}

const RELOADS: u32 = 50;

#[test]
fn no_call_of_a_wasm_plugin_is_lost_or_doubled_by_reloads() {
    none_is_lost_or_doubled(Host::Wasm);
}

#[test]
fn no_call_of_an_mcp_plugin_is_lost_or_doubled_by_reloads() {
    none_is_lost_or_doubled(Host::Mcp);
}

#[test]
fn no_call_of_a_grpc_plugin_is_lost_or_doubled_by_reloads() {
    none_is_lost_or_doubled(Host::Grpc);
}
