//! The process dies in the middle of a merge that ends in a commit: a real repository, a real
//! commit, and git itself asked what it makes of what was left.

use crate::crash::die_once_and_back;
use crate::project::{Held, Project, Snapshot, put, snapshot};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// A tree before and after a commit, each with its repository.
struct Trees {
    _place: tempfile::TempDir,
    old: Snapshot,
    new: Snapshot,
    first: String,
    second: String,
}

#[expect(clippy::disallowed_methods, reason = "a repository is made with git")]
pub(crate) fn git(directory: &Path, words: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=me", "-c", "user.email=me@example.org"])
        .args(["-c", "core.logAllRefUpdates=false", "-c", "gc.auto=0"])
        // A stage may be another user's.
        .args(["-c", "safe.directory=*"])
        .args(words)
        .current_dir(directory)
        // Whatever a hook of git's says in the environment is about another repository.
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        // Looking must not change the index.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{words:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// Commits what is in `root`, with nothing in its repository but what a commit needs.
pub(crate) fn commit(root: &Path, parent: Option<&str>) -> String {
    git(root, &["add", "-A"]);
    let tree = git(root, &["write-tree"]);
    let mut words = vec!["commit-tree", &tree, "-m", "a commit"];
    words.extend(parent.into_iter().flat_map(|parent| ["-p", parent]));
    let commit = git(root, &words);
    git(root, &["update-ref", "refs/heads/main", &commit]);
    commit
}

impl Trees {
    /// `files` files: one in three changes, comes or goes.
    fn of(files: usize) -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("work");
        std::fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main", "--template="]);
        let path = |file: usize| root.join(format!("d{}/{file}", file % 5));
        put(&root.join("kept"), "kept\n");
        for file in (0..files).filter(|file| file % 3 != 1) {
            put(&path(file), &format!("old {file}\n"));
        }
        let first = commit(&root, None);
        let old = snapshot(&root);
        for file in 0..files {
            match file % 3 {
                0 | 1 => put(&path(file), &format!("new {file}\n")),
                _ => std::fs::remove_file(path(file)).unwrap(),
            }
        }
        let second = commit(&root, Some(&first));
        Self {
            old,
            new: snapshot(&root),
            first,
            second,
            _place: place,
        }
    }

    /// A project whose stage holds the second commit.
    fn project(&self) -> Project {
        let project = Project::new();
        lay(&project.root, &Snapshot::new(), &self.old);
        let staged = project.staged();
        lay(&staged, &self.old, &self.new);
        project
    }

    /// What is there once the merge is undone: all as before, but objects that came stay.
    fn undone(&self) -> Snapshot {
        let mut undone = self.old.clone();
        let came = self
            .new
            .iter()
            .filter(|(path, _)| path.starts_with(".git/objects"));
        undone.extend(came.map(|(path, held)| (path.clone(), held.clone())));
        undone
    }

    /// The branch is at one of both commits, and all of it is there.
    fn is_sound(&self, root: &Path) {
        let main = git(root, &["rev-parse", "refs/heads/main"]);
        assert!([&self.first, &self.second].contains(&&main), "{main}");
        git(
            root,
            &["rev-list", "--objects", "--quiet", "refs/heads/main"],
        );
    }
}

/// The branch is at `commit`, and nothing else is changed.
fn is_clean(root: &Path, commit: &str) {
    assert_eq!(git(root, &["rev-parse", "main"]), commit);
    assert_eq!(git(root, &["status", "--porcelain"]), "");
    assert_eq!(git(root, &["fsck", "--no-dangling", "--no-progress"]), "");
    let lock = root.join(".git/refs/heads/main.lock");
    assert!(std::fs::symlink_metadata(lock).is_err(), "it is let go");
}

/// Makes of `root`, which holds `from`, what `to` says.
fn lay(root: &Path, from: &Snapshot, to: &Snapshot) {
    let gone: Vec<&PathBuf> = from.keys().filter(|path| !to.contains_key(*path)).collect();
    for path in gone.into_iter().rev() {
        let path = root.join(path);
        if path.is_dir() {
            std::fs::remove_dir(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    for (path, held) in to
        .iter()
        .filter(|(path, held)| from.get(*path) != Some(*held))
    {
        let path = root.join(path);
        match held {
            Held::Directory(bits) => {
                if !path.is_dir() {
                    std::fs::create_dir(&path).unwrap();
                }
                crate::project::mode(&path, *bits);
            }
            Held::File(bits, bytes) => {
                // An object may be read only.
                let _ = std::fs::remove_file(&path);
                std::fs::write(&path, bytes).unwrap();
                crate::project::mode(&path, *bits);
            }
            Held::Link(to) => std::os::unix::fs::symlink(to, &path).unwrap(),
        }
    }
}

/// Dies at every moment there is, each time in a project of its own. How many there were.
fn at_every_moment(files: usize) -> usize {
    let trees = Trees::of(files);
    let undone = trees.undone();
    let next = AtomicUsize::new(0);
    // The first moment that nobody dies at any more.
    let end = AtomicUsize::new(usize::MAX);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let lives = next.fetch_add(1, Relaxed);
                    if lives >= end.load(Relaxed) {
                        break;
                    }
                    let project = trees.project();
                    let root = &project.root;
                    let look = || trees.is_sound(root);
                    if die_once_and_back(&project, lives, &undone, &look) {
                        end.fetch_min(lives, Relaxed);
                    }
                    is_clean(root, &trees.first);
                }
            });
        }
    });
    end.into_inner()
}

#[test]
fn a_commit_of_one_file_survives_death_at_every_moment() {
    let deaths = at_every_moment(1);
    assert!(deaths > 25, "it died {deaths} times");
}

#[test]
fn a_commit_of_fifty_files_survives_death_at_every_moment() {
    let deaths = at_every_moment(50);
    assert!(deaths > 300, "it died {deaths} times");
}

/// Without any death: what git says between a merge and its undo.
#[test]
fn a_merged_commit_is_what_git_would_have_made() {
    let trees = Trees::of(50);
    let project = trees.project();
    let merged = project
        .merge("m1", &airlock_merge::Selection::default())
        .unwrap();
    assert!(merged.is_complete(), "{merged:?}");
    is_clean(&project.root, &trees.second);
    assert_eq!(project.snapshot(), trees.new);
    assert!(project.undo("u1", None).unwrap().is_complete());
    is_clean(&project.root, &trees.first);
}
