//! Rules on markup and commands, each with a matcher of its own.

use crate::base64;
use crate::class::{BASE64_ANY, Class, table};
use crate::kinds::Step;
use memchr::memmem;

/// How far the matchers look.
const NEAR: usize = 400;
/// How far back encoded text is followed.
const BACK: usize = 512;
/// How far ahead.
const AHEAD: usize = 2 * 1024;

/// What stands near `at`, and whether more of it may come.
fn near(text: &[u8], at: usize, last: bool) -> (&[u8], bool) {
    let rest = text.get(at..).unwrap_or_default();
    crate::work::spend(rest.len().min(NEAR));
    match rest.get(..NEAR) {
        Some(near) => (near, false),
        None => (rest, !last),
    }
}

/// The text up to `end`, if that is near; an answer if it is not.
fn up_to<'t>(text: &'t [u8], at: usize, end: &[u8], last: bool) -> Result<&'t [u8], Step> {
    let (near, more) = near(text, at, last);
    match memmem::find(near, end) {
        Some(found) => Ok(near.get(..found).unwrap_or_default()),
        None if more => Err(Step::More),
        None => Err(Step::No),
    }
}

/// The line from `at`; a long one is cut.
fn line(text: &[u8], at: usize, last: bool) -> Option<&[u8]> {
    let (near, more) = near(text, at, last);
    match memchr::memchr(b'\n', near) {
        Some(end) => near.get(..end),
        None if more => None,
        None => Some(near),
    }
}

fn has_any(text: &[u8], words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| memmem::find(text, word.as_bytes()).is_some())
}

/// Whether it turns to a model and wants something.
fn addresses_model(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&[u8]> = lower
        .split(|byte| !byte.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let has = |wanted: &[&str]| {
        words
            .iter()
            .any(|word| wanted.iter().any(|want| want.as_bytes() == *word))
    };
    let model = has(&[
        "ai",
        "llm",
        "llms",
        "assistant",
        "assistants",
        "claude",
        "gpt",
        "chatgpt",
        "copilot",
        "gemini",
        "agent",
        "agents",
    ]);
    let wish = should_do(&words)
        || has(&[
            "must",
            "ignore",
            "please",
            "instruction",
            "instructions",
            "execute",
            "run",
            "always",
            "never",
            "disregard",
        ]);
    model && wish
}

/// Whether somebody should do something, rather than something be done.
fn should_do(words: &[&[u8]]) -> bool {
    words
        .windows(2)
        .any(|pair| matches!(pair, [b"should", next] if next != b"be"))
}

/// A comment of HTML that speaks to a model.
pub(super) fn comment(text: &[u8], at: usize, last: bool) -> Step {
    let rest = text.get(at + 4..).unwrap_or_default();
    let near = rest.get(..NEAR).unwrap_or(rest);
    // Another that begins before this one ends is looked at by itself.
    let end = memmem::find_iter(near, b"--").find(|end| {
        near.get(end + 2) == Some(&b'>') || near.get(..*end).unwrap_or_default().ends_with(b"<!")
    });
    crate::work::spend(end.unwrap_or(near.len()));
    let Some(end) = end else {
        return if rest.len() < NEAR && !last {
            Step::More
        } else {
            Step::No
        };
    };
    let inner = near.get(..end).unwrap_or_default();
    if near.get(end + 2) == Some(&b'>') && addresses_model(inner) {
        Step::Found(at..at + 4 + inner.len() + 3)
    } else {
        Step::No
    }
}

/// A style that hides what follows, and what follows speaks to a model.
pub(super) fn style(text: &[u8], at: usize, last: bool) -> Step {
    let (near, more) = near(text, at, last);
    if near.len() < 24 && more {
        return Step::More;
    }
    let head: Vec<u8> = near
        .iter()
        .take(24)
        .filter(|byte| **byte != b' ')
        .map(u8::to_ascii_lowercase)
        .collect();
    let hides = [
        "font-size:0",
        "font-size:1px",
        "display:none",
        "visibility:hidden",
        "opacity:0",
        "color:white",
        "color:#fff",
        "color:transparent",
    ];
    if !hides.iter().any(|style| head.starts_with(style.as_bytes())) {
        return Step::No;
    }
    let Some(tag) = memchr::memchr(b'>', near) else {
        return if more { Step::More } else { Step::No };
    };
    let inner = near.get(tag + 1..).unwrap_or_default();
    let Some(end) = memmem::find(inner, b"</") else {
        return if more { Step::More } else { Step::No };
    };
    if addresses_model(inner.get(..end).unwrap_or_default()) {
        Step::Found(at..at + tag + 1 + end)
    } else {
        Step::No
    }
}

/// An image whose address has room for data: `![x](https://host/?data={...})`.
pub(super) fn image(text: &[u8], at: usize, last: bool) -> Step {
    const LABEL: usize = 128;
    let left = text.get(..at).unwrap_or_default();
    let label = left.iter().rev().take(LABEL).position(|byte| *byte == b'[');
    let Some(open) = label.map(|back| at - back - 1) else {
        return Step::No;
    };
    if open == 0 || text.get(open - 1) != Some(&b'!') {
        return Step::No;
    }
    let address = match up_to(text, at + 2, b")", last) {
        Ok(address) => address,
        Err(step) => return step,
    };
    let query = memchr::memchr(b'?', address).map(|mark| mark + 1);
    let query = query
        .and_then(|from| address.get(from..))
        .unwrap_or_default();
    let lower = query.to_ascii_lowercase();
    let wants = has_any(
        &lower,
        &[
            "{",
            "<",
            "$",
            "[",
            "data=",
            "secret=",
            "conversation",
            "history=",
            "prompt=",
            "leak",
            "exfil",
            "summary=",
            "context=",
        ],
    );
    let fetched = address.starts_with(b"http") || address.starts_with(b"//");
    if fetched && wants && !address.contains(&b'\n') {
        Step::Found(at..at + 2 + address.len() + 1)
    } else {
        Step::No
    }
}

/// A command that sends a file or the environment away.
pub(super) fn command(text: &[u8], at: usize, last: bool) -> Step {
    let left = text.get(..at).unwrap_or_default();
    if left.last().is_some_and(u8::is_ascii_alphanumeric) {
        return Step::No;
    }
    let Some(line) = line(text, at, last) else {
        return Step::More;
    };
    let network = memmem::find(line, b"http").is_some() || line.starts_with(b"| nc ");
    let sends = [
        "$(cat ",
        "`cat ",
        "$(env",
        "`env`",
        "$(printenv",
        "@~/.ssh",
        "@.env",
        "@/etc/",
        "@~/.aws",
        "id_rsa",
        "id_ed25519",
        ".aws/credentials",
        "@$HOME/.ssh",
        "/etc/shadow",
    ];
    if network && has_any(line, &sends) {
        Step::Found(at..at + line.len())
    } else {
        Step::No
    }
}

/// A tag that names a role; after a name it is a type's parameter.
pub(super) fn tag(text: &[u8], at: usize, _: bool) -> Step {
    let left = text.get(..at).unwrap_or_default();
    if left
        .last()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b':')
    {
        return Step::No;
    }
    let rest = text.get(at..).unwrap_or_default();
    let end = rest
        .iter()
        .take(24)
        .position(|byte| matches!(byte, b'>' | b':'));
    Step::Found(at..at + end.map_or(1, |end| end + 1))
}

/// A new turn of a conversation after an empty line.
pub(super) fn turn(text: &[u8], at: usize, _: bool) -> Step {
    let left = text.get(..at).unwrap_or_default();
    let begins = left.ends_with(b"\n\n") || left == b"\n" || left.is_empty();
    if begins {
        Step::Found(at..at + "Human:".len())
    } else {
        Step::No
    }
}

/// The marks that data is wrapped in.
pub(super) fn boundary(text: &[u8], at: usize, _: bool) -> Step {
    let left = text.get(..at).unwrap_or_default();
    let back = left.iter().rev().take(3).position(|byte| *byte == b'<');
    back.map_or(Step::No, |_| Step::Found(at..at + "airlock-data".len()))
}

/// Where the run of encoded text ends that `at` is in.
pub(super) fn encoded_end(text: &[u8], at: usize) -> usize {
    at + BASE64_ANY.run(text.get(at..).unwrap_or_default(), AHEAD)
}

/// Text in base64 that says what a phrase looks for.
pub(super) fn encoded(text: &[u8], at: usize, last: bool) -> Step {
    const ALPHABET: Class = {
        static TABLE: [bool; 256] = table("A-Za-z0-9+/_-");
        Class::new(&TABLE)
    };
    let left = text.get(..at).unwrap_or_default();
    let begin = at - ALPHABET.run_back(left, BACK);
    let end = encoded_end(text, at);
    if end == text.len() && end - at < AHEAD && !last {
        return Step::More;
    }
    // Cut off on the left, it may begin anywhere in a group.
    let says = (0..4).any(|skip| {
        let encoded = text.get(begin + skip..end).unwrap_or_default();
        super::says_any_phrase(&base64::decode(encoded))
    });
    if says { Step::Found(at..end) } else { Step::No }
}
