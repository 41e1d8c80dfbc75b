//! What a session remembers, in short: made by rule, so that nobody can talk a model into leaving
//! something out.

use super::sessions::time;
use airlock_state::Observation;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Origins that are told of one by one.
const ORIGINS: usize = 20;
/// Texts that are told to come up again and again.
const REPEATED: usize = 5;
/// As much of a text as is shown.
const SHOWN: usize = 200;

/// How many observations there are, from when to when, the newest of each origin, and what was
/// observed more than once. `newest_first` are all of them.
pub(super) fn summary(newest_first: &[Observation]) -> Value {
    // By what it came from: the newest, and how many.
    let mut origins: BTreeMap<&str, (&Observation, usize)> = BTreeMap::new();
    let mut texts: BTreeMap<String, (&Observation, usize)> = BTreeMap::new();
    for one in newest_first {
        let same = one.text.split_whitespace().collect::<Vec<_>>().join(" ");
        origins.entry(&one.origin).or_insert((one, 0)).1 += 1;
        texts.entry(same.to_lowercase()).or_insert((one, 0)).1 += 1;
    }
    let mut origins: Vec<_> = origins.into_values().collect();
    origins.sort_by_key(|(newest, count)| std::cmp::Reverse((*count, newest.at)));
    let more = origins.len().saturating_sub(ORIGINS);
    let mut repeated: Vec<_> = texts
        .into_values()
        .filter(|(_, count)| *count > 1)
        .collect();
    repeated.sort_by_key(|(newest, count)| std::cmp::Reverse((*count, newest.at)));
    json!({
        "count": newest_first.len(),
        "oldest": newest_first.last().map(|one| time(one.at)),
        "newest": newest_first.first().map(|one| time(one.at)),
        "origins": origins.iter().take(ORIGINS).map(|(newest, count)| json!({
            "origin": newest.origin,
            "count": count,
            "newest": shown(newest),
            "at": time(newest.at),
        })).collect::<Vec<_>>(),
        "more_origins": more,
        "repeated": repeated.iter().take(REPEATED).map(|(newest, count)| json!({
            "text": shown(newest),
            "count": count,
        })).collect::<Vec<_>>(),
    })
}

/// The beginning of what is remembered, on one line.
fn shown(observation: &Observation) -> String {
    let mut words = observation.text.split_whitespace();
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        text.push(' ');
        text.push_str(word);
        if text.chars().count() > SHOWN {
            break;
        }
    }
    if text.chars().count() <= SHOWN {
        return text;
    }
    let mut short: String = text.chars().take(SHOWN - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::Timestamp;
    use airlock_state::Owner;

    fn seen(at: i64, origin: &str, text: &str) -> Observation {
        Observation {
            id: at.to_string(),
            owner: Owner {
                tenant: "local".parse().unwrap(),
                user: "ada".parse().unwrap(),
            },
            session: "s-1".parse().unwrap(),
            text: text.to_owned(),
            origin: origin.to_owned(),
            at: Timestamp::from_micros(at * 1_000_000),
        }
    }

    #[test]
    fn all_of_it_is_counted_and_the_newest_of_each_origin_told() {
        let told = summary(&[
            seen(4, "tool:grep", "Tests  pass"),
            seen(3, "user", "go on"),
            seen(2, "tool:grep", "tests pass"),
            seen(1, "tool:grep", "first"),
        ]);
        assert_eq!(told["count"], 4);
        assert_eq!(told["oldest"], "1970-01-01T00:00:01Z");
        assert_eq!(told["newest"], "1970-01-01T00:00:04Z");
        let origins = told["origins"].as_array().unwrap();
        assert_eq!(origins.len(), 2);
        assert_eq!(
            (&origins[0]["origin"], &origins[0]["count"]),
            (&json!("tool:grep"), &json!(3))
        );
        assert_eq!(origins[0]["newest"], "Tests pass");
        assert_eq!(
            told["repeated"],
            json!([{ "text": "Tests pass", "count": 2 }])
        );
    }

    #[test]
    fn it_stays_short_whatever_is_remembered() {
        let all: Vec<Observation> = (0..1_000)
            .rev()
            .map(|at| seen(at, &format!("file:{at}"), &"long ".repeat(1_000)))
            .collect();
        let told = summary(&all);
        assert_eq!(
            (&told["count"], &told["more_origins"]),
            (&json!(1_000), &json!(980))
        );
        assert!(told.to_string().len() < 8_000, "{}", told.to_string().len());
        let none = summary(&[]);
        assert_eq!((&none["count"], &none["oldest"]), (&json!(0), &Value::Null));
    }
}
