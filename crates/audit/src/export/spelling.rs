//! The one spelling of JSON in exports: compact, and with nothing raw in it that a terminal would
//! obey or that would show text in another order than it stands.

use serde::Serialize;

/// Whether a character is written as `\uxxxx` although JSON could hold it as it is: DEL, the C1
/// controls and everything that changes the direction of text.
const fn is_escaped(character: char) -> bool {
    matches!(
        character,
        '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// `value` as one line of JSON.
pub(super) fn spell(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let line = serde_json::to_string(value)?;
    if !line.contains(is_escaped) {
        return Ok(line.into_bytes());
    }
    // Outside of strings JSON is ASCII without DEL, so each of these stands in a string.
    let mut spelled = String::with_capacity(line.len() + 64);
    for character in line.chars() {
        if is_escaped(character) {
            push_escape(&mut spelled, character);
        } else {
            spelled.push(character);
        }
    }
    Ok(spelled.into_bytes())
}

fn push_escape(to: &mut String, character: char) {
    to.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        let digit = char::from_digit((u32::from(character) >> shift) & 15, 16);
        to.extend(digit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_reads_back_the_same() {
        for (text, spelled) in [
            (
                "plain ü 🔒 \u{2028} \u{a0}",
                "\"plain ü 🔒 \u{2028} \u{a0}\"",
            ),
            ("\u{7f}\u{80}\u{9b}\u{9f}", r#""\u007f\u0080\u009b\u009f""#),
            ("\u{61c}\u{200e}\u{200f}", r#""\u061c\u200e\u200f""#),
            ("a\u{202e}b\u{2066}c\u{2069}", r#""a\u202eb\u2066c\u2069""#),
            ("\\\u{9b}\"", r#""\\\u009b\"""#),
            ("\u{1b}\n", r#""\u001b\n""#),
        ] {
            let line = spell(&text).unwrap();
            assert_eq!(String::from_utf8(line.clone()).unwrap(), spelled);
            assert_eq!(serde_json::from_slice::<String>(&line).unwrap(), text);
        }
    }
}
