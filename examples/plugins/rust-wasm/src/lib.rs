//! Text tools: pure ones, and one that asks the kernel for a file.

use airlock_sdk::{Context, Level, Plugin, Tool, ToolError};
use serde_json::{Value, json};

/// The plugin.
pub struct Text;

airlock_sdk::export!(Text);

impl Plugin for Text {
    fn tools(&self) -> Vec<Tool> {
        let takes = |name: &str| {
            json!({
                "type": "object",
                "properties": { name: { "type": "string" } },
                "required": [name],
                "additionalProperties": false,
            })
        };
        vec![
            Tool::new("count", "Count lines, words and characters of a text")
                .with_schema(takes("text"))
                .read_only(),
            Tool::new("slug", "Make a text fit for a file name or an address")
                .with_schema(takes("text"))
                .read_only(),
            Tool::new("count-file", "Count lines, words and characters of a file")
                .with_schema(takes("path"))
                .read_only(),
        ]
    }

    fn call(
        &self,
        context: &Context<'_>,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, ToolError> {
        match tool {
            "count" => Ok(count(argument(arguments, "text")?)),
            "slug" => Ok(json!(slug(argument(arguments, "text")?))),
            "count-file" => {
                let path = argument(arguments, "path")?;
                context.log(Level::Info, &format!("reading {path}"));
                Ok(count(&context.read(path)?))
            }
            other => Err(ToolError::unknown(other)),
        }
    }
}

fn argument<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, ToolError> {
    let text = arguments.get(name).and_then(Value::as_str);
    text.ok_or_else(|| ToolError::new(format!("`{name}` is missing")))
}

fn count(text: &str) -> Value {
    json!({
        "lines": text.lines().count(),
        "words": text.split_whitespace().count(),
        "characters": text.chars().count(),
    })
}

fn slug(text: &str) -> String {
    let words = text.split(|char: char| !char.is_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_sdk::testing::Fake;

    #[test]
    fn pure_tools_ask_nobody() {
        let fake = Fake::new();
        let call = |tool, text: &str| fake.call(&Text, tool, &json!({ "text": text }));
        assert_eq!(
            call("count", "one two\nthree\n"),
            Ok(json!({ "lines": 2, "words": 3, "characters": 14 }))
        );
        assert_eq!(call("slug", " Grüße, World! "), Ok(json!("grüße-world")));
        assert!(fake.calls().is_empty());
    }

    #[test]
    fn a_file_is_read_by_the_kernel_or_not_at_all() {
        let path = json!({ "path": "a.txt" });
        let denied = Fake::new().call(&Text, "count-file", &path);
        assert!(denied.is_err());
        let fake = Fake::new().answering("fs.read", |_| Ok(json!({ "text": "a b" })));
        let counted = fake.call(&Text, "count-file", &path).unwrap();
        assert_eq!(counted["words"], 2);
        assert_eq!(fake.calls(), [("fs.read".to_owned(), path)]);
    }
}
