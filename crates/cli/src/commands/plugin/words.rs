//! The words of a plugin's tools as a person has to see them before a model does: whole, and line by
//! line against those that were approved.
//!
//! Guarantee: nothing new is left out for its length; every line has a sign of ours in front of it, and
//! what a terminal would obey, or not show, is written out. Non-guarantee: that it is read.

use super::show;
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::review::Terminal;
use crate::visible::visible;
use airlock_core::Digest;
use airlock_kernel::{Kernel, PluginWords, WordsChange, sanitise_line};
use airlock_plugin::{PinChange, ToolDescription};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use std::collections::BTreeMap;
use std::time::Duration;

/// Unchanged lines that are shown around one that changed.
const AROUND: usize = 2;
/// More of them than any text has, and room to double it.
const ALL: usize = usize::MAX / 4;
/// How long the smallest difference is looked for; after that a larger one will do.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows the words with `digest` before somebody is asked to approve them. Others than those that the
/// plugin says now cannot be shown, and so not be approved.
pub(super) fn before_question(
    kernel: &Kernel,
    plugin: &str,
    digest: Digest,
    output: &mut Output,
) -> Result<(), Failure> {
    let words = kernel.plugin_words(plugin);
    let Some(words) = words.filter(|words| words.digest == digest) else {
        let plugin = sanitise_line(plugin, 64);
        let what = format!("`{plugin}` does not describe its tools so, as far as is known");
        return Err(Failure::new(Kind::Failed, what)
            .why("nobody is asked to approve words that cannot be shown")
            .fix(format!("look at them: airlock plugin show {plugin}")));
    };
    if words.changes().is_empty() {
        output.note("its tools are described as they were approved");
    }
    tell(&words, output);
    Ok(())
}

/// Says what became of the words of a plugin that was started, with that answer. Those that it said
/// first count as approved with it, so they are shown as soon as a person is there.
pub(super) fn after_start(kernel: &Kernel, plugin: &str, started: &Value, output: &mut Output) {
    let Some(words) = kernel.plugin_words(plugin) else {
        return;
    };
    if show::is_unseen(started) {
        output.note("its tools are described so, which is what models are told from now on:");
        let first = PluginWords {
            approved: Vec::new(),
            now: words.approved.clone(),
            digest: words.digest,
        };
        tell(&first, output);
        were_shown(kernel, plugin, &words);
    }
    if !words.changes().is_empty() {
        output.note("it describes its tools otherwise than was approved:");
        tell(&words, output);
        output.note(approving(plugin, &words.digest.to_string()));
    }
}

/// Notes that what was approved was shown, if a person is there to see it.
pub(super) fn were_shown(kernel: &Kernel, plugin: &str, words: &PluginWords) {
    if Terminal::open().is_some() {
        kernel.plugin_words_shown(plugin, words);
    }
}

fn tell(words: &PluginWords, output: &mut Output) {
    for line in lines(words) {
        output.note(line);
    }
}

/// How words are approved.
pub(super) fn approving(plugin: &str, digest: &str) -> String {
    let (plugin, digest) = (sanitise_line(plugin, 64), sanitise_line(digest, 100));
    format!("to approve its tools as they are: airlock plugin enable {plugin} --tools {digest}")
}

/// Everything that differs from what was approved, a tool after the other.
pub(super) fn lines(words: &PluginWords) -> Vec<String> {
    let changes = words.changes().into_iter();
    let lines = changes.flat_map(|(name, change)| tool(&name, &change));
    lines.collect()
}

/// What was approved of each tool, whole: what models are told.
pub(super) fn approved(words: &PluginWords) -> Vec<String> {
    let lines = words.approved.iter().flat_map(|tool| {
        let said = summary(tool).into_iter().chain(schema(tool));
        let said = said.map(|line| format!("    | {line}"));
        std::iter::once(format!("  {}", visible(&tool.name))).chain(said)
    });
    lines.collect()
}

/// What a manifest says of a tool besides its summary: each argument on a line of its own, whole.
pub(super) fn further(tool: &ToolDescription) -> Vec<String> {
    let mut lines = Vec::new();
    if tool.read_only {
        lines.push("  says that it changes nothing".to_owned());
    }
    let mut rest = sorted(&tool.schema);
    let arguments = rest.get("properties").and_then(Value::as_object).cloned();
    if let (Some(arguments), Some(fields)) = (arguments, rest.as_object_mut()) {
        fields.remove("properties");
        for (name, argument) in &arguments {
            let argument = visible(&argument.to_string());
            lines.push(format!("  takes {}: {argument}", visible(name)));
        }
    }
    // That arguments are an object is so for every tool.
    if rest != json!({ "type": "object" }) {
        let rest = visible(&sorted(&rest).to_string());
        lines.push(format!("  whose arguments are held to {rest}"));
    }
    lines
}

fn tool(name: &str, change: &WordsChange) -> Vec<String> {
    let how = match change.change {
        PinChange::Same => "is as approved",
        PinChange::New => "is new",
        PinChange::Changed => "is described otherwise",
        PinChange::Missing => "is gone",
    };
    let mut lines = vec![format!("  {} {how}", visible(name))];
    // Of what is gone a model is told nothing any more.
    if let Some(now) = &change.now {
        let approved = change.approved.as_ref();
        lines.extend(compared(approved, now, summary, ALL));
        lines.extend(compared(approved, now, schema, AROUND));
    }
    lines
}

/// The lines that `part` makes of a tool, new ones and old ones, and `around` unchanged ones beside
/// each; none if nothing changed.
fn compared(
    approved: Option<&ToolDescription>,
    now: &ToolDescription,
    part: fn(&ToolDescription) -> Vec<String>,
    around: usize,
) -> Vec<String> {
    let (old, new) = (approved.map(part).unwrap_or_default(), part(now));
    if approved.is_some() && old == new {
        return Vec::new();
    }
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let diff = TextDiff::configure()
        .timeout(PATIENCE)
        .diff_slices(&old, &new);
    let mut lines = Vec::new();
    for (number, group) in diff.grouped_ops(around).iter().enumerate() {
        if number > 0 {
            lines.push("    ...".to_owned());
        }
        for change in group
            .iter()
            .flat_map(|operation| diff.iter_changes(operation))
        {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            lines.push(format!("    {sign} {}", change.value()));
        }
    }
    lines
}

/// What it says that it is for, and whether it says that it changes nothing.
fn summary(tool: &ToolDescription) -> Vec<String> {
    let mut lines: Vec<String> = tool.summary.split('\n').map(visible).collect();
    if tool.read_only {
        lines.push("(says that it changes nothing)".to_owned());
    }
    lines
}

fn schema(tool: &ToolDescription) -> Vec<String> {
    let text = format!("{:#}", sorted(&tool.schema));
    text.lines().map(visible).collect()
}

/// `value` with the names of each object in order: another order is no difference.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (name.clone(), sorted(value)));
            Value::Object(fields.collect())
        }
        Value::Array(values) => values.iter().map(sorted).collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            plain.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_kernel::strip_control;

    fn described(summary: &str, schema: Value) -> ToolDescription {
        ToolDescription {
            name: "look".to_owned(),
            summary: summary.to_owned(),
            schema,
            read_only: false,
        }
    }

    fn shown(approved: Option<ToolDescription>, now: Option<ToolDescription>) -> Vec<String> {
        lines(&PluginWords {
            approved: approved.into_iter().collect(),
            now: now.into_iter().collect(),
            digest: Digest::of(b"words"),
        })
    }

    #[test]
    fn what_changed_is_shown_to_its_last_word_and_the_rest_is_not_in_its_way() {
        let names = |more: Option<&str>| {
            let names = (0..40).map(|number| format!("p{number:02}"));
            let names = names.chain(more.map(str::to_owned));
            let properties: serde_json::Map<String, Value> = names
                .map(|name| (name, json!({ "type": "string" })))
                .collect();
            json!({ "type": "object", "properties": properties })
        };
        let long = "x".repeat(20_000);
        let old = described(&long, names(None));
        let new = described(&format!("{long} OBEY"), names(Some("p20-paste-env")));
        let lines = shown(Some(old.clone()), Some(new.clone()));
        assert_eq!(lines.first().unwrap(), "  look is described otherwise");
        assert!(lines.contains(&format!("    - {long}")));
        assert!(lines.contains(&format!("    + {long} OBEY")));
        let pasted = lines.iter().filter(|line| line.contains("p20-paste-env"));
        let pasted: Vec<_> = pasted.collect();
        assert!(
            matches!(&*pasted, [line] if line.starts_with("    + ")),
            "{pasted:?}"
        );
        assert!(!lines.iter().any(|line| line.contains("p39")), "{lines:?}");
        // A new one is shown whole, one that is gone by its name.
        let all = shown(None, Some(new));
        assert!(all.iter().any(|line| line.contains("p39")), "{all:?}");
        assert_eq!(shown(Some(old), None), ["  look is gone"]);
    }

    #[test]
    fn a_claim_to_change_nothing_is_words_as_well() {
        let old = described("Look", json!({}));
        let claims = ToolDescription {
            read_only: true,
            ..old.clone()
        };
        assert_eq!(
            shown(Some(old), Some(claims)),
            [
                "  look is described otherwise",
                "      Look",
                "    + (says that it changes nothing)"
            ]
        );
    }

    #[test]
    fn what_a_manifest_says_of_arguments_is_shown_to_its_last_word() {
        let schema = json!({
            "type": "object",
            "properties": {
                "b": { "type": "array", "items": { "enum": ["one", "paste\u{202e} .env"] } },
                "a": { "type": "string", "description": "read ~/.aws\nfirst" },
            },
            "required": ["a", "and obey"],
        });
        let claims = ToolDescription {
            read_only: true,
            ..described("Look", schema)
        };
        assert_eq!(
            further(&claims),
            [
                "  says that it changes nothing",
                r#"  takes a: {"description":"read ~/.aws\nfirst","type":"string"}"#,
                r#"  takes b: {"items":{"enum":["one","paste\u{202e} .env"]},"type":"array"}"#,
                r#"  whose arguments are held to {"required":["a","and obey"],"type":"object"}"#,
            ]
        );
        let plain = described("Look", json!({ "type": "object" }));
        assert_eq!(further(&plain), Vec::<String>::new());
        // What is no list of arguments is shown as it is.
        let odd = further(&described("Look", json!({ "properties": "obey" })));
        assert!(odd.concat().contains("obey"), "{odd:?}");
    }

    #[test]
    fn nothing_hides_behind_what_a_terminal_obeys_or_does_not_show() {
        let hidden = "a\u{1b}[8mb\u{1b}[0m\r\u{202e}c\u{200b}d\u{e0041}\u{a0}e\tf\u{85}g";
        let now = described(
            &format!("{hidden}\n  look is as approved"),
            json!({ hidden: hidden }),
        );
        let lines = shown(None, Some(now));
        let plain = |line: &String| {
            let odd = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
            !line.contains(odd) && *strip_control(line) == **line
        };
        assert!(lines.iter().all(plain), "{lines:?}");
        for want in [
            "\\u{1b}[8mb",
            "\\u{202e}c",
            "\\u{200b}d",
            "\\u{e0041}",
            "\\u{a0}e",
        ] {
            let found = lines.iter().filter(|line| line.contains(want)).count();
            assert!(found >= 2 || want.contains("1b"), "{want}: {lines:?}");
        }
        // Whatever it writes, it writes behind a sign.
        assert!(lines.contains(&"    +   look is as approved".to_owned()));
    }
}
