//! How many secrets are found, and how often ordinary text is taken for one: measured on secrets of
//! every kind in contexts of every sort, and on ordinary text made to look like them.
//!
//! `cargo test -p airlock-sanitise --test corpus -- --nocapture` prints the tables.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod attacks;
mod ordinary;
mod rng;
mod secrets;

use airlock_sanitise::Sanitiser;
use rng::Rng;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Secrets made of each form.
const EACH: usize = 12;
/// Lines of ordinary text of each sort, at least.
const LINES: usize = 600;
/// Flags on ordinary text, in all of it together; no secret may be seen in it at all.
const FALSE_FLAGS: usize = 2;
/// Paraphrases that are flagged at least: the rules know words, not meaning.
const HELD_OUT_FLAGGED: usize = 7;

#[derive(Default)]
struct Score {
    tried: usize,
    found: usize,
    misses: Vec<String>,
}

/// Every form in every context that suits it.
fn measure(contexts: &[(&str, &str)], seed: u64) -> BTreeMap<&'static str, Score> {
    let mut scores: BTreeMap<&'static str, Score> = BTreeMap::new();
    let mut rng = Rng::new(seed);
    for (kind, form) in secrets::FORMS {
        for _ in 0..EACH {
            let made = secrets::make(form, &mut rng);
            let contexts: Vec<&str> = if made.own_line {
                vec!["before\n¤\nafter\n", "¤\n", "# settings\n¤"]
            } else {
                contexts.iter().map(|(_, context)| *context).collect()
            };
            for context in contexts {
                let text = context.replace('¤', &made.line);
                let out = Sanitiser::new().text(&text).text.into_owned();
                let score = scores.entry(kind).or_default();
                score.tried += 1;
                // All of it, under its own name.
                let named = out.contains(&format!("[secret:{kind}#1]"));
                if named && !out.contains(&made.secret) {
                    score.found += 1;
                } else if score.misses.len() < 3 {
                    score.misses.push(format!("{text:?} -> {out:?}"));
                }
            }
        }
    }
    scores
}

#[test]
fn every_well_formed_secret_is_found_under_its_name() {
    let known = measure(secrets::CONTEXTS, 1);
    let held_out = measure(secrets::HELD_OUT, 2);
    assert!(known.len() >= 60, "{} kinds", known.len());
    println!("| kind | found | in the second contexts |\n| --- | --- | --- |");
    let mut misses = Vec::new();
    for (kind, score) in &known {
        let other = &held_out[kind];
        println!(
            "| {kind} | {}/{} | {}/{} |",
            score.found, score.tried, other.found, other.tried
        );
        misses.extend(score.misses.iter().chain(&other.misses));
    }
    println!("{} kinds", known.len());
    assert!(
        misses.is_empty(),
        "{} missed, such as\n{}",
        misses.len(),
        misses
            .iter()
            .take(12)
            .map(|m| m.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    );
}

/// What a name and a value look like in the results of tools.
fn structures(name: &str, value: &str) -> [Value; 7] {
    [
        json!({ (name): value }),
        json!({ "result": [{ "id": 7, (name): value, "zone": "b" }] }),
        json!({ "headers": { (name): [value] } }),
        json!({ "env": [{ "name": name, "value": value }] }),
        json!({ "outputs": { (name): { "type": "string", "value": value } } }),
        json!({ "Outputs": [{ "OutputKey": name, "OutputValue": value }] }),
        json!({ "args": ["run", name, value] }),
    ]
}

#[test]
fn what_a_name_tells_in_a_text_it_tells_in_a_structure() {
    let named: BTreeSet<&str> = secrets::NAMED.iter().map(|(kind, _, _)| *kind).collect();
    // Of the others more than a name tells what they are.
    let assigned = |form: &str| {
        let before = form.split('«').next().unwrap().trim_end_matches(['"', ' ']);
        before.len() < form.len()
            && before.ends_with([':', '='])
            && !before.contains([';', '?', '\n', '@'])
            && !before.contains("://")
    };
    for (kind, form) in secrets::FORMS.iter().filter(|(_, form)| assigned(form)) {
        assert!(
            named.contains(kind),
            "{form} is not among those with a name"
        );
    }
    let mut rng = Rng::new(4);
    for (kind, name, form) in secrets::NAMED {
        for _ in 0..EACH {
            let made = secrets::make(form, &mut rng);
            let placeholder = format!("[secret:{kind}#1]");
            let want = made.line.replace(&made.secret, &placeholder);
            let pairs = structures(name, &made.line).into_iter();
            for (value, want) in pairs.zip(structures(name, &want)) {
                let out = Sanitiser::new().whole(value.clone());
                assert_eq!((out.value, out.secrets), (want, 1), "{value}");
            }
        }
    }
}

#[test]
fn ordinary_structures_are_left_alone() {
    let mut fields = ordinary::FIELDS.iter().cycle();
    for (number, (sort, make)) in ordinary::SORTS.iter().enumerate() {
        let mut rng = Rng::new(200 + number as u64);
        for _ in 0..LINES / 6 {
            let text = make(&mut rng);
            let name = fields.next().unwrap();
            for value in structures(name, &text) {
                let out = Sanitiser::new().whole(value);
                assert_eq!(out.secrets, 0, "{sort}: {}", out.value);
            }
        }
    }
    let mut rng = Rng::new(5);
    let value = json!({
        "packages": { "node_modules/a": {
            "version": "1.2.3",
            "resolved": "https://registry.npmjs.org/a/-/a-1.2.3.tgz",
            "integrity": format!("sha512-{}==", rng.base64(86)),
        } },
        "sha256": rng.hex(64),
        "token_count": 5,
        "session_token_count": 7,
        "forgot_password": "Have you lost it?",
        "reset_password": "https://example.com/reset",
        "secret_access_key": "${AWS_SECRET_ACCESS_KEY}",
        "SecretAccessKey": null,
        "auth": "none",
        "oauth": rng.base64(40),
        "PrivateKey": "/etc/wireguard/private.key",
        "PublicKey": format!("{}=", rng.base64(43)),
        "Authorization": "Bearer ${TOKEN}",
        "NextToken": rng.base64(120),
    });
    let out = Sanitiser::new().whole(value.clone());
    assert_eq!((out.value, out.changed), (value, false));
}

/// The lines of a text as tools list them.
fn listed(text: &str) -> [Value; 3] {
    let numbered = text.lines().enumerate();
    let numbered = numbered.map(|(at, line)| json!({ "line": at + 1, "text": line }));
    let rows = text.lines().map(|line| json!(["x", line]));
    [
        text.lines().map(Value::from).collect(),
        numbered.collect(),
        rows.collect(),
    ]
}

#[test]
fn a_secret_of_several_lines_is_found_in_a_list_of_them() {
    let mut rng = Rng::new(6);
    let mut tried = 0;
    for (kind, form) in secrets::FORMS {
        let made = secrets::make(form, &mut rng);
        if !made.line.contains('\n') {
            continue;
        }
        for value in listed(&format!("before\n{}\nafter", made.line)) {
            tried += 1;
            let out = Sanitiser::new().whole(value.clone());
            assert_eq!(out.secrets, 1, "{kind}: {value} gives {}", out.value);
            let shown = out.value.to_string();
            assert!(shown.contains(&format!("[secret:{kind}")), "{shown}");
            assert!(shown.contains("before") && shown.contains("after"));
            for line in made.secret.lines().filter(|line| line.len() >= TELLING) {
                assert!(!shown.contains(line), "{kind}: {line} in {shown}");
            }
        }
    }
    assert!(tried >= 24, "{tried}");
}

#[test]
fn ordinary_lists_are_left_alone() {
    let mut flags = 0;
    for (number, (sort, make)) in ordinary::SORTS.iter().enumerate() {
        let mut rng = Rng::new(300 + number as u64);
        let mut text = String::new();
        while text.lines().count() < LINES {
            text += &make(&mut rng);
            text.push('\n');
        }
        for value in listed(&text) {
            let out = Sanitiser::new().whole(value);
            assert_eq!(out.secrets, 0, "{sort}");
            flags += out
                .flags
                .iter()
                .filter(|flag| flag.field.is_empty())
                .count();
        }
    }
    assert!(flags <= 3 * FALSE_FLAGS, "{flags} lists flagged as a whole");
}

/// So many characters of a secret in a row are part of it by no accident.
const TELLING: usize = 6;

#[test]
fn no_part_of_a_text_shows_part_of_a_secret_wherever_it_is_cut() {
    let mut rng = Rng::new(3);
    for (kind, form) in secrets::FORMS {
        let made = secrets::make(form, &mut rng);
        let context = if made.own_line {
            "one\n¤\ntwo\n"
        } else {
            "one: \"¤\"; two\n"
        };
        let text = context.replace('¤', &made.line);
        let sanitiser = Sanitiser::new();
        let found = sanitiser.find(text.as_bytes());
        let begin = text.find(&made.secret).unwrap();
        // Of a long one not every place is tried.
        let cuts = (0..=made.secret.len()).step_by(1 + made.secret.len() / 200);
        for cut in cuts.map(|cut| begin + cut) {
            let shown = |part| {
                let part = sanitiser.part(text.as_bytes(), &found, part);
                let part = String::from_utf8(part.into_owned()).unwrap();
                let clean = sanitiser.text(&part).text.into_owned();
                // What placeholders say may be part of a secret, too.
                clean.replace("[secret:", "").replace(kind, "")
            };
            let (before, after) = made.secret.split_at(cut - begin);
            for (secret, part) in [(before, shown(0..cut)), (after, shown(cut..text.len()))] {
                let ends = [
                    secret.get(..TELLING),
                    secret.get(secret.len().wrapping_sub(TELLING)..),
                ];
                // What stands beside the secret as well is told by no part of it.
                let beside = text.replace(&made.secret, "");
                let mut ends = ends.into_iter().flatten();
                let told = ends.find(|end| part.contains(end) && !beside.contains(end));
                assert_eq!(told, None, "{kind} cut at {cut} of {text:?}: {part:?}");
            }
        }
    }
}

#[test]
fn ordinary_text_is_left_alone() {
    println!("| text | lines | taken for secrets | flagged |\n| --- | --- | --- | --- |");
    let (mut lines, mut secrets, mut flags) = (0, Vec::new(), Vec::new());
    for (number, (sort, make)) in ordinary::SORTS.iter().enumerate() {
        let mut rng = Rng::new(100 + number as u64);
        let mut text = String::new();
        while text.lines().count() < LINES {
            text += &make(&mut rng);
            text.push('\n');
        }
        let sanitiser = Sanitiser::new();
        let clean = sanitiser.text(&text);
        let count = text.lines().count();
        println!(
            "| {sort} | {count} | {} | {} |",
            clean.secrets,
            clean.flags.len()
        );
        lines += count;
        for line in clean.text.lines().filter(|line| line.contains("[secret:")) {
            secrets.push(format!("{sort}: {line}"));
        }
        flags.extend(
            clean
                .flags
                .iter()
                .map(|flag| format!("{sort}: {} {}", flag.rule, flag.excerpt)),
        );
    }
    println!("| all | {lines} | {} | {} |", secrets.len(), flags.len());
    assert!(lines >= 10_000, "{lines} lines");
    assert!(secrets.is_empty(), "{secrets:#?}");
    assert!(flags.len() <= FALSE_FLAGS, "{flags:#?}");
}

#[test]
fn attacks_are_flagged_by_their_rules() {
    let rules = |text: &str| -> Vec<String> {
        let sanitiser = Sanitiser::new();
        sanitiser
            .text(text)
            .flags
            .iter()
            .map(|flag| flag.rule.to_string())
            .collect()
    };
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (rule, text) in attacks::ATTACKS {
        let score = found.entry(rule).or_default();
        score.1 += 1;
        let flagged = rules(&format!("# Notes\n{text}\nmore text follows here\n"));
        assert!(
            flagged.iter().any(|found| found == rule),
            "{rule}: {text}: {flagged:?}"
        );
        score.0 += 1;
    }
    println!("| rule | flagged |\n| --- | --- |");
    for (rule, (flagged, tried)) in found {
        println!("| {rule} | {flagged}/{tried} |");
    }
    let held_out = attacks::HELD_OUT
        .iter()
        .filter(|text| !rules(text).is_empty())
        .count();
    println!("| paraphrases | {held_out}/{} |", attacks::HELD_OUT.len());
    assert!(held_out >= HELD_OUT_FLAGGED, "{held_out}");
}
