//! The messages are those of `proto/`.

mod compile;

use std::path::Path;

#[test]
fn the_messages_are_what_the_definitions_compile_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fresh = tempfile::tempdir().unwrap();
    compile::compile(&root, fresh.path()).unwrap();
    for file in compile::FILES {
        let read = |place: &Path| std::fs::read_to_string(place.join(file)).unwrap();
        assert!(
            read(fresh.path()) == read(&root.join(compile::KEPT)),
            "{file} is old: run `cargo run -p airlock-sdk-process --example messages`"
        );
    }
}
