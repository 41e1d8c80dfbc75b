//! What is kept of the definitions is what they compile to.

mod compile;

use std::path::Path;

#[test]
fn what_is_kept_is_what_the_definitions_compile_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fresh = tempfile::tempdir().unwrap();
    compile::compile(&root, fresh.path()).unwrap();
    for (file, place) in compile::KEPT {
        let read = |place: &Path| std::fs::read(place.join(file)).unwrap();
        assert!(
            read(fresh.path()) == read(&root.join(place)),
            "{file} is old: run `cargo run -p airlock-plugin-protocol --example generate`"
        );
    }
    // Nothing that compiles is left out.
    let made = std::fs::read_dir(fresh.path()).unwrap().count();
    assert_eq!(made, compile::KEPT.len());
}
