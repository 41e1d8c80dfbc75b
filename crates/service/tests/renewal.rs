//! A kernel takes up settings that have changed: asked by a person, between two requests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::Digest;
use airlock_service::{Ended, Lock, LockError, Options, Remote, Renewal, Settings};
use airlock_wire::{ClientError, code};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::sync::{Arc, Mutex};
use support::{Place, READS, Served, call, exec};

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
    let (id, output) = exec(&mut busy, &["sh", "-c", "echo begun; sleep 1"]);
    let mut said = String::new();
    BufReader::new(output).read_line(&mut said).unwrap();
    assert_eq!(said, "begun\n");
    assert_eq!(asked(&served), Renewal::Busy(1));
    let answer = busy.answer(id).unwrap();
    let ran = &answer["outcome"]["done"]["ran"]["outcome"];
    assert_eq!(*ran, json!({ "outcome": "exited", "value": 0 }), "{answer}");
    assert_eq!(asked(&served), Renewal::Begun);
    served.join();
    let Some(Ended::Renewing(lock)) = served.ended() else {
        panic!("it ended for good");
    };
    assert!(matches!(
        Lock::take(&served.state),
        Err(LockError::Taken { .. })
    ));
    assert!(Remote::any(&served.state, airlock_kernel::Front::Cli).is_none());
    drop(lock);
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
