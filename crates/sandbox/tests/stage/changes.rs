//! Every kind of change is found, and nothing else.

use super::support::{Bench, is_root, lines, on_every_overlay};
use airlock_sandbox::stage::{ChangeKind, Content, DiffOptions, Line, NodeKind, StageKind};
use std::path::Path;

/// A case: what it is about, the tree before, what happens inside, and what the diff must say.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const CASES: &[Case] = &[
    ("nothing", "echo a >a", ":", &[]),
    ("read", "echo a >a", "cat a", &[]),
    ("add", "", "echo a >a", &["added a"]),
    ("add empty", "", ": >a", &["added a"]),
    ("modify", "echo a >a", "echo b >>a", &["modified a"]),
    ("replace", "echo a >a", "echo b >x; mv x a", &["modified a"]),
    ("delete", "echo a >a", "rm a", &["deleted a"]),
    ("delete added", "", "echo a >a; rm a", &[]),
    ("touch", "echo a >a", "touch a", &[]),
    ("write back", "echo a >a", "echo b >a; echo a >a", &[]),
    ("put back", "echo a >a", "rm a; echo a >a", &[]),
    ("chmod", "echo a >a", "chmod 755 a", &["mode a"]),
    ("chmod back", "echo a >a", "chmod 755 a; chmod 644 a", &[]),
    (
        "modify and chmod",
        "echo a >a",
        "echo b >a; chmod 755 a",
        &["modified a"],
    ),
    ("rename", "echo a >a", "mv a b", &["renamed a b"]),
    (
        "rename and chmod",
        "echo a >a",
        "mv a b; chmod 755 b",
        &["renamed a b"],
    ),
    (
        "rename over",
        "echo a >a; echo b >b",
        "mv a b",
        &["deleted a", "modified b"],
    ),
    (
        "rename and refill",
        "echo a >a",
        "mv a b; echo c >a",
        &["modified a", "added b"],
    ),
    (
        "rename and modify",
        "echo a >a",
        "mv a b; echo c >b",
        &["deleted a", "added b"],
    ),
    ("copy", "echo a >a", "cp a b", &["added b"]),
    (
        "empty files are not renames",
        ": >a",
        "rm a; : >b",
        &["deleted a", "added b"],
    ),
    (
        "an empty file of the same name is",
        ": >a",
        "mkdir d; mv a d/a",
        &["added d", "renamed a d/a"],
    ),
    ("empty directory", "", "mkdir d", &["added d"]),
    (
        "directory",
        "",
        "mkdir d; echo a >d/a",
        &["added d", "added d/a"],
    ),
    (
        "remove directory",
        "mkdir d; echo a >d/a",
        "rm -r d",
        &["deleted d", "deleted d/a"],
    ),
    (
        "chmod directory",
        "mkdir d; echo a >d/a",
        "chmod 700 d",
        &["mode d"],
    ),
    (
        "within directory",
        "mkdir d; echo a >d/a",
        "echo b >d/a",
        &["modified d/a"],
    ),
    (
        "rename directory",
        "mkdir -p d/s; echo a >d/a; echo b >d/s/b; : >d/s/e",
        "mv d n",
        &[
            "renamed d n",
            "renamed d/a n/a",
            "renamed d/s n/s",
            "renamed d/s/b n/s/b",
            "renamed d/s/e n/s/e",
        ],
    ),
    (
        "rename part of a directory",
        "mkdir d; echo a >d/a; echo b >d/b",
        "mkdir n; mv d/a n",
        &["added n", "renamed d/a n/a"],
    ),
    (
        "replace directory",
        "mkdir -p d/s; echo a >d/a; echo b >d/s/b; echo c >d/c",
        "rm -r d; mkdir d; echo n >d/n; mkdir d/s; echo a >d/a",
        &["deleted d/c", "added d/n", "deleted d/s/b"],
    ),
    (
        "replace directory twice removed",
        "mkdir -p d/s/t; echo a >d/s/t/a; echo k >d/s/k",
        "rm -r d; mkdir -p d/s/t; echo a >d/s/t/b",
        &["deleted d/s/k", "renamed d/s/t/a d/s/t/b"],
    ),
    ("symlink", "", "ln -s nowhere l", &["added l"]),
    (
        "symlink elsewhere",
        "ln -s a l",
        "ln -sfn b l",
        &["modified l"],
    ),
    (
        "symlink the same",
        "ln -s a l",
        "ln -sfn b l; ln -sfn a l",
        &[],
    ),
    ("symlink renamed", "ln -s a l", "mv l k", &["renamed l k"]),
    ("symlink touched", "ln -s a l", "touch -h l", &[]),
    ("file to symlink", "echo a >a", "ln -sf b a", &["type a"]),
    (
        "symlink to file",
        "ln -s b a",
        "rm a; echo a >a",
        &["type a"],
    ),
    (
        "file to directory",
        "echo a >a",
        "rm a; mkdir a; echo b >a/b",
        &["type a", "added a/b"],
    ),
    (
        "directory to file",
        "mkdir -p a/s; echo b >a/s/b",
        "rm -r a; echo a >a",
        &["type a", "deleted a/s", "deleted a/s/b"],
    ),
    (
        "directory to symlink to it",
        "mkdir a b; echo x >a/x; echo x >b/y",
        "rm -r a; ln -s b a",
        &["type a", "deleted a/x"],
    ),
    (
        "delete and delete again",
        "mkdir d; echo a >d/a",
        "rm d/a; rmdir d",
        &["deleted d", "deleted d/a"],
    ),
    ("hard link", "echo a >a", "ln a b", &["added b"]),
];

#[test]
fn each_kind_of_change_is_named_and_nothing_else() {
    for (case, prepare, script, want) in CASES {
        on_every_overlay(prepare, |bench| {
            bench.inside(script);
            let diff = bench.diff();
            assert_eq!(lines(&diff), *want, "{case}");
            assert_eq!(diff.kind, StageKind::Overlay);
            assert!(diff.refused.is_empty(), "{case}: {:?}", diff.refused);
            assert!(diff.conflicts.is_empty(), "{case}: {:?}", diff.conflicts);
        });
    }
}

#[test]
fn a_stage_goes_on_where_it_stopped() {
    on_every_overlay("echo a >a; mkdir d; echo b >d/b", |bench| {
        bench.inside("echo b >>a; rm -r d");
        bench.inside("mkdir d; echo c >d/c");
        bench.inside("test ! -e d/b; grep -q b a; rm a");
        let want = ["deleted a", "deleted d/b", "added d/c"];
        assert_eq!(lines(&bench.diff()), want);
    });
}

#[test]
fn content_is_text_binary_or_too_large() {
    on_every_overlay("printf 'a\\nb' >text; printf 'a\\0' >bytes", |bench| {
        bench.inside(
            "printf 'a\\nc' >text; printf 'b\\0' >bytes; printf 'caf\\351' >latin; \
             head -c 3000 /dev/zero | tr '\\0' x >long; truncate -s 8T hole",
        );
        let options = DiffOptions {
            max_text_bytes: 1000,
            ..DiffOptions::default()
        };
        let diff = bench.stage.diff(&options).unwrap();
        let of = |path: &str| {
            let found = diff
                .changes
                .iter()
                .find(|c| c.path.as_path() == Path::new(path));
            found.unwrap().clone()
        };
        let Content::Text { hunks } = of("text").content else {
            panic!("{:?}", of("text"));
        };
        assert_eq!(hunks.len(), 1);
        let want = [
            Line::Same("a\n".into()),
            Line::Removed("b".into()),
            Line::Added("c".into()),
        ];
        assert_eq!(hunks[0].lines, want);
        for path in ["bytes", "latin"] {
            assert_eq!(of(path).content, Content::Binary, "{path}");
        }
        // Read, and known by its digest, but more than anybody is shown.
        let long = of("long");
        assert_eq!(long.content, Content::TooLarge);
        assert_eq!(
            long.new.unwrap().sha256,
            Some(airlock_core::Digest::of(&[b'x'; 3000]))
        );
        let bytes = of("bytes");
        let digest = |bytes| Some(airlock_core::Digest::of(bytes));
        assert_eq!(bytes.old.unwrap().sha256, digest(b"a\0"));
        assert_eq!(bytes.new.unwrap().sha256, digest(b"b\0"));
        // Eight terabytes of nothing are not read.
        let hole = of("hole");
        assert_eq!(hole.content, Content::TooLarge);
        let hole = hole.new.unwrap();
        assert_eq!((hole.size, hole.sha256), (8 << 40, None));
    });
}

#[test]
fn short_files_are_read_whatever_the_long_ones_come_to() {
    on_every_overlay("", |bench| {
        bench.inside(
            "for name in long-1 long-2; do head -c 3000 /dev/zero >$name; done; \
             head -c 4001 /dev/zero >too-long; for name in a b c d; do head -c 100 /dev/zero >$name; done",
        );
        let options = DiffOptions {
            max_file_bytes: 4000,
            always_read_bytes: 100,
            max_total_bytes: 5999,
            ..DiffOptions::default()
        };
        let diff = bench.stage.diff(&options).unwrap();
        let read = |start: &str| {
            let named = diff.changes.iter().filter(|change| {
                let name = change.path.as_path().to_str().unwrap();
                name.starts_with(start)
            });
            named
                .filter(|change| change.new.as_ref().unwrap().sha256.is_some())
                .count()
        };
        let all = ["a", "b", "c", "d"].map(read);
        assert_eq!(all, [1; 4]);
        assert_eq!(read("long-"), 1, "the second is too much");
        assert_eq!(read("too-long"), 0);
    });
}

#[test]
fn both_sides_of_a_change_have_their_facts() {
    on_every_overlay("echo a >a; chmod 640 a; ln -s x l", |bench| {
        bench.inside("chmod 755 a; mv a b; ln -sfn y l");
        let diff = bench.diff();
        let [renamed, link] = &diff.changes[..] else {
            panic!("{diff:?}");
        };
        let from = Path::new("a").into();
        assert_eq!(renamed.kind, ChangeKind::Renamed { from });
        let (old, new) = (renamed.old.as_ref().unwrap(), renamed.new.as_ref().unwrap());
        assert_eq!((old.mode, new.mode), (0o640, 0o755));
        assert_eq!((old.size, old.sha256), (new.size, new.sha256));
        let target = |facts: &Option<airlock_sandbox::stage::Facts>| {
            let facts = facts.as_ref().unwrap();
            assert_eq!(facts.kind, NodeKind::Symlink);
            facts.target.as_ref().unwrap().as_path().to_owned()
        };
        assert_eq!(target(&link.old), Path::new("x"));
        assert_eq!(target(&link.new), Path::new("y"));
    });
}

#[test]
fn hard_links_are_told_and_stay_files() {
    on_every_overlay("", |bench| {
        bench.inside("echo a >a; ln a b; echo c >c");
        let linked = bench
            .diff()
            .changes
            .iter()
            .map(|change| change.hard_linked)
            .collect::<Vec<_>>();
        assert_eq!(linked, [true, true, false]);
    });
}

#[test]
fn what_a_diff_looks_at_depends_on_the_changes_only() {
    let small = "mkdir -p t/d; echo a >t/d/a";
    // A directory of many, so that listing any of it would show.
    let large = "mkdir -p t/d; echo a >t/d/a; cd t; \
                 seq 1 3000 | sed 's/^/f/' | xargs touch; seq 1 3000 | sed 's/^/d/' | xargs mkdir";
    let script = "echo b >t/d/a; echo n >t/n; mv t/d/a t/d/b";
    let visited = [small, large].map(|prepare| {
        let bench = Bench::new(prepare, airlock_sandbox::stage::Marks::User);
        bench.inside(script);
        bench.diff().visited
    });
    assert_eq!(visited[0], visited[1]);
    assert!(visited[0] < 20, "{visited:?}");
}

#[test]
fn more_changes_than_allowed_are_an_error_with_the_figure() {
    on_every_overlay("mkdir d; cd d; seq 1 200 | xargs touch", |bench| {
        bench.inside("rm -r d");
        let options = DiffOptions {
            max_entries: 100,
            ..DiffOptions::default()
        };
        let error = bench.stage.diff(&options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the stage changed more than 100 files and directories"
        );
        assert_eq!(bench.diff().changes.len(), 201);
    });
}

#[test]
fn json_keeps_every_byte_of_a_path() {
    on_every_overlay("", |bench| {
        bench.inside("echo a >\"$(printf 'x\\377')\"; echo a >\"$(printf 'n\\nl')\"");
        let json: serde_json::Value =
            serde_json::from_str(&bench.diff().to_json().unwrap()).unwrap();
        let paths = json["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["path"].clone())
            .collect::<Vec<_>>();
        assert_eq!(paths[0], "n\nl");
        assert_eq!(paths[1]["hex"], "78ff");
        assert_eq!(json["changes"][0]["change"], "added");
        assert_eq!(json["changes"][0]["content"]["form"], "text");
    });
}

#[test]
fn an_unreadable_file_is_refused_and_not_taken_for_something_else() {
    if is_root() {
        // Root reads everything: then it is an ordinary file.
        on_every_overlay("", |bench| {
            bench.inside("echo a >a; chmod 0 a; mkdir d; echo b >d/b; chmod 0 d");
            assert_eq!(lines(&bench.diff()), ["added a", "added d", "added d/b"]);
        });
        return;
    }
    on_every_overlay("", |bench| {
        bench.inside("echo a >a; chmod 0 a; mkdir d; echo b >d/b; chmod 0 d");
        let diff = bench.diff();
        assert_eq!(lines(&diff), ["added d"]);
        let refused = diff.refused.iter().map(|r| r.path.as_path());
        assert_eq!(
            refused.collect::<Vec<_>>(),
            [Path::new("a"), Path::new("d")]
        );
    });
}
