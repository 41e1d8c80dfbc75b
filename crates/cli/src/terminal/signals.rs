//! Signals the person sends while a command runs: passed on to it, and the second one ends it. A
//! hangup is not for a command that was to outlive it (`nohup`).

use super::raw::size;
use airlock_kernel::Steering;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;

/// What is known of the command and of what was sent to it.
#[derive(Default)]
struct Shared {
    steering: OnceLock<Arc<dyn Steering>>,
    /// The last signal that asked it to end.
    last: AtomicI32,
    /// How many there were.
    count: AtomicU32,
}

/// Watches for signals until dropped.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    handle: Handle,
    /// Those that came, until somebody attends to them.
    signals: Mutex<Option<Signals>>,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn begin() -> io::Result<Self> {
        let watch = Self::from_afar()?;
        watch.attend()?;
        Ok(watch)
    }

    /// Keeps the person's signals from ending this process. They wait until they are attended to: a
    /// command that is over before that needs no thread for them.
    pub(crate) fn from_afar() -> io::Result<Self> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGWINCH])?;
        Ok(Self {
            shared: Arc::default(),
            handle: signals.handle(),
            signals: Mutex::new(Some(signals)),
        })
    }

    /// Passes on what came, and what comes from now on.
    pub(crate) fn attend(&self) -> io::Result<()> {
        let waiting = self.signals.lock();
        let Some(mut signals) = waiting.unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        if !ignored_from_the_start(SIGHUP) {
            signals.add_signal(SIGHUP)?;
        }
        let own = Arc::clone(&self.shared);
        let thread = Builder::new().name("signals".to_owned());
        let thread = thread.spawn(move || {
            for signal in signals.forever() {
                own.take(signal);
            }
        });
        thread.map(drop)
    }

    /// The command can be steered from now on.
    pub(crate) fn started(&self, steering: Arc<dyn Steering>) {
        let steering = self.shared.steering.get_or_init(|| steering);
        // Whoever gave up before it began does not want it to begin.
        if self.shared.count.load(Ordering::SeqCst) > 0 {
            steering.cancel();
        }
    }

    /// What ends the command from another thread.
    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// The last signal that asked the command to end.
    pub(crate) fn last(&self) -> Option<u8> {
        u8::try_from(self.shared.last.load(Ordering::SeqCst))
            .ok()
            .filter(|number| *number > 0)
    }
}

/// Whether who started this program had it ignore `signal`, as far as the system tells.
fn ignored_from_the_start(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let set = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    let place = u32::try_from(signal - 1).ok();
    let bit = place.and_then(|place| 1_u64.checked_shl(place));
    set.zip(bit).is_some_and(|(set, bit)| set & bit != 0)
}

/// Ends the command that is being watched.
pub(crate) struct Stopper(Arc<Shared>);

impl Stopper {
    pub(crate) fn stop(&self) {
        if let Some(steering) = self.0.steering.get() {
            steering.cancel();
        }
    }
}

impl Shared {
    fn take(&self, signal: i32) {
        if signal == SIGWINCH {
            if let (Some(steering), Some(size)) = (self.steering.get(), size()) {
                steering.resize(size);
            }
            return;
        }
        self.last.store(signal, Ordering::SeqCst);
        let before = self.count.fetch_add(1, Ordering::SeqCst);
        let Some(steering) = self.steering.get() else {
            return;
        };
        match u8::try_from(signal) {
            // Asked once, a command may clean up; asked twice, it ends.
            Ok(number) if before == 0 => steering.signal(number),
            Ok(_) | Err(_) => steering.cancel(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Its thread ends by that. It only counts signals: nobody has to wait for it.
        self.handle.close();
    }
}
