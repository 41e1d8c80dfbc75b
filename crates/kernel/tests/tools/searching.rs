//! What listings and searches find, withhold and leave out.

use crate::support::{Denying, NOTHING_DENIED, Workspace, entry_paths};
use airlock_kernel::tools::{RunContext, Sanitiser, ToolFailure};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicBool;

#[test]
fn what_policy_denies_is_counted_and_never_shown() {
    let workspace = Workspace::new(&[
        ("a.txt", "needle\n"),
        ("secrets/key.txt", "needle\n"),
        ("secrets/deep/er.txt", "other\n"),
        ("z.txt", "needle\n"),
    ]);
    let denying = Denying(&["secrets"]);
    for (tool, arguments, hidden) in [
        ("search.grep", json!({"pattern": "needle"}), 2),
        ("search.grep", json!({"pattern": "absent"}), 2),
        (
            "search.grep",
            json!({"pattern": "needle", "files_only": true}),
            2,
        ),
        ("search.glob", json!({"pattern": "*.txt"}), 0),
        ("fs.list", json!({"depth": 4}), 1),
    ] {
        let output = workspace.run(tool, &arguments, &denying).unwrap();
        assert_eq!(
            output.hidden, hidden,
            "{tool} {arguments}: what is hidden may depend on neither content nor names"
        );
        let text = output.value.to_string();
        assert!(
            !text.contains("secrets") && !text.contains("key"),
            "{tool}: {text}"
        );
        let control = workspace.call(tool, &arguments).to_string();
        assert!(
            control.contains("secrets") || arguments["pattern"] == "absent",
            "{control}"
        );
    }
}

#[test]
fn matches_come_in_order_with_context_and_bounds() {
    let long = format!("needle {}\n", "x".repeat(2_000));
    let workspace = Workspace::new(&[
        ("b.rs", "one\nneedle two\nthree\n"),
        ("a/z.rs", "Needle\nneedles\n"),
        ("c.txt", &long),
    ]);
    let lines = |arguments: Value| -> Vec<(String, u64)> {
        let value = workspace.call("search.grep", &arguments);
        let files = value["files"].as_array().unwrap().clone();
        files
            .iter()
            .flat_map(|file| {
                let path = file["path"].as_str().unwrap().to_owned();
                let lines = file["lines"].as_array().unwrap().clone();
                lines
                    .into_iter()
                    .map(move |line| (path.clone(), line["line"].as_u64().unwrap()))
            })
            .collect()
    };
    let at = |path: &str, line| (path.to_owned(), line);
    for (arguments, want) in [
        (
            json!({"pattern": "needle"}),
            vec![at("a/z.rs", 2), at("b.rs", 2), at("c.txt", 1)],
        ),
        (
            json!({"pattern": "needle", "ignore_case": true, "glob": "*.rs"}),
            vec![at("a/z.rs", 1), at("a/z.rs", 2), at("b.rs", 2)],
        ),
        (
            json!({"pattern": "needle", "word": true, "glob": "!*.txt"}),
            vec![at("b.rs", 2)],
        ),
        (
            json!({"pattern": "n.*e$", "path": "b.rs"}),
            vec![at("b.rs", 1)],
        ),
        (json!({"pattern": "e.d", "fixed": true}), vec![]),
        (
            json!({"pattern": "two", "context": 1}),
            vec![at("b.rs", 1), at("b.rs", 2), at("b.rs", 3)],
        ),
    ] {
        assert_eq!(lines(arguments.clone()), want, "{arguments}");
    }
    let cut = workspace.call(
        "search.grep",
        &json!({"pattern": "needle", "path": "c.txt"}),
    );
    let line = &cut["files"][0]["lines"][0];
    assert_eq!(line["cut"], json!(true));
    assert_eq!(line["text"].as_str().unwrap().len(), 500);
    let files = workspace.call(
        "search.grep",
        &json!({"pattern": "needle", "files_only": true}),
    );
    assert_eq!(
        files["files"],
        json!([{"path": "a/z.rs"}, {"path": "b.rs"}, {"path": "c.txt"}])
    );
}

#[test]
fn a_bounded_search_gives_the_first_matches_whoever_was_faster() {
    let workspace = Workspace::new(&[]);
    for directory in 0..30 {
        for file in 0..10 {
            workspace.write(&format!("d{directory:02}/f{file}"), "hit\nhit\n");
        }
    }
    for round in 0..20 {
        let value = workspace.call("search.grep", &json!({"pattern": "hit", "max_matches": 5}));
        let paths: Vec<_> = value["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["path"].as_str().unwrap())
            .collect();
        assert_eq!(paths, ["d00/f0", "d00/f1", "d00/f2"], "round {round}");
        assert_eq!(
            (&value["matches"], &value["truncated"]),
            (&json!(5), &json!(true))
        );
    }
    let value = workspace.call(
        "search.grep",
        &json!({"pattern": "hit", "max_matches": 600}),
    );
    assert_eq!(
        (&value["matches"], &value["truncated"]),
        (&json!(600), &json!(false))
    );
    let value = workspace.call("search.glob", &json!({"pattern": "f9", "limit": 2}));
    assert_eq!(value["paths"], json!(["d00/f9", "d01/f9"]));
    assert_eq!(value["truncated"], json!(true));
}

#[test]
fn output_stays_within_what_the_caller_may_get() {
    let workspace = Workspace::new(&[("big.txt", &"needle in hay\n".repeat(5_000))]);
    for file in 0..500 {
        workspace.write(&format!("many/file-{file:04}"), "x");
    }
    let context = RunContext {
        filter: &NOTHING_DENIED,
        max_output: 2_000,
        cancelled: &AtomicBool::new(false),
        threads: 2,
        secrets: &Sanitiser::new(),
    };
    for (tool, arguments) in [
        ("fs.read", json!({"path": "big.txt"})),
        ("fs.list", json!({"path": "many"})),
        ("search.glob", json!({"pattern": "*"})),
        (
            "search.grep",
            json!({"pattern": "needle", "max_matches": 5_000}),
        ),
    ] {
        let output = workspace
            .prepare(tool, &arguments)
            .unwrap()
            .run(&context)
            .unwrap();
        assert_eq!(output.value["truncated"], json!(true), "{tool}");
        assert!(output.value.to_string().len() < 10_000, "{tool}");
    }
    let greedy = json!({"pattern": ".", "context": 20, "max_matches": 100_000});
    let output = workspace
        .prepare("search.grep", &greedy)
        .unwrap()
        .run(&context)
        .unwrap();
    assert_eq!(output.value["truncated"], json!(true));
    assert_eq!(output.value["files"][0]["path"], json!("big.txt"));
    assert!(output.value.to_string().len() < 10_000);
}

#[test]
fn a_cancelled_call_gives_nothing() {
    let workspace = Workspace::new(&[("a", "x\n")]);
    let context = RunContext {
        filter: &NOTHING_DENIED,
        max_output: 1_000,
        cancelled: &AtomicBool::new(true),
        threads: 2,
        secrets: &Sanitiser::new(),
    };
    for (tool, arguments) in [
        ("fs.read", json!({"path": "a"})),
        ("fs.list", json!({})),
        ("search.glob", json!({"pattern": "*"})),
        ("search.grep", json!({"pattern": "x"})),
        ("search.grep", json!({"pattern": "x", "path": "a"})),
    ] {
        let outcome = workspace.prepare(tool, &arguments).unwrap().run(&context);
        assert!(matches!(outcome, Err(ToolFailure::Cancelled)), "{tool}");
    }
}

#[test]
fn strange_names_are_data() {
    let names = [
        "new\nline",
        "\u{1b}[31mred",
        "überall-日本",
        "back\\slash",
        "-rf",
        " space ",
        "{a,b}",
    ];
    let workspace = Workspace::new(&[]);
    for name in names {
        workspace.write(name, "needle\n");
    }
    fs::write(
        workspace.path("").join(OsStr::from_bytes(b"bad-\xff")),
        "needle\n",
    )
    .unwrap();
    let mut sorted: Vec<String> = names.iter().map(ToString::to_string).collect();
    sorted.sort();
    assert_eq!(workspace.glob(&json!({"pattern": "*"})), sorted);
    let found = workspace.call("search.grep", &json!({"pattern": "needle"}));
    assert_eq!(
        (&found["matches"], &found["unreadable_names"]),
        (&json!(names.len()), &json!(1))
    );
    let listed = workspace.call("fs.list", &json!({}));
    let entries = listed["entries"].as_array().unwrap();
    let bad: Vec<_> = entries
        .iter()
        .filter(|entry| entry["unreadable_name"] == json!(true))
        .collect();
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0]["path"], json!("bad-\\xff"));
    for name in names {
        assert_eq!(
            workspace.call("fs.read", &json!({ "path": name }))["text"],
            json!("needle\n"),
            "{name:?}"
        );
    }
}

#[test]
fn listings_are_sorted_sized_and_as_deep_as_asked() {
    let workspace = Workspace::new(&[
        ("b.txt", "12345"),
        ("a/inner/deep.txt", ""),
        (".hidden", ""),
        (".git/config", ""),
        ("built/out", ""),
        (".gitignore", "/built\n"),
    ]);
    workspace.link("b.txt", "link");
    let paths = |arguments: Value| entry_paths(&workspace.call("fs.list", &arguments));
    assert_eq!(paths(json!({})), ["a", "b.txt", "link"]);
    assert_eq!(
        paths(json!({"depth": 3})),
        ["a", "a/inner", "a/inner/deep.txt", "b.txt", "link"]
    );
    assert_eq!(
        paths(json!({"all": true})),
        [".gitignore", ".hidden", "a", "b.txt", "built", "link"]
    );
    assert_eq!(paths(json!({"path": "a/inner"})), ["a/inner/deep.txt"]);
    let listed = workspace.call("fs.list", &json!({}));
    assert_eq!(
        listed["entries"][1],
        json!({"path": "b.txt", "kind": "file", "size": 5})
    );
    assert_eq!(
        listed["entries"][2],
        json!({"path": "link", "kind": "symlink"})
    );
}

#[test]
fn ten_thousand_entries_are_listed_and_found() {
    let workspace = Workspace::new(&[]);
    for file in 0..10_000 {
        fs::write(workspace.path(&format!("f{file:05}")), "").unwrap();
    }
    let listed = workspace.call("fs.list", &json!({}));
    assert_eq!(listed["entries"].as_array().unwrap().len(), 10_000);
    assert_eq!(
        workspace
            .glob(&json!({"pattern": "*", "limit": 20_000}))
            .len(),
        10_000
    );
}

#[test]
fn a_tree_two_thousand_levels_deep_uses_up_neither_stack_nor_descriptors() {
    let workspace = Workspace::new(&[("top", "needle\n")]);
    let mode = rustix::fs::Mode::from_raw_mode(0o755);
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
    let mut directory = rustix::fs::open(workspace.path(""), flags, mode).unwrap();
    // A sibling at each level: holding one descriptor for each would use up any usual limit.
    for _ in 0..2_000 {
        rustix::fs::mkdirat(&directory, "s", mode).unwrap();
        rustix::fs::mkdirat(&directory, "d", mode).unwrap();
        directory = rustix::fs::openat(&directory, "d", flags, mode).unwrap();
    }
    let create = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let file = rustix::fs::openat(&directory, "bottom", create, mode).unwrap();
    rustix::io::write(&file, b"needle\n").unwrap();
    let found = workspace.glob(&json!({"pattern": "*"}));
    assert_eq!(found.len(), 2);
    assert!(
        found[0].ends_with("d/bottom") && found[0].len() == 4_006,
        "{}",
        found[0].len()
    );
    let found = workspace.call("search.grep", &json!({"pattern": "needle"}));
    assert_eq!(found["matches"], json!(2));
}
