//! Whether what was shown fits the terminal it was shown on.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Fails if any row, or any state of a row that was drawn over, is wider than `columns`.
pub(crate) fn assert_fits(shown: &str, columns: usize) {
    for line in shown.lines() {
        for row in line.split('\r') {
            let text = without_sequences(row);
            // However a terminal counts: by character, or by what characters become together.
            let characters: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
            let width = characters.max(text.width());
            assert!(width <= columns, "{width} of {columns} columns: {text:?}");
        }
    }
}

/// `row` without the sequences that move the cursor and set styles.
fn without_sequences(row: &str) -> String {
    let mut text = String::new();
    let mut rest = row.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            text.push(c);
            continue;
        }
        if rest.next() == Some('[') {
            let _ = rest.by_ref().find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
    }
    text
}
