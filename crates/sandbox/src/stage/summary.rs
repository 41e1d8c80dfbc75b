//! A stage at a glance: what it changes, counted as its diff counts it.
//!
//! Of a stage whose diff cannot be told what it holds is counted instead, up to a bound and never read:
//! it is listed all the same, so that somebody can drop it.

use super::beneath::{NodeKind, Tree};
use super::diff::{Diff, DiffOptions};
use super::error::StageError;
use super::name::StageName;
use super::path::TreePath;
use super::record::StageKind;
use super::staged::Stage;
use airlock_core::Timestamp;
use serde::Serialize;

/// The most entries counted.
const COUNTED: u64 = 10_000;

/// What can be said of a stage at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is true or not whatever the others are"
)]
pub struct StageSummary {
    /// Its name.
    pub name: StageName,
    /// The real tree.
    pub workspace: TreePath,
    /// When it was created.
    pub created: Timestamp,
    /// How it holds changes.
    pub kind: StageKind,
    /// Files, links and directories that it changes.
    pub files: u64,
    /// Bytes in those that it leaves.
    pub bytes: u64,
    /// Whether there may be more than were counted.
    pub more: bool,
    /// Whether a sandbox has it.
    pub in_use: bool,
    /// Whether it holds what a run left that was cut off before that was judged.
    pub unjudged: bool,
    /// Whether a run was cut off in it, and judged, and none has ended there since.
    pub cut_off: bool,
    /// Whether the machine was started anew since something it holds was written.
    pub suspect: bool,
}

pub(super) fn summarise(stage: &Stage) -> Result<StageSummary, StageError> {
    // Lines need not be compared to tell what changed.
    let options = DiffOptions {
        max_text_bytes: 0,
        max_total_text_bytes: 0,
        ..DiffOptions::default()
    };
    let count = match stage.diff(&options) {
        Ok(diff) => Count::of(&diff),
        Err(_) => Count::held(&stage.changed_tree()?),
    };
    let holds = count.any || count.more;
    Ok(StageSummary {
        name: stage.name().clone(),
        workspace: stage.workspace().into(),
        created: stage.created(),
        kind: stage.kind(),
        files: count.files,
        bytes: count.bytes,
        more: count.more,
        in_use: stage.in_use()?,
        unjudged: stage.is_unjudged()?,
        cut_off: stage.was_cut_off() && holds,
        suspect: stage.is_suspect() && holds,
    })
}

#[derive(Default)]
struct Count {
    files: u64,
    bytes: u64,
    seen: u64,
    /// Whether there is anything, be it of the kind that never leaves a stage.
    any: bool,
    more: bool,
}

impl Count {
    fn of(diff: &Diff) -> Self {
        let left = diff.changes.iter().filter_map(|change| change.new.as_ref());
        Self {
            files: diff.changes.len() as u64,
            bytes: left.fold(0, |bytes, facts| bytes.saturating_add(facts.size)),
            any: !diff.is_empty(),
            ..Self::default()
        }
    }

    fn held(tree: &Tree) -> Self {
        let mut count = Self::default();
        count.tree(tree);
        count.more = true;
        count
    }

    /// Counts what can be seen; what cannot makes the count a lower bound.
    fn tree(&mut self, tree: &Tree) {
        let mut pending = vec![TreePath::default()];
        while let Some(directory) = pending.pop() {
            let Ok(names) = tree.names(directory.as_path()) else {
                self.more = true;
                continue;
            };
            for name in names {
                if self.seen == COUNTED {
                    self.more = true;
                    return;
                }
                self.seen += 1;
                let path = directory.join(&name);
                match tree.node(path.as_path()) {
                    Ok(Some(node)) if node.kind == NodeKind::Directory => pending.push(path),
                    Ok(Some(node)) => {
                        self.files += 1;
                        self.bytes = self.bytes.saturating_add(node.size);
                    }
                    Ok(None) => {}
                    Err(_) => self.more = true,
                }
            }
        }
    }
}
