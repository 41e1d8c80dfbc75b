//! A conversation of five hundred turns with megabytes of tool output: within its budget at every
//! step, with its pins, its pairs, and no more memory at the end than near the beginning.

use crate::support::{Fake, handed};
use airlock_agent::{Agent, Ended, Limits, Setup, With};
use airlock_model::{
    Arguments, Cancel, Counter, Event, Finish, Message, Model, ModelError, Reply, Request, Status,
    ToolCall, Usage,
};
use std::sync::Mutex;

const TURNS: usize = 500;
const WINDOW: u32 = 32_000;
const PIN: &str = "never change the public API";

/// Asks for a call in every turn, and checks every question it gets.
#[derive(Default)]
struct Checking {
    turn: Mutex<usize>,
    largest: Mutex<u64>,
    resident: Mutex<Vec<u64>>,
}

impl Checking {
    fn check(&self, turn: usize, request: &Request) {
        let tokens = Counter::ESTIMATE.question(request);
        let most = u64::from(WINDOW) - 4_000;
        assert!(tokens <= most, "turn {turn}: {tokens} of {most}");
        let mut largest = self.largest.lock().unwrap();
        *largest = (*largest).max(tokens);
        assert_eq!(request.max_output, 4_000);
        let tools: u64 = {
            let without = Request {
                tools: Vec::new(),
                ..request.clone()
            };
            tokens - Counter::ESTIMATE.question(&without)
        };
        assert!(tools <= 3_000, "turn {turn}: {tools}");
        let pinned = request
            .messages
            .iter()
            .any(|one| matches!(one, Message::User { text } if text.contains(PIN)));
        assert!(pinned, "turn {turn} lost its pin");
        let summary = request.messages.iter().find(
            |one| matches!(one, Message::User { text } if text.starts_with("Summary of the")),
        );
        if let Some(summary) = summary {
            let tokens = Counter::ESTIMATE.message(summary);
            assert!(tokens <= 2_000, "turn {turn}: a summary of {tokens}");
        }
        let mut open: Vec<&str> = Vec::new();
        for message in &request.messages {
            match message {
                Message::Assistant { calls, .. } => {
                    assert!(open.is_empty(), "turn {turn}: a call without its result");
                    open = calls.iter().map(|call| call.id.as_str()).collect();
                }
                Message::Tool { call, .. } => {
                    let at = open.iter().position(|id| id == call);
                    open.remove(
                        at.unwrap_or_else(|| panic!("turn {turn}: a result without its call")),
                    );
                }
                Message::User { .. } => assert!(open.is_empty(), "turn {turn}"),
            }
        }
        assert!(open.is_empty(), "turn {turn}");
    }
}

impl Model for Checking {
    fn name(&self) -> &'static str {
        "checking"
    }

    fn chat(
        &self,
        request: &Request,
        _: &mut dyn FnMut(Event),
        _: &Cancel,
    ) -> Result<Reply, ModelError> {
        let mut turn = self.turn.lock().unwrap();
        *turn += 1;
        self.check(*turn, request);
        self.resident.lock().unwrap().push(resident());
        let call = |n: usize, name: &str| ToolCall {
            id: format!("call-{turn}-{n}"),
            name: name.to_owned(),
            arguments: Arguments::parse(&format!("{{\"path\":\"src/{turn}.rs\"}}")),
        };
        let calls = match *turn {
            TURNS => Vec::new(),
            turn if turn % 5 == 0 => vec![call(1, "fs.write"), call(2, "test.run")],
            _ => vec![call(1, "fs.read"), call(2, "fs.read")],
        };
        Ok(Reply {
            text: format!("Turn {turn}: I decided to go on."),
            reasoning: String::new(),
            finish: if calls.is_empty() {
                Finish::Stop
            } else {
                Finish::ToolCalls
            },
            calls,
            usage: Usage::default(),
            model: "checking".to_owned(),
        })
    }

    fn counter(&self) -> Counter {
        Counter::ESTIMATE
    }

    fn window(&self) -> u32 {
        WINDOW
    }

    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Pages of memory this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn five_hundred_turns_stay_within_every_bound() {
    let model = Checking::default();
    let read = Mutex::new(0_usize);
    let hands = Fake::new(move |name, _, _| {
        if name != "fs.read" {
            return handed(Status::Ok, "test result: ok. 12 passed");
        }
        let mut read = read.lock().unwrap();
        *read += 1;
        // One result has five megabytes by itself; the others have forty-eight together.
        let size = if *read == 300 { 5_000_000 } else { 60_000 };
        handed(
            Status::Ok,
            &"let value = compute(input)?;\n".repeat(size / 29),
        )
    });
    let setup = Setup {
        workspace: "ws".to_owned(),
        limits: Limits {
            calls: 8,
            turns: 1_000,
        },
        role: None,
    };
    let mut agent = Agent::new(&setup, &model);
    agent.pin(PIN).unwrap();
    // The steps are not kept here: all that could grow is what the agent keeps.
    let with = With {
        model: &model,
        hands: &hands,
        watch: &mut |_| {},
        cancel: &Cancel::new(),
    };
    let outcome = agent.run("make the parser faster", with);
    assert_eq!(outcome.unwrap().ended, Ended::Done);
    assert_eq!(*model.turn.lock().unwrap(), TURNS);
    let largest = *model.largest.lock().unwrap();
    assert!(largest > 12_000, "the room is used: {largest}");
    let resident = model.resident.lock().unwrap();
    let (early, late) = (resident.get(150).unwrap(), resident.last().unwrap());
    // Pages of 4 KiB: 16 MB, where what was read in between is more than 38 MB.
    assert!(
        late.saturating_sub(*early) < 4_096,
        "{early} then {late} pages"
    );
}
