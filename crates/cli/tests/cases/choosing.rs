//! Some of what waits and not the rest: by flags and by asking, file by file and hunk by hunk, down
//! to the byte.

use crate::support::{Ran, Typed, World, answering, at_terminal};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

/// What the workspace holds besides git's and Airlock's own: bytes, modes and links.
type Tree = BTreeMap<String, Held>;

/// A mode, and bytes.
type Held = (u32, Vec<u8>);

fn tree(world: &World) -> Tree {
    let root = world.workspace();
    let mut found = Tree::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let facts = std::fs::symlink_metadata(&path).unwrap();
            if [".git", ".airlock"].contains(&name.as_str()) {
                continue;
            }
            let bits = facts.permissions().mode() & 0o777;
            let held = if facts.is_dir() {
                open.push(path);
                b"a directory".to_vec()
            } else if facts.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                format!("a link to {}", target.display()).into_bytes()
            } else {
                std::fs::read(&path).unwrap()
            };
            found.insert(name, (bits, held));
        }
    }
    found
}

fn numbered(changed: &[usize]) -> String {
    let line = |number: usize| {
        if changed.contains(&number) {
            format!("changed {number}\n")
        } else {
            format!("line {number}\n")
        }
    };
    (1..=60).map(line).collect()
}

/// Where the three hunks of `text` are.
const HUNKS: [usize; 3] = [1, 30, 60];

/// A file that everybody may read, whatever the umask.
fn plain(world: &World, name: &str, text: &str) {
    let path = world.write(name, text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
}

/// A change of every kind, waiting.
fn changed() -> World {
    let world = World::project();
    for (name, text) in [
        ("text", numbered(&[]).as_str()),
        ("bytes", "\0\u{1}old"),
        ("gone", "here\n"),
        ("tool", "#!/bin/sh\n"),
        ("turns", "a file\n"),
    ] {
        plain(&world, name, text);
    }
    std::os::unix::fs::symlink("text", world.workspace().join("link")).unwrap();
    let script = "umask 022\nsed -i -e '1s/line/changed/' -e '30s/line/changed/' -e '60s/line/changed/' text\n\
        printf '\\000\\377new' >bytes\nrm gone\nchmod 755 tool\nrm turns; ln -s tool turns\n\
        ln -sfn bytes link\nmkdir fresh; echo new >fresh/file; echo alone >added\n";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world
}

/// What everything comes to.
fn all() -> Vec<(&'static str, Option<Held>)> {
    let file = |mode: u32, bytes: &[u8]| Some((mode, bytes.to_vec()));
    vec![
        ("added", file(0o644, b"alone\n")),
        ("bytes", file(0o644, b"\0\xffnew")),
        ("fresh", file(0o755, b"a directory")),
        ("fresh/file", file(0o644, b"new\n")),
        ("gone", None),
        ("link", file(0o777, b"a link to bytes")),
        ("text", file(0o644, numbered(&HUNKS).as_bytes())),
        ("tool", file(0o755, b"#!/bin/sh\n")),
        ("turns", file(0o777, b"a link to tool")),
    ]
}

/// The paths that still wait, in the order in which they are asked about.
fn waiting(world: &World) -> Vec<String> {
    let diff = world.quiet(&["diff", "--json"]).json();
    let changes = diff["changes"].as_array().unwrap();
    let path = |change: &serde_json::Value| change["path"].as_str().unwrap().to_owned();
    changes.iter().map(path).collect()
}

/// `tree` with what is merged at `paths`.
fn with(mut tree: Tree, paths: &[&str]) -> Tree {
    for (path, held) in all() {
        if paths.contains(&path) {
            match held {
                Some(held) => tree.insert(path.to_owned(), held),
                None => tree.remove(path),
            };
        }
    }
    tree
}

/// Answers each question by its path, `n` if nothing is said of it, and approves in the end.
fn choosing(world: &World, answers: &[(&str, &[&str])]) -> Ran {
    let mut lines: Vec<&str> = Vec::new();
    let paths = waiting(world);
    for path in &paths {
        let found = answers.iter().find(|(own, _)| own == path);
        lines.extend(found.map_or(&["n"][..], |(_, answers)| answers));
    }
    lines.push("y");
    answering(world, "merge --interactive", &lines)
}

#[test]
fn any_hunks_of_a_file_come_and_the_others_stay() {
    for chosen in 1_usize..8 {
        let picked: Vec<usize> = (0..3).filter(|hunk| chosen & (1 << hunk) != 0).collect();
        let numbers: Vec<String> = picked.iter().map(|hunk| (hunk + 1).to_string()).collect();
        let lines: Vec<usize> = picked.iter().map(|hunk| HUNKS[*hunk]).collect();
        let world = changed();
        let before = tree(&world);
        let words = format!("merge --hunks text:{}", numbers.join(","));
        let ran = at_terminal(&world, &words, Typed::Line("y"));
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        let mut want = before;
        want.insert("text".to_owned(), (0o644, numbered(&lines).into_bytes()));
        assert_eq!(tree(&world), want, "{words}");
        let rest = waiting(&world);
        assert_eq!(
            rest.contains(&"text".to_owned()),
            chosen != 7,
            "{words}: {rest:?}"
        );
        // What was left comes later, and nothing is lost on the way.
        let ran = at_terminal(&world, "merge", Typed::Line("y"));
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        let text = std::fs::read_to_string(world.workspace().join("text")).unwrap();
        assert_eq!(text, numbered(&HUNKS), "{words}");
    }
}

#[test]
fn hunk_by_hunk_a_person_takes_the_first_the_middle_the_last_or_none() {
    for (answers, lines) in [
        (["y", "n", "n"], &HUNKS[..1]),
        (["n", "y", "n"], &HUNKS[1..2]),
        (["n", "", "yes"], &HUNKS[2..]),
        (["y", "no", "y"], &[1, 60][..]),
        (["n", "n", "n"], &[]),
    ] {
        let world = changed();
        let before = tree(&world);
        let asked = [&["h"][..], &answers].concat();
        let ran = choosing(&world, &[("text", &asked)]);
        assert_eq!(ran.code, Some(0), "{answers:?}: {ran:?}");
        let mut want = before;
        want.insert("text".to_owned(), (0o644, numbered(lines).into_bytes()));
        assert_eq!(tree(&world), want, "{answers:?}");
        let nothing = ran.stdout.contains("nothing was chosen");
        assert_eq!(nothing, lines.is_empty(), "{answers:?}: {ran:?}");
    }
}

#[test]
fn a_change_of_any_kind_is_shown_before_it_is_asked_about() {
    let world = changed();
    let script = "head -c 1100000 /dev/zero | tr '\\0' x >large; truncate -s 300M longest";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = world.quiet(&["diff", "--stat"]).stderr;
    for line in [
        "large is too large to show\n",
        "longest is too large to be read, and is not merged\n",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let before = tree(&world);
    let ran = answering(&world, "merge --interactive", &["a", "y"]);
    let shown: Vec<&str> = ran.stdout.lines().map(str::trim).collect();
    for line in [
        "a file of 6 bytes, mode 644, comes",
        "+alone",
        "not text, NOT SHOWN",
        "a directory, mode 755, comes",
        "a file of 5 bytes, mode 644, goes",
        "-here",
        "too large to show, NOT SHOWN",
        "is 314572800 bytes, not read",
        "-text",
        "+bytes",
        "-line 30",
        "+changed 30",
        "only its mode changes",
        "a link comes",
        "-a file",
        "+tool",
    ] {
        assert!(shown.contains(&line), "{line}: {ran:?}");
    }
    let told = shown.iter().filter(|line| line.contains("sha256")).count();
    assert!(
        told >= 3,
        "both sides of the bytes, and what is large: {ran:?}"
    );
    // What nobody read is left, and the rest comes.
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(waiting(&world), ["longest"]);
    assert_eq!(tree(&world)["large"].1.len(), 1_100_000);
    assert!(!tree(&world).contains_key("longest") && !before.contains_key("large"));
    let ran = world.quiet(&["merge"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("was not read"), "{ran:?}");
}

#[test]
fn what_a_list_of_names_would_not_tell_is_said_beside_them() {
    let world = changed();
    let script = "printf '#!/bin/sh\\n' >run; chmod 755 run; ln -s /etc/passwd away";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = at_terminal(&world, "merge", Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let shown: Vec<&str> = ran.stdout.lines().map(str::trim).collect();
    for line in [
        "added    added",
        "added    away (link -> /etc/passwd)",
        "modified bytes (not text, NOT SHOWN)",
        "modified link (was link -> text, link -> bytes)",
        "added    run (mode 755)",
        "mode     tool (644 -> 755)",
        "type     turns (link -> tool)",
    ] {
        assert!(shown.contains(&line), "{line}: {ran:?}");
    }
}

#[test]
fn what_is_merged_is_shown_however_its_path_is_spelt() {
    let lines = numbered(&[30]).into_bytes();
    for words in ["--hunks ./text:2", "--hunks .//text:2", "--files ./text"] {
        let world = changed();
        let ran = at_terminal(&world, &format!("merge {words}"), Typed::Line("y"));
        assert_eq!(ran.code, Some(0), "{words}: {ran:?}");
        assert!(ran.stdout.contains("modified text"), "{words}: {ran:?}");
        if words.contains("--hunks") {
            assert_eq!(tree(&world)["text"].1, lines, "{words}");
            // And so are the hunks that the numbers name.
            let shown = |line: &str| ran.stdout.contains(&format!("+changed {line}\n"));
            assert!(shown("30") && !shown("1"), "{words}: {ran:?}");
        }
    }
    let world = changed();
    for words in [["--files", ""], ["--files", "."], ["--hunks", ":1"]] {
        let ran = world.quiet(&[&["merge"], &words[..]].concat());
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains("names no file"), "{words:?}: {ran:?}");
    }
}

#[test]
fn a_change_of_any_kind_comes_alone() {
    for path in ["added", "bytes", "gone", "link", "text", "tool", "turns"] {
        for interactive in [true, false] {
            let world = changed();
            let before = tree(&world);
            let ran = if interactive {
                choosing(&world, &[(path, &["y"])])
            } else {
                at_terminal(&world, &format!("merge --files {path}"), Typed::Line("y"))
            };
            assert_eq!(ran.code, Some(0), "{path}: {ran:?}");
            assert_eq!(tree(&world), with(before.clone(), &[path]), "{path}");
            assert!(!waiting(&world).contains(&path.to_owned()), "{path}");
            let undone = at_terminal(&world, "undo", Typed::Line("y"));
            assert_eq!(undone.code, Some(0), "{path}: {undone:?}");
            assert_eq!(tree(&world), before, "{path}");
        }
    }
}

#[test]
fn a_file_in_a_new_directory_brings_the_directory() {
    let world = changed();
    let before = tree(&world);
    let ran = choosing(&world, &[("fresh/file", &["y"])]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(tree(&world), with(before, &["fresh", "fresh/file"]));
}

/// Whatever is in a directory has a question of its own, and the answer to that counts.
#[test]
fn a_yes_to_a_directory_is_none_to_what_is_in_it() {
    let world = World::project();
    for name in ["keep/a", "keep/b", "source/code"] {
        plain(&world, name, "here\n");
    }
    let source = world.workspace().join("source");
    std::fs::set_permissions(source, std::fs::Permissions::from_mode(0o755)).unwrap();
    let before = tree(&world);
    let script = "umask 022; mkdir fresh; echo good >fresh/good; echo bad >fresh/bad\n\
        rm -r keep; chmod 700 source; echo more >>source/code\n";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let answers: [(&str, &[&str]); 4] = [
        ("fresh", &["y"]),
        ("fresh/good", &["y"]),
        ("keep", &["y"]),
        ("source", &["y"]),
    ];
    let ran = choosing(&world, &answers);
    assert_eq!(ran.code, Some(4), "a directory is not empty: {ran:?}");
    let refused = ["fresh/bad", "keep/a", "keep/b", "source/code"];
    for path in refused {
        let shown = ran.stdout.matches(path).count();
        assert_eq!(shown, 1, "{path} is asked about and no more: {ran:?}");
    }
    let mut want = before;
    for (path, mode, bytes) in [
        ("fresh", 0o755, "a directory"),
        ("fresh/good", 0o644, "good\n"),
        ("source", 0o700, "a directory"),
    ] {
        want.insert(path.to_owned(), (mode, bytes.as_bytes().to_vec()));
    }
    assert_eq!(tree(&world), want);
    let waits = ["fresh/bad", "keep", "keep/a", "keep/b", "source/code"];
    assert_eq!(waiting(&world), waits);
}

#[test]
fn all_the_rest_is_all_that_comes_after() {
    let world = changed();
    let before = tree(&world);
    let paths = waiting(&world);
    // No to the first, yes to the second, then all the rest.
    let ran = answering(&world, "merge --interactive", &["n", "y", "a", "y"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let taken: Vec<&str> = paths.iter().skip(1).map(String::as_str).collect();
    assert_eq!(tree(&world), with(before, &taken));
    assert_eq!(waiting(&world), paths[..1]);
}

#[test]
fn who_quits_half_way_gets_what_was_chosen_so_far_or_nothing() {
    let world = changed();
    let before = tree(&world);
    let paths = waiting(&world);
    let ran = answering(&world, "merge --interactive", &["y", "n", "q", "y"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(tree(&world), with(before.clone(), &[&paths[0]]));

    // Chosen, and then not approved after all.
    let world = changed();
    let ran = answering(&world, "merge --interactive", &["y", "q", "n"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(tree(&world), before);

    let ran = answering(&world, "merge --interactive", &["q"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("nothing was chosen"), "{ran:?}");
    assert_eq!(tree(&world), before);
    assert_eq!(waiting(&world), paths);
}

#[test]
fn the_end_of_input_is_no_yes_wherever_it_comes() {
    let text = waiting(&changed())
        .iter()
        .position(|path| path == "text")
        .unwrap();
    let no = vec!["n"; text];
    let cases: Vec<Vec<&str>> = vec![
        // At the first question; after a yes; among hunks; before the approval.
        vec![],
        vec!["y"],
        [&no[..], &["h", "y"]].concat(),
        vec!["y", "q"],
        vec!["a"],
    ];
    for typed in cases {
        let world = changed();
        let (before, paths) = (tree(&world), waiting(&world));
        let ran = answering(&world, "merge --interactive", &typed);
        let chosen = !typed.is_empty();
        assert_eq!(
            ran.code,
            Some(if chosen { 3 } else { 0 }),
            "{typed:?}: {ran:?}"
        );
        assert_eq!(tree(&world), before, "{typed:?}");
        assert_eq!(waiting(&world), paths, "{typed:?}");
    }
}

#[test]
fn what_has_no_hunks_cannot_be_taken_by_them() {
    let world = changed();
    let before = tree(&world);
    for path in ["added", "bytes", "gone", "link", "tool", "turns", "fresh"] {
        let ran = world.quiet(&["merge", "--hunks", &format!("{path}:1")]);
        assert_eq!(ran.code, Some(2), "{path}: {ran:?}");
        assert!(ran.stderr.contains("has no hunk 1"), "{path}: {ran:?}");
    }
    for hunks in ["text:4", "text:1,9"] {
        let ran = world.quiet(&["merge", "--hunks", hunks]);
        assert_eq!(ran.code, Some(2), "{hunks}: {ran:?}");
    }
    assert_eq!(tree(&world), before);
}

/// Whoever says yes to lines has not said yes to a program.
#[test]
fn hunks_bring_lines_and_leave_the_mode() {
    let world = World::project();
    plain(&world, "text", &numbered(&[]));
    let script = "sed -i -e '1s/line/changed/' -e '60s/line/changed/' text; chmod 755 text";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = at_terminal(&world, "merge --hunks text:1,2", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = numbered(&[1, 60]).into_bytes();
    assert_eq!(tree(&world)["text"], (0o644, lines.clone()));
    assert_eq!(waiting(&world), ["text"], "the mode still waits");
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(tree(&world)["text"], (0o755, lines));
}
