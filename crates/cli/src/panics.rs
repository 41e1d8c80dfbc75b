//! What is said when this program has a bug: cleaned like everything else it says.
//!
//! A panic quotes what it met, which may be a secret, or a terminal sequence of somebody's choosing.

use airlock_kernel::sanitise_line;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;
use std::panic::PanicHookInfo;

/// As much as is said of what a panic met, in characters.
const CHARS: usize = 500;

/// Has every panic from now on told through the sanitiser.
pub(crate) fn clean() {
    std::panic::set_hook(Box::new(|panic| {
        let mut text = told(said(panic), panic.location().map(ToString::to_string));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            // Names of our own code, and no values.
            text = format!("{text}\n{trace}");
        }
        // With nowhere to say it, it is not said.
        let _ = writeln!(std::io::stderr(), "{text}");
    }));
}

/// Has every panic from now on told by its place alone, where there is no sanitiser for what it met.
pub(crate) fn withhold() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let place = place.unwrap_or_else(|| "an unknown place".to_owned());
        // With nowhere to say it, it is not said.
        let _ = writeln!(
            std::io::stderr(),
            "error: this is a bug in airlock, at {place}"
        );
    }));
}

fn said<'a>(panic: &'a PanicHookInfo<'_>) -> &'a str {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no reason given")
}

fn told(said: &str, place: Option<String>) -> String {
    let place = place.unwrap_or_else(|| "an unknown place".to_owned());
    format!(
        "error: this is a bug in airlock, at {place}: {}",
        sanitise_line(said, CHARS)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_secret_nor_a_terminal_sequence_comes_out_of_a_panic() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let met = format!("cannot parse {token} \u{1b}]0;owned\u{7}\nerror: all is well");
        let text = told(&met, Some("src/lib.rs:1:1".to_owned()));
        assert!(!text.contains(&token), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\n']), "{text:?}");
        assert!(text.contains("src/lib.rs:1:1") && text.contains("[secret:github-token#1]"));
        assert!(told(&"x".repeat(1 << 20), None).len() < 2_000);
    }
}
