//! Decoders for single values. Each reports at the value's own place and guesses nothing.

use super::code;
use super::problems::{Problems, shown};
use super::shape::{is_null, wrong_type};
use super::tree::{Node, Value};
use super::words::Word;
use airlock_core::{ByteSize, IdError, PluginName, Span, TagName, UserId, WorkspaceId};
use airlock_core::{Digest, WorkspacePath};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Longest single-line text, in bytes.
const LINE: usize = 4_096;
/// Longest prose, in bytes.
const PROSE: usize = 2_000;
/// Largest compiled regular expression, in bytes.
const REGEX: usize = 512 * 1024;
/// Longest regular expression as written, in bytes.
const REGEX_TEXT: usize = 2_000;

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
    let (text, _) = scalar(node, wanted, problems)?;
    let what = if text.is_empty() {
        format!("expected {wanted}, found empty text")
    } else if text.len() > LINE {
        format!(
            "{wanted} of {} bytes is too long; the limit is {LINE}",
            text.len()
        )
    } else if text.contains(['\n', '\t']) {
        format!("{wanted} must be on one line, without tabs")
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

/// A whole number in decimal digits, within `least..=most`.
pub(crate) fn number<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&Node, &mut Problems) -> Option<T> {
    move |node, problems| {
        let (text, plain) = scalar(node, "a number", problems)?;
        let digits = plain
            && text.bytes().all(|b| b.is_ascii_digit())
            && (text.len() == 1 || !text.starts_with('0'));
        if digits
            && let Ok(value) = text.parse::<u64>()
            && (least..=most).contains(&value)
            && let Ok(value) = T::try_from(value)
        {
            return Some(value);
        }
        problems.error(
            code::NUMBER,
            node.spot,
            format!(
                "`{}` is not a whole number from {least} to {most}",
                shown(text)
            ),
            "write decimal digits, without quotes",
        );
        None
    }
}

/// Thousandths, written as a decimal number such as `0.5`.
pub(crate) fn thousandths(node: &Node, problems: &mut Problems) -> Option<u32> {
    let (text, plain) = scalar(node, "a number", problems)?;
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if plain && is_digits(whole, 4) && is_digits(part, 3) {
        let padded = format!("{whole}{part:0<3}");
        if let Some(value) = padded.parse::<u32>().ok().filter(|value| *value > 0) {
            return Some(value);
        }
    }
    problems.error(
        code::NUMBER,
        node.spot,
        format!(
            "`{}` is not a number above 0 with at most three decimals",
            shown(text)
        ),
        "write it like `0.5` or `2`, without quotes",
    );
    None
}

/// A size.
pub(crate) fn size(node: &Node, problems: &mut Problems) -> Option<ByteSize> {
    unit(
        node,
        "a size",
        "write a whole number and a unit, such as `100KiB`",
        problems,
    )
}

/// A length of time.
pub(crate) fn span(node: &Node, problems: &mut Problems) -> Option<Span> {
    unit(
        node,
        "a time",
        "write a whole number and a unit, such as `30s` or `5m`",
        problems,
    )
}

fn unit<T: FromStr<Err: std::fmt::Display>>(
    node: &Node,
    wanted: &str,
    fix: &str,
    problems: &mut Problems,
) -> Option<T> {
    let text = line(node, wanted, problems)?;
    text.parse()
        .map_err(|error: T::Err| problems.error(code::UNIT, node.spot, error.to_string(), fix))
        .ok()
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
    let text = line(node, "a path glob", problems)?;
    if let Err(error) = crate::glob::check(text) {
        problems.error(
            code::GLOB,
            node.spot,
            format!("`{}`: {error}", shown(text)),
            "write a glob relative to the workspace, such as `src/**` or `*.md`",
        );
        return None;
    }
    Some(Arc::from(text))
}

/// A capability pattern.
pub(crate) fn capability(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a capability", problems)?;
    if let Err(error) = crate::capability::Pattern::parse(text) {
        problems.error(
            code::CAPABILITY,
            node.spot,
            format!("`{}`: {error}", shown(text)),
            "write dotted segments, such as `sessions.read` or `filesystem.read./data/*`",
        );
        return None;
    }
    Some(Arc::from(text))
}

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

/// A host in lower case: a name, `*.` and a name, or an address.
pub(crate) fn host(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a host", problems)?;
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_prefix("*.").unwrap_or(&lower);
    if is_host_name(name) || lower.parse::<IpAddr>().is_ok() {
        return Some(Arc::from(lower));
    }
    let fix = if text == "*" {
        "name the hosts; every host at once cannot be granted"
    } else if text.contains("://") || text.contains('/') {
        "leave out scheme and path: only the host name"
    } else if text.contains(':') {
        "give the port in `port`"
    } else if !text.is_ascii() {
        "write the name in its `xn--` form"
    } else {
        "write a name such as `example.org`, or `*.example.org` for every name below it"
    };
    problems.error(
        code::HOST,
        node.spot,
        format!("`{}` is not a host", shown(text)),
        fix,
    );
    None
}

fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name that ends in a number would be read as an IPv4 address by resolvers.
    let numeric = |label: &str| {
        label.bytes().all(|b| b.is_ascii_digit())
            || (label.starts_with("0x") && label.bytes().skip(2).all(|b| b.is_ascii_hexdigit()))
    };
    text.len() <= 253 && text.split('.').all(label) && !text.rsplit('.').next().is_some_and(numeric)
}

/// An address, or a block of addresses such as `10.0.0.0/8`.
pub(crate) fn address(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "an address", problems)?;
    let (base, bits) = text
        .split_once('/')
        .map_or((text, None), |(base, bits)| (base, Some(bits)));
    let most = base
        .parse()
        .ok()
        .map(|base: IpAddr| if base.is_ipv4() { 32 } else { 128 });
    // A block of every address would undo the protection of the host's own network.
    let fits = |bits: &str| {
        bits.parse::<u8>()
            .ok()
            .is_some_and(|bits| (8..=most.unwrap_or(0)).contains(&bits))
    };
    if most.is_some() && bits.is_none_or(fits) {
        return Some(Arc::from(text));
    }
    problems.error(
        code::ADDRESS,
        node.spot,
        format!(
            "`{}` is not an address or a block of addresses",
            shown(text)
        ),
        "write `127.0.0.1`, or a block of `/8` or narrower such as `10.1.0.0/16`",
    );
    None
}

macro_rules! identifiers {
    ($($function:ident: $type:ident, $wanted:literal;)+) => {
        $(
            #[doc = concat!("The text of ", $wanted, ".")]
            pub(crate) fn $function(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
                let text = line(node, $wanted, problems)?;
                identifier(node, text, $type::new(text).err(), problems)
            }
        )+
    };
}

identifiers! {
    user: UserId, "a user";
    workspace: WorkspaceId, "a workspace";
    plugin: PluginName, "a plugin";
    tag: TagName, "a tag";
}

fn identifier(
    node: &Node,
    text: &str,
    error: Option<IdError>,
    problems: &mut Problems,
) -> Option<Arc<str>> {
    match error {
        None => Some(Arc::from(text)),
        Some(error) => {
            // "`x` is not a tag: use ...": what is wrong, then how to mend it.
            let full = error.to_string();
            let (what, fix) = full
                .rsplit_once(": ")
                .unwrap_or((&full, "write a plain name"));
            problems.error(code::IDENTIFIER, node.spot, shown(what), fix);
            None
        }
    }
}

/// The name of a rule, role, group, secret or extension.
pub(crate) fn name(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a name", problems)?;
    let body = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_./-".contains(&b);
    let first = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if text.len() <= 80 && text.bytes().all(body) && text.as_bytes().first().is_some_and(first) {
        return Some(Arc::from(text));
    }
    problems.error(
        code::NAME,
        node.spot,
        format!("`{}` is not a name", shown(text)),
        "use 1 to 80 of a-z, 0-9 and `_./-`, beginning with a letter or digit",
    );
    None
}

/// The name of a tool: `grep`, `fs.read`, `<plugin>.<tool>`.
pub(crate) fn tool(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a tool", problems)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if text.len() <= 128 && text.bytes().all(plain) && text.split('.').all(|part| !part.is_empty())
    {
        return Some(Arc::from(text));
    }
    problems.error(
        code::IDENTIFIER,
        node.spot,
        format!("`{}` is not a tool name", shown(text)),
        "write a tool such as `fs.read`, or `<plugin>.<tool>`; patterns are not taken",
    );
    None
}

/// The base name of a program.
pub(crate) fn program(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a program", problems)?;
    if !text.contains(['/', '\\', ' ', '*']) {
        return Some(Arc::from(text));
    }
    problems.error(
        code::IDENTIFIER,
        node.spot,
        format!("`{}` is not the base name of a program", shown(text)),
        "write only the name, such as `cargo`: no directories, arguments or patterns",
    );
    None
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
