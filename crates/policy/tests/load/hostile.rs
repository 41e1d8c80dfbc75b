//! Files made to break the loader.

use crate::cases::head;
use crate::{FULL, problems};
use airlock_policy::{parse_tests, render};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

fn quick(what: &str, bytes: &[u8], code: &str) {
    let begin = Instant::now();
    let found = problems(bytes);
    let took = begin.elapsed();
    assert!(
        found.iter().any(|problem| problem.code == code),
        "{what}: {found:?}"
    );
    assert!(found.len() <= 101, "{what}: {} problems", found.len());
    // Generous: unoptimised, on a busy machine. An attack that works takes minutes.
    assert!(took < Duration::from_secs(20), "{what} took {took:?}");
}

#[test]
fn hostile_files_are_refused_quickly() {
    let bomb = (1..30).fold("a0: &a0 [x, x]\n".to_owned(), |all, n| {
        format!("{all}a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)
    });
    quick("alias bomb", bomb.as_bytes(), "policy/anchor");
    for (what, open) in [
        ("flow lists", "["),
        ("flow mappings", "{a: "),
        ("mixed", "[{a: "),
        ("block lists", "- "),
    ] {
        quick(what, open.repeat(100_000).as_bytes(), "policy/too-deep");
    }
    let deep = (0..2_000).fold(String::new(), |all, n| {
        format!("{all}{}a:\n", " ".repeat(n))
    });
    quick("block mappings", deep.as_bytes(), "policy/too-deep");
    quick(
        "explicit keys",
        "? ".repeat(100_000).as_bytes(),
        "policy/too-deep",
    );
    quick("large", &vec![b' '; 9 << 20], "policy/too-large");
    quick(
        "endless quotes",
        format!("version: \"{}", "a".repeat(4 << 20)).as_bytes(),
        "policy/yaml-syntax",
    );
    quick("NULs", &vec![0; 1 << 20], "policy/control-character");
    quick("random", &vec![0xff; 1 << 16], "policy/not-utf8");
}

#[test]
fn a_mapping_of_a_million_keys_is_refused_quickly() {
    let keys: String = (0..1_000_001).fold(String::with_capacity(8 << 20), |mut all, n| {
        writeln!(all, "{n:x}:").unwrap();
        all
    });
    quick("keys", keys.as_bytes(), "policy/too-many-nodes");
    let same = "a:\n".repeat(100_000);
    quick("the same key", same.as_bytes(), "policy/duplicate-key");
    let unknown = (0..100_000).fold(String::new(), |mut all, n| {
        writeln!(all, "versio{n}: 1").unwrap();
        all
    });
    quick(
        "unknown keys",
        unknown.as_bytes(),
        "policy/too-many-problems",
    );
}

#[test]
fn costly_regular_expressions_are_bounded() {
    let one = "{name: a, pattern: '(\\w{200}){20}'},";
    let text = head(&format!("secrets: {{ patterns: [{}] }}", one.repeat(3_000)));
    quick("patterns", text.as_bytes(), "policy/regex");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let found = problems(&bytes);
        render(&String::from_utf8_lossy(&bytes), "p", &found);
        let _ = parse_tests(&bytes);
    }

    #[test]
    fn yaml_like_text_never_panics(text in "[a-c:{}\\[\\],\\-?&*!|>'\"# \n\t%@`~\u{4f60}]{0,120}") {
        let text = format!("version: 1\n{text}");
        let found = problems(text.as_bytes());
        let lines: Vec<usize> = text.split('\n').map(|line| line.chars().count()).collect();
        for problem in &found {
            let line = problem.place.line as usize;
            prop_assert!(line >= 1 && line <= lines.len(), "{problem:?}");
            prop_assert!(problem.place.column as usize <= lines[line - 1] + 1, "{problem:?}");
        }
        render(&text, "p", &found);
    }

    #[test]
    fn a_mutated_policy_never_panics(
        at in 0..FULL.len(), cut in 0usize..40, insert in "[ -~\n\u{e4}]{0,6}",
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, insert.into_bytes());
        let found = problems(&bytes);
        render(&String::from_utf8_lossy(&bytes), "p", &found);
    }
}
