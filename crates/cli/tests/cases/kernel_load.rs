//! A running kernel under load, and killed in the middle of it.

use crate::support::{PATIENCE, Served, World};
use airlock_wire::{Client, ClientError, Hello};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 100;
const REQUESTS: usize = 100;

fn call(name: &str, arguments: &Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// A hundred requests at once on each of a hundred connections, all answered.
fn storm(served: &Served<'_>) {
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = served.client("agent");
                let params = call("fs.exists", &json!({ "path": "README.md" }));
                let ids: Vec<u64> = (0..REQUESTS)
                    .map(|_| client.send("call", params.clone(), &[]).unwrap())
                    .collect();
                for id in ids {
                    let answer = client.answer(id).unwrap();
                    assert_eq!(
                        answer["outcome"]["done"]["value"]["exists"], true,
                        "{answer}"
                    );
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(answered.load(Ordering::Relaxed), CONNECTIONS * REQUESTS);
}

#[test]
fn ten_thousand_requests_at_once_leave_memory_and_descriptors_flat() {
    let world = World::governed();
    let served = world.serve();
    // The first ones fill pools and caches, the more of them the busier the machine is. From then on
    // nothing may be kept for anybody: four hundred bytes a request would show, each time anew.
    let mut resident = Vec::new();
    let descriptors = loop {
        storm(&served);
        resident.push(served.status("VmRSS"));
        if let [.., before, _, _, after] = resident.as_slice()
            && *after < before + 12 * 1024
        {
            break served.descriptors();
        }
        assert!(
            resident.len() < 12,
            "memory grows and grows: {resident:?} KiB"
        );
    };
    storm(&served);
    let after = served.status("VmRSS");
    assert!(after < 200 * 1024, "{after} KiB");
    let settled = Instant::now();
    while served.descriptors() > descriptors + 5 {
        assert!(
            settled.elapsed() < PATIENCE,
            "{descriptors} descriptors grew"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Connects as soon as somebody answers, as a client does whose kernel went away.
fn reconnect(served: &Served<'_>, done: &AtomicBool) -> Option<Client> {
    while !done.load(Ordering::SeqCst) {
        let hello = Hello::new("cli", "test");
        if let Ok(mut client) = Client::connect(&served.socket, &hello, PATIENCE) {
            client.wait_up_to(Some(PATIENCE)).unwrap();
            return Some(client);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Lets the clients go home, also when something went wrong.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Calls of every kind, over and over; says how many were answered.
fn calls(served: &Served<'_>, done: &AtomicBool, answered: &AtomicUsize) {
    let kinds = [
        call("fs.read", &json!({ "path": "README.md" })),
        call("search.grep", &json!({ "pattern": "TODO" })),
        call("fs.read", &json!({ "path": "/etc/shadow" })),
        call("fs.list", &json!({ "pth": 1 })),
        call(
            "exec.own",
            &json!({ "command": ["sh", "-c", "echo x >> made"] }),
        ),
    ];
    let mut client = reconnect(served, done);
    for (number, params) in kinds.iter().cycle().enumerate() {
        // Programs take long beside the rest; one in a while is enough.
        if params["name"] == "exec.own" && number % 20 != 4 {
            continue;
        }
        let Some(open) = &mut client else {
            return;
        };
        match open.call("call", params.clone()) {
            Ok(answer) => {
                assert!(answer["outcome"].is_object(), "{answer}");
                answered.fetch_add(1, Ordering::SeqCst);
            }
            Err(ClientError::Answer(error)) => panic!("{error}"),
            Err(_) => client = reconnect(served, done),
        }
    }
}

#[test]
fn killed_amid_five_hundred_calls_again_and_again_it_comes_back_whole() {
    let world = World::governed();
    let mut served = world.serve();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    for round in 0..3 {
        done.store(false, Ordering::SeqCst);
        let before = answered.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| calls(&served, &done, &answered));
            }
            let _finish = Finish(&done);
            let begun = Instant::now();
            while answered.load(Ordering::SeqCst) < before + 500 {
                assert!(
                    begun.elapsed() < PATIENCE * 3,
                    "round {round}: too few answers"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            served.signal(Signal::KILL);
            served.wait_for_end();
            let restarted = Instant::now();
            let next = world.serve();
            let took = restarted.elapsed();
            assert!(took < Duration::from_secs(20), "{took:?}");
            assert_eq!(next.socket, served.socket);
            // The same clients go on with the next one.
            let alive = answered.load(Ordering::SeqCst);
            let begun = Instant::now();
            while answered.load(Ordering::SeqCst) < alive + 50 {
                assert!(
                    begun.elapsed() < PATIENCE * 3,
                    "round {round}: nobody came back"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            done.store(true, Ordering::SeqCst);
            next.signal(Signal::KILL);
            next.wait_for_end();
        });
        let verified = world.quiet(&["audit", "verify"]);
        assert_eq!(verified.code, Some(0), "round {round}: {verified:?}");
        served = world.serve();
    }
    // The real tree is as it was; what was written waits in the stage.
    assert!(!world.workspace().join("made").exists());
    assert_eq!(served.stop().code, Some(0));
}
