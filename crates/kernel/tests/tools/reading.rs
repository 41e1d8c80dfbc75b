//! What tools say of themselves, their arguments and one file.

use crate::support::Workspace;
use airlock_kernel::Front;
use airlock_kernel::tools::Registry;
use proptest::prelude::*;
use serde_json::json;
use std::fs;

#[test]
fn every_tool_describes_itself_truly() {
    let workspace = Workspace::new(&[("Cargo.toml", ""), ("src/main.rs", ""), ("backend/a", "")]);
    let registry = Registry::built_in();
    let names: Vec<_> = registry.list().map(|tool| tool.spec().name).collect();
    assert!(names.is_sorted() && names.len() == 16, "{names:?}");
    let changes = [
        "exec.run",
        "fs.delete",
        "fs.move",
        "fs.patch",
        "fs.write",
        "git.commit",
        "shell.run",
        "test.run",
    ];
    for tool in registry.list() {
        let spec = tool.spec();
        let read_only = !changes.contains(&spec.name);
        assert_eq!(spec.read_only, read_only, "{}", spec.name);
        assert!(airlock_core::Syscall::parse(spec.syscall).is_ok());
        let schema = spec.schema.get();
        assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
        for example in spec.examples {
            let arguments = serde_json::from_str(example).unwrap();
            assert!(
                tool.prepare(&arguments, &workspace.root).is_ok(),
                "{example}"
            );
        }
        // Each property of the schema is known by name: only its type can be wrong.
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (property, _) in properties {
            let wrong = json!({ property: 1.5 });
            let error = tool.prepare(&wrong, &workspace.root).err().unwrap();
            assert_eq!(&error.at, property, "{error}");
        }
    }
    assert!(registry.get("fs.raed").is_err());
    assert_eq!(registry.nearest(Front::Agent, "fs.raed"), Some("fs.read"));
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
fn lines_longer_than_any_buffer_are_counted_once() {
    let long = "x".repeat(150_000);
    let workspace = Workspace::new(&[("long", &format!("{long}\n{long}y\nlast\n"))]);
    let read = json!({"path": "long", "offset_line": 2, "limit_lines": 1, "max_bytes": 200_000});
    let value = workspace.call("fs.read", &read);
    assert_eq!(value["text"], json!(format!("{long}y\n")));
    let value = workspace.call("fs.read", &json!({"path": "long", "offset_line": 3}));
    assert_eq!(value["text"], json!("last\n"));
}

proptest! {
    #[test]
    fn a_window_is_what_splitting_the_whole_file_gives(
        text in "[aé\n]{0,120}",
        first in 1usize..12,
        lines in 1usize..12,
        bytes in 1usize..60,
    ) {
        let workspace = Workspace::new(&[("f", &text)]);
        let read = json!({"path": "f", "offset_line": first, "limit_lines": lines, "max_bytes": bytes});
        let value = workspace.call("fs.read", &read);
        let wanted: String = text.split_inclusive('\n').skip(first - 1).take(lines).collect();
        let more = text.split_inclusive('\n').count() >= first + lines;
        let truncated = more || wanted.len() > bytes;
        prop_assert_eq!(&value["truncated"], &json!(truncated));
        let fitting = wanted.get(..wanted.floor_char_boundary(bytes)).unwrap();
        prop_assert_eq!(&value["text"], &json!(fitting));
    }
}
