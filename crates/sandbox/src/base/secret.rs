//! Whether a settings file mentions a secret.
//!
//! Errs on the side of a secret: a word such as `token` in a setting is enough, and what cannot be
//! read, is no regular file or is too large for settings counts as one.

use crate::looked;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Settings are never this large.
const LARGEST: u64 = 1 << 20;

/// Words that name a secret, in lower case.
const WORDS: [&str; 12] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "_auth",
    "authorization",
    "api_key",
    "apikey",
    "private_key",
    "privatekey",
];

/// Whether the file at `path` mentions a secret, or cannot be read to find out.
pub(crate) fn file_holds_secret(path: &Path) -> bool {
    looked::whole(path);
    // Asked of the name first: opening a pipe would wait for a writer.
    let regular = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    if !regular {
        return true;
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
    match read {
        Ok(length) if (length as u64) < LARGEST => has_secret(&bytes),
        Ok(_) | Err(_) => true,
    }
}

/// Whether settings mention a secret outside of comments.
fn has_secret(bytes: &[u8]) -> bool {
    let text = without_xml_comments(&String::from_utf8_lossy(bytes).to_lowercase());
    text.lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with(['#', ';']))
        .any(|line| WORDS.iter().any(|word| line.contains(word)) || has_login(line))
}

/// Whether an address has a user before its host: `https://user:word@host`.
fn has_login(line: &str) -> bool {
    line.split("://").skip(1).any(|rest| {
        let ends = |c: char| matches!(c, '/' | '?') || c.is_whitespace();
        let word = rest.split(ends).next().unwrap_or_default();
        word.contains('@') && !word.starts_with("git@")
    })
}

fn without_xml_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        // A comment without an end hides nothing: what follows may be read by someone.
        let Some((_, after)) = comment.split_once("-->") else {
            break;
        };
        kept.push_str(before);
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_with_a_secret_are_told_from_those_without() {
        for (text, want) in [
            ("", false),
            ("cafile=/etc/ssl/certs/ca.crt\n", false),
            ("//registry.npmjs.org/:_authToken=npm_x", true),
            ("; token = x\n# password = y\nfund=false", false),
            ("[registries.own]\nToken = \"x\"", true),
            ("index-url = https://u:p@host/simple", true),
            ("index-url = https://host/simple/a@b", false),
            ("url = ssh://git@host/repo", false),
            ("<!-- <password>x</password> --><a/>", false),
            ("<a/><!-- x --><password>x</password>", true),
            ("<!-- <password>x</password>", true),
        ] {
            assert_eq!(has_secret(text.as_bytes()), want, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_counts_as_a_secret() {
        let directory = tempfile::tempdir().unwrap();
        assert!(file_holds_secret(directory.path()));
        assert!(file_holds_secret(&directory.path().join("absent")));
        let large = directory.path().join("large");
        std::fs::write(&large, vec![b'a'; 1 << 20]).unwrap();
        assert!(file_holds_secret(&large));
    }
}
