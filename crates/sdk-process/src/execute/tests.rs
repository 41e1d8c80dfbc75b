//! Calls without a host: what is said, and when nobody listens.

use super::*;
use airlock_plugin_protocol::messages::airlock::ExecuteResponse;
use airlock_sdk::Tool;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tonic::Status;

struct Tried;

impl Plugin for Tried {
    fn tools(&self) -> Vec<Tool> {
        let names = [
            "about", "numbers", "long", "panics", "fails", "large", "asks",
        ];
        names.map(|name| Tool::new(name, "")).into()
    }

    fn call(
        &self,
        context: &Context<'_>,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, ToolError> {
        match tool {
            "about" => {
                let about = context.about();
                let variable = context.variable("COLOUR");
                Ok(json!([
                    about.action,
                    about.plugin,
                    about.session,
                    about.mode,
                    variable
                ]))
            }
            "numbers" => {
                let mut said = 0_u64;
                while context.emit(&said.to_string()) && Some(said) != arguments["to"].as_u64() {
                    said += 1;
                }
                Ok(json!([said, context.is_cancelled()]))
            }
            "long" => Ok(json!(context.emit(&"ü".repeat(3 << 19)))),
            "large" => Ok(json!("x".repeat(MESSAGE))),
            "asks" => Ok(context.call("fs.read", arguments)?),
            "panics" => panic!("at {}", arguments["word"]),
            _ => Err(ToolError::new("there is no such ticket")),
        }
    }
}

/// Calls a tool, takes so many answers, and gives all of them.
fn answers(request: ExecuteRequest, most: usize) -> Vec<Said> {
    let (sender, mut receiver) = mpsc::channel::<Result<ExecuteResponse, Status>>(2);
    let about = About {
        plugin: "tried".to_owned(),
        environment: [("COLOUR".to_owned(), "blue".to_owned())].into(),
        ..About::default()
    };
    let line = Arc::new(Line::new("/nonexistent/kernel.sock".into(), "tried".into()));
    let running = std::thread::spawn(move || execute(&Tried, about, line, &request, sender));
    let mut said = Vec::new();
    while said.len() < most {
        let Some(answer) = receiver.blocking_recv() else {
            break;
        };
        said.push(answer.unwrap().said.unwrap());
    }
    drop(receiver);
    // Whether anybody listens or not: it comes to its end.
    running.join().unwrap();
    said
}

fn request(tool: &str, arguments: &Value) -> ExecuteRequest {
    ExecuteRequest {
        action: "a".to_owned(),
        tool: tool.to_owned(),
        arguments_json: arguments.to_string(),
        ..ExecuteRequest::default()
    }
}

fn result(value: &Value) -> Said {
    Said::ResultJson(value.to_string())
}

#[test]
fn a_call_knows_what_it_is_part_of() {
    let outside = answers(request("about", &json!({})), 9);
    assert_eq!(
        outside,
        [result(&json!(["a", "tried", null, null, "blue"]))]
    );
    let within = ExecuteRequest {
        session: "s".to_owned(),
        mode: "plan".to_owned(),
        ..request("about", &json!({}))
    };
    let wanted = json!(["a", "tried", "s", "plan", "blue"]);
    assert_eq!(answers(within, 9), [result(&wanted)]);
}

#[test]
fn output_comes_in_order_before_the_one_result() {
    let said = answers(request("numbers", &json!({ "to": 40 })), 99);
    let numbers = (0..=40).map(|number: u64| Said::Output(number.to_string()));
    let wanted: Vec<Said> = numbers.chain([result(&json!([40, false]))]).collect();
    assert_eq!(said, wanted);
}

#[test]
fn a_long_piece_is_cut_between_characters() {
    let said = answers(request("long", &json!({})), 99);
    let pieces: Vec<&String> = said
        .iter()
        .filter_map(|said| match said {
            Said::Output(text) => Some(text),
            Said::ResultJson(_) | Said::Failure(_) => None,
        })
        .collect();
    assert_eq!(pieces.len(), 3);
    let whole: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert_eq!(whole, 3 << 20);
    assert_eq!(said.last(), Some(&result(&json!(true))));
}

#[test]
fn every_way_to_fail_is_a_failure_and_the_last_word() {
    for (tool, arguments, wanted) in [
        ("fails", json!({}), "there is no such ticket"),
        ("absent", json!({}), "there is no tool `absent`"),
        (
            "panics",
            json!({ "word": "x" }),
            "the tool panicked: at \"x\"",
        ),
        ("large", json!({}), "is the most"),
        ("asks", json!({}), "the kernel cannot be reached"),
    ] {
        match answers(request(tool, &arguments), 9).as_slice() {
            [Said::Failure(why)] => assert!(why.contains(wanted), "{tool}: {why}"),
            other => panic!("{tool}: {other:?}"),
        }
    }
    let broken = ExecuteRequest {
        arguments_json: "{".to_owned(),
        ..request("about", &json!({}))
    };
    assert!(matches!(answers(broken, 9).as_slice(), [Said::Failure(_)]));
}

#[test]
fn a_call_nobody_listens_to_ends() {
    // Without an end of its own.
    assert_eq!(answers(request("numbers", &json!({})), 3).len(), 3);
}

#[test]
fn a_call_ends_when_its_time_is_over() {
    let short = ExecuteRequest {
        deadline_ms: 50,
        ..request("numbers", &json!({}))
    };
    let said = answers(short, usize::MAX);
    match said.last() {
        Some(Said::ResultJson(text)) => assert!(text.ends_with(",true]"), "{text}"),
        other => panic!("{other:?}"),
    }
}
