//! Starts the kernel, asks it whether it lives, and starts it again after a crash.
//!
//! The standard library and nothing else. It opens no port, reads no message but the answer to a
//! ping, and passes nothing through a shell. Guarantee: when this process ends, however it ends, the
//! kernel's standard input closes, and the kernel, which was told to live until then, ends as well.
//! Non-guarantee: it does not judge settings; the kernel does that and says so itself.

mod config;
mod engine;
mod health;
mod supervise;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

const USAGE: &str = "usage: airlock-bootstrap [--config FILE]

Starts the kernel of a workspace, and starts it again when it crashes or stops answering, at most 3
times in 5 minutes. Settings are key=value lines of FILE and AIRLOCK_* variables, which win:";

/// Why there is no kernel (any more): a stable word, the exit code (1 failed, 2 usage, 5 not possible
/// here, 75 taken, as `airlock` has them), what happened, why, and how to mend it.
#[derive(Debug)]
struct Problem {
    code: &'static str,
    exit: u8,
    what: String,
    why: String,
    fix: &'static str,
}

impl Problem {
    /// A setting that cannot be used.
    fn config(what: impl Into<String>, fix: &'static str) -> Self {
        Self { code: "config", exit: 2, what: what.into(), why: String::new(), fix }
    }
}

#[expect(clippy::disallowed_methods, reason = "whatever starts this configures it by variables")]
fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let file = match arguments.as_slice() {
        [] => Ok(None),
        [option, file] if option == "--config" => Ok(Some(file.into())),
        [option] if option == "--help" || option == "-h" => {
            let _ = writeln!(io::stdout(), "{USAGE} {}", config::KEYS);
            return ExitCode::SUCCESS;
        }
        _ => Err(Problem::config("the arguments are not understood", config::HELP)),
    };
    let config = file.and_then(|file| config::gather(file, &|name| std::env::var_os(name)));
    let ended = config.and_then(|config| supervise::supervise(&config));
    let Err(Problem { code, exit, what, why, fix }) = ended else { return ExitCode::SUCCESS };
    tell(&[("error", code), ("what", &what), ("why", &why), ("fix", fix)]);
    ExitCode::from(exit)
}

/// A line of JSON for whoever watches this process. Nobody may; the kernel needs it all the same.
fn tell(fields: &[(&str, &str)]) {
    let field = |(name, value): &(&str, &str)| format!("{}:{}", quoted(name), quoted(value));
    let fields: Vec<String> = fields.iter().map(field).collect();
    let _ = writeln!(io::stderr(), "{{{}}}", fields.join(","));
}

fn quoted(text: &str) -> String {
    // Whatever reads this may be a terminal.
    let is_odd = |c: char| c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c);
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if is_odd(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_line_of_json() {
        for (text, want) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("line\nbreak\u{1b}[2J", r#""line\u000abreak\u001b[2J""#),
            ("\u{202e}txt", r#""\u202etxt""#),
        ] {
            assert_eq!(quoted(text), want);
        }
    }
}
