//! Runs a target over seeds and mutations until its budget ends or an input breaks it.
//!
//! A panic and a run slower than [`SLOW`] are failures. A run that does not return cannot be
//! stopped: after [`HANG`] its input is kept and the process aborted.

use crate::Target;
use crate::rng::Rng;
use crate::watchdog::Watchdog;
use crate::{artifact, mutate};
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Longest a single input may take: parsers of small inputs answer in milliseconds, even
/// unoptimised and on a busy machine.
pub const SLOW: Duration = Duration::from_secs(2);

/// How long a single input may take before it counts as endless.
pub const HANG: Duration = Duration::from_mins(1);

/// Most extra runs spent on making a failing input smaller.
const SHRINK_RUNS: usize = 2_000;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// After so many mutated inputs: the same ones each time.
    Iterations(u64),
    /// After so long, however many inputs that is.
    Time(Duration),
}

/// What a run without failure did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Inputs tried, seeds included.
    pub runs: u64,
}

/// Why an input counts as a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The target panicked, with this message and place.
    Panic(String),
    /// The target took this long.
    Slow(Duration),
}

/// An input that breaks a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The input, made as small as a bounded search could.
    pub input: Vec<u8>,
    /// What happened.
    pub reason: Reason,
    /// How many inputs had been tried.
    pub runs: u64,
}

/// Runs `target` over its seeds, then over mutations of them.
pub fn fuzz(target: &Target, budget: Budget, seed: u64) -> Result<Stats, Failure> {
    let name = target.name;
    Watchdog::guard(
        HANG,
        |input| give_up(name, input),
        |watchdog| hunt(target, budget, seed, watchdog),
    )
}

/// Nothing can stop the thread that hangs, so the process goes, after saying why.
#[expect(clippy::print_stderr, reason = "the last words of an aborting process")]
fn give_up(target: &str, input: &[u8]) {
    let replay = artifact::keep(target, input);
    eprintln!(
        "{target}: an input took over {} s\n{replay}",
        HANG.as_secs()
    );
    std::process::abort();
}

fn hunt(target: &Target, budget: Budget, seed: u64, watchdog: &Watchdog) -> Result<Stats, Failure> {
    let begun = Instant::now();
    let mut rng = Rng::new(seed, target.name);
    let mut runs = 0;
    for input in target.seeds {
        runs += 1;
        attempt(target, input, runs, watchdog)?;
    }
    let mut mutated = 0;
    loop {
        let spent = match budget {
            Budget::Iterations(most) => mutated >= most,
            Budget::Time(most) => begun.elapsed() >= most,
        };
        if spent {
            return Ok(Stats { runs });
        }
        mutated += 1;
        runs += 1;
        attempt(target, &mutate::input(&mut rng, target), runs, watchdog)?;
    }
}

/// Runs `target` once over `input`, as it is.
pub fn replay(target: &Target, input: &[u8]) -> Result<(), Failure> {
    once(target, input).map_err(|reason| Failure {
        input: input.to_vec(),
        reason,
        runs: 1,
    })
}

fn attempt(target: &Target, input: &[u8], runs: u64, watchdog: &Watchdog) -> Result<(), Failure> {
    watchdog.begin(input);
    let outcome = once(target, input);
    watchdog.end();
    let Err(reason) = outcome else {
        return Ok(());
    };
    let (input, reason) = match reason {
        Reason::Panic(_) => shrink(target, input.to_vec(), reason),
        // Each try would cost seconds, and a shorter input may merely be less slow.
        Reason::Slow(_) => (input.to_vec(), reason),
    };
    Err(Failure {
        input,
        reason,
        runs,
    })
}

/// Cuts pieces out of `input`, ever smaller ones, as long as the target still panics.
fn shrink(target: &Target, mut input: Vec<u8>, mut reason: Reason) -> (Vec<u8>, Reason) {
    let mut runs = 0;
    let mut piece = input.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < input.len() && runs < SHRINK_RUNS {
            runs += 1;
            let mut smaller = input.clone();
            smaller.drain(at..(at + piece).min(input.len()));
            match once(target, &smaller) {
                Err(found @ Reason::Panic(_)) => (input, reason) = (smaller, found),
                Err(Reason::Slow(_)) | Ok(()) => at += piece,
            }
        }
        piece /= 2;
    }
    (input, reason)
}

fn once(target: &Target, input: &[u8]) -> Result<(), Reason> {
    let begun = Instant::now();
    let message = catch(|| (target.run)(input));
    let took = begun.elapsed();
    match message {
        Err(message) => Err(Reason::Panic(message)),
        Ok(()) if took > SLOW => Err(Reason::Slow(took)),
        Ok(()) => Ok(()),
    }
}

thread_local! {
    /// Where the hook leaves a caught panic's message; `None` while nothing is being caught.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `body`; a panic becomes its message and place instead of noise on the terminal.
fn catch(body: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let catching = CAUGHT.with_borrow_mut(|caught| {
                caught
                    .as_mut()
                    .map(|text| *text = info.to_string())
                    .is_some()
            });
            if !catching {
                before(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(body));
    let message = CAUGHT.take().unwrap_or_default();
    outcome.map_err(|_| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(run: fn(&[u8])) -> Target {
        Target {
            name: "planted",
            run,
            seeds: &[b"policy: 1\n", b"rules:\n  - allow: fs.read\n"],
            dictionary: &["deny", "!"],
            iterations: 1,
        }
    }

    fn breaks_on_deny_bang(input: &[u8]) {
        assert!(!input.windows(5).any(|part| part == b"deny!"), "planted");
    }

    #[test]
    fn finds_a_planted_bug_and_shrinks_its_input() {
        let target = planted(breaks_on_deny_bang);
        let failure = fuzz(&target, Budget::Iterations(50_000), 1).unwrap_err();
        assert_eq!(failure.input, b"deny!");
        let Reason::Panic(message) = &failure.reason else {
            panic!("{:?}", failure.reason)
        };
        assert!(
            message.contains("planted") && message.contains("driver.rs"),
            "{message}"
        );
        assert!(replay(&target, &failure.input).is_err());
        assert!(replay(&target, b"deny").is_ok());
    }

    #[test]
    fn the_same_seed_fails_at_the_same_input() {
        let target = planted(breaks_on_deny_bang);
        let run = |seed| fuzz(&target, Budget::Iterations(50_000), seed).unwrap_err();
        assert_eq!(run(5), run(5));
        assert_ne!(run(5).runs, run(6).runs);
    }

    #[test]
    fn seeds_run_unchanged_and_the_budget_is_exact() {
        let stats = fuzz(&planted(|_| {}), Budget::Iterations(10), 1).unwrap();
        assert_eq!(stats.runs, 2 + 10);
        let seed_breaks = planted(|input| assert_ne!(input, b"policy: 1\n"));
        assert_eq!(
            fuzz(&seed_breaks, Budget::Iterations(0), 1)
                .unwrap_err()
                .runs,
            1
        );
    }

    #[test]
    fn a_slow_input_is_a_failure() {
        let slow = planted(|_| std::thread::sleep(SLOW + Duration::from_millis(50)));
        let failure = fuzz(&slow, Budget::Iterations(1), 1).unwrap_err();
        assert!(matches!(failure.reason, Reason::Slow(took) if took > SLOW));
    }
}
