//! Capability patterns and sets against the table of the guide, against an obvious reference
//! matcher, and against input made to hurt.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod reference;

use airlock_core::{CapabilityForm, SYSCALLS};
use airlock_policy::capability::{
    Capability, CapabilityError, CapabilitySet, FAMILIES, Pattern, known_family,
};
use reference::{Random, parts, pattern_parts, reference};
use std::time::{Duration, Instant};

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Whether pattern text matches; malformed patterns match nothing.
fn matches(pattern: &str, capability: &str) -> bool {
    Pattern::parse(pattern).is_ok_and(|pattern| {
        let alone = pattern.matches(capability);
        let in_a_set = CapabilitySet::compile([pattern]).contains(capability);
        assert_eq!(alone, in_a_set, "a set of one disagrees with its pattern");
        alone
    })
}

#[test]
fn patterns_match_as_the_table_says() {
    for (pattern, capability, want) in [
        ("sessions.read", "sessions.read", true),
        ("sessions.read", "sessions.write", false),
        ("*", "anything.here", true),
        ("sessions.*", "sessions.read", true),
        ("sessions.*", "messages.send", false),
        ("sessions.*", "sessions", false),
        ("messages.send.*", "messages.send.telegram", true),
        ("exec.*", "exec.run.sandboxed", true),
        ("config.read.self", "config.read.self", true),
        ("config.read.self", "config.read.other", false),
        (
            "filesystem.read./data/*",
            "filesystem.read./data/plugins/foo",
            true,
        ),
        (
            "filesystem.read./data/*",
            "filesystem.read./data/a.txt",
            true,
        ),
        (
            "filesystem.read./data/*",
            "filesystem.read./etc/shadow",
            false,
        ),
        (
            "filesystem.read./data/*",
            "filesystem.read./data/../etc/shadow",
            false,
        ),
        ("", "anything", false),
        ("", "", false),
        ("*", "", false),
        ("sessions.read", "", false),
    ] {
        assert_eq!(
            matches(pattern, capability),
            want,
            "{pattern:?} on {capability:?}"
        );
    }
}

#[test]
fn wildcards_reach_exactly_as_far_as_documented() {
    for (pattern, capability, want) in [
        // A whole segment: one or more, anywhere.
        ("*.read", "sessions.read", true),
        ("*.read", "a.b.read", true),
        ("*.read", "read", false),
        ("a.*.z", "a.b.c.z", true),
        ("a.*.z", "a.z", false),
        ("*.*", "a", false),
        ("*.*", "a.b.c", true),
        // Inside a segment: within it, also nothing.
        ("tool.git*", "tool.git", true),
        ("tool.git*", "tool.github", true),
        ("tool.git*", "tool.github.issues", false),
        ("tool.*hub", "tool.github", true),
        ("tool.g*t*b", "tool.github", true),
        ("tool.aba*aba", "tool.aba", false),
        ("tool.aba*aba", "tool.abaaba", true),
        // A path scope is one final segment for a whole `*`, and for nothing else.
        ("*", "filesystem.read./data/x", true),
        ("*", "/data/x", true),
        ("filesystem.*", "filesystem.read./data/x", true),
        ("filesystem.read.*", "filesystem.read./data/x", true),
        ("filesystem.*.*", "filesystem./data/x", false),
        ("filesystem.read.*x", "filesystem.read./data/x", false),
        ("filesystem.*./data/*", "filesystem.read./data/x", true),
        ("filesystem.read./data/x", "filesystem.read.data", false),
        // The end of a path: below, not the directory itself.
        ("f./data/*", "f./data", false),
        ("f./data/*", "f./database/x", false),
        ("f./*", "f./etc/shadow", true),
        ("f./*", "f./", false),
        ("f./", "f./", true),
        ("f./data", "f./data/x", false),
        // Elsewhere in a path: one component.
        ("f./home/*/notes", "f./home/ann/notes", true),
        ("f./home/*/notes", "f./home/ann/old/notes", false),
        ("f./home/*/notes", "f./home/notes", false),
        ("f./data/*.txt", "f./data/a.txt", true),
        ("f./data/*.txt", "f./data/.txt", true),
        ("f./data/*.txt", "f./data/b/a.txt", false),
        ("f./data/pub*", "f./data/public", true),
        ("f./data/pub*", "f./data/public/x", false),
        // `**`: any number, also none.
        ("f./a/**/z", "f./a/z", true),
        ("f./a/**/z", "f./a/b/c/z", true),
        ("f./a/**/z", "f./a/b/c/y", false),
        ("f./a/**", "f./a", true),
        ("f./a/**", "f./a/b/c", true),
        ("f./a/**", "f./ab", false),
        ("f./**/.env", "f./.env", true),
        ("f./**/.env", "f./w/app/.env", true),
        ("f./**/.env", "f./w/app/.envrc", false),
        ("f./a/**/*", "f./a", false),
        ("f./a/**/*/z", "f./a/z", false),
        // Home is text of its own, never the root and never expanded.
        ("f.~/*", "f.~/x", true),
        ("f.~/*", "f.~", false),
        ("f.~", "f.~", true),
        ("f.~/**", "f.~", true),
        ("f./**", "f.~/x", false),
        ("f.~/**", "f./home/ann/x", false),
        // Case and characters are exact; what looks like a wildcard in a request is not one.
        ("sessions.read", "Sessions.read", false),
        ("sessions.read", "*", false),
        ("sessions.read", "sessions.*", false),
        ("f./data/x", "f./data/*", false),
        ("f./data/*", "f./data/*", true),
        ("f./app/[slug]/{id}?", "f./app/[slug]/{id}?", true),
        ("tool.ü*", "tool.über", true),
        ("tool.ü*", "tool.u", false),
    ] {
        assert_eq!(
            matches(pattern, capability),
            want,
            "{pattern:?} on {capability:?}"
        );
    }
}

#[test]
fn a_malformed_capability_is_in_no_set() {
    let everything = CapabilitySet::parse(["*", "*.*", "f.*", "/**", "f./**", "f.~/**"]).unwrap();
    let deep = vec!["a"; 33].join(".");
    let deep_path = format!("{}./x", vec!["a"; 32].join("."));
    let long = "a".repeat(1_025);
    for bad in [
        "",
        ".",
        "..",
        ".a",
        "a.",
        "a..b",
        "./a",
        "f../x",
        "a\0",
        "\0",
        "f./a\0b",
        "f.//",
        "f./a/",
        "f.//a",
        "f./a//b",
        "f./.",
        "f./..",
        "f./a/./b",
        "f./a/../b",
        "f./a/..",
        "f.~/",
        "f.~//a",
        "f.~ann/x",
        "f.~x",
        "f.~/..",
        "f.~/../ann",
        "~..",
        &deep,
        &deep_path,
        &long,
    ] {
        assert!(Capability::parse(bad).is_err(), "{bad:?}");
        assert!(!everything.contains(bad), "{bad:?}");
        assert!(Pattern::parse(bad).is_err(), "{bad:?}");
        assert!(
            everything.patterns().iter().all(|p| !p.matches(bad)),
            "{bad:?}"
        );
    }
    // The limits themselves are within.
    let widest = vec!["a"; 32].join(".");
    let widest_path = format!("{}./x", vec!["a"; 31].join("."));
    for good in [
        "a",
        "a/b",
        "f./...",
        "f./a.",
        "f./..a",
        &widest,
        &widest_path,
        &"a".repeat(1_024),
    ] {
        assert!(everything.contains(good), "{good:?}");
    }
}

#[test]
fn a_row_of_names_is_compared_name_by_name() {
    let set = CapabilitySet::parse([
        "filesystem.write./work/src/one/**",
        "filesystem.write./work/src/two",
        "tool.build.run",
    ])
    .unwrap();
    for (capability, want) in [
        ("filesystem.write./work/src/one/a", true),
        ("filesystem.write./work/src/two", true),
        ("tool.build.run", true),
        ("filesystem.write", false),
        ("filesystem", false),
        ("filesystem./work/src/two", false),
        ("filesystem.writer./work/src/two", false),
        ("filesystem.write.~/work/src/two", false),
        ("filesystem.write./work", false),
        ("filesystem.write./work/src", false),
        ("filesystem.write./work/srcs/two", false),
        ("filesystem.write./work/src.two", false),
        ("filesystem.write./work/src/two/a", false),
        ("filesystem.write./work.src/two", false),
        ("tool.build.runs", false),
        ("tool.build", false),
        ("tool/build.run", false),
    ] {
        assert_eq!(set.contains(capability), want, "{capability}");
    }
}

#[test]
fn an_empty_set_contains_nothing() {
    let empty = CapabilitySet::empty();
    assert!(empty.is_empty());
    for capability in ["", "*", "a", "a.b", "f./", "f./x", "/", "~"] {
        assert!(!empty.contains(capability), "{capability:?}");
    }
}

#[test]
fn a_pattern_that_could_only_mislead_is_refused_with_a_fix() {
    let escape = "\u{1b}[2J".to_owned() + &"x".repeat(200);
    for (text, want, message) in [
        ("", "Empty", "the capability is empty"),
        (".a", "LeadingDot", "capability `.a` begins with a dot"),
        ("a.", "TrailingDot", "capability `a.` ends with a dot"),
        (
            "a..b",
            "DoubleDot",
            "capability `a..b` has two dots in a row",
        ),
        ("a\0", "Nul", "capability `a\\0` contains a NUL character"),
        (
            "f./a/",
            "EmptyComponent",
            "the path of capability `f./a/` has an empty component",
        ),
        (
            "f./a/..",
            "DotComponent",
            "the path of capability `f./a/..` has the component `..`",
        ),
        (
            "f.~ann",
            "ForeignHome",
            "the path of capability `f.~ann` begins with `~` but not with `~/`",
        ),
        (
            "**",
            "StrayDoubleStar",
            "capability pattern `**` has `**` other than as a whole path component",
        ),
        (
            "a.b**",
            "StrayDoubleStar",
            "capability pattern `a.b**` has `**` other than as a whole path component",
        ),
        (
            "f./a**/b",
            "StrayDoubleStar",
            "capability pattern `f./a**/b` has `**` other than as a whole path component",
        ),
        (
            "f./***",
            "StrayDoubleStar",
            "capability pattern `f./***` has `**` other than as a whole path component",
        ),
        (
            "a.{b,c}",
            "UnsupportedCharacter",
            "capability pattern `a.{b,c}` has the character `{` in a segment",
        ),
        (
            "a.b?",
            "UnsupportedCharacter",
            "capability pattern `a.b?` has the character `?` in a segment",
        ),
        (
            "!exec.*",
            "UnsupportedCharacter",
            "capability pattern `!exec.*` has the character `!` in a segment",
        ),
        (
            "a.b ",
            "UnsupportedCharacter",
            "capability pattern `a.b ` has the character ` ` in a segment",
        ),
        (
            "a\nb",
            "UnsupportedCharacter",
            "capability pattern `a\\nb` has the character `\\n` in a segment",
        ),
    ] {
        let error = Pattern::parse(text).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(
            format!("{error:?}").starts_with(want),
            "{text:?}: {error:?}"
        );
        assert!(!error.hint().is_empty(), "{text:?}");
    }
    assert_eq!(
        Pattern::parse(&"a".repeat(1_025)).unwrap_err(),
        CapabilityError::TooLong { bytes: 1_025 }
    );
    let many = Pattern::parse(&vec!["a"; 33].join(".")).unwrap_err();
    assert!(
        matches!(many, CapabilityError::TooManySegments { segments: 33, .. }),
        "{many:?}"
    );
    // What reaches a terminal is short and free of control characters.
    let message = Pattern::parse(&escape).unwrap_err().to_string();
    assert!(
        message.chars().all(|c| !c.is_control()) && message.len() < 250,
        "{message:?}"
    );
}

#[test]
fn a_list_is_refused_at_its_first_bad_entry() {
    let error = CapabilitySet::parse(["a.b", "c.", "d..e"]).unwrap_err();
    assert_eq!(error.position, 1);
    assert_eq!(
        error.to_string(),
        "entry 2: capability `c.` ends with a dot"
    );
    let set = CapabilitySet::parse(vec!["b.*".to_owned(), "a".to_owned()]).unwrap();
    let shown: Vec<_> = set.patterns().iter().map(Pattern::as_str).collect();
    assert_eq!(shown, ["b.*", "a"]);
    assert_eq!(format!("{set:?}"), r#"{"b.*", "a"}"#);
}

#[test]
fn covering_is_recognised_where_people_expect_it() {
    for (wide, narrow, want) in [
        ("*", "anything.here", true),
        ("*", "*", true),
        ("*", "exec.*", true),
        ("*", "filesystem.read./data/**", true),
        ("*", "*./data", true),
        ("exec.*", "exec.run", true),
        ("exec.*", "exec.run.*", true),
        ("exec.*", "exec.*.*", true),
        ("exec.*.*", "exec.*", false),
        ("exec.*", "exec", false),
        ("exec.*", "*", false),
        ("tool.git*", "tool.github*", true),
        ("tool.github*", "tool.git*", false),
        ("tool.*", "tool.git*", true),
        ("tool.g*", "tool.*", false),
        ("tool.g*b", "tool.g*h*b", true),
        ("a.*.z", "a.b.z", true),
        ("a.*.z", "a.b.*.z", true),
        ("filesystem.*", "filesystem.read./data/*", true),
        ("filesystem.read./data/*", "filesystem.read./data/a/*", true),
        (
            "filesystem.read./data/*",
            "filesystem.read./data/a/**",
            true,
        ),
        ("filesystem.read./data/*", "filesystem.read./data/**", false),
        ("filesystem.read./data/**", "filesystem.read./data/*", true),
        ("filesystem.read./data/**", "filesystem.read./data", true),
        ("filesystem.read./data/*", "filesystem.read.*", false),
        ("filesystem.read./**", "filesystem.read.~/x", false),
        ("f./a/*/c", "f./a/b/c", true),
        ("f./a/*/c", "f./a/**/c", false),
        ("f./**/c", "f./a/**/b/c", true),
        // True, but beyond what is recognised: unsure means no.
        ("f./*", "f./**/x", false),
    ] {
        assert_eq!(
            pattern(wide).covers(&pattern(narrow)),
            want,
            "{wide:?} over {narrow:?}"
        );
    }
    let set = CapabilitySet::parse(["a.*", "b.c"]).unwrap();
    assert!(set.covers(&pattern("a.x*")) && set.covers(&pattern("b.c")));
    assert!(!set.covers(&pattern("b.*")) && !set.covers(&pattern("*")));
}

#[test]
fn a_pattern_of_the_home_matches_once_it_is_put_there() {
    for (text, home, want) in [
        ("f.~/x/*", "/home/ann", "f./home/ann/x/*"),
        ("f.~", "/home/ann/", "f./home/ann"),
        ("f.~", "/", "f./"),
        ("f.~/x", "/", "f./x"),
        ("f.g.~/a.~b/c", "/h", "f.g./h/a.~b/c"),
        ("~/a.~b", "/h", "/h/a.~b"),
        ("f./a.~/x", "/h", "f./a.~/x"),
        ("f.*", "/h", "f.*"),
    ] {
        let one = pattern(text);
        assert_eq!(one.is_of_home(), text != want, "{text}");
        let placed = one.in_home(home).unwrap();
        assert_eq!(
            (placed.as_str(), placed.is_of_home()),
            (want, false),
            "{text}"
        );
    }
    assert!(pattern("f.~/x").in_home("/a**b").is_err());
}

#[test]
fn every_syscall_needs_a_capability_of_a_known_family() {
    for family in FAMILIES {
        pattern(family.pattern);
        assert!(!family.meaning.is_empty(), "{}", family.pattern);
    }
    for spec in SYSCALLS {
        let capability = match spec.capability {
            CapabilityForm::Fixed(name) => name.to_owned(),
            CapabilityForm::Path(name) => format!("{name}./data/x"),
            CapabilityForm::Host(name) => format!("{name}.tickets.example.org"),
            CapabilityForm::Secret(name) => format!("{name}.token"),
            CapabilityForm::Tool(name) => format!("{name}.tickets.search"),
        };
        assert!(known_family(&capability), "{capability} of {}", spec.name);
    }
    for (text, want) in [
        ("*", true),
        ("exec.*", true),
        ("sessions.read.self", true),
        ("config.write.global", true),
        ("filesystem.read.~/notes/*", true),
        ("*.read", true),
        ("filesytem.read./data", false),
        ("filesystem.read", false),
        ("exec.runs", false),
        ("", false),
        ("exec..run", false),
    ] {
        assert_eq!(known_family(text), want, "{text:?}");
    }
}

#[test]
fn patterns_agree_with_the_reference_on_three_million_pairs() {
    let mut random = Random(1);
    let capabilities: Vec<_> = (0..2_000)
        .map(|_| random.capability())
        .map(|text| (parts(&text), text))
        .collect();
    let parsed: Vec<_> = capabilities
        .iter()
        .map(|(parts, text)| {
            let parsed = Capability::parse(text).ok();
            assert_eq!(parsed.is_some(), parts.is_some(), "{text:?}");
            parsed
        })
        .collect();
    let (mut compared, mut matched) = (0_u32, 0_u32);
    while compared < 3_000_000 {
        let text = random.pattern();
        let want = pattern_parts(&text);
        let Ok(pattern) = Pattern::parse(&text) else {
            // The reference does not know the characters that only patterns refuse.
            assert!(want.is_none(), "{text:?} was refused");
            continue;
        };
        let want = want.unwrap_or_else(|| panic!("{text:?} was accepted"));
        let set = CapabilitySet::compile([pattern.clone()]);
        for ((parts, capability), parsed) in capabilities.iter().zip(&parsed) {
            let want = parts.as_ref().is_some_and(|parts| reference(&want, parts));
            let alone = parsed
                .as_ref()
                .is_some_and(|parsed| pattern.matches_parsed(parsed));
            let in_set = parsed
                .as_ref()
                .is_some_and(|parsed| set.contains_parsed(parsed));
            assert_eq!((alone, in_set), (want, want), "{text:?} on {capability:?}");
            compared += 1;
            matched += u32::from(want);
        }
    }
    assert!(
        matched > 100_000,
        "only {matched} pairs matched: the texts are too unlike"
    );
}

#[test]
fn a_set_contains_what_any_of_its_patterns_matches() {
    let mut random = Random(2);
    let mut contained = 0_u32;
    for _ in 0..600 {
        let size = 1 + random.below(40);
        let patterns: Vec<_> = (0..size)
            .filter_map(|_| Pattern::parse(&random.pattern()).ok())
            .collect();
        let set = CapabilitySet::compile(patterns.clone());
        for _ in 0..60 {
            let capability = random.capability();
            let want = patterns.iter().any(|pattern| pattern.matches(&capability));
            assert_eq!(
                set.contains(&capability),
                want,
                "{patterns:?} on {capability:?}"
            );
            contained += u32::from(want);
        }
    }
    assert!(contained > 5_000, "only {contained} were contained");
}

#[test]
fn covering_is_never_claimed_wrongly() {
    let mut random = Random(3);
    let capabilities: Vec<_> = (0..1_000).map(|_| random.capability()).collect();
    let patterns: Vec<_> = (0..400)
        .filter_map(|_| Pattern::parse(&random.pattern()).ok())
        .map(|pattern| {
            let matched: Vec<_> = capabilities.iter().map(|c| pattern.matches(c)).collect();
            (pattern, matched)
        })
        .collect();
    let mut covered = 0_u32;
    for (wide, wide_matched) in &patterns {
        assert!(wide.covers(wide), "{wide:?} does not cover itself");
        for (narrow, narrow_matched) in &patterns {
            if !wide.covers(narrow) {
                continue;
            }
            covered += 1;
            for ((capability, wider), narrower) in
                capabilities.iter().zip(wide_matched).zip(narrow_matched)
            {
                assert!(
                    *wider || !narrower,
                    "{wide:?} does not cover {narrow:?}: {capability:?}"
                );
            }
        }
    }
    assert!(covered > 3_000, "only {covered} pairs were covered");
}

#[test]
fn no_input_makes_matching_explode() {
    let stars = vec!["*"; 32].join(".");
    let holes = format!("x.{}b", "a*".repeat(500));
    let deep = format!("f./{}z", "**/a/".repeat(200));
    let deep_globs = format!("f./{}z", "**/*a*a*/".repeat(110));
    let segments = format!("{}.z", vec!["*.a"; 15].join("."));
    let patterns = [&stars, &holes, &deep, &deep_globs, &segments].map(|text| pattern(text));
    let capabilities = [
        vec!["a"; 32].join("."),
        vec!["a"; 31].join("."),
        format!("x.{}", "a".repeat(1_000)),
        format!("f.{}", "/a".repeat(500)),
        format!("f.{}", "/aaa".repeat(250)),
    ];
    // A hostile manifest: the same trouble a few hundred times over, none of it shared.
    let many = (0..300).map(|n| pattern(&format!("f./{}z{n}", "**/*a*/".repeat(20))));
    let set = CapabilitySet::compile(patterns.iter().cloned().chain(many));
    let began = Instant::now();
    for capability in &capabilities {
        let want = patterns.iter().any(|pattern| pattern.matches(capability));
        assert_eq!(set.contains(capability), want, "{capability:?}");
        for pattern in &patterns {
            for other in &patterns {
                assert_eq!(pattern.covers(other), pattern == other);
            }
        }
    }
    // Exponential work would outlast the universe; unoptimised code on a busy machine does not
    // need a second.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

/// `size` patterns of every kind that an index treats differently.
fn large_set(size: usize) -> Vec<String> {
    (0..size)
        .map(|n| match n % 6 {
            0 => format!("tool.plugin{n}.run"),
            1 => format!("filesystem.read./data/dir{n}/*"),
            2 => format!("network.connect.host{n}.example.org"),
            3 => format!("tool.group{n}x*.list"),
            4 => format!("filesystem.write./home/*/work{n}/**/out"),
            _ => format!("kv.store{n}.*"),
        })
        .collect()
}

#[test]
fn a_large_set_finds_each_of_its_patterns_and_nothing_beside_them() {
    let set = CapabilitySet::parse(large_set(6_000)).unwrap();
    for n in (0..6_000).step_by(6) {
        let (read, host, glob) = (n + 1, n + 2, n + 3);
        let (write, store) = (n + 4, n + 5);
        for (capability, want) in [
            (format!("tool.plugin{n}.run"), true),
            (format!("tool.plugin{n}.runs"), false),
            (format!("tool.plugin{n}"), false),
            (format!("tool.plugin{read}.run"), false),
            (format!("filesystem.read./data/dir{read}/a/b"), true),
            (format!("filesystem.read./data/dir{read}"), false),
            (format!("filesystem.write./data/dir{read}/a"), false),
            (format!("network.connect.host{host}.example.org"), true),
            (format!("network.connect.host{host}.example.com"), false),
            (format!("tool.group{glob}xyz.list"), true),
            (format!("tool.group{glob}yz.list"), false),
            (
                format!("filesystem.write./home/ann/work{write}/a/b/out"),
                true,
            ),
            (format!("filesystem.write./home/ann/work{write}/out"), true),
            (
                format!("filesystem.write./home/ann/x/work{write}/out"),
                false,
            ),
            (format!("kv.store{store}.a.b"), true),
            (format!("kv.store{store}"), false),
        ] {
            assert_eq!(set.contains(&capability), want, "{capability}");
        }
    }
}

#[test]
fn looking_up_does_not_slow_down_with_the_number_of_patterns() {
    let asked = [
        "tool.plugin0.run",
        "filesystem.read./data/dir1/a",
        "tool.nobody.list",
        "x.y",
    ];
    let fastest = |size| {
        let set = CapabilitySet::parse(large_set(size)).unwrap();
        let round = || {
            let began = Instant::now();
            for _ in 0..200 {
                for capability in asked {
                    std::hint::black_box(set.contains(capability));
                }
            }
            began.elapsed()
        };
        (0..15).map(|_| round()).min().unwrap()
    };
    let (small, large) = (fastest(60), fastest(12_000));
    // A scan would take 200 times as long; the best of 15 rounds leaves out the machine's moods.
    assert!(
        large < small * 10,
        "{small:?} with 60 patterns, {large:?} with 12,000"
    );
}
