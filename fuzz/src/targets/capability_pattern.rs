//! Capability patterns: shown text reads back, no pattern matches what is malformed, covering
//! means matching more, and a compiled set is neither more nor less than its patterns.
//!
//! The input is a list of texts, one a line; each is tried as a pattern and as a capability.

use super::{Target, text};
use airlock_core::limits;
use airlock_policy::capability::{Capability, CapabilitySet, Pattern};

pub(super) const TARGET: Target = Target {
    name: "capability_pattern",
    run,
    seeds: &[
        b"fs.read./srv/project/src\nfs.read./srv/project/**\nfs.read./srv/*\nfs.*\n*",
        b"net.http.example.org\nnet.*\nnet.http.*\nnet.*.org\nnet.http.*.org",
        b"secret.deploy-key\nsecret.*\nsecret.deploy-*\nsecret.*key",
        b"fs.write.~\nfs.write.~/a\nfs.write.~/*\nfs.write.~/**/a\nfs.write.~root/a",
        b"fs.write./\nfs.write./*\nfs.write./**\nfs.write./a/**/b/**/c\nfs.write./a/*/c",
        b"a.*.b.*.c\na.x.b.y.c\na.x.y.b.c\na.*.c\na.b.*.c",
        b"a**b\n*.*\n**\n*a*b*\nxaxbx\na.\n.a\na..b\na b\n{a,b}\n!a",
        b"fs.read./a/../b\nfs.read./a//b\nfs.read./a/.\nfs.read./*.rs\nfs.read./lib.rs",
        b"*aaaaaaaaaaaaaaaaaaaa*a*a*a*a*a*a*b\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ],
    dictionary: &[
        "*", "**", ".", "..", "/", "~", "~/", "/**/", "/*/", ".*.", "*.*", "fs.read", "exec",
        "net.http", "\n", "\n*\n", "?", "{a,b}", "!", "\u{e9}", "\u{2024}", " ",
    ],
    iterations: 600,
};

/// More would only make each run slower: every text is held against every other.
const TEXTS: usize = 12;

fn run(input: &[u8]) {
    let input = text(input);
    let texts: Vec<&str> = input.split('\n').take(TEXTS).collect();
    let patterns: Vec<Pattern> = texts.iter().filter_map(|text| parsed(text)).collect();
    let instances: Vec<String> = patterns.iter().flat_map(instances).collect();
    let asked: Vec<&str> = texts
        .iter()
        .copied()
        .chain(instances.iter().map(String::as_str))
        .collect();
    for pattern in &patterns {
        matches(pattern, &asked);
        covers(pattern, &patterns, &asked);
    }
    set(&patterns, &asked);
}

fn parsed(text: &str) -> Option<Pattern> {
    let pattern = Pattern::parse(text).ok()?;
    assert_eq!(pattern.as_str(), text, "a pattern was rewritten");
    assert_eq!(
        Pattern::parse(&pattern.to_string()).as_ref(),
        Ok(&pattern),
        "{text:?} does not read back"
    );
    assert!(
        Capability::parse(text).is_ok() && text.len() <= limits::CAPABILITY_BYTES,
        "{text:?} has no shape"
    );
    Some(pattern)
}

/// Capabilities made of a pattern by putting plain text in place of its wildcards.
fn instances(pattern: &Pattern) -> Vec<String> {
    ["x", "x.y", "x/y", "a"]
        .iter()
        .map(|filler| pattern.as_str().replace("**", filler).replace('*', filler))
        .collect()
}

fn matches(pattern: &Pattern, asked: &[&str]) {
    let literal = !pattern.as_str().contains('*');
    for text in asked {
        let matched = pattern.matches(text);
        let Ok(capability) = Capability::parse(text) else {
            assert!(!matched, "{pattern} matches the malformed {text:?}");
            continue;
        };
        assert_eq!(
            matched,
            pattern.matches_parsed(&capability),
            "{pattern} {text:?}"
        );
        assert!(
            !literal || matched == (*text == pattern.as_str()),
            "{pattern} has no wildcard, and {text:?}: {matched}"
        );
    }
}

fn covers(pattern: &Pattern, patterns: &[Pattern], asked: &[&str]) {
    assert!(pattern.covers(pattern), "{pattern} does not cover itself");
    for other in patterns.iter().filter(|other| pattern.covers(other)) {
        for text in asked.iter().filter(|text| other.matches(text)) {
            assert!(
                pattern.matches(text),
                "{pattern} covers {other} but not {text:?}"
            );
        }
    }
}

fn set(patterns: &[Pattern], asked: &[&str]) {
    let set = CapabilitySet::compile(patterns.to_vec());
    let reversed = CapabilitySet::compile(patterns.iter().rev().cloned());
    assert_eq!(set.patterns(), patterns);
    for text in asked {
        let any = patterns.iter().any(|pattern| pattern.matches(text));
        assert_eq!(set.contains(text), any, "{set:?} {text:?}");
        assert_eq!(reversed.contains(text), any, "{reversed:?} {text:?}");
        assert!(!CapabilitySet::empty().contains(text), "{text:?}");
    }
}
