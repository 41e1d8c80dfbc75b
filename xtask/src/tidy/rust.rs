//! What Rust files must not contain, and how long they may be.

use super::source::{Rust, has_word};
use super::tree::{File, Finding, Tree, numbered};

/// Longest file without its tests. The aim is half of that.
const MAX_LINES: usize = 800;

/// What must not stand in code, and what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "write it, or leave it out"),
    ("unimplemented!", "write it, or leave it out"),
    ("dbg!", "remove it"),
    ("#[ignore", "mend the test or remove it"),
    (
        "unsafe",
        "only the sandbox's `linux/sys` may; find the safe way",
    ),
];

/// Where raw system calls are made, in the launcher and in the probe that plays the attacker; where
/// compiled Wasm is taken back from the disk; and where a Wasm plugin's memory meets its host, the
/// macro that exports a plugin included.
const RAW: &[&str] = &[
    "crates/sandbox/src/linux/sys/",
    "escape/src/probe/",
    "crates/wasm-worker/src/engine/trusted.rs",
    "crates/sdk/src/wasm/",
];

/// Sources of crates that do no I/O and have no clock.
const PURE: &[&str] = &["crates/core/src/", "crates/policy/src/"];

/// What pure code must not name. Modules of `std` are also found in a grouped `use`. Of
/// `std::net` only what opens or asks: an address is plain data.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "TcpListener",
    "TcpStream",
    "ToSocketAddrs",
    "UdpSocket",
    "SystemTime",
    "Instant",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.files.iter();
    files
        .filter_map(|file| file.rust.as_ref().map(|rust| (file, rust)))
        .flat_map(|(file, rust)| {
            let mut findings = too_long(file);
            findings.extend(banned(file, rust));
            findings.extend(impure(file, rust));
            findings
        })
        .collect()
}

fn too_long(file: &File) -> Vec<Finding> {
    let whole = file.text.lines().count();
    let tests = file
        .rust
        .as_ref()
        .map_or(usize::MAX, |rust| rust.tests_from);
    let lines = whole.min(tests - 1);
    if lines <= MAX_LINES {
        return Vec::new();
    }
    let what = format!("{lines} lines without tests, more than {MAX_LINES}");
    vec![file.finding(MAX_LINES + 1, what, "split it by purpose")]
}

fn banned(file: &File, rust: &Rust) -> Vec<Finding> {
    let mut findings = Vec::new();
    let raw = RAW.iter().any(|prefix| file.path.starts_with(prefix));
    for (number, line) in numbered(&rust.code) {
        for (banned, fix) in BANNED {
            if raw && *banned == "unsafe" {
                continue;
            }
            let there = if banned.ends_with(char::is_alphabetic) && !banned.starts_with('#') {
                has_word(line, banned)
            } else {
                line.contains(banned)
            };
            if there {
                findings.push(file.finding(number, format!("`{banned}` in code"), *fix));
            }
        }
    }
    findings
}

fn impure(file: &File, rust: &Rust) -> Vec<Finding> {
    if !PURE.iter().any(|prefix| file.path.starts_with(prefix)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut grouped = false;
    for (number, line) in numbered(&rust.code) {
        if number >= file.tests_from() {
            break;
        }
        grouped |= line.contains("std::{");
        for name in IMPURE {
            let module = name.strip_prefix("std::").unwrap_or(name);
            if has_word(line, name) || (grouped && has_word(line, module)) {
                let what = format!("`{name}` in a pure crate");
                findings.push(file.finding(number, what, "let the caller bring it as a value"));
            }
        }
        grouped &= !line.contains(';');
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::assert_finds;
    use super::*;

    #[test]
    fn banned_words_count_in_code_only() {
        let good = "//! Never `unsafe`, no todo!\nconst A: &str = \"dbg!(1) unsafe #[ignore]\";\n";
        assert_finds(check, &[("a.rs", good)], &[]);
        let bad = "fn a() { todo!() }\nfn b() { dbg!(1); }\n#[ignore = \"x\"]\nunsafe fn c() {}\n";
        let want = [
            "a.rs:1: `todo!`",
            "a.rs:2: `dbg!`",
            "a.rs:3: `#[ignore`",
            "a.rs:4: `unsafe`",
        ];
        assert_finds(check, &[("a.rs", bad)], &want);
        assert_finds(
            check,
            &[("a.rs", "fn a() { unimplemented!() }\n")],
            &["a.rs:1: "],
        );
    }

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let code = "fn a() {}\n".repeat(MAX_LINES);
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "    // x\n".repeat(500)
        );
        assert_finds(check, &[("a.rs", &format!("{code}{tests}"))], &[]);
        let longer = format!("fn b() {{}}\n{code}{tests}");
        assert_finds(check, &[("a.rs", &longer)], &["a.rs:801: 801 lines"]);
        assert_finds(
            check,
            &[("tests/a.rs", &code.repeat(2))],
            &["tests/a.rs:801: 1600"],
        );
    }

    #[test]
    fn pure_crates_name_no_files_clock_or_environment() {
        let bad =
            "use std::fs;\nuse std::{\n    env,\n    fmt,\n};\nfn a() { SystemTime::now(); }\n";
        let want = [
            "crates/core/src/a.rs:1: ",
            "crates/core/src/a.rs:3: ",
            "crates/core/src/a.rs:6: ",
        ];
        assert_finds(check, &[("crates/core/src/a.rs", bad)], &want);
        assert_finds(check, &[("crates/audit/src/a.rs", bad)], &[]);
        let tested = format!(
            "fn env() {{}}\n#[cfg(test)]\nmod tests {{\n    {}}}\n",
            "use std::fs;\n"
        );
        assert_finds(check, &[("crates/policy/src/a.rs", &tested)], &[]);
        assert_finds(
            check,
            &[("crates/core/src/a.rs", "/// No `Instant` here.\n")],
            &[],
        );
    }
}
