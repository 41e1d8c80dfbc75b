//! What a client of the wire can count on.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::SandboxId;
use airlock_wire::{Arrived, Client, ClientError, Limits, ServerConfig, code};
use serde_json::{Value, json};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{PATIENCE, Place, exists, hello};

#[test]
fn the_greeting_names_versions_and_limits_and_calls_are_answered() {
    let place = Place::new();
    let mut client = place.client();
    let greeting = client.greeting().clone();
    assert_eq!(greeting["kernel"], "0.0.0");
    assert_eq!(greeting["api"], 1);
    assert_eq!(greeting["supported"], json!({ "oldest": 1, "newest": 1 }));
    assert_eq!(greeting["limits"]["frame_bytes"], 16 * 1024 * 1024);
    assert_eq!(greeting["about"]["you"], "cli");
    assert_eq!(client.call("ping", Value::Null).unwrap(), json!("pong"));
    let who = client.call("who", Value::Null).unwrap();
    assert_eq!(who["pid"], std::process::id());
    assert_ne!(who["started"], 0);
    let Err(ClientError::Answer(error)) = client.call("nothing", Value::Null) else {
        panic!("an unknown method was answered");
    };
    assert_eq!(error.code, code::UNKNOWN_METHOD);
}

#[test]
fn whoever_asked_has_the_answer_before_what_was_put_off_is_done() {
    let place = Place::new();
    let mut client = place.client();
    place.doing.lingers.store(true, Ordering::SeqCst);
    for number in 1..=2 {
        let answer = client.call("echo", json!(number));
        assert_eq!(answer.unwrap(), json!(number));
        place.until("what is put off", |counts| {
            counts.caught_up.load(Ordering::SeqCst) == number
        });
    }
    place.doing.release();
    assert_eq!(client.call("ping", Value::Null).unwrap(), json!("pong"));
}

#[test]
fn a_client_may_do_something_else_until_it_is_greeted() {
    let place = Place::new();
    let hail = |name| Client::hail(&place.path, &hello(name), PATIENCE).unwrap();
    let (first, second, stranger) = (hail("cli"), hail("cli"), hail("stranger"));
    let mut second = second.greeted().unwrap();
    assert_eq!(second.call("ping", Value::Null).unwrap(), json!("pong"));
    assert_eq!(second.greeting()["about"]["you"], "cli");
    let mut first = first.greeted().unwrap();
    assert_eq!(first.call("ping", Value::Null).unwrap(), json!("pong"));
    let refused = stranger.greeted();
    assert!(matches!(refused, Err(ClientError::Closed(error)) if error.code == code::REFUSED));
    // One that does not come back for its greeting is one that left.
    drop(hail("cli"));
    place.others_are_served();
}

#[test]
fn whoever_listens_and_never_greets_is_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kernel.sock");
    let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let hailed = Client::hail(&path, &hello("cli"), Duration::from_millis(50)).unwrap();
    assert!(matches!(hailed.greeted(), Err(ClientError::Lost(_))));
}

#[test]
fn what_comes_before_or_instead_of_a_handshake_ends_the_connection() {
    let place = Place::new();
    let request = |method: &str, params: Value| json!({ "id": 1, "type": "request", "method": method, "params": params });
    let hello = |name: &str, api: u32| json!({ "name": name, "version": "1", "api": api });
    for (first, want) in [
        (request("ping", Value::Null), code::HANDSHAKE_REQUIRED),
        (request("echo", json!(1)), code::HANDSHAKE_REQUIRED),
        (
            json!({ "id": 1, "type": "response", "result": 1 }),
            code::HANDSHAKE_REQUIRED,
        ),
        (
            request("handshake", hello("raw", 2)),
            code::UNSUPPORTED_VERSION,
        ),
        (
            request("handshake", hello("raw", 0)),
            code::UNSUPPORTED_VERSION,
        ),
        (request("handshake", hello("stranger", 1)), code::REFUSED),
        (
            request("handshake", json!({ "name": "raw" })),
            code::INVALID_PARAMS,
        ),
        (
            request("handshake", json!(["raw", "1", 1])),
            code::INVALID_PARAMS,
        ),
    ] {
        let mut raw = place.raw();
        raw.say(&first);
        let error = raw.ends_with(want);
        if want == code::UNSUPPORTED_VERSION {
            assert_eq!(
                error["details"]["supported"],
                json!({ "oldest": 1, "newest": 1 })
            );
        }
    }
    let mut raw = place.greeted();
    raw.say(&request("handshake", hello("raw", 1)));
    raw.ends_with(code::HANDSHAKE_REQUIRED);
    place.others_are_served();
    // Whoever was not greeted had nothing done.
    assert_eq!(place.doing.counts.begun.load(Ordering::SeqCst), 100);
}

#[test]
fn a_bad_frame_ends_its_own_connection_with_its_reason() {
    let place = Place::new();
    let mut bystander = place.client();
    let framed = |bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    };
    for (bytes, want) in [
        (vec![0xff; 4], code::FRAME_TOO_LONG),
        (
            (16 * 1024 * 1024_u32 + 1).to_be_bytes().to_vec(),
            code::FRAME_TOO_LONG,
        ),
        (framed(b"\xff\xfe"), code::NOT_UTF8),
        (framed(b""), code::NOT_JSON),
        (framed(b"{"), code::NOT_JSON),
        (framed(b"GET / HTTP/1.1\r\n\r\n"), code::NOT_JSON),
        (framed(b"[]"), code::INVALID_MESSAGE),
        (
            framed(b"{\"id\":2,\"type\":\"request\",\"method\":\"echo\",\"x\":1}"),
            code::INVALID_MESSAGE,
        ),
        (
            framed(b"{\"id\":2,\"type\":\"event\",\"method\":\"echo\"}"),
            code::INVALID_MESSAGE,
        ),
        (
            framed(b"{\"id\":2,\"type\":\"request\",\"method\":\"echo\",\"descriptors\":1}"),
            code::INVALID_MESSAGE,
        ),
    ] {
        let mut raw = place.greeted();
        raw.bytes(&bytes);
        raw.ends_with(want);
        assert_eq!(bystander.call("echo", json!(want)).unwrap(), json!(want));
    }
    let mut raw = place.greeted();
    raw.bytes(&[0, 0, 0, 9, b'{']);
    raw.0.shutdown(std::net::Shutdown::Write).unwrap();
    raw.ends_with(code::FRAME_TRUNCATED);
    place.others_are_served();
}

#[test]
fn requests_run_side_by_side_and_are_taken_back_by_number() {
    let place = Place::new();
    let mut client = place.client();
    let waiting = client.send("wait", Value::Null, &[]).unwrap();
    let staying = client.send("wait", Value::Null, &[]).unwrap();
    // Answered although both wait.
    assert_eq!(client.call("echo", json!(1)).unwrap(), json!(1));
    place.until("both wait", |c| c.running.load(Ordering::SeqCst) == 2);
    let cancelled = client.call("cancel", json!({ "id": waiting })).unwrap();
    assert_eq!(cancelled, json!({ "cancelled": true }));
    let Err(ClientError::Answer(error)) = client.answer(waiting) else {
        panic!("it was not taken back");
    };
    assert_eq!(error.code, code::CANCELLED);
    let unknown = client.call("cancel", json!({ "id": 4711 })).unwrap();
    assert_eq!(unknown, json!({ "cancelled": false }));
    place.doing.release();
    assert_eq!(client.answer(staying).unwrap(), json!("waited"));
    for params in [
        json!({}),
        json!({ "id": "1" }),
        json!({ "id": 1, "x": 2 }),
        json!([1]),
    ] {
        let Err(ClientError::Answer(error)) = client.call("cancel", params.clone()) else {
            panic!("{params} was taken");
        };
        assert_eq!(error.code, code::INVALID_PARAMS);
    }
}

/// The thread that answered quick requests waits for more of them itself: one that takes long must not
/// keep those behind it waiting, nor the word that takes it back.
#[test]
fn a_slow_request_after_quick_ones_holds_up_nothing_behind_it() {
    let place = Place::new();
    let mut client = place.client();
    for _ in 0..3 {
        for number in 0..20 {
            assert_eq!(client.call("echo", json!(number)).unwrap(), json!(number));
        }
        let slow = client.send("wait", Value::Null, &[]).unwrap();
        assert_eq!(client.call("echo", json!("next")).unwrap(), "next");
        assert_eq!(client.call("ping", Value::Null).unwrap(), "pong");
        client.canceller().cancel(slow).unwrap();
        let Err(ClientError::Answer(error)) = client.answer(slow) else {
            panic!("it was not taken back");
        };
        assert_eq!(error.code, code::CANCELLED);
    }
    // One that goes away in the middle of a row of quick ones is noticed.
    assert_eq!(client.call("echo", json!(1)).unwrap(), 1);
    client.send("wait", Value::Null, &[]).unwrap();
    drop(client);
    place.until("it is taken back", |c| {
        c.cancelled.load(Ordering::SeqCst) == 4
    });
}

#[test]
fn a_request_that_still_waits_for_its_turn_is_taken_back_at_once() {
    let place = Place::limited(Limits {
        running: 1,
        ..Limits::MAIN
    });
    let mut client = place.client();
    let first = client.send("wait", Value::Null, &[]).unwrap();
    place.until("it runs", |c| c.running.load(Ordering::SeqCst) == 1);
    let second = client.send("wait", Value::Null, &[]).unwrap();
    client.call("cancel", json!({ "id": second })).unwrap();
    let Err(ClientError::Answer(error)) = client.answer(second) else {
        panic!("it was not taken back");
    };
    assert_eq!(error.code, code::CANCELLED);
    assert_eq!(place.doing.counts.begun.load(Ordering::SeqCst), 1);
    place.doing.release();
    assert_eq!(client.answer(first).unwrap(), json!("waited"));
}

#[test]
fn what_comes_first_waits_for_none_of_those_that_run() {
    let place = Place::limited(Limits {
        workers: 2,
        ..Limits::MAIN
    });
    let mut busy = place.client();
    let running = [(); 2].map(|()| busy.send("wait", Value::Null, &[]).unwrap());
    place.until("both run", |c| c.running.load(Ordering::SeqCst) == 2);
    let mut other = place.client();
    let behind = other.send("echo", json!(1), &[]).unwrap();
    // More than there are places for them, and on any connection.
    for _ in 0..8 {
        place.client().call("who", Value::Null).unwrap();
        other.call("who", Value::Null).unwrap();
    }
    // The control: whatever comes first does so at nobody's cost, and nobody else does.
    assert_eq!(place.doing.counts.running.load(Ordering::SeqCst), 2);
    assert_eq!(place.doing.counts.begun.load(Ordering::SeqCst), 2 + 16);
    place.doing.release();
    assert_eq!(other.answer(behind).unwrap(), 1);
    for id in running {
        assert_eq!(busy.answer(id).unwrap(), json!("waited"));
    }
}

#[test]
fn the_work_of_a_client_that_goes_away_is_taken_back() {
    let place = Place::new();
    let mut staying = place.client();
    let kept = staying.send("wait", Value::Null, &[]).unwrap();
    let mut leaving = place.client();
    for _ in 0..10 {
        leaving.send("wait", Value::Null, &[]).unwrap();
    }
    place.until("all run", |c| c.running.load(Ordering::SeqCst) == 11);
    drop(leaving);
    place.until("ten are taken back", |c| {
        c.cancelled.load(Ordering::SeqCst) == 10
    });
    assert_eq!(place.doing.counts.running.load(Ordering::SeqCst), 1);
    place.doing.release();
    assert_eq!(staying.answer(kept).unwrap(), json!("waited"));
}

#[test]
fn more_requests_than_a_connection_may_have_are_refused_and_the_rest_answered() {
    let place = Place::limited(Limits {
        in_flight: 4,
        ..Limits::MAIN
    });
    let mut raw = place.greeted();
    for id in 2..6 {
        raw.ask(id, "wait", &Value::Null);
    }
    place.until("four run", |c| c.running.load(Ordering::SeqCst) == 4);
    raw.ask(6, "echo", &Value::Null);
    raw.ask(2, "echo", &Value::Null);
    let busy = raw.hear().unwrap();
    assert_eq!(
        (&busy["id"], &busy["error"]["code"]),
        (&json!(6), &json!(code::BUSY))
    );
    assert_eq!(busy["error"]["retryable"], true);
    let twice = raw.hear().unwrap();
    assert_eq!(
        (&twice["id"], &twice["error"]["code"]),
        (&json!(2), &json!(code::DUPLICATE_ID))
    );
    // What is answered on the spot is no exception: its answer would be taken for the other's.
    for method in ["ping", "cancel", "events.subscribe"] {
        raw.ask(2, method, &json!({ "id": 3 }));
        assert_eq!(raw.hear().unwrap()["error"]["code"], code::DUPLICATE_ID);
    }
    // Steering still works.
    raw.ask(7, "cancel", &json!({ "id": 3 }));
    let heard = [raw.hear().unwrap(), raw.hear().unwrap()];
    assert!(
        heard
            .iter()
            .any(|answer| answer["result"]["cancelled"] == true),
        "{heard:?}"
    );
    place.doing.release();
    let mut rest: Vec<u64> = (0..3)
        .map(|_| raw.hear().unwrap()["id"].as_u64().unwrap())
        .collect();
    rest.sort_unstable();
    assert_eq!(rest, [2, 4, 5]);
}

#[test]
fn a_client_that_never_reads_holds_up_only_itself() {
    let place = Place::limited(Limits {
        in_flight: 8,
        ..Limits::MAIN
    });
    let mut deaf = place.greeted();
    deaf.0.set_nonblocking(true).unwrap();
    // Far more than every buffer on the way holds.
    let mut asked = 0;
    for id in 2..10_000_u64 {
        let message = json!({ "id": id, "type": "request", "method": "big", "params": 100_000 });
        let frame = airlock_wire::encode(&message.to_string(), usize::MAX).unwrap();
        match deaf.0.write(&frame) {
            Ok(count) if count == frame.len() => asked += 1,
            Ok(_) | Err(_) => break,
        }
    }
    assert!(asked > 8, "{asked}");
    for _ in 0..3 {
        place.others_are_served();
    }
    // Nobody reads: besides what fits the socket, no more was begun than may be under way.
    let begun = place.doing.counts.begun.load(Ordering::SeqCst) - 300;
    assert!(begun <= 8 + 8, "{begun} of {asked} were begun");
}

#[test]
fn a_client_that_does_not_read_in_time_is_dropped_with_its_work() {
    let limits = Limits {
        frame: Duration::from_millis(100),
        ..Limits::MAIN
    };
    let place = Place::limited(limits);
    let mut deaf = place.greeted();
    deaf.ask(2, "wait", &Value::Null);
    place.until("it runs", |c| c.running.load(Ordering::SeqCst) == 1);
    deaf.ask(3, "big", &json!(10_000_000));
    place.until("it is taken back", |c| {
        c.cancelled.load(Ordering::SeqCst) == 1
    });
    place.others_are_served();
}

#[test]
fn clients_that_send_a_byte_now_and_then_hold_their_own_connections_only() {
    let place = Place::new();
    let frame = airlock_wire::encode(
        &json!({ "id": 2, "type": "request", "method": "echo", "params": 7 }).to_string(),
        usize::MAX,
    )
    .unwrap();
    let mut slow: Vec<_> = (0..50).map(|_| place.greeted()).collect();
    for byte in &frame {
        for raw in &mut slow {
            raw.bytes(std::slice::from_ref(byte));
        }
        place.others_are_served();
    }
    for raw in &mut slow {
        assert_eq!(raw.hear().unwrap()["result"], 7);
    }
}

#[test]
fn silence_ends_a_connection_before_within_and_after_a_frame() {
    let short = Duration::from_millis(50);
    let hasty = Place::limited(Limits {
        handshake: short,
        ..Limits::MAIN
    });
    hasty.raw().ends_with(code::HANDSHAKE_REQUIRED);
    let mut raw = hasty.raw();
    raw.bytes(&[0, 0]);
    raw.ends_with(code::HANDSHAKE_REQUIRED);
    let strict = Place::limited(Limits {
        frame: short,
        ..Limits::MAIN
    });
    let mut raw = strict.greeted();
    raw.bytes(&[0, 0, 0, 2, b'{']);
    raw.ends_with(code::FRAME_TRUNCATED);
    let restless = Place::limited(Limits {
        idle: short,
        ..Limits::MAIN
    });
    restless.greeted().ends_with(code::IDLE);
}

#[test]
fn waiting_for_an_answer_is_no_silence() {
    let short = Duration::from_millis(200);
    let place = Place::limited(Limits {
        idle: short,
        ..Limits::MAIN
    });
    let mut raw = place.greeted();
    raw.ask(2, "wait", &Value::Null);
    place.until("it runs", |c| c.running.load(Ordering::SeqCst) == 1);
    std::thread::sleep(short * 2);
    place.doing.release();
    assert_eq!(raw.hear().unwrap()["result"], "waited");
}

#[test]
fn connections_are_bounded_and_come_back() {
    let place = Place::limited(Limits {
        connections: 3,
        ..Limits::MAIN
    });
    let mut held: Vec<Client> = (0..3).map(|_| place.client()).collect();
    let mut fourth = place.raw();
    let error = fourth.ends_with(code::OVERLOADED);
    assert_eq!(error["retryable"], true);
    for client in &mut held {
        assert_eq!(client.call("echo", json!(1)).unwrap(), json!(1));
    }
    held.pop();
    while place.server.connections() == 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    place.client();
}

#[test]
fn long_frames_together_are_bounded_and_short_ones_always_pass() {
    let limits = Limits {
        long_bytes: 1024 * 1024,
        ..Limits::MAIN
    };
    let place = Place::limited(limits);
    // Announced, never sent: counted all the same.
    let mut hog = place.greeted();
    hog.bytes(&(900 * 1024_u32).to_be_bytes());
    place.others_are_served();
    let mut second = place.greeted();
    second.bytes(&(900 * 1024_u32).to_be_bytes());
    second.ends_with(code::OVERLOADED);
    place.others_are_served();
    drop(hog);
    let mut client = place.client();
    let long = json!("x".repeat(900 * 1024));
    let begun = std::time::Instant::now();
    while client.call("echo", long.clone()).ok().as_ref() != Some(&long) {
        assert!(begun.elapsed() < PATIENCE);
        client = place.client();
    }
}

#[test]
fn an_answer_longer_than_a_frame_is_an_error_of_that_request() {
    let place = Place::limited(Limits {
        frame_bytes: 1000,
        ..Limits::MAIN
    });
    let mut client = place.client();
    let Err(ClientError::Answer(error)) = client.call("big", json!(2000)) else {
        panic!("it was answered");
    };
    assert_eq!(error.code, code::ANSWER_TOO_LONG);
    assert_eq!(client.call("big", json!(2)).unwrap(), json!("xx"));
}

#[test]
fn a_request_longer_than_a_frame_is_not_sent_and_costs_nothing() {
    let place = Place::limited(Limits::MAIN.with_frames_of(64 * 1024));
    let mut client = place.client();
    let error = client
        .call("echo", json!("x".repeat(70 * 1024)))
        .unwrap_err();
    assert!(matches!(error, ClientError::TooLong(_)), "{error}");
    assert!(error.is_untaken());
    assert_eq!(client.call("echo", json!(1)).unwrap(), json!(1));
}

#[test]
fn a_handler_that_panics_fails_its_request_and_nothing_else() {
    let place = Place::new();
    let mut client = place.client();
    for _ in 0..3 {
        let Err(ClientError::Answer(error)) = client.call("panic", Value::Null) else {
            panic!("it was answered");
        };
        assert_eq!(error.code, code::INTERNAL);
    }
    assert_eq!(client.call("echo", json!(1)).unwrap(), json!(1));
}

#[test]
fn events_come_in_order_and_resume_after_the_last_one_seen() {
    let place = Place::new();
    place.doing.happen(5);
    let mut client = place.client();
    let begun = client
        .call("events.subscribe", json!({ "after": 2 }))
        .unwrap();
    assert_eq!(begun, json!({ "after": 2 }));
    let next = |client: &mut Client| match client.receive().unwrap() {
        Arrived::Event(event) => event.id,
        Arrived::Reply(reply) => panic!("{reply:?}"),
    };
    assert_eq!(
        [next(&mut client), next(&mut client), next(&mut client)],
        [3, 4, 5]
    );
    place.doing.happen(1);
    place.server.announce();
    assert_eq!(next(&mut client), 6);
    drop(client);
    place.doing.happen(2);
    let mut client = place.client();
    client
        .call("events.subscribe", json!({ "after": 6 }))
        .unwrap();
    assert_eq!([next(&mut client), next(&mut client)], [7, 8]);
    client.call("events.unsubscribe", Value::Null).unwrap();
    place.doing.happen(1);
    place.server.announce();
    assert_eq!(client.call("echo", json!(1)).unwrap(), json!(1));
    let from_now = client.call("events.subscribe", Value::Null).unwrap();
    assert_eq!(from_now, json!({ "after": 9 }));
}

#[test]
fn a_subscriber_that_does_not_read_misses_nothing_once_it_does() {
    let place = Place::new();
    let mut slow = place.client();
    slow.call("events.subscribe", json!({ "after": 0 }))
        .unwrap();
    // Ten megabytes: more than the socket holds.
    place.doing.happen(10_000);
    place.server.announce();
    place.others_are_served();
    for number in 1..=10_000 {
        match slow.receive().unwrap() {
            Arrived::Event(event) => assert_eq!(event.id, number),
            Arrived::Reply(reply) => panic!("{reply:?}"),
        }
    }
}

#[test]
fn another_user_is_refused_before_anything_is_read() {
    let mut config = ServerConfig::new("0.0.0");
    config.users = vec![rustix::process::geteuid().as_raw() + 1];
    let place = Place::with(config);
    place.raw().ends_with(code::REFUSED);
    let refused = Client::connect(&place.path, &hello("cli"), PATIENCE);
    assert!(matches!(refused, Err(ClientError::Closed(error)) if error.code == code::REFUSED));
}

#[test]
fn a_sandboxes_socket_is_for_whoever_is_in_it() {
    let place = Place::new();
    let sandbox = SandboxId::new("box-1").unwrap();
    let user = rustix::process::geteuid().as_raw();
    let runtime = place.runtime.as_ref().unwrap();
    let socket = {
        let _entered = runtime.enter();
        place
            .server
            .socket_for(&sandbox, &place.directory, user)
            .unwrap()
    };
    let path = socket.path().to_owned();
    // A process beside us has the right user and is in no sandbox.
    let refused = Client::connect(&path, &hello("cli"), PATIENCE);
    assert!(matches!(refused, Err(ClientError::Closed(error)) if error.code == code::REFUSED));
    drop(socket);
    assert!(!exists(&path));
    place.others_are_served();
}

#[test]
fn descriptors_come_along_with_their_request() {
    let place = Place::new();
    let mut client = place.client();
    let file = |text: &str| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    };
    let (one, two, three) = (file("one "), file("two "), file("three"));
    let first = client
        .send("read", Value::Null, &[one.as_fd(), two.as_fd()])
        .unwrap();
    let second = client.send("read", Value::Null, &[three.as_fd()]).unwrap();
    assert_eq!(client.answer(first).unwrap(), json!("one two "));
    assert_eq!(client.answer(second).unwrap(), json!("three"));
}

/// The frame of a request that says how many descriptors are its own.
fn claiming(id: u64, method: &str, descriptors: usize) -> Vec<u8> {
    let request =
        json!({ "id": id, "type": "request", "method": method, "descriptors": descriptors });
    airlock_wire::encode(&request.to_string(), usize::MAX).unwrap()
}

#[test]
fn descriptors_that_no_request_claims_end_the_connection() {
    let place = Place::new();
    for (claimed, passed) in [(0, 1), (0, 8), (1, 2)] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut raw = place.greeted();
        raw.pass(&claiming(2, "ping", claimed), &vec![writer.as_fd(); passed]);
        raw.ends_with(code::INVALID_MESSAGE);
        drop(writer);
        // Nobody has the other end any more.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
    let file = tempfile::tempfile().unwrap();
    let hello = json!({
        "id": 1, "type": "request", "method": "handshake",
        "params": { "name": "raw", "version": "1", "api": 1 },
    });
    let hello = airlock_wire::encode(&hello.to_string(), usize::MAX).unwrap();
    let mut raw = place.raw();
    raw.pass(&hello, &[file.as_fd()]);
    raw.ends_with(code::INVALID_MESSAGE);
    // A frame that had begun when they came may be the one that claims them, and none after it.
    let mut raw = place.greeted();
    let (second, third) = (claiming(3, "ping", 0), claiming(4, "ping", 1));
    let (begun, rest) = second.split_at(2);
    raw.pass(&[&claiming(2, "ping", 0), begun].concat(), &[file.as_fd()]);
    assert_eq!(raw.hear().unwrap()["result"], "pong");
    raw.bytes(&[rest, &third].concat());
    raw.ends_with(code::INVALID_MESSAGE);
    place.others_are_served();
}

#[test]
fn descriptors_may_come_before_the_request_that_claims_them_is_read() {
    let place = Place::new();
    let file = tempfile::tempfile().unwrap();
    let (first, second) = (claiming(2, "ping", 0), claiming(3, "read", 1));
    // Both at once, and the second in the middle of what the first came with.
    for cut in [first.len() + second.len(), first.len() + 3, first.len()] {
        let mut raw = place.greeted();
        let both = [&*first, &*second].concat();
        let (before, after) = both.split_at(cut);
        if after.len() == second.len() {
            raw.bytes(before);
            raw.pass(after, &[file.as_fd()]);
        } else {
            raw.pass(before, &[file.as_fd()]);
            raw.bytes(after);
        }
        let heard = [raw.hear().unwrap(), raw.hear().unwrap()];
        for (id, result) in [(2, "pong"), (3, "")] {
            let found = heard
                .iter()
                .any(|told| told["id"] == id && told["result"] == result);
            assert!(found, "{cut}: {heard:?}");
        }
    }
}

#[test]
fn requests_under_way_have_so_many_descriptors_and_no_more() {
    let place = Place::limited(Limits {
        descriptors: 2,
        ..Limits::MAIN
    });
    let mut client = place.client();
    let file = tempfile::tempfile().unwrap();
    let waiting = client
        .send("wait", Value::Null, &[file.as_fd(), file.as_fd()])
        .unwrap();
    place.until("it runs", |c| c.running.load(Ordering::SeqCst) == 1);
    let more = client.send("read", Value::Null, &[file.as_fd()]).unwrap();
    let Err(ClientError::Answer(error)) = client.answer(more) else {
        panic!("it was taken");
    };
    assert_eq!((&*error.code, error.retryable), (code::BUSY, true));
    assert_eq!(client.call("echo", json!(1)).unwrap(), json!(1));
    place.doing.release();
    assert_eq!(client.answer(waiting).unwrap(), json!("waited"));
}

#[test]
fn an_ending_server_lets_requests_finish_and_tells_everybody() {
    let mut place = Place::new();
    let mut busy = place.client();
    let waiting = busy.send("wait", Value::Null, &[]).unwrap();
    place.until("it runs", |c| c.running.load(Ordering::SeqCst) == 1);
    let mut quiet = place.greeted();
    place.server.shutdown();
    let error = quiet.ends_with(code::SHUTTING_DOWN);
    assert_eq!(error["retryable"], true);
    // What it is asked from now on it does not begin, and says so.
    let late = busy.send("echo", json!(1), &[]).unwrap();
    place.doing.release();
    assert_eq!(busy.answer(waiting).unwrap(), json!("waited"));
    let untaken = busy.answer(late).unwrap_err();
    assert!(untaken.is_untaken(), "{untaken}");
    assert_eq!(place.doing.counts.begun.load(Ordering::SeqCst), 1);
    place.end();
    assert!(!exists(&place.path));
}

#[test]
fn what_does_not_finish_when_the_server_ends_is_taken_back() {
    let mut config = ServerConfig::new("0.0.0");
    config.grace = Duration::from_millis(50);
    let mut place = Place::with(config);
    let mut client = place.client();
    let begun = client.send("wait", Value::Null, &[]).unwrap();
    place.until("it runs", |c| c.running.load(Ordering::SeqCst) == 1);
    place.end();
    // It had begun, and is not told as one that had not.
    let error = client.answer(begun).unwrap_err();
    assert!(!error.is_untaken(), "{error}");
    assert_eq!(place.doing.counts.cancelled.load(Ordering::SeqCst), 1);
}

#[test]
fn whoever_asks_and_never_reads_does_not_keep_a_server_from_ending() {
    let mut config = ServerConfig::new("0.0.0");
    config.grace = Duration::from_millis(50);
    config.limits.frame = Duration::from_hours(1);
    let mut place = Place::with(config);
    let mut deaf = place.greeted();
    let soon = Some(Duration::from_millis(300));
    deaf.0.set_write_timeout(soon).unwrap();
    let ping = json!({ "id": 2, "type": "request", "method": "ping" }).to_string();
    let length = u32::try_from(ping.len()).unwrap().to_be_bytes();
    let ping = [length.as_slice(), ping.as_bytes()].concat();
    // Until the answers fill what is on the way to it, and it is not read from any more.
    while deaf.0.write_all(&ping).is_ok() {}
    place.end();
}

#[test]
fn ten_thousand_requests_over_a_hundred_connections_are_all_answered_once() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let mut client = place.client();
                let ids: Vec<u64> = (0..100)
                    .map(|number| client.send("echo", json!(number), &[]).unwrap())
                    .collect();
                for (number, id) in ids.into_iter().enumerate() {
                    assert_eq!(client.answer(id).unwrap(), json!(number));
                }
            });
        }
    });
    assert_eq!(place.doing.counts.begun.load(Ordering::SeqCst), 10_000);
}
