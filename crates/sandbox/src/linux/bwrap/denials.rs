//! What of a plan's denials mounts can say.
//!
//! A denied path that exists is hidden. One that does not exist yet is made first, as an empty
//! directory or as a file that says nothing new, where that is nobody's tree but the stage's own
//! copy; it is removed with the sandbox.
//! Everything else - patterns, links, paths that may yet appear in a real tree - is left over.

use crate::generate::Mask;
use crate::launch::Layers;
use crate::plan::{Access, HostPath, Plan, Target};
use crate::stage::Placeholders;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Denied paths that can be mounted on, and what was made so that they can be.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) masks: Vec<Mask>,
    pub(super) placeholders: Option<Placeholders>,
}

/// Files that programs read where they are: a directory in their place would be an error to them.
/// What they say is what holds without them.
const FILES: &[(&str, &str)] = &[(".git/commondir", ".\n"), (".git/config.worktree", "")];

/// Looks for every denied path of `plan` that a mount shows.
pub(super) fn find(
    plan: &Plan,
    layers: Option<&Layers>,
    owner: Option<(u32, u32)>,
) -> io::Result<Found> {
    let mut found = Found {
        placeholders: layers
            .map(|layers| Placeholders::new(layers.upper.clone(), layers.work.clone())),
        ..Found::default()
    };
    for denial in plan.denials() {
        let Target::Path(path) = &denial.target else {
            continue;
        };
        if found.masks.iter().any(|mask| mask_path(mask) == path) {
            continue;
        }
        let mounts = plan.mounts();
        let innermost = mounts.iter().rfind(|(mount, _)| mount.holds(path));
        let Some((mount, access)) = innermost else {
            // It holds a mount, or nothing at all is shown of it.
            found.masks.extend(mask(path, path.as_path()));
            continue;
        };
        let Some(real) = real(path, mount, *access, layers) else {
            continue;
        };
        let there = mask(path, &real);
        let within = path.as_path().strip_prefix(mount.as_path());
        if let (None, Access::Stage, true, Ok(within), Some(placeholders)) = (
            &there,
            access,
            placeable(&real),
            within,
            &mut found.placeholders,
        ) {
            let text = FILES.iter().find(|(name, _)| within.ends_with(name));
            let text = text.map(|(_, text)| *text);
            placeholders.make(within, text, owner)?;
            found.masks.push(match text {
                Some(_) => Mask::File(path.clone()),
                None => Mask::Directory(path.clone()),
            });
        }
        found.masks.extend(there);
    }
    Ok(found)
}

const fn mask_path(mask: &Mask) -> &HostPath {
    match mask {
        Mask::Directory(path) | Mask::File(path) => path,
    }
}

/// Where on the host lies what is seen at `path`, if no link leads there.
fn real(
    path: &HostPath,
    mount: &HostPath,
    access: Access,
    layers: Option<&Layers>,
) -> Option<PathBuf> {
    let shown = match access {
        Access::Stage => layers?.upper.clone(),
        Access::Read | Access::Write => mount.as_path().to_owned(),
    };
    let shown = fs::canonicalize(shown).ok()?;
    let rest = path.as_path().strip_prefix(mount.as_path()).ok()?;
    let real = shown.join(rest);
    // What is mounted on a link lands elsewhere: none may be on the way.
    let parent = real.parent().filter(|_| real != shown);
    let straight = parent.is_none_or(|parent| {
        !parent.exists() || fs::canonicalize(parent).is_ok_and(|found| found == parent)
    });
    straight.then_some(real)
}

fn mask(path: &HostPath, real: &Path) -> Option<Mask> {
    let metadata = fs::symlink_metadata(real).ok()?;
    if metadata.is_symlink() {
        return None;
    }
    Some(if metadata.is_dir() {
        Mask::Directory(path.clone())
    } else {
        Mask::File(path.clone())
    })
}

/// Whether nothing is there, in a directory that is.
fn placeable(real: &Path) -> bool {
    let absent = fs::symlink_metadata(real).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    absent && real.parent().is_some_and(Path::is_dir)
}
