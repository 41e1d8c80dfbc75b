//! Decoders for single values. Each reports at the value's own place and guesses nothing.

use super::code;
use super::problems::{Problems, brief, is_blurred, shown};
use super::shape::{is_null, wrong_type};
use super::tree::{Node, Value};
use super::words::Word;
use airlock_core::{Digest, WorkspacePath};
use std::sync::Arc;

/// Longest single-line text, in bytes.
const LINE: usize = 4_096;
/// Longest prose, in bytes.
const PROSE: usize = 2_000;

/// The text of a scalar and whether it stood bare; `wanted` completes "expected".
pub(crate) fn scalar<'a>(
    node: &'a Node,
    wanted: &str,
    problems: &mut Problems,
) -> Option<(&'a str, bool)> {
    match &node.value {
        Value::Scalar { text, plain } if !(*plain && is_null(text)) => Some((text, *plain)),
        Value::Scalar { .. } => {
            wrong_type(node, wanted, "give a value, or remove the field", problems);
            None
        }
        Value::Sequence(_) | Value::Mapping(_) | Value::Broken => {
            wrong_type(node, wanted, "write a single value here", problems);
            None
        }
    }
}

/// Text on one line, not empty.
pub(crate) fn line<'a>(node: &'a Node, wanted: &str, problems: &mut Problems) -> Option<&'a str> {
    let text = line_or_empty(node, wanted, problems)?;
    if !text.is_empty() {
        return Some(text);
    }
    let what = format!("expected {wanted}, found empty text");
    problems.error(
        code::TEXT,
        node.spot,
        what,
        "write a short text on one line",
    );
    None
}

/// Text on one line, for values whose own check knows what is wrong with an empty one.
fn line_or_empty<'a>(node: &'a Node, wanted: &str, problems: &mut Problems) -> Option<&'a str> {
    let (text, _) = scalar(node, wanted, problems)?;
    let what = if text.len() > LINE {
        format!(
            "{wanted} of {} bytes is too long; the limit is {LINE}",
            text.len()
        )
    } else if text.contains(['\n', '\t']) {
        format!("{wanted} must be on one line, without tabs")
    } else if let Some(c) = text.chars().find(|c| is_blurred(*c)) {
        let what = format!("{wanted} holds U+{:04X}, which nobody sees", u32::from(c));
        let fix = "remove it; a space is the plain one";
        problems.error(code::HIDDEN_CHARACTER, node.spot, what, fix);
        return None;
    } else {
        return Some(text);
    };
    problems.error(
        code::TEXT,
        node.spot,
        what,
        "write a short text on one line",
    );
    None
}

/// Free text for people.
pub(crate) fn prose(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let (text, _) = scalar(node, "a sentence", problems)?;
    let text = text.trim();
    if text.is_empty() || text.len() > PROSE {
        let what = format!("the text must have 1 to {PROSE} bytes, not {}", text.len());
        problems.error(code::TEXT, node.spot, what, "say it in a sentence or two");
        return None;
    }
    Some(Arc::from(text))
}

/// `true` or `false`, bare.
pub(crate) fn boolean(node: &Node, problems: &mut Problems) -> Option<bool> {
    match scalar(node, "`true` or `false`", problems)? {
        ("true", true) => Some(true),
        ("false", true) => Some(false),
        (text, plain) => {
            let fix = match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "y" | "true" if plain => "write `true`",
                "no" | "off" | "n" | "false" if plain => "write `false`",
                _ => "write `true` or `false`, without quotes",
            };
            wrong_type(node, "`true` or `false`", fix, problems);
            None
        }
    }
}

/// A word of a closed list.
pub(crate) fn word<T: Word>(node: &Node, problems: &mut Problems) -> Option<T> {
    let text = line(node, &format!("a {}", T::KIND), problems)?;
    let found = T::find(text);
    if found.is_none() {
        problems.unknown(code::UNKNOWN_WORD, node.spot, (T::KIND, text), T::WORDS);
    }
    found
}

/// A path glob.
pub(crate) fn glob(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line_or_empty(node, "a path glob", problems)?;
    if let Err(error) = crate::glob::check(text) {
        problems.error(
            code::GLOB,
            node.spot,
            brief(&error.to_string()),
            error.hint(),
        );
        return None;
    }
    Some(Arc::from(text))
}

/// A capability pattern. One in the home is kept and warned of: it grants nothing, and only grants
/// are written in a policy.
pub(crate) fn capability(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line_or_empty(node, "a capability", problems)?;
    match crate::capability::Pattern::parse(text) {
        Ok(pattern) if pattern.is_of_home() => problems.warning(
            code::NO_EFFECT,
            node.spot,
            format!(
                "`{}` matches nothing: `~` is not expanded in a policy",
                shown(text)
            ),
            "write the absolute path of the home instead of `~`",
        ),
        Ok(_) => {}
        Err(error) => {
            problems.error(
                code::CAPABILITY,
                node.spot,
                brief(&error.to_string()),
                error.hint(),
            );
            return None;
        }
    }
    Some(Arc::from(text))
}

/// A path inside the workspace, normalised.
pub(crate) fn workspace_path(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a path", problems)?;
    match WorkspacePath::new(text) {
        Ok(path) => Some(Arc::from(path.as_str())),
        Err(error) => {
            let fix = "write a path relative to the workspace root";
            problems.error(code::PATH, node.spot, error.to_string(), fix);
            None
        }
    }
}

/// A SHA-256 digest in hexadecimal digits.
pub(crate) fn digest(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a digest", problems)?;
    if text.parse::<Digest>().is_ok() {
        return Some(Arc::from(text));
    }
    problems.error(
        code::DIGEST,
        node.spot,
        format!("`{}` is not a SHA-256 digest", shown(text)),
        "write 64 hexadecimal digits",
    );
    None
}
