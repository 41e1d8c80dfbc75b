//! What a stage changes, by what it is to the discipline.

use crate::beneath::{Kind, OpenError, Root};
use crate::policy_store::PolicyInForce;
use crate::process::{ProcessFailure, StageHold, view};
use crate::tools::GitIgnored;
use crate::workspace::Workspace;
use airlock_core::{Digest, WorkspacePath};
use airlock_phases::{
    Category, Changed, Facts, Framework, Language, Ledger, Place, Route, Tree, inline_tests,
    only_tests_differ, taken_from_tests,
};
use airlock_policy::{PathClass, Policy};
use airlock_sandbox::stage::{Change, ChangeKind, Diff, NodeKind};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Longest text that is looked into.
const TEXT: u64 = 2 * 1024 * 1024;
/// Longest source that is searched for what it takes from tests. That of a bundler may be long;
/// nobody writes more than this.
const SOURCE: u64 = 16 * 1024 * 1024;

/// A stage as it is now, looked at once.
pub(crate) struct Staged {
    policy: Arc<Policy>,
    real: Root,
    seen: Root,
    pub(super) changed: Changed,
    /// Directories that come with nothing in them that counts, and those that go.
    pub(super) places: Vec<String>,
    /// What a merge of all of it is asked for by.
    asked: Asked,
    /// What a commit of it is of.
    pub(super) tracked: Tracked,
    /// What the stage holds that git does not ignore, as one digest.
    pub(super) digest: Option<Digest>,
    /// What it changes of git's own directory, as one digest.
    pub(super) git: Option<Digest>,
    /// Whether that is more than new objects, which mean nothing before something refers to them.
    pub(super) moves_git: bool,
    /// What is in the place of each changed path, as one digest.
    held: BTreeMap<String, Digest>,
    /// The changes with all that a merge would bring.
    pub(super) diff: Option<Diff>,
}

impl Staged {
    /// Looks at the stage `name`.
    pub(super) fn look(
        workspace: &Workspace,
        policy: &PolicyInForce,
        name: &str,
    ) -> Result<Self, ProcessFailure> {
        let diff = StageHold(workspace).diff(name)?;
        let real = workspace.root().clone();
        let mut staged = Self {
            policy: policy.policy(),
            seen: view(workspace, name)?,
            real,
            changed: Changed::default(),
            places: Vec::new(),
            asked: Asked::default(),
            tracked: Tracked::default(),
            digest: None,
            git: None,
            moves_git: false,
            held: BTreeMap::new(),
            diff: None,
        };
        if let Some(diff) = diff {
            staged.sort(&diff);
            staged.diff = Some(diff);
        }
        Ok(staged)
    }

    fn sort(&mut self, diff: &Diff) {
        let real = self.real.clone();
        let mut own = String::new();
        for change in diff.changes.iter().filter(|change| is_gits(change)) {
            own.push_str(&json!([change.path, change.new]).to_string());
            own.push('\n');
            self.moves_git |= !is_new_object(change);
        }
        let Counting {
            counted,
            stay,
            filled,
            besides,
        } = Counting::of(diff, &real);
        let mut lines = String::new();
        for (change, path) in counted {
            let is_filled = change.new.is_some() && filled.contains(change.path.as_path());
            let stays = is_directory(change) && left(change).is_some_and(|one| stay.contains(one));
            // One that was moved comes for what is in it, or not at all: to name it would be to have
            // it go where it was.
            if stays && !is_filled {
                continue;
            }
            let line = if stays {
                json!([change.path, ChangeKind::Added, change.new])
            } else {
                json!([change.path, change.kind, change.old, change.new])
            };
            lines.push_str(&line.to_string());
            lines.push('\n');
            if stays {
                self.asked.alone = true;
                continue;
            }
            if is_only_a_place(change) {
                if !is_filled {
                    self.places.push(path.as_str().to_owned());
                    self.asked.add(&path, change);
                }
                continue;
            }
            self.asked.add(&path, change);
            self.tracked.add(&path, change);
            let held = Digest::of(json!(change.new).to_string().as_bytes());
            self.held.insert(path.as_str().to_owned(), held);
            let kind = change.new.as_ref().map(|new| new.kind);
            if kind == Some(NodeKind::Symlink) {
                self.link(&path);
            } else {
                self.class(path.as_str());
            }
            if let ChangeKind::Renamed { from } = &change.kind
                && let Some(from) = from.as_path().to_str()
            {
                self.class(from);
            }
        }
        self.asked.paths.extend(besides);
        if self.changed.smuggled.is_none() {
            let mut source = self.changed.source.iter();
            self.changed.smuggled = source.find_map(|path| self.smuggled(path));
        }
        let digest = |lines: &str| (!lines.is_empty()).then(|| Digest::of(lines.as_bytes()));
        (self.digest, self.git) = (digest(&lines), digest(&own));
    }

    fn class(&mut self, path: &str) {
        let list = match self.policy.path_class(path) {
            PathClass::Test => &mut self.changed.tests,
            PathClass::Source if self.only_tests(path) => &mut self.changed.tests,
            PathClass::Source => &mut self.changed.source,
            PathClass::Other => &mut self.changed.other,
        };
        list.push(path.to_owned());
    }

    /// A link among source is what it leads to: source, or a test that became part of the product.
    /// One that leads elsewhere, or to all that is in a directory, is neither.
    fn link(&mut self, path: &WorkspacePath) {
        if !self.is_source(path.as_str()) {
            return self.class(path.as_str());
        }
        let leads_to = self.seen.open_beneath(path);
        let leads_to = leads_to.map(|there| (there.kind, there.real));
        let (list, test) = match &leads_to {
            Ok((_, real)) if self.is_test(real.as_str()) => (&mut self.changed.source, Some(real)),
            Ok((Kind::Directory, real)) if self.is_test(&format!("{real}/x")) => {
                (&mut self.changed.source, Some(real))
            }
            Ok((Kind::File, real)) if self.is_source(real.as_str()) => {
                (&mut self.changed.source, None)
            }
            Ok(_) | Err(_) => (&mut self.changed.other, None),
        };
        list.push(path.as_str().to_owned());
        if let Some(test) = test {
            self.changed.smuggled = Some(becomes_product(path.as_str(), &a_test(test.as_str())));
        }
    }

    /// Whether nothing but inline tests of the Rust file `path` differs.
    fn only_tests(&self, path: &str) -> bool {
        let sides = (side(&self.real, path), side(&self.seen, path));
        match sides {
            (Some(old), Some(new)) if Language::of(path) == Some(Language::Rust) => {
                only_tests_differ(&old, &new)
            }
            (_, _) => false,
        }
    }

    /// What the source at `path` makes part of the product that is none of it.
    fn smuggled(&self, path: &str) -> Option<String> {
        let taken = self.taken(&self.seen, path);
        if taken.is_empty() {
            return None;
        }
        // What was so before the session is not its doing.
        let before = self.taken(&self.real, path);
        let what = taken.difference(&before).next()?;
        Some(becomes_product(path, what))
    }

    /// What the source at `path` takes that is none, as the tree of `root` has both.
    fn taken(&self, root: &Root, path: &str) -> BTreeSet<String> {
        let Ok(file) = root.open_file(path) else {
            return BTreeSet::new();
        };
        let mut bytes = Vec::new();
        let read = file.take(SOURCE + 1).read_to_end(&mut bytes);
        if read.is_ok_and(|read| read as u64 <= SOURCE) {
            // Bytes that are no text may stand in any comment, and hide nothing behind it.
            let text = String::from_utf8_lossy(&bytes);
            let tree = TreeOf { root, staged: self };
            let taken = taken_from_tests(path, &text, &tree);
            return taken.iter().map(|test| a_test(test)).collect();
        }
        // What is not code by its name is long for reasons of its own.
        let code = Language::of(path).map(|_| "what is too long to be looked into".to_owned());
        code.into_iter().collect()
    }

    /// The text of the real tree; none if there is none, or it is too long to be looked into.
    pub(super) fn old(&self, path: &str) -> Option<String> {
        text(&self.real, path)
    }

    /// The text of the stage; none if there is none, or it is too long to be looked into.
    pub(super) fn new_text(&self, path: &str) -> Option<String> {
        text(&self.seen, path)
    }

    pub(super) fn root(&self) -> &Root {
        &self.seen
    }

    /// Every path that is merged, but for git's own and for directories that come for the sake of
    /// what is in them.
    pub(super) fn merged(&self) -> impl Iterator<Item = &str> {
        let places = self.places.iter().map(String::as_str);
        self.changed.paths().chain(places)
    }

    /// What a merge of all of it is asked for by, with the commit that is in the stage; and whether
    /// each path is meant alone.
    pub(super) fn asked(&self, committed: bool) -> (Vec<&str>, bool) {
        let mut paths: Vec<&str> = self.asked.paths.iter().map(String::as_str).collect();
        if committed && self.asked.alone {
            paths.extend(self.gits());
        } else if committed {
            paths.push(".git");
        }
        (paths, self.asked.alone)
    }

    /// The paths of git's own that the stage changes.
    pub(super) fn gits(&self) -> impl Iterator<Item = &str> {
        let changes = self.diff.iter().flat_map(|diff| &diff.changes);
        let paths = changes.map(|change| change.path.as_path());
        paths
            .filter(|path| path.starts_with(".git"))
            // A name nobody can judge is chosen by nobody.
            .map(|path| path.to_str().unwrap_or_default())
    }

    /// The tree as it is without the stage.
    pub(super) fn real(&self) -> &Root {
        &self.real
    }

    /// Whether it changes something that the tests of `framework` are about.
    pub(super) fn concerns(&self, framework: Framework) -> bool {
        let of = |path: &str| Language::of(path).map(Language::tested_by);
        self.changed.paths().any(|path| of(path) == Some(framework))
    }

    pub(super) fn is_test(&self, path: &str) -> bool {
        self.policy.path_class(path) == PathClass::Test
    }

    pub(super) fn is_source(&self, path: &str) -> bool {
        self.policy.path_class(path) == PathClass::Source
    }

    /// What the tests of the stage are now: each file of tests, and the inline tests of each
    /// changed source file.
    pub(super) fn tests(&self) -> BTreeMap<String, Digest> {
        let mut tests = BTreeMap::new();
        for path in &self.changed.tests {
            let inline = self.is_source(path).then(|| self.new_text(path)).flatten();
            let inline = inline.map(|text| Digest::of(inline_of(&text).as_bytes()));
            // Where it came from, for what was moved and is gone.
            let gone = || Digest::of(b"");
            let held = || self.held.get(path).copied().unwrap_or_else(gone);
            tests.insert(path.clone(), inline.unwrap_or_else(held));
        }
        tests
    }

    /// The first file whose tests are not those of `kept`.
    pub(super) fn edited(&self, kept: &BTreeMap<String, Digest>) -> Option<String> {
        let now = self.tests();
        let source = self.changed.source.iter();
        let rust = source.filter(|path| Language::of(path) == Some(Language::Rust));
        for path in rust {
            let inline = |text: String| Digest::of(inline_of(&text).as_bytes());
            let found = side(&self.seen, path).map(inline);
            let reference = match kept.get(path) {
                Some(kept) => Some(*kept),
                None => side(&self.real, path).map(inline),
            };
            // What cannot be looked into may be anything.
            if found.is_none() || found != reference {
                return Some(path.clone());
            }
        }
        if let Some((path, _)) = now.iter().find(|(path, now)| kept.get(*path) != Some(*now)) {
            return Some(path.clone());
        }
        let mut gone = kept.keys().filter(|path| !now.contains_key(*path));
        gone.find(|path| !self.changed.source.contains(path))
            .cloned()
    }

    /// The facts for a step of `place`, handed to `then`.
    pub(super) fn facts<T>(
        &self,
        place: &Place,
        ledger: Ledger,
        uncovered: Option<&str>,
        then: impl FnOnce(&Facts<'_>) -> T,
    ) -> T {
        let edited = match &place.progress.route {
            Some(Route::TestFirst | Route::Refactoring(_)) => self.edited(&place.progress.tests),
            Some(Route::Exploring | Route::Exempt(_)) | None => None,
        };
        let policy = &self.policy;
        let within = |category: Category, path: &str| policy.exempts(category.as_str(), path);
        let coverage = policy.document().phases.coverage;
        then(&Facts {
            changed: &self.changed,
            stage: self.digest,
            within: &within,
            edited_tests: edited.as_deref(),
            uncovered,
            ledger,
            warn_points: coverage.warn_points,
            lock_points: coverage.lock_points,
        })
    }
}

/// What a merge of all that counts names.
#[derive(Default)]
struct Asked {
    paths: Vec<String>,
    /// Whether each is meant alone, because a directory is among them or stays where it was: what
    /// git ignores in it neither comes nor goes with it.
    alone: bool,
}

impl Asked {
    fn add(&mut self, path: &WorkspacePath, change: &Change) {
        self.paths.push(path.as_str().to_owned());
        self.alone |= [&change.old, &change.new]
            .into_iter()
            .flatten()
            .any(|side| side.kind == NodeKind::Directory);
    }
}

/// What git is told of the changes that count: it knows no directories, only what is in them.
#[derive(Default)]
pub(super) struct Tracked {
    /// Files and links that are not there any more, be it that a directory is.
    gone: Vec<String>,
    /// Those that are there.
    there: Vec<String>,
}

impl Tracked {
    fn add(&mut self, path: &WorkspacePath, change: &Change) {
        let [was, is] = [&change.old, &change.new].map(|side| {
            let side = side.as_ref();
            side.is_some_and(|side| side.kind != NodeKind::Directory)
        });
        if let ChangeKind::Renamed { from } = &change.kind
            && was
        {
            let from = from.as_path().to_str();
            self.gone.extend(from.map(str::to_owned));
        }
        if is {
            self.there.push(path.as_str().to_owned());
        } else if was {
            self.gone.push(path.as_str().to_owned());
        }
    }

    /// Those that are gone, and those that are there.
    pub(super) fn paths(&self) -> (&[String], &[String]) {
        (&self.gone, &self.there)
    }
}

/// The changes of a stage that count, and what follows from the others.
#[derive(Default)]
struct Counting<'d> {
    counted: Vec<(&'d Change, WorkspacePath)>,
    /// Directories that stay in the real tree whatever the stage says: something is left in them.
    stay: BTreeSet<&'d Path>,
    /// Directories in which something comes that counts.
    filled: BTreeSet<&'d Path>,
    /// What git ignores in a directory that gives way to something else, and has to go for that.
    besides: Vec<String>,
}

impl<'d> Counting<'d> {
    fn of(diff: &'d Diff, real: &Root) -> Self {
        let mut ignored = GitIgnored::new(real);
        let mut found = Self::default();
        let (mut others, mut replaced) = (Vec::new(), Vec::new());
        for change in diff.changes.iter().filter(|change| !is_gits(change)) {
            match counted(change, &mut ignored) {
                Some(path) => {
                    if change.kind == ChangeKind::TypeChanged {
                        replaced.push(change.path.as_path());
                    }
                    if change.new.is_some() {
                        found.filled.extend(above(change.path.as_path()));
                    }
                    found.counted.push((change, path));
                }
                None => others.push(change),
            }
        }
        for change in others {
            let Some(from) = left(change) else {
                continue;
            };
            if replaced.iter().any(|one| from.starts_with(one)) {
                let named = change.path.as_path().to_str();
                found.besides.extend(named.map(str::to_owned));
            } else {
                found.stay.extend(above(from));
            }
        }
        for refused in &diff.refused {
            found.stay.extend(above(refused.path.as_path()));
        }
        found
    }
}

/// The directories that `path` is in.
fn above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1)
}

/// The place that a change leaves with nothing in it.
fn left(change: &Change) -> Option<&Path> {
    match &change.kind {
        ChangeKind::Renamed { from } => Some(from.as_path()),
        ChangeKind::Deleted => Some(change.path.as_path()),
        ChangeKind::Added
        | ChangeKind::Modified
        | ChangeKind::ModeChanged
        | ChangeKind::TypeChanged => None,
    }
}

pub(super) fn is_directory(change: &Change) -> bool {
    let facts = change.new.as_ref().or(change.old.as_ref());
    facts.is_some_and(|facts| facts.kind == NodeKind::Directory)
}

fn is_gits(change: &Change) -> bool {
    change.path.as_path().starts_with(".git")
}

/// One of the trees of a stage: the real one, or what the stage makes of it.
struct TreeOf<'a> {
    root: &'a Root,
    staged: &'a Staged,
}

impl TreeOf<'_> {
    fn kind(&self, path: &str) -> Option<Kind> {
        let path = WorkspacePath::new(path).ok()?;
        self.root.open_beneath(&path).ok().map(|there| there.kind)
    }
}

impl Tree for TreeOf<'_> {
    fn is_test(&self, path: &str) -> bool {
        self.staged.is_test(path)
    }

    fn has_file(&self, path: &str) -> bool {
        matches!(self.kind(path), Some(Kind::File))
    }

    fn has_directory(&self, path: &str) -> bool {
        matches!(self.kind(path), Some(Kind::Directory))
    }

    fn tests(&self) -> &[String] {
        &self.staged.changed.tests
    }
}

fn a_test(path: &str) -> String {
    format!("`{path}`, a test,")
}

fn becomes_product(path: &str, what: &str) -> String {
    format!("`{path}` makes {what} part of the product")
}

/// Whether nothing is there but a new object of git's, or a directory for some.
fn is_new_object(change: &Change) -> bool {
    change.kind == ChangeKind::Added && change.path.as_path().starts_with(".git/objects")
}

/// Whether a change is that of a directory which came or went with what is in it. Its mode is held
/// with everything else; what it is about is what is in it.
fn is_only_a_place(change: &Change) -> bool {
    let sides = [&change.old, &change.new];
    let mut sides = sides.into_iter().flatten();
    let directory = sides.all(|side| side.kind == NodeKind::Directory);
    match change.kind {
        ChangeKind::Added | ChangeKind::Deleted => directory,
        ChangeKind::Modified
        | ChangeKind::ModeChanged
        | ChangeKind::TypeChanged
        | ChangeKind::Renamed { .. } => false,
    }
}

/// The path of a change that counts: not what git ignores.
pub(super) fn counted(change: &Change, ignored: &mut GitIgnored<'_>) -> Option<WorkspacePath> {
    let text = change.path.as_path().to_str();
    // A name nobody can judge counts as itself, so that no way allows it.
    let lossy = change.path.as_path().to_string_lossy();
    let path = WorkspacePath::new(text.unwrap_or(&lossy)).ok()?;
    (!ignored.holds(&path, is_directory(change))).then_some(path)
}

fn inline_of(text: &str) -> String {
    inline_tests(text).unwrap_or_else(|| text.to_owned())
}

/// The text of a file; none if there is none, or it is too long to be looked into. What is behind
/// that length could be anything.
pub(super) fn text(root: &Root, path: &str) -> Option<String> {
    let file = root.open_file(path).ok()?;
    let mut text = String::new();
    let read = file.take(TEXT + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= TEXT).then_some(text)
}

/// The same, where nothing is in the place of a file that is not there.
pub(super) fn side(root: &Root, path: &str) -> Option<String> {
    match root.open_file(path) {
        Ok(_) => text(root, path),
        Err(OpenError::NotFound) => Some(String::new()),
        Err(_) => None,
    }
}
