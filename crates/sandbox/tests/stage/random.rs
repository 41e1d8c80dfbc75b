//! Whatever is done inside, the diff done to the real tree gives what was seen inside.

use super::support::{Bench, every_kind_of_marks, tree};
use airlock_sandbox::stage::{
    Change, ChangeKind, Content, Diff, Facts, Hunk, Line, Marks, NodeKind, Setup, Stage,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Names that nest, collide and need care.
const PATHS: &[&str] = &[
    "a",
    "b",
    "c d",
    "dir",
    "dir/a",
    "dir/b",
    "dir/sub",
    "dir/sub/a",
    "other",
    "other/a",
    "-dash",
    "dir/sub/deep",
    "dir/sub/deep/x",
];

fn path() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(PATHS)
}

/// One step of a script; what cannot be done is simply not done.
fn step() -> impl Strategy<Value = String> {
    let quiet = "2>/dev/null || :";
    prop_oneof![
        3 => (path(), 0_u8..6).prop_map(move |(p, n)| format!("(seq 1 {n} >'./{p}') {quiet}")),
        2 => (path(), 0_u8..9).prop_map(move |(p, n)| format!("(echo {n} >>'./{p}') {quiet}")),
        1 => path().prop_map(move |p| format!("(printf 'x\\0y' >'./{p}') {quiet}")),
        3 => path().prop_map(move |p| format!("mkdir './{p}' {quiet}")),
        2 => path().prop_map(move |p| format!("rm -rf './{p}' {quiet}")),
        2 => (path(), path()).prop_map(move |(p, q)| format!("mv -T './{p}' './{q}' {quiet}")),
        1 => (path(), path()).prop_map(move |(p, q)| format!("cp -rT './{p}' './{q}' {quiet}")),
        1 => (path(), path()).prop_map(move |(p, q)| format!("ln -sT '{p}' './{q}' {quiet}")),
        1 => (path(), path()).prop_map(move |(p, q)| format!("ln -T './{p}' './{q}' {quiet}")),
        1 => path().prop_map(move |p| format!("test -L './{p}' || chmod 755 './{p}' {quiet}")),
        1 => path().prop_map(move |p| format!("test -L './{p}' || chmod 750 './{p}' {quiet}")),
        1 => path().prop_map(move |p| format!("touch -h './{p}' {quiet}")),
    ]
}

fn script(most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(step(), 0..most).prop_map(|steps| steps.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_diff_turns_the_real_tree_into_what_was_seen(
        before in script(24),
        first in script(12),
        second in script(12),
    ) {
        for marks in every_kind_of_marks() {
            let bench = Bench::new(&before, marks);
            bench.inside(&first);
            let kept = bench.inside_kept(&second);
            agree(&bench, &kept, &format!("{marks:?}\n{before}\n--\n{first}\n--\n{second}"))?;
        }
    }

    #[test]
    fn a_copy_says_what_an_overlay_says(before in script(24), inside in script(16)) {
        let overlay = Bench::new(&before, Marks::User);
        overlay.inside(&inside);
        let copy = Bench::with(&before, Setup::COPY);
        copy.inside(&inside);
        let tree_of = |bench: &Bench| bench.diff().changes;
        prop_assert_eq!(tree_of(&overlay), tree_of(&copy));
    }
}

fn agree(bench: &Bench, kept: &Path, case: &str) -> Result<(), TestCaseError> {
    let diff = bench.diff();
    prop_assert!(
        diff.refused.is_empty() && diff.conflicts.is_empty(),
        "{case}\n{diff:#?}"
    );
    let want = tree(kept);
    let target = bench.workspace();
    apply(&bench.stage, &diff, &target);
    prop_assert_eq!(tree(&target), want, "{}\n{:#?}", case, diff);
    Ok(())
}

/// Does to a tree what a diff says, as merging would.
fn apply(stage: &Stage, diff: &Diff, root: &Path) {
    let mut old = BTreeMap::new();
    for change in &diff.changes {
        let from = origin(change);
        if is_file(change.old.as_ref()) {
            old.insert(from.to_owned(), std::fs::read(root.join(from)).unwrap());
        }
    }
    let mut gone = diff
        .changes
        .iter()
        .filter(|change| goes(change))
        .map(|change| (origin(change), change.old.as_ref().unwrap().kind))
        .collect::<Vec<_>>();
    gone.sort_by_key(|(path, _)| std::cmp::Reverse(path.to_owned()));
    for (path, kind) in gone {
        let path = root.join(path);
        match kind {
            NodeKind::Directory => std::fs::remove_dir(path).unwrap(),
            NodeKind::File
            | NodeKind::Symlink
            | NodeKind::Fifo
            | NodeKind::Socket
            | NodeKind::Device => std::fs::remove_file(path).unwrap(),
        }
    }
    for change in &diff.changes {
        if let Some(new) = &change.new {
            let before = old.get(origin(change)).map_or(&[][..], Vec::as_slice);
            put(stage, change, new, before, root);
        }
    }
}

fn origin(change: &Change) -> &Path {
    match &change.kind {
        ChangeKind::Renamed { from } => from.as_path(),
        ChangeKind::Added
        | ChangeKind::Modified
        | ChangeKind::Deleted
        | ChangeKind::ModeChanged
        | ChangeKind::TypeChanged => change.path.as_path(),
    }
}

fn goes(change: &Change) -> bool {
    matches!(
        change.kind,
        ChangeKind::Deleted | ChangeKind::Renamed { .. } | ChangeKind::TypeChanged
    )
}

fn is_file(facts: Option<&Facts>) -> bool {
    facts.is_some_and(|facts| facts.kind == NodeKind::File)
}

fn put(stage: &Stage, change: &Change, new: &Facts, before: &[u8], root: &Path) {
    let path = root.join(change.path.as_path());
    match new.kind {
        NodeKind::Directory => {
            if change.kind != ChangeKind::ModeChanged {
                std::fs::create_dir(&path).unwrap();
            }
        }
        NodeKind::Symlink => {
            let _ = std::fs::remove_file(&path);
            std::os::unix::fs::symlink(new.target.as_ref().unwrap(), &path).unwrap();
            return;
        }
        NodeKind::File => {
            // In its place, not into it: another name of the same file keeps the old content, as
            // it does inside.
            let beside = root.join("beside");
            std::fs::write(&beside, content(stage, change, before)).unwrap();
            std::fs::rename(&beside, &path).unwrap();
        }
        kind @ (NodeKind::Fifo | NodeKind::Socket | NodeKind::Device) => {
            panic!("{kind:?} left the stage")
        }
    }
    let permissions = std::fs::Permissions::from_mode(new.mode);
    std::fs::set_permissions(&path, permissions).unwrap();
}

fn content(stage: &Stage, change: &Change, before: &[u8]) -> Vec<u8> {
    let content = match &change.content {
        Content::Replaced { new, .. } => new,
        Content::None | Content::Text { .. } | Content::Binary | Content::TooLarge => {
            &change.content
        }
    };
    match content {
        Content::None => before.to_vec(),
        Content::Text { hunks } if change.kind == ChangeKind::TypeChanged => patched(&[], hunks),
        Content::Text { hunks } => patched(before, hunks),
        Content::Binary | Content::TooLarge | Content::Replaced { .. } => {
            let mut bytes = Vec::new();
            let mut file = stage.open_changed(change.path.as_path()).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        }
    }
}

/// Applies hunks to the lines of `before`, checking that the lines are there.
fn patched(before: &[u8], hunks: &[Hunk]) -> Vec<u8> {
    let before = String::from_utf8_lossy(before);
    let lines = before.split_inclusive('\n').collect::<Vec<_>>();
    let mut after = String::new();
    let mut next = 0;
    for hunk in hunks {
        let start = hunk.old_start - usize::from(hunk.old_lines > 0);
        after.extend(lines[next..start].iter().copied());
        next = start;
        for line in &hunk.lines {
            match line {
                Line::Same(text) => {
                    assert_eq!(lines[next], text);
                    after.push_str(text);
                    next += 1;
                }
                Line::Removed(text) => {
                    assert_eq!(lines[next], text);
                    next += 1;
                }
                Line::Added(text) => after.push_str(text),
            }
        }
        assert_eq!(next, start + hunk.old_lines);
    }
    after.extend(lines[next..].iter().copied());
    after.into_bytes()
}
