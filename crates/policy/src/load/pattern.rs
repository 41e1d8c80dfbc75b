//! Decoder for regular expressions: compiled once here, within fixed limits, so that a policy in
//! force holds none that would fail or grow.

use super::code;
use super::problems::{Problems, shown};
use super::scalar::line;
use super::tree::Node;
use std::sync::Arc;

/// Largest compiled regular expression, in bytes.
const REGEX: usize = 512 * 1024;
/// Longest regular expression as written, in bytes.
const REGEX_TEXT: usize = 2_000;

/// A regular expression that compiles within its limits.
pub(crate) fn regex(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a regular expression", problems)?;
    if !problems.another_pattern() {
        problems.error(
            code::TOO_MANY_PATTERNS,
            node.spot,
            "the file holds more regular expressions than the limit",
            "join some with `|`, or use `one_of`",
        );
        return None;
    }
    let built = if text.len() > REGEX_TEXT {
        Err(format!("it is longer than {REGEX_TEXT} bytes"))
    } else {
        // Alone first: `a)|(b` must not pass by pairing with the brackets around it.
        compile(text).and_then(|()| compile(&format!("^(?:{text})$")))
    };
    match built {
        Ok(()) => Some(Arc::from(text)),
        Err(reason) => {
            problems.error(
                code::REGEX,
                node.spot,
                format!(
                    "`{}` is not a usable regular expression: {reason}",
                    shown(text)
                ),
                "mend or shorten it; look-around and back-references do not exist here",
            );
            None
        }
    }
}

fn compile(pattern: &str) -> Result<(), String> {
    regex::RegexBuilder::new(pattern)
        .size_limit(REGEX)
        .nest_limit(50)
        .build()
        .map(|_| ())
        .map_err(|error| regex_reason(&error))
}

fn regex_reason(error: &regex::Error) -> String {
    if matches!(error, regex::Error::CompiledTooBig(_)) {
        return "it needs too much memory".to_owned();
    }
    // The last line of the parser's drawing is the reason itself.
    let text = error.to_string();
    let last = text.lines().last().unwrap_or("it does not parse");
    shown(last.trim_start_matches("error: "))
}
