//! What a plugin asked for is not done for a call that is over.

use crate::server::{install, manifest, open, write};
use crate::support::{Place, done, submit, word};
use airlock_kernel::{Call, Cancel, Front, Hosting, Kernel};
use airlock_plugin::{
    CallError, Callback, CallbackError, Host, Hosts, Instance, Sink, Start, StartError, ToolCall,
    ToolDescription,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

const RUNS: &str = "\
version: 1
commands:
  - executable: sleep
rules:
  - { name: call-tools, match: { syscall: tool.call }, action: allow }
  - { name: run, match: { syscall: exec.run }, action: allow }
  - { name: read-all, match: { effect: read, path_glob: \"**\" }, action: allow }
";

/// Longer than this test may take.
const LONG: &str = "290";
/// Less than that.
const PATIENCE: Duration = Duration::from_mins(1);

type Told = Result<Value, CallbackError>;

/// Asks on threads of their own, as the hosts of workers do, and tells what came of it.
struct Asking {
    callback: Arc<dyn Callback>,
    told: Sender<Told>,
    held: Arc<Mutex<()>>,
    tools: Vec<ToolDescription>,
}

struct Apart {
    told: Sender<Told>,
    /// Until it is unlocked, calls that are to be held are, and no plugin stops.
    held: Arc<Mutex<()>>,
    started: Arc<Mutex<Option<Arc<dyn Callback>>>>,
}

/// A kernel with such a plugin.
struct World {
    place: Place,
    kernel: Arc<Kernel>,
    hear: Receiver<Told>,
    held: Arc<Mutex<()>>,
    started: Arc<Mutex<Option<Arc<dyn Callback>>>>,
}

impl Host for Apart {
    fn start(&self, start: Start) -> Result<Arc<dyn Instance>, StartError> {
        *self.started.lock().unwrap() = Some(Arc::clone(&start.reach.callback));
        Ok(Arc::new(Asking {
            callback: start.reach.callback,
            told: self.told.clone(),
            held: Arc::clone(&self.held),
            tools: vec![ToolDescription {
                name: "run".to_owned(),
                summary: "Run something".to_owned(),
                schema: json!({ "type": "object" }),
                read_only: false,
            }],
        }))
    }
}

impl Instance for Asking {
    fn tools(&self) -> &[ToolDescription] {
        &self.tools
    }

    /// Asks, and waits for the answer only if it is told to.
    fn call(
        &self,
        call: &ToolCall,
        _: &mut dyn Sink,
        cancelled: &AtomicBool,
    ) -> Result<Value, CallError> {
        if call.arguments["begun"] == "hold" {
            let _begun = self.told.send(Ok(json!("begun")));
            drop(self.held.lock().unwrap());
            let read = self
                .callback
                .submit("fs.list", &json!({}), Some(&call.action));
            return read.map_err(|error| CallError::Tool(error.code));
        }
        let (callback, told) = (Arc::clone(&self.callback), self.told.clone());
        let (begun, action) = (call.arguments["begun"].clone(), call.action.clone());
        std::thread::spawn(move || {
            let arguments = json!({ "command": ["sleep", LONG], "timeout": "5m" });
            told.send(callback.submit("exec.run", &arguments, Some(&action)))
        });
        // Whoever takes it back waits for the command to run.
        if begun == "return" {
            std::thread::sleep(Duration::from_millis(300));
            return Ok(json!({}));
        }
        while !cancelled.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(CallError::Cancelled)
    }

    fn health(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn report(&self) -> Value {
        json!({})
    }

    fn stop(&self, _: Duration) {
        drop(self.held.lock());
    }
}

fn world() -> World {
    world_of("")
}

/// The same, whose manifest says `rest` besides.
fn world_of(rest: &str) -> World {
    let place = Place::governed(RUNS, &[]);
    let directory = place.beside("source");
    let more = format!("capabilities: [\"exec.*\", \"filesystem.*\"]\n{rest}");
    write(&directory, &manifest(&more), "#!/bin/sh\n");
    let (told, hear) = channel();
    let (held, started) = (Arc::default(), Arc::default());
    let host = Arc::new(Apart {
        told,
        held: Arc::clone(&held),
        started: Arc::clone(&started),
    });
    let kernel = Arc::new(open(&place).hosting(Hosting::new(move |_| Hosts {
        mcp: Some(host),
        ..Hosts::default()
    })));
    let road: Weak<Kernel> = Arc::downgrade(&kernel);
    kernel.connect_plugins(road, None);
    install(&kernel, &directory);
    World {
        place,
        kernel,
        hear,
        held,
        started,
    }
}

#[test]
fn what_a_plugin_has_under_way_ends_with_the_call_it_serves() {
    let World {
        place: _place,
        kernel,
        hear,
        ..
    } = world();
    for how in ["return", "cancel"] {
        let given = json!({ "begun": how });
        if how == "return" {
            done(submit(&kernel, Front::Agent, "tickets.run", given));
        } else {
            let cancel = Cancel::new();
            let outcome = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(300));
                    cancel.cancel();
                });
                cancel.cover(|| kernel.submit(Front::Agent, &Call::new("tickets.run", given)))
            });
            assert_eq!(word(&outcome), "cancelled");
        }
        let told = hear.recv_timeout(PATIENCE);
        let told = told.unwrap_or_else(|_| panic!("{how}: the command goes on"));
        // Where it had not begun yet it never does.
        let is_over = match &told {
            Ok(value) => value["outcome"] == "cancelled",
            Err(error) => ["cancelled", "unknown_action"].contains(&&*error.code),
        };
        assert!(is_over, "{how}: {told:?}");
    }
}

/// Switches the plugin off as another process would.
fn switch_off(place: &Place) {
    let records = place.beside("state/airlock/plugins/plugins.json");
    let text = std::fs::read_to_string(&records).unwrap();
    let off = text.replace("\"disabled\": []", "\"disabled\": [\"tickets\"]");
    assert_ne!(off, text);
    std::fs::write(&records, off).unwrap();
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_that_is_being_ended_asks_for_nothing_but_for_calls_it_serves() {
    let world = world();
    let callback = world.started.lock().unwrap().clone().unwrap();
    let list = || callback.submit("fs.list", &json!({}), None);
    list().unwrap();
    let hold = world.held.lock().unwrap();
    switch_off(&world.place);
    // From then on, not only once it is noticed that it has to end.
    assert_eq!(list().unwrap_err().code, "plugin_ending");
    drop(hold);
    // Once it is gone there is nobody who could ask.
    until(|| list().is_err_and(|error| error.code == "denied"));
}

#[test]
fn one_whose_place_another_takes_asks_for_nothing_but_for_calls_it_serves() {
    for hot in [true, false] {
        let world = world_of(&format!("lifecycle: {{ hot_reload: {hot} }}\n"));
        let callback = || world.started.lock().unwrap().clone().unwrap();
        let list = |of: &Arc<dyn Callback>| of.submit("fs.list", &json!({}), None);
        let old = callback();
        list(&old).unwrap();
        let hold = world.held.lock().unwrap();
        std::thread::scope(|scope| {
            let kernel = &world.kernel;
            let name = json!({ "name": "tickets" });
            let reload = scope.spawn(move || submit(kernel, Front::Cli, "plugin.reload", name));
            until(|| list(&old).is_err_and(|error| error.code == "plugin_ending"));
            if hot {
                list(&callback()).unwrap();
            }
            drop(hold);
            assert_eq!(word(&reload.join().unwrap()), "done", "{hot}");
        });
        list(&callback()).unwrap();
    }
}

#[test]
fn a_call_that_was_let_in_is_served_to_its_end_while_its_plugin_is_ended() {
    let world = world();
    let hold = world.held.lock().unwrap();
    let told = std::thread::scope(|scope| {
        let given = json!({ "begun": "hold" });
        let kernel = &world.kernel;
        let call = scope.spawn(move || submit(kernel, Front::Agent, "tickets.run", given));
        world.hear.recv_timeout(PATIENCE).unwrap().unwrap();
        let show = || {
            submit(
                kernel,
                Front::Cli,
                "plugin.show",
                json!({ "name": "tickets" }),
            )
        };
        switch_off(&world.place);
        until(|| done(show()).value["disabled"] == true);
        drop(hold);
        call.join().unwrap()
    });
    assert_eq!(word(&told), "done", "{told:?}");
}
