//! The example in the text form of WebAssembly does what it says.

use crate::support::{World, call_of, run};
use airlock_plugin::ToolDescription;
use serde_json::json;

const SHOUT: &str = include_str!("../../../../examples/plugins/text-wasm/shout.wat");

#[test]
fn the_example_shouts() {
    let instance = World::wat(SHOUT).start();
    let [
        ToolDescription {
            name, read_only, ..
        },
    ] = instance.tools()
    else {
        panic!("{:?}", instance.tools());
    };
    assert_eq!((name.as_str(), *read_only), ("shout", true));
    for (text, loud) in [
        ("", ""),
        ("hello, world", "HELLO, WORLD"),
        (
            "a \"quoted\" \\ line\nand\ttab \u{1} ü",
            "A \"QUOTED\" \\ LINE\nAND\tTAB \u{1} ü",
        ),
    ] {
        let call = call_of("shout", json!({ "text": text }));
        assert_eq!(run(&*instance, &call), Ok(json!(loud)));
    }
    let long = "x".repeat(90_000);
    let call = call_of("shout", json!({ "text": long }));
    assert_eq!(run(&*instance, &call), Ok(json!(long.to_uppercase())));
}
