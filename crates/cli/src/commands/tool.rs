//! `airlock tool`: what tools there are, and calling one on the road.

use super::reach::Reach;
use super::{adapter, open};
use crate::args::{Global, ToolCommand};
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, Tone, count, styled};
use crate::place::Place;
use airlock_core::{PluginName, SessionId, closest};
use airlock_kernel::tools::{Found, Registry, ToolSpec};
use airlock_kernel::{Call, Done, Front, Kernel, sanitise_line, strip_control};
use airlock_mcp::{Road, ToolInfo, left_out};
use serde_json::{Value, json};

/// Columns of a tool's name in a list; the few that are longer push the rest of their line.
pub(super) const NAME: usize = 16;

pub(super) fn run(global: &Global, command: ToolCommand, output: &mut Output) -> Ending {
    match command {
        ToolCommand::List { level } => list(global, level, output),
        ToolCommand::Check { files } => adapter::check(global, &files, output),
        ToolCommand::Show { name } => show(global, &name, output),
        ToolCommand::Call {
            name,
            arguments,
            front,
            session,
            unattended,
        } => {
            let setting = Setting {
                front: parse_front(&front)?,
                session: session.as_deref().map(parse_session).transpose()?,
                unattended,
            };
            call(global, name, &arguments, setting, output)
        }
    }
}

fn describe(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "summary": spec.summary,
        "syscall": spec.syscall,
        "tier": spec.tier,
        "read_only": spec.read_only,
    })
}

/// Lists what agents and clients may be let use. What steers Airlock itself has commands of its own.
fn list(global: &Global, level: u8, output: &mut Output) -> Ending {
    let kernel = match open::opened(global) {
        Ok(kernel) => kernel,
        // Whoever names a workspace asks for its tools.
        Err(failure) if global.workspace.is_some() => return Err(failure),
        // Some tools are there without a workspace; all others are not.
        Err(_) => {
            for tool in Registry::built_in().list() {
                entry(tool.spec(), output);
            }
            return Ok(0);
        }
    };
    let offered = Road::tools(&kernel).unwrap_or_default();
    for spec in listed(&kernel, &offered) {
        entry(spec, output);
    }
    adapter::list(&kernel, level, output);
    warn_of_names(&offered, output);
    Ok(0)
}

/// Those that are `offered`, in order of name, without adapters, which have a list of their own.
fn listed(kernel: &Kernel, offered: &[ToolInfo]) -> Vec<&'static ToolSpec> {
    let definitions = kernel.definitions();
    let is_adapters = |tool: &Found<'_>| match tool {
        Found::Fixed(_) => false,
        Found::Passing(tool) => {
            let mut adapters = definitions.adapters().iter();
            adapters.any(|entry| entry.header.tool == tool.spec().name)
        }
    };
    let tools = kernel.registry().list().filter(|tool| !is_adapters(tool));
    let mut specs: Vec<&'static ToolSpec> = tools
        .map(|tool| tool.spec())
        .filter(|spec| offered.iter().any(|info| info.name == spec.name))
        .collect();
    specs.sort_by_key(|spec| spec.name);
    specs
}

fn entry(spec: &ToolSpec, output: &mut Output) {
    if output.is_json() {
        output.json(&describe(spec));
        return;
    }
    let name = styled(Tone::Heading, &format!("{:<NAME$}", spec.name));
    output.line(format!(
        "{name}  {:<7}  {}",
        spec.tier.as_str(),
        sanitise_line(spec.summary, 200)
    ));
}

/// Says which of `tools` MCP clients do not see, because another has their name.
pub(super) fn warn_of_names(tools: &[ToolInfo], output: &mut Output) {
    for left in left_out(tools) {
        output.warning(&sanitise_line(&left.to_string(), 300));
    }
}

fn show(global: &Global, name: &str, output: &mut Output) -> Ending {
    let built_in = Registry::built_in();
    if let Ok(tool) = built_in.get(name) {
        show_one(&tool, output);
        return Ok(0);
    }
    let kernel = open::opened(global).ok();
    if let Some(kernel) = &kernel
        && let Some(ending) = adapter::show(kernel, name, output)
    {
        return ending;
    }
    let registry = kernel.as_ref().map_or(&built_in, Kernel::registry);
    let tool = registry.get(name).map_err(|_| {
        let fix = match registry.nearest(Front::Cli, name) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`airlock tool list` shows what there is".to_owned(),
        };
        let name = sanitise_line(name, 60);
        Failure::new(Kind::Usage, format!("unknown tool `{name}`")).fix(fix)
    })?;
    show_one(&tool, output);
    Ok(0)
}

fn show_one(tool: &Found<'_>, output: &mut Output) {
    let spec = tool.spec();
    let schema = tool.schema();
    if output.is_json() {
        let mut value = describe(spec);
        if let Some(object) = value.as_object_mut() {
            object.insert("arguments".to_owned(), schema.into_owned());
            object.insert("examples".to_owned(), json!(spec.examples));
        }
        output.json(&value);
        return;
    }
    output.line(format!(
        "{} - {}",
        styled(Tone::Heading, spec.name),
        sanitise_line(spec.summary, 200)
    ));
    output.line(format!(
        "  runs in the {} tier, syscall {}",
        spec.tier, spec.syscall
    ));
    output.line(styled(Tone::Heading, "arguments"));
    for line in arguments(&schema) {
        output.line(format!("  {line}"));
    }
    if !spec.examples.is_empty() {
        output.line(styled(Tone::Heading, "examples"));
    }
    for example in spec.examples {
        output.line(format!("  airlock tool call {} '{example}'", spec.name));
    }
}

/// One line an argument, out of its JSON Schema.
pub(super) fn arguments(schema: &Value) -> Vec<String> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return vec!["none".to_owned()];
    };
    properties
        .iter()
        .map(|(name, property)| {
            let about = property
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            let about = strip_control(&about);
            let mark = if required.contains(&name.as_str()) {
                " (required)"
            } else {
                ""
            };
            let name = styled(Tone::Label, &format!("{name:<14}"));
            format!("{name} {about}{mark}")
        })
        .collect()
}

/// Arguments that say how much is wanted: whoever gives one knows that there may be more.
const LIMITS: [&str; 4] = ["limit_lines", "max_bytes", "limit", "max_matches"];

/// Tools that only say whether something may be done, and the command that does it.
const LEAVES: [(&str, &str); 2] = [
    ("kernel.stop", "airlock kernel stop"),
    ("approval.passphrase", "airlock approvals passphrase"),
];

fn call(
    global: &Global,
    name: String,
    arguments: &[String],
    setting: Setting,
    output: &mut Output,
) -> Ending {
    let arguments = parse_arguments(arguments)?;
    let mut call = Call::new(name, arguments);
    call.session = setting.session;
    call.unattended = setting.unattended;
    let mut reach = if let Some(inside) = Reach::inside(global, setting.front, output)? {
        inside
    } else if is_plugins(global, &call.name) {
        Reach::staying(global, setting.front, output)?
    } else {
        Reach::acting(global, setting.front, output)?
    };
    let limited = LIMITS.iter().any(|name| call.arguments.get(name).is_some());
    let done = reach.done(&call, output)?;
    present(&done, output);
    let truncated = done.value.get("truncated").and_then(Value::as_bool);
    let does = LEAVES.iter().find(|(leave, _)| *leave == call.name);
    if let Some((_, command)) = does {
        output.note(format!("it may be done, and was not: `{command}` does it"));
    }
    if !output.is_json() && (done.cut || (truncated == Some(true) && !limited)) {
        output.note("the result was cut; ask for a narrower part to see the rest");
    }
    Ok(0)
}

/// Calls a tool for the person at the command line.
pub(super) fn call_as_person(
    global: &Global,
    name: String,
    arguments: &[String],
    output: &mut Output,
) -> Ending {
    let setting = Setting {
        front: Front::Cli,
        session: None,
        unattended: false,
    };
    call(global, name, arguments, setting, output)
}

/// Who calls, and from where.
struct Setting {
    front: Front,
    session: Option<SessionId>,
    unattended: bool,
}

fn parse_session(text: &str) -> Result<SessionId, Failure> {
    SessionId::new(text).map_err(|_| {
        let text = sanitise_line(text, 60);
        Failure::new(Kind::Usage, format!("`{text}` is no session"))
            .fix("`airlock session list` shows what there is")
    })
}

/// Whether `name` may be a tool of a plugin that is here.
fn is_plugins(global: &Global, name: &str) -> bool {
    let Some((plugin, _)) = name.split_once('.') else {
        return false;
    };
    if Registry::built_in().get(name).is_ok() || PluginName::new(plugin).is_err() {
        return false;
    }
    Place::find(global.workspace.as_deref()).is_ok_and(|place| {
        let installed = place.state_home.join("airlock/plugins/installed");
        let brought = place.workspace.join(airlock_kernel::PLUGINS_DIR);
        installed.join(plugin).exists() || brought.exists()
    })
}

fn parse_front(name: &str) -> Result<Front, Failure> {
    Front::ALL
        .into_iter()
        .find(|front| front.as_str() == name)
        .ok_or_else(|| {
            let names = Front::ALL.map(Front::as_str);
            let fix = closest(name, names).map_or_else(
                || format!("use one of {}", names.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            let name = sanitise_line(name, 60);
            Failure::new(Kind::Usage, format!("unknown front `{name}`")).fix(fix)
        })
}

/// NAME=VALUE pairs, or one JSON object. A value that is JSON counts as that; else it is text.
pub(super) fn parse_arguments(words: &[String]) -> Result<Value, Failure> {
    if let [only] = words
        && only.trim_start().starts_with('{')
    {
        return serde_json::from_str(only).map_err(|error| {
            Failure::new(Kind::Usage, "the arguments are not a JSON object")
                .why(error)
                .fix("write them as '{\"path\": \"README.md\"}', or as path=README.md")
        });
    }
    let mut object = serde_json::Map::new();
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| {
            let word = sanitise_line(word, 60);
            Failure::new(Kind::Usage, format!("`{word}` is not NAME=VALUE"))
                .fix("write arguments as path=README.md, or as one JSON object")
        })?;
        let parsed = match serde_json::from_str(value) {
            Ok(value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_))) => value,
            Ok(_) | Err(_) => Value::String(value.to_owned()),
        };
        if object.insert(name.to_owned(), parsed).is_some() {
            let name = sanitise_line(name, 60);
            return Err(
                Failure::new(Kind::Usage, format!("argument `{name}` is given twice"))
                    .fix("keep one of them"),
            );
        }
    }
    Ok(Value::Object(object))
}

/// Shows a result: the text itself where there is one, else the structure.
fn present(done: &Done, output: &mut Output) {
    if output.is_json() {
        output.json(&json!({
            "action": done.action,
            "result": done.value,
            "hidden": done.hidden,
            "cut": done.cut,
            "secrets": done.secrets,
        }));
        return;
    }
    output.data(lines(&done.value).as_bytes());
    let put_back = done.value.get("put_back").and_then(Value::as_array);
    for back in put_back.into_iter().flatten() {
        let field = |name: &str| back.get(name).and_then(Value::as_str).unwrap_or_default();
        let (path, change, reason) = (field("path"), field("change"), field("reason"));
        let told = format!("put back: {path} ({change}: {reason})");
        output.note(strip_control(&told));
    }
    for (name, what) in [
        ("unreadable_files", "that cannot be read"),
        ("unreadable_directories", "below which nothing can be read"),
        ("unreadable_names", "whose name is no text"),
    ] {
        let left_out = done.value.get(name).and_then(Value::as_u64);
        if let Some(left_out) = left_out.filter(|left_out| *left_out > 0) {
            output.note(format!("{} {what} left out", count(left_out, "path")));
        }
    }
    if done.hidden > 0 {
        output.note(format!("{} withheld by policy", count(done.hidden, "path")));
    }
    if done.secrets > 0 {
        output.note(format!(
            "{} replaced by a placeholder",
            count(done.secrets as u64, "secret")
        ));
    }
}

/// A result as lines for a person. A kernel cleans what it gives out; whoever is at the other end of
/// a socket is not taken at their word for that.
fn lines(value: &Value) -> String {
    let text = render(value).unwrap_or_else(|| {
        let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
        format!("{pretty}\n")
    });
    strip_control(&text).into_owned()
}

/// Results whose natural form is lines of text.
pub(super) fn render(value: &Value) -> Option<String> {
    let object = value.as_object()?;
    if let Some(text) = object.get("text").and_then(Value::as_str) {
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        return Some(format!("{text}{newline}"));
    }
    if let Some(patch) = object.get("patch").and_then(Value::as_str) {
        return Some(patch.to_owned());
    }
    let items = ["files", "entries", "paths"]
        .into_iter()
        .find_map(|key| object.get(key).and_then(Value::as_array))?;
    let mut text = String::new();
    for line in items.iter().flat_map(lines_of) {
        text.push_str(&line);
        text.push('\n');
    }
    Some(text)
}

/// A search's file with its matching lines; an entry or a path on one line.
fn lines_of(item: &Value) -> Vec<String> {
    let field = |name: &str| item.get(name);
    if let Value::String(text) = item {
        return vec![text.clone()];
    }
    let path = field("path").and_then(Value::as_str).unwrap_or_default();
    if let Some(lines) = field("lines").and_then(Value::as_array) {
        return lines.iter().map(|line| match_line(path, line)).collect();
    }
    let directory = field("kind").and_then(Value::as_str) == Some("directory");
    vec![format!("{path}{}", if directory { "/" } else { "" })]
}

/// `path:12:text` for a match, `path-12-text` for its context.
fn match_line(path: &str, line: &Value) -> String {
    let number = line.get("line").and_then(Value::as_u64).unwrap_or_default();
    let text = line.get("text").and_then(Value::as_str).unwrap_or_default();
    let context = line
        .get("context")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let mark = if context { '-' } else { ':' };
    format!("{path}{mark}{number}{mark}{}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_result_is_shown_that_a_terminal_would_obey() {
        let evil = "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\rb";
        for value in [
            json!({ "text": evil }),
            json!({ "patch": evil }),
            json!({ "paths": [evil] }),
            json!({ "entries": [{ "path": evil, "kind": "directory" }] }),
            json!({ "files": [{ "path": evil, "lines": [{ "line": 1, "text": evil }] }] }),
            json!({ "other": evil }),
            json!(evil),
        ] {
            let shown = lines(&value);
            let hidden = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!shown.contains(hidden), "{shown:?}");
        }
    }
}
