//! Builds the matchers of a search, within bounds, and says where a pattern is wrong.

use super::super::contract::InvalidArguments;
use super::GrepArguments;
use super::wide::{has_one, widened};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;

const PATTERN_BYTES: usize = 16 * 1024;
/// Bounds on the compiled form, so that a few characters cannot cost gigabytes.
const COMPILED_BYTES: usize = 8 * 1024 * 1024;
const CACHE_BYTES: usize = 32 * 1024 * 1024;
const NESTING: u32 = 100;

/// Matches every line.
const EVERYTHING: &str = "(?:)";

/// What is looked for.
#[derive(Debug, Clone)]
pub(super) struct Matchers {
    /// The pattern.
    pub(super) exact: RegexMatcher,
    /// The wide pattern, if it is another one.
    pub(super) wide: Option<RegexMatcher>,
}

/// Compiles the pattern.
pub(super) fn build(arguments: &GrepArguments) -> Result<Matchers, InvalidArguments> {
    let pattern = &arguments.pattern;
    if pattern.is_empty() {
        return Err(invalid(
            "the pattern is empty".to_owned(),
            "`search.glob` lists files",
        ));
    }
    if pattern.len() > PATTERN_BYTES {
        let what = format!("the pattern is longer than {PATTERN_BYTES} bytes");
        return Err(invalid(what, "search for a distinctive part of it"));
    }
    let exact = builder()
        .case_insensitive(arguments.ignore_case)
        .fixed_strings(arguments.fixed)
        .word(arguments.word)
        .build(pattern)
        .map_err(|error| explain(&error, pattern))?;
    let wide = wide(arguments)?;
    Ok(Matchers { exact, wide })
}

fn builder() -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(true)
        .octal(false)
        .line_terminator(Some(b'\n'))
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .nest_limit(NESTING);
    builder
}

/// The wide pattern; one that cannot be built is the widest.
fn wide(arguments: &GrepArguments) -> Result<Option<RegexMatcher>, InvalidArguments> {
    let pattern = arguments.pattern.as_str();
    let mut builder = builder();
    let built = if arguments.fixed {
        if !arguments.word && !has_one(pattern.as_bytes()) {
            return Ok(None);
        }
        builder
            .case_insensitive(arguments.ignore_case)
            .fixed_strings(true);
        (!has_one(pattern.as_bytes())).then(|| builder.build(pattern).ok())
    } else {
        match parsed(arguments).map(|parsed| (widened(&parsed), parsed)) {
            Some((None, _)) if !arguments.word => return Ok(None),
            Some((wide, parsed)) => {
                let text = wide.unwrap_or(parsed).to_string();
                Some(builder.build(&text).ok())
            }
            None => None,
        }
    };
    let everything = || builder.fixed_strings(false).build(EVERYTHING);
    let built = built.flatten().map_or_else(everything, Ok);
    built.map(Some).map_err(|error| explain(&error, pattern))
}

fn parsed(arguments: &GrepArguments) -> Option<Hir> {
    let mut parser = ParserBuilder::new();
    parser
        .utf8(false)
        .multi_line(true)
        .case_insensitive(arguments.ignore_case)
        .nest_limit(NESTING);
    parser.build().parse(&arguments.pattern).ok()
}

fn invalid(what: String, fix: &str) -> InvalidArguments {
    InvalidArguments {
        at: "pattern".to_owned(),
        what,
        fix: Some(fix.to_owned()),
    }
}

fn explain(error: &grep_regex::Error, pattern: &str) -> InvalidArguments {
    if let grep_regex::ErrorKind::Regex(text) = error.kind() {
        return invalid(
            in_one_line(&syntax_error(pattern).unwrap_or_else(|| text.clone())),
            "write `\\` before a character meant as itself, or set `fixed`",
        );
    }
    invalid(
        error.to_string(),
        "a pattern matches within one line: leave line ends out",
    )
}

/// The search crate wraps the pattern before parsing it, so that places in its errors are off.
fn syntax_error(pattern: &str) -> Option<String> {
    let parsed = regex::RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES)
        .nest_limit(NESTING)
        .build();
    match parsed {
        Err(regex::Error::Syntax(text)) => Some(text),
        Ok(_) | Err(_) => None,
    }
}

/// A parse error comes as a drawing: the pattern, a caret beneath, `error: ...`. The column is
/// where the caret stands.
fn in_one_line(text: &str) -> String {
    let Some(what) = text.lines().find_map(|line| line.strip_prefix("error: ")) else {
        return text.chars().take(300).collect();
    };
    let caret = text.lines().find_map(|line| {
        let column = line.find('^')?;
        line.trim_matches([' ', '^']).is_empty().then_some(column)
    });
    match caret {
        // The drawing is indented by four.
        Some(column) => format!("{what}, at character {}", column.saturating_sub(4) + 1),
        None => what.to_owned(),
    }
}
