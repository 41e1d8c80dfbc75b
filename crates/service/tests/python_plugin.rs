//! A plugin written with the Python SDK, on the whole road: called by an agent, asking the kernel.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_wire::Client;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use support::{Place, READS, Served, call};

const MANIFEST: &str = "name: words\nversion: 1.0.0\ntype: tool\ncapabilities: [\"filesystem.read.*\"]\nexecution: { tier: process, protocol: grpc, entry: bin/run }\n";
const PROGRAM: &str = r#"#!/usr/bin/python3
import pathlib, sys
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
from airlock_plugin import Denied, KernelError, Plugin

plugin = Plugin()


@plugin.tool("Read, and try to write", schema={"type": "object"})
def attempt(context, path):
    context.output("reading\n")
    try:
        read = context.read(path)
    except Denied as denied:
        read = denied.code
    try:
        context.write("b", "b")
        wrote = "written"
    except Denied as denied:
        wrote = denied.code
    try:
        context._kernel.call("fs.exists", {"path": path}, within="made-up")
        other = "believed"
    except KernelError as error:
        other = error.code
    return {
        "read": read,
        "wrote": wrote,
        "other": other,
        "exists": context.exists(path) if read == "a\n" else None,
        "plugin": context.plugin,
        "sandbox": context.sandbox,
    }


if __name__ == "__main__":
    plugin.serve()
"#;

fn served() -> (Place, Served) {
    let rule = "  - name: call-tools\n    match: { syscall: tool.call }\n    action: allow\n";
    let place = Place::governed(&format!("{READS}{rule}"));
    let lib = place.plugin().join("lib/airlock_plugin");
    fs::create_dir_all(&lib).unwrap();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python/airlock_plugin");
    for file in fs::read_dir(sdk).unwrap().flatten() {
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), lib.join(file.file_name())).unwrap();
        }
    }
    place.install(MANIFEST, PROGRAM);
    let served = place.serve();
    (place, served)
}

fn attempt(client: &mut Client, path: &str) -> Value {
    let arguments = call("words.attempt", &json!({ "path": path }));
    let answer = client.call("call", arguments).unwrap();
    let value = &answer["outcome"]["done"]["value"]["value"];
    assert!(!value.is_null(), "{answer}");
    value.clone()
}

#[test]
fn a_python_plugin_does_what_its_manifest_and_policy_allow_and_nothing_else() {
    let (_place, served) = served();
    let mut client = served.client("agent");
    let came = attempt(&mut client, "a.txt");
    assert_eq!(came["read"], "a\n");
    assert_eq!(came["exists"], true);
    assert_eq!(came["wrote"], "denied");
    assert_eq!(came["plugin"], "words");
    assert_ne!(came["other"], "believed");
    assert!(
        came["sandbox"].as_str().is_some_and(|id| !id.is_empty()),
        "{came}"
    );
    assert_eq!(attempt(&mut client, "private/key")["read"], "denied");
}
