//! A layer over a stage in which something is only tried.
//!
//! Whoever runs in it finds the workspace as the stage shows it, and writes as usual; what they write
//! goes with the layer. So no run that is tried meets what another one left, and the stage is
//! afterwards what it was.
//!
//! Guarantee: the layer holds nothing at first, and nobody else has it: it takes the stage's claim.
//!
//! Non-guarantee: what a supervisor that was killed left of one stays until the next is made, or the
//! stage is dropped. Nobody reads it.

use super::beneath::{Tree, node_of};
use super::error::{StageError, failed};
use super::record::StageKind;
use super::remove::remove_tree;
use super::staged::{Claim, Stage};
use super::store::{Owner, adopt};
use crate::launch::{Layers, LayersKind};
use rustix::fs::Mode;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

const TRIAL: &str = "trial";
const SCRATCH: &str = "trialwork";

/// A layer that goes with what was tried in it.
#[derive(Debug)]
#[must_use = "the layer is there only as long as this is kept"]
pub struct Trial {
    directory: OwnedFd,
    place: PathBuf,
}

impl Stage {
    /// A layer over what the stage holds, for the one sandbox that has the stage; none over a copy,
    /// which nothing can be laid over.
    pub fn trial(&self, _: &Claim) -> Result<Option<Trial>, StageError> {
        if self.kind() == StageKind::Copy {
            return Ok(None);
        }
        let directory = self.directory().try_clone();
        let trial = Trial {
            directory: directory.map_err(|source| StageError::Io {
                what: "open",
                path: self.place().to_owned(),
                source,
            })?,
            place: self.place().to_owned(),
        };
        trial.remove()?;
        let fail = |errno| failed("create", trial.place.join(TRIAL))(errno);
        for name in [TRIAL, SCRATCH] {
            let private = Mode::from_raw_mode(0o700);
            rustix::fs::mkdirat(&trial.directory, name, private).map_err(fail)?;
        }
        let changes = self.changed_tree()?;
        let (mode, owner) = (node_of(&changes).map_err(fail)?.mode, owner_of(&changes));
        let own = Tree::open_in(&trial.directory, TRIAL).map_err(fail)?;
        adopt(&own, mode, owner.map_err(fail)?).map_err(fail)?;
        Ok(Some(trial))
    }
}

fn owner_of(tree: &Tree) -> rustix::io::Result<Owner> {
    let stat = rustix::fs::fstat(tree)?;
    Ok(Owner {
        uid: stat.st_uid,
        gid: stat.st_gid,
    })
}

impl Trial {
    /// What takes the workspace's place in a sandbox.
    pub fn layers(&self) -> Layers {
        Layers {
            kind: LayersKind::Trial,
            upper: self.place.join(TRIAL),
            work: self.place.join(SCRATCH),
            without: Vec::new(),
        }
    }

    fn remove(&self) -> Result<(), StageError> {
        for name in [TRIAL, SCRATCH] {
            remove_tree(&self.directory, name, &self.place)?;
        }
        Ok(())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // What cannot be removed now is in nobody's way, and removed before the next one.
        let _removed = self.remove();
    }
}
