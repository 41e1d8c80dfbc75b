//! The wire: bytes as they come in pieces, frames, messages.
//!
//! The first byte says how the rest is cut into pieces; whatever the pieces, the same frames come
//! out, and no more is held than came in. An accepted message reads back as itself.

use super::Target;
use airlock_wire::{Decoder, FrameError, encode, parse, text};

/// Small, so that mutations reach it.
const LIMIT: usize = 200;

pub(super) const TARGET: Target = Target {
    name: "wire_frames",
    run,
    seeds: &[
        b"",
        b"\x01\x00\x00\x00\x02{}",
        b"\x05\x00\x00\x00\x2b{\"id\":1,\"type\":\"request\",\"method\":\"ping\"}",
        b"\x03\x00\x00\x00\x2a{\"id\":1,\"type\":\"response\",\"result\":\"pong\"}",
        b"\x07\x00\x00\x00\x4d{\"id\":1,\"type\":\"request\",\"method\":\"cancel\",\"params\":{\"id\":2},\"descriptors\":3}",
        b"\x02\x00\x00\x00\x51{\"id\":0,\"type\":\"response\",\"error\":{\"code\":\"busy\",\"message\":\"\",\"retryable\":true}}",
        b"\x01\x00\x00\x00\x3a{\"id\":7,\"type\":\"event\",\"method\":\"audit.record\",\"params\":[]}",
        b"\x04\x00\x00\x00\x00\x00\x00\x00\x01\xff\x80\x00\x00\x00",
        b"\x02\x00\x00\x00\xc9",
    ],
    dictionary: &[
        "\"id\":", "\"type\":", "request", "response", "event", "\"method\":", "\"params\":",
        "\"result\":", "\"error\":", "\"descriptors\":", "null", "{", "}", "[", "]", ",", "0", "-1",
        "1e999", "\\ud800", "\\u0000", "\u{0}\u{0}\u{0}\u{2}{}",
    ],
    iterations: 4_000,
};

fn run(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else {
        return;
    };
    let whole = decoded(bytes, bytes.len().max(1));
    let pieces = decoded(bytes, usize::from(*cut).max(1));
    assert_eq!(whole, pieces, "the pieces matter");
    for frame in &whole.0 {
        assert!(frame.len() <= LIMIT, "a frame is over the limit");
        if let Ok(message) = parse(frame) {
            let written = text(&message);
            let again = parse(&written);
            assert_eq!(again.as_ref(), Ok(&message), "a message does not read back");
            let framed = encode(&written, usize::MAX).unwrap_or_default();
            assert_eq!(decoded_of(&framed).as_deref(), Some(written.as_str()));
        }
    }
}

/// The frames in `bytes` when they come `piece` at a time, and how it ended.
fn decoded(bytes: &[u8], piece: usize) -> (Vec<String>, Option<FrameError>) {
    let mut decoder = Decoder::new(LIMIT);
    let mut frames = Vec::new();
    for chunk in bytes.chunks(piece) {
        decoder.push(chunk);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    let end = decoder.finish().err();
    (frames, end)
}

fn decoded_of(frame: &[u8]) -> Option<String> {
    let mut decoder = Decoder::new(usize::MAX);
    decoder.push(frame);
    decoder.next_frame().ok().flatten()
}
