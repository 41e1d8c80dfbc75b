//! Ctrl-C in the middle of the demo: nothing is left behind.
//!
//! What runs in a sandbox ends with this process, and cannot put anything where the directory was.
//! Non-guarantee: a process that is killed outright takes nothing away; the next start of the
//! machine does, where its temporary directory is one.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long it is tried while programs still write there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whoever watches, for as long as the demo runs.
pub(super) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// Does not come back if somebody wanted an end: what went wrong after that went wrong because
    /// of it, and the process ends at once.
    pub(super) fn give_way(&self) {
        while self.0.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

/// Takes `directory` away and ends the process when somebody wants an end.
pub(super) fn watch(directory: &Path) -> Result<Watch, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::unwatched)?;
    let directory = directory.to_owned();
    let called = Arc::new(AtomicBool::new(false));
    // Noted by the handler itself: a program that the same Ctrl-C ended is not told of before.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&called)).map_err(Failure::unwatched)?;
    }
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            leave(&directory, signal);
        }
    });
    Ok(Watch(called))
}

#[expect(
    clippy::exit,
    reason = "the rest of the demo is under way in other threads, and is given up"
)]
fn leave(directory: &Path, signal: i32) -> ! {
    let told = if take_away(directory) {
        "interrupted; nothing is left behind".to_owned()
    } else {
        format!("interrupted; what is left is in {}", directory.display())
    };
    // The terminal may be gone, and nobody there to be told.
    let _ = writeln!(std::io::stderr(), "\n{told}");
    std::process::exit(128 + signal)
}

/// Whether `directory` is gone. It is moved first: whoever still writes by its name finds nothing.
fn take_away(directory: &Path) -> bool {
    let mut aside = directory.as_os_str().to_owned();
    aside.push(".gone");
    let aside = PathBuf::from(aside);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let _ = fs::rename(directory, &aside);
        for place in [&aside, directory] {
            open_up(place);
            let _ = fs::remove_dir_all(place);
        }
        if !aside.exists() && !directory.exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Opens directories that nobody may enter, as overlays leave them.
pub(super) fn open_up(directory: &Path) {
    let is_directory = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
    if !is_directory {
        return;
    }
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_gone_whatever_is_in_it_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        fs::set_permissions(&kept, Permissions::from_mode(0o750)).unwrap();
        let demo = place.path().join("demo");
        let closed = demo.join("work/work");
        fs::create_dir_all(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, demo.join("link")).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        assert!(take_away(&demo));
        let left: Vec<_> = fs::read_dir(place.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let mode = fs::metadata(&kept).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, kept.join("file").exists()), (0o750, true));
        assert!(take_away(&demo), "what is gone is gone");
    }
}
