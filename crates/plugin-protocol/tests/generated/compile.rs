//! Compiles the protocol definitions: to messages and methods in Rust, and to what the Python SDK
//! reads.

use prost_build::{Config, Method, Service, ServiceGenerator};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

/// Where each file is kept, in the repository.
pub(crate) const KEPT: [(&str, &str); 4] = [
    (
        "airlock.plugin.v1.rs",
        "crates/plugin-protocol/src/messages",
    ),
    ("plugin.rs", "crates/plugin-protocol/src/messages"),
    ("grpc.health.v1.rs", "crates/plugin-protocol/src/messages"),
    ("protocol.binpb", "sdk/python/airlock_plugin"),
];

const DEFINITIONS: [&str; 3] = [
    "airlock/plugin/v1/plugin.proto",
    "goplugin/goplugin.proto",
    "grpc/health/v1/health.proto",
];

/// Writes every file of the definitions in the repository at `root` into `place`.
pub(crate) fn compile(root: &Path, place: &Path) -> Result<(), Box<dyn Error>> {
    let definitions = root.join("proto");
    let messages = protox::compile(DEFINITIONS, [&definitions])?;
    Config::new()
        .service_generator(Box::new(Methods))
        .out_dir(place)
        .compile_fds(messages)?;
    let mut compiler = protox::Compiler::new([&definitions])?;
    compiler.include_source_info(false);
    compiler.open_files(DEFINITIONS)?;
    let descriptors = compiler.encode_file_descriptor_set();
    std::fs::write(place.join("protocol.binpb"), descriptors)?;
    Ok(())
}

/// Writes a module for each service, with its methods.
struct Methods;

impl ServiceGenerator for Methods {
    fn generate(&mut self, service: Service, text: &mut String) {
        service.comments.append_with_indent(0, text);
        let _written = writeln!(text, "pub mod {} {{", snake(&service.name));
        for method in &service.methods {
            method.comments.append_with_indent(1, text);
            let name = snake(&method.proto_name).to_uppercase();
            let Method {
                input_type,
                output_type,
                ..
            } = method;
            let way = match (method.client_streaming, method.server_streaming) {
                (false, false) => "Unary",
                (false, true) => "Streaming",
                (true, true) => "Duplex",
                (true, false) => "no way of calling is like this one",
            };
            let path = format!(
                "/{}.{}/{}",
                service.package, service.proto_name, method.proto_name
            );
            let _written = writeln!(
                text,
                "pub const {name}: crate::{way}<super::{input_type}, super::{output_type}> = \
                 crate::Method::new({path:?});"
            );
        }
        text.push_str("}\n");
    }
}

/// A name in lower case, its words joined by `_`.
fn snake(name: &str) -> String {
    let mut made = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && made.ends_with(char::is_lowercase) {
            made.push('_');
        }
        made.extend(letter.to_lowercase());
    }
    made
}
