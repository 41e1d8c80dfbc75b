//! Writes the compiled protocol definitions that the Python SDK reads.
//!
//! Run it after a change in `proto/`; a test fails until then.

use std::error::Error;
use std::path::Path;

#[path = "../tests/descriptors/compile.rs"]
mod compile;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::write(root.join(compile::KEPT), compile::descriptors(&root)?)?;
    Ok(())
}
