//! Base64, in both alphabets: only what finding text needs.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn value(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// The bytes that `text` stands for, up to the first that is not base64.
pub(crate) fn decode(text: &[u8]) -> Vec<u8> {
    let (mut bits, mut held) = (0_u32, 0);
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    for value in text.iter().map_while(|byte| value(*byte)) {
        bits = (bits << 6) | value;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from((bits >> held) & 0xff).unwrap_or(0));
        }
    }
    out
}

/// What of `bytes` in base64 does not depend on what stands around them, if `offset` bytes of the
/// same group of three stand before.
pub(crate) fn encode_within(bytes: &[u8], offset: usize) -> Vec<u8> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let first = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    let mut out = Vec::with_capacity(end);
    for group in padded.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            (bits << 8) | u32::from(group.get(at).copied().unwrap_or(0))
        });
        for shift in [18, 12, 6, 0] {
            let index = usize::try_from((bits >> shift) & 63).unwrap_or(0);
            out.push(STANDARD.get(index).copied().unwrap_or(b'A'));
        }
    }
    zeroize::Zeroize::zeroize(&mut padded);
    out.truncate(end);
    out.drain(..first.min(out.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_within_a_longer_one_is_found_in_its_encoding() {
        assert_eq!(decode(b"aGVsbG8="), b"hello");
        assert_eq!(encode_within(b"hello", 0), b"aGVsbG");
        for before in ["", "x", "xy", "xyz"] {
            let whole = encode_within(format!("{before}correct horse.....").as_bytes(), 0);
            let part = encode_within(b"correct horse", before.len() % 3);
            assert!(memchr::memmem::find(&whole, &part).is_some(), "{before}");
        }
    }
}
