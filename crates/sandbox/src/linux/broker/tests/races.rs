//! Races: what is judged is what is opened, whatever changes meanwhile.

use super::{Scenario, run};
use crate::linux::sys::notify::open_shared;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("flipping", flipping),
    ("swapping", swapping),
    ("exchanging", exchanging),
    ("threads", threads),
    ("signals", signals),
];

/// One thread changes the name in memory while the other opens it.
fn flipping(directory: &Path) {
    // As long as the denied name, so that only these bytes change.
    fs::write(directory.join("public.txt"), "public").unwrap();
    let path = directory.join("public.txt");
    let bytes = path.as_os_str().as_bytes().iter().chain(&[0]);
    let shared: Vec<AtomicU8> = bytes.map(|byte| AtomicU8::new(*byte)).collect();
    let start = shared.len() - 1 - "public.txt".len();
    let (done, flips) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for name in ["secret", "public"] {
                    for (place, byte) in shared[start..].iter().zip(name.bytes()) {
                        place.store(byte, Ordering::Relaxed);
                    }
                    flips.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        while read + refused < 4_000 || flips.load(Ordering::Relaxed) < 100_000 {
            match open_shared(&shared) {
                Ok(file) => {
                    let mut content = String::new();
                    File::from(file).read_to_string(&mut content).unwrap();
                    assert_eq!(content, "public");
                    read += 1;
                }
                Err(Errno::ACCESS) => refused += 1,
                Err(error) => assert_eq!(error, Errno::NOENT),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(read > 0 && refused > 0, "{read} {refused}");
}

/// One thread changes where a link leads while the other opens it.
fn swapping(directory: &Path) {
    let link = directory.join("swapped");
    symlink("plain.txt", &link).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let new = directory.join("new");
            while !done.load(Ordering::Relaxed) {
                for target in ["secret.txt", "plain.txt", "chain-1/key"] {
                    symlink(target, &new).unwrap();
                    fs::rename(&new, &link).unwrap();
                }
            }
        });
        for _ in 0..2_000 {
            match fs::read_to_string(&link) {
                Ok(content) => assert_eq!(content, "plain"),
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EACCES)),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Directories trade places while files are made in them: none ends up under a denied name.
fn exchanging(directory: &Path) {
    let (moving, done) = (directory.join("moving"), AtomicBool::new(false));
    fs::create_dir(moving.join("b")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (from, to) in [("c", "b"), ("b", "c"), ("c", "e"), ("e", "c")] {
                    drop(fs::rename(moving.join(from), moving.join(to)));
                    drop(fs::remove_dir(moving.join("b")));
                    drop(fs::write(moving.join("b"), "x"));
                    drop(fs::rename(moving.join("b"), moving.join("f")));
                }
            }
        });
        for _ in 0..2_000 {
            for name in ["b", "c", "e"] {
                drop(fs::write(moving.join(name).join("key"), "made"));
            }
            assert!(!moving.join("b/key").exists());
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn threads(directory: &Path) {
    for number in 0..16 {
        fs::write(directory.join(number.to_string()), number.to_string()).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for turn in 0..5_000 {
                    let number = ((thread * 7 + turn) % 16).to_string();
                    let content = fs::read_to_string(directory.join(&number));
                    assert_eq!(content.unwrap(), number);
                }
            });
        }
    });
}

/// Signals all the time, as Go's scheduler sends them.
fn signals(directory: &Path) {
    let path = directory.join("plain.txt");
    let script = "import signal,sys,os\n\
        hits=[0]\n\
        def hit(*_): hits[0]+=1\n\
        signal.signal(signal.SIGALRM,hit)\n\
        signal.setitimer(signal.ITIMER_REAL,0.0005,0.0005)\n\
        for _ in range(5000):\n    assert open(sys.argv[1]).read()=='plain'\n\
        signal.setitimer(signal.ITIMER_REAL,0)\n\
        assert hits[0]>10\n";
    super::programs::succeed(
        "python3",
        &["-c", script, path.to_str().unwrap()],
        directory,
    );
}

#[test]
fn a_name_changed_in_memory_never_opens_what_is_denied() {
    run("flipping");
}

#[test]
fn a_link_swapped_meanwhile_never_opens_what_is_denied() {
    run("swapping");
}

#[test]
fn directories_trading_places_put_nothing_under_a_denied_name() {
    run("exchanging");
}

#[test]
fn threads_get_the_file_each_asked_for() {
    run("threads");
}

#[test]
fn signals_do_not_keep_a_call_from_its_answer() {
    run("signals");
}
