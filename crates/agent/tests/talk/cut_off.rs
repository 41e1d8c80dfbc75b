//! Answers that are cut off in the middle of what they ask for.

use crate::support::{Fake, agent, run};
use airlock_agent::Ended;
use airlock_model::{
    Arguments, Cancel, Counter, Event, Finish, Message, Model, ModelError, Reply, Request, Status,
    ToolCall, Usage,
};
use std::sync::Mutex;

/// A model that runs out of room as long as it has calls to ask for, and is done then.
struct CutOff {
    calls: fn(turn: usize) -> Vec<ToolCall>,
    asked: Mutex<Vec<Request>>,
}

impl CutOff {
    fn new(calls: fn(turn: usize) -> Vec<ToolCall>) -> Self {
        Self {
            calls,
            asked: Mutex::default(),
        }
    }
}

impl Model for CutOff {
    fn name(&self) -> &'static str {
        "cut-off"
    }

    fn chat(
        &self,
        request: &Request,
        _: &mut dyn FnMut(Event),
        _: &Cancel,
    ) -> Result<Reply, ModelError> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(request.clone());
        let calls = (self.calls)(asked.len());
        Ok(Reply {
            text: "Trying.".to_owned(),
            reasoning: String::new(),
            finish: if calls.is_empty() {
                Finish::Stop
            } else {
                Finish::Length
            },
            calls,
            usage: Usage::default(),
            model: "cut-off".to_owned(),
        })
    }

    fn counter(&self) -> Counter {
        Counter::ESTIMATE
    }

    fn window(&self) -> u32 {
        20_000
    }

    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

fn call(id: &str, name: &str, came: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: Arguments::parse_incomplete(came),
    }
}

#[test]
fn a_call_that_is_cut_off_is_told_to_the_model_and_not_run() {
    let model = CutOff::new(|turn| match turn {
        1 => vec![
            call("a", "fs.read", "{\"path\":\"a.txt\"}"),
            call("b", "fs.write", ""),
            call("c", "fs.write", "{\"path\":\"b.txt\",\"te"),
            call("d", "test.r", ""),
        ],
        _ => Vec::new(),
    });
    let hands = Fake::saying("hello");
    let (outcome, _) = run(&mut agent(&model), &model, &hands, "go");
    assert_eq!(outcome.unwrap().ended, Ended::Done);
    assert_eq!(*hands.called.lock().unwrap(), ["fs.read"]);
    let asked = model.asked.lock().unwrap();
    let results: Vec<(&str, Status, &str)> = asked
        .last()
        .unwrap()
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool {
                call, status, text, ..
            } => Some((call.as_str(), *status, text.as_str())),
            Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect();
    let cut = "failed: not run: the answer was cut off before this call was complete";
    let want = [
        ("a", Status::Ok, "hello"),
        ("b", Status::Failed, "none of its arguments came"),
        ("c", Status::Failed, "`{\"path\":\"b.txt\",\"te`"),
        ("d", Status::Failed, "write the call again"),
    ];
    assert_eq!(results.len(), want.len(), "{results:?}");
    for ((id, status, text), (call, ended, part)) in results.into_iter().zip(want) {
        assert_eq!((id, status), (call, ended), "{text}");
        assert!(text.contains(part), "{part}: {text}");
        assert_eq!(text.contains(cut), status == Status::Failed, "{text}");
    }
}

#[test]
fn a_call_that_is_cut_off_again_and_again_ends_the_run() {
    let model = CutOff::new(|_| vec![call("a", "fs.write", "{\"path\":\"b.txt\",\"te")]);
    let hands = Fake::saying("never");
    let (outcome, _) = run(&mut agent(&model), &model, &hands, "go");
    let ended = outcome.unwrap().ended;
    assert!(
        matches!(&ended, Ended::Repeated { tool, times: 3, why } if tool == "fs.write" && why.contains("cut off")),
        "{ended:?}"
    );
    assert!(hands.called.lock().unwrap().is_empty());
}
