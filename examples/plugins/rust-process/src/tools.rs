//! Tools about files of the workspace. The kernel decides on every file they ask for.

use airlock_sdk::{About, Context, Level, Plugin, Tool, ToolError};
use serde_json::{Value, json};
use std::io::Write as _;
use std::sync::OnceLock;

/// Lines that are shown where the configuration does not say.
const LONGEST: u64 = 3;

/// The plugin. Calls come from several threads, so what it keeps is shared.
#[derive(Default)]
pub(crate) struct Files {
    longest: OnceLock<usize>,
}

// A Wasm module of the same source, if this is built as one.
airlock_sdk::export!(Files::default());

impl Plugin for Files {
    fn tools(&self) -> Vec<Tool> {
        let path = || json!({ "path": { "type": "string", "description": "the file" } });
        let takes = |properties: Value, required: &[&str]| {
            json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            })
        };
        vec![
            Tool::new("longest-lines", "Show the longest lines of a file")
                .with_schema(takes(path(), &["path"]))
                .read_only(),
            Tool::new("copy", "Copy a file into the stage").with_schema(takes(
                json!({ "from": { "type": "string" }, "to": { "type": "string" } }),
                &["from", "to"],
            )),
            Tool::new("wait-for", "Wait until a file is there")
                .with_schema(takes(path(), &["path"]))
                .read_only(),
            Tool::new("where", "Say where the plugin runs").read_only(),
        ]
    }

    fn start(&self, about: &About) -> Result<(), ToolError> {
        let longest = match about.configuration.get("longest") {
            None => LONGEST,
            Some(number) => number
                .as_u64()
                .filter(|number| *number > 0)
                .ok_or_else(|| ToolError::new("`longest` is no number of lines"))?,
        };
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        self.longest.get_or_init(|| longest);
        // What a plugin prints is kept, and `airlock plugin show` has it.
        let _printed = writeln!(std::io::stdout(), "up to {longest} lines are shown");
        Ok(())
    }

    fn call(
        &self,
        context: &Context<'_>,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, ToolError> {
        match tool {
            "longest-lines" => self.longest_lines(context, text(arguments, "path")?),
            "copy" => copy(context, text(arguments, "from")?, text(arguments, "to")?),
            "wait-for" => wait_for(context, text(arguments, "path")?),
            "where" => Ok(place(context)),
            other => Err(ToolError::unknown(other)),
        }
    }
}

fn text<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, ToolError> {
    let text = arguments.get(name).and_then(Value::as_str);
    text.ok_or_else(|| ToolError::new(format!("`{name}` is missing")))
}

impl Files {
    /// Streams them, so that whoever waits sees them come.
    fn longest_lines(&self, context: &Context<'_>, path: &str) -> Result<Value, ToolError> {
        let read = context.read(path)?;
        let mut lines: Vec<&str> = read.lines().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.chars().count()));
        let most = self.longest.get().copied().unwrap_or(1);
        let mut shown = 0;
        for line in lines.into_iter().take(most) {
            if !context.emit(&format!("{line}\n")) {
                break;
            }
            shown += 1;
        }
        Ok(json!({ "shown": shown }))
    }
}

fn copy(context: &Context<'_>, from: &str, to: &str) -> Result<Value, ToolError> {
    let read = context.read(from)?;
    context.write(to, &read)?;
    context.log(Level::Info, &format!("copied {from}"));
    Ok(json!({ "bytes": read.len() }))
}

/// Looks again and again, for as long as anybody wants to know.
fn wait_for(context: &Context<'_>, path: &str) -> Result<Value, ToolError> {
    let mut looked = 0_u64;
    while !context.exists(path)? {
        looked += 1;
        if !context.emit(".") {
            context.log(Level::Info, "nobody waits any more");
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(json!({ "looked": looked }))
}

fn place(context: &Context<'_>) -> Value {
    let about = context.about();
    json!({
        "plugin": about.plugin,
        "sandbox": about.sandbox,
        "session": about.session,
        "mode": about.mode,
        "data": about.data,
        "home": context.variable("HOME"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_sdk::testing::Fake;

    fn files() -> Fake {
        Fake::new().answering("fs.read", |_| Ok(json!({ "text": "aa\nb\ncccc\nddd\n" })))
    }

    fn configured(configuration: Value) -> Result<Files, ToolError> {
        let about = About {
            configuration,
            ..About::default()
        };
        let plugin = Files::default();
        plugin.start(&about).map(|()| plugin)
    }

    #[test]
    fn as_many_lines_are_shown_as_the_configuration_says() {
        let path = json!({ "path": "x" });
        for (configuration, wanted) in [
            (json!({}), "cccc\nddd\naa\n"),
            (json!({ "longest": 1 }), "cccc\n"),
        ] {
            let (fake, plugin) = (files(), configured(configuration).unwrap());
            fake.call(&plugin, "longest-lines", &path).unwrap();
            assert_eq!(fake.output(), wanted);
        }
        assert!(configured(json!({ "longest": "many" })).is_err());
    }

    #[test]
    fn nothing_is_shown_to_nobody() {
        let fake = files();
        fake.cancel();
        let shown = fake.call(&Files::default(), "longest-lines", &json!({ "path": "x" }));
        assert_eq!(shown, Ok(json!({ "shown": 0 })));
    }

    #[test]
    fn a_file_is_copied_by_the_kernel_or_not_at_all() {
        let paths = json!({ "from": "a", "to": "b" });
        let fake = files();
        let denied = fake.call(&Files::default(), "copy", &paths);
        assert!(denied.is_err());
        let fake = files().answering("fs.write", |_| Ok(json!({})));
        let copied = fake.call(&Files::default(), "copy", &paths);
        assert_eq!(copied, Ok(json!({ "bytes": 14 })));
        let names: Vec<String> = fake.calls().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["fs.read", "fs.write"]);
    }
}
