//! What a path leads to, and what the decision sees of it.

use crate::support::{NOTHING_DENIED, Workspace};
use airlock_core::RequestPath;
use airlock_kernel::tools::{RunContext, Sanitiser};
use airlock_kernel::{Root, RootError};
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::AtomicBool;

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
        secrets: &Sanitiser::new(),
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
fn a_root_is_a_directory_with_a_readable_name() {
    let outer = tempfile::tempdir().unwrap();
    let real = outer.path().canonicalize().unwrap().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, outer.path().join("alias")).unwrap();
    let root = Root::open(&outer.path().join("alias")).unwrap();
    assert_eq!(root.path(), real.to_str().unwrap());

    let strange = outer.path().join(OsStr::from_bytes(b"strange-\xff"));
    fs::create_dir(&strange).unwrap();
    assert!(matches!(
        Root::open(&strange),
        Err(RootError::NotUtf8 { .. })
    ));
    fs::write(outer.path().join("file"), "").unwrap();
    for absent in ["file", "nothing"] {
        let opened = Root::open(&outer.path().join(absent));
        assert!(matches!(opened, Err(RootError::Io { .. })), "{absent}");
    }
}

#[test]
fn a_file_removed_or_moved_out_after_it_was_reached_is_still_the_one_judged() {
    let workspace = Workspace::new(&[("a", "mine"), ("b", "mine")]);
    let gone = workspace.prepare("fs.read", &json!({"path": "a"})).unwrap();
    let moved = workspace.prepare("fs.read", &json!({"path": "b"})).unwrap();
    fs::remove_file(workspace.path("a")).unwrap();
    fs::rename(workspace.path("b"), workspace.outer.path().join("b")).unwrap();
    let context = RunContext {
        filter: &NOTHING_DENIED,
        max_output: 100,
        cancelled: &AtomicBool::new(false),
        threads: 1,
        secrets: &Sanitiser::new(),
    };
    for prepared in [gone, moved] {
        assert_eq!(prepared.run(&context).unwrap().value["text"], json!("mine"));
    }
    assert_eq!(
        workspace.failure("fs.read", &json!({"path": "a"})),
        "not_found"
    );
    assert_eq!(
        workspace.failure("fs.read", &json!({"path": "b"})),
        "not_found"
    );
}
