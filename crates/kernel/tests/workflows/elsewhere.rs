//! Runs that another process asks for: taken back with its request, told whole, named by part of an id.

use super::support::answer;
use super::{flow, open, place, run};
use airlock_kernel::{Cancel, Front, Resume, RunError, RunEvent, RunState, RunStoreError};
use airlock_state::RunStatus;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A run with a step under way that would take long, also beside others, whose caller takes it back.
#[test]
fn a_run_that_is_taken_back_ends_its_step_and_can_be_taken_up() {
    let step = "{ id: long, execute_code: { command: [sh, long.sh] } }";
    let after = "{ id: after, execute_code: { command: [sh, add.sh] } }";
    let alone = flow("alone", &format!("steps: [{step}, {after}]\n"));
    let beside = flow(
        "beside",
        &format!(
            "steps: [{{ id: both, parallel: [{{ id: list, tool: fs.list }}, {step}] }}, {after}]\n"
        ),
    );
    let place = place(&[("alone", &alone), ("beside", &beside)]);
    let kernel = open(&place);
    let flows = kernel.workflows().unwrap();
    for name in ["alone", "beside"] {
        place.write("long.sh", "sleep 60\n");
        let (cancel, begun) = (Cancel::new(), Instant::now());
        let error = std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let flows = kernel.workflows().unwrap();
                cancel.cover(|| flows.run(Front::Cli, name, &json!({})))
            });
            let long = |event: &RunEvent| matches!(event, RunEvent::Started { step, .. } if step == "long");
            let started = || {
                let mut runs = flows.runs().unwrap().into_iter();
                runs.any(|run| {
                    let found = flows.find(&run.id).unwrap();
                    found.name == name && found.events.iter().any(long)
                })
            };
            while !started() {
                assert!(begun.elapsed() < Duration::from_mins(1), "it never began");
                std::thread::sleep(Duration::from_millis(20));
            }
            cancel.cancel();
            running.join().unwrap().unwrap_err()
        });
        let RunError::TakenBack(id) = error else {
            panic!("{name}: {error}");
        };
        // The command itself may take half a minute.
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
        let found = flows.find(&id).unwrap();
        assert_eq!(found.status, RunStatus::Running, "{name}");
        let noted = found.events.last();
        assert!(
            matches!(noted, Some(RunEvent::Interrupted { .. })),
            "{name}: what it took counts: {noted:?}"
        );
        let stopped = flows.resume(Front::Cli, &id, &Resume::default()).unwrap();
        let RunState::Unsettled(steps) = &stopped.state else {
            panic!("{name}: {:?}", stopped.state);
        };
        assert_eq!(steps, &["long"], "{name}");
        place.write("long.sh", "true\n");
        let repeat = Resume {
            repeat: BTreeSet::from(["long".to_owned()]),
            ..Resume::default()
        };
        let done = flows.resume(Front::Cli, &id, &repeat).unwrap();
        assert!(
            matches!(done.state, RunState::Done(_)),
            "{name}: {:?}",
            done.state
        );
    }
}

/// Everything that comes of a run, or of asking for one, is the same in another process.
#[test]
fn what_came_of_a_run_crosses_whole() {
    fn crossed<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
        let told = serde_json::to_value(value).unwrap();
        let heard: T = serde_json::from_value(told.clone()).unwrap();
        assert_eq!(serde_json::to_value(&heard).unwrap(), told);
        heard
    }
    let ask = flow("ask", "steps: [{ id: sure, approval: 'Sure?' }]\n");
    let place = place(&[("ask", &ask)]);
    let kernel = open(&place);
    let flows = kernel.workflows().unwrap();
    let waiting = run(&kernel, "ask", &json!({}));
    let there = crossed(&waiting);
    let RunState::Waiting { mut review, .. } = there.state else {
        panic!("{:?}", there.state);
    };
    assert_eq!(review.request.arguments["question"], "Sure?");
    // What was read there is what is answered here.
    answer(&kernel, &mut review, false).unwrap();
    let states = [
        RunState::Done(json!({ "a": [1, null] })),
        RunState::Failed {
            step: Some("a".to_owned()),
            code: "denied".to_owned(),
            what: "no".to_owned(),
        },
        RunState::Failed {
            step: None,
            code: "output_invalid".to_owned(),
            what: "no".to_owned(),
        },
        RunState::Unsettled(vec!["a".to_owned()]),
        RunState::Cancelled,
    ];
    for state in states {
        assert_eq!(format!("{:?}", crossed(&state)), format!("{state:?}"));
    }
    flows.cancel(Front::Cli, &waiting.id).unwrap();
    let resume = |id: &str| flows.resume(Front::Cli, id, &Resume::default());
    let errors = [
        flows.run(Front::Cli, "aks", &json!({})).unwrap_err(),
        flows.run(Front::Cli, "ask", &json!([])).unwrap_err(),
        flows.run(Front::Agent, "ask", &json!({})).unwrap_err(),
        resume("nowhere").unwrap_err(),
        resume(&waiting.id).unwrap_err(),
        RunError::Several("0".to_owned()),
        RunError::Busy("a".to_owned()),
        RunError::Changed("a".to_owned()),
        RunError::TakenBack("a".to_owned()),
        RunError::Store(RunStoreError::Over),
        RunError::Store(RunStoreError::Unusable("full".to_owned())),
    ];
    for error in errors {
        let there = crossed(&error);
        assert_eq!(
            (there.to_string(), there.hint()),
            (error.to_string(), error.hint())
        );
    }
}

#[test]
fn a_run_is_found_by_the_beginning_of_its_id_alone() {
    let ask = flow("ask", "steps: [{ id: sure, approval: 'Sure?' }]\n");
    let place = place(&[("ask", &ask)]);
    let kernel = open(&place);
    let flows = kernel.workflows().unwrap();
    let (first, _second) = (
        run(&kernel, "ask", &json!({})),
        run(&kernel, "ask", &json!({})),
    );
    assert_eq!(flows.beginning(&first.id).unwrap().id, first.id);
    // Ids begin with the time.
    let several = flows.beginning("0").unwrap_err();
    assert!(matches!(several, RunError::Several(_)), "{several}");
    for start in ["", "../x", "nowhere"] {
        let none = flows.beginning(start).unwrap_err();
        assert!(matches!(none, RunError::NoRun(_)), "{start}: {none}");
    }
}
