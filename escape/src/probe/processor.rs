//! Taking more of the processor than a share of it.
//!
//! An attack counts as gone off once it has used so much more than the share of the time that passed
//! as no supervisor that looks now and then can have missed.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{Fault, Try, nothing};
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Entry] = &[("bomb-processor", busy), ("bomb-processor-woken", woken)];

/// How many compute at once: enough to have their part of a machine that is busy.
const WORKERS: u32 = 4;

/// What may be used, and how much more counts.
struct Share {
    /// Thousandths of a processor.
    cpus: u32,
    excess: Duration,
    until: Instant,
    begun: Instant,
}

impl Share {
    fn of(arguments: &Arguments) -> Self {
        let begun = Instant::now();
        Self {
            cpus: arguments.number("cpus") as u32,
            excess: Duration::from_millis(arguments.number("excess")),
            until: begun + Duration::from_millis(arguments.number("millis")),
            begun,
        }
    }

    fn is_exceeded(&self, used: Duration) -> bool {
        used > self.begun.elapsed() * self.cpus / 1_000 + self.excess
    }

    /// Waits until enough was used.
    fn wait(&self) -> Try {
        while Instant::now() < self.until {
            thread::sleep(Duration::from_millis(20));
            let used = used();
            if self.is_exceeded(used) {
                let passed = self.begun.elapsed();
                return Ok(format!("{used:?} of the processor in {passed:?}"));
            }
        }
        nothing("ITS-SHARE")
    }
}

/// What all threads of this process have used.
fn used() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes a `timespec` to where it is told, and zeroes are one.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Threads that compute for ever.
fn compute() -> Try<()> {
    for _ in 0..WORKERS {
        thread::Builder::new().spawn(|| {
            let mut turns = 0_u64;
            loop {
                turns = std::hint::black_box(turns.wrapping_add(1));
            }
        })?;
    }
    Ok(())
}

fn busy(arguments: &Arguments, attempt: &mut Attempt) {
    attempt.route("threads", || {
        compute()?;
        Share::of(arguments).wait()
    });
}

extern "C" fn ignore(_: libc::c_int) {}

/// Timers continue whoever was stopped: nobody has to run for it. A stop takes back the signals that
/// are under way, so one timer is easily lost.
fn woken(arguments: &Arguments, attempt: &mut Attempt) {
    const TIMERS: u64 = 16;
    attempt.route("timers that continue", || {
        for number in 0..TIMERS {
            continue_every(Duration::from_micros(500 + 90 * number))?;
        }
        compute()?;
        Share::of(arguments).wait()
    });
}

fn continue_every(interval: Duration) -> Try<()> {
    let interval = libc::timespec {
        tv_sec: interval.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(interval.subsec_nanos() as i32),
    };
    let always = libc::itimerspec {
        it_interval: interval,
        it_value: interval,
    };
    // SAFETY: zeroes are a `sigevent`; all that is pointed at outlives the calls; the handler does
    // nothing, which every signal handler may. Without one the kernel would drop the signal.
    let made = unsafe {
        libc::signal(libc::SIGCONT, ignore as *const () as libc::sighandler_t);
        let mut event = MaybeUninit::<libc::sigevent>::zeroed().assume_init();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGCONT;
        let mut timer = MaybeUninit::<libc::timer_t>::zeroed().assume_init();
        libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0
            && libc::timer_settime(timer, 0, &raw const always, std::ptr::null_mut()) == 0
    };
    if made {
        Ok(())
    } else {
        Err(Fault::from(std::io::Error::last_os_error()))
    }
}
