//! What a Wasm worker says: any bytes are frames or an error, frames are the bytes they were read
//! from, an accepted message reads back as itself, and every outcome gives an answer.

use super::Target;
use airlock_plugin_wasm::probe::frames;

pub(super) const TARGET: Target = Target {
    name: "wasm_frames",
    run,
    seeds: &[
        b"",
        b"\x00\x00\x00\x06\x00\"pong\"",
        b"\x00\x00\x00\x06\x00\"ping\"",
        b"\x00\x00\x00\x17\x00{\"hello\":{\"engine\":\"e\"}}",
        b"\x00\x00\x00\x31\x00{\"answer\":{\"id\":1,\"outcome\":{\"value\":\"[1,2]\"}}}",
        b"\x00\x00\x00\x3b\x00{\"answer\":{\"id\":1,\"outcome\":{\"envelope\":\"{\\\"ok\\\":1}\"}}}",
        b"\x00\x00\x00\x3d\x00{\"answer\":{\"id\":1,\"outcome\":{\"fault\":{\"limit\":\"fuel\"}}}}",
        b"\x00\x00\x00\x36\x00{\"ask\":{\"id\":1,\"name\":\"fs.read\",\"arguments\":\"{}\"}}",
        b"\x00\x00\x00\x02\x01\x00a\x00\x00\x00\x00\x02",
        b"\xff\xff\xff\xff\x00",
    ],
    dictionary: &[
        "\u{0}\u{0}\u{0}\u{6}\u{0}\"pong\"", "\"answer\":", "\"outcome\":", "\"value\":",
        "\"failed\":", "\"envelope\":", "\"fault\":", "\"limit\":", "\"trap\":", "\"ready\":",
        "\"tools\":[]", "\"form\":\"module\"", "\"log\":", "\"level\":\"info\"", "\"piece\":",
        "\"id\":4294967296", "null", "{", "}", "1e999", "\\ud800", "\u{1b}[2J",
    ],
    iterations: 2_000,
};

/// Bytes a caller may be given.
const MOST: usize = 1_000;

fn run(input: &[u8]) {
    let (heard, _broken) = frames(input);
    let mut rest = input;
    for frame in &heard {
        let bytes = frame.bytes().unwrap_or_default();
        let same = rest.strip_prefix(bytes.as_slice());
        assert!(same.is_some(), "a frame is not what was read");
        rest = same.unwrap_or_default();
        if let Some(text) = frame.message() {
            let again = airlock_plugin_wasm::probe::Frame::of_message(text.as_bytes());
            assert_eq!(again.message(), Some(text), "a message does not read back");
        }
        if let Some(Err(told)) = frame.outcome(MOST) {
            let _ = (told.code(), told.to_string());
        }
    }
}
