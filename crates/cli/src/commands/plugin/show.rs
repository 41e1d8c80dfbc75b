//! Plugins as text. What a plugin says of itself is untrusted, so every word of it is cleaned.

use super::words;
use crate::output::{Output, Tone, styled};
use airlock_core::Effect;
use airlock_kernel::{PluginWords, sanitise_line};
use airlock_plugin::{Manifest, Tier};
use airlock_sanitise::sanitise_path;
use serde_json::{Value, json};

fn text(value: &Value, name: &str) -> String {
    let text = value.get(name).and_then(Value::as_str);
    sanitise_line(text.unwrap_or_default(), 200)
}

pub(super) fn texts(value: &Value, name: &str) -> Vec<String> {
    let list = value.get(name).and_then(Value::as_array);
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(|text| sanitise_line(text, 200)).collect()
}

/// The lists of an answer to `plugin.list`, the first or a further one.
pub(super) fn list(
    found: &Value,
    (tag, rejected): (Option<&str>, bool),
    is_first: bool,
    output: &mut Output,
) {
    let key = if rejected { "rejected" } else { "plugins" };
    let entries = found.get(key).and_then(Value::as_array);
    let entries: Vec<&Value> = entries.into_iter().flatten().collect();
    if entries.is_empty() && is_first && !output.is_json() {
        output.note(match (rejected, tag) {
            (true, _) => "nothing was rejected".to_owned(),
            (false, Some(tag)) => format!(
                "no plugin has the tag `{}`: `airlock plugin list` shows all with theirs",
                sanitise_line(tag, 64)
            ),
            (false, None) => {
                "there is no plugin: `airlock plugin install PATH` brings one in".to_owned()
            }
        });
    }
    for entry in entries {
        if output.is_json() {
            output.json(entry);
        } else if rejected {
            output.line(format!(
                "{}: {}",
                text(entry, "path"),
                text(entry, "reason")
            ));
        } else {
            output.line(line(entry));
        }
    }
}

fn line(plugin: &Value) -> String {
    let disabled = plugin.get("disabled").and_then(Value::as_bool) == Some(true);
    let state = if disabled {
        "disabled".to_owned()
    } else {
        text(plugin, "state")
    };
    let tone = match state.as_str() {
        "running" => Tone::Good,
        "error" => Tone::Bad,
        _ => Tone::Label,
    };
    let name = styled(Tone::Heading, &format!("{:<20}", text(plugin, "name")));
    let state = styled(tone, &format!("{state:<10}"));
    let mut line = format!(
        "{name}  {state}  {:<8}  {:<8}  {:<7}  {}",
        text(plugin, "version"),
        text(plugin, "type"),
        text(plugin, "tier"),
        texts(plugin, "tags").join(" "),
    );
    let warnings = texts(plugin, "warnings").len();
    if warnings > 0 {
        let warnings = crate::output::count(warnings as u64, "warning");
        line = format!("{}  [{warnings}: airlock plugin show]", line.trim_end());
    }
    if is_unseen(plugin) {
        line = format!(
            "{}  [its tools' words were not seen by a person yet: airlock plugin show]",
            line.trim_end()
        );
    }
    let problem = text(plugin, "problem");
    if !problem.is_empty() {
        line = format!("{}  ({problem})", line.trim_end());
    }
    line.trim_end().to_owned()
}

/// Whether tools of a plugin are not offered because they are described otherwise than was approved.
pub(super) fn is_withheld(plugin: &Value) -> bool {
    let changed = plugin.get("withheld").and_then(Value::as_object);
    changed.is_some_and(|changed| !changed.is_empty())
}

/// Whether nobody was shown yet what models are told of its tools.
pub(super) fn is_unseen(plugin: &Value) -> bool {
    plugin.get("unseen").and_then(Value::as_bool) == Some(true)
}

/// Whether it is one of Airlock's own.
pub(super) fn is_built_in(plugin: &Value) -> bool {
    text(plugin, "origin") == "built-in"
}

/// Where paths that a plugin asks for lead elsewhere than their names say, as part of what a person is
/// asked.
pub(super) fn leads(question: &Value) -> Vec<String> {
    let leads = question.get("leads_to").and_then(Value::as_object);
    let leads = leads.into_iter().flatten();
    let line = |(asked, real): (&String, &Value)| {
        let real = sanitise_path(real.as_str().unwrap_or_default());
        format!("its path {} leads to {real}", sanitise_path(asked))
    };
    leads.map(line).collect()
}

/// The answer to `plugin.show`, and the words of its tools as far as they are known.
pub(super) fn one(plugin: &Value, words: Option<&PluginWords>, output: &mut Output) {
    if output.is_json() {
        let mut plugin = plugin.clone();
        if let (Some(words), Some(fields)) = (words, plugin.as_object_mut()) {
            fields.insert("approved_tools".to_owned(), json!(words.approved));
            let changes = words.changes();
            if !changes.is_empty() {
                fields.insert("changes".to_owned(), json!(changes));
            }
        }
        output.json(&plugin);
        return;
    }
    if is_built_in(plugin) {
        built_in(plugin, output);
        return;
    }
    output.line(line(plugin));
    for name in ["origin", "path"] {
        output.line(format!("  {name:<13} {}", text(plugin, name)));
    }
    let empty = Value::Null;
    let manifest = plugin.get("manifest").unwrap_or(&empty);
    asked(manifest, output);
    let execution = manifest.get("execution").unwrap_or(&empty);
    output.line(format!("  {:<13} {}", "entry", text(execution, "entry")));
    // What holds it counts, which may be less than it asked for.
    let held = plugin.pointer("/confinement/limits");
    let (limits, word) = match (held, execution.get("limits")) {
        (Some(held), Some(_)) => (Some(held), "limits"),
        (_, asked) => (asked, "asks limits"),
    };
    for (word, value) in [(word, limits), ("sandbox", execution.get("sandbox"))] {
        if let Some(value) = value {
            output.line(format!(
                "  {word:<13} {}",
                sanitise_line(&value.to_string(), 400)
            ));
        }
    }
    let tools = plugin.get("tools").and_then(Value::as_array);
    let tools: Vec<&Value> = tools.into_iter().flatten().collect();
    output.line(styled(Tone::Heading, "tools"));
    let words_approved = words.map(words::approved).unwrap_or_default();
    if tools.is_empty() {
        output.line(if words_approved.is_empty() {
            "  none are known until it runs"
        } else {
            "  none now; those that were approved are below"
        });
    }
    for tool in tools {
        let name = format!("{}.{}", text(plugin, "name"), text(tool, "name"));
        output.line(format!("  {name:<28} {}", text(tool, "summary")));
    }
    withheld(plugin, words, output);
    if !words_approved.is_empty() {
        output.line(styled(Tone::Heading, "approved words"));
    }
    for line in words_approved {
        output.row(8, line);
    }
    settings(plugin, output);
    for warning in texts(plugin, "warnings") {
        output.warning(&warning);
    }
}

/// The capabilities of a manifest.
fn asked(manifest: &Value, output: &mut Output) {
    for (name, word) in [
        ("capabilities", "capabilities"),
        ("deny_capabilities", "without"),
    ] {
        let all = texts(manifest, name);
        if !all.is_empty() {
            output.line(format!("  {word:<13} {}", all.join(" ")));
        }
    }
}

/// One of Airlock's own: nothing of it was installed, and nothing confines it but what it is.
fn built_in(plugin: &Value, output: &mut Output) {
    let name = styled(Tone::Heading, &format!("{:<20}", text(plugin, "name")));
    let about = ["version", "type", "origin"].map(|field| text(plugin, field));
    output.line(format!("{name}  {}", about.join("  ")));
    asked(plugin.get("manifest").unwrap_or(&Value::Null), output);
    output.line(styled(Tone::Heading, "tools"));
    let tools = plugin.get("tools").and_then(Value::as_array);
    let tools = tools.into_iter().flatten();
    for (name, tool) in texts(plugin, "offered").iter().zip(tools) {
        output.line(format!("  {name:<28} {}", text(tool, "summary")));
    }
}

/// What is set of its settings; of secrets only whether they are.
fn settings(plugin: &Value, output: &mut Output) {
    let empty = Value::Null;
    let settings = plugin.get("settings").unwrap_or(&empty);
    let values = settings.get("values").and_then(Value::as_object);
    let values: Vec<_> = values.into_iter().flatten().collect();
    if !values.is_empty() {
        output.line(styled(Tone::Heading, "settings"));
    }
    for (name, line) in values {
        let is = |what: &str| line.get(what).and_then(Value::as_bool) == Some(true);
        let value = match (is("set"), is("secret"), is("unknown")) {
            (true, true, _) => "set (secret)".to_owned(),
            (false, true, _) => "unset (secret)".to_owned(),
            (true, _, true) => "set, and not known to the plugin".to_owned(),
            (true, ..) => {
                let value = line.get("value").unwrap_or(&empty);
                sanitise_line(&value.to_string(), 200)
            }
            (false, ..) => "unset".to_owned(),
        };
        let name = sanitise_line(name, 64);
        output.line(format!("  {name:<28} {value}"));
    }
    for problem in texts(settings, "problems") {
        output.warning(&format!("its settings do not fit: {problem}"));
    }
}

/// Tools that are not offered because they are described otherwise than when they were approved, and
/// how. How to approve them is said where all of it was shown.
fn withheld(plugin: &Value, words: Option<&PluginWords>, output: &mut Output) {
    let changed = plugin.get("withheld").and_then(Value::as_object);
    for (tool, how) in changed.into_iter().flatten() {
        let (tool, how) = (sanitise_line(tool, 64), how.as_str().unwrap_or_default());
        output.line(format!("  {tool:<28} withheld: {how}"));
    }
    if !is_withheld(plugin) {
        return;
    }
    let (name, digest) = (text(plugin, "name"), text(plugin, "tools_digest"));
    let words = words.filter(|words| words.digest.to_string() == digest);
    let Some(words) = words else {
        output.warning(&format!(
            "what it says of them now is not kept: airlock plugin reload {name}"
        ));
        return;
    };
    output.line(styled(Tone::Heading, "changes"));
    for line in words::lines(words) {
        output.row(8, line);
    }
    output.note(words::approving(&name, &digest));
}

/// What a plugin asks for, before somebody says yes, each text of its own whole: who approves it has
/// seen all of it.
pub(in crate::commands) fn request(manifest: &Manifest) -> Vec<String> {
    let clean = |text: &str| sanitise_line(text, usize::MAX);
    let mut lines = vec![format!(
        "{} {}, a {} plugin",
        manifest.name,
        manifest.version,
        manifest.kind.as_str()
    )];
    let execution = &manifest.execution;
    let whereabouts = match execution.tier {
        Tier::Wasm => "as Wasm, in a worker without files or network",
        Tier::Process | Tier::Kernel => "as a process, in a sandbox",
        Tier::Container => "in a container",
    };
    lines.push(format!("runs {} {whereabouts}", clean(&execution.entry)));
    for (name, verb) in [
        (&execution.image, "from the image"),
        (&execution.sandbox.template, "in a sandbox like"),
    ] {
        lines.extend(name.iter().map(|name| format!("{verb} {}", clean(name))));
    }
    for (paths, verb) in [
        (&execution.arguments, "is given the argument"),
        (&execution.sandbox.read_allow, "reads"),
        (&execution.sandbox.write_allow, "writes"),
        (&execution.sandbox.network, "reaches"),
    ] {
        for path in paths {
            lines.push(format!("{verb} {}", clean(path)));
        }
    }
    lines.push(if manifest.capabilities.is_empty() {
        "asks the kernel for nothing".to_owned()
    } else {
        "asks the kernel for these capabilities:".to_owned()
    });
    for capability in &manifest.capabilities {
        lines.push(format!("  {}", clean(capability)));
    }
    for tool in &manifest.tools {
        let (name, summary) = (clean(&tool.name), clean(&tool.summary));
        lines.push(format!("its tool {name} is described as: {summary}"));
        lines.extend(words::further(tool));
    }
    for (tool, effects) in &manifest.effects {
        let effects: Vec<&str> = effects.iter().map(Effect::as_str).collect();
        let effects = effects.join(", ");
        lines.push(format!("its tool {} does: {effects}", clean(tool)));
    }
    lines
}
