//! What a model is told about tools, within a budget.
//!
//! Names and one-line summaries are always told. Schemas are told in full while there is room; then
//! the costliest lose their explanations, then their fields, until the rest fits. What each form
//! costs is counted once, when tools are registered.

use crate::hands::Tool;
use airlock_model::{Counter, ToolDefinition};
use airlock_sanitise::sanitise_line;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The longest summary: one line.
const SUMMARY: usize = 160;
/// Tokens that every tool takes besides its text, as questions are counted.
const AROUND: u64 = 8;

/// How much of a tool is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// All of its schema.
    Full,
    /// The schema without explanations.
    Lean,
    /// Only that it takes an object.
    Bare,
}

#[derive(Debug, Clone)]
struct Entry {
    /// One definition a form, and what it costs.
    forms: [(ToolDefinition, u64); 3],
}

impl Entry {
    fn form(&self, form: Form) -> &(ToolDefinition, u64) {
        let [full, lean, bare] = &self.forms;
        match form {
            Form::Full => full,
            Form::Lean => lean,
            Form::Bare => bare,
        }
    }
}

/// The tools of a session.
#[derive(Debug, Clone)]
pub struct Catalogue {
    tools: Vec<Tool>,
    entries: Vec<Entry>,
}

impl Catalogue {
    /// Registers `tools`, and counts what they cost.
    pub fn new(tools: Vec<Tool>, counter: Counter) -> Self {
        let entries = tools.iter().map(|tool| entry(tool, counter)).collect();
        Self { tools, entries }
    }

    /// The tools themselves.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The tool called `name`.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// As much of all tools as `budget` tokens hold, and what that costs.
    pub fn within(&self, budget: u64) -> (Vec<ToolDefinition>, u64) {
        let mut forms: Vec<Form> = vec![Form::Full; self.entries.len()];
        let mut left: Vec<bool> = vec![true; self.entries.len()];
        loop {
            let chosen = || {
                let entries = self.entries.iter().zip(&forms).zip(&left);
                entries
                    .enumerate()
                    .filter(|(_, (_, left))| **left)
                    .map(|(at, ((entry, form), _))| (at, *form, entry.form(*form)))
            };
            let total: u64 = chosen().map(|(_, _, (_, cost))| cost).sum();
            if total <= budget {
                let definitions = chosen().map(|(_, _, (definition, _))| definition.clone());
                return (definitions.collect(), total);
            }
            // The costliest first; a tool is left out only when nothing of any can be shortened.
            let costliest = chosen()
                .max_by_key(|(at, form, (_, cost))| (*form != Form::Bare, *cost, Reverse(*at)));
            match costliest.map(|(at, form, _)| (at, form)) {
                Some((at, Form::Full)) => set(&mut forms, at, Form::Lean),
                Some((at, Form::Lean)) => set(&mut forms, at, Form::Bare),
                Some((at, Form::Bare)) => set(&mut left, at, false),
                None => return (Vec::new(), 0),
            }
        }
    }
}

fn set<T>(all: &mut [T], at: usize, value: T) {
    if let Some(one) = all.get_mut(at) {
        *one = value;
    }
}

fn entry(tool: &Tool, counter: Counter) -> Entry {
    let summary = sanitise_line(&tool.summary, SUMMARY);
    let of = |schema: Value| {
        let definition = ToolDefinition {
            name: tool.name.clone(),
            description: summary.clone(),
            schema,
        };
        let cost = counter.count(&definition.name)
            + counter.count(&definition.description)
            + counter.count(&definition.schema.to_string())
            + AROUND;
        (definition, cost)
    };
    let mut full = tool.schema.clone();
    without(&mut full, &["$schema", "title"]);
    let mut lean = full.clone();
    without(
        &mut lean,
        &[
            "description",
            "examples",
            "default",
            "format",
            "minimum",
            "maximum",
        ],
    );
    let bare = json!({ "type": "object" });
    Entry {
        forms: [of(full), of(lean), of(bare)],
    }
}

/// Takes annotations out of a schema, but no property that happens to be called like one.
fn without(schema: &mut Value, names: &[&str]) {
    match schema {
        Value::Object(object) => {
            object.retain(|name, _| !names.contains(&name.as_str()));
            for (name, value) in object.iter_mut() {
                if matches!(name.as_str(), "properties" | "$defs" | "definitions")
                    && let Value::Object(members) = value
                {
                    members
                        .values_mut()
                        .for_each(|member| without(member, names));
                } else if !matches!(name.as_str(), "enum" | "const" | "required") {
                    without(value, names);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tool(name: &str, explained: usize) -> Tool {
        Tool {
            name: name.to_owned(),
            summary: format!("does {name}"),
            schema: json!({ "title": "T", "type": "object", "properties": {
                "title": { "type": "string", "description": "x".repeat(explained) },
            } }),
            read_only: true,
        }
    }

    #[test]
    fn the_costliest_are_shortened_first_and_all_are_named() {
        let tools = vec![tool("small", 10), tool("big", 9_000), tool("middle", 900)];
        let catalogue = Catalogue::new(tools, Counter::ESTIMATE);
        let (all, cost) = catalogue.within(3_000);
        assert!(cost <= 3_000);
        assert_eq!(all.len(), 3);
        let described = |at: usize| all[at].schema.to_string().contains("xxx");
        assert_eq!(
            (described(0), described(1), described(2)),
            (true, false, true)
        );
        // A property called like an annotation is none.
        assert!(all[1].schema["properties"]["title"].is_object());
        assert_eq!(all[1].schema.get("title"), None);
        let (all, _) = catalogue.within(150);
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|tool| tool.description.starts_with("does ")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn no_set_of_tools_goes_over(sizes in proptest::collection::vec(0_usize..2_000, 0..30), budget in 0_u64..4_000) {
            let tools = sizes.iter().enumerate().map(|(n, size)| tool(&format!("t{n}"), *size));
            let catalogue = Catalogue::new(tools.collect(), Counter::ESTIMATE);
            let (definitions, cost) = catalogue.within(budget);
            prop_assert!(cost <= budget);
            let counted: u64 = definitions.iter().map(|one| {
                let counter = Counter::ESTIMATE;
                counter.count(&one.name) + counter.count(&one.description) + counter.count(&one.schema.to_string()) + AROUND
            }).sum();
            prop_assert_eq!(counted, cost);
        }
    }
}
