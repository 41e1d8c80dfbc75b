//! Compiles the protocol definitions, without any program that is not in this workspace.

use std::error::Error;

const ROOT: &str = "../../proto";
const FILES: [&str; 3] = [
    "airlock/plugin/v1/plugin.proto",
    "goplugin/goplugin.proto",
    "grpc/health/v1/health.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={ROOT}/{file}");
    }
    let descriptors = protox::compile(FILES, [ROOT])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
