//! The walk of searches finds the files that the `ignore` crate, ripgrep's own, finds.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_core::WorkspacePath;
use airlock_kernel::Root;
use airlock_kernel::tools::{ReadFilter, Registry, RunContext, Sanitiser};
use proptest::prelude::*;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

struct Everything;

impl ReadFilter for Everything {
    fn may_read(&self, _: &WorkspacePath) -> bool {
        true
    }
}

fn ours(root: &Path, start: &str, all: bool) -> Vec<String> {
    let root = Root::open(root).unwrap();
    let registry = Registry::built_in();
    let arguments = json!({"pattern": "**", "path": start, "all": all, "limit": 100_000});
    let prepared = registry
        .get("search.glob")
        .unwrap()
        .prepare(&arguments, &root)
        .unwrap();
    let context = RunContext {
        filter: &Everything,
        max_output: u64::MAX,
        cancelled: &AtomicBool::new(false),
        threads: 2,
        secrets: &Sanitiser::new(),
    };
    let value = prepared.run(&context).unwrap().value;
    let paths = value
        .get("paths")
        .and_then(|paths| paths.as_array())
        .unwrap();
    paths
        .iter()
        .map(|path| path.as_str().unwrap().to_owned())
        .collect()
}

/// Inside a repository exactly as ripgrep does it; elsewhere `.gitignore` counts all the same.
fn reference(root: &Path, all: bool) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(root)
        .standard_filters(!all)
        .parents(false)
        .git_global(false)
        .require_git(root.join(".git").exists())
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    let mut paths: Vec<String> = walk
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(|entry| {
            entry
                .path()
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    paths.sort();
    paths
}

fn build(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

const TREE: &[(&str, &str)] = &[
    ("a.log", ""),
    ("a.rs", ""),
    (".hidden", ""),
    (".github/ci.yml", ""),
    ("build/out.rs", ""),
    ("src/build/out.rs", ""),
    ("src/keep.log", ""),
    ("src/deep/a.log", ""),
    ("src/deep/er/b.rs", ""),
    ("src/name with space", ""),
    ("vendor/lib/a.rs", ""),
    ("vendor/lib/b.log", ""),
    ("vendor/lib/build", ""),
];

#[test]
fn each_kind_of_ignore_rule_leaves_out_what_ripgrep_leaves_out() {
    for (case, extra) in [
        ("none", vec![]),
        ("by extension", vec![(".gitignore", "*.log\n")]),
        ("anchored", vec![(".gitignore", "/build\n")]),
        ("directories only", vec![(".gitignore", "build/\n")]),
        ("negated", vec![(".gitignore", "*.log\n!keep.log\n")]),
        (
            "negated below",
            vec![(".gitignore", "*.log\n"), ("src/.gitignore", "!*.log\n")],
        ),
        (
            "nothing comes back from an ignored directory",
            vec![(".gitignore", "src/\n!src/keep.log\n")],
        ),
        (
            "star stars",
            vec![(".gitignore", "src/**/b.rs\n**/lib/*.rs\n")],
        ),
        ("middle slash", vec![(".gitignore", "src/build\n")]),
        (
            "comments, blanks, escapes",
            vec![(".gitignore", "# a.rs\n\n\\#x\nname\\ with\\ space\n  \n")],
        ),
        (
            "byte order mark and line ends",
            vec![(".gitignore", "\u{feff}*.log\r\n/build\r\n")],
        ),
        ("un-hidden", vec![(".gitignore", "!.hidden\n!.github\n")]),
        (
            "dot-ignore beats gitignore",
            vec![(".gitignore", "*.log\n"), (".ignore", "!a.log\n")],
        ),
        (
            "dot-ignore above beats gitignore below",
            vec![(".ignore", "*.rs\n"), ("src/.gitignore", "!*.rs\n")],
        ),
        (
            "exclude file",
            vec![(".git/info/exclude", "*.rs\n"), (".git/HEAD", "")],
        ),
        (
            "a repository inside starts anew",
            vec![
                (".gitignore", "*.rs\n"),
                (".git/HEAD", ""),
                ("vendor/lib/.git/HEAD", ""),
            ],
        ),
        (
            "broken lines are skipped",
            vec![(".gitignore", "a[\n{\n*.log\n")],
        ),
        ("everything", vec![(".gitignore", "*\n")]),
        ("everything but", vec![(".gitignore", "*\n!*/\n!*.rs\n")]),
    ] {
        let files: Vec<_> = TREE.iter().copied().chain(extra).collect();
        let directory = build(&files);
        let root = directory.path().canonicalize().unwrap();
        for all in [false, true] {
            assert_eq!(
                ours(&root, ".", all),
                reference(&root, all),
                "{case}, all: {all}"
            );
        }
    }
}

#[test]
fn a_search_below_the_root_still_obeys_the_ignore_files_above() {
    let mut files = TREE.to_vec();
    files.extend([
        (".gitignore", "*.log\n/src/build\n"),
        ("src/.ignore", "b.rs\n"),
    ]);
    let directory = build(&files);
    assert_eq!(
        ours(directory.path(), "src", false),
        ["src/name with space"]
    );
    assert_eq!(
        ours(directory.path(), "src/deep", false),
        Vec::<String>::new()
    );
    // Named outright, an ignored directory is searched.
    assert_eq!(
        ours(directory.path(), "src/build", false),
        ["src/build/out.rs"]
    );
}

#[test]
fn a_hostile_ignore_file_neither_hangs_nor_fails_the_walk() {
    let huge = "x{a,b}*[c-z]?/**/y\n".repeat(60_000);
    let directory = build(&[(".gitignore", &huge), ("a.rs", "")]);
    std::os::unix::fs::symlink("/etc/hostname", directory.path().join(".ignore")).unwrap();
    assert_eq!(ours(directory.path(), ".", false), ["a.rs"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_tree_gives_the_file_set_of_the_reference(
        files in prop::collection::vec("[ab.]{1,2}(/[ab]{1,2}){0,3}", 1..24),
        ignores in prop::collection::vec(
            ("([ab]{1,2}/){0,2}", "[.](git)?ignore", "(!?/?[ab*]{1,2}(/[ab*]{1,2})?/?\n){1,4}"),
            0..5,
        ),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let ignore_files = ignores.iter().map(|(folder, name, text)| (format!("{folder}{name}"), text.as_str()));
        for (path, text) in files.iter().map(|path| (path.clone(), "")).chain(ignore_files) {
            // A generated name may be `..`, or be a directory where another wants a file.
            if path.split('/').any(|name| name == "." || name == "..") {
                continue;
            }
            let path = root.join(path);
            if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                let _ = fs::write(path, text);
            }
        }
        prop_assert_eq!(ours(&root, ".", false), reference(&root, false));
        prop_assert_eq!(ours(&root, ".", true), reference(&root, true));
    }
}
