//! Programs of our own beside a command that runs.

use crate::support::{Place, command, run};
use airlock_sandbox::launch::{Command, RunError};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{Beside, Control, HostPath};
use std::time::{Duration, Instant};

fn beside(control: &Control, words: &[&str], input: &str) -> Result<Beside, RunError> {
    let directory = HostPath::new("/tmp").unwrap();
    control.beside(&command(words), &directory, input, 1 << 20)
}

/// Does `work` while a command runs; both end before this does.
fn meanwhile<T: Send>(words: &[&str], work: impl FnOnce(&Control) -> T + Send) -> T {
    let place = Place::new();
    let mut sandbox = place.start();
    let control = sandbox.control();
    let command: Command = command(words);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&mut sandbox, &command));
        let until = Instant::now() + Duration::from_secs(20);
        while !control.can_run_beside() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let done = work(&control);
        control.cancel();
        let _ran = running.join().unwrap();
        assert!(!control.can_run_beside());
        done
    })
}

#[test]
fn it_reads_writes_and_ends_while_the_command_goes_on() {
    meanwhile(&["sleep", "100"], |control| {
        let long = "x".repeat(200_000);
        let ran = beside(control, &["cat"], &long).unwrap();
        assert_eq!(ran.outcome, Outcome::Exited(0));
        assert!(ran.output == long.as_bytes(), "{}", ran.output.len());
        let ran = beside(control, &["sh", "-c", "pwd; exit 3"], "").unwrap();
        assert_eq!(
            (ran.outcome, &*ran.output),
            (Outcome::Exited(3), &b"/tmp\n"[..])
        );
        let ran = beside(control, &["no-such-program"], "").unwrap();
        assert_eq!(ran.outcome, Outcome::Exited(127));
        // Behind the same walls, among the same processes.
        let ran = beside(control, &["sh", "-c", "pgrep -x sleep | wc -l"], "").unwrap();
        assert_eq!(&*ran.output, b"1\n");
    });
}

#[test]
fn it_ends_with_the_command_and_there_is_none_without_one() {
    let begun = Instant::now();
    let ended = meanwhile(&["sleep", "1"], |control| {
        beside(control, &["sleep", "100"], "")
    });
    assert!(matches!(ended, Err(RunError::Gone)), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let place = Place::new();
    let mut sandbox = place.start();
    let alone = beside(&sandbox.control(), &["true"], "");
    assert!(matches!(alone, Err(RunError::Gone)), "{alone:?}");
    // And the next command is none the wiser.
    assert_eq!(
        run(&mut sandbox, &command(&["true"])).ended.outcome,
        Outcome::Exited(0)
    );
}

#[test]
fn whoever_holds_its_output_open_holds_nobody_up() {
    meanwhile(&["sleep", "100"], |control| {
        let begun = Instant::now();
        let ran = beside(control, &["sh", "-c", "sleep 100 & cat"], "said").unwrap();
        assert_eq!(
            (ran.outcome, &*ran.output),
            (Outcome::Exited(0), &b"said"[..])
        );
        assert!(begun.elapsed() < Duration::from_secs(50));
    });
}

#[test]
fn a_command_that_takes_hold_of_its_output_holds_nobody_up() {
    // Where the system does not let it, it goes on all the same.
    let hold = "until [ -s /tmp/who ]; do sleep 0.01; done; \
        command exec 9</proc/$(cat /tmp/who)/fd/1; echo > /tmp/held; sleep 100";
    let waits = "echo $$ > /tmp/new; mv /tmp/new /tmp/who; cat; \
        until [ -e /tmp/held ]; do sleep 0.01; done";
    meanwhile(&["sh", "-c", hold], |control| {
        let begun = Instant::now();
        let ran = beside(control, &["sh", "-c", waits], "said").unwrap();
        assert_eq!(
            (ran.outcome, &*ran.output),
            (Outcome::Exited(0), &b"said"[..])
        );
        assert!(begun.elapsed() < Duration::from_secs(50));
    });
}

#[test]
fn what_it_prints_is_kept_within_bounds() {
    meanwhile(&["sleep", "100"], |control| {
        let directory = HostPath::new("/tmp").unwrap();
        let endless = command(&["yes"]);
        let ran = control.beside(&endless, &directory, "", 10_000).unwrap();
        assert_eq!(ran.output.len(), 10_000);
        assert_eq!(ran.outcome, Outcome::Signalled(13));
    });
}

/// A cancellation that came when its command was over would end the next.
#[test]
fn what_came_too_late_is_pardoned() {
    let place = Place::new();
    let mut sandbox = place.start();
    let control = sandbox.control();
    control.cancel();
    let ran = run(&mut sandbox, &command(&["true"]));
    assert_eq!(ran.ended.outcome, Outcome::Cancelled);
    control.cancel();
    control.pardon();
    let ran = run(&mut sandbox, &command(&["true"]));
    assert_eq!(ran.ended.outcome, Outcome::Exited(0));
}
