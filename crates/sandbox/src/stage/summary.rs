//! A stage at a glance: counted up to a bound, never read.

use super::beneath::{NodeKind, Tree};
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
    /// Entries it holds other than directories; of a copy all of them.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Whether there are more than were counted.
    pub more: bool,
    /// Whether a sandbox has it.
    pub in_use: bool,
    /// Whether it holds what a run left that was cut off before that was judged.
    pub unjudged: bool,
    /// Whether the machine was started anew since something it holds was written.
    pub suspect: bool,
}

pub(super) fn summarise(stage: &Stage) -> Result<StageSummary, StageError> {
    let tree = stage.changed_tree()?;
    let mut count = Count::default();
    count.tree(&tree);
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
        suspect: stage.is_suspect() && (count.files > 0 || count.more),
    })
}

#[derive(Default)]
struct Count {
    files: u64,
    bytes: u64,
    seen: u64,
    more: bool,
}

impl Count {
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
