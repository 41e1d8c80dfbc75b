//! Secrets that are known by a name. In a text it stands before them; in a structure it is the key
//! that they stand under, what a field beside them says, or the text before them in a list, and no text
//! has both.
//!
//! Guarantee: what the same name and value would show to be a secret in a text, written as
//! `NAME=VALUE`, `NAME: VALUE` or `"NAME": "VALUE"`, is found in the value. Non-guarantee: of a
//! project's patterns that holds for keys, for the first line of a value, and for texts, not for numbers.

use crate::kinds::{KINDS, Kind, assigns};
use crate::patterns::Patterns;
use crate::sanitiser::Before;
use crate::scan::{Edit, Label, PLACEHOLDER, Wanted};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Names that are longer tell nothing.
pub(crate) const LONGEST_NAME: usize = 256;
/// As much of a value's first line as patterns are looked for in.
const LINE: usize = 4 * 1024;
/// What stands before a name, between it and its value, and after that.
const WRITTEN: [(&str, &str, &str); 3] = [("", "=", ""), ("", ": ", ""), ("\"", "\": \"", "\"")];

/// The kinds that a name tells.
struct Named {
    /// With their places in the table.
    kinds: Vec<(usize, Kind)>,
    /// The letters that their names end in: nearly all keys end in another one.
    ends: u32,
}

static NAMED: LazyLock<Named> = LazyLock::new(|| {
    let named = |(_, kind): &(usize, Kind)| kind.known_as().is_some();
    let kinds: Vec<(usize, Kind)> = KINDS.iter().copied().enumerate().filter(named).collect();
    let names = kinds.iter().filter_map(|(_, kind)| kind.known_as());
    let ends = names.filter_map(|(name, _)| name.bytes().next_back());
    Named {
        ends: ends.fold(0, |ends, byte| ends | letter(byte)),
        kinds,
    }
});

/// A bit for a letter in either case.
const fn letter(byte: u8) -> u32 {
    1 << (byte & 31)
}

/// A name that a value has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name<'n> {
    /// The key that it stands under, or what a field beside it says.
    Key(&'n str),
    /// What the text before it in a list gives, by [`beside`].
    Before(&'n str),
}

/// What in `value` is a secret because of a name it has.
pub(crate) fn find(wanted: &Wanted, name: Name<'_>, value: &str, before: Before) -> Vec<Edit> {
    let mut found = Vec::new();
    let (Name::Key(text) | Name::Before(text)) = name;
    let text = without_signs(text);
    if text.is_empty() || text.len() > LONGEST_NAME {
        return found;
    }
    if may_tell(text) {
        for (number, kind) in &NAMED.kinds {
            let range = kind.under(text.as_bytes(), value.as_bytes());
            found.extend(range.map(|range| Edit::whole(range, Label::Kind(*number))));
        }
    }
    // A list of words says nothing about the word after `password`; a kind has a form as well.
    if matches!(name, Name::Key(_)) && !wanted.patterns.is_empty() {
        let taken = match before {
            Before::Raw => 0,
            Before::Sanitised => placeholder(value),
        };
        matched(&wanted.patterns, text, (value, taken), &mut found);
    }
    found
}

/// Whether `name` may tell what stands under it, by the built-in kinds.
pub(crate) fn tells(name: &Name<'_>) -> bool {
    let (Name::Key(text) | Name::Before(text)) = name;
    may_tell(without_signs(text))
}

/// The name that `text` gives what stands after it in a list, if it is one word that names a kind of
/// secret, as `aws_secret_access_key` or `--aws-secret-access-key`.
pub(crate) fn beside(text: &str) -> Option<Cow<'_, str>> {
    let name = without_signs(text.trim_start_matches('-'));
    if !may_tell(name) || name.len() > LONGEST_NAME {
        return None;
    }
    if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let name = if text.starts_with('-') {
        Cow::Owned(name.replace('-', "_"))
    } else {
        Cow::Borrowed(name)
    };
    let tells = |(_, kind): &(usize, Kind)| kind.begins_under(name.as_bytes()).is_some();
    NAMED.kinds.iter().any(tells).then_some(name)
}

/// A name without what stands between it and its value.
fn without_signs(name: &str) -> &str {
    name.trim_end_matches(|c: char| u8::try_from(c).is_ok_and(assigns))
}

/// Whether a name may tell a kind, by its last letter.
fn may_tell(name: &str) -> bool {
    let last = name.bytes().next_back();
    last.is_some_and(|last| NAMED.ends & letter(last) != 0)
}

/// Adds what the project's own patterns match together with the name, and that reaches beyond what
/// was `taken` out of the value's beginning before.
fn matched(patterns: &Patterns, name: &str, (value, taken): (&str, usize), found: &mut Vec<Edit>) {
    let near = value.get(..value.floor_char_boundary(LINE));
    let line = near.unwrap_or(value).lines().next().unwrap_or_default();
    for (open, sign, close) in WRITTEN {
        let text = format!("{open}{name}{sign}{line}{close}");
        let border = text.len() - line.len() - close.len();
        patterns.across(&text, border, |pattern, end| {
            let end = (end - border).min(line.len());
            if end > taken {
                found.push(Edit::whole(0..end, Label::Pattern(pattern)));
            }
        });
    }
}

/// The bytes of a placeholder that `value` begins with. Its name still stands before it.
fn placeholder(value: &str) -> usize {
    if !value.starts_with(PLACEHOLDER) {
        return 0;
    }
    value.find(']').map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sanitiser, Values};
    use std::sync::Arc;

    fn secret() -> String {
        format!("GTd7{}", "q8Zr2Lm5Xc7V".repeat(3))
    }

    fn under(name: &str, value: &str, patterns: &[(&str, &str)]) -> String {
        let mut set = Patterns::new();
        for (name, pattern) in patterns {
            set.add(name, pattern).unwrap();
        }
        let sanitiser = Sanitiser::with(Arc::new(Values::new()), Arc::new(set));
        let once = sanitiser.named(value, &[Name::Key(name)], Before::Raw);
        let twice = sanitiser.named(&once.text, &[Name::Key(name)], Before::Sanitised);
        assert_eq!(once.text, twice.text, "placeholders stay");
        once.text.into_owned()
    }

    #[test]
    fn a_value_is_known_by_its_name_as_in_a_text() {
        let key = "[secret:aws-secret-key#1]";
        let quoted = format!(" '{}' ", secret());
        for (name, value, want) in [
            ("SecretAccessKey", &*secret(), key),
            ("aws_secret_access_key", &secret(), key),
            ("AWS_SECRET_ACCESS_KEY=", &secret(), key),
            ("SecretAccessKey", &quoted, &format!(" '{key}' ")),
            ("SecretAccessKeyId", &secret(), &secret()),
            ("integrity", &secret(), &secret()),
            ("", &secret(), &secret()),
            ("SecretAccessKey", "", ""),
            (
                "SecretAccessKey",
                "read it from the vault",
                "read it from the vault",
            ),
            (
                "Authorization",
                "Bearer q8Zr2Lm5Xc7Vq8Zr2Lm5",
                "Bearer [secret:bearer-token#1]",
            ),
            (
                "Authorization",
                "q8Zr2Lm5Xc7Vq8Zr2Lm5",
                "q8Zr2Lm5Xc7Vq8Zr2Lm5",
            ),
            (
                "auth",
                "ZGVwbG95OmNvcnJlY3Rob3JzZTk=",
                "[secret:docker-login#1]",
            ),
            (
                "oauth",
                "ZGVwbG95OmNvcnJlY3Rob3JzZTk=",
                "ZGVwbG95OmNvcnJlY3Rob3JzZTk=",
            ),
        ] {
            assert_eq!(under(name, value, &[]), want, "{name}: {value}");
        }
    }

    #[test]
    fn a_pattern_with_a_name_in_it_matches_however_it_writes_that() {
        for pattern in [
            r"password: \S+",
            r"^password=\S+$",
            r#""password":\s*"[^"]+""#,
            r"(?i)PASS\w*\W+\w+",
        ] {
            let patterns = [("own", pattern)];
            let shown = under("password", "hunter2", &patterns);
            assert_eq!(shown, "[secret:own#1]", "{pattern}");
            let more = under("password", "hunter2\nand more", &patterns);
            assert!(
                !more.contains("hunter2") && more.ends_with("\nand more"),
                "{more}"
            );
            assert_eq!(under("user", "hunter2", &patterns), "hunter2", "{pattern}");
        }
        // What matches the name alone says nothing of the value.
        assert_eq!(
            under("password", "hunter2", &[("own", "pass[a-z]*")]),
            "hunter2"
        );
        // Nor does it matter what a placeholder looks like that somebody else made up.
        let forged = under("password", "[secret:hunter2]", &[("own", r"password: \S+")]);
        assert_eq!(forged, "[secret:own#1]");
        let own = [("own", "hunter[0-9]")];
        assert_eq!(under("password", "a hunter2", &own), "a [secret:own#1]");
    }

    #[test]
    fn what_is_known_by_its_name_is_joined_with_what_is_known_by_its_form() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let shown = under(
            "password",
            &format!("{token}-and-more"),
            &[("own", r"password: \S+")],
        );
        assert_eq!(shown, "[secret:own#1]");
    }

    #[test]
    fn one_word_that_names_a_kind_names_what_stands_after_it() {
        for (text, want) in [
            ("aws_secret_access_key", Some("aws_secret_access_key")),
            ("AWS_SECRET_ACCESS_KEY:", Some("AWS_SECRET_ACCESS_KEY")),
            ("--aws-secret-access-key", Some("aws_secret_access_key")),
            ("--secret-access-key=", Some("secret_access_key")),
            ("auth", Some("auth")),
            ("--auth", Some("auth")),
            ("oauth", None),
            ("password", None),
            ("aws-secret-access-key", None),
            ("set aws_secret_access_key", None),
            ("aws_secret_access_key_id", None),
            ("--", None),
            ("", None),
        ] {
            assert_eq!(beside(text).as_deref(), want, "{text}");
        }
        assert_eq!(
            beside(&format!("{}secret_access_key", "a".repeat(300))),
            None
        );
    }
}
