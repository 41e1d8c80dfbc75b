//! Exact values are found however they are written.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use airlock_sanitise::{Patterns, Sanitiser, Values};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::sync::Arc;

fn holding(values: &[(&str, &str)]) -> Sanitiser {
    let mut set = Values::new();
    for (name, value) in values {
        set.add(name, value.as_bytes()).unwrap();
    }
    Sanitiser::with(Arc::new(set), Arc::new(Patterns::new()))
}

fn base64(bytes: &[u8], url: bool, pad: bool) -> String {
    let alphabet: &[u8] = if url {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    } else {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    };
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            (bits << 8) | u32::from(*group.get(at).unwrap_or(&0))
        });
        for at in 0..4 {
            if at <= group.len() {
                out.push(alphabet[(bits >> (18 - 6 * at)) as usize & 63] as char);
            } else if pad {
                out.push('=');
            }
        }
    }
    out
}

fn hex(bytes: &[u8], upper: bool) -> String {
    let mut out = String::new();
    for byte in bytes {
        if upper {
            write!(out, "{byte:02X}").unwrap();
        } else {
            write!(out, "{byte:02x}").unwrap();
        }
    }
    out
}

/// Percent escapes for what is not a letter or digit, or for all, or for every third.
fn percent(text: &str, which: impl Fn(usize, u8) -> bool) -> String {
    let mut out = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        if which(at, byte) {
            out.extend(format!("%{byte:02X}").into_bytes());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap()
}

/// Every form of `value` that has to be found.
fn forms(value: &str) -> Vec<(&'static str, String)> {
    let spaced = |between: &str| {
        let chars: Vec<String> = value.chars().map(String::from).collect();
        chars.join(between)
    };
    let halves = |between: &str| {
        let (first, second) = value.split_at(value.len() / 2);
        format!("{first}{between}{second}")
    };
    let mut unicode = String::new();
    for c in value.chars() {
        write!(unicode, "\\u{:04x}", c as u32).unwrap();
    }
    let mut octal = String::new();
    for byte in value.bytes() {
        write!(octal, "\\{byte:03o}").unwrap();
    }
    let shell: String = value
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_string()
            } else {
                format!("\\{c}")
            }
        })
        .collect();
    vec![
        ("verbatim", value.to_owned()),
        ("after a percent sign", format!("100%{value}")),
        ("after a backslash", format!("C:\\{value}")),
        ("reversed", value.chars().rev().collect()),
        ("upper case", value.to_ascii_uppercase()),
        ("hexadecimal", hex(value.as_bytes(), false)),
        ("hexadecimal in capitals", hex(value.as_bytes(), true)),
        ("base64", base64(value.as_bytes(), false, true)),
        (
            "base64 without padding",
            base64(value.as_bytes(), false, false),
        ),
        (
            "base64 for addresses",
            base64(value.as_bytes(), true, false),
        ),
        (
            "base64 after one byte",
            base64(format!("x{value}").as_bytes(), false, true),
        ),
        (
            "base64 after two bytes",
            base64(format!("xy{value}").as_bytes(), true, true),
        ),
        (
            "base64 within a login",
            base64(format!("user:{value}\nmore").as_bytes(), false, true),
        ),
        (
            "an address",
            percent(value, |_, byte| !byte.is_ascii_alphanumeric()),
        ),
        ("an address, all escaped", percent(value, |_, _| true)),
        (
            "an address, in part",
            percent(value, |at, byte| at % 3 == 0 && byte.is_ascii()),
        ),
        ("bytes of a program", {
            let bytes = value.bytes().map(|byte| format!("0x{byte:02X}"));
            bytes.collect::<Vec<_>>().join(", ")
        }),
        ("octal escapes", octal),
        ("JSON", serde_json::to_string(value).unwrap()),
        ("JSON in ASCII", unicode),
        ("a shell word", shell),
        ("split over lines", halves("\n    ")),
        ("joined in a program", halves("\" +\n        \"")),
        ("spaced out", spaced(" ")),
        ("with commas and quotes", spaced("', '")),
        ("with plus signs", spaced(" + ")),
        ("with dashes", spaced("-")),
        ("base64 in lines", {
            let text = base64(value.as_bytes(), false, true);
            text.as_bytes()
                .chunks(8)
                .map(|c| String::from_utf8_lossy(c).into_owned())
                .collect::<Vec<_>>()
                .join("\r\n")
        }),
        ("coloured in the middle", halves("\u{1b}[31m")),
        ("with an invisible character", halves("\u{200b}")),
        (
            "HTML",
            value
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('"', "&quot;"),
        ),
    ]
}

/// Nor does it matter whether what stands between is ASCII.
#[test]
fn a_value_is_found_whatever_stands_between() {
    let value = "Zk4Qw9Lm2Xy7Tb3Rv8Np1Hs";
    let sanitiser = holding(&[("A", value)]);
    let joined = |between: &str| {
        let chars: Vec<String> = value.chars().map(String::from).collect();
        chars.join(between)
    };
    let mut texts: Vec<String> = ["\u{a0}", "·", "\u{2009}", "\u{3000}", "│", "\u{332}", "é "]
        .into_iter()
        .map(joined)
        .collect();
    texts.push("• Zk4Qw9\n• Lm2Xy7\n• Tb3Rv8\n• Np1Hs\n".to_owned());
    texts.push("Zk4Qw9Lm2Xy7\u{a0}\nTb3Rv8Np1Hs".to_owned());
    let mut padded = String::new();
    for byte in value.bytes() {
        write!(padded, "&#{byte:07};").unwrap();
    }
    texts.push(padded);
    for text in texts {
        assert_eq!(sanitiser.text(&text).secrets, 1, "{text}");
    }
}

const VALUES: &[&str] = &[
    "correct-horse-battery-9",
    "Tr0ub4dor&3xtra",
    "p4$$w0rd/with+signs=and\"quotes\"",
    "q8Zr2Lm5Xc7Vb1Nk4",
    "line one 1a2b\nline two 3c4d",
    "pässwörd-übung-42",
];

#[test]
fn every_form_of_a_value_is_found() {
    for value in VALUES {
        let sanitiser = holding(&[("DB_PASSWORD", value)]);
        for (form, text) in forms(value) {
            // Hexadecimal digits of a multi-byte character have no case to change.
            for text in [text.clone(), format!("key: {text}\n"), format!("<{text}>,")] {
                let clean = sanitiser.text(&text);
                assert_eq!(
                    clean.secrets, 1,
                    "{form} of {value:?}: {text:?} -> {}",
                    clean.text
                );
                assert!(
                    clean.text.contains("[secret:DB_PASSWORD#1]"),
                    "{form}: {}",
                    clean.text
                );
            }
        }
    }
}

#[test]
fn a_value_of_signs_is_found_verbatim_and_encoded() {
    let value = "p@$$!()_%^&";
    let sanitiser = holding(&[("ODD", value)]);
    for text in [
        value.to_owned(),
        value.chars().rev().collect(),
        hex(value.as_bytes(), true),
        base64(value.as_bytes(), false, true),
        base64(value.as_bytes(), true, false),
        percent(value, |_, _| true),
    ] {
        assert_eq!(sanitiser.text(&format!("a {text} b")).secrets, 1, "{text}");
    }
}

#[test]
fn a_value_has_one_number_in_all_its_forms_and_another_value_has_its_own() {
    let sanitiser = holding(&[("A", VALUES[0]), ("B", VALUES[3])]);
    let text = format!(
        "{} {} {}",
        VALUES[0],
        hex(VALUES[0].as_bytes(), false),
        VALUES[3]
    );
    assert_eq!(
        sanitiser.text(&text).text,
        "[secret:A#1] [secret:A#1] [secret:B#1]"
    );
}

#[test]
fn a_value_that_looks_escaped_is_found_as_it_is() {
    for value in [
        "!A0!%0a-#A(0",
        "x%25y!%20z#%4",
        "a&amp;b!&#10;c!",
        "n\\n!!t\\t##r\\r",
    ] {
        let sanitiser = holding(&[("A", value)]);
        let text = format!("is {value} it");
        assert_eq!(sanitiser.text(&text).text, "is [secret:A#1] it", "{value}");
    }
}

#[test]
fn text_that_is_near_a_value_stays() {
    let sanitiser = holding(&[("A", "correct-horse-battery-9"), ("PIN", "12345679")]);
    for text in [
        "correct-horse-battery-8",
        "correct horse",
        "1, 2, 3, 4, 5, 6, 7, 9",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ] {
        assert_eq!(sanitiser.text(text).text, text);
    }
    let far: Vec<String> = "correct-horse-battery-9"
        .chars()
        .map(|c| format!("{c}{}", ".".repeat(80)))
        .collect();
    assert_eq!(sanitiser.text(&far.concat()).secrets, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_value_survives_wherever_it_stands(
        value in "[A-Za-z0-9!@#$%^&*()_+./=-]{12,40}",
        before in "[ -~\n]{0,20}",
        after in "[ -~\n]{0,20}",
    ) {
        let mut set = Values::new();
        // What repeats too few characters is refused, and said to be.
        prop_assume!(set.add("V", value.as_bytes()).is_ok());
        let sanitiser = Sanitiser::with(Arc::new(set), Arc::new(Patterns::new()));
        let out = sanitiser.text(&format!("{before}{value}{after}")).text.into_owned();
        prop_assert!(!out.contains(&value), "{out}");
        let encoded = base64(format!("{before}{value}{after}").as_bytes(), false, true);
        prop_assert!(sanitiser.text(&encoded).secrets >= 1);
    }
}

/// Text is squeezed in blocks and looked at at some of its places, fewer where no value is short:
/// neither may matter.
#[test]
fn a_value_is_found_at_every_offset_from_a_block_and_with_escapes_at_every_place() {
    const BLOCK: usize = 16 * 1024;
    for value in [
        "Zq7-kt_Wm2",
        "Zq7-kt_Wm2p",
        "Zq7-kt_Wm2p-Rb",
        "Zq7kt=Wm2pRb8Lf4XcVt6",
    ] {
        let sanitiser = holding(&[("A", value)]);
        for offset in BLOCK - 28..BLOCK + 4 {
            let text = format!("{}{value} end", "a ".repeat(BLOCK).get(..offset).unwrap());
            assert_eq!(sanitiser.text(&text).secrets, 1, "{offset}");
        }
        for (one, other) in
            (0..value.len()).flat_map(|one| (one..value.len()).map(move |two| (one, two)))
        {
            let escaped = percent(value, |at, _| at == one || at == other);
            for before in ["", "x", "xy ", "xyz", "xyz-w"] {
                let text = format!("{before}{escaped} end");
                assert_eq!(sanitiser.text(&text).secrets, 1, "{text}");
            }
        }
    }
}

/// What a short value needs does not keep a long one from being found, nor the other way round.
#[test]
fn short_and_long_values_are_found_side_by_side() {
    let values = [("A", "Zq7kt9Wm2"), ("B", "Rb8Lf4XcVt6Hd3Kp")];
    for set in [&values[..], &values[..1], &values[1..]] {
        let sanitiser = holding(set);
        for before in 0..8 {
            let (_, one) = values[0];
            let (_, two) = values[1];
            let text = format!("{} {one} and {two}.", "x".repeat(before));
            assert_eq!(sanitiser.text(&text).secrets, set.len(), "{text}");
        }
    }
}
