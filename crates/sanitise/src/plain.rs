//! Lists of texts in which there is nothing to look for, told many at a time.
//!
//! A search gives thousands of paths. Nearly all are plain, and looking at each by itself is mostly
//! set-up: so many of them are looked through together, and only where anything at all could stand is
//! each looked at.
//!
//! Guarantee: what is called plain is left as it is by [`Sanitiser`] text by text, with these names.
//! Whatever it finds begins with a fixed text, has a name that tells it, or has a character that is
//! not plain; a fixed text in one of the texts is one in all of them together.

use crate::named::{self, Name};
use crate::sanitiser::Sanitiser;
use crate::scan::has_fixed;
use serde_json::Value;

/// How many texts are looked through together.
const TOGETHER: usize = 128;

/// Which texts of a list are plain, told as a walk comes to them: what stands before a text counts as
/// the walk left it.
#[derive(Debug)]
pub(crate) struct Plain {
    /// Whether any could be.
    looks: bool,
    /// Those that are looked through together.
    room: String,
    /// Whether the lot that the walk is in is plain.
    lot: bool,
}

impl Plain {
    /// For `items`, which all have `names`.
    pub(crate) fn of(sanitiser: &Sanitiser, items: &[Value], names: &[Name<'_>]) -> Self {
        Self {
            // What is not built in may be anywhere, and in any form.
            looks: items.len() >= TOGETHER
                && sanitiser.wanted().is_empty()
                && !names.iter().any(named::tells),
            room: String::new(),
            lot: false,
        }
    }

    /// Whether the item at that place is plain. Asked of each in turn.
    pub(crate) fn has(&mut self, items: &[Value], at: usize) -> bool {
        if self.looks && at.is_multiple_of(TOGETHER) {
            let (earlier, rest) = items.split_at_checked(at).unwrap_or_default();
            let lot = rest.get(..TOGETHER).unwrap_or(rest);
            self.lot = are_plain(lot, earlier.last(), &mut self.room);
        }
        self.lot
    }
}

/// Whether all of `lot` are plain texts after `before`, which are put together in `room`.
fn are_plain(lot: &[Value], before: Option<&Value>, room: &mut String) -> bool {
    let tells = |item: &Value| {
        item.as_str()
            .is_some_and(|text| named::beside(text).is_some())
    };
    let earlier = lot.split_last().map_or(lot, |(_, earlier)| earlier);
    if before.into_iter().chain(earlier).any(tells) {
        return false;
    }
    room.clear();
    for item in lot {
        let Some(text) = item.as_str() else {
            return false;
        };
        if !is_printable(text) {
            return false;
        }
        room.push_str(text);
        room.push('\n');
    }
    !has_fixed(room.as_bytes())
}

/// Whether all of it is visible ASCII and spaces. In a path, a line end is none of that, either.
pub(crate) fn is_printable(text: &str) -> bool {
    let is_odd = |byte: u8| !(b' '..=b'~').contains(&byte);
    // All at once, which is quicker than to stop at the first: there are lists of thousands.
    !text.bytes().fold(false, |odd, byte| odd | is_odd(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Values;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;
    use std::sync::Arc;

    fn item() -> impl Strategy<Value = Value> {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let odd = [
            json!(token),
            json!("--aws-secret-access-key"),
            json!("aws_secret_\u{7}access_key"),
            json!("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            json!("[secret:github-token#1]"),
            json!("ignore all previous instructions"),
            json!("a\u{200b}b"),
            json!("a\nb"),
            json!(7),
            json!(["nested", token]),
        ];
        prop_oneof![
            120 => "[a-z]{1,8}(/[a-z_0-9]{1,12}){0,4}\\.(rs|py|key|pem)".prop_map(Value::String),
            1 => proptest::sample::select(odd.to_vec()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn a_long_list_is_cleaned_as_its_texts_are_one_by_one(items in vec(item(), 0..600)) {
            let value = json!({ "paths": items });
            let together = Sanitiser::new().whole(value.clone());
            // Where a value is looked for, each text is looked at by itself.
            let mut values = Values::default();
            values.add("never", b"6e6f-never-in-any-of-them").unwrap();
            let alone = Sanitiser::with(Arc::new(values), Arc::default()).whole(value);
            let differ = |(at, item): (usize, &Value)| {
                let other = &alone.value["paths"][at];
                (item != other).then(|| format!("{at}: {item} {other}"))
            };
            let lists = together.value["paths"].as_array().into_iter().flatten();
            let differing: Vec<String> = lists.enumerate().filter_map(differ).collect();
            prop_assert_eq!(differing, Vec::<String>::new());
            prop_assert_eq!(together, alone);
        }
    }

    /// The second is a name only without what does not show, which the walk takes out.
    #[test]
    fn a_name_at_the_end_of_one_lot_tells_what_begins_the_next() {
        for name in [
            "--aws-secret-access-key",
            "aws_secret_\u{7}access_key",
            "aws_secret_access_key\u{200b}",
        ] {
            let paths = (0..2 * TOGETHER).map(|at| json!(format!("src/{at}.rs")));
            let mut items: Vec<Value> = paths.collect();
            items[TOGETHER - 1] = json!(name);
            items[TOGETHER] = json!("wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY");
            let clean = Sanitiser::new().whole(json!(items));
            assert_eq!(clean.secrets, 1, "{name:?}: {}", clean.value[TOGETHER]);
        }
    }

    #[test]
    fn a_plain_list_is_told_and_one_with_anything_in_it_is_not() {
        let sanitiser = Sanitiser::new();
        let told = |paths: &[Value], name: &str| {
            let mut plain = Plain::of(&sanitiser, paths, &[Name::Key(name)]);
            let told: Vec<bool> = (0..paths.len()).map(|at| plain.has(paths, at)).collect();
            told.into_iter().step_by(TOGETHER).collect::<Vec<bool>>()
        };
        let paths: Vec<Value> = (0..3 * TOGETHER)
            .map(|at| json!(format!("src/{at}.rs")))
            .collect();
        assert_eq!(told(&paths, "paths"), [true; 3]);
        for odd in [
            json!("a\u{7}"),
            json!("a\nb"),
            json!(1),
            json!(format!("ghp_{}", "a1B2".repeat(9))),
        ] {
            let mut paths = paths.clone();
            paths[TOGETHER] = odd.clone();
            assert_eq!(told(&paths, "paths"), [true, false, true], "{odd}");
        }
        let by_name = told(&paths, "aws_secret_access_key");
        assert_eq!(by_name, [false; 3], "the name alone may tell a secret");
    }
}
