//! Holds the arguments of a call against the schema a plugin gave for them. Pure.
//!
//! Plugins bring schemas of any dialect, so what is understood is checked and what is not is passed
//! over, as JSON Schema wants it: a schema is there to keep a call from being made by mistake, and
//! allows nothing by itself. Bounded: a schema that refers to itself, or is nested without end, is
//! followed so far and no further; what it takes to try its patterns counts towards that.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Misfit {
    /// Dotted path to the argument at fault; empty for the object itself.
    pub at: String,
    /// What is wrong with it.
    pub what: String,
}

/// How deep a schema is followed.
const DEPTH: usize = 64;
/// How many schemas are held against values in one check.
const STEPS: usize = 100_000;
/// Longest pattern that is tried.
const PATTERN_BYTES: usize = 1_024;
/// Most memory one pattern may take, compiled or while it is tried. One that takes more says nothing.
const COMPILED_BYTES: usize = 256 << 10;
/// What compiling a pattern counts as, in schemas.
const COMPILING: usize = 1_000;
/// So many bytes that are held against a pattern count as one schema.
const TRIED_BYTES: usize = 8;

/// Checks `arguments` against `schema`.
pub fn check_arguments(schema: &Value, arguments: &Value) -> Result<(), Misfit> {
    let mut check = Check {
        root: schema,
        left: STEPS,
        path: Vec::new(),
        patterns: HashMap::new(),
    };
    check.value(schema, arguments, DEPTH)?;
    // Where one alternative went without an answer, the others say nothing either.
    if check.left == 0 {
        return check.misfit(TOO_MUCH);
    }
    Ok(())
}

const TOO_MUCH: &str = "its schema is too large or nested too deep to be checked";

struct Check<'s> {
    root: &'s Value,
    left: usize,
    path: Vec<String>,
    /// Those that were compiled; none where one cannot be.
    patterns: HashMap<&'s str, Option<Regex>>,
}

impl<'s> Check<'s> {
    fn misfit<T>(&self, what: impl Into<String>) -> Result<T, Misfit> {
        Err(Misfit {
            at: self.path.join("."),
            what: what.into(),
        })
    }

    fn value(&mut self, schema: &'s Value, value: &Value, depth: usize) -> Result<(), Misfit> {
        self.left = self.left.saturating_sub(1);
        let Some(depth) = depth.checked_sub(1).filter(|_| self.left > 0) else {
            return self.misfit(TOO_MUCH);
        };
        let fields = match schema {
            Value::Bool(false) => return self.misfit("nothing may be here"),
            Value::Object(fields) => fields,
            Value::Bool(true)
            | Value::Null
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => return Ok(()),
        };
        if let Some(target) = fields.get("$ref").and_then(Value::as_str)
            && let Some(target) = self.referred(target)
        {
            self.value(target, value, depth)?;
        }
        self.kind(fields, value)?;
        self.alternatives(fields, value, depth)?;
        match value {
            Value::Object(given) => self.object(fields, given, depth),
            Value::Array(given) => self.list(fields, given, depth),
            Value::String(text) => self.text(fields, text),
            Value::Number(number) => self.number(fields, number.as_f64()),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    /// What a reference within the schema leads to.
    fn referred(&self, target: &str) -> Option<&'s Value> {
        self.root.pointer(target.strip_prefix('#')?)
    }

    fn kind(&self, fields: &Map<String, Value>, value: &Value) -> Result<(), Misfit> {
        let kinds: Vec<&str> = match fields.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !kinds.is_empty() && !kinds.iter().any(|kind| is_of(value, kind)) {
            return self.misfit(format!("expected {}", kinds.join(" or ")));
        }
        if let Some(values) = fields.get("enum").and_then(Value::as_array)
            && !values.contains(value)
        {
            let known: Vec<String> = values.iter().take(20).map(Value::to_string).collect();
            return self.misfit(format!("expected one of {}", known.join(", ")));
        }
        match fields.get("const") {
            Some(only) if only != value => self.misfit(format!("expected {only}")),
            Some(_) | None => Ok(()),
        }
    }

    fn alternatives(
        &mut self,
        fields: &'s Map<String, Value>,
        value: &Value,
        depth: usize,
    ) -> Result<(), Misfit> {
        let list = |name: &str| fields.get(name).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.value(schema, value, depth)?;
        }
        for (name, least, most) in [("anyOf", 1, usize::MAX), ("oneOf", 1, 1)] {
            let Some(schemas) = list(name) else {
                continue;
            };
            let mut fitting = 0;
            for schema in schemas {
                let path = self.path.len();
                fitting += usize::from(self.value(schema, value, depth).is_ok());
                self.path.truncate(path);
            }
            if fitting < least || fitting > most {
                return self.misfit(format!("it fits {fitting} of the forms it may have"));
            }
        }
        if let Some(schema) = fields.get("not") {
            let path = self.path.len();
            let fits = self.value(schema, value, depth).is_ok();
            self.path.truncate(path);
            if fits {
                return self.misfit("it has a form it may not have");
            }
        }
        Ok(())
    }

    fn object(
        &mut self,
        fields: &'s Map<String, Value>,
        given: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), Misfit> {
        let required = fields.get("required").and_then(Value::as_array);
        let missing = |name: &&str| !given.contains_key(*name);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        if let Some(name) = required.find(missing) {
            return self.misfit(format!("`{}` is missing", shown(name)));
        }
        self.count(
            fields,
            given.len(),
            ["minProperties", "maxProperties"],
            "fields",
        )?;
        let known = fields.get("properties").and_then(Value::as_object);
        for (name, value) in given {
            let schema = known.and_then(|known| known.get(name));
            let schema = match (schema, fields.get("additionalProperties")) {
                (Some(schema), _) => schema,
                // Patterns of names are not followed, so nothing is said of those.
                (None, _) if fields.contains_key("patternProperties") => continue,
                (None, Some(Value::Bool(false))) => {
                    return self.misfit(format!("`{}` is not known", shown(name)));
                }
                (None, Some(others)) => others,
                (None, None) => continue,
            };
            self.path.push(shown(name));
            self.value(schema, value, depth)?;
            self.path.pop();
        }
        Ok(())
    }

    fn list(
        &mut self,
        fields: &'s Map<String, Value>,
        given: &[Value],
        depth: usize,
    ) -> Result<(), Misfit> {
        self.count(fields, given.len(), ["minItems", "maxItems"], "entries")?;
        let first = fields.get("prefixItems").and_then(Value::as_array);
        for (at, value) in given.iter().enumerate() {
            let schema = first.and_then(|first| first.get(at));
            if let Some(schema) = schema.or_else(|| fields.get("items")) {
                self.path.push(at.to_string());
                self.value(schema, value, depth)?;
                self.path.pop();
            }
        }
        Ok(())
    }

    fn text(&mut self, fields: &'s Map<String, Value>, text: &str) -> Result<(), Misfit> {
        let length = text.chars().count();
        self.count(fields, length, ["minLength", "maxLength"], "characters")?;
        let pattern = fields.get("pattern").and_then(Value::as_str);
        match pattern.filter(|pattern| pattern.len() <= PATTERN_BYTES) {
            Some(pattern) => self.pattern(pattern, text),
            None => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &'s str, text: &str) -> Result<(), Misfit> {
        let compiling = if self.patterns.contains_key(pattern) {
            0
        } else {
            COMPILING
        };
        let cost = compiling + text.len() / TRIED_BYTES;
        self.left = self.left.saturating_sub(cost);
        if self.left == 0 {
            return self.misfit(TOO_MUCH);
        }
        let compiled = self.patterns.entry(pattern);
        let compiled = compiled.or_insert_with(|| {
            let mut builder = RegexBuilder::new(pattern);
            builder.size_limit(COMPILED_BYTES);
            builder.dfa_size_limit(COMPILED_BYTES).build().ok()
        });
        match compiled {
            Some(regex) if !regex.is_match(text) => self.misfit("it does not match its pattern"),
            // One that is written in another dialect says nothing here.
            Some(_) | None => Ok(()),
        }
    }

    fn number(&self, fields: &Map<String, Value>, number: Option<f64>) -> Result<(), Misfit> {
        let Some(number) = number else {
            return Ok(());
        };
        let bound = |name: &str| fields.get(name).and_then(Value::as_f64);
        let outside = bound("minimum").is_some_and(|least| number < least)
            || bound("maximum").is_some_and(|most| number > most)
            || bound("exclusiveMinimum").is_some_and(|least| number <= least)
            || bound("exclusiveMaximum").is_some_and(|most| number >= most);
        if outside {
            return self.misfit("it is out of range");
        }
        Ok(())
    }

    fn count(
        &self,
        fields: &Map<String, Value>,
        count: usize,
        [least, most]: [&str; 2],
        of: &str,
    ) -> Result<(), Misfit> {
        let bound = |name: &str| fields.get(name).and_then(Value::as_u64);
        let count = count as u64;
        if bound(least).is_some_and(|least| count < least) {
            return self.misfit(format!("it has too few {of}"));
        }
        if bound(most).is_some_and(|most| count > most) {
            return self.misfit(format!("it has too many {of}"));
        }
        Ok(())
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => {
            let whole = |number: f64| number.fract() == 0.0;
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(whole)
        }
        // A kind nobody knows is no kind a value could have.
        _ => false,
    }
}

/// A name as it can be shown.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    #[expect(clippy::too_many_lines, reason = "it is one table")]
    fn arguments_fit_or_say_where_they_do_not() {
        let schema = json!({
            "type": "object",
            "required": ["text"],
            "additionalProperties": false,
            "properties": {
                "text": { "type": "string", "minLength": 1, "maxLength": 3 },
                "count": { "type": "integer", "minimum": 1, "exclusiveMaximum": 5 },
                "kind": { "enum": ["a", "b"] },
                "only": { "const": 7 },
                "list": { "type": "array", "items": { "$ref": "#/$defs/entry" }, "maxItems": 2 },
                "either": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
                "one": { "oneOf": [{ "type": "number" }, { "type": "integer" }] },
                "not": { "not": { "type": "string" } },
                "word": { "pattern": "^[a-z]+$" },
                "several": { "type": ["string", "null"] },
            },
            "$defs": { "entry": { "type": "object", "required": ["id"] } },
        });
        for (case, given, want) in [
            ("least", json!({ "text": "a" }), None),
            ("whole numbers", json!({ "text": "a", "count": 2.0 }), None),
            (
                "references",
                json!({ "text": "a", "list": [{ "id": 1 }] }),
                None,
            ),
            (
                "one of two",
                json!({ "text": "a", "one": 1.5, "either": null, "not": 1, "several": null }),
                None,
            ),
            ("no object", json!([]), Some(("", "object"))),
            ("missing", json!({}), Some(("", "`text` is missing"))),
            (
                "unknown",
                json!({ "text": "a", "x": 1 }),
                Some(("", "`x` is not known")),
            ),
            ("kind", json!({ "text": 1 }), Some(("text", "string"))),
            ("short", json!({ "text": "" }), Some(("text", "too few"))),
            ("characters, not bytes", json!({ "text": "äöü" }), None),
            (
                "long",
                json!({ "text": "abcd" }),
                Some(("text", "too many")),
            ),
            (
                "range",
                json!({ "text": "a", "count": 5 }),
                Some(("count", "range")),
            ),
            (
                "fraction",
                json!({ "text": "a", "count": 1.5 }),
                Some(("count", "integer")),
            ),
            (
                "enum",
                json!({ "text": "a", "kind": "c" }),
                Some(("kind", "one of")),
            ),
            (
                "const",
                json!({ "text": "a", "only": 8 }),
                Some(("only", "7")),
            ),
            (
                "in a list",
                json!({ "text": "a", "list": [{ "id": 1 }, {}] }),
                Some(("list.1", "`id`")),
            ),
            (
                "long list",
                json!({ "text": "a", "list": [{ "id": 1 }, { "id": 1 }, { "id": 1 }] }),
                Some(("list", "entries")),
            ),
            (
                "neither",
                json!({ "text": "a", "either": 1 }),
                Some(("either", "fits 0")),
            ),
            (
                "both",
                json!({ "text": "a", "one": 1 }),
                Some(("one", "fits 2")),
            ),
            (
                "not",
                json!({ "text": "a", "not": "x" }),
                Some(("not", "may not have")),
            ),
            (
                "pattern",
                json!({ "text": "a", "word": "A" }),
                Some(("word", "pattern")),
            ),
        ] {
            let got = check_arguments(&schema, &given);
            match (got, want) {
                (Ok(()), None) => {}
                (Err(misfit), Some((at, what))) => {
                    assert_eq!(misfit.at, at, "{case}: {misfit}");
                    assert!(misfit.what.contains(what), "{case}: {misfit}");
                }
                (got, _) => panic!("{case}: {got:?}"),
            }
        }
    }

    #[test]
    fn hostile_schemas_end() {
        let circle = json!({ "$ref": "#" });
        assert!(check_arguments(&circle, &json!({})).is_err());
        let wide = json!({ "anyOf": vec![json!({ "$ref": "#" }); 50] });
        assert!(check_arguments(&wide, &json!({})).is_err());
        for odd in [
            json!(null),
            json!(7),
            json!({ "type": 7, "required": 7, "properties": 7, "enum": 7, "$ref": "https://x/y" }),
            json!({ "pattern": "(?=x)" }),
            json!({ "unknown": { "deep": [] } }),
        ] {
            assert_eq!(check_arguments(&odd, &json!({ "a": "b" })), Ok(()), "{odd}");
        }
        assert!(check_arguments(&json!(false), &json!({})).is_err());
        assert_eq!(
            check_arguments(&json!({ "pattern": r"^\w+$" }), &json!("ab")),
            Ok(())
        );
        assert!(check_arguments(&json!({ "pattern": r"^\w+$" }), &json!("a b")).is_err());
        assert!(check_arguments(&json!({ "type": "integr" }), &json!(1)).is_err());
    }

    #[test]
    fn patterns_that_take_long_to_compile_end_soon() {
        let begun = std::time::Instant::now();
        let text = json!("a".repeat(300));
        let refer = json!({ "$ref": "#/$defs/long" });
        let same = json!({
            "$defs": { "long": { "pattern": r"\w{300}" } },
            "allOf": vec![refer; 2_000],
        });
        // It is one pattern, looked at once.
        assert_eq!(check_arguments(&same, &text), Ok(()));
        let pattern = |n: usize| json!({ "pattern": format!(r"\w{{300}}{{1,{n}}}") });
        let many: Vec<Value> = (1..2_000).map(pattern).collect();
        for schema in [
            json!({ "allOf": many }),
            json!({ "not": { "allOf": many } }),
        ] {
            let misfit = check_arguments(&schema, &text).unwrap_err();
            assert_eq!(misfit.what, TOO_MUCH);
        }
        // Nor are long texts tried again and again.
        let short = json!({ "$ref": "#/$defs/short" });
        let again = json!({
            "$defs": { "short": { "pattern": "c$" } },
            "allOf": vec![short; 2_000],
        });
        assert!(check_arguments(&again, &json!("c".repeat(100_000))).is_err());
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
