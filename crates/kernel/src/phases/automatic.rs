//! When changes may be merged without a person: only if the policy says so, and only if tests
//! passed in this session, nothing sensitive is touched, the change is small, nothing conflicts,
//! nothing in it is flagged and the machine was not restarted since it was written.
//!
//! Guarantee: what does not hold is told to the person who is asked instead, by the first criterion
//! that failed. What cannot be looked at whole - bytes, a link, a long file - does not hold.

use super::facts::Staged;
use super::tools::place_of;
use crate::kernel::Kernel;
use crate::road::Scene;
use crate::sanitise::{sanitise_line, sanitise_path};
use airlock_core::{EffectSet, Request, SessionId};
use airlock_phases::{Proof, TestRun};
use airlock_sandbox::stage::{Change, Content, Diff, Line, NodeKind, TreePath};

/// Why changes wait for a person though the policy would let them go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAutomatic {
    /// It cannot be told what would be merged.
    #[error("the stage cannot be looked at")]
    Unseen,
    /// What is staged may not be what was written.
    #[error("the machine was restarted since something of it was written")]
    Suspect,
    /// Nothing was run, or not all of it passed, or not of what is there now.
    #[error("the tests have not passed in this session with the stage as it is")]
    Untested,
    /// Tests are gone, or there may be others.
    #[error("{0}")]
    Tests(String),
    /// The rules name a path of it.
    #[error("it touches a path that is sensitive or guarded")]
    Sensitive,
    /// Somebody else changed it as well.
    #[error("`{0}` was changed in the real tree, too")]
    Conflict(String),
    /// It never leaves a stage.
    #[error("`{0}` is nothing that can be merged")]
    Refused(String),
    /// It has no lines to be counted and looked at.
    #[error("`{0}` is no text: bytes, a link, or too long")]
    NotText(String),
    /// It is more than lines.
    #[error("`{0}` gets another mode")]
    Mode(String),
    /// More than the policy lets go.
    #[error("{lines} lines are changed, and fewer than {most} go without a person")]
    TooLong {
        /// Added and removed.
        lines: u64,
        /// The policy's number.
        most: u32,
    },
    /// A secret, or what may be instructions.
    #[error("`{0}` holds what looks like a secret or like instructions")]
    Flagged(String),
}

impl Kernel {
    /// Whether the policy's criteria let `request`, a `phase.commit`, go unreviewed; none if the
    /// policy has none.
    pub(super) fn automatic(
        &self,
        scene: Scene<'_>,
        request: &Request,
    ) -> Option<Result<(), NotAutomatic>> {
        let merge = scene.policy.policy().document().merge;
        let session = scene.session.filter(|_| merge.automatic)?;
        let Ok(staged) = self.desk().staged(session) else {
            return Some(Err(NotAutomatic::Unseen));
        };
        let Some(diff) = &staged.diff else {
            return Some(Err(NotAutomatic::Unseen));
        };
        let last = place_of(session).progress.last;
        let reservation = last.as_ref().and_then(reservation);
        let passed = last.is_some_and(|run| {
            let shown = run.suspects.is_empty() && run.unheard.is_empty();
            run.proof == Proof::Green && run.stage == staged.digest && shown
        });
        // A conflict first: what somebody else changed makes the stage another one, too.
        let holds = |met: bool, else_it: NotAutomatic| if met { Ok(()) } else { Err(else_it) };
        Some(
            mergeable(diff)
                .and_then(|()| holds(passed, NotAutomatic::Untested))
                .and_then(|()| reservation.map_or(Ok(()), |why| Err(NotAutomatic::Tests(why))))
                .and_then(|()| holds(!touches_sensitive(scene, request), NotAutomatic::Sensitive))
                .and_then(|()| small(&staged, diff, merge.max_lines))
                .and_then(|()| self.unflagged(scene, &session.id, &staged)),
        )
    }

    /// Whether nothing the stage would bring holds a secret or what may be instructions.
    fn unflagged(
        &self,
        scene: Scene<'_>,
        session: &SessionId,
        staged: &Staged,
    ) -> Result<(), NotAutomatic> {
        let Ok(sanitiser) = self.sanitisers().of(Some(session), scene.policy) else {
            return Err(NotAutomatic::Unseen);
        };
        for path in staged.changed.paths() {
            let Some(text) = staged.new_text(path) else {
                // What is gone holds nothing; what cannot be read as text was not looked at.
                if staged.root().open_file(path).is_ok() {
                    return Err(NotAutomatic::NotText(sanitise_path(path)));
                }
                continue;
            };
            let clean = sanitiser.text(&text);
            if !clean.flags.is_empty() || clean.secrets > 0 {
                return Err(NotAutomatic::Flagged(sanitise_path(path)));
            }
        }
        Ok(())
    }
}

/// What is to be said of the tests that passed: some are gone, or there may be others.
pub(super) fn reservation(run: &TestRun) -> Option<String> {
    const FEW: usize = 5;
    if run.lost.is_empty() {
        return run.partial.clone();
    }
    let shown: Vec<&str> = run.lost.iter().take(FEW).map(String::as_str).collect();
    let more = match run.lost.len().saturating_sub(FEW) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = shown.join(", ");
    let unsure = run.unsure.map(|unsure| format!("; {}", unsure.why()));
    let unsure = unsure.unwrap_or_default();
    let told = format!("tests that were there are gone, or no longer run: {shown}{more}{unsure}");
    Some(sanitise_line(&told, 500))
}

fn told(path: &TreePath) -> String {
    sanitise_path(&path.as_path().to_string_lossy())
}

fn mergeable(diff: &Diff) -> Result<(), NotAutomatic> {
    if diff.suspect {
        return Err(NotAutomatic::Suspect);
    }
    if let Some(conflict) = diff.conflicts.first() {
        return Err(NotAutomatic::Conflict(told(&conflict.path)));
    }
    match diff.refused.first() {
        Some(refused) => Err(NotAutomatic::Refused(told(&refused.path))),
        None => Ok(()),
    }
}

/// Whether fewer than `most` lines are changed, and nothing but lines.
fn small(staged: &Staged, diff: &Diff, most: u32) -> Result<(), NotAutomatic> {
    let counted = |change: &&Change| {
        let path = change.path.as_path().to_str();
        path.is_some_and(|path| staged.merged().any(|own| own == path))
    };
    let mut lines = 0_u64;
    for change in diff.changes.iter().filter(counted) {
        let mut sides = [&change.old, &change.new].into_iter().flatten();
        let linked = sides.any(|facts| facts.kind == NodeKind::Symlink);
        match lines_of(&change.content) {
            Some(own) if !linked => lines = lines.saturating_add(own),
            Some(_) | None => return Err(NotAutomatic::NotText(told(&change.path))),
        }
        if is_of_mode(change) {
            return Err(NotAutomatic::Mode(told(&change.path)));
        }
    }
    if lines < u64::from(most) {
        return Ok(());
    }
    Err(NotAutomatic::TooLong { lines, most })
}

/// Whether somebody may do with it what nobody could before, or nobody what somebody could.
fn is_of_mode(change: &Change) -> bool {
    /// What a file or directory may be made with and nobody wonders.
    const USUAL: u32 = 0o775;
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.mode != new.mode,
        (None, Some(new)) => new.kind != NodeKind::Symlink && new.mode & !USUAL != 0,
        (_, None) => false,
    }
}

/// Added and removed lines; none where they cannot be told.
fn lines_of(content: &Content) -> Option<u64> {
    match content {
        Content::None => Some(0),
        Content::Text { hunks } => {
            let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
            let changed = lines.filter(|line| match line {
                Line::Added(_) | Line::Removed(_) => true,
                Line::Same(_) => false,
            });
            Some(changed.count() as u64)
        }
        Content::Binary | Content::TooLarge | Content::Replaced { .. } => None,
    }
}

fn touches_sensitive(scene: Scene<'_>, request: &Request) -> bool {
    let mut written = request.clone();
    written.effects = EffectSet::CHANGES;
    scene.policy.policy().changes_sensitive(&written)
}
