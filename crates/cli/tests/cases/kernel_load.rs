//! A running kernel under load, and killed in the middle of it.

use crate::support::{PATIENCE, Served, World};
use airlock_wire::{Client, ClientError, Hello};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// Reads and writes, and programs that are listed.
const MAY_WORK: &str = "\
version: 1
approvals: { automatic: [AG-01] }
commands: [{ executable: cp }]
rules:
  - { name: read, match: { effect: read, path_glob: '**' }, action: allow }
  - { name: run, match: { syscall: exec.run }, action: allow }
  - { name: change, match: { effect: [write, delete], path_glob: '**' }, action: allow }
";

/// What one client was told, which holds whatever becomes of the kernel.
#[derive(Default)]
struct Work {
    /// Its session as it began.
    session: Value,
    /// Calls in it that were done, and told so.
    answered: u64,
    /// What each file may hold, none being no file: one content where the last call was answered, several
    /// where the kernel went away under it.
    files: BTreeMap<String, Vec<Option<String>>>,
}

impl Work {
    fn params(&self, name: &str, arguments: &Value) -> Value {
        json!({ "name": name, "arguments": arguments, "session": self.session["id"] })
    }

    /// Has a call make `text` of the file `path`, which holds one of `amid` if the call is cut off.
    fn change(
        &mut self,
        hands: &mut Hands<'_>,
        path: &str,
        text: String,
        amid: &[&str],
        params: Value,
    ) {
        let before = self.files.get(path).cloned();
        let mut any = before.clone().unwrap_or_else(|| vec![None]);
        any.push(Some(text.clone()));
        any.extend(amid.iter().map(|amid| Some((*amid).to_owned())));
        self.files.insert(path.to_owned(), any);
        match hands.call(params) {
            Some(outcome) if outcome["done"].is_object() => {
                self.files.insert(path.to_owned(), vec![Some(text)]);
                self.answered += 1;
            }
            // What the kernel before left running may still be about to end.
            Some(outcome) => {
                assert_eq!(outcome["failed"]["code"], "stage_busy", "{outcome}");
                match before {
                    Some(before) => self.files.insert(path.to_owned(), before),
                    None => self.files.remove(path),
                };
            }
            None => {}
        }
    }

    fn step(&mut self, hands: &mut Hands<'_>, number: usize) {
        let other = [
            ("fs.read", json!({ "path": "README.md" })),
            ("search.grep", json!({ "pattern": "TODO" })),
            ("fs.read", json!({ "path": "/etc/shadow" })),
            ("fs.list", json!({ "pth": 1 })),
            (
                "session.observe",
                json!({ "text": format!("step {number}") }),
            ),
        ];
        let path = format!("made/{}.txt", number / 10);
        let line = format!("{:07}\n", number / 10);
        match number % 10 {
            2 => {
                let params = json!({ "path": path, "text": line.repeat(LINES) });
                let params = self.params("fs.write", &params);
                self.change(hands, &path, line.repeat(LINES), &[], params);
            }
            5 if self.files.get(&path) == Some(&vec![Some(line.repeat(LINES))]) => {
                let hunk = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{line}+patched\n");
                let params = self.params("fs.patch", &json!({ "patch": hunk }));
                let text = format!("patched\n{}", line.repeat(LINES - 1));
                self.change(hands, &path, text, &[], params);
            }
            8 if number % 20 == 8 => {
                let path = format!("ran-{number}.txt");
                let params = json!({ "command": ["cp", "README.md", path] });
                let params = self.params("exec.run", &params);
                // A program that ends with its kernel may have made its file and written nothing yet.
                self.change(hands, &path, README.to_owned(), &[""], params);
            }
            kind => {
                let (name, arguments) = &other[kind % other.len()];
                let outcome = hands.call(self.params(name, arguments));
                if outcome.is_some_and(|outcome| outcome["done"].is_object()) {
                    self.answered += 1;
                }
            }
        }
    }

    /// Everything is as this client was told.
    fn assert_kept(&self, client: &mut Client) {
        let mut ask = |name: &str, arguments: Value| {
            let answer = client.call("call", self.params(name, &arguments)).unwrap();
            answer["outcome"].clone()
        };
        let id = &self.session["id"];
        let shown = ask("session.show", json!({ "session": id }));
        let shown = &shown["done"]["value"];
        for name in ["id", "mode", "stage", "state", "created"] {
            assert_eq!(shown[name], self.session[name], "{name}: {shown}");
        }
        let counted = shown["used"]["total_calls"].as_u64();
        assert!(
            counted >= Some(self.answered),
            "{} of {shown}",
            self.answered
        );
        for (path, may_be) in &self.files {
            let read = ask("fs.read", json!({ "path": path }));
            let text = read["done"]["value"]["text"].as_str().map(str::to_owned);
            let absent = read["failed"]["code"] == "not_found";
            assert!(text.is_some() || absent, "{path}: {read}");
            assert!(
                may_be.contains(&text),
                "{path}: one of {} contents, not {read}",
                may_be.len()
            );
        }
    }
}

/// What is copied by programs: the file of a [`World::project`].
const README: &str = "# Sample\n\nTODO: say what it does.\n";

/// Lines of a file: it takes more than one write, and a result still shows all of it.
const LINES: usize = 1_000;

/// A client that comes back whenever its kernel goes away.
struct Hands<'a> {
    served: &'a Served<'a>,
    done: &'a AtomicBool,
    answered: &'a AtomicUsize,
    client: Option<Client>,
}

impl Hands<'_> {
    /// What came of a call; none if the kernel went away under it.
    fn call(&mut self, params: Value) -> Option<Value> {
        match self.client.as_mut()?.call("call", params) {
            Ok(answer) => {
                assert!(answer["outcome"].is_object(), "{answer}");
                self.answered.fetch_add(1, Ordering::SeqCst);
                Some(answer["outcome"].clone())
            }
            Err(ClientError::Answer(error)) => panic!("{error}"),
            Err(_) => {
                self.client = reconnect(self.served, self.done);
                None
            }
        }
    }

    /// Calls of every kind in a session and a stage of its own, until everybody goes home.
    fn work(mut self, stage: &str) -> Work {
        self.client = reconnect(self.served, self.done);
        let asked = json!({ "stage": stage, "budget": { "calls": 100_000 } });
        let mut work = Work::default();
        while work.session.is_null() && self.client.is_some() {
            let begun = self.call(call("session.create", &asked));
            work.session = begun.map_or(Value::Null, |begun| begun["done"]["value"].clone());
        }
        for number in 0.. {
            if self.client.is_none() || self.done.load(Ordering::SeqCst) {
                break;
            }
            work.step(&mut self, number);
        }
        work
    }
}

/// How long the next kernel may take until it serves: a second, as it is shipped.
const RESTART: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

#[test]
fn killed_amid_five_hundred_calls_again_and_again_it_comes_back_whole() {
    let world = World::under(MAY_WORK);
    let mut served = world.serve();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut restarts = Vec::new();
    for round in 0..3 {
        done.store(false, Ordering::SeqCst);
        let enough = |more: usize| {
            let (before, begun) = (answered.load(Ordering::SeqCst), Instant::now());
            while answered.load(Ordering::SeqCst) < before + more {
                let late = begun.elapsed() > PATIENCE * 3;
                assert!(!late, "round {round}: too few answers");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let work = std::thread::scope(|scope| {
            let begin = |number: usize| {
                let (served, done, answered) = (&served, &done, &answered);
                let stage = format!("stage-{round}-{number}");
                let hands = Hands {
                    served,
                    done,
                    answered,
                    client: None,
                };
                scope.spawn(move || hands.work(&stage))
            };
            let clients: Vec<_> = (0..8).map(begin).collect();
            let _finish = Finish(&done);
            enough(500);
            served.signal(Signal::KILL);
            served.wait_for_end();
            let restarted = Instant::now();
            let next = world.serve();
            restarts.push(restarted.elapsed());
            assert_eq!(next.socket, served.socket);
            // The same clients go on with the next one, in their sessions.
            enough(100);
            next.signal(Signal::KILL);
            next.wait_for_end();
            done.store(true, Ordering::SeqCst);
            let ended = clients.into_iter().map(|client| client.join().unwrap());
            ended.collect::<Vec<Work>>()
        });
        let verified = world.quiet(&["audit", "verify"]);
        assert_eq!(verified.code, Some(0), "round {round}: {verified:?}");
        served = world.serve();
        let mut client = served.client("cli");
        for work in &work {
            work.assert_kept(&mut client);
        }
        let written = work.iter().map(|work| work.files.len()).sum::<usize>();
        assert!(written > 50, "round {round}: {written} files prove little");
    }
    // A machine that is busy with something else is no reason, a kernel that often needs long is.
    restarts.sort();
    assert!(restarts[restarts.len() / 2] < RESTART, "{restarts:?}");
    // The real tree is as it was; what was written waits in the stages.
    let left = std::fs::read_dir(world.workspace()).unwrap().flatten();
    let left = left.map(|entry| entry.file_name().into_string().unwrap());
    let made = |name: &String| name.starts_with("made") || name.starts_with("ran");
    assert_eq!(left.filter(made).count(), 0);
    assert_eq!(served.stop().code, Some(0));
}
