//! Waiting awake: whoever expects something in a moment looks for it again and again before they
//! sleep.
//!
//! Being woken costs more than most calls do where an idle processor sleeps deeply, as in a virtual
//! machine. Only whoever's last wait was a short one stays awake, so a connection that is used now and
//! then burns nothing, and one whose calls take long burns one [`MOMENT`] and then no more. Whoever
//! else has use for the processor is let to it; where that happens often, nobody stays awake.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What counts as a short wait, and how long somebody stays awake at most.
const MOMENT: Duration = Duration::from_micros(500);
/// A look that took longer was somebody else's time.
const LOOK: Duration = Duration::from_micros(60);
/// How many waits such a look counts for...
const CROWDED: u32 = 8;
/// ...and over how many of them nobody stays awake.
const MOST: u32 = 24;

/// The waits of one end of a connection.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    /// Whether the last wait was a short one.
    expects: bool,
    /// For how many waits to come the processor counts as wanted by others.
    crowded: u32,
}

impl Awake {
    /// Waits by `sleep` for something to read from `stream`, awake for a moment where that is likely
    /// to be enough.
    pub(crate) fn until<T>(&mut self, stream: impl AsFd, sleep: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        // What is there already is nothing to wait for, nor to ask about processors for.
        let watched = if self.watches() && !is_readable(&stream) && has_company() {
            watch(stream, begun)
        } else {
            Watched::Alone
        };
        let slept = sleep();
        self.learn(begun.elapsed(), watched);
        slept
    }

    const fn watches(&self) -> bool {
        self.expects && self.crowded <= MOST
    }

    /// A wait took `time`.
    fn learn(&mut self, time: Duration, watched: Watched) {
        self.expects = time < MOMENT;
        self.crowded = match watched {
            Watched::Alone => self.crowded.saturating_sub(1),
            Watched::Crowded => self.crowded + CROWDED,
        };
    }
}

/// Whether others had use for the processor meanwhile.
#[derive(Debug, Clone, Copy)]
enum Watched {
    Alone,
    Crowded,
}

/// Looks until something is there, a moment has passed since `begun`, or somebody else needs the
/// processor.
fn watch(stream: impl AsFd, begun: Instant) -> Watched {
    let mut looked = begun;
    while !is_readable(&stream) {
        std::thread::yield_now();
        let now = Instant::now();
        if now - looked > LOOK {
            return Watched::Crowded;
        }
        if now - begun > MOMENT {
            break;
        }
        looked = now;
    }
    Watched::Alone
}

/// Whether the other end has a processor while this one is kept busy.
fn has_company() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    *SEVERAL.get_or_init(|| {
        std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1)
    })
}

/// Whether there is something to read now, or nobody can say.
fn is_readable(stream: impl AsFd) -> bool {
    const AT_ONCE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&AT_ONCE)) != Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    const SHORT: Duration = Duration::from_micros(10);

    #[test]
    fn only_after_a_short_wait_does_anybody_stay_awake() {
        let mut awake = Awake::default();
        assert!(!awake.watches(), "nothing is expected at first");
        awake.learn(SHORT, Watched::Alone);
        assert!(awake.watches());
        awake.learn(MOMENT, Watched::Alone);
        assert!(!awake.watches());
    }

    #[test]
    fn whoever_is_often_in_the_way_sleeps_until_that_is_long_ago() {
        let mut awake = Awake::default();
        awake.learn(SHORT, Watched::Alone);
        let mut looks = 0;
        while awake.watches() {
            awake.learn(SHORT, Watched::Crowded);
            looks += 1;
        }
        assert_eq!(looks, MOST / CROWDED + 1);
        let mut waits = 0;
        while !awake.watches() {
            awake.learn(SHORT, Watched::Alone);
            waits += 1;
        }
        assert_eq!(waits, CROWDED);
        // Now and then is no reason to sleep.
        for _ in 0..1000 {
            awake.learn(SHORT, Watched::Crowded);
            (0..CROWDED).for_each(|_| awake.learn(SHORT, Watched::Alone));
            assert!(awake.watches());
        }
    }

    #[test]
    fn what_is_there_or_gone_is_seen_awake_and_the_rest_asleep() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        assert!(!is_readable(&here));
        // Nothing is there while somebody stays awake: what comes then comes to a sleeper.
        let mut awake = Awake {
            expects: true,
            crowded: 0,
        };
        let mut byte = [0];
        let read = awake.until(&here, || {
            there.write_all(b"x").unwrap();
            (&here).read(&mut byte)
        });
        assert_eq!((read.unwrap(), byte), (1, *b"x"));
        there.write_all(b"y").unwrap();
        assert!(is_readable(&here));
        here.read_exact(&mut byte).unwrap();
        drop(there);
        assert!(is_readable(&here), "the end is something to read");
    }
}
