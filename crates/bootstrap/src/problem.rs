//! What went wrong, as one JSON object on standard error.

use std::fmt::Write as _;

/// Why there is no kernel (any more): a stable word, the exit code (1 failed, 2 usage, 5 not possible
/// here, 75 taken, as `airlock` has them), what happened, why, and how to mend it.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: &'static str,
    pub(crate) exit: u8,
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) fix: &'static str,
}

impl Problem {
    /// A setting that cannot be used.
    pub(crate) fn config(what: String, fix: &'static str) -> Self {
        let (code, exit, why) = ("config", 2, String::new());
        Self { code, exit, what, why, fix }
    }

    pub(crate) fn to_json(&self) -> String {
        let told = [("what", &*self.what), ("why", &self.why), ("fix", self.fix)];
        object(&[&[("error", self.code)], &told[..]].concat())
    }
}

/// A JSON object of texts.
pub(crate) fn object(fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| format!("{}:{}", quoted(name), quoted(value));
    let fields: Vec<String> = fields.iter().map(field).collect();
    format!("{{{}}}", fields.join(","))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Whatever reads this may be a terminal.
            c if c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// One line for whoever watches this process.
#[expect(clippy::print_stderr, reason = "the only place this program speaks")]
pub(crate) fn tell(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_line_of_json() {
        for (text, want) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("line\nbreak\u{1b}[2J", r#""line\u000abreak\u001b[2J""#),
            ("\u{202e}txt", r#""\u202etxt""#),
        ] {
            assert_eq!(quoted(text), want);
        }
    }
}
