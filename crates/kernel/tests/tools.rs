//! The read-only tools: what they return, what they refuse, what they withhold.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use airlock_core::{RequestPath, WorkspacePath};
use airlock_kernel::Root;
use airlock_kernel::tools::{
    InvalidArguments, Prepared, ReadFilter, Registry, RunContext, ToolFailure, ToolOutput,
};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// Denies paths that are one of these or below.
struct Denying(&'static [&'static str]);

impl ReadFilter for Denying {
    fn may_read(&self, path: &WorkspacePath) -> bool {
        !self.0.iter().any(|denied| {
            path.as_str()
                .strip_prefix(denied)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

const NOTHING_DENIED: Denying = Denying(&[]);

struct Workspace {
    // The workspace is `w`; everything beside it is outside.
    outer: TempDir,
    root: Root,
}

impl Workspace {
    fn new(files: &[(&str, &str)]) -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("w")).unwrap();
        fs::write(outer.path().join("secret.txt"), "outside-secret\n").unwrap();
        let root = Root::open(&outer.path().join("w")).unwrap();
        let workspace = Self { outer, root };
        for (path, text) in files {
            workspace.write(path, text);
        }
        workspace
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.outer.path().join("w").join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.path(path)).unwrap();
    }

    fn prepare(
        &self,
        tool: &str,
        arguments: &Value,
    ) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let registry = Registry::built_in();
        registry.get(tool).unwrap().prepare(arguments, &self.root)
    }

    fn run(
        &self,
        tool: &str,
        arguments: &Value,
        filter: &dyn ReadFilter,
    ) -> Result<ToolOutput, ToolFailure> {
        let context = RunContext {
            filter,
            max_output: 1 << 20,
            cancelled: &AtomicBool::new(false),
            threads: 3,
        };
        self.prepare(tool, arguments).unwrap().run(&context)
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.run(tool, arguments, &NOTHING_DENIED)
            .unwrap_or_else(|failure| panic!("{tool} {arguments}: {failure}"))
            .value
    }

    fn failure(&self, tool: &str, arguments: &Value) -> &'static str {
        match self.run(tool, arguments, &NOTHING_DENIED) {
            Ok(output) => panic!("{tool} {arguments} gave {}", output.value),
            Err(failure) => failure.code(),
        }
    }

    fn decided_on(&self, tool: &str, arguments: &Value) -> Vec<String> {
        let prepared = self.prepare(tool, arguments).unwrap();
        prepared.paths().iter().map(ToString::to_string).collect()
    }

    fn glob(&self, arguments: &Value) -> Vec<String> {
        strings(&self.call("search.glob", arguments)["paths"])
    }
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().expect("an array");
    items
        .iter()
        .map(|item| item.as_str().expect("a string").to_owned())
        .collect()
}

fn entry_paths(value: &Value) -> Vec<String> {
    let entries = value["entries"].as_array().expect("entries");
    entries
        .iter()
        .map(|entry| entry["path"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_tool_describes_itself_truly() {
    let workspace = Workspace::new(&[("Cargo.toml", ""), ("src/main.rs", ""), ("backend/a", "")]);
    let registry = Registry::built_in();
    let names: Vec<_> = registry.list().map(|tool| tool.spec().name).collect();
    assert_eq!(
        names,
        [
            "fs.exists",
            "fs.list",
            "fs.read",
            "search.glob",
            "search.grep"
        ]
    );
    for tool in registry.list() {
        let spec = tool.spec();
        assert!(spec.read_only, "{}", spec.name);
        assert!(airlock_core::Syscall::parse(spec.syscall).is_ok());
        let schema = (spec.schema)();
        assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
        for example in spec.examples {
            let arguments = serde_json::from_str(example).unwrap();
            assert!(
                tool.prepare(&arguments, &workspace.root).is_ok(),
                "{example}"
            );
        }
        // Each property of the schema is known by name: only its type can be wrong.
        for property in schema["properties"].as_object().unwrap().keys() {
            let wrong = json!({ property: { "wrong": "type" } });
            let error = tool.prepare(&wrong, &workspace.root).err().unwrap();
            assert_eq!(&error.at, property, "{error}");
        }
    }
    let unknown = registry.get("fs.raed").err().unwrap();
    assert_eq!(unknown.suggestion, Some("fs.read"));
}

#[test]
fn wrong_arguments_say_where_what_and_how() {
    let workspace = Workspace::new(&[]);
    for (tool, arguments, at, what, fix) in [
        (
            "fs.read",
            json!({"pth": "a"}),
            "pth",
            "no argument `pth`",
            "`path`",
        ),
        ("fs.read", json!({}), "", "missing field `path`", "`path`"),
        ("fs.read", json!([]), "", "expected", "`path`"),
        ("fs.read", json!({"path": ""}), "path", "empty", "relative"),
        (
            "fs.read",
            json!({"path": "a\0b"}),
            "path",
            "NUL",
            "relative",
        ),
        (
            "fs.read",
            json!({"path": "a", "limit_lines": 0}),
            "limit_lines",
            "out of range",
            "1 to",
        ),
        (
            "fs.read",
            json!({"path": "a", "offset_line": -1}),
            "offset_line",
            "whole number",
            "",
        ),
        (
            "fs.list",
            json!({"depth": 33}),
            "depth",
            "out of range",
            "1 to 32",
        ),
        (
            "search.glob",
            json!({"pattern": "a[", "path": "."}),
            "pattern",
            "unclosed",
            "glob",
        ),
        (
            "search.glob",
            json!({"pattern": ""}),
            "pattern",
            "empty",
            "glob",
        ),
        (
            "search.grep",
            json!({"pattern": "ab(c"}),
            "pattern",
            "at character 3",
            "fixed",
        ),
        (
            "search.grep",
            json!({"pattern": "a\nb"}),
            "pattern",
            "not allowed",
            "one line",
        ),
        (
            "search.grep",
            json!({"pattern": ""}),
            "pattern",
            "empty",
            "search.glob",
        ),
        (
            "search.grep",
            json!({"pattern": "(\\w{999}){999}"}),
            "pattern",
            "size",
            "",
        ),
    ] {
        let error = workspace
            .prepare(tool, &arguments)
            .err()
            .unwrap_or_else(|| panic!("{arguments}"));
        assert_eq!(error.at, at, "{arguments}: {error}");
        assert!(error.what.contains(what), "{arguments}: {error}");
        assert!(
            error.hint().unwrap_or_default().contains(fix),
            "{arguments}: {:?}",
            error.fix
        );
    }
}

#[test]
fn a_file_is_read_by_lines_and_bounds() {
    let workspace = Workspace::new(&[("a.txt", "one\ntwo\nthree\nfour"), ("é.txt", "ééé")]);
    for (arguments, text, lines, truncated) in [
        (json!({"path": "a.txt"}), "one\ntwo\nthree\nfour", 4, false),
        (
            json!({"path": "a.txt", "offset_line": 2, "limit_lines": 2}),
            "two\nthree\n",
            2,
            true,
        ),
        (
            json!({"path": "a.txt", "offset_line": 3, "limit_lines": 2}),
            "three\nfour",
            2,
            false,
        ),
        (json!({"path": "a.txt", "offset_line": 9}), "", 0, false),
        (json!({"path": "a.txt", "max_bytes": 5}), "one\nt", 2, true),
        // The cut falls inside a character.
        (json!({"path": "é.txt", "max_bytes": 3}), "é", 1, true),
    ] {
        let value = workspace.call("fs.read", &arguments);
        assert_eq!(value["text"], json!(text), "{arguments}");
        assert_eq!(value["lines"], json!(lines), "{arguments}");
        assert_eq!(value["truncated"], json!(truncated), "{arguments}");
    }
    let absolute = json!({ "path": workspace.path("a.txt").canonicalize().unwrap() });
    assert_eq!(workspace.call("fs.read", &absolute)["path"], json!("a.txt"));
}

#[test]
fn a_binary_file_gives_its_digest_and_no_content() {
    let workspace = Workspace::new(&[]);
    workspace.write("nul", b"text\0more");
    workspace.write("invalid", b"\xff\xfe broken");
    for path in ["nul", "invalid"] {
        let value = workspace.call("fs.read", &json!({ "path": path }));
        assert_eq!(value["binary"], json!(true));
        assert!(value.get("text").is_none(), "{value}");
        let digest = airlock_core::Digest::of(&fs::read(workspace.path(path)).unwrap());
        assert_eq!(value["digest"], json!(digest.to_string()));
    }
}

#[test]
fn a_huge_file_costs_only_what_is_returned() {
    let workspace = Workspace::new(&[("huge", &"line\n".repeat(20_000))]);
    let huge = fs::OpenOptions::new()
        .write(true)
        .open(workspace.path("huge"))
        .unwrap();
    huge.set_len(1 << 40).unwrap();
    let value = workspace.call("fs.read", &json!({"path": "huge", "limit_lines": 3}));
    assert_eq!(value["text"], json!("line\nline\nline\n"));
    assert_eq!(value["total_bytes"], json!(1u64 << 40));
    // Past the text come zeros without end: reading stops at the first.
    let value = workspace.call("fs.read", &json!({"path": "huge", "offset_line": 30_000}));
    assert_eq!(value["binary"], json!(true));
    let value = workspace.call("search.grep", &json!({"pattern": "absent"}));
    assert_eq!(value["binary_files"], json!(1));
}

#[test]
fn no_symlink_leads_out() {
    let workspace = Workspace::new(&[("in/real.txt", "inside\n")]);
    let outside = workspace.outer.path().join("secret.txt");
    workspace.link(&outside, "absolute");
    workspace.link("../secret.txt", "relative");
    workspace.link("in/../../secret.txt", "winding");
    workspace.link("absolute", "chain");
    workspace.link(workspace.outer.path(), "directory");
    workspace.link("loop-b", "loop-a");
    workspace.link("loop-a", "loop-b");
    workspace.link("/proc/self/root", "magic");
    workspace.link("/proc/self/cwd", "cwd");
    let inner = outside.strip_prefix("/").unwrap().display().to_string();
    let through_magic = format!("magic/{inner}");
    for path in [
        "absolute",
        "relative",
        "winding",
        "chain",
        "directory/secret.txt",
        "loop-a",
        "cwd",
        "magic",
        &through_magic,
    ] {
        assert_eq!(
            fs::metadata(workspace.path(path)).is_ok(),
            path != "loop-a",
            "control: {path}"
        );
        for tool in ["fs.read", "fs.exists", "fs.list"] {
            assert_eq!(
                workspace.failure(tool, &json!({ "path": path })),
                "escapes",
                "{path}"
            );
        }
        let search = json!({ "pattern": "secret", "path": path });
        assert_eq!(
            workspace.failure("search.grep", &search),
            "escapes",
            "{path}"
        );
        assert_eq!(
            workspace.failure("search.glob", &search),
            "escapes",
            "{path}"
        );
    }
    for all in [true, false] {
        let found = workspace.call("search.grep", &json!({"pattern": "secret", "all": all}));
        assert_eq!(found["files"], json!([]));
        assert_eq!(
            workspace.glob(&json!({"pattern": "*", "all": all})),
            ["in/real.txt"]
        );
    }
    let listed = workspace.call("fs.list", &json!({"depth": 5}));
    assert!(!listed.to_string().contains("secret"), "{listed}");
}

#[test]
fn an_outside_path_reaches_the_decision_and_is_refused_anyway() {
    let workspace = Workspace::new(&[]);
    for path in ["/etc/hostname", "../secret.txt", "a/../../secret.txt"] {
        let arguments = json!({ "path": path });
        for tool in ["fs.read", "fs.exists", "fs.list"] {
            let prepared = workspace.prepare(tool, &arguments).unwrap();
            assert!(
                matches!(prepared.paths(), [RequestPath::Outside(_)]),
                "{path}"
            );
            assert_eq!(workspace.failure(tool, &arguments), "outside_workspace");
        }
    }
}

#[test]
fn the_decision_sees_the_real_path_too() {
    let workspace = Workspace::new(&[("secrets/key", "k"), ("docs/a.md", "a")]);
    workspace.link("secrets/key", "innocent");
    workspace.link("../secrets", "docs/more");
    for (tool, path, want) in [
        ("fs.read", "innocent", vec!["innocent", "secrets/key"]),
        (
            "fs.read",
            "docs/more/key",
            vec!["docs/more/key", "secrets/key"],
        ),
        ("fs.exists", "innocent", vec!["innocent", "secrets/key"]),
        ("fs.list", "docs/more", vec!["docs/more", "secrets"]),
        ("fs.read", "docs/a.md", vec!["docs/a.md"]),
        ("fs.read", "absent/x", vec!["absent/x"]),
    ] {
        assert_eq!(
            workspace.decided_on(tool, &json!({ "path": path })),
            want,
            "{tool} {path}"
        );
    }
    let search = json!({"path": "docs/more", "pattern": "k"});
    for tool in ["search.grep", "search.glob"] {
        assert_eq!(
            workspace.decided_on(tool, &search),
            ["docs/more", "secrets"]
        );
    }
}

#[test]
fn an_absent_file_is_judged_as_if_it_were_there() {
    let workspace = Workspace::new(&[("secrets/key", "k")]);
    let root = workspace.root.path().to_owned();
    workspace.link("secrets/absent", "dangling");
    workspace.link("secrets", "folder");
    workspace.link(format!("{root}/secrets"), "absolute");
    workspace.link("folder/../folder/x", "winding");
    workspace.link("../secret.txt", "out");
    for (path, want) in [
        ("secrets/absent", vec!["secrets/absent"]),
        ("dangling", vec!["dangling", "secrets/absent"]),
        ("folder/absent", vec!["folder/absent", "secrets/absent"]),
        (
            "folder/key/below",
            vec!["folder/key/below", "secrets/key/below"],
        ),
        (
            "absolute/absent/x",
            vec!["absolute/absent/x", "secrets/absent/x"],
        ),
        ("winding", vec!["winding", "secrets/x"]),
        ("out", vec!["out"]),
    ] {
        let decided = workspace.decided_on("fs.exists", &json!({ "path": path }));
        assert_eq!(decided, want, "{path}");
    }
}

#[test]
fn what_was_prepared_is_what_is_read() {
    let workspace = Workspace::new(&[("a", "first"), ("b", "second")]);
    let prepared = workspace.prepare("fs.read", &json!({"path": "a"})).unwrap();
    fs::rename(workspace.path("b"), workspace.path("a")).unwrap();
    let context = RunContext {
        filter: &NOTHING_DENIED,
        max_output: 100,
        cancelled: &AtomicBool::new(false),
        threads: 1,
    };
    assert_eq!(
        prepared.run(&context).unwrap().value["text"],
        json!("first")
    );
}

#[test]
fn a_living_file_may_be_called_deleted() {
    let workspace = Workspace::new(&[("x (deleted)", "alive")]);
    let read = json!({"path": "x (deleted)"});
    assert_eq!(workspace.call("fs.read", &read)["text"], json!("alive"));
    assert_eq!(workspace.decided_on("fs.read", &read), ["x (deleted)"]);
}

#[test]
fn special_files_are_neither_read_nor_waited_for() {
    let workspace = Workspace::new(&[("plain", "needle\n")]);
    let fifo = workspace.path("fifo");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workspace.path("socket")).unwrap();
    let mut special = vec!["fifo", "socket"];
    // Only the superuser can make a device; an ordinary user has one special file fewer to try.
    let device = rustix::fs::mknodat(
        rustix::fs::CWD,
        workspace.path("zero"),
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 5),
    );
    if device.is_ok() {
        special.push("zero");
    }
    for path in special {
        assert_eq!(
            workspace.failure("fs.read", &json!({ "path": path })),
            "not_a_file"
        );
        let search = json!({"path": path, "pattern": "x"});
        assert_eq!(workspace.failure("search.grep", &search), "not_a_file");
        let there = workspace.call("fs.exists", &json!({ "path": path }));
        assert_eq!(there["kind"], json!("other"));
    }
    let found = workspace.call("search.grep", &json!({"pattern": "needle"}));
    assert_eq!(found["matches"], json!(1));
    assert_eq!(workspace.glob(&json!({"pattern": "*"})), ["plain"]);
}

#[test]
fn the_wrong_kind_and_the_absent_are_told_apart() {
    let workspace = Workspace::new(&[("d/f", "x")]);
    for (tool, path, code) in [
        ("fs.read", "d", "not_a_file"),
        ("fs.read", "absent", "not_found"),
        ("fs.read", "d/f/below", "not_a_directory"),
        ("fs.list", "d/f", "not_a_directory"),
        ("fs.list", "absent", "not_found"),
    ] {
        assert_eq!(
            workspace.failure(tool, &json!({ "path": path })),
            code,
            "{tool} {path}"
        );
    }
    assert_eq!(
        workspace.failure("search.glob", &json!({"path": "d/f", "pattern": "*"})),
        "not_a_directory"
    );
    for (path, exists) in [("d", true), ("d/f", true), ("no", false), ("d/f/no", false)] {
        let value = workspace.call("fs.exists", &json!({ "path": path }));
        assert_eq!(value["exists"], json!(exists), "{path}");
    }
}

#[test]
fn unreadable_by_the_operating_system_is_reported_not_fatal() {
    let workspace = Workspace::new(&[
        ("shut/in", "needle"),
        ("file", "needle"),
        ("open", "needle"),
    ]);
    let mode = |path, mode| {
        fs::set_permissions(workspace.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("shut", 0);
    mode("file", 0);
    // The superuser reads everything: nothing to refuse, everything to find.
    let superuser = fs::read(workspace.path("file")).is_ok();
    let found = workspace.call("search.grep", &json!({"pattern": "needle"}));
    if superuser {
        assert_eq!(found["matches"], json!(3));
    } else {
        assert_eq!(
            workspace.failure("fs.read", &json!({"path": "file"})),
            "permission_denied"
        );
        assert_eq!(found["matches"], json!(1));
        assert_eq!(found["unreadable_files"], json!(1));
        assert_eq!(found["unreadable_directories"], json!(1));
    }
    mode("shut", 0o755);
}

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
        ("search.glob", json!({"pattern": "*.txt"}), 2),
        ("fs.list", json!({"depth": 4}), 1),
    ] {
        let output = workspace.run(tool, &arguments, &denying).unwrap();
        assert_eq!(
            output.hidden, hidden,
            "{tool} {arguments}: what is hidden may not depend on content"
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
fn a_link_to_a_name_no_rule_can_judge_is_refused() {
    let workspace = Workspace::new(&[]);
    fs::write(workspace.path("").join(OsStr::from_bytes(b"bad-\xff")), "x").unwrap();
    symlink(OsStr::from_bytes(b"bad-\xff"), workspace.path("good")).unwrap();
    assert_eq!(
        workspace.failure("fs.read", &json!({"path": "good"})),
        "unreadable_name"
    );
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
