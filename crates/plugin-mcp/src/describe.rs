//! What a server says its tools are, page by page. Pure.
//!
//! Bounded in pages, tools, names and sizes; a list that breaks a bound is no list, since leaving
//! tools out in silence would hide them from whoever approves the rest.

use airlock_plugin::{ToolDescription, is_tool_name};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Most pages of a list.
const PAGES: usize = 64;
/// Most tools of a server.
const TOOLS: usize = 512;
/// Longest description of a tool.
const SUMMARY_BYTES: usize = 16 * 1024;
/// Longest schema of a tool, as text.
const SCHEMA_BYTES: usize = 64 * 1024;
/// Longest word for the next page.
const CURSOR_BYTES: usize = 1024;

/// A list in the making.
#[derive(Debug, Default)]
pub(crate) struct ToolList {
    tools: Vec<ToolDescription>,
    names: BTreeSet<String>,
    cursors: BTreeSet<String>,
    pages: usize,
}

impl ToolList {
    /// Takes a page in. Gives the parameters of the request for the next one, if there is one.
    pub(crate) fn page(&mut self, result: &Value) -> Result<Option<Value>, String> {
        self.pages += 1;
        if self.pages > PAGES {
            return Err(format!("its list of tools has more than {PAGES} pages"));
        }
        let tools = result.get("tools").and_then(Value::as_array);
        for tool in tools.ok_or("its list of tools is no list")? {
            self.take(tool)?;
        }
        let Some(cursor) = result.get("nextCursor").filter(|cursor| !cursor.is_null()) else {
            return Ok(None);
        };
        let cursor = cursor
            .as_str()
            .filter(|cursor| cursor.len() <= CURSOR_BYTES);
        let cursor = cursor.ok_or("its word for the next page of tools is none")?;
        if !self.cursors.insert(cursor.to_owned()) {
            return Err("its list of tools goes round in circles".to_owned());
        }
        Ok(Some(json!({ "cursor": cursor })))
    }

    /// The tools, in the order the server gave them.
    pub(crate) fn finish(self) -> Vec<ToolDescription> {
        self.tools
    }

    fn take(&mut self, tool: &Value) -> Result<(), String> {
        if self.tools.len() >= TOOLS {
            return Err(format!("it has more than {TOOLS} tools"));
        }
        let tool = describe(tool)?;
        if !self.names.insert(tool.name.clone()) {
            return Err(format!("two of its tools are called `{}`", tool.name));
        }
        self.tools.push(tool);
        Ok(())
    }
}

fn describe(tool: &Value) -> Result<ToolDescription, String> {
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    if !is_tool_name(name) {
        let shown: String = name.chars().take(40).filter(|c| !c.is_control()).collect();
        return Err(format!("`{shown}` is no name for a tool"));
    }
    let summary = match tool.get("description") {
        None | Some(Value::Null) => "",
        Some(text) => text
            .as_str()
            .filter(|text| text.len() <= SUMMARY_BYTES)
            .ok_or_else(|| format!("the description of `{name}` is too long or no text"))?,
    };
    let schema = tool.get("inputSchema").filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| format!("`{name}` has no schema"))?;
    if schema.to_string().len() > SCHEMA_BYTES {
        return Err(format!("the schema of `{name}` is too long"));
    }
    let hints = tool.get("annotations");
    Ok(ToolDescription {
        name: name.to_owned(),
        summary: summary.to_owned(),
        schema: schema.clone(),
        read_only: hints.and_then(|hints| hints.get("readOnlyHint")) == Some(&Value::Bool(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Value {
        json!({ "name": name, "description": "d", "inputSchema": { "type": "object" } })
    }

    fn refused(pages: &[Value]) -> String {
        let mut list = ToolList::default();
        for page in pages {
            match list.page(page) {
                Err(why) => return why,
                Ok(None) => return "taken".to_owned(),
                Ok(Some(_)) => {}
            }
        }
        "goes on".to_owned()
    }

    #[test]
    fn pages_are_put_together_in_order() {
        let mut list = ToolList::default();
        let first = json!({ "tools": [tool("b")], "nextCursor": "2" });
        assert_eq!(list.page(&first), Ok(Some(json!({ "cursor": "2" }))));
        let second = json!({ "tools": [{
            "name": "a_x-1", "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true },
        }], "nextCursor": null });
        assert_eq!(list.page(&second), Ok(None));
        let tools = list.finish();
        let told: Vec<_> = tools
            .iter()
            .map(|t| (&*t.name, &*t.summary, t.read_only))
            .collect();
        assert_eq!(told, [("b", "d", false), ("a_x-1", "", true)]);
    }

    #[test]
    fn lists_that_break_a_bound_are_none() {
        let endless: Vec<Value> = (0..PAGES + 2)
            .map(|page| json!({ "tools": [], "nextCursor": page.to_string() }))
            .collect();
        let circle = json!({ "tools": [], "nextCursor": "c" });
        let many: Vec<Value> = (0..=TOOLS)
            .map(|number| tool(&format!("t{number}")))
            .collect();
        let long = "x".repeat(SCHEMA_BYTES);
        for (case, pages, want) in [
            ("pages", endless, "pages"),
            ("circle", vec![circle.clone(), circle], "circles"),
            (
                "tools",
                vec![json!({ "tools": many })],
                "more than 512 tools",
            ),
            (
                "twice",
                vec![json!({ "tools": [tool("a"), tool("a")] })],
                "two of its tools",
            ),
            ("no list", vec![json!({ "tools": "a" })], "no list"),
            ("nothing", vec![json!(null)], "no list"),
            (
                "cursor",
                vec![json!({ "tools": [], "nextCursor": 7 })],
                "next page",
            ),
            (
                "no schema",
                vec![json!({ "tools": [{ "name": "a" }] })],
                "no schema",
            ),
            (
                "schema",
                vec![json!({ "tools": [{ "name": "a", "inputSchema": { "d": long } }] })],
                "too long",
            ),
            (
                "words",
                vec![json!({ "tools": [{ "name": "a", "description": 1, "inputSchema": {} }] })],
                "no text",
            ),
        ] {
            assert!(
                refused(&pages).contains(want),
                "{case}: {}",
                refused(&pages)
            );
        }
        for name in [
            "",
            "a b",
            "a/b",
            "a.b",
            ".a",
            "a.",
            "a\u{1b}[2J",
            "ä",
            "a*",
            &"a".repeat(65),
        ] {
            let page = json!({ "tools": [tool(name)] });
            assert!(refused(&[page]).contains("no name"), "{name:?}");
        }
    }
}
