//! The adapter for chat completions against a server that misbehaves in every way seen in the wild.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod support;
#[path = "tls/mod.rs"]
mod tls;

use airlock_model::{
    Arguments, Cancel, Clock, Event, Finish, Model, ModelError, OpenAi, Phase, Secret,
};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use support::{HEAD, HELLO, Server, ask, events, refusal, request, streamed};

/// An answer with everything in it: text beyond ASCII, reasoning, comments, two calls that
/// interleave, usage, all three ends of lines.
const RICH: &str = ": hello\r\n\r\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"hm\"}}]}\r\n\r\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"gr\u{f6}\u{df}er \u{1f980}\"}}]}\n\n\
: keep-alive\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"fs_read\",\"arguments\":\"\"}}]}}]}\r\r\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"fs_list\",\"arguments\":\"{\\\"pa\"}}]}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"path\\\":\\\"\u{fc}\\\"}\"}}]}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"th\\\":\\\"src\\\"}\"}}]}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n\
data: [DONE]\n\n";

#[test]
fn an_answer_split_at_every_byte_is_the_same_answer() {
    let bytes = RICH.as_bytes();
    let server = Server::start(move |number, stream| {
        stream.set_nodelay(true).unwrap();
        let _ = stream.write_all(HEAD.as_bytes());
        if number == bytes.len() {
            // And every byte by itself.
            for byte in bytes {
                let _ = stream.write_all(&[*byte]);
            }
            return;
        }
        let (one, other) = bytes.split_at(number);
        let _ = stream.write_all(one);
        let _ = stream.flush();
        std::thread::yield_now();
        let _ = stream.write_all(other);
    });
    let model = server.model();
    let mut first = None;
    for at in 0..=bytes.len() {
        let (reply, heard) = ask(&model);
        let reply = reply.unwrap_or_else(|error| panic!("split at {at}: {error}"));
        assert_eq!(streamed(&heard), "größer \u{1f980}", "split at {at}");
        assert_eq!(&reply, first.get_or_insert(reply.clone()), "split at {at}");
    }
    let reply = first.unwrap();
    assert_eq!(reply.reasoning, "hm");
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert_eq!((reply.usage.input, reply.usage.output), (7, 2));
    let calls: Vec<(&str, &str, String)> = reply
        .calls
        .iter()
        .map(|call| {
            (
                call.id.as_str(),
                call.name.as_str(),
                call.arguments.to_text(),
            )
        })
        .collect();
    let want = [
        ("a", "fs.read", "{\"path\":\"ü\"}".to_owned()),
        ("b", "fs.list", "{\"path\":\"src\"}".to_owned()),
    ];
    assert_eq!(calls, want);
}

#[test]
fn events_come_in_order_and_end_with_usage_and_done() {
    let server = Server::answering(vec![events(RICH)]);
    let (_, heard) = ask(&server.model());
    let words: Vec<&str> = heard
        .iter()
        .map(|event| match event {
            Event::TextDelta { .. } => "text",
            Event::ReasoningDelta { .. } => "reasoning",
            Event::ToolCallStart { .. } => "start",
            Event::ToolCallDelta { .. } => "delta",
            Event::ToolCallEnd { .. } => "end",
            Event::Usage { .. } => "usage",
            Event::Done { .. } => "done",
            Event::Error { .. } => "error",
        })
        .collect();
    let want = [
        "reasoning",
        "text",
        "start",
        "start",
        "delta",
        "delta",
        "delta",
        "end",
        "end",
        "usage",
        "done",
    ];
    assert_eq!(words, want);
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_so() {
    for (status, headers) in [
        ("429 Too Many Requests", "retry-after: 0.05\r\n"),
        ("503 Service Unavailable", ""),
        ("529 Overloaded", "retry-after: 0\r\n"),
        ("500 Internal Server Error", "retry-after: nonsense\r\n"),
    ] {
        let body = "{\"error\":{\"message\":\"slow down\"}}";
        let server = Server::answering(vec![
            refusal(status, headers, body),
            refusal(status, headers, body),
            events(HELLO),
        ]);
        let begun = Instant::now();
        let (reply, heard) = ask(&server.model());
        assert_eq!(reply.unwrap().text, "hello", "{status}");
        assert_eq!(server.count(), 3, "{status}");
        let retried = heard
            .iter()
            .filter(|event| matches!(event, Event::Error { retrying: true, .. }));
        assert_eq!(retried.count(), 2, "{status}");
        if headers.contains("0.05") {
            assert!(begun.elapsed() >= Duration::from_millis(100));
        }
    }
}

#[test]
fn a_retry_after_may_be_a_date() {
    let headers = "retry-after: Sun, 06 Nov 1994 08:49:38 GMT\r\n";
    let server = Server::answering(vec![
        refusal("429 Too Many Requests", headers, "{}"),
        events(HELLO),
    ]);
    let clock = Clock::of(|| airlock_core::Timestamp::from_micros(784_111_777_800_000));
    let model = OpenAi::new("test", server.settings(), clock).unwrap();
    let begun = Instant::now();
    assert_eq!(ask(&model).0.unwrap().text, "hello");
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

#[test]
fn who_asks_for_too_much_patience_or_stays_busy_gets_an_error_that_says_so() {
    let server = Server::answering(vec![refusal(
        "429 Too Many Requests",
        "retry-after: 3600\r\n",
        "{}",
    )]);
    let error = ask(&server.model()).0.unwrap_err();
    assert!(
        matches!(error, ModelError::Busy { after: Some(after), .. } if after.as_secs() == 3_600)
    );
    assert_eq!(server.count(), 1);
    let server = Server::answering(vec![refusal("503 Service Unavailable", "", "{}")]);
    let error = ask(&server.model()).0.unwrap_err();
    assert!(
        matches!(error, ModelError::Busy { status: 503, .. }),
        "{error}"
    );
    assert_eq!(server.count(), 3, "the first and two further attempts");
    assert!(error.hint().is_some());
}

#[test]
fn refusals_are_told_apart_and_not_repeated() {
    type Check = fn(&ModelError) -> bool;
    let cases: [(&str, &str, Check); 8] = [
        (
            "401 Unauthorized",
            "{\"error\":{\"message\":\"no\"}}",
            |e| matches!(e, ModelError::Unauthorized { .. }),
        ),
        ("403 Forbidden", "", |e| {
            matches!(e, ModelError::Unauthorized { .. })
        }),
        ("404 Not Found", "{\"error\":\"no such model\"}", |e| {
            matches!(e, ModelError::Rejected { status: 404, .. })
        }),
        (
            "400 Bad Request",
            "{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"long\"}}",
            |e| matches!(e, ModelError::ContextLength { .. }),
        ),
        (
            "400 Bad Request",
            "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens\"}}",
            |e| matches!(e, ModelError::ContextLength { .. }),
        ),
        (
            "400 Bad Request",
            "{\"error\":{\"code\":\"content_filter\",\"message\":\"no\"}}",
            |e| matches!(e, ModelError::Filtered { .. }),
        ),
        (
            "429 Too Many Requests",
            "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"pay\"}}",
            |e| matches!(e, ModelError::Rejected { .. }),
        ),
        ("418 Teapot", "<html>", |e| {
            matches!(e, ModelError::Rejected { .. })
        }),
    ];
    for (status, body, check) in cases {
        let server = Server::answering(vec![refusal(status, "", body)]);
        let error = ask(&server.model()).0.unwrap_err();
        assert!(check(&error), "{status} {body}: {error:?}");
        assert_eq!(server.count(), 1, "{status}");
    }
}

#[test]
fn a_broken_off_answer_is_asked_for_again_from_the_beginning() {
    for cut in [
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n",
        "data: {\"cho",
        "",
    ] {
        let server = Server::answering(vec![events(cut), events(HELLO)]);
        let (reply, heard) = ask(&server.model());
        assert_eq!(reply.unwrap().text, "hello", "{cut}");
        assert_eq!(streamed(&heard), "hello", "{cut}");
    }
    // Cut within the length it announced.
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n";
    let server = Server::answering(vec![
        format!("{head}{HELLO}")
            .replace("data: [DONE]\n\n", "")
            .replace("\"stop\"", "null")
            .into_bytes(),
    ]);
    let error = ask(&server.model()).0.unwrap_err();
    assert!(matches!(error, ModelError::Disconnected { .. }), "{error}");
    assert_eq!(server.count(), 3);
}

#[test]
fn an_answer_that_is_complete_needs_no_last_word() {
    let body = HELLO.replace("data: [DONE]\n\n", "");
    let server = Server::answering(vec![events(&body)]);
    assert_eq!(ask(&server.model()).0.unwrap().text, "hello");
    assert_eq!(server.count(), 1);
}

#[test]
fn what_some_servers_leave_empty_is_no_answer_and_no_error() {
    let empty = "data: {\"choices\":[{\"index\":null,\"delta\":{\"content\":\"hel\"},\"finish_reason\":\"\"}],\"usage\":null}\n\n";
    let server = Server::start(move |number, stream| {
        let rest = match number {
            // Closed in the middle: an empty reason is no end.
            0 => "",
            _ => {
                "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"\"}]}\n\n\
                 data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n\
                 data: {\"choices\":null,\"usage\":{\"prompt_tokens\":null,\"completion_tokens\":2}}\n\n"
            }
        };
        let _ = stream.write_all(&events(&format!("{empty}{rest}")));
    });
    let (reply, heard) = ask(&server.model());
    let reply = reply.unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.finish),
        ("hello", Finish::Length)
    );
    assert_eq!((reply.usage.input, reply.usage.output), (0, 2));
    let again = heard
        .iter()
        .filter(|event| matches!(event, Event::Error { retrying: true, .. }));
    assert_eq!(again.count(), 1, "what broke off is asked for again");
}

#[test]
fn nobody_there_is_said_with_the_address() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = Server::answering(vec![Vec::new()]);
    let mut settings = server.settings();
    settings.base_url = format!("http://{port}/v1");
    let model = OpenAi::new("test", settings, Clock::system()).unwrap();
    let error = ask(&model).0.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[test]
fn malformed_arguments_come_back_as_what_they_are() {
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"fs_read\",\"arguments\":\"{\\\"path\\\": \"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let server = Server::answering(vec![events(body)]);
    let reply = ask(&server.model()).0.unwrap();
    let call = &reply.calls[0];
    assert_eq!(call.name, "fs.read");
    assert!(matches!(&call.arguments, Arguments::Malformed { text, .. } if text == "{\"path\":"));
}

#[test]
fn a_call_that_the_answer_is_cut_off_in_never_counts_as_one_without_arguments() {
    let piece = |rest: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"a\",\"function\":{{\"name\":\"fs_read\",\"arguments\":\"\"}}}}]}}{rest}}}]}}\n\n"
        )
    };
    let done = "data: [DONE]\n\n";
    let whole = "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"fs_read\",\"arguments\":\"\"}}]},\"finish_reason\":\"length\"}]}";
    let limit = piece(",\"finish_reason\":\"length\"");
    for (case, answer) in [
        ("the limit", events(&format!("{limit}{done}"))),
        ("the limit, and no last word", events(&limit)),
        ("no reason", events(&format!("{}{done}", piece("")))),
        ("all at once", refusal("200 OK", "", whole)),
    ] {
        let server = Server::answering(vec![answer]);
        let reply = ask(&server.model()).0.unwrap();
        assert_eq!(reply.calls.len(), 1, "{case}");
        let arguments = &reply.calls[0].arguments;
        let told = matches!(arguments, Arguments::Incomplete { text } if text.is_empty());
        assert!(told, "{case}: {arguments:?}");
    }
    // Closed in the middle: nothing of it is kept.
    let server = Server::answering(vec![events(&piece("")), events(HELLO)]);
    let reply = ask(&server.model()).0.unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("hello", 0));
    assert_eq!(server.count(), 2);
    // And one that is whole without arguments still is.
    let asked = piece(",\"finish_reason\":\"tool_calls\"");
    let server = Server::answering(vec![events(&format!("{asked}{done}"))]);
    let reply = ask(&server.model()).0.unwrap();
    assert_eq!(reply.calls[0].arguments, Arguments::parse("{}"));
}

#[test]
fn nonsense_in_a_stream_is_an_error_and_no_crash() {
    for body in [
        "data: not json\n\n",
        "data: {\"choices\": 5}\n\n",
        "data: []\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":-1}]}}]}\n\n",
        "data: {\"error\":{\"message\":\"broken\",\"type\":\"other\"}}\n\n",
        "data: \u{0}\n\n",
    ] {
        let server = Server::answering(vec![events(body)]);
        let error = ask(&server.model()).0.unwrap_err();
        let told = matches!(
            error,
            ModelError::Malformed { .. } | ModelError::Rejected { .. }
        );
        assert!(told, "{body}: {error:?}");
    }
}

#[test]
fn refusal_filter_and_truncation_are_finishes() {
    let with = |delta: &str, reason: &str| {
        events(&format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":\"{reason}\"}}]}}\n\ndata: [DONE]\n\n"
        ))
    };
    for (answer, finish) in [
        (
            with("{\"refusal\":\"I will not\"}", "stop"),
            Finish::Refusal,
        ),
        (
            with("{\"content\":\"a\"}", "content_filter"),
            Finish::ContentFilter,
        ),
        (with("{\"content\":\"a\"}", "length"), Finish::Length),
    ] {
        let server = Server::answering(vec![answer]);
        assert_eq!(ask(&server.model()).0.unwrap().finish, finish);
    }
}

#[test]
fn what_never_ends_is_cut_off() {
    let endless = Server::start(|_, stream| {
        let _ = stream.write_all(HEAD.as_bytes());
        let line = vec![b'x'; 1024 * 1024];
        while stream.write_all(&line).is_ok() {}
    });
    let error = ask(&endless.model()).0.unwrap_err();
    assert!(matches!(error, ModelError::TooLarge { .. }), "{error:?}");
    let refused = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
        let line = vec![b'x'; 1024 * 1024];
        while stream.write_all(&line).is_ok() {}
    });
    let error = ask(&refused.model()).0.unwrap_err();
    assert!(error.to_string().len() < 1_000, "{error}");
}

#[test]
fn each_part_of_an_answer_has_its_time() {
    let silent = Server::start(|_, stream| {
        let _ = stream.read(&mut [0; 1]);
    });
    let mut settings = silent.settings();
    settings.backoff.retries = 0;
    settings.timeouts.first_byte = Duration::from_millis(50);
    let model = OpenAi::new("test", settings, Clock::system()).unwrap();
    let error = ask(&model).0.unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::TimedOut {
                phase: Phase::FirstByte,
                ..
            }
        ),
        "{error:?}"
    );

    let stalling = Server::start(|_, stream| {
        let _ = stream.write_all(&events("data: {\"choices\":[]}\n\n"));
        let _ = stream.read(&mut [0; 1]);
    });
    let mut settings = stalling.settings();
    settings.backoff.retries = 0;
    settings.timeouts.between_chunks = Duration::from_millis(50);
    let model = OpenAi::new("test", settings, Clock::system()).unwrap();
    let error = ask(&model).0.unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::TimedOut {
                phase: Phase::BetweenChunks,
                ..
            }
        ),
        "{error:?}"
    );

    let dripping = Server::start(|_, stream| {
        let _ = stream.write_all(HEAD.as_bytes());
        while stream.write_all(b": still here\n\n").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut settings = dripping.settings();
    settings.timeouts.total = Duration::from_millis(100);
    let model = OpenAi::new("test", settings, Clock::system()).unwrap();
    let error = ask(&model).0.unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::TimedOut {
                phase: Phase::Total,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn taking_a_question_back_closes_the_connection() {
    // Waiting for the head, in the middle of the answer, and between two attempts.
    for said in [
        Vec::new(),
        events(": hello\n\n"),
        events("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"),
    ] {
        let (closed, hears_closed) = mpsc::channel();
        let (begun, hears_begun) = mpsc::channel();
        let server = Server::start(move |_, stream| {
            let _ = stream.write_all(&said);
            begun.send(()).unwrap();
            // Ends when the other side closes, and not before.
            let read = stream.read(&mut [0; 16]);
            let _ = closed.send(matches!(read, Ok(0) | Err(_)));
        });
        let model = server.model();
        let cancel = Cancel::new();
        let other = cancel.clone();
        let thread = std::thread::spawn(move || {
            hears_begun.recv().unwrap();
            other.cancel();
        });
        let reply = model.chat(&request(), &mut |_| {}, &cancel);
        assert!(matches!(reply, Err(ModelError::Cancelled)), "{reply:?}");
        thread.join().unwrap();
        let closed = hears_closed.recv_timeout(Duration::from_secs(20));
        assert_eq!(
            closed,
            Ok(true),
            "the model is still alive, its connection is not"
        );
        drop(model);
    }
}

#[test]
fn a_wait_for_the_next_attempt_can_be_taken_back() {
    let server = Server::answering(vec![refusal(
        "429 Too Many Requests",
        "retry-after: 5\r\n",
        "{}",
    )]);
    let cancel = Cancel::new();
    let other = cancel.clone();
    let begun = Instant::now();
    let reply = server.model().chat(
        &request(),
        &mut |event| {
            if matches!(event, Event::Error { retrying: true, .. }) {
                other.cancel();
            }
        },
        &cancel,
    );
    assert!(matches!(reply, Err(ModelError::Cancelled)), "{reply:?}");
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[test]
fn the_key_goes_to_the_configured_host_and_to_no_other() {
    let other = Server::answering(vec![events(HELLO)]);
    let to = other.address;
    let server = Server::start(move |_, stream| {
        let head = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{to}/v1/chat/completions\r\ncontent-length: 0\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
    });
    let mut settings = server.settings();
    settings.key = Some(Secret::new("sk-very-secret\n".to_owned()));
    let model = OpenAi::new("test", settings, Clock::system()).unwrap();
    let error = ask(&model).0.unwrap_err();
    assert!(
        matches!(&error, ModelError::Redirected { to: told, .. } if told.contains(&to.to_string())),
        "{error:?}"
    );
    assert_eq!(other.count(), 0, "it was never asked");
    let asked = server.asked.lock().unwrap();
    assert_eq!(
        asked[0].header("authorization"),
        Some("Bearer sk-very-secret")
    );
    assert!(asked[0].line.starts_with("POST /v1/chat/completions "));
    assert!(!asked[0].body.contains("very-secret"));
}

#[test]
fn a_server_that_repeats_the_key_does_not_get_it_into_a_message() {
    let body =
        "{\"error\":{\"message\":\"Incorrect API key provided: sk-very-secret. \\u001b[2J\"}}";
    for answer in [
        refusal("401 Unauthorized", "", body),
        events(&format!("data: {body}\n\n")),
    ] {
        let server = Server::answering(vec![answer]);
        let mut settings = server.settings();
        settings.key = Some(Secret::new("sk-very-secret".to_owned()));
        let model = OpenAi::new("test", settings, Clock::system()).unwrap();
        let (reply, heard) = ask(&model);
        let error = reply.unwrap_err();
        let shown = format!("{error} {error:?} {heard:?}");
        assert!(
            shown.contains("[key]") && !shown.contains("very-secret"),
            "{shown}"
        );
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
    }
}

#[test]
fn a_proxy_is_used_if_configured_and_only_then() {
    let proxy = Server::answering(vec![events(HELLO)]);
    let direct = Server::answering(vec![events(HELLO)]);
    let mut settings = direct.settings();
    settings.base_url = "http://models.example/v1".to_owned();
    settings.proxy = Some(format!("http://{}", proxy.address));
    let model = OpenAi::new("test", settings, Clock::system()).unwrap();
    assert_eq!(ask(&model).0.unwrap().text, "hello");
    let line = proxy.asked.lock().unwrap()[0].line.clone();
    assert!(
        line.starts_with("POST http://models.example/v1/chat/completions"),
        "{line}"
    );
    assert_eq!(ask(&direct.model()).0.unwrap().text, "hello");
    assert_eq!((proxy.count(), direct.count()), (1, 1));
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let body = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}";
    let server = Server::answering(vec![refusal("200 OK", "", body)]);
    let mut settings = server.settings();
    settings.stream = false;
    let model = OpenAi::new("test", settings, Clock::system()).unwrap();
    let (reply, heard) = ask(&model);
    let reply = reply.unwrap();
    assert_eq!(
        (reply.text.as_str(), streamed(&heard).as_str()),
        ("hello", "hello")
    );
    assert!(
        reply.usage.estimated && reply.usage.total() > 0,
        "{:?}",
        reply.usage
    );
    assert!(
        server.asked.lock().unwrap()[0]
            .body
            .contains("\"stream\":false")
    );
}
