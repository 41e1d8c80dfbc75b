//! Writes anew what is kept of the definitions in `proto/`, after a change there; a test fails until
//! then.
//!
//! It is kept, not made at build time, so that neither Airlock nor a plugin that has the SDK's sources
//! with it needs a compiler of definitions.

use std::error::Error;
use std::path::Path;

#[path = "../tests/generated/compile.rs"]
mod compile;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fresh = tempfile::tempdir()?;
    compile::compile(&root, fresh.path())?;
    for (file, place) in compile::KEPT {
        std::fs::copy(fresh.path().join(file), root.join(place).join(file))?;
    }
    Ok(())
}
