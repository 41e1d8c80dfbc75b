//! Decoder for regular expressions: compiled once here, within fixed limits, so that a policy in
//! force holds none that would fail or grow.

use super::code;
use super::problems::{Problems, shown};
use super::scalar::line;
use super::tree::Node;
use std::sync::Arc;

/// Largest compiled regular expression, in bytes.
const LARGEST: usize = 512 * 1024;
/// What an ordinary one takes at most; a larger one counts as [`LARGEST`].
const ORDINARY: usize = 64 * 1024;
/// Longest regular expression as written, in bytes.
const REGEX_TEXT: usize = 2_000;

/// A regular expression that compiles within its limits.
pub(crate) fn regex(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a regular expression", problems)?;
    if !problems.room_for_pattern(ORDINARY) {
        return too_many(node, problems);
    }
    let built = if text.len() > REGEX_TEXT {
        Err(format!("it is longer than {REGEX_TEXT} bytes"))
    } else {
        // Alone first: `a)|(b` must not pass by pairing with the brackets around it.
        let whole = format!("^(?:{text})$");
        let both = |limit| compile(text, limit).and_then(|()| compile(&whole, limit));
        both(ORDINARY).map(|()| true).or_else(|_| {
            // Compiling costs time as it costs memory: no room left, nothing compiled.
            let room = problems.room_for_pattern(LARGEST - ORDINARY);
            if room {
                both(LARGEST).map(|()| true)
            } else {
                Ok(false)
            }
        })
    };
    match built {
        Ok(true) => Some(Arc::from(text)),
        Ok(false) => too_many(node, problems),
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

/// A regular expression for a secret: one that also matches nothing would stand everywhere.
pub(crate) fn secret_pattern(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = regex(node, problems)?;
    let matches_nothing = regex::RegexBuilder::new(&text)
        .size_limit(LARGEST)
        .build()
        .is_ok_and(|regex| regex.is_match(""));
    if !matches_nothing {
        return Some(text);
    }
    problems.error(
        code::REGEX,
        node.spot,
        format!("`{}` also matches an empty text", shown(&text)),
        "use `+` where it has `*`, or a minimum such as `{16,}`",
    );
    None
}

fn too_many(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    problems.error(
        code::TOO_MANY_PATTERNS,
        node.spot,
        "the regular expressions of the file need more memory than the limit",
        "use fewer or smaller ones: `one_of`, or ASCII classes such as `[a-z]`",
    );
    None
}

fn compile(pattern: &str, limit: usize) -> Result<(), String> {
    regex::RegexBuilder::new(pattern)
        .size_limit(limit)
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
