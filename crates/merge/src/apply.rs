//! Carries a journal out. It may be carried out any number of times, each from wherever the last
//! one stopped: what to do next is told from the tree alone.
//!
//! What goes goes first, deepest path first; then directories come, then git's objects, then files
//! and links, then the modes of directories, which may take away the right to do any of this, and
//! last the refs of git. A file is written beside
//! its place and exchanged with what is there; what came out must be what was to go, or it is put
//! back. What comes out then must be ours, or it stays beside the place: nothing of anybody else's
//! is ever removed.

use crate::Moment;
use crate::entry::Entry;
use crate::git;
use crate::journal::{Journal, new_content};
use crate::node::Node;
use crate::outcome::{EntryResult, Result as EntryOutcome};
use crate::tree::{Spot, Tree, unsupported};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

/// What one step came to.
enum Step {
    Done,
    Conflict(&'static str),
}

const CHANGED: &str = "it was changed meanwhile";
const TWICE: &str = "it was changed twice meanwhile; see `.airlock-*.swap` beside it";

struct Work<'a> {
    tree: Tree,
    place: &'a Path,
    journal: &'a Journal,
    moment: Moment<'a>,
    /// Entries that came to an end other than being merged.
    ended: Vec<Option<EntryOutcome>>,
}

/// Brings the tree to what `journal` says, as far as nobody else changed it.
pub(crate) fn carry_out(
    place: &Path,
    journal: &Journal,
    moment: Moment<'_>,
) -> io::Result<Vec<EntryResult>> {
    let mut work = Work {
        tree: Tree::open(journal.root.as_path())?,
        place,
        journal,
        moment,
        ended: vec![None; journal.entries.len()],
    };
    work.open_directories();
    work.each(true, Entry::clears, Work::clear);
    work.close_kept_directories();
    let comes = |entry: &Entry| entry.after.is_directory() && !entry.before.is_directory();
    work.each(false, comes, Work::make);
    let fills = |entry: &Entry| matches!(entry.after, Node::File { .. } | Node::Symlink { .. });
    let is_object = |entry: &Entry| git::is_object(entry.path.as_path());
    work.each(false, |entry| fills(entry) && is_object(entry), Work::put);
    let plain = |entry: &Entry| fills(entry) && !is_object(entry) && !git::is_ref(entry);
    work.each(false, plain, Work::put);
    work.each(true, |entry| entry.after.is_directory(), Work::set_mode);
    let whole = work.has_objects();
    let moves = |entry: &Entry| fills(entry) && git::is_ref(entry);
    work.each(false, moves, if whole { Work::put } else { Work::orphaned });
    work.sync();
    let results = journal.entries.iter().zip(work.ended);
    Ok(results
        .map(|(entry, ended)| EntryResult {
            path: entry.path.clone(),
            result: ended.unwrap_or(EntryOutcome::Merged),
        })
        .collect())
}

impl Work<'_> {
    /// Does `step` to every entry that `wants` it and has not come to an end.
    fn each(
        &mut self,
        backwards: bool,
        wants: impl Fn(&Entry) -> bool,
        step: fn(&Self, usize, &Entry) -> io::Result<Step>,
    ) {
        let entries = self.journal.entries.iter().enumerate();
        let mut order: Vec<(usize, &Entry)> = entries.filter(|(_, entry)| wants(entry)).collect();
        if backwards {
            order.reverse();
        }
        for (index, entry) in order {
            if self.ended.get(index).is_some_and(Option::is_some) {
                continue;
            }
            (self.moment)("step");
            let ended = match step(self, index, entry) {
                Ok(Step::Done) => None,
                Ok(Step::Conflict(why)) => Some(EntryOutcome::Conflict {
                    why: why.to_owned(),
                }),
                Err(error) => Some(EntryOutcome::Failed {
                    why: error.to_string(),
                }),
            };
            if let Some(slot) = self.ended.get_mut(index) {
                *slot = ended;
            }
        }
    }

    fn spot(&self, entry: &Entry) -> io::Result<Option<Spot>> {
        self.tree.spot(entry.path.as_path())
    }

    fn beside(&self, spot: &Spot, index: usize, what: &str) -> io::Result<Spot> {
        spot.beside(&format!(".airlock-{}-{index}.{what}", self.journal.id))
    }

    /// Directories that go may be closed to us, and yet what is in them goes first.
    fn open_directories(&self) {
        for entry in self.journal.entries.iter().filter(|entry| entry.clears()) {
            if let Node::Directory { mode } = entry.before
                && let Ok(Some(spot)) = self.spot(entry)
            {
                // If it cannot be opened, removing what is in it says why.
                let _ = spot.set_directory_mode(mode | 0o700);
            }
        }
    }

    /// A directory that stays after all gets its mode back.
    fn close_kept_directories(&self) {
        let entries = self.journal.entries.iter().zip(&self.ended);
        for (entry, _) in entries.filter(|(entry, ended)| entry.clears() && ended.is_some()) {
            if let Node::Directory { mode } = entry.before
                && let Ok(Some(spot)) = self.spot(entry)
            {
                let _ = spot.set_directory_mode(mode);
            }
        }
    }

    /// Whether every object came.
    fn has_objects(&self) -> bool {
        let mut entries = self.journal.entries.iter().zip(&self.ended);
        entries.all(|(entry, ended)| !git::is_object(entry.path.as_path()) || ended.is_none())
    }

    /// Leaves a ref where it is, and nothing of a try that was interrupted with it.
    fn orphaned(&self, index: usize, entry: &Entry) -> io::Result<Step> {
        let why = Step::Conflict("what it would name could not be brought");
        let Some(spot) = self.spot(entry)? else {
            return Ok(why);
        };
        let Some(lock) = git::Lock::left(&spot, &entry.path, &self.journal.id)? else {
            return Ok(why);
        };
        let left = self.left(index, entry, &spot, why);
        lock.release()?;
        left
    }

    /// Takes away what an interrupted try left beside `spot`. A step if it came to an end that way;
    /// none if nothing stands in the way of trying again.
    fn tidied(&self, index: usize, entry: &Entry, spot: &Spot) -> io::Result<Option<Step>> {
        // Only ever written by us, and never anybody's only copy.
        self.beside(spot, index, "new")?.unlink()?;
        let swap = self.beside(spot, index, "swap")?;
        let (held, _) = swap.node()?;
        if held == Node::Absent {
            return Ok(None);
        }
        if held == entry.after || held == entry.before {
            // Ours, or what is kept as the old content.
            swap.unlink()?;
            return Ok(None);
        }
        self.take_back(&swap, spot, entry).map(Some)
    }

    /// Leaves the ref at `spot` where it is, for the reason `why`.
    fn left(&self, index: usize, entry: &Entry, spot: &Spot, why: Step) -> io::Result<Step> {
        let tidied = self.tidied(index, entry, spot)?;
        Ok(tidied.unwrap_or(why))
    }

    /// Why a ref has to stay where it is, told while git keeps off it; none if it is moved already.
    fn stays(&self, entry: &Entry, spot: &Spot) -> io::Result<Option<&'static str>> {
        let now = spot.node()?.0;
        if now == entry.after {
            return Ok(None);
        }
        let refs = git::Refs::read(&self.tree)?;
        // A ref without a file of its own has its value elsewhere.
        let packed = entry.before == Node::Absent && now == Node::Absent;
        if packed && refs.packed_digest() != self.journal.packed_refs {
            return Ok(Some(CHANGED));
        }
        let brings_head = || {
            let mut entries = self.journal.entries.iter();
            entries.any(|entry| git::is_head(entry.path.as_path()))
        };
        let head = self.journal.head;
        let switched = head.is_some() && refs.head_digest() != head && !brings_head();
        let elsewhere = switched && refs.is_other_branch(entry.path.as_path());
        Ok(elsewhere.then_some(git::ELSEWHERE))
    }

    /// Moves a ref while git keeps off it.
    fn locked(
        &self,
        index: usize,
        entry: &Entry,
        step: fn(&Self, usize, &Entry) -> io::Result<Step>,
    ) -> io::Result<Step> {
        let Some(spot) = self.spot(entry)? else {
            return Ok(Step::Conflict("the directory it belongs in is not there"));
        };
        let Some(lock) = git::Lock::take(&spot, &entry.path, &self.journal.id)? else {
            return Ok(Step::Conflict("git is at work on it"));
        };
        (self.moment)("locked");
        let moved = match self.stays(entry, &spot) {
            Ok(None) => step(self, index, entry),
            Ok(Some(why)) => self.left(index, entry, &spot, Step::Conflict(why)),
            Err(error) => Err(error),
        };
        lock.release()?;
        moved
    }

    /// Takes away what goes.
    fn clear(&self, index: usize, entry: &Entry) -> io::Result<Step> {
        if git::is_ref(entry) {
            return self.locked(index, entry, Self::clear_unlocked);
        }
        self.clear_unlocked(index, entry)
    }

    fn clear_unlocked(&self, index: usize, entry: &Entry) -> io::Result<Step> {
        let Some(spot) = self.spot(entry)? else {
            return Ok(Step::Done);
        };
        if entry.before.is_directory() {
            return clear_directory(&spot, entry);
        }
        let swap = self.beside(&spot, index, "swap")?;
        let (held, _) = swap.node()?;
        if held == entry.before {
            // Taken by a try that was interrupted.
            swap.unlink()?;
        } else if held != Node::Absent {
            return give_back(&swap, &spot);
        }
        let (now, _) = spot.node()?;
        if now == Node::Absent || reached(&now, &entry.after) {
            return Ok(Step::Done);
        }
        if now != entry.before {
            return Ok(Step::Conflict(CHANGED));
        }
        spot.move_to(&swap)?;
        (self.moment)("taken");
        if swap.node()?.0 != entry.before {
            return give_back(&swap, &spot);
        }
        swap.unlink()?;
        Ok(Step::Done)
    }

    fn make(&self, _: usize, entry: &Entry) -> io::Result<Step> {
        let Some(spot) = self.spot(entry)? else {
            return Ok(Step::Conflict("the directory it belongs in is not there"));
        };
        match spot.node()?.0 {
            Node::Directory { .. } => Ok(Step::Done),
            Node::Absent => spot.make_directory(entry.owner).map(|()| Step::Done),
            Node::File { .. } | Node::Symlink { .. } | Node::Other => Ok(Step::Conflict(CHANGED)),
        }
    }

    /// Brings a file or a link.
    fn put(&self, index: usize, entry: &Entry) -> io::Result<Step> {
        if git::is_ref(entry) {
            return self.locked(index, entry, Self::put_unlocked);
        }
        self.put_unlocked(index, entry)
    }

    fn put_unlocked(&self, index: usize, entry: &Entry) -> io::Result<Step> {
        let Some(spot) = self.spot(entry)? else {
            return Ok(Step::Conflict("the directory it belongs in is not there"));
        };
        if let Some(step) = self.tidied(index, entry, &spot)? {
            return Ok(step);
        }
        let (now, _) = spot.node()?;
        let fresh = self.beside(&spot, index, "new")?;
        let swap = self.beside(&spot, index, "swap")?;
        let expected = if entry.clears() {
            &Node::Absent
        } else {
            &entry.before
        };
        // An object is its name: whoever brought it, it is the same.
        let is_there = git::is_object(entry.path.as_path()) && now.is_file();
        if now == entry.after || is_there {
            return Ok(Step::Done);
        }
        if now != *expected {
            return Ok(Step::Conflict(CHANGED));
        }
        self.write(&fresh, index, entry)?;
        (self.moment)("written");
        fresh.move_to(&swap)?;
        (self.moment)("ready");
        if *expected == Node::Absent {
            return match swap.move_to(&spot) {
                Ok(()) => Ok(Step::Done),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    swap.unlink()?;
                    Ok(Step::Conflict(CHANGED))
                }
                Err(error) => Err(error),
            };
        }
        self.exchange(&swap, &spot, entry)
    }

    fn exchange(&self, swap: &Spot, spot: &Spot, entry: &Entry) -> io::Result<Step> {
        match swap.exchange(spot) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                swap.unlink()?;
                return Ok(Step::Conflict(CHANGED));
            }
            Err(error) if unsupported(&error) => {
                // Without exchanging, a moment lies between looking and replacing.
                if spot.node()?.0 != entry.before {
                    swap.unlink()?;
                    return Ok(Step::Conflict(CHANGED));
                }
                return swap.replace(spot).map(|()| Step::Done);
            }
            Err(error) => return Err(error),
        }
        (self.moment)("exchanged");
        if swap.node()?.0 == entry.before {
            swap.unlink()?;
            return Ok(Step::Done);
        }
        self.take_back(swap, spot, entry)
    }

    /// Takes ours out again after an exchange that brought out what is somebody else's. They may
    /// write once more meanwhile: only what we put in ourselves is removed.
    fn take_back(&self, swap: &Spot, spot: &Spot, entry: &Entry) -> io::Result<Step> {
        if spot.node()?.0 != entry.after {
            return give_back(swap, spot);
        }
        (self.moment)("taking back");
        match swap.exchange(spot) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return give_back(swap, spot),
            exchanged => exchanged?,
        }
        (self.moment)("exchanged back");
        if swap.node()?.0 != entry.after {
            return Ok(Step::Conflict(TWICE));
        }
        swap.unlink()?;
        Ok(Step::Conflict(CHANGED))
    }

    fn write(&self, fresh: &Spot, index: usize, entry: &Entry) -> io::Result<()> {
        match &entry.after {
            Node::File { mode, sha256, .. } => {
                let content = File::open(new_content(self.place, index))?;
                let written = fresh.write(content, *mode, entry.owner);
                match written {
                    Ok(written) if written == *sha256 => Ok(()),
                    Ok(_) => {
                        fresh.unlink()?;
                        let what = "the content kept for it is damaged";
                        Err(io::Error::new(io::ErrorKind::InvalidData, what))
                    }
                    Err(error) => {
                        // A full disk must not stay full of what did not fit.
                        let _ = fresh.unlink();
                        Err(error)
                    }
                }
            }
            Node::Symlink { target } => fresh.write_link(target.as_path(), entry.owner),
            Node::Absent | Node::Directory { .. } | Node::Other => Ok(()),
        }
    }

    fn set_mode(&self, _: usize, entry: &Entry) -> io::Result<Step> {
        let (Some(spot), Node::Directory { mode }) = (self.spot(entry)?, &entry.after) else {
            return Ok(Step::Conflict("the directory it belongs in is not there"));
        };
        let (now, _) = spot.node()?;
        let Node::Directory { mode: set } = now else {
            return Ok(Step::Conflict(CHANGED));
        };
        // One that was there before has the mode of before or ours, unless somebody else set it.
        if entry.before.is_directory() && now != entry.before && now != entry.after {
            return Ok(Step::Conflict(CHANGED));
        }
        if set != *mode {
            spot.set_directory_mode(*mode)?;
        }
        Ok(Step::Done)
    }

    /// What was renamed lasts before the journal says that it is done.
    fn sync(&self) {
        let parents: BTreeSet<Option<&Path>> = self
            .journal
            .entries
            .iter()
            .map(|entry| entry.path.as_path().parent())
            .collect();
        let mut seen = parents;
        for entry in &self.journal.entries {
            if seen.remove(&entry.path.as_path().parent())
                && let Ok(Some(spot)) = self.spot(entry)
            {
                // A file system that cannot sync a directory has nothing better to offer.
                let _ = spot.sync_directory();
            }
        }
    }
}

/// Whether a path holds what it is to hold; a directory's mode comes last.
fn reached(now: &Node, after: &Node) -> bool {
    now == after || (now.is_directory() && after.is_directory())
}

fn clear_directory(spot: &Spot, entry: &Entry) -> io::Result<Step> {
    let (now, _) = spot.node()?;
    if now == Node::Absent || reached(&now, &entry.after) {
        return Ok(Step::Done);
    }
    if !now.is_directory() {
        return Ok(Step::Conflict(CHANGED));
    }
    match spot.remove_directory() {
        Ok(()) => Ok(Step::Done),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Ok(Step::Conflict("something else is in it"))
        }
        Err(error) => Err(error),
    }
}

/// Puts back what was taken and is somebody else's. If its place is taken again, it stays beside
/// it under our name: nothing of theirs is ever removed.
fn give_back(swap: &Spot, spot: &Spot) -> io::Result<Step> {
    match swap.move_to(spot) {
        Ok(()) => Ok(Step::Conflict(CHANGED)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Step::Conflict(TWICE)),
        Err(error) => Err(error),
    }
}
