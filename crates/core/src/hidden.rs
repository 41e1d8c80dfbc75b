//! Characters that do not show as themselves: one table for whoever reads, shows or compares text.

/// Whether Unicode calls a character default-ignorable: nothing is shown for it, and HFS+ or a
/// case-folding ext4 or F2FS takes names with and without it for the same.
pub const fn is_ignorable(c: char) -> bool {
    is_joiner(c)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a character is invisible, or changes the order or the lines in which others are shown.
/// Not so joiners, of which emoji and some scripts are made.
pub const fn is_hidden(c: char) -> bool {
    is_ignorable(c) && !is_joiner(c)
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}')
}

/// Whether a character joins others or picks a variant of the one before.
pub const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_hidden_a_joiner_or_neither() {
        for c in '\0'..=char::MAX {
            assert!(!(is_hidden(c) && is_joiner(c)), "{c:?}");
            assert!(!is_ignorable(c) || is_hidden(c) || is_joiner(c), "{c:?}");
            let shows = c.is_alphanumeric()
                && !matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
            assert!(!(shows && is_ignorable(c)), "{c:?}");
        }
        for (c, hidden, ignorable) in [
            ('a', false, false),
            ('é', false, false),
            ('\u{a0}', false, false),
            ('\u{1d173}', true, true),
            ('\u{1bca0}', true, true),
            ('\u{17b4}', true, true),
            ('\u{fff0}', true, true),
            ('\u{fff9}', true, false),
            ('\u{2028}', true, false),
            ('\u{e0080}', true, true),
            ('\u{e0100}', false, true),
            ('\u{e01f0}', true, true),
            ('\u{200d}', false, true),
        ] {
            assert_eq!(
                (is_hidden(c), is_ignorable(c)),
                (hidden, ignorable),
                "{c:?}"
            );
        }
    }
}
