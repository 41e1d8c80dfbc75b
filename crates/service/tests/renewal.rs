//! A kernel takes up settings that have changed: asked by a person, between two requests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::Digest;
use airlock_service::{Ended, Lock, LockError, Options, Remote, Renewal, Settings, running};
use airlock_wire::{ClientError, code};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use support::{Place, READS, Served, call};

type Now = Arc<Mutex<Result<Settings, String>>>;

/// Serves `place`, to be opened again once `Now` says something else.
fn served(place: &Place) -> (Served, Now) {
    let mut now = None;
    let served = place.serve_set(|options: &mut Options| {
        let settings: Now = Arc::new(Mutex::new(Ok(options.settings.clone())));
        now = Some(Arc::clone(&settings));
        options.afresh = Some(Arc::new(move || settings.lock().unwrap().clone()));
    });
    (served, now.unwrap())
}

fn change(now: &Now) {
    let mut now = now.lock().unwrap();
    if let Ok(settings) = &mut *now {
        settings.models = Digest::of(b"others");
    }
}

fn asked(served: &Served) -> Renewal {
    let mut client = served.client("cli");
    let answer = client.call("kernel.renew", Value::Null).unwrap();
    serde_json::from_value(answer).unwrap()
}

#[test]
fn what_has_not_changed_or_cannot_be_read_changes_nothing() {
    let place = Place::new();
    let (mut served, now) = served(&place);
    served.wait();
    assert_eq!(asked(&served), Renewal::Current);
    *now.lock().unwrap() = Err("a line is wrong".to_owned());
    assert_eq!(
        asked(&served),
        Renewal::Unusable("a line is wrong".to_owned())
    );
    let mut client = served.client("cli");
    let read = call("fs.exists", &json!({ "path": "README.md" }));
    assert!(client.call("call", read).is_ok());
    served.end();
    assert!(matches!(served.ended(), Some(Ended::Stopped)));
}

#[test]
fn it_is_handed_on_under_its_lock_once_nothing_is_under_way() {
    let place = Place::new();
    let (mut served, now) = served(&place);
    served.wait();
    change(&now);
    let mut busy = served.client("cli");
    let (waits, goes_on) = std::io::pipe().unwrap();
    let (output, stdout) = std::io::pipe().unwrap();
    let stderr = stdout.try_clone().unwrap();
    let command = json!({ "command": ["sh", "-c", "echo begun; read line"], "no_stage": true });
    let params = json!({ "arguments": command, "stdin": true, "run": 1 });
    let passed = [waits.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let id = busy.send("exec", params, &passed).unwrap();
    drop((waits, stdout, stderr));
    let mut said = String::new();
    BufReader::new(output).read_line(&mut said).unwrap();
    assert_eq!(said, "begun\n");
    assert_eq!(asked(&served), Renewal::Busy(1));
    writeln!(&goes_on, "now").unwrap();
    let answer = busy.answer(id).unwrap();
    let ran = &answer["outcome"]["done"]["ran"]["outcome"];
    assert_eq!(*ran, json!({ "outcome": "exited", "value": 0 }), "{answer}");
    assert_eq!(asked(&served), Renewal::Begun);
    served.join();
    let Some(Ended::Renewing(post)) = served.ended() else {
        panic!("it ended for good");
    };
    assert!(running(&served.state).is_some_and(|notice| notice.renews()));
    assert!(matches!(
        Lock::take(&served.state),
        Err(LockError::Taken { .. })
    ));
    // Whoever connects meanwhile only waits.
    assert!(UnixStream::connect(&served.socket).is_ok());
    drop(post);
    assert!(UnixStream::connect(&served.socket).is_err());
    assert!(Lock::take(&served.state).is_ok());
}

#[test]
fn whoever_ends_it_does_not_have_it_opened_again() {
    let place = Place::new();
    let (mut served, now) = served(&place);
    change(&now);
    // Nobody waits for it yet, so both are said when somebody does.
    assert_eq!(asked(&served), Renewal::Begun);
    let mut client = served.client("cli");
    let read = call("fs.exists", &json!({ "path": "README.md" }));
    let Err(error) = client.call("call", read) else {
        panic!("a request was taken after the last");
    };
    assert!(error.is_untaken() && error.is_too_late(), "{error}");
    assert!(matches!(&error, ClientError::Answer(told) if told.code == code::SHUTTING_DOWN));
    served.end();
    assert!(matches!(served.ended(), Some(Ended::Stopped)));
}

/// A stop that is taken stops, though the kernel has begun to be opened again.
#[test]
fn a_stop_that_comes_after_it_is_not_lost() {
    let place = Place::new();
    let (mut served, now) = served(&place);
    change(&now);
    assert_eq!(asked(&served), Renewal::Begun);
    assert_eq!(asked(&served), Renewal::Begun, "asked twice, done once");
    let mut client = served.client("cli");
    client.call("kernel.stop", Value::Null).unwrap();
    served.wait();
    served.join();
    assert!(matches!(served.ended(), Some(Ended::Stopped)));
    let again = place.kernel(airlock_kernel::Lifetime::Command);
    let records = again.log().read(airlock_audit::Filter::default()).unwrap();
    let renewals = records.filter(|record| {
        let entry = &record.as_ref().unwrap().entry;
        let attempt = entry.stage == airlock_audit::Stage::Attempt;
        attempt && entry.syscall.as_deref() == Some("kernel.renew")
    });
    assert_eq!(renewals.count(), 1, "it was done once");
}

/// Nobody who does not read, or does not even say hello, keeps a kernel from everybody.
#[test]
fn whoever_does_not_listen_is_left() {
    let place = Place::new();
    let (mut served, now) = served(&place);
    let mute = UnixStream::connect(&served.socket).unwrap();
    let mut deaf = served.client("cli");
    let follow = json!({ "after": 0 });
    deaf.send("events.subscribe", follow, &[]).unwrap();
    for _ in 0..200 {
        deaf.send("tools.list", json!({ "full": true }), &[])
            .unwrap();
    }
    served.wait();
    change(&now);
    let begun = Instant::now();
    while asked(&served) != Renewal::Begun {
        assert!(begun.elapsed() < support::PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let parted = Instant::now();
    served.join();
    assert!(matches!(served.ended(), Some(Ended::Renewing(_))));
    // Ten seconds is what they would have at the end of a kernel.
    let took = parted.elapsed();
    assert!(took < std::time::Duration::from_secs(8), "{took:?}");
    drop((mute, deaf));
}

#[test]
fn a_rule_keeps_a_person_from_it() {
    let rule =
        "  - { name: not-this, match: { syscall: kernel.renew }, action: deny, reason: no }\n";
    let place = Place::governed(&format!("{READS}{rule}"));
    let (served, now) = served(&place);
    change(&now);
    let mut client = served.client("cli");
    let Err(ClientError::Answer(error)) = client.call("kernel.renew", Value::Null) else {
        panic!("it was opened again");
    };
    assert_eq!(error.code, code::REFUSED);
    let mut remote = Remote::any(&served.state, airlock_kernel::Front::Cli).unwrap();
    assert!(matches!(remote.renew(), Ok(Renewal::Unusable(_))));
    let read = call("fs.exists", &json!({ "path": "README.md" }));
    assert!(client.call("call", read).is_ok(), "it goes on");
}
