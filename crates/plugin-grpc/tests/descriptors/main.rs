//! The compiled definitions in the Python SDK are those of `proto/`.

mod compile;

use std::path::Path;

#[test]
fn the_python_sdk_has_the_definitions_of_this_tree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = std::fs::read(root.join(compile::KEPT)).unwrap();
    let compiled = compile::descriptors(&root).unwrap();
    assert!(
        kept == compiled,
        "run `cargo run -p airlock-plugin-grpc --example descriptors`"
    );
}
