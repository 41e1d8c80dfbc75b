//! Killed in the middle of anything: what was acknowledged is there, nothing is half done.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and this one starts itself as a child process"
)]

mod support;

use airlock_state::State;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{answer, at, open, owner, place, query, question, request, session, yes};

const PLACE: &str = "AIRLOCK_STATE_KILLED";
const ROUNDS: u64 = 12;

/// Not a test of its own: the child of the one below. Works until it is killed, and says what was
/// acknowledged.
#[test]
fn worker() {
    let Ok(directory) = std::env::var(PLACE) else {
        return;
    };
    let state = State::open(directory.as_ref(), at(0)).unwrap();
    for number in 0.. {
        let name = uuid::Uuid::new_v4().to_string();
        session(&state, "ada", &name);
        println!("session {name}");
        let asked = question(&name, &request(&format!("src/{name}.rs")));
        let id = asked.request.id.clone();
        state.ask(asked, false, at(0)).unwrap();
        answer(&state, &id, yes(&[]), 1).unwrap();
        let request = request(&format!("src/{name}.rs"));
        let used = number % 2 == 0;
        if used {
            assert!(state.use_grant(&query(&request, 2)).unwrap().is_some());
            println!("used {name}");
        } else {
            println!("granted {name}");
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_a_used_grant_stays_used() {
    let place = place();
    drop(open(place.path()));
    let mut told: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker", "--nocapture"])
            .env(PLACE, place.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(120 + round * 17));
        child.kill().unwrap();
        child.wait().unwrap();
        told.extend(reader.join().unwrap());
        let state = open(place.path());
        assert!(state.recovered().is_none(), "round {round}");
        state.verify().unwrap();
    }
    let state = open(place.path());
    let ada = owner("ada");
    let mut seen = 0;
    for line in &told {
        let Some((word, name)) = line.split_once(' ') else {
            continue;
        };
        let request = request(&format!("src/{name}.rs"));
        match word {
            "session" => {
                let found = state.session(&ada, &name.parse().unwrap()).unwrap();
                assert!(found.is_some(), "{line}");
            }
            "used" => assert_eq!(
                state.use_grant(&query(&request, 3)).unwrap(),
                None,
                "{line}"
            ),
            "granted" => {
                assert!(
                    state.use_grant(&query(&request, 3)).unwrap().is_some(),
                    "{line}"
                );
            }
            _ => continue,
        }
        seen += 1;
    }
    assert!(seen > 20, "{told:?}");
}
