//! From the bytes of `plugin.yaml` to a checked manifest.

use super::execution::execution;
use super::values::{capabilities, names_once, requirement, undenied};
use super::{API_VERSION, Kind, LifecycleSettings, Manifest};
use crate::tool::ToolDescription;
use airlock_core::{Effect, EffectSet, PluginName, Span, Syscall, TagName};
use airlock_yaml::{
    DefinitionError, Mapping, Node, Problems, Schema, Spot, Tree, code, document, shown,
};
use semver::{Version, VersionReq};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most plugins one may need.
const DEPENDENCIES: usize = 64;
/// Most tags of one plugin.
const TAGS: usize = 32;
/// Most tools of one plugin.
const TOOLS: usize = 200;
/// What a tool can say that it does.
const EFFECTS: &[(&str, Effect)] = &[
    ("read", Effect::Read),
    ("write", Effect::Write),
    ("delete", Effect::Delete),
    ("execute", Effect::Execute),
    ("network", Effect::Network),
    ("secret", Effect::Secret),
];
/// Names that mean something else wherever a plugin's name stands.
const RESERVED: &[&str] = &["airlock", "cli", "agent", "mcp", "server", "kernel", "self"];

impl Manifest {
    /// Reads a manifest. Every problem is in the error; [`DefinitionError::render`] shows them with
    /// their lines.
    pub fn parse(bytes: &[u8]) -> Result<Self, DefinitionError> {
        Self::parse_named(bytes, |name| !crate::built_in::is_name(name))
    }

    /// The same for a plugin of Airlock's own, whose name nobody else may have.
    pub(crate) fn parse_built_in(bytes: &[u8]) -> Result<Self, DefinitionError> {
        Self::parse_named(bytes, |_| true)
    }

    fn parse_named(bytes: &[u8], is_free: fn(&str) -> bool) -> Result<Self, DefinitionError> {
        let mut problems = Problems::default();
        let manifest = document(bytes, "a manifest", &mut problems)
            .and_then(|node| manifest(&node, is_free, &mut problems));
        problems.settle(manifest)
    }
}

fn manifest(node: &Node, is_free: fn(&str) -> bool, problems: &mut Problems) -> Option<Manifest> {
    let mut fields = Mapping::of(node, "a manifest", problems)?;
    let name = fields
        .need("name", problems)
        .and_then(|node| plugin_name(node, is_free, problems));
    let version = fields
        .need("version", problems)
        .and_then(|node| version(node, problems));
    let kind = fields
        .need("type", problems)
        .and_then(|node| node.word("type", Kind::WORDS, problems));
    let engine = fields
        .get("engine")
        .and_then(|node| requirement(node, problems));
    let api_version = fields
        .get("api_version")
        .and_then(|node| node.number(1..=i64::from(u32::MAX), problems));
    let license = fields.get("license").and_then(|node| node.line(problems));
    let asked = fields.get("capabilities");
    let denied = fields.get("deny_capabilities");
    let (capabilities, deny_capabilities) = capabilities(asked, denied, problems);
    let execution = execution(fields.get("execution"), name.as_ref(), kind, problems);
    if let (Some(execution), Some(denied)) = (&execution, denied) {
        undenied(&execution.sandbox, &deny_capabilities, denied, problems);
    }
    let config_schema = fields
        .get("config_schema")
        .and_then(|node| Schema::parse_settings(node, problems).map(|_| node.json()));
    let dependencies = fields
        .get("dependencies")
        .map(|node| dependencies(node, name.as_ref(), problems));
    let tags = fields.get("tags").map(|node| tags(node, problems));
    let lifecycle = fields
        .get("lifecycle")
        .map(|node| lifecycle(node, problems));
    let tools = fields.get("tools").map(|node| tools(node, kind, problems));
    let (tools, effects) = tools.unwrap_or_default();
    fields.close(problems);
    Some(Manifest {
        name: name?,
        version: version?,
        kind: kind?,
        engine: engine.unwrap_or(VersionReq::STAR),
        api_version: api_version
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(API_VERSION),
        license,
        capabilities,
        deny_capabilities,
        execution: execution?,
        config_schema,
        dependencies: dependencies.unwrap_or_default(),
        tags: tags.unwrap_or_default(),
        lifecycle: lifecycle.unwrap_or(LifecycleSettings::USUAL),
        tools,
        effects,
    })
}

/// The plugin's own name. Its tools are called `<plugin>.<tool>`, so the name of an area of syscalls
/// would let it pass for one of ours, and so would that of a built-in plugin.
fn plugin_name(
    node: &Node,
    is_free: fn(&str) -> bool,
    problems: &mut Problems,
) -> Option<PluginName> {
    let name = name(node.text(problems)?, node.spot, problems)?;
    let text = name.as_str();
    let is_area = Syscall::all().any(|syscall| syscall.area() == text);
    if RESERVED.contains(&text) || is_area || !is_free(text) {
        let what = format!("`{text}` is Airlock's own name");
        problems.error(code::VALUE, node.spot, what, "give the plugin another name");
        return None;
    }
    Some(name)
}

fn name(text: &str, spot: Spot, problems: &mut Problems) -> Option<PluginName> {
    let Ok(name) = PluginName::new(text) else {
        let what = format!("`{}` is no plugin's name", shown(text));
        let fix = "use 1 to 64 of a-z, 0-9 and `-`, not at either end";
        problems.error(code::VALUE, spot, what, fix);
        return None;
    };
    Some(name)
}

fn version(node: &Node, problems: &mut Problems) -> Option<Version> {
    let text = node.text(problems)?;
    match Version::parse(text) {
        Ok(version) => Some(version),
        Err(error) => {
            let what = format!("`{}` is no version: {error}", shown(text));
            let fix = "write three numbers such as `1.2.0`, maybe with `-rc.1` or `+build`";
            problems.error(code::VALUE, node.spot, what, fix);
            None
        }
    }
}

fn dependencies(
    node: &Node,
    own: Option<&PluginName>,
    problems: &mut Problems,
) -> BTreeMap<PluginName, VersionReq> {
    let Tree::Map(entries) = &node.tree else {
        let fix = "write `name: \">= 1.0.0\"` lines";
        problems.error(code::VALUE, node.spot, "`dependencies` is no mapping", fix);
        return BTreeMap::new();
    };
    if entries.len() > DEPENDENCIES {
        let what = format!(
            "{} dependencies; the limit is {DEPENDENCIES}",
            entries.len()
        );
        problems.error(code::VALUE, node.spot, what, "remove some");
        return BTreeMap::new();
    }
    let mut needed = BTreeMap::new();
    for entry in entries {
        let name = name(&entry.key, entry.spot, problems);
        let wanted = requirement(&entry.value, problems);
        let (Some(name), Some(wanted)) = (name, wanted) else {
            continue;
        };
        if Some(&name) == own {
            let what = format!("`{name}` depends on itself");
            problems.error(code::REFERENCE, entry.spot, what, "remove it");
        }
        needed.insert(name, wanted);
    }
    needed
}

fn tags(node: &Node, problems: &mut Problems) -> Vec<String> {
    let mut tags = Vec::new();
    for node in node.list(TAGS, problems).unwrap_or_default() {
        let Some(text) = node.text(problems) else {
            continue;
        };
        if TagName::new(text).is_err() {
            let what = format!("`{}` is no tag", shown(text));
            let fix = "use 1 to 64 of a-z, 0-9, `_` and `-`";
            problems.error(code::VALUE, node.spot, what, fix);
            continue;
        }
        if names_once(&tags, text, node, problems) {
            tags.push(text.to_owned());
        }
    }
    tags
}

fn lifecycle(node: &Node, problems: &mut Problems) -> LifecycleSettings {
    let mut settings = LifecycleSettings::USUAL;
    let Some(mut fields) = Mapping::of(node, "`lifecycle`", problems) else {
        return settings;
    };
    if let Some(hot) = fields
        .get("hot_reload")
        .and_then(|node| node.truth(problems))
    {
        settings.hot_reload = hot;
    }
    let (least, most) = (Span::from_millis(0), Span::from_secs(600));
    if let Some(timeout) = fields
        .get("graceful_shutdown_timeout")
        .and_then(|node| node.unit(&least, &most, problems))
    {
        settings.graceful_shutdown_timeout = Duration::from_millis(timeout.as_millis());
    }
    fields.close(problems);
    settings
}

/// The tools, and what those do that say so.
type Tools = (Vec<ToolDescription>, BTreeMap<String, EffectSet>);

fn tools(node: &Node, kind: Option<Kind>, problems: &mut Problems) -> Tools {
    let nodes = node.list(TOOLS, problems).unwrap_or_default();
    if kind.is_some_and(|kind| kind != Kind::Tool) && !nodes.is_empty() {
        let fix = "write `type: tool`, or remove `tools`";
        problems.error(code::VALUE, node.spot, "only a tool plugin has tools", fix);
    }
    let (mut tools, mut declared): Tools = (Vec::new(), BTreeMap::new());
    for node in nodes {
        let Some((tool, effects)) = tool(node, problems) else {
            continue;
        };
        if tools.iter().any(|known| known.name == tool.name) {
            let what = format!("the tool `{}` is there twice", tool.name);
            problems.error(code::DUPLICATE, node.spot, what, "keep one");
        }
        if !effects.is_empty() {
            declared.insert(tool.name.clone(), effects);
        }
        tools.push(tool);
    }
    (tools, declared)
}

fn tool(node: &Node, problems: &mut Problems) -> Option<(ToolDescription, EffectSet)> {
    let mut fields = Mapping::of(node, "a tool", problems)?;
    let name = fields
        .need("name", problems)
        .and_then(|node| tool_name(node, problems));
    let summary = fields
        .need("summary", problems)
        .and_then(|node| node.line(problems));
    let schema = fields.need("schema", problems).and_then(|node| {
        let schema = Schema::parse(node, problems)?;
        if !schema.is_only("object") {
            let what = "a tool's arguments are an object";
            problems.error(code::SCHEMA, node.spot, what, "write `type: object`");
            return None;
        }
        // As written: what the plugin says when it runs is compared with it.
        Some(node.json())
    });
    let read_only = fields
        .get("read_only")
        .and_then(|node| node.truth(problems));
    let effects = fields
        .get("effects")
        .map(|node| effects(node, read_only == Some(true), problems));
    fields.close(problems);
    let tool = ToolDescription {
        name: name?,
        summary: summary?,
        schema: schema?,
        read_only: read_only == Some(true),
    };
    Some((tool, effects.unwrap_or_default()))
}

/// What a tool does beyond running. None of them steers Airlock, and one that says that it changes
/// nothing cannot say what it changes.
fn effects(node: &Node, read_only: bool, problems: &mut Problems) -> EffectSet {
    let mut effects = EffectSet::default();
    for node in node.list(EFFECTS.len(), problems).unwrap_or_default() {
        let Some(effect) = node.word("effect", EFFECTS, problems) else {
            continue;
        };
        let changes = EffectSet::CHANGES;
        if read_only && changes.contains(effect) {
            let what = format!("a tool that is `read_only` has no effect `{effect}`");
            problems.error(code::VALUE, node.spot, what, "remove one of both");
        }
        if effects.contains(effect) {
            let what = format!("`{effect}` is there twice");
            problems.error(code::DUPLICATE, node.spot, what, "keep one");
        }
        effects = effects.union(EffectSet::of(&[effect]));
    }
    effects
}

fn tool_name(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = node.text(problems)?;
    if !is_tool_name(text) {
        let what = format!("`{}` is no tool's name", shown(text));
        let fix = "use 1 to 64 letters, digits, `_` and `-`, beginning with a letter";
        problems.error(code::VALUE, node.spot, what, fix);
        return None;
    }
    Some(text.to_owned())
}

/// Whether `text` can name a tool of a plugin: it becomes part of a capability and of `plugin.tool`,
/// so it has no dot, and nothing that a terminal or a pattern gives a meaning.
pub fn is_tool_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
