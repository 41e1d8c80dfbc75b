//! Cutting a structured value down to a bound.
//!
//! Guarantee: what fits stays as it is, and what is left fits. However long a field is, short ones
//! beside it stay whole: an object's room is shared evenly, and what one does not need the others
//! get. What is missing is said: in a text where it is cut, of a list `x` in a field `x_cut` beside
//! it, for a word among its items would pass for one of them; of a list in no object in a last item,
//! and of an object in a last field. Non-guarantee: where there is hardly any room, that is one sign.

use crate::bound::{Bound, LEFT_OUT};
use serde_json::{Map, Number, Value};

/// What an item or a field takes up besides what is in it.
const ITEM: usize = 4;
/// What the name of a list is followed by where it is said how much of it is missing.
const CUT: &str = "_cut";
/// What is left of a text, a list or an object at least: room to say that something is missing.
const LEAST: usize = ITEM + CUT.len() + LEFT_OUT.len();

/// What is left of a sanitised value within `bound`, and whether that is less than all of it.
pub fn fitted(mut value: Value, bound: Bound<'_>) -> (Value, bool) {
    let mut fit = Fit { bound, cut: false };
    fit.value(&mut value, bound.bytes);
    (value, fit.cut)
}

/// How much of a bound `value` takes up: one that takes up no more than there is is not cut.
pub fn weight(value: &Value) -> usize {
    weighed(value, usize::MAX)
}

/// The same, or just more than `most`: nobody needs to know how much more.
fn weighed(value: &Value, most: usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) => ITEM,
        Value::Number(number) => digits(number),
        Value::String(text) => text.len(),
        Value::Array(items) => sum(items.iter().map(|item| (0, item)), most),
        Value::Object(fields) => sum(fields.iter().map(|(key, value)| (key.len(), value)), most),
    }
}

fn sum<'v>(parts: impl Iterator<Item = (usize, &'v Value)>, most: usize) -> usize {
    let mut sum = 0;
    for (name, value) in parts {
        sum += ITEM + name;
        if sum <= most {
            sum += weighed(value, most - sum);
        }
        if sum > most {
            break;
        }
    }
    sum
}

fn digits(number: &Number) -> usize {
    let count = |number: u64| number.checked_ilog10().map_or(1, |log| log as usize + 1);
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => count(number),
        (None, Some(number)) => 1 + count(number.unsigned_abs()),
        (None, None) => number.to_string().len(),
    }
}

/// Whether it can be cut.
const fn is_long(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Array(_) | Value::Object(_) => true,
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The least that a field takes up.
fn least(key: &str, value: &Value) -> usize {
    let needed = match value {
        // Its name stands once more beside it.
        Value::Array(_) => LEAST + key.len(),
        Value::String(_) | Value::Object(_) => LEAST,
        Value::Null | Value::Bool(_) | Value::Number(_) => usize::MAX,
    };
    ITEM + key.len() + weighed(value, needed).min(needed)
}

/// How many of the first fields fit, cut as short as can be.
fn fitting(fields: &Map<String, Value>, room: usize) -> usize {
    let mut left = room;
    let fits = |(key, value): &(&String, &Value)| {
        let least = least(key, value);
        let fits = least <= left;
        left = left.saturating_sub(least);
        fits
    };
    fields.iter().take_while(fits).count()
}

struct Fit<'a> {
    bound: Bound<'a>,
    cut: bool,
}

impl Fit<'_> {
    fn value(&mut self, value: &mut Value, room: usize) {
        if weighed(value, room) <= room {
            return;
        }
        match value {
            Value::String(text) => {
                self.cut = true;
                *text = self.text(text, room);
            }
            Value::Array(items) => {
                let note = self.bound.note(items.len(), "item", room / 4);
                let missing = self.list(items, room.saturating_sub(ITEM + note.len()));
                if missing > 0 {
                    let note = self.bound.note(missing, "item", note.len());
                    items.push(Value::String(note));
                }
            }
            Value::Object(fields) => self.object(fields, room),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// As much of a text as there is room for, and how to get at the rest if there is room for that.
    fn text(&self, text: &str, room: usize) -> String {
        let paged = Bound {
            bytes: room,
            ..self.bound
        };
        let plain = Bound {
            paging: None,
            ..paged
        };
        let says = |bound: &Bound<'_>| {
            let mark = bound.note(text.len(), "byte", usize::MAX);
            mark.len() + 2 <= room
        };
        [paged, plain].into_iter().find(says).map_or_else(
            || plain.note(text.len(), "byte", room),
            |bound| bound.apply(text).into_owned(),
        )
    }

    /// Leaves the first items that fit, and says how many do not. An item is cut itself if it is the
    /// first one, or longer than the whole list may be.
    fn list(&mut self, items: &mut Vec<Value>, room: usize) -> usize {
        self.cut = true;
        let (mut left, mut kept) = (room, 0);
        for item in items.iter_mut() {
            let Some(most) = left.checked_sub(ITEM) else {
                break;
            };
            let weight = weighed(item, room);
            if weight > most {
                let alone = kept == 0 || weight > room;
                if alone && is_long(item) && most >= LEAST {
                    self.value(item, most);
                    kept += 1;
                }
                break;
            }
            left = most - weight;
            kept += 1;
        }
        let missing = items.len() - kept;
        items.truncate(kept);
        missing
    }

    fn object(&mut self, fields: &mut Map<String, Value>, room: usize) {
        self.cut = true;
        if fitting(fields, room) < fields.len() {
            self.drop_fields(fields, room);
        }
        let shares = shares(fields, room);
        let mut notes = Vec::new();
        for ((key, value), share) in fields.iter_mut().zip(shares) {
            let is_long = weighed(value, share) > share;
            if let Value::Array(items) = value
                && is_long
            {
                notes.extend(self.list_of(key, items, share));
            } else {
                self.value(value, share);
            }
        }
        fields.extend(notes);
    }

    /// Leaves the first fields that fit, and a last one that says how many do not.
    fn drop_fields(&self, fields: &mut Map<String, Value>, room: usize) {
        let note = self.bound.note(fields.len(), "field", room / 4);
        let beside = ITEM + LEFT_OUT.len() + note.len();
        let kept = fitting(fields, room.saturating_sub(beside));
        let missing = fields.len() - kept;
        *fields = std::mem::take(fields).into_iter().take(kept).collect();
        let note = self.bound.note(missing, "field", note.len());
        fields.insert(LEFT_OUT.to_owned(), Value::String(note));
    }

    /// As [`Fit::list`], for the field `key`: what is said of the items that do not fit, as a field.
    fn list_of(
        &mut self,
        key: &str,
        items: &mut Vec<Value>,
        room: usize,
    ) -> Option<(String, Value)> {
        let name = format!("{key}{CUT}");
        let left = room.saturating_sub(ITEM + name.len());
        let note = self.bound.note(items.len(), "item", left / 2);
        let Some(left) = left.checked_sub(note.len()) else {
            self.list(items, room);
            return None;
        };
        let missing = self.list(items, left);
        let note = self.bound.note(missing, "item", note.len());
        (missing > 0).then_some((name, Value::String(note)))
    }
}

/// What each field's value may take up: those that need less than an even share leave the rest to
/// the others.
fn shares(fields: &Map<String, Value>, room: usize) -> Vec<usize> {
    let names: usize = fields.keys().map(|key| ITEM + key.len()).sum();
    let mut left = room.saturating_sub(names);
    let mut parts: Vec<(bool, usize, usize)> = fields
        .values()
        .enumerate()
        .map(|(at, value)| (is_long(value), weighed(value, room), at))
        .collect();
    // First what cannot be cut, then the shortest.
    parts.sort_unstable();
    let mut count = parts.len();
    let mut shares: Vec<(usize, usize)> = Vec::with_capacity(count);
    for (is_long, weight, at) in parts {
        let even = left / count.max(1);
        let share = if is_long { weight.min(even) } else { weight };
        shares.push((at, share));
        left = left.saturating_sub(share);
        count -= 1;
    }
    shares.sort_unstable();
    shares.into_iter().map(|(_, share)| share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Keep;
    use proptest::prelude::*;
    use serde_json::json;

    fn within(value: &Value, bytes: usize) -> Value {
        let (fitted, cut) = fitted(value.clone(), Bound::bytes(Keep::Head, bytes));
        assert_eq!(cut, weight(value) > bytes, "{bytes}: {fitted}");
        assert!(weight(&fitted) <= bytes.max(LEAST), "{bytes}: {fitted}");
        fitted
    }

    #[test]
    fn a_long_field_takes_nothing_from_short_ones() {
        let value = json!({
            "outputs": [{ "path": "a", "text": "x".repeat(40_000) }],
            "put_back": [{ "path": "new.txt", "reason": "no rule allows it" }],
            "stage": "default",
            "stdout": "y".repeat(40_000),
        });
        let fitted = within(&value, 2_000);
        assert_eq!(fitted["put_back"], value["put_back"]);
        assert_eq!(fitted["stage"], "default");
        assert_eq!(fitted["outputs"][0]["path"], "a");
        for text in [&fitted["outputs"][0]["text"], &fitted["stdout"]] {
            let text = text.as_str().unwrap();
            assert!(text.contains("bytes cut") && text.len() > 700, "{text}");
        }
    }

    #[test]
    fn what_a_list_has_lost_is_said_beside_it_and_never_among_paths() {
        let paths: Vec<String> = (0..100).map(|number| format!("src/{number}.rs")).collect();
        let value = json!({ "paths": paths, "truncated": false });
        let bound = Bound::bytes(Keep::Head, 400).paged("narrow the pattern");
        let (fitted, cut) = fitted(value, bound);
        let left = fitted["paths"].as_array().unwrap();
        assert!(cut && left.len() > 10, "{fitted}");
        assert!(left.iter().zip(&paths).all(|(left, path)| left == path));
        let said = format!("[… {} items cut; narrow the pattern …]", 100 - left.len());
        assert_eq!(fitted["paths_cut"], said);
        assert_eq!(fitted["truncated"], false);
        // There is no beside.
        let fitted = within(&json!(paths), 400);
        let last = fitted.as_array().unwrap().last().unwrap();
        assert!(last.as_str().unwrap().ends_with(" items cut …]"), "{last}");
    }

    #[test]
    fn an_item_is_cut_only_if_it_could_not_be_there_otherwise() {
        for (items, want) in [
            (json!(["x".repeat(300)]), vec![true]),
            (json!(["one", "x".repeat(300), "two"]), vec![false, true]),
            (json!(["one", "x".repeat(50), "y".repeat(50)]), vec![false]),
        ] {
            let fitted = within(&json!({ "list": items }), 100);
            let left = fitted["list"].as_array().unwrap();
            let cut = |item: &Value| item.as_str().unwrap().contains('…');
            assert_eq!(left.iter().map(cut).collect::<Vec<_>>(), want, "{fitted}");
        }
    }

    #[test]
    fn keys_and_numbers_are_bounded_like_text() {
        let keys = |number: usize| (format!("k{number:06} {}", "x".repeat(40)), json!(1));
        let many: Map<String, Value> = (0..15_000).map(keys).collect();
        let fitted = within(&Value::Object(many), 16_000);
        let text = fitted.to_string();
        assert!(text.len() < 18_000, "{}", text.len());
        let said = fitted["…"].as_str().unwrap();
        assert!(said.ends_with(" fields cut …]"), "{said}");
        assert!(fitted.as_object().unwrap().len() > 200);
        let long = json!({ ("x".repeat(100_000)): 1, "b": 2 });
        assert!(within(&long, 1_000).to_string().len() < 1_000);
        let numbers: Vec<u64> = (0..15_000).map(|number| u64::MAX - number).collect();
        let text = within(&json!({ "numbers": numbers }), 16_000).to_string();
        assert!(text.len() < 18_000, "{}", text.len());
        for (number, want) in [
            (json!(0), 1),
            (json!(-10), 3),
            (json!(u64::MAX), 20),
            (json!(1.5), 3),
        ] {
            assert_eq!(weight(&number), want, "{number}");
        }
    }

    #[test]
    fn where_there_is_hardly_any_room_a_sign_is_left() {
        let value = json!({ "a": "x".repeat(100), "b": [1, 2, 3], "c": { "d": "y".repeat(9) } });
        for bytes in 0..160 {
            within(&value, bytes);
        }
        assert_eq!(within(&json!("x".repeat(100)), 2), "…");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-zé…]{0,60}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 60, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map("[a-z…]{0,12}", inner, 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_it_is_it_fits_in_the_end(value in any_value(), bytes in 0_usize..600) {
            // What cannot be cut stays.
            let most = if is_long(&value) { bytes.max(LEAST) } else { bytes.max(24) };
            for bound in [Bound::bytes(Keep::Middle, bytes), Bound::bytes(Keep::Tail, bytes).paged("read on")] {
                let (fitted, cut) = fitted(value.clone(), bound);
                prop_assert!(weight(&fitted) <= most, "{} > {most}: {fitted}", weight(&fitted));
                prop_assert_eq!(cut, weight(&value) > bytes && is_long(&value));
                if !cut {
                    prop_assert_eq!(&fitted, &value);
                }
            }
        }
    }
}
