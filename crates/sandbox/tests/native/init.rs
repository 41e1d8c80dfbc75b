//! What a command can do to the sandbox's first process: nothing that lasts, or that keeps anybody
//! from ending it.

use crate::support::{Place, command, limits, run, sh};
use airlock_core::Span;
use airlock_sandbox::lifecycle::{Outcome, State};
use airlock_sandbox::{Control, HostPath, Sandbox, start};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Less than a limit of these tests and what the supervisor waits for what was killed to be gone.
const SOON: Duration = Duration::from_secs(10);

fn python(sandbox: &mut Sandbox, script: &str) -> String {
    let ran = run(sandbox, &command(&["/usr/bin/python3", "-c", script]));
    assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
    ran.text()
}

/// Stops whatever is started next before it has become a program: until then nobody may look at its
/// environment. What has become one already goes on, and the next is tried.
const STOPS: &str = "
import os, signal, time
next = os.getpid() + 1
while True:
    try:
        os.kill(next, signal.SIGSTOP)
    except ProcessLookupError:
        continue
    # By now it stands still, or has become a program.
    time.sleep(0.01)
    try:
        open(f'/proc/{next}/environ').close()
    except PermissionError:
        while True: signal.pause()
    except OSError:
        pass
    try:
        while True: os.kill(next, signal.SIGCONT)
    except ProcessLookupError:
        next += 1
";

#[test]
fn whoever_stops_what_is_started_beside_it_is_ended_in_its_time() {
    let place = Place::new();
    let limits = limits(|limits| limits.duration = Span::from_millis(2_000));
    let mut sandbox = start(place.launch(|plan| plan.limits(limits))).unwrap();
    let control = sandbox.control();
    let directory = HostPath::new("/tmp").unwrap();
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + SOON;
            while !control.can_run_beside() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Until one is not answered any more, at the latest because the command has ended.
            let beside = || control.beside(&command(&["true"]), &directory, "", 0);
            while beside().is_ok() {}
        });
        run(&mut sandbox, &command(&["/usr/bin/python3", "-c", STOPS]))
    });
    assert_eq!(ran.ended.outcome, Outcome::TimedOut, "{}", ran.errors());
    assert!(ran.ended.wall < SOON, "{:?}", ran.ended.wall);
}

/// The parent of the one process of the machine that runs these words.
fn parent_of(words: &[&str]) -> Option<i32> {
    let line = format!("{}\0", words.join("\0"));
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let pid = pids.find(|pid| {
        let found = std::fs::read(format!("/proc/{pid}/cmdline"));
        found.is_ok_and(|found| found == line.as_bytes())
    })?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

/// Runs `words` with an init that stands still from then on, has `end` bring about their end, and
/// says what that was called.
fn with_init_stopped(
    sandbox: &mut Sandbox,
    words: &[&str],
    end: impl Fn(&Control) + Sync,
) -> Outcome {
    let control = sandbox.control();
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + SOON;
            let init = loop {
                match parent_of(words) {
                    Some(init) => break init,
                    None if Instant::now() > until => return control.cancel(),
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            kill_process(Pid::from_raw(init).unwrap(), Signal::STOP).unwrap();
            end(&control);
        });
        run(sandbox, &command(words))
    });
    assert!(ran.ended.wall < SOON, "{:?}", ran.ended.wall);
    // Nothing of it acts any more when its end is told.
    assert_eq!(parent_of(words), None);
    assert_eq!(sandbox.state(), State::Cleanup);
    ran.ended.outcome
}

#[test]
fn an_init_that_obeys_nobody_ends_with_everything_and_the_reason_is_kept() {
    let place = Place::new();
    // Found among all processes of the machine.
    let word = format!("4741.{}", std::process::id());
    let words = ["sleep", word.as_str()];
    let mut sandbox = place.start();
    let ended = with_init_stopped(&mut sandbox, &words, Control::cancel);
    assert_eq!(ended, Outcome::Cancelled);
    drop(sandbox);
    let short = limits(|limits| limits.duration = Span::from_millis(3_000));
    let mut sandbox = start(place.launch(|plan| plan.limits(short))).unwrap();
    let ended = with_init_stopped(&mut sandbox, &words, |_| {});
    assert_eq!(ended, Outcome::TimedOut);
}

/// What a process has of whoever started it.
const INHERITED: &str = "
import os, resource
print([resource.getrlimit(number) for number in range(16)])
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0))
";

const CHANGES: &str = "
import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
def refused(change, *arguments):
    try:
        change(*arguments)
        print('changed', *arguments)
    except PermissionError:
        pass
refused(resource.prlimit, 1, resource.RLIMIT_NOFILE, (16, hard))
refused(resource.prlimit, 1, resource.RLIMIT_NOFILE, (3, 3))
refused(resource.prlimit, 1, resource.RLIMIT_FSIZE, (5, 5))
refused(resource.prlimit, 1, resource.RLIMIT_AS, (1 << 20, 1 << 20))
refused(os.setpriority, os.PRIO_PROCESS, 1, 19)
refused(os.setpriority, os.PRIO_USER, 0, 19)
refused(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
refused(os.sched_setscheduler, 1, os.SCHED_BATCH, os.sched_param(0))
# That it may: libraries pin their threads by number.
os.sched_setaffinity(1, {min(os.sched_getaffinity(0))})
# And of itself whatever only takes from it.
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
resource.prlimit(0, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
os.nice(3)
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.sched_setscheduler(os.getpid(), os.SCHED_OTHER, os.sched_param(0))
print('done')
";

#[test]
fn what_a_command_does_to_limits_and_scheduling_does_not_meet_the_next() {
    let place = Place::new();
    let mut sandbox = place.start();
    let before = python(&mut sandbox, INHERITED);
    assert_eq!(python(&mut sandbox, CHANGES), "done\n");
    assert_eq!(python(&mut sandbox, INHERITED), before);
}

#[test]
fn init_shows_nothing_of_how_its_maker_was_started() {
    let place = Place::new();
    let script = "test -d /proc/1 && cat /proc/1/cmdline 2>/dev/null | tr -d '\\000'";
    assert_eq!(sh(&mut place.start(), script), "");
    assert!(std::fs::read("/proc/self/cmdline").unwrap().len() > 1);
}
