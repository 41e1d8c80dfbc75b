//! The seam to user scripts and modules, and the supervision of those behind it.
//!
//! An extension answers or fails; a failure is a denial. A crash is followed by one restart; a
//! second crash within thirty seconds, or a restart that fails, disables the extension, and every
//! decision that would ask it is a denial until it is reloaded. A timeout denies and counts no
//! further: the worker already ended the evaluation.
//!
//! Pure: the time comes from the caller, and running the worker is the extension's own affair.

use crate::decision::{Contribution, Contributions, Layer, Opinion};
use airlock_core::{Request, Span, Timestamp};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Two crashes closer together than this disable an extension.
const CRASH_WINDOW: Span = Span::from_secs(30);

/// What an extension says about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its opinion.
    pub opinion: Opinion,
    /// Why.
    pub reason: Arc<str>,
}

/// Why an extension gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionFailure {
    /// Its worker ended, or answered what is no answer.
    #[error("it crashed")]
    Crash,
    /// It did not answer in time.
    #[error("it did not answer in time")]
    Timeout,
}

/// A user script or module, run by a worker elsewhere.
pub trait Extension: Send + Sync {
    /// Its name, as the policy gives it.
    fn name(&self) -> &str;

    /// Asks it about `request`. Must return within its own time limit.
    fn evaluate(&self, request: &Request) -> Result<Answer, ExtensionFailure>;

    /// Starts its worker anew.
    fn restart(&self) -> Result<(), ExtensionFailure>;
}

/// The extension layer of an engine: every extension with its health.
#[derive(Default)]
pub struct ExtensionHost {
    supervised: Vec<Supervised>,
}

struct Supervised {
    extension: Box<dyn Extension>,
    name: Arc<str>,
    health: Mutex<Health>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Health {
    disabled: bool,
    last_crash: Option<Timestamp>,
    /// Counts restarts: calls that were under way when a worker died report one crash, not many.
    worker: u64,
}

impl fmt::Debug for ExtensionHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.supervised.iter().map(|one| &one.name))
            .finish()
    }
}

impl ExtensionHost {
    /// A host of these extensions, all of them running.
    pub fn new(extensions: impl IntoIterator<Item = Box<dyn Extension>>) -> Self {
        let supervise = |extension: Box<dyn Extension>| Supervised {
            name: extension.name().into(),
            extension,
            health: Mutex::new(Health::default()),
        };
        Self {
            supervised: extensions.into_iter().map(supervise).collect(),
        }
    }

    /// Restarts and enables every extension again. One that does not start stays disabled.
    pub fn reload(&self) {
        for one in &self.supervised {
            one.reload();
        }
    }

    /// The extensions that are disabled, by name.
    pub fn disabled(&self) -> impl Iterator<Item = &str> {
        let disabled = |one: &&Supervised| one.health().disabled;
        self.supervised
            .iter()
            .filter(disabled)
            .map(|one| &*one.name)
    }

    /// All of them, by name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.supervised.iter().map(|one| &one.name)
    }

    /// Adds the opinion of every extension, up to the first denial.
    pub(crate) fn evaluate(
        &self,
        request: &Request,
        now: Timestamp,
        contributions: &mut Contributions,
    ) {
        for one in &self.supervised {
            let answer = one.ask(request, now);
            let denied = answer.opinion == Opinion::Deny;
            contributions.push(Contribution {
                layer: Layer::Extension,
                rule: Arc::clone(&one.name),
                opinion: answer.opinion,
                reason: answer.reason,
            });
            if denied {
                return;
            }
        }
    }
}

impl Supervised {
    /// A poisoned lock means a panic while the health changed: it cannot be trusted any more.
    fn health(&self) -> Health {
        self.health.lock().map_or(
            Health {
                disabled: true,
                ..Health::default()
            },
            |health| *health,
        )
    }

    fn ask(&self, request: &Request, now: Timestamp) -> Answer {
        let before = self.health();
        if before.disabled {
            return self.denial("is disabled until it is reloaded");
        }
        match self.extension.evaluate(request) {
            Ok(answer) => answer,
            Err(ExtensionFailure::Timeout) => self.denial("did not answer in time"),
            Err(ExtensionFailure::Crash) => {
                self.crashed(before.worker, now);
                self.denial("crashed")
            }
        }
    }

    fn denial(&self, what: &str) -> Answer {
        Answer {
            opinion: Opinion::Deny,
            reason: format!("the extension `{}` {what}", self.name).into(),
        }
    }

    /// Restarts the worker, once for each that died, or gives the extension up. The lock is held
    /// meanwhile: whoever asks next waits for the worker instead of finding it dead.
    fn crashed(&self, worker: u64, now: Timestamp) {
        let Ok(mut health) = self.health.lock() else {
            return;
        };
        if health.disabled || health.worker != worker {
            return;
        }
        // A clock that went backwards counts as no time at all.
        let again = health
            .last_crash
            .is_some_and(|last| now <= last.plus(CRASH_WINDOW));
        health.last_crash = Some(now);
        health.worker += 1;
        health.disabled = again || self.extension.restart().is_err();
    }

    fn reload(&self) {
        let Ok(mut health) = self.health.lock() else {
            return;
        };
        *health = Health {
            disabled: self.extension.restart().is_err(),
            last_crash: None,
            worker: health.worker + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::{Caller, PluginName, Syscall, TenantId, Tier, UserId, WorkspaceId};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[derive(Default)]
    struct Counters {
        asked: AtomicU32,
        restarted: AtomicU32,
        unstartable: std::sync::atomic::AtomicBool,
    }

    struct Scripted {
        fails: fn(u32) -> Option<ExtensionFailure>,
        counters: Arc<Counters>,
    }

    impl Extension for Scripted {
        fn name(&self) -> &'static str {
            "scripted"
        }

        fn evaluate(&self, _: &Request) -> Result<Answer, ExtensionFailure> {
            let answer = Answer {
                opinion: Opinion::Allow,
                reason: "fine".into(),
            };
            let nth = self.counters.asked.fetch_add(1, SeqCst);
            (self.fails)(nth).map_or(Ok(answer), Err)
        }

        fn restart(&self) -> Result<(), ExtensionFailure> {
            self.counters.restarted.fetch_add(1, SeqCst);
            if self.counters.unstartable.load(SeqCst) {
                return Err(ExtensionFailure::Crash);
            }
            Ok(())
        }
    }

    fn host(fails: fn(u32) -> Option<ExtensionFailure>) -> (ExtensionHost, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        let scripted = Scripted {
            fails,
            counters: Arc::clone(&counters),
        };
        let boxed: Box<dyn Extension> = Box::new(scripted);
        (ExtensionHost::new([boxed]), counters)
    }

    fn request() -> Request {
        let caller = Caller {
            tenant: TenantId::new("local").unwrap(),
            user: UserId::new("local").unwrap(),
            workspace: WorkspaceId::new("local").unwrap(),
            session: None,
            plugin: PluginName::new("cli").unwrap(),
            tags: Vec::new(),
            peer: None,
            sandbox: None,
            mode: None,
            phase: None,
        };
        Request::new(Syscall::parse("fs.read").unwrap(), Tier::Process, caller)
    }

    fn ask(host: &ExtensionHost, seconds: i64) -> Opinion {
        let mut contributions = Contributions::new();
        let now = Timestamp::from_micros(seconds * 1_000_000);
        host.evaluate(&request(), now, &mut contributions);
        contributions[0].opinion
    }

    #[test]
    fn two_crashes_within_thirty_seconds_disable_until_reloaded() {
        let (host, counters) = host(|nth| (nth < 2).then_some(ExtensionFailure::Crash));
        assert_eq!(ask(&host, 100), Opinion::Deny);
        assert_eq!(counters.restarted.load(SeqCst), 1);
        assert_eq!(ask(&host, 130), Opinion::Deny);
        assert_eq!(counters.restarted.load(SeqCst), 1, "no second restart");
        assert_eq!(host.disabled().collect::<Vec<_>>(), ["scripted"]);
        assert_eq!(ask(&host, 10_000), Opinion::Deny);
        assert_eq!(
            counters.asked.load(SeqCst),
            2,
            "a disabled extension is not asked"
        );
        host.reload();
        assert_eq!(ask(&host, 10_001), Opinion::Allow);
    }

    #[test]
    fn crashes_further_apart_are_each_followed_by_a_restart() {
        let (host, counters) = host(|nth| (nth % 2 == 0).then_some(ExtensionFailure::Crash));
        for (second, want) in [(0, Opinion::Deny), (1, Opinion::Allow), (31, Opinion::Deny)] {
            assert_eq!(ask(&host, second), want, "{second}");
        }
        assert_eq!(ask(&host, 32), Opinion::Allow);
        assert_eq!(counters.restarted.load(SeqCst), 2);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_forgive_a_crash() {
        let (host, _) = host(|nth| (nth < 2).then_some(ExtensionFailure::Crash));
        ask(&host, 1_000);
        ask(&host, 0);
        assert_eq!(ask(&host, 2_000), Opinion::Deny);
    }

    #[test]
    fn a_timeout_denies_without_a_restart() {
        let (host, counters) = host(|nth| (nth < 3).then_some(ExtensionFailure::Timeout));
        for second in 0..3 {
            assert_eq!(ask(&host, second), Opinion::Deny);
        }
        assert_eq!(counters.restarted.load(SeqCst), 0);
        assert_eq!(ask(&host, 3), Opinion::Allow);
    }

    #[test]
    fn a_restart_that_fails_disables() {
        let (host, counters) = host(|nth| (nth == 0).then_some(ExtensionFailure::Crash));
        counters.unstartable.store(true, SeqCst);
        ask(&host, 0);
        assert_eq!(ask(&host, 1_000), Opinion::Deny);
        host.reload();
        assert_eq!(ask(&host, 1_001), Opinion::Deny, "it still does not start");
        counters.unstartable.store(false, SeqCst);
        host.reload();
        assert_eq!(ask(&host, 1_002), Opinion::Allow);
    }

    #[test]
    fn one_dead_worker_is_one_crash_however_many_calls_it_took_along() {
        let (host, counters) = host(|_| None);
        let one = &host.supervised[0];
        let worker = one.health().worker;
        one.crashed(worker, Timestamp::from_micros(0));
        one.crashed(worker, Timestamp::from_micros(1));
        assert_eq!(counters.restarted.load(SeqCst), 1);
        assert_eq!(ask(&host, 1), Opinion::Allow);
    }
}
