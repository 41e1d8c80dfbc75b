use super::*;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn matches(globs: &[&str], path: &str, leaf: Leaf) -> bool {
    PathGlobs::parse(globs)
        .unwrap()
        .matches(PathText::new(path), leaf)
}

#[test]
fn globs_mean_what_gitignore_means() {
    for (glob, path, want) in [
        ("foo", "foo", true),
        ("foo", "a/b/foo", true),
        ("foo", "a/foo/b", true),
        ("foo", "foobar", false),
        ("/foo", "foo/x", true),
        ("/foo", "a/foo", false),
        ("src/*.rs", "src/main.rs", true),
        ("src/*.rs", "src/a/main.rs", false),
        ("src/*.rs", "a/src/main.rs", false),
        ("src/**", "src/a/b", true),
        ("src/**", "src", false),
        ("src/**/b", "src/b", true),
        ("src/**/b", "src/x/y/b/c", true),
        ("**/b/c", "a/b/c", true),
        ("**/b/c", "b/x/c", false),
        ("a/**/b/**/c", "a/1/b/2/c", true),
        ("a/**/b/**/c", "a/c/b", false),
        ("**", ".", true),
        ("/**", ".", true),
        ("*", ".", false),
        ("*", "a/b", true),
        ("*.env", "config/.env", true),
        ("**.rs", "a/b.rs", true),
        ("a**b", "axxb", true),
        ("a/**b", "a/x/b", false),
        ("a?c", "abc", true),
        ("a?c", "a\u{e9}c", true),
        ("a?c", "a/c", false),
        ("a[!x]c", "a/c", false),
        ("a[!x]c", "abc", true),
        ("[a-c]x", "bx", true),
        ("[]a]x", "]x", true),
        ("[a-]x", "-x", true),
        (r"\!keep", "!keep", true),
        (r"a\*b", "a*b", true),
        (r"a\*b", "axb", false),
        (r"\{a\}", "{a}", true),
        ("SRC", "src", false),
    ] {
        assert_eq!(matches(&[glob], path, Leaf::File), want, "{glob} on {path}");
    }
}

#[test]
fn a_directory_glob_takes_the_cautious_side() {
    for (globs, path, allow, deny) in [
        (&["build/"][..], "build/x", true, true),
        (&["build/"], "build", false, true),
        (&["**", "!build/"], "build/x", false, false),
        (&["**", "!build/"], "build", false, true),
        (&["**", "!build/"], "src", true, true),
    ] {
        assert_eq!(matches(globs, path, Leaf::File), allow, "{globs:?} {path}");
        assert_eq!(
            matches(globs, path, Leaf::Directory),
            deny,
            "{globs:?} {path}"
        );
    }
}

#[test]
fn an_excluding_glob_wins_in_any_order() {
    for globs in [["**", "!secret/**"], ["!secret/**", "**"]] {
        assert!(matches(&globs, "src/a", Leaf::File));
        assert!(!matches(&globs, "secret/a", Leaf::File));
    }
    assert!(!matches(&["!src/**"], "other", Leaf::File));
    assert!(!matches(&[], "anything", Leaf::Directory));
}

#[test]
fn what_could_be_misread_is_refused_with_a_way_out() {
    type Check = fn(&GlobError) -> bool;
    let long = "a".repeat(5_000);
    let table: &[(&str, Check)] = &[
        ("", |e| matches!(e, GlobError::Empty)),
        ("!", |e| matches!(e, GlobError::Empty)),
        ("/", |e| matches!(e, GlobError::Empty)),
        (&long, |e| matches!(e, GlobError::TooLong)),
        ("a\0b", |e| matches!(e, GlobError::Nul)),
        (" src", |e| matches!(e, GlobError::SurroundingSpace(_))),
        ("src/**\n", |e| matches!(e, GlobError::SurroundingSpace(_))),
        ("src/{a,b}", |e| matches!(e, GlobError::Braces(_))),
        ("a}", |e| matches!(e, GlobError::Braces(_))),
        ("../a", |e| matches!(e, GlobError::Parent(_))),
        ("a/../b", |e| matches!(e, GlobError::Parent(_))),
        ("a//b", |e| matches!(e, GlobError::EmptyComponent(_))),
        ("./a", |e| matches!(e, GlobError::EmptyComponent(_))),
        ("//a", |e| matches!(e, GlobError::EmptyComponent(_))),
        ("~/x", |e| matches!(e, GlobError::Home(_))),
        ("!~/x", |e| matches!(e, GlobError::Home(_))),
        ("C:/x", |e| matches!(e, GlobError::Drive(_))),
        ("a[b", |e| matches!(e, GlobError::Class(_))),
        ("a[]", |e| matches!(e, GlobError::Class(_))),
        ("a[z-a]", |e| matches!(e, GlobError::Class(_))),
        ("a[/]b", |e| matches!(e, GlobError::SlashInClass(_))),
        ("a[[:alpha:]]", |e| matches!(e, GlobError::NamedClass(_))),
        ("a\\", |e| matches!(e, GlobError::TrailingEscape(_))),
        (r"src\main.rs", |e| {
            matches!(e, GlobError::NeedlessEscape(_))
        }),
    ];
    for (text, expected) in table {
        let error = check(text).unwrap_err();
        assert!(expected(&error), "{text:?} gave {error:?}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn hostile_globs_and_paths_take_no_more_than_their_product() {
    let glob = format!("{}b", "*a".repeat(400));
    let deep = format!("{}x", "**/a/".repeat(200));
    let name = "a".repeat(3_000);
    let path = "a/".repeat(2_000) + "b";
    for (glob, path) in [(&glob, &name), (&deep, &path)] {
        assert!(!matches(&[glob], path, Leaf::Directory));
    }
}

#[test]
fn covering_is_sound_on_examples() {
    let glob = |text: &str| Glob::parse(text).unwrap().0;
    for (wide, narrow, want) in [
        ("**", "a/*.rs", true),
        ("a", "a", true),
        ("/a", "/a/b/**", true),
        ("a/**", "a/*.rs", true),
        ("a/**", "a/b", true),
        ("a/**", "/a", false),
        ("a/b", "a/*", false),
        ("a/*.rs", "a/b.rs", false),
        ("/a/", "a/b", false),
        ("x/**", "a/**", false),
    ] {
        assert_eq!(
            glob(wide).covers(&glob(narrow)),
            want,
            "{wide} over {narrow}"
        );
    }
}

fn reference(glob: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    builder.add_line(None, glob).unwrap();
    builder.build().unwrap()
}

/// Whether the path or a directory above it is ignored. The reference's own walk goes on to the
/// root, which no glob but `**` matches.
fn ignored(reference: &Gitignore, path: &str, leaf: Leaf) -> bool {
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    reference.matched(path, leaf == Leaf::Directory).is_ignore()
        || above
            .into_iter()
            .any(|parent| reference.matched(parent, true).is_ignore())
}

/// Globs of the language both matchers read alike. The reference lets a negated class match `/`,
/// counts bytes for `?`, and forgives an unclosed class; ours does none of these.
fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]{1,2}",
        1 => Just("*".to_owned()),
        1 => Just("**".to_owned()),
        1 => Just("*.a".to_owned()),
        1 => Just("a*".to_owned()),
        1 => Just("?".to_owned()),
        1 => Just("[ab]".to_owned()),
        1 => Just("a*b*".to_owned()),
        1 => Just(r"\*".to_owned()),
    ]
}

fn glob() -> impl Strategy<Value = String> {
    let body = prop::collection::vec(component(), 1..4);
    (prop::bool::ANY, body, prop::bool::ANY).prop_map(|(rooted, body, directory)| {
        let (start, end) = (
            if rooted { "/" } else { "" },
            if directory { "/" } else { "" },
        );
        format!("{start}{}{end}", body.join("/"))
    })
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]{1,2}|[ab]\\.a|\\*", 1..5).prop_map(|names| names.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn matching_agrees_with_gitignore(glob in glob(), path in path()) {
        let reference = reference(&glob);
        for leaf in [Leaf::File, Leaf::Directory] {
            let want = ignored(&reference, &path, leaf);
            prop_assert_eq!(matches(&[&glob], &path, leaf), want, "{} on {} as {:?}", glob, path, leaf);
        }
    }

    #[test]
    fn covering_never_claims_too_much(wide in glob(), narrow in glob(), path in path()) {
        let (wide, narrow) = (Glob::parse(&wide).unwrap().0, Glob::parse(&narrow).unwrap().0);
        let path = PathText::new(&path);
        if wide.covers(&narrow) && narrow.matches(path, Leaf::File) {
            prop_assert!(wide.matches(path, Leaf::Directory));
        }
    }

    #[test]
    fn no_text_breaks_the_parser(text in "\\PC{0,12}|[a!/*\\[\\]{}\\\\~. -]{0,12}", path in path()) {
        if let Ok((glob, _)) = Glob::parse(&text) {
            glob.matches(PathText::new(&path), Leaf::File);
        }
    }
}
