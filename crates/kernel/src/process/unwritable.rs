//! What no sandbox can write, whoever said yes to it: what git and Airlock obey in the workspace.

use airlock_core::WorkspacePath;
use std::path::Path;

/// The directory with the policy, which the plan of every sandbox keeps by itself.
const POLICY: &str = ".airlock";

/// What git obeys, where the workspace is a repository.
pub(super) const GIT: [&str; 4] = [
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
];

/// Whether the workspace at `root` is a repository.
pub(super) fn is_repository(root: &Path) -> bool {
    root.join(".git").is_dir()
}

/// Whether `path` of the workspace at `root` can be written in no sandbox.
pub(crate) fn is_unwritable(root: &Path, path: &WorkspacePath) -> bool {
    let lies_in = |kept: &str| {
        let rest = path.as_str().strip_prefix(kept);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    lies_in(POLICY) || (is_repository(root) && GIT.into_iter().any(lies_in))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_and_airlock_obey_is_unwritable_and_nothing_beside_it() {
        let plain = tempfile::tempdir().unwrap();
        let repository = tempfile::tempdir().unwrap();
        std::fs::create_dir(repository.path().join(".git")).unwrap();
        for (path, anywhere, in_repository) in [
            (".airlock", true, true),
            (".airlock/adapters/a.yaml", true, true),
            (".airlocks", false, false),
            ("x/.airlock/a", false, false),
            (".git/hooks", false, true),
            (".git/hooks/pre-commit", false, true),
            (".git/config", false, true),
            (".git/config.worktree", false, true),
            (".git/configs", false, false),
            (".git/index", false, false),
            ("src/main.rs", false, false),
        ] {
            let path = WorkspacePath::new(path).unwrap();
            assert_eq!(is_unwritable(plain.path(), &path), anywhere, "{path}");
            assert_eq!(
                is_unwritable(repository.path(), &path),
                in_repository,
                "{path}"
            );
        }
    }
}
