//! Counts work, in tests only: that no text costs more than in proportion to its length is held
//! against this rather than against a clock.

#[cfg(test)]
thread_local! {
    static SPENT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// So many bytes were looked at beyond the passes over the text.
#[inline]
pub(crate) fn spend(count: usize) {
    #[cfg(test)]
    SPENT.set(SPENT.get() + count as u64);
    let _ = count;
}

/// What was spent on this thread since the last call.
#[cfg(test)]
pub(crate) fn spent() -> u64 {
    SPENT.replace(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Patterns, Sanitiser, Values};
    use std::sync::Arc;

    /// Texts made to be looked at again and again.
    fn hostile() -> Vec<String> {
        let key = format!("-----BEGIN {}-----", "PRIVATE KEY");
        let units = [
            "A",
            "ghp_",
            "github_pat_",
            "eyJ",
            "eyJAAAAAAAAAAAA.",
            "sk-",
            "sk-ant-",
            "sk-proj-",
            "-----BEGIN ",
            &key,
            "[",
            "[[[[secret:",
            "[secret:a",
            "://",
            "a://b:",
            "a://b:c@",
            "<!--",
            "<!-- ai must",
            "%",
            "%4",
            "%41",
            "\\u0041",
            "\\",
            "ignore ",
            "ignore previous ",
            "ignore all previous system ",
            "pypi-",
            "glpat-",
            "xoxb-",
            "AKIA",
            "curl ",
            "curl http ",
            "![",
            "![](http",
            "](http",
            "correct",
            "correcthorse",
            "correct-horse-battery-",
            "machine a login b password ",
            "username: a\n",
            "username: a\npassword: ",
            "\n\nHuman:",
            "aWdub3Jl",
            "0123456789:AA",
            "aaaaaaaaaaaaaa.atlasv1.",
            "SK0",
            "-us1",
            "8Q~",
            "password=",
            ";password=",
            "style=\"display:none\">ai ",
            "sig=",
            "Private-Lines: 9\n",
            "&#65;",
            "&",
            "aws_secret_access_key=",
            "\u{1b}]",
            "\u{1b}[",
            "\u{200b}",
            "\u{e0041}",
            "é",
            "Proc-Type: ",
            "abcabcabc",
        ];
        let mut texts: Vec<String> = units
            .iter()
            .map(|unit| unit.repeat(200_000 / unit.len()))
            .collect();
        texts.push(format!("{key}\n{}", "Proc-Type: 4\n".repeat(10_000)));
        texts.push(format!("{key}\n{}", "\n".repeat(200_000)));
        texts.push(format!("{key}!\n").repeat(5_000));
        texts.push(format!("eyJ{}.", "A".repeat(8_000)).repeat(20));
        texts
    }

    fn sanitiser() -> Sanitiser {
        let mut values = Values::new();
        values.add("A", b"correct-horse-battery-9").unwrap();
        values
            .add("B", b"abcabcabcabcabcabcabcabcabcabcabcabcd")
            .unwrap();
        let mut patterns = Patterns::new();
        patterns.add("badge", "ACME-[0-9]+").unwrap();
        Sanitiser::with(Arc::new(values), Arc::new(patterns))
    }

    #[test]
    fn no_text_costs_more_than_in_proportion_to_its_length() {
        const MOST: u64 = 100;
        for text in hostile() {
            let shown: String = text.chars().take(24).collect();
            let sanitiser = sanitiser();
            let _ = spent();
            let _ = sanitiser.text(&text);
            let cost = spent() / text.len() as u64;
            assert!(cost <= MOST, "{cost} looks a byte for {shown:?}");
        }
    }

    #[test]
    fn no_cut_makes_it_cost_more_either() {
        const MOST: u64 = 400;
        for text in hostile() {
            let text = text.get(..text.floor_char_boundary(40_000)).unwrap();
            let shown: String = text.chars().take(24).collect();
            let sanitiser = sanitiser();
            let mut stream = sanitiser.stream();
            let mut out = String::new();
            let _ = spent();
            for piece in text.as_bytes().chunks(3) {
                stream.push(piece, &mut out);
            }
            stream.finish(&mut out);
            let cost = spent() / text.len() as u64;
            assert!(cost <= MOST, "{cost} looks a byte for {shown:?}");
        }
    }
}
