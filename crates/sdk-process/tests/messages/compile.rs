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

/// The messages of a plugin that offers tools. Those of other types, and of the broker, have no use.
const MESSAGES: [&str; 16] = [
    "InitRequest",
    "InitResponse",
    "HealthRequest",
    "HealthResponse",
    "ShutdownRequest",
    "ShutdownResponse",
    "DescribeRequest",
    "DescribeResponse",
    "ToolDescription",
    "ExecuteRequest",
    "ExecuteResponse",
    "Empty",
    "StdioRequest",
    "StdioData",
    "HealthCheckRequest",
    "HealthCheckResponse",
];

/// Writes the messages of the definitions in the repository at `root` into `place`.
pub(crate) fn compile(root: &Path, place: &Path) -> Result<(), Box<dyn Error>> {
    let mut descriptors = protox::compile(DEFINITIONS, [root.join("proto")])?;
    for file in &mut descriptors.file {
        file.service.clear();
        file.enum_type.clear();
        file.message_type
            .retain(|message| MESSAGES.contains(&message.name()));
        // Comments are found by the number of what they are about, which is another now.
        file.source_code_info = None;
    }
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .out_dir(place)
        .compile_fds(descriptors)?;
    Ok(())
}
