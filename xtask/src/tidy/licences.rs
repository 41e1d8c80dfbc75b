//! Licences, bans and sources of dependencies, by the lists of `deny.toml`.
//!
//! Reads the same file as cargo-deny, so that neither has to be installed for the other's sake.
//! Advisories need a database and stay with cargo-deny.

use super::tree::{Finding, Tree, missing};
use crate::manifest::{entries, quoted, value};

const CONFIGURATION: &str = "deny.toml";
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// `packages` has a line `name v1.2.3|licence|` for each.
pub(super) fn check(tree: &Tree, packages: &str) -> Vec<Finding> {
    let Some(file) = tree.get(CONFIGURATION) else {
        return vec![missing(CONFIGURATION, "list the licences allowed")];
    };
    let configuration = entries(&file.text);
    let allowed = quoted(value(&configuration, "licenses", "allow").unwrap_or_default());
    let mut findings: Vec<Finding> = unlicensed(packages, &allowed)
        .into_iter()
        .map(|(package, licence)| {
            let what = format!("`{package}` is under `{licence}`, which is not allowed");
            file.finding(1, what, "take another crate, or allow the licence")
        })
        .collect();
    let banned = banned_names(value(&configuration, "bans", "deny").unwrap_or_default());
    let Some(lock) = tree.get("Cargo.lock") else {
        findings.push(missing("Cargo.lock", "commit it"));
        return findings;
    };
    for entry in entries(&lock.text)
        .iter()
        .filter(|entry| entry.section == "package")
    {
        let text = entry.value.trim_matches('"');
        if entry.key == "name" && banned.contains(&text) {
            let what = format!("`{text}` is banned");
            findings.push(lock.finding(entry.line, what, "deny.toml says why"));
        }
        if entry.key == "source" && text != SOURCE {
            let what = format!("a dependency from `{text}`");
            findings.push(lock.finding(entry.line, what, "take it from crates.io"));
        }
    }
    findings
}

fn unlicensed<'a>(packages: &'a str, allowed: &[&str]) -> Vec<(&'a str, &'a str)> {
    let mut found: Vec<(&str, &str)> = packages
        .lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(package, rest)| (package, rest.split('|').next().unwrap_or_default()))
        .filter(|(_, licence)| !satisfied(licence, allowed))
        .map(|(package, licence)| (package.split(" (").next().unwrap_or(package), licence))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The crates of `[{ crate = "name", ... }, ...]`.
fn banned_names(value: &str) -> Vec<&str> {
    let after = value.split("crate = \"").skip(1);
    after.filter_map(|rest| rest.split('"').next()).collect()
}

/// Whether a licence expression can be met from the `allowed` licences alone. What cannot be read
/// cannot be met.
fn satisfied(expression: &str, allowed: &[&str]) -> bool {
    // `MIT/Apache-2.0` is how choices were written before there was a standard.
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader {
        words: &words,
        allowed,
    };
    reader.any() == Some(true) && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    fn takes(&mut self, word: &str) -> bool {
        let there = self.words.first() == Some(&word);
        if there {
            self.next();
        }
        there
    }

    /// `all OR all ...`
    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.takes("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    /// `one AND one ...`
    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.takes("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    /// A licence, maybe with an exception, or an expression in parentheses.
    fn one(&mut self) -> Option<bool> {
        let word = self.next()?;
        if word == "(" {
            let met = self.any()?;
            return self.takes(")").then_some(met);
        }
        if matches!(word, ")" | "AND" | "OR" | "WITH") {
            return None;
        }
        if self.takes("WITH") {
            let whole = format!("{word} WITH {}", self.next()?);
            return Some(self.allowed.contains(&whole.as_str()));
        }
        Some(self.allowed.contains(&word))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::tree;
    use super::*;

    const DENY: &str = "[licenses]\nallow = [\n    \"MIT\", # the usual\n    \"Zlib\",\n]\n\
        [bans]\ndeny = [\n    { crate = \"openssl\", reason = \"not \\u0027crate\\u0027\" },\n]\n";

    #[test]
    fn an_expression_is_met_from_the_allowed_or_refused() {
        for (expression, want) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Zlib", true),
            ("MIT OR GPL-3.0 AND Zlib", true),
            ("(MIT OR Zlib) AND GPL-3.0", false),
            ("MIT WITH Classpath-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT)", false),
            ("MIT Zlib", false),
            ("OR MIT", false),
        ] {
            assert_eq!(
                satisfied(expression, &["MIT", "Zlib"]),
                want,
                "{expression:?}"
            );
        }
    }

    fn found(lock: &str, packages: &str) -> Vec<String> {
        let tree = tree(&[("deny.toml", DENY), ("Cargo.lock", lock)]);
        check(&tree, packages)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn each_package_needs_an_allowed_licence() {
        assert!(found("", "a v1.0.0|MIT|\nb v2.0.0 (proc-macro)|Zlib OR X| (*)\n").is_empty());
        let bad = found("", "a v1.0.0|GPL-3.0|\na v1.0.0|GPL-3.0| (*)\nb v1.0.0||\n");
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(
            bad.iter()
                .any(|text| text.contains("`a v1.0.0` is under `GPL-3.0`")),
            "{bad:?}"
        );
    }

    #[test]
    fn banned_crates_and_foreign_sources_are_found_in_the_lock_file() {
        let good = format!("[[package]]\nname = \"serde\"\nsource = \"{SOURCE}\"\n");
        assert!(found(&good, "").is_empty());
        let bad = "[[package]]\nname = \"openssl\"\nsource = \"git+https://example.org/x\"\n";
        let bad = found(bad, "");
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(
            bad.iter()
                .any(|text| text.starts_with("Cargo.lock:2: `openssl`")),
            "{bad:?}"
        );
        assert!(
            bad.iter().any(|text| text.starts_with("Cargo.lock:3: ")),
            "{bad:?}"
        );
    }

    #[test]
    fn without_lists_nothing_passes() {
        assert_eq!(check(&tree(&[]), "a v1.0.0|MIT|\n").len(), 1);
    }
}
