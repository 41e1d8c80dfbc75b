//! What a run may take: its time ends the step under way, and counts when it is taken up again.

use super::odd_store::{OddStore, Oddity};
use super::support::answer;
use super::{failure, flow, open, place, run};
use airlock_kernel::{Front, Resume, RunEvent, RunState};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn the_time_of_a_run_ends_the_step_under_way() {
    let limits = "limits: { timeout: 1s }\n";
    let long = "{ id: long, execute_code: { command: [sh, long.sh] } }";
    let list = "{ id: list, tool: fs.list }";
    let alone = flow("alone", &format!("{limits}steps: [{long}, {list}]\n"));
    let beside = format!("{limits}steps: [{{ id: both, parallel: [{long}, {list}] }}]\n");
    let beside = flow("beside", &beside);
    let place = place(&[("alone", &alone), ("beside", &beside)]);
    place.write("long.sh", "sleep 600\n");
    let kernel = open(&place);
    for name in ["alone", "beside"] {
        let begun = Instant::now();
        let report = run(&kernel, name, &json!({}));
        let (step, code, what) = failure(&report);
        assert_eq!((step, code), (Some("long"), "timed_out"), "{name}: {what}");
        // The command itself may take half a minute.
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "{name}: {took:?}");
    }
}

#[test]
fn the_time_a_run_took_before_counts_and_is_kept_with_it() {
    let steps = "\
limits: { timeout: 10m }
steps:
  - { id: nap, execute_code: { command: [sh, nap.sh] } }
  - { id: sure, approval: 'Sure?' }
";
    let place = place(&[("ask", &flow("ask", steps))]);
    place.write("nap.sh", "sleep 1\n");
    let kernel = open(&place);
    let flows = kernel.workflows_in(OddStore::new(Oddity::Ages));
    let waiting = flows.run(Front::Cli, "ask", &json!({})).unwrap();
    assert!(
        matches!(waiting.state, RunState::Waiting { .. }),
        "{:?}",
        waiting.state
    );
    let events = flows.find(&waiting.id).unwrap().events;
    let kept = |event: &RunEvent| match event {
        RunEvent::Waiting { spent, .. } => Some(*spent),
        RunEvent::Started { .. } | RunEvent::Done { .. } | RunEvent::Interrupted { .. } => None,
    };
    let spent = events.iter().find_map(kept).unwrap();
    assert!(spent >= 1_000, "the nap took a second: {spent}");
    let late = flows
        .resume(Front::Cli, &waiting.id, &Resume::default())
        .unwrap();
    let (step, code, what) = failure(&late);
    assert_eq!((step, code), (Some("sure"), "timed_out"), "{what}");
}

#[test]
fn steps_count_once_however_often_a_run_is_taken_up() {
    for (most, want) in [(2, Some("too_many_steps")), (3, None)] {
        let steps = format!(
            "limits: {{ steps: {most} }}\nsteps:\n  - {{ id: before, tool: fs.list }}\n  \
             - {{ id: sure, approval: 'Sure?' }}\n  - {{ id: after, tool: fs.list }}\n"
        );
        let place = place(&[("ask", &flow("ask", &steps))]);
        let kernel = open(&place);
        let flows = kernel.workflows().unwrap();
        let resume = |id: &str| flows.resume(Front::Cli, id, &Resume::default()).unwrap();
        let first = run(&kernel, "ask", &json!({}));
        // Asked again it is the same step.
        let again = resume(&first.id);
        let RunState::Waiting { mut review, .. } = again.state else {
            panic!("{most}: {:?}", again.state);
        };
        answer(&kernel, &mut review, true).unwrap();
        let ended = resume(&first.id);
        let failed = match &ended.state {
            RunState::Failed { code, .. } => Some(code.as_str()),
            RunState::Done(_) => None,
            RunState::Waiting { .. } | RunState::Unsettled(_) | RunState::Cancelled => {
                panic!("{most}: {:?}", ended.state)
            }
        };
        assert_eq!(failed, want, "{most}");
    }
}
