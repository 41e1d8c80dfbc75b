//! Where a path that cannot be reached would have led.
//!
//! A symlink to a denied file must be judged the same whether the file exists or not, or the
//! difference between "denied" and "not found" would tell. So the way is followed as far as it
//! goes, and the rest is taken as written.
//!
//! Non-guarantee: the answer is text for the decision to look at. Nothing is opened by it.

use super::Root;
use airlock_core::WorkspacePath;

/// As many symlinks as Linux follows on one way.
const LINKS: usize = 40;
/// Each step is a system call; links may be long.
const STEPS: usize = 4_096;

/// The path `asked` means once its symlinks are followed; none if they lead out or in circles.
pub(super) fn intended(root: &Root, asked: &WorkspacePath) -> Option<WorkspacePath> {
    let mut left: Vec<String> = reversed(asked.as_str());
    let mut done: Vec<String> = Vec::new();
    let (mut links, mut steps) = (0, 0);
    while let Some(component) = left.pop() {
        steps += 1;
        match component.as_str() {
            "" | "." => continue,
            ".." => {
                done.pop()?;
                continue;
            }
            _ => done.push(component),
        }
        let Ok(Some(target)) = root.link_target(&done.join("/")) else {
            continue;
        };
        links += 1;
        if links > LINKS || steps > STEPS {
            return None;
        }
        let target = String::from_utf8(target).ok()?;
        done.pop();
        let target = if target.starts_with('/') {
            done.clear();
            let below = target.strip_prefix(root.path().trim_end_matches('/'))?;
            below.strip_prefix('/').or(below.is_empty().then_some(""))?
        } else {
            &target
        };
        left.extend(reversed(target));
    }
    if done.is_empty() {
        return Some(WorkspacePath::root());
    }
    WorkspacePath::new(&done.join("/")).ok()
}

fn reversed(path: &str) -> Vec<String> {
    path.split('/').rev().map(str::to_owned).collect()
}
