//! Compiles the definitions as the Python SDK keeps them.

use std::error::Error;
use std::path::Path;

/// Where they are kept.
pub(crate) const KEPT: &str = "sdk/python/airlock_plugin/protocol.binpb";

/// The definitions in `proto/` of the repository at `root`, as a set of descriptors.
pub(crate) fn descriptors(root: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([root.join("proto")])?;
    compiler.include_source_info(false);
    compiler.open_files([
        "airlock/plugin/v1/plugin.proto",
        "goplugin/goplugin.proto",
        "grpc/health/v1/health.proto",
    ])?;
    Ok(compiler.encode_file_descriptor_set())
}
