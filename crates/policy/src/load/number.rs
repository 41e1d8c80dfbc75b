//! Decoders for numbers, sizes and times.

use super::code;
use super::problems::{Problems, shown};
use super::scalar::{line, scalar};
use super::tree::Node;
use airlock_core::{ByteSize, Span};
use std::str::FromStr;

/// A whole number in decimal digits, within `least..=most`.
pub(crate) fn number<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&Node, &mut Problems) -> Option<T> {
    move |node, problems| {
        let (text, plain) = scalar(node, "a number", problems)?;
        let value = decimal(text).filter(|value| (least..=most).contains(value));
        let value = value.and_then(|value| T::try_from(value).ok());
        if plain && value.is_some() {
            return value;
        }
        let what = if plain {
            format!(
                "`{}` is not a whole number from {least} to {most}",
                shown(text)
            )
        } else {
            format!("expected a number, found the text `{}`", shown(text))
        };
        let fix = match (plain, value.is_some()) {
            (false, true) => "remove the quotes".to_owned(),
            (false, false) => format!("write a number from {least} to {most}, without quotes"),
            (true, _) => format!("write a number from {least} to {most} in decimal digits"),
        };
        problems.error(code::NUMBER, node.spot, what, fix);
        None
    }
}

/// The number that `text` is in decimal digits, without zeros in front.
fn decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let plain = text.len() == 1 || !text.starts_with('0');
    // What is too large for any field is no number here, either.
    text.parse().ok().filter(|_| digits && plain)
}

/// Thousandths, written as a decimal number such as `0.5`.
pub(crate) fn thousandths(node: &Node, problems: &mut Problems) -> Option<u32> {
    let (text, plain) = scalar(node, "a number", problems)?;
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if plain && is_digits(whole, 4) && is_digits(part, 3) {
        let padded = format!("{whole}{part:0<3}");
        if let Some(value) = padded.parse::<u32>().ok().filter(|value| *value > 0) {
            return Some(value);
        }
    }
    problems.error(
        code::NUMBER,
        node.spot,
        format!(
            "`{}` is not a number above 0 with at most three decimals",
            shown(text)
        ),
        "write it like `0.5` or `2`, without quotes",
    );
    None
}

/// A size.
pub(crate) fn size(node: &Node, problems: &mut Problems) -> Option<ByteSize> {
    unit(
        node,
        "a size",
        "write a whole number and a unit, such as `100KiB`",
        problems,
    )
}

/// A size, as how many bytes it is.
pub(crate) fn bytes(node: &Node, problems: &mut Problems) -> Option<u64> {
    size(node, problems).map(ByteSize::as_bytes)
}

/// A length of time.
pub(crate) fn span(node: &Node, problems: &mut Problems) -> Option<Span> {
    unit(
        node,
        "a time",
        "write a whole number and a unit, such as `30s` or `5m`",
        problems,
    )
}

/// A length of time within `least..=most`.
pub(crate) fn span_within(
    least: Span,
    most: Span,
) -> impl Fn(&Node, &mut Problems) -> Option<Span> {
    move |node, problems| {
        let span = span(node, problems)?;
        if (least..=most).contains(&span) {
            return Some(span);
        }
        let what = format!("`{span}` is not between {least} and {most}");
        problems.error(code::UNIT, node.spot, what, "write a time within these");
        None
    }
}

fn unit<T: FromStr<Err: std::fmt::Display>>(
    node: &Node,
    wanted: &str,
    fix: &str,
    problems: &mut Problems,
) -> Option<T> {
    let text = line(node, wanted, problems)?;
    text.parse()
        .map_err(|error: T::Err| problems.error(code::UNIT, node.spot, error.to_string(), fix))
        .ok()
}
