//! When changes may be merged without a person: only if the policy says so, and only if tests
//! passed in this session, nothing sensitive is touched, the change is small, nothing conflicts and
//! nothing in it is flagged.

use super::tools::place_of;
use crate::kernel::Kernel;
use crate::road::Scene;
use airlock_core::{Effect, EffectSet, Request};
use airlock_phases::Proof;
use airlock_sandbox::stage::{Change, Content, Line};

impl Kernel {
    /// Whether the policy's criteria let `request`, a `phase.commit`, go unreviewed.
    pub(super) fn is_automatic(&self, scene: Scene<'_>, request: &Request) -> bool {
        let policy = scene.policy.policy();
        let merge = policy.document().merge;
        let Some(session) = scene.session.filter(|_| merge.automatic) else {
            return false;
        };
        let desk = self.desk();
        let Ok(staged) = desk.staged(session) else {
            return false;
        };
        let Some(diff) = &staged.diff else {
            return false;
        };
        let passed = place_of(session).progress.last.is_some_and(|run| {
            run.proof == Proof::Green && run.stage == staged.digest && run.suspects.is_empty()
        });
        let changed: Vec<&Change> = {
            let known = |change: &&Change| {
                let path = change.path.as_path().to_str();
                path.is_some_and(|path| staged.changed.paths().any(|own| own == path))
            };
            diff.changes.iter().filter(known).collect()
        };
        let lines = changed
            .iter()
            .map(|change| lines_of(&change.content))
            .sum::<Option<u64>>();
        let small = lines.is_some_and(|lines| lines < u64::from(merge.max_lines));
        let conflicts = !diff.conflicts.is_empty() || !diff.refused.is_empty();
        passed
            && small
            && !conflicts
            && !touches_sensitive(scene, request)
            && !self.is_flagged(scene, &session.id, &staged)
    }

    /// Whether something the stage would bring holds a secret or what may be instructions.
    fn is_flagged(
        &self,
        scene: Scene<'_>,
        session: &airlock_core::SessionId,
        staged: &super::facts::Staged,
    ) -> bool {
        let Ok(sanitiser) = self.sanitisers().of(Some(session), scene.policy) else {
            return true;
        };
        staged.changed.paths().any(|path| {
            // What is gone holds nothing; what cannot be read as text was not looked at.
            let Some(text) = staged.new_text(path) else {
                return staged.root().open_file(path).is_ok();
            };
            let clean = sanitiser.text(&text);
            !clean.flags.is_empty() || clean.secrets > 0
        })
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
    written.effects = EffectSet::of(&[Effect::Write, Effect::Delete]);
    scene.policy.policy().touches_sensitive(&written) || scene.policy.policy().is_guarded(&written)
}
