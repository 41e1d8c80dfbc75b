//! Server-sent events, out of bytes cut anywhere.
//!
//! Invariant: how the bytes were cut changes nothing. Lines end with LF, CR or CRLF; comments and
//! fields other than `data` are skipped; an event that the stream ends in the middle of is none.

/// Bytes of a line, and of an event's data.
pub(crate) const LONGEST: usize = 2 * 1024 * 1024;

/// A line or an event that is longer than anybody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Takes events out of bytes.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte ended a line as CR: an LF right after it belongs to the same end.
    after_cr: bool,
    begun: bool,
}

impl Events {
    /// Takes `bytes`, and hands the data of every event that they complete to `each`.
    pub(crate) fn take<E: From<TooLong>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        for byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' => self.end_line(&mut each)?,
                b'\r' => {
                    self.after_cr = true;
                    self.end_line(&mut each)?;
                }
                byte => {
                    if self.line.len() >= LONGEST {
                        return Err(TooLong.into());
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(())
    }

    fn end_line<E: From<TooLong>>(
        &mut self,
        each: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            return self.end_event(each);
        }
        if let Some(value) = line.strip_prefix(b"data") {
            let value = match value {
                [] => value,
                [b':', b' ', rest @ ..] | [b':', rest @ ..] => rest,
                // Another field, whose name only begins alike.
                _ => return Ok(()),
            };
            if self.data.len() + value.len() > LONGEST {
                return Err(TooLong.into());
            }
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            self.data.extend_from_slice(value);
        }
        Ok(())
    }

    fn end_event<E: From<TooLong>>(
        &mut self,
        each: &mut impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            each(&String::from_utf8_lossy(&data))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        let mut events = Events::default();
        for piece in pieces {
            let taken: Result<(), TooLong> = events.take(piece, |data| {
                found.push(data.to_owned());
                Ok(())
            });
            taken.unwrap();
        }
        found
    }

    #[test]
    fn events_are_found_whatever_surrounds_them() {
        for (text, want) in [
            ("data: a\n\n", &["a"][..]),
            ("data:a\n\n", &["a"]),
            ("data:  a\n\n", &[" a"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            (": keep-alive\n\ndata: a\n\n:\n\n", &["a"]),
            ("event: x\nid: 1\nretry: 5\ndata: a\n\n", &["a"]),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("data\n\n", &[""]),
            ("database: a\n\n", &[]),
            ("\u{feff}data: a\n\n", &["a"]),
            ("data: cut off", &[]),
            ("data: cut off\n", &[]),
            ("\n\n\n", &[]),
        ] {
            assert_eq!(events(&[text.as_bytes()]), want, "{text:?}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut events = Events::default();
        let piece = vec![b'x'; 64 * 1024];
        let mut ended = Ok(());
        for _ in 0..=LONGEST / piece.len() {
            ended = events.take(&piece, |_| Ok::<(), TooLong>(()));
        }
        assert_eq!(ended, Err(TooLong));
        assert!(events.line.len() <= LONGEST);
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_changes_nothing(
            text in "(data: ?|é|\\{\"a\":1\\}|\r|\n|\r\n|: c|event: x){0,40}",
            cuts in proptest::collection::vec(0_usize..200, 0..12),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut at = 0;
            for cut in cuts {
                pieces.push(&bytes[at..cut]);
                at = cut;
            }
            pieces.push(&bytes[at..]);
            prop_assert_eq!(events(&pieces), events(&[bytes]));
        }
    }
}
