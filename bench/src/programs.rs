//! The programs that are measured whole, as they are handed out: built with the profile `dist`.
//!
//! They lie in `dist` beside the directory of this program, as in a target directory.

use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// What to do where there are none.
pub(crate) const NOT_BUILT: &str = "not built: cargo build --profile dist --package airlock-cli \
                                    --package airlock-wasm-worker";

/// The command: the program that is called, and the one that it hands most of its work to.
pub(crate) const AIRLOCK: [&str; 2] = ["airlock", "airlock-main"];

/// The directory they lie in, where this program lies in a directory of `parent`.
pub(crate) fn below(parent: &Path) -> PathBuf {
    parent.join("dist")
}

/// Where the program `name` lies, if it was built.
pub(crate) fn handed_out(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()?;
    let parent = own.parent().and_then(Path::parent);
    let parent = parent.ok_or_else(|| Failure::new("this program lies in no target directory"))?;
    Ok(below(parent).join(name))
}
