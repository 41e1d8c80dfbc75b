//! Writes the messages anew, after a change in `proto/`; a test fails until then.
//!
//! They are kept, not made at build time, so that a plugin that has the SDK's sources with it needs
//! no definitions and no compiler of them.

use std::error::Error;
use std::path::Path;

#[path = "../tests/messages/compile.rs"]
mod compile;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fresh = tempfile::tempdir()?;
    compile::compile(&root, fresh.path())?;
    for file in compile::FILES {
        std::fs::copy(fresh.path().join(file), root.join(compile::KEPT).join(file))?;
    }
    Ok(())
}
