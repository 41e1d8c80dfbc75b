//! What runs plugins in the kernels that this command opens: a host for each protocol. The one place
//! that makes them.

use crate::place::Place;
use crate::plugin_settings::Stored;
use airlock_kernel::Hosting;
use airlock_plugin::boxed::Boxes;
use airlock_plugin::{Host, Hosts};
use airlock_plugin_grpc::GrpcHost;
use airlock_plugin_mcp::McpHost;
use airlock_plugin_wasm::{Boxed, CodeCache, WasmHost};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The program that serves one Wasm plugin.
const WORKER: &str = "airlock-wasm";

/// The hosts there are, made when the first plugin is asked for, and the person's own settings.
pub(in crate::commands) fn hosting(place: &Place) -> Hosting {
    let own = place.state_home.join("airlock/plugins");
    let config_home = place.config_home.clone();
    Hosting::new(move |boxes| {
        let grpc = GrpcHost::new(Arc::clone(boxes), airlock_plugin_grpc::Settings::default());
        Hosts {
            grpc: Some(Arc::new(grpc)),
            mcp: Some(Arc::new(McpHost::new(Arc::clone(boxes)))),
            wasm: Some(wasm(&own, boxes)),
        }
    })
    .with_settings(Stored { config_home })
}

/// Wasm runs in a program that lies beside this one.
fn wasm(own: &Path, boxes: &Boxes) -> Arc<dyn Host> {
    let Ok(program) = worker() else {
        let nowhere = || {
            let why = format!(
                "the program `{WORKER}`, which serves Wasm plugins, is not beside `airlock` \
                 (docs/wasm-plugins.md says how to build or install it)"
            );
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        };
        return Arc::new(WasmHost::new(nowhere, None));
    };
    let worker = Boxed {
        program,
        arguments: Vec::new(),
        state: own.to_owned(),
        launcher: boxes.launcher(),
    };
    // Without a cache plugins are compiled at each start, which is slower and nothing else.
    let cache = CodeCache::open(&own.join("code"), &own.join("code.key")).ok();
    Arc::new(WasmHost::new(worker, cache))
}

/// Where it really lies, links to this program followed.
fn worker() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?.canonicalize()?;
    own.with_file_name(WORKER).canonicalize()
}
