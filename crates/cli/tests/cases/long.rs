//! A conversation of hundreds of turns, as a program follows it: within its window to the end, and in
//! no more memory then than near the beginning.

use crate::support::World;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const TURNS: usize = 500;
/// Bytes of a result: thirty megabytes all together.
const RESULT: usize = 60_000;

/// Pages of memory that the process `id` has.
fn resident(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap();
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn five_hundred_turns_with_real_calls_end_well_and_take_no_more_memory() {
    let world = World::governed();
    let line = "let value = compute(input)?;\n";
    world.write("src/large.rs", line.repeat(RESULT / line.len()));
    let mut script = "version: 1\nturns:\n".to_owned();
    for turn in 1..TURNS {
        let _ = writeln!(
            script,
            "  - {{ text: 'Turn {turn}.', calls: [{{ tool: fs.read, arguments: {{ path: src/large.rs }} }}] }}"
        );
    }
    script.push_str("  - { expect: { results: [{ tool: fs.read, status: ok }] }, text: Done. }\n");
    std::fs::write(world.path("script.yaml"), script).unwrap();
    let model = format!("script:{}", world.path("script.yaml").display());
    let turns = (TURNS + 1).to_string();
    let mut command = world.command(&["run", "--json", "--turns", &turns, "--model", &model]);
    command.arg("read it again and again");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut answered, mut summarised, mut bytes) = (0, 0, 0);
    let (mut early, mut late) = (0, 0);
    let mut ended = Value::Null;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        match event["event"].as_str().unwrap() {
            "tool_result" => {
                assert_eq!(event["status"], "ok", "{line}");
                bytes += event["text"].as_str().unwrap().len();
            }
            "done" => {
                answered += 1;
                if answered == TURNS / 3 {
                    early = resident(child.id());
                }
                if answered == TURNS - 1 {
                    late = resident(child.id());
                }
            }
            "summarised" => summarised += 1,
            "error" => panic!("{line}"),
            "ended" => ended = event,
            _ => {}
        }
    }
    let ran = child.wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(ended["ended"]["reason"], "done", "{ended}");
    assert_eq!(answered, TURNS);
    assert!(bytes > 5_000_000, "{bytes} bytes of results");
    assert!(summarised > 10, "{summarised} summaries");
    // Pages of 4 KiB: 8 MB, where results of some 20 MB came in between.
    assert!(
        late.saturating_sub(early) < 2_048,
        "{early} then {late} pages"
    );
}
