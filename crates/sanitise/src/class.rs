//! Sets of bytes, made at compile time from the notation of regular expressions.

/// A set of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class(&'static [bool; 256]);

impl Class {
    pub(crate) const fn new(table: &'static [bool; 256]) -> Self {
        Self(table)
    }

    #[inline]
    pub(crate) fn has(self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or(false)
    }

    /// How many of the first bytes are in the set, counting up to `most`.
    pub(crate) fn run(self, text: &[u8], most: usize) -> usize {
        let outside = |byte: &u8| !self.has(*byte);
        let text = text.get(..most).unwrap_or(text);
        let count = text.iter().position(outside).unwrap_or(text.len());
        crate::work::spend(count + 1);
        count
    }

    /// How many of the last bytes are in the set, counting up to `most`.
    pub(crate) fn run_back(self, text: &[u8], most: usize) -> usize {
        let inside = |byte: &&u8| self.has(**byte);
        let count = text.iter().rev().take(most).take_while(inside).count();
        crate::work::spend(count + 1);
        count
    }
}

/// The table for `A-Za-z_-`: ranges and single bytes, a dash last for itself.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated at compile time, where a bad index is a compile error"
)]
pub(crate) const fn table(spec: &str) -> [bool; 256] {
    let spec = spec.as_bytes();
    let mut table = [false; 256];
    let mut at = 0;
    while at < spec.len() {
        if at + 2 < spec.len() && spec[at + 1] == b'-' {
            let mut byte = spec[at];
            while byte <= spec[at + 2] {
                table[byte as usize] = true;
                byte += 1;
            }
            at += 3;
        } else {
            table[spec[at] as usize] = true;
            at += 1;
        }
    }
    table
}

macro_rules! classes {
    ($($name:ident = $spec:literal;)*) => {
        $(pub(crate) const $name: Class = {
            static TABLE: [bool; 256] = table($spec);
            Class::new(&TABLE)
        };)*
    };
}

classes! {
    ALNUM = "A-Za-z0-9";
    WORD = "A-Za-z0-9_";
    DASHED = "A-Za-z0-9_-";
    DOTTED = "A-Za-z0-9_.~-";
    LOWER = "a-z0-9";
    UPPER = "A-Z0-9";
    BASE32 = "A-Z2-7";
    HEX = "0-9a-f";
    ANYHEX = "0-9a-fA-F";
    DIGIT = "0-9";
    BASE64 = "A-Za-z0-9+/";
    BASE64_ANY = "A-Za-z0-9+/=_-";
    UUID = "0-9a-fA-F-";
    SIGNATURE = "A-Za-z0-9%+/";
    // What stands before a secret whose fixed part is in its middle.
    LEADING = "A-Za-z0-9_.~-";
    // What ends the name, and the password, in an address.
    NAME_END = " \t\r\n/@'\"<>`\\?#,;()|:";
    PASSWORD_END = " \t\r\n/@'\"<>`\\";
    // What ends the value of a setting.
    SETTING_END = " \t\r\n;&'\"<>`\\)";
    SPACE = " \t";
    BLANK = " \t\n\r";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_single_bytes_are_in_the_set() {
        for (class, inside, outside) in [
            (DASHED, &b"azAZ09_-"[..], &b" .+/"[..]),
            (BASE32, b"AZ27", b"a018"),
            (HEX, b"09af", b"gAF-"),
        ] {
            assert!(inside.iter().all(|byte| class.has(*byte)));
            assert!(!outside.iter().any(|byte| class.has(*byte)));
        }
        assert_eq!(HEX.run(b"abcxyz", 10), 3);
        assert_eq!(HEX.run(b"abcxyz", 2), 2);
        assert_eq!(HEX.run_back(b"xyzabc", 10), 3);
    }
}
