//! High-confidence secrets, replaced by placeholders that keep identity.
//!
//! A table of forms: a literal that every secret of the kind contains, found for all kinds at once,
//! and a regular expression that decides around it. The same value gets the same number, so a
//! reader can follow it without ever seeing it. Hashes, UUIDs and lock files have no such literal
//! and are left alone.

use aho_corasick::Span;
use aho_corasick::packed::Searcher;
use regex::Regex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// One kind of secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SecretKind {
    /// The word in the placeholder.
    name: &'static str,
    /// What every secret of this kind contains.
    literal: &'static str,
    /// The whole secret.
    pattern: &'static str,
}

const fn kind(name: &'static str, literal: &'static str, pattern: &'static str) -> SecretKind {
    SecretKind {
        name,
        literal,
        pattern,
    }
}

/// Kinds whose literals are prefixes of others' come after them: the longer one wins.
const KINDS: &[SecretKind] = &[
    kind("private-key", KEY_BEGIN, ""),
    kind(
        "github-token",
        "github_pat_",
        r"github_pat_[A-Za-z0-9_]{22,255}\b",
    ),
    kind("github-token", "ghp_", r"ghp_[A-Za-z0-9]{36,255}\b"),
    kind("github-token", "gho_", r"gho_[A-Za-z0-9]{36,255}\b"),
    kind("github-token", "ghu_", r"ghu_[A-Za-z0-9]{36,255}\b"),
    kind("github-token", "ghs_", r"ghs_[A-Za-z0-9]{36,255}\b"),
    kind("github-token", "ghr_", r"ghr_[A-Za-z0-9]{36,255}\b"),
    kind("gitlab-token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,64}\b"),
    kind("slack-token", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,255}\b"),
    kind("aws-access-key", "AKIA", r"\bAKIA[A-Z2-7]{16}\b"),
    kind("aws-access-key", "ASIA", r"\bASIA[A-Z2-7]{16}\b"),
    kind("google-api-key", "AIza", r"AIza[A-Za-z0-9_-]{35}\b"),
    kind("stripe-key", "k_live_", r"[rs]k_live_[A-Za-z0-9]{16,247}\b"),
    kind(
        "anthropic-key",
        "sk-ant-",
        r"sk-ant-[A-Za-z0-9_-]{20,255}\b",
    ),
    kind(
        "openai-key",
        "sk-",
        r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,255}\b",
    ),
    kind("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}\b"),
    kind("pypi-token", "pypi-", r"pypi-[A-Za-z0-9_-]{50,512}\b"),
    kind("crates-token", "cio", r"\bcio[A-Za-z0-9]{32}\b"),
    kind("huggingface-token", "hf_", r"\bhf_[A-Za-z0-9]{30,64}\b"),
    kind("digitalocean-token", "dop_v1_", r"dop_v1_[a-f0-9]{64}\b"),
    kind(
        "sendgrid-key",
        "SG.",
        r"\bSG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}\b",
    ),
    kind(
        "age-key",
        "AGE-SECRET-KEY-1",
        r"AGE-SECRET-KEY-1[A-Z0-9]{58}\b",
    ),
    kind(
        "jwt",
        "eyJ",
        r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    ),
    kind(
        "url-password",
        "://",
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@'\x22]{1,64}:[^\s/@'\x22$<{]{3,128}@",
    ),
];

/// No secret of any kind is shorter: that of a URL needs `aa://a:aaa@`.
pub(super) const SHORTEST: usize = 11;

/// What a private key block begins with.
const KEY_BEGIN: &str = "-----BEGIN ";
/// What it ends with.
const KEY_END: &str = "-----END ";
/// What its first and last line name.
const KEY_NAME: &str = "PRIVATE KEY";

/// Finds all literals in one pass, several bytes at a time.
static LITERALS: LazyLock<Option<Searcher>> =
    LazyLock::new(|| Searcher::new(KINDS.iter().map(|kind| kind.literal)));

/// A regular expression compiled when it is first needed.
type Pattern = LazyLock<Option<Regex>, Box<dyn Fn() -> Option<Regex> + Send>>;

/// Compiled on first need: most texts contain none of the literals.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    KINDS
        .iter()
        .map(|kind| {
            let compile: Box<dyn Fn() -> Option<Regex> + Send> =
                Box::new(move || Regex::new(kind.pattern).ok());
            LazyLock::new(compile)
        })
        .collect()
});

/// Replaces secrets, numbering each distinct value of a kind.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    numbers: HashMap<(&'static str, String), usize>,
    kinds: HashMap<&'static str, usize>,
    count: usize,
}

impl Redactor {
    /// A redactor that has seen nothing yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// How many secrets were replaced so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// `text` with every known form of secret replaced.
    pub(crate) fn redact<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if text.len() < SHORTEST {
            return Cow::Borrowed(text);
        }
        let mut found = find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_by_key(|hit| (hit.start, usize::MAX - hit.end));
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for hit in found {
            if hit.start < at {
                continue;
            }
            out.push_str(text.get(at..hit.start).unwrap_or_default());
            let value = text.get(hit.start..hit.end).unwrap_or_default();
            out.push_str(&self.placeholder(hit.kind, value));
            at = hit.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }

    fn placeholder(&mut self, kind: &'static str, value: &str) -> String {
        self.count += 1;
        let kinds = &mut self.kinds;
        let number = *self
            .numbers
            .entry((kind, value.to_owned()))
            .or_insert_with(|| {
                let next = kinds.entry(kind).or_insert(0);
                *next += 1;
                *next
            });
        format!("[secret:{kind}#{number}]")
    }
}

struct Hit {
    kind: &'static str,
    start: usize,
    end: usize,
}

/// Private key blocks, whole or cut off, in one pass however many headers there are.
fn private_keys(text: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut at = 0;
    let mut ends_ahead = true;
    while let Some((start, rest)) = next_from(text, at, KEY_BEGIN) {
        let header = rest.lines().next().unwrap_or_default();
        if !header.contains(KEY_NAME) {
            at = start + KEY_BEGIN.len();
            continue;
        }
        let end = ends_ahead
            .then(|| next_from(text, start, KEY_END))
            .flatten();
        let end = if let Some((end, tail)) = end {
            end + closing(tail)
        } else {
            // Cut off: what follows the header is key as long as it looks like one.
            ends_ahead = false;
            let body = rest.get(header.len()..).unwrap_or_default();
            start + header.len() + key_like(body)
        };
        hits.push(Hit {
            kind: "private-key",
            start,
            end,
        });
        at = end.max(start + KEY_BEGIN.len());
    }
    hits
}

/// Where `wanted` stands next, and the text from there.
fn next_from<'t>(text: &'t str, at: usize, wanted: &str) -> Option<(usize, &'t str)> {
    let start = at + text.get(at..)?.find(wanted)?;
    Some((start, text.get(start..)?))
}

/// The length of the last line of a key, dashes included, of which `text` begins.
fn closing(text: &str) -> usize {
    let line = text.lines().next().unwrap_or_default();
    let dashes = line
        .get(KEY_END.len()..)
        .and_then(|rest| rest.find("-----"));
    dashes.map_or(line.len(), |at| KEY_END.len() + at + 5)
}

/// How many bytes at the beginning can belong to the body of a key.
fn key_like(text: &str) -> usize {
    let body =
        |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "+/=:,-".contains(c);
    text.find(|c: char| !body(c)).unwrap_or(text.len())
}

/// Which kinds the text may hold. Without a searcher for the literals, it may hold any.
fn present(text: &str) -> [bool; KINDS.len()] {
    let Some(literals) = LITERALS.as_ref() else {
        return [true; KINDS.len()];
    };
    let mut present = [false; KINDS.len()];
    let mut at = 0;
    // One past each start, so that a literal cannot hide in the tail of another.
    while let Some(hit) = literals.find_in(text, Span::from(at..text.len())) {
        if let Some(seen) = present.get_mut(hit.pattern().as_usize()) {
            *seen = true;
        }
        at = hit.start() + 1;
    }
    present
}

fn find(text: &str) -> Vec<Hit> {
    let present = present(text);
    let mut hits = Vec::new();
    if !present.contains(&true) {
        return hits;
    }
    for ((kind, pattern), _) in KINDS
        .iter()
        .zip(PATTERNS.iter())
        .zip(present)
        .filter(|(_, present)| *present)
    {
        if kind.literal == KEY_BEGIN {
            hits.extend(private_keys(text));
            continue;
        }
        let Some(pattern) = pattern.as_ref() else {
            continue;
        };
        hits.extend(pattern.find_iter(text).map(|m| Hit {
            kind: kind.name,
            start: m.start(),
            end: m.end(),
        }));
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Built at run time, so that no scanner mistakes this file for a leak.
    fn samples() -> Vec<(&'static str, String)> {
        let body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
        vec![
            ("github-token", format!("ghp_{body}")),
            ("github-token", format!("github_pat_{body}")),
            ("gitlab-token", format!("glpat-{}", "a1B2c3D4e5F6g7H8i9J0")),
            ("slack-token", format!("xoxb-{body}")),
            ("aws-access-key", format!("AKIA{}", "ABCDEFGHIJKLMNOP")),
            (
                "google-api-key",
                format!("AIza{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R"),
            ),
            ("stripe-key", format!("sk_live_{body}")),
            ("anthropic-key", format!("sk-ant-api03-{body}")),
            ("openai-key", format!("sk-proj-{body}")),
            ("npm-token", format!("npm_{body}")),
            ("pypi-token", format!("pypi-{body}{body}")),
            ("huggingface-token", format!("hf_{body}")),
            ("digitalocean-token", format!("dop_v1_{}", "0a".repeat(32))),
            ("jwt", format!("eyJ{body}.eyJ{body}.{body}")),
            (
                "private-key",
                format!(
                    "-----BEGIN {0} PRIVATE KEY-----\n{body}\n-----END {0} PRIVATE KEY-----",
                    "EC"
                ),
            ),
        ]
    }

    #[test]
    fn every_pattern_compiles_and_every_sample_is_caught_whole() {
        assert!(LITERALS.is_some() && PATTERNS.iter().all(|pattern| pattern.is_some()));
        for (kind, secret) in samples() {
            let text = format!("token = \"{secret}\" # end");
            let out = Redactor::new().redact(&text).into_owned();
            assert_eq!(
                out,
                format!("token = \"[secret:{kind}#1]\" # end"),
                "{secret}"
            );
        }
    }

    #[test]
    fn the_shortest_secret_of_every_kind_is_long_enough_to_be_looked_at() {
        let shortest = |kind: &SecretKind| {
            if kind.literal == KEY_BEGIN {
                return KEY_BEGIN.len() + KEY_NAME.len();
            }
            let parsed = regex_syntax::parse(kind.pattern).unwrap();
            parsed.properties().minimum_len().unwrap()
        };
        assert_eq!(KINDS.iter().map(shortest).min(), Some(SHORTEST));
    }

    #[test]
    fn a_literal_does_not_hide_in_the_tail_of_another() {
        let key = format!(
            "sk-----BEGIN {0} KEY-----\nMIIE\n-----END {0} KEY-----",
            "PRIVATE"
        );
        assert_eq!(Redactor::new().redact(&key), "sk[secret:private-key#1]");
    }

    #[test]
    fn a_truncated_private_key_is_still_hidden() {
        let text = format!(
            "-----BEGIN {} PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w",
            "RSA"
        );
        assert_eq!(Redactor::new().redact(&text), "[secret:private-key#1]");
    }

    #[test]
    fn passwords_in_urls_go_and_the_host_stays() {
        let out = Redactor::new()
            .redact("postgres://app:hunter22@db/x")
            .into_owned();
        assert_eq!(out, "[secret:url-password#1]db/x");
    }

    #[test]
    fn the_same_value_keeps_its_number() {
        let (a, b) = (
            format!("ghp_{}", "a".repeat(36)),
            format!("ghp_{}", "b".repeat(36)),
        );
        let mut redactor = Redactor::new();
        let out = redactor.redact(&format!("{a} {b} {a}")).into_owned();
        assert_eq!(
            out,
            "[secret:github-token#1] [secret:github-token#2] [secret:github-token#1]"
        );
        assert_eq!(redactor.count(), 3);
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "checksum = \"0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9\"",
            "0192f3a4-7c1e-7000-8000-000000000000",
            "https://example.org/a:b@c",
            "let sk = sk - 1; ghost_in_the_shell();",
            "-----BEGIN CERTIFICATE-----",
            "git@github.com:org/repo.git",
            "http://user:${PASSWORD}@host",
        ] {
            assert_eq!(Redactor::new().redact(text), text, "{text}");
        }
    }
}
