//! As much of a terminal as a line being typed needs: the row of the cursor.

use unicode_width::UnicodeWidthChar as _;

/// The row of the cursor after `shown`, the cursor's column, counted from 0, and how wide it was
/// drawn.
pub(crate) fn last(shown: &str) -> (String, usize, usize) {
    let mut cells: Vec<char> = Vec::new();
    let (mut column, mut drawn) = (0, 0);
    let mut rest = shown.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => (column, drawn) = (0, 0),
            '\n' => {
                cells.clear();
                (column, drawn) = (0, 0);
            }
            '\u{1b}' => escape(&mut rest, &mut cells, &mut column),
            c => {
                put(&mut cells, &mut column, c, c.width().unwrap_or(0));
                drawn = drawn.max(column);
            }
        }
    }
    let row: String = cells.iter().filter(|cell| **cell != '\0').collect();
    (row.trim_end().to_owned(), column, drawn)
}

/// A wide character fills its second cell with nothing.
fn put(cells: &mut Vec<char>, column: &mut usize, c: char, width: usize) {
    if width == 0 {
        return;
    }
    while cells.len() < *column + width {
        cells.push(' ');
    }
    cells[*column] = c;
    for beside in 1..width {
        cells[*column + beside] = '\0';
    }
    *column += width;
}

fn escape(rest: &mut std::str::Chars<'_>, cells: &mut Vec<char>, column: &mut usize) {
    if rest.next() != Some('[') {
        return;
    }
    let mut number = String::new();
    for c in rest.by_ref() {
        match c {
            '\u{40}'..='\u{7e}' => {
                match c {
                    'K' => cells.truncate(*column),
                    'G' => *column = number.parse::<usize>().unwrap_or(1).saturating_sub(1),
                    _ => {}
                }
                return;
            }
            c => number.push(c),
        }
    }
}
