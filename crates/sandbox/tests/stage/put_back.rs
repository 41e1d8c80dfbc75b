//! Putting single paths back: they are as they were, and everything else is as it was made.

use super::support::{Bench, Seen, on_every_overlay, on_every_stage, shell, tree};
use airlock_sandbox::stage::{Aside, StageError, StageKind, Touch, TreePath};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn path(text: &str) -> TreePath {
    Path::new(text).into()
}

/// More than any of these stages touches.
const MOST: u64 = 10_000;

fn touched(bench: &Bench) -> Vec<(String, Touch)> {
    let touched = bench.stage.touched(MOST).unwrap();
    let text = |path: &TreePath| String::from_utf8(path.as_bytes().to_vec()).unwrap();
    touched
        .iter()
        .map(|one| (text(&one.path), one.touch))
        .collect()
}

fn names(bench: &Bench) -> Vec<String> {
    touched(bench).into_iter().map(|(path, _)| path).collect()
}

fn aside(bench: &Bench, paths: &[&str]) -> Aside {
    let paths: Vec<TreePath> = paths.iter().map(|text| path(text)).collect();
    bench.stage.set_aside(&paths, json!("who")).unwrap()
}

/// Puts back what is touched and named in `denied`, or beneath a name that ends in `/`.
fn put_back(bench: &Bench, denied: &[&str], aside: &Aside) -> Vec<TreePath> {
    let is_denied = |text: &str| {
        denied
            .iter()
            .any(|denied| *denied == text || (denied.ends_with('/') && text.starts_with(denied)))
    };
    let all: Vec<String> = names(bench);
    let paths: BTreeSet<TreePath> = all
        .iter()
        .filter(|text| is_denied(text))
        .map(|text| path(text))
        .collect();
    assert!(!paths.is_empty(), "nothing of {denied:?} in {all:?}");
    back(bench, &paths, aside)
}

fn back(bench: &Bench, paths: &BTreeSet<TreePath>, aside: &Aside) -> Vec<TreePath> {
    let unseen = bench.stage.touched(MOST).unwrap().into_iter();
    let unseen = unseen.filter(|one| one.touch == Touch::Unseen);
    let unseen = unseen.map(|one| one.path).collect();
    bench.stage.put_back(paths, &unseen, aside, MOST).unwrap()
}

/// What a program in the stage sees.
fn seen(bench: &Bench) -> BTreeMap<PathBuf, Seen> {
    let kept = bench.inside_kept("");
    let found = tree(&kept);
    shell(&kept, "chmod -R u+rwx .");
    std::fs::remove_dir_all(kept).unwrap();
    found
}

fn has(seen: &BTreeMap<PathBuf, Seen>, name: &str, text: &str) -> bool {
    match seen.get(Path::new(name)) {
        Some(Seen::File(_, bytes)) => bytes == text.as_bytes(),
        Some(Seen::Link(target)) => target == Path::new(text),
        Some(Seen::Directory(mode)) => format!("{mode:o}") == text,
        Some(Seen::Other) => false,
        None => text == "gone",
    }
}

const TREE: &str = "umask 022
    mkdir -p d/sub e; echo keep >d/keep; echo free >d/free; echo deep >d/sub/deep; echo x >d/sub/x
    echo one >e/one; echo two >e/two; echo f >f; ln -s f l; echo run >run; chmod 755 run";

/// A script, what of it is denied, and what must be seen then.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const CASES: &[Case] = &[
    (
        "echo no >new; echo yes >ok",
        &["new"],
        &[("new", "gone"), ("ok", "yes\n")],
    ),
    (
        "echo no >f; echo yes >run",
        &["f"],
        &[("f", "f\n"), ("run", "yes\n")],
    ),
    ("rm f; rm run", &["f"], &[("f", "f\n"), ("run", "gone")]),
    ("chmod 777 run f", &["run"], &[("run", "run\n")]),
    ("ln -sf /etc/passwd l", &["l"], &[("l", "f")]),
    ("rm f; ln -s /etc f", &["f"], &[("f", "f\n")]),
    (
        "rm f; mkdir f; echo x >f/x",
        &["f", "f/"],
        &[("f", "f\n"), ("f/x", "gone")],
    ),
    (
        "chmod 700 d; echo yes >d/free",
        &["d"],
        &[("d", "755"), ("d/free", "yes\n")],
    ),
    (
        "rm -r d",
        &["d/keep", "d"],
        &[
            ("d", "755"),
            ("d/keep", "keep\n"),
            ("d/free", "gone"),
            ("d/sub", "gone"),
        ],
    ),
    (
        "rm -r d",
        &["d/sub/deep"],
        &[
            ("d/sub/deep", "deep\n"),
            ("d/sub/x", "gone"),
            ("d/keep", "gone"),
            ("d/sub", "755"),
        ],
    ),
    (
        "rm -r d; echo file >d",
        &["d/keep"],
        &[("d/keep", "keep\n"), ("d/free", "gone")],
    ),
    (
        "rm -r d; mkdir d; echo new >d/new",
        &["d/keep"],
        &[
            ("d/keep", "keep\n"),
            ("d/free", "gone"),
            ("d/new", "new\n"),
            ("d/sub", "gone"),
        ],
    ),
    (
        "rm -r d; mkdir -p d/sub; echo new >d/sub/new",
        &["d/keep"],
        &[
            ("d/keep", "keep\n"),
            ("d/sub/new", "new\n"),
            ("d/sub/deep", "gone"),
            ("d/free", "gone"),
        ],
    ),
    (
        "rm -r d; mkdir -p d/sub; echo new >d/sub/new",
        &["d/sub/deep"],
        &[
            ("d/sub/deep", "deep\n"),
            ("d/sub/x", "gone"),
            ("d/sub/new", "new\n"),
            ("d/keep", "gone"),
        ],
    ),
    (
        "rm -r d; mkdir -p d/sub; chmod 700 d/sub; echo new >d/sub/new",
        &["d/sub"],
        &[
            ("d/sub", "755"),
            ("d/sub/deep", "gone"),
            ("d/sub/new", "new\n"),
        ],
    ),
    (
        "mv d/keep moved",
        &["d/keep"],
        &[("d/keep", "keep\n"), ("moved", "keep\n")],
    ),
    (
        "mv d/keep a; echo more >>a; chmod 400 a",
        &["d/keep"],
        &[("d/keep", "keep\n"), ("a", "keep\nmore\n")],
    ),
    (
        "mv d/keep moved",
        &["moved"],
        &[("d/keep", "gone"), ("moved", "gone")],
    ),
    (
        "mkdir -p n/m; echo no >n/m/no; echo yes >n/yes",
        &["n/m/", "n/m"],
        &[("n/m", "gone"), ("n/yes", "yes\n")],
    ),
    (
        "mkdir -p n/m; echo no >n/m/no",
        &["n/m/no", "n/m", "n"],
        &[("n", "gone")],
    ),
    (
        "mkdir n; echo yes >n/yes; echo no >n/no",
        &["n", "n/no"],
        &[("n/yes", "yes\n"), ("n/no", "gone")],
    ),
    (
        "ln e/one linked; echo more >>linked",
        &["e/one"],
        &[("e/one", "one\n"), ("linked", "one\nmore\n")],
    ),
    (
        "ln e/one linked; echo more >>e/one",
        &["linked"],
        &[("e/one", "one\nmore\n"), ("linked", "gone")],
    ),
    ("mkfifo pipe", &["pipe"], &[("pipe", "gone")]),
    (
        "echo no >e/one; chmod 000 e",
        &["e/one", "e"],
        &[("e/one", "one\n"), ("e", "755")],
    ),
    (
        "rm -r e; mkdir e; echo x >e/x; chmod 000 e",
        &["e/one", "e"],
        &[("e/one", "one\n"), ("e/two", "gone"), ("e/x", "x\n")],
    ),
    (
        "echo no >e/new; chmod 555 e",
        &["e/new"],
        &[("e/new", "gone"), ("e", "555")],
    ),
];

#[test]
fn what_is_denied_is_as_it_was_and_the_rest_as_it_was_made() {
    for (script, denied, want) in CASES {
        on_every_stage(TREE, |bench| {
            bench.inside(script);
            let aside = aside(&bench, &[]);
            put_back(&bench, denied, &aside);
            bench.stage.settle(aside).unwrap();
            let seen = seen(&bench);
            for (name, text) in *want {
                assert!(
                    has(&seen, name, text),
                    "{script}: {name}: {:?}",
                    seen.get(Path::new(name))
                );
            }
            // Nothing of ours is left lying about, for programs or in the stage's directory.
            assert!(
                !seen
                    .keys()
                    .any(|path| path.to_string_lossy().contains("put-back"))
            );
            let home = std::fs::read_dir(bench.temp.path().join("stages/default")).unwrap();
            let mut home: Vec<_> = home.map(|entry| entry.unwrap().file_name()).collect();
            home.sort();
            // Only there if a directory of the real tree is touched.
            home.retain(|name| name != "footing.json");
            let mut own = vec!["lock", "run", "stage.json", "upper", "work"];
            if bench.stage.kind() == StageKind::Copy {
                own.insert(1, "manifest.json");
            }
            assert_eq!(home, own, "{script}");
            assert!(bench.stage.unsettled().unwrap().is_none(), "{script}");
        });
    }
}

#[test]
fn putting_everything_back_leaves_the_real_tree() {
    for (script, _, _) in CASES {
        on_every_stage(TREE, |bench| {
            let before = tree(&bench.workspace());
            bench.inside(script);
            let aside = aside(&bench, &[]);
            let all: BTreeSet<TreePath> = names(&bench).iter().map(|text| path(text)).collect();
            back(&bench, &all, &aside);
            assert_eq!(seen(&bench), before, "{script}");
            assert_eq!(tree(&bench.workspace()), before, "{script}");
            // A directory that merges and changes nothing may stay; nothing touches the tree.
            assert_eq!(names(&bench), Vec::<String>::new(), "{script}");
        });
    }
}

#[test]
fn what_was_staged_before_is_what_comes_back() {
    for script in [
        "echo evil >f; chmod 600 f",
        "rm f",
        "rm f; mkdir f; echo x >f/x",
        "ln f g; echo evil >>g; rm g",
        "mv f elsewhere; ln -s elsewhere f",
        "rm -r new; echo file >new",
        "rm -r new",
        "rm new/inner; echo other >new/inner",
        "echo back >run",
        "rm link; echo text >link",
    ] {
        on_every_stage(TREE, |bench| {
            bench.inside("echo staged >f; mkdir new; echo inner >new/inner; rm run; ln -s a link");
            let before = seen(&bench);
            let kept = ["f", "new", "new/inner", "run", "link"];
            let aside = aside(&bench, &kept);
            for name in kept {
                assert!(
                    bench.stage.is_as_kept(&path(name), &aside).unwrap(),
                    "{name}"
                );
            }
            bench.inside(script);
            let changed: BTreeSet<TreePath> = kept
                .iter()
                .map(|name| path(name))
                .filter(|path| !bench.stage.is_as_kept(path, &aside).unwrap())
                .collect();
            assert!(!changed.is_empty(), "{script}");
            back(&bench, &changed, &aside);
            let mut after = seen(&bench);
            after.remove(Path::new("elsewhere"));
            assert_eq!(after, before, "{script}");
        });
    }
}

#[test]
fn a_run_that_was_never_settled_is_found_again() {
    on_every_stage(TREE, |bench| {
        bench.inside("echo staged >f");
        drop(aside(&bench, &["f"]));
        bench.inside("echo evil >f");
        let stage = bench.stages.find("default").unwrap().unwrap();
        let aside = stage.unsettled().unwrap().unwrap();
        assert_eq!(aside.note(), &json!("who"));
        let paths: BTreeSet<TreePath> = aside.paths().cloned().collect();
        stage
            .put_back(&paths, &BTreeSet::new(), &aside, MOST)
            .unwrap();
        stage.settle(aside).unwrap();
        assert!(stage.unsettled().unwrap().is_none());
        assert!(has(&seen(&bench), "f", "staged\n"));
    });
}

#[test]
fn a_copy_that_was_not_changed_is_told_from_one_that_was() {
    on_every_overlay(TREE, |bench| {
        bench.inside("touch f; : >>e/one; echo other >e/two; chmod 700 run; ln -sf f l");
        let same = |name: &str| bench.stage.is_as_real(Path::new(name)).unwrap();
        assert!(same("f") && same("e/one") && same("l"));
        assert!(!same("e/two") && !same("run") && !same("d/keep"));
    });
}

#[test]
fn every_way_to_touch_a_path_is_named() {
    on_every_overlay(TREE, |bench| {
        bench.inside("echo long >f; rm run; mkdir n; chmod 700 e; rm -r d; mkdir d; echo 1 >d/n");
        let written = |size| Touch::Written { size };
        let want = [
            ("d/free", Touch::Deleted),
            ("d/keep", Touch::Deleted),
            ("d/n", written(2)),
            ("d/sub", Touch::Deleted),
            ("d/sub/deep", Touch::Deleted),
            ("d/sub/x", Touch::Deleted),
            ("e", Touch::Mode),
            ("f", written(5)),
            ("n", Touch::Made),
            ("run", Touch::Deleted),
        ];
        let found = touched(&bench);
        let found: Vec<(&str, Touch)> = found.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        assert_eq!(found, want);
        assert!(bench.stage.touched(5).is_err());
    });
}

/// Directories one in another, deeper than any path can say, with a file at the bottom.
const DEEP: &str = "n=$(printf '%0200d' 0); p=$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n; \
                    mkdir -p x/$p y/$p; echo x >x/$p/x; mv x y/$p/x";

#[test]
fn what_is_deeper_than_any_path_is_named_once_and_goes_without_what_is_above_it() {
    on_every_stage(TREE, |bench| {
        bench.inside(&format!("echo yes >ok; mkdir deep; cd deep; {DEEP}"));
        let aside = aside(&bench, &[]);
        let is_unseen = |touch: &Touch| *touch == Touch::Unseen;
        let found = touched(&bench);
        let unseen: Vec<&(String, Touch)> =
            found.iter().filter(|(_, touch)| is_unseen(touch)).collect();
        let [(deep, _)] = unseen.as_slice() else {
            panic!("{found:?}");
        };
        assert!(deep.len() > 4095 && deep.len() < 4400, "{}", deep.len());
        // It can be kept and compared like any other, and is nothing the real tree has.
        let path = path(deep);
        assert!(!bench.stage.is_as_real(path.as_path()).unwrap());
        let gone = back(&bench, &BTreeSet::from([path]), &aside);
        assert_eq!(gone, []);
        let left = touched(&bench);
        assert!(!left.iter().any(|(_, touch)| is_unseen(touch)));
        assert_eq!(left.len(), found.len() - 1);
        assert!(left.iter().any(|(path, _)| path == "ok"));
        assert!(bench.diff().refused.is_empty());
    });
}

#[test]
fn what_is_deeper_than_any_path_can_be_kept_and_comes_back() {
    on_every_stage(TREE, |bench| {
        let half = vec!["0".repeat(200); 10].join("/");
        bench.inside(&format!("mkdir -p {half}; cd {half}; mkdir -p {half}"));
        let long = format!("{half}/{half}/{}", "f".repeat(200));
        let (parent, rest) = (bench.upper().join(&half), &half);
        let script = format!("cd {rest}; echo staged >{}", "f".repeat(200));
        shell(&parent, &script);
        let kept = aside(&bench, &[&long]);
        assert!(bench.stage.is_as_kept(&path(&long), &kept).unwrap());
        shell(
            &parent,
            &format!("cd {rest}; echo evil >{}", "f".repeat(200)),
        );
        assert!(!bench.stage.is_as_kept(&path(&long), &kept).unwrap());
        back(&bench, &BTreeSet::from([path(&long)]), &kept);
        assert!(bench.stage.is_as_kept(&path(&long), &kept).unwrap());
    });
}

#[test]
fn a_removal_that_was_cut_off_is_in_nobodys_way() {
    on_every_stage(TREE, |bench| {
        let left = bench.temp.path().join("stages/default/.put-back");
        std::fs::create_dir_all(left.join("in")).unwrap();
        std::fs::write(left.join("in/x"), "x").unwrap();
        bench.inside("rm f; mkdir f; echo x >f/x");
        let aside = aside(&bench, &[]);
        put_back(&bench, &["f", "f/"], &aside);
        assert!(has(&seen(&bench), "f", "f\n") && !left.exists());
    });
}

#[test]
fn what_the_real_tree_keeps_closed_does_not_keep_anything_from_being_put_back() {
    let prepare = "mkdir d e; echo a >d/a; echo b >e/b; chmod 000 d e";
    on_every_overlay(prepare, |bench| {
        bench.inside("chmod 700 d e; echo x >d/x; echo y >d/a; rm -r e; echo ok >ok");
        let aside = aside(&bench, &[]);
        let mut names = names(&bench);
        assert!(names.contains(&"d/x".to_owned()), "{names:?}");
        for _ in 0..4 {
            names.retain(|name| name != "ok");
            let paths: BTreeSet<TreePath> = names.iter().map(|name| path(name)).collect();
            back(&bench, &paths, &aside);
            names = self::names(&bench);
            if names == ["ok"] {
                return;
            }
        }
        panic!("{names:?}");
    });
}

#[test]
fn paths_are_counted_once_however_often_they_are_looked_up() {
    on_every_overlay(TREE, |bench| {
        // Each was copied from elsewhere: its directories are looked up to the top.
        bench.inside(
            "mkdir -p n/m; for i in 1 2 3 4 5 6 7 8; do cp f n/m/$i; done; mv d/keep n/m/9",
        );
        assert_eq!(names(&bench).len(), 12);
        // `d` has an entry in the layer as well, and is not changed.
        assert_eq!(bench.stage.touched(13).unwrap().len(), 12);
        let error = bench.stage.touched(12).unwrap_err();
        assert!(
            matches!(error, StageError::TooManyChanges { most: 12 }),
            "{error}"
        );
    });
}
