//! Compiles the messages of the protocol definitions.

use std::error::Error;
use std::path::Path;

/// Where the messages are kept, in the repository.
pub(crate) const KEPT: &str = "crates/sdk-process/src/messages";

/// The files that are kept there.
pub(crate) const FILES: [&str; 3] = ["airlock.plugin.v1.rs", "plugin.rs", "grpc.health.v1.rs"];

const DEFINITIONS: [&str; 3] = [
    "airlock/plugin/v1/plugin.proto",
    "goplugin/goplugin.proto",
    "grpc/health/v1/health.proto",
];

/// Writes the messages of the definitions in the repository at `root` into `place`.
pub(crate) fn compile(root: &Path, place: &Path) -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(DEFINITIONS, [root.join("proto")])?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .out_dir(place)
        .compile_fds(descriptors)?;
    Ok(())
}
