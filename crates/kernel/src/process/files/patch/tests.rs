use super::*;
use proptest::prelude::*;

fn applied(patch: &str, text: &str) -> Result<String, String> {
    let files = parse(patch).map_err(|error| error.to_string())?;
    let [file] = &files[..] else {
        panic!("{} files", files.len());
    };
    apply(text, &file.hunks).map_err(|error| format!("{error}; {}", error.hint()))
}

const HEAD: &str = "--- a/f\n+++ b/f\n";

#[test]
fn hunks_apply_exactly_where_they_say() {
    let text = "1\n2\n3\n4\n5\n";
    for (hunks, want) in [
        ("@@ -2 +2 @@\n-2\n+two\n", "1\ntwo\n3\n4\n5\n"),
        ("@@ -1,2 +1,3 @@\n 1\n+1.5\n 2\n", "1\n1.5\n2\n3\n4\n5\n"),
        ("@@ -0,0 +1 @@\n+0\n", "0\n1\n2\n3\n4\n5\n"),
        ("@@ -5,0 +6 @@\n+6\n", "1\n2\n3\n4\n5\n6\n"),
        (
            "@@ -1 +0,0 @@\n-1\n@@ -5 +4 @@ fn x()\n-5\n+V\n",
            "2\n3\n4\nV\n",
        ),
        (
            "@@ -5 +5 @@\n-5\n+5\n\\ No newline at end of file\n",
            "1\n2\n3\n4\n5",
        ),
    ] {
        assert_eq!(
            applied(&format!("{HEAD}{hunks}"), text).as_deref(),
            Ok(want),
            "{hunks}"
        );
    }
}

#[test]
fn a_hunk_that_does_not_fit_says_which_and_where() {
    let text = "a\nb\nc\nd\n";
    for (hunks, want) in [
        (
            "@@ -1 +1 @@\n-b\n+x\n",
            "hunk 1 (line 3 of the patch): line 1 is `a`, the patch has `b`; the hunk's lines stand at line 2",
        ),
        (
            "@@ -1 +1 @@\n-a\n+x\n@@ -3 +3 @@\n-q\n+x\n",
            "hunk 2 (line 6 of the patch): line 3 is `c`, the patch has `q`",
        ),
        ("@@ -9 +9 @@\n-z\n+x\n", "line 9 is the end of the file"),
        ("@@ -9,0 +10 @@\n+x\n", "line 10 is the end of the file"),
        (
            "@@ -3 +3 @@\n-c\n+x\n@@ -1 +1 @@\n-a\n+x\n",
            "begins before the one before it ends",
        ),
        (
            "@@ -4 +4 @@\n-d\n\\ No newline at end of file\n+x\n",
            "line 4 is `d`, the patch has `d` without a line end",
        ),
        (
            "@@ -1 +1 @@\n-a\n+x\n\\ No newline at end of file\n",
            "line 2 is `b`",
        ),
    ] {
        let error = applied(&format!("{HEAD}{hunks}"), text).unwrap_err();
        assert!(error.contains(want), "{hunks}: {error}");
    }
}

#[test]
fn names_are_what_the_headers_say() {
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    for (head, from, to) in [
        ("--- a/x\n+++ b/x\n", Some("x"), Some("x")),
        ("--- x\t2026-01-01\n+++ x\n", Some("x"), Some("x")),
        ("--- a/x\n+++ y\n", Some("a/x"), Some("y")),
        ("--- /dev/null\n+++ b/new\n", None, Some("new")),
        ("--- a/old\n+++ /dev/null\n", Some("old"), None),
        (
            "--- \"a/\\303\\251 \\\"q\\\"\"\n+++ \"b/\\303\\251 \\\"q\\\"\"\n",
            Some("é \"q\""),
            Some("é \"q\""),
        ),
        (
            "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n",
            Some("x"),
            Some("y"),
        ),
        (
            "text before\n\n--- a/../up\n+++ b/../up\n",
            Some("../up"),
            Some("../up"),
        ),
    ] {
        let files = parse(&format!("{head}{hunk}")).unwrap();
        assert_eq!(
            (files[0].from.as_deref(), files[0].to.as_deref()),
            (from, to),
            "{head}"
        );
    }
    let renamed = parse("diff --git a/x b/y\nrename from x\nrename to y\n").unwrap();
    assert_eq!(
        (renamed[0].to.as_deref(), renamed[0].hunks.len()),
        (Some("y"), 0)
    );
    let made =
        "diff --git a/r b/r\nnew file mode 100755\n--- /dev/null\n+++ b/r\n@@ -0,0 +1 @@\n+x\n";
    assert_eq!(parse(made).unwrap()[0].executable, Some(true));
}

#[test]
fn what_is_not_wholly_understood_is_refused() {
    for (patch, want) in [
        ("", "no change"),
        ("just words\n", "no change"),
        ("--- a/f\n", "expected `+++`"),
        ("--- a/f\n+++ b/f\n", "no hunk follows"),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n", "fewer lines"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n*b\n", "fewer lines"),
        ("--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-a\n-b\n", "more lines"),
        ("--- a/f\n+++ b/f\n@@ what @@\n", "not a hunk header"),
        ("@@ -1 +1 @@\n-a\n+b\n", "before any"),
        (
            "diff --git a/x b/x\nGIT binary patch\nliteral 1\n",
            "binary",
        ),
        (
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
            "binary",
        ),
        (
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            "without hunks",
        ),
        (
            "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n",
            "not the mode of a regular file",
        ),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copies"),
        (
            "--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n",
            "neither side",
        ),
        ("--- \"a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", "no name"),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+c\n",
            "changed twice",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -99999999999999999999 +1 @@\n-a\n",
            "not a hunk header",
        ),
    ] {
        let error = parse(patch).unwrap_err().to_string();
        assert!(error.contains(want), "{patch}: {error}");
    }
    let many: Vec<String> = (0..201)
        .map(|n| format!("--- a/{n}\n+++ b/{n}\n@@ -1 +1 @@\n-a\n+b\n"))
        .collect();
    let many = many.concat();
    assert_eq!(parse(&many), Err(ParseError::TooMany));
}

/// The diff of two texts, written by somebody else.
fn written(old: &str, new: &str) -> String {
    similar::TextDiff::from_lines(old, new)
        .unified_diff()
        .header("a/f", "b/f")
        .to_string()
}

proptest! {
    #[test]
    fn a_diff_turns_the_old_text_into_the_new(
        old in "([abc]{0,2}\n){0,12}[ab]{0,1}",
        new in "([abc]{0,2}\n){0,12}[ab]{0,1}",
    ) {
        let patch = written(&old, &new);
        prop_assume!(!patch.is_empty());
        prop_assert_eq!(applied(&patch, &old), Ok(new));
    }

    #[test]
    fn no_text_makes_it_panic(text in "(---|\\+\\+\\+|@@|diff --git|rename from|[ab/ ,\\-+\\\\\"\n0-9]){0,60}", old in "[ab\n]{0,20}") {
        if let Ok(files) = parse(&text) {
            for file in files {
                let _ = apply(&old, &file.hunks);
            }
        }
    }
}

#[test]
fn a_message_shows_no_part_of_a_secret() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";
    let key = format!(
        "-----BEGIN {0}-----\n{body}\n{body}\n-----END {0}-----\n",
        "PRIVATE KEY"
    );
    for before in 30..90 {
        let text = format!("{}\"{token}\"\n{key}", "-".repeat(before));
        for line in 1..=5 {
            let hunk = format!("{HEAD}@@ -{line} +{line} @@\n-wrong\n+x\n");
            let told = applied(&hunk, &text).unwrap_err();
            let told = airlock_sanitise::sanitise_line(&told, 2_000);
            assert!(told.contains(&format!("line {line} is")), "{told}");
            assert!(!told.contains("a1B2") && !told.contains("MIIE"), "{told}");
        }
    }
}
