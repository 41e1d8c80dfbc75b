//! Which commits a commit of a stage stands on, as far as loose objects tell.
//!
//! Non-guarantee: an object's name is not held against its content, and what is in a pack is not
//! looked for. Whoever is not found among the ancestors may be one all the same.

use airlock_sandbox::stage::Stage;
use flate2::read::ZlibDecoder;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Commits that are looked at: far more than a task makes.
const COMMITS: usize = 1_000;
/// Bytes of a commit that are unpacked; its parents are named first of all.
const BEGINNING: u64 = 64 * 1024;

/// Whether `commit` of `stage` is `ancestor`, or was made on top of it.
pub(crate) fn stands_on(stage: &Stage, commit: &str, ancestor: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![commit.to_owned()];
    while let Some(commit) = waiting.pop() {
        if commit == ancestor {
            return true;
        }
        if seen.len() < COMMITS && seen.insert(commit.clone()) {
            waiting.extend(parents(stage, &commit));
        }
    }
    false
}

/// The parents of a commit that came into being in `stage`; none of any other.
fn parents(stage: &Stage, commit: &str) -> Vec<String> {
    let Some(path) = loose(commit) else {
        return Vec::new();
    };
    let Ok(file) = stage.open_changed(&path) else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    // One that is cut short or damaged tells what came before that.
    let _ = ZlibDecoder::new(file)
        .take(BEGINNING)
        .read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let Some((kind, content)) = text.split_once('\0') else {
        return Vec::new();
    };
    if !kind.starts_with("commit ") {
        return Vec::new();
    }
    let header = content.lines().take_while(|line| !line.is_empty());
    let parents = header.filter_map(|line| line.strip_prefix("parent "));
    parents.map(str::to_owned).collect()
}

/// Where the object `name` lies if it is in no pack.
fn loose(name: &str) -> Option<PathBuf> {
    let (directory, file) = name.split_at_checked(2)?;
    let plain = !file.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| Path::new(".git/objects").join(directory).join(file))
}
