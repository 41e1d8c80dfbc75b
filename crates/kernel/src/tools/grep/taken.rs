//! Text without its secrets, as a pattern is looked for in it.
//!
//! Guarantee: lines stay lines, and one that has a secret says nothing about it, not even its length.

use super::wide::{SET_ASIDE, TAKEN_OUT};
use airlock_sanitise::{LONGEST_SECRET, Sanitiser, Secret};
use std::io::{self, Read};
use std::ops::Range;

/// Bytes that are looked at together, besides what stands before and after them.
const BLOCK: usize = 256 * 1024;

/// Appends a part of `bytes` without the secrets `found` in all of them.
pub(super) fn take_out(bytes: &[u8], found: &[Secret], part: Range<usize>, out: &mut Vec<u8>) {
    let mut at = part.start;
    for secret in found {
        let (begin, end) = (secret.range.start.max(at), secret.range.end.min(part.end));
        if begin >= end {
            continue;
        }
        plain(bytes.get(at..begin).unwrap_or_default(), out);
        let secret = bytes.get(begin..end).unwrap_or_default();
        for line in secret.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n");
            out.extend((!text.unwrap_or(line).is_empty()).then_some(TAKEN_OUT));
            out.extend(text.map(|_| b'\n'));
        }
        at = end;
    }
    plain(bytes.get(at..part.end).unwrap_or_default(), out);
}

fn plain(bytes: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(bytes);
    if memchr::memchr(TAKEN_OUT, bytes).is_some() {
        let added = out.iter_mut().skip(begin);
        added
            .filter(|byte| **byte == TAKEN_OUT)
            .for_each(|byte| *byte = SET_ASIDE);
    }
}

/// Reads from another reader, without the secrets in it.
pub(super) struct TakingOut<'s, R> {
    inner: R,
    secrets: &'s Sanitiser,
    /// What was given already, then what was not.
    bytes: Vec<u8>,
    given: usize,
    ended: bool,
    out: Vec<u8>,
    read: usize,
}

impl<'s, R: Read> TakingOut<'s, R> {
    pub(super) fn new(inner: R, secrets: &'s Sanitiser) -> Self {
        Self {
            inner,
            secrets,
            bytes: Vec::new(),
            given: 0,
            ended: false,
            out: Vec::new(),
            read: 0,
        }
    }

    /// Makes the next block ready; what stands around it is looked at with it.
    fn advance(&mut self) -> io::Result<()> {
        let gone = self.given.saturating_sub(LONGEST_SECRET);
        self.bytes.drain(..gone);
        self.given -= gone;
        while !self.ended && self.bytes.len() < self.given + BLOCK + LONGEST_SECRET {
            let wanted = self.given + BLOCK + LONGEST_SECRET - self.bytes.len();
            let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
            let read = self
                .inner
                .by_ref()
                .take(wanted)
                .read_to_end(&mut self.bytes)?;
            self.ended = read == 0;
        }
        let ahead = if self.ended { 0 } else { LONGEST_SECRET };
        let end = self.bytes.len().saturating_sub(ahead);
        let found = self.secrets.find(&self.bytes);
        self.out.clear();
        self.read = 0;
        take_out(&self.bytes, &found, self.given..end, &mut self.out);
        self.given = end;
        Ok(())
    }
}

impl<R: Read> Read for TakingOut<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.out.len() {
            if self.ended && self.given == self.bytes.len() {
                return Ok(0);
            }
            self.advance()?;
        }
        let mut ready = self.out.get(self.read..).unwrap_or_default();
        let read = ready.read(buffer)?;
        self.read += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> String {
        format!("ghp_{}", "a1B2".repeat(9))
    }

    #[test]
    fn lines_stay_and_secrets_go_wherever_a_block_ends() {
        let secrets = Sanitiser::new();
        for before in [0, 1, BLOCK - 60, BLOCK - 20, BLOCK, 3 * BLOCK - 7] {
            let filling = "filling ".repeat(before / 8 + 1);
            let text = format!(
                "{filling}\n{}\n\x1a\nmachine a login b password\nhunter2x\nend",
                token()
            );
            let mut out = Vec::new();
            let mut reader = TakingOut::new(text.as_bytes(), &secrets);
            reader.read_to_end(&mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            // A secret at the end of a block stands for itself in each.
            let out = out.replace("\x1a\x1a", "\x1a");
            let want = format!("{filling}\n\x1a\n\x19\nmachine a login b password\n\x1a\nend");
            assert!(out == want, "{before}: {:?}", out.get(filling.len()..));
        }
    }

    #[test]
    fn a_key_is_taken_out_of_each_of_its_lines() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        let text = format!(
            "a\n-----BEGIN {0}-----\n\n{body}\n{body}\n-----END {0}-----\nb\n",
            "PRIVATE KEY"
        );
        let secrets = Sanitiser::new();
        let mut out = Vec::new();
        take_out(
            text.as_bytes(),
            &secrets.find(text.as_bytes()),
            0..text.len(),
            &mut out,
        );
        assert_eq!(out, b"a\n\x1a\n\n\x1a\n\x1a\n\x1a\nb\n");
    }
}
