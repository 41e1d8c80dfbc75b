//! How a plugin runs: tier, protocol, entry, and what its box is to have.

use super::values::{Wildcards, hosts, paths};
use super::{Execution, Kind, Protocol, SandboxAsk, TEMPLATE, WasmLimits, box_memory};
use airlock_core::{ByteSize, PluginName, Span, Tier};
use airlock_sandbox::{TEMPLATES, Template};
use airlock_yaml::{Mapping, Node, Problems, Spot, code, shown};
use std::time::Duration;

/// Most arguments of a program.
const ARGUMENTS: usize = 64;
/// Longest argument, in bytes.
const ARGUMENT_BYTES: usize = 4_096;
/// Longest entry, in bytes.
const ENTRY_BYTES: usize = 512;
/// What a skill is about, in the place of an entry.
const SKILL: &str = "SKILL.md";

const TIERS: &[(&str, Tier)] = &[
    ("wasm", Tier::Wasm),
    ("process", Tier::Process),
    ("container", Tier::Container),
];

pub(super) fn execution(
    node: Option<&Node>,
    name: Option<&PluginName>,
    kind: Option<Kind>,
    problems: &mut Problems,
) -> Option<Execution> {
    let name = name.map_or("plugin", PluginName::as_str);
    let Some(node) = node else {
        return Some(usual(name, kind));
    };
    if kind == Some(Kind::Skill) {
        let fix = "remove `execution`, or write `type: tool`";
        problems.error(code::VALUE, node.spot, "a skill has no code", fix);
    }
    let mut fields = Mapping::of(node, "`execution`", problems)?;
    let tier = tier(fields.get("tier"), problems);
    let protocol = fields.get("protocol");
    let protocol = protocol_of(protocol, node.spot, (tier, kind), problems);
    let entry = fields.get("entry").map(|node| entry(node, problems));
    let arguments = fields.get("arguments");
    let tls = fields.get("tls");
    let limits = fields.get("limits");
    let sandbox = fields.get("sandbox");
    let image = fields.get("image");
    let wasm = tier == Some(Tier::Wasm);
    let mut only = |node: Option<&Node>, allowed: bool, what: &str, fix: &str| {
        if let Some(node) = node.filter(|_| tier.is_some() && !allowed) {
            problems.error(code::VALUE, node.spot, what, fix);
        }
    };
    only(
        arguments,
        !wasm,
        "a Wasm plugin has no command line",
        "remove `arguments`",
    );
    only(
        tls,
        protocol.is_none_or(|protocol| protocol == Protocol::Grpc),
        "`tls` is about the connection to a gRPC plugin",
        "remove it",
    );
    only(
        limits,
        wasm,
        "`limits` are those of a Wasm plugin",
        "write `sandbox: { memory_limit: ... }`, or `tier: wasm`",
    );
    only(
        sandbox,
        !wasm,
        "a Wasm plugin has no files and no network of its own",
        "remove `sandbox`; ask for capabilities, and call the kernel",
    );
    only(
        image,
        tier == Some(Tier::Container),
        "`image` is that of a container",
        "remove it",
    );
    let arguments = arguments.map(|node| argument_list(node, problems));
    let tls = tls.and_then(|node| node.truth(problems));
    let limits = limits.map(|node| wasm_limits(node, problems));
    let sandbox = sandbox.map(|node| sandbox_ask(node, problems));
    let image = image.and_then(|node| node.line(problems));
    fields.close(problems);
    let (tier, protocol) = (tier?, protocol?);
    Some(Execution {
        tier,
        protocol,
        entry: entry.unwrap_or_else(|| Some(usual_entry(name, tier)))?,
        arguments: arguments.unwrap_or_default(),
        tls: tls != Some(false),
        sandbox: sandbox.unwrap_or_default(),
        limits: limits.unwrap_or(WasmLimits::USUAL),
        image,
    })
}

fn usual(name: &str, kind: Option<Kind>) -> Execution {
    let skill = kind == Some(Kind::Skill);
    Execution {
        tier: Tier::Process,
        protocol: Protocol::Grpc,
        entry: if skill {
            SKILL.to_owned()
        } else {
            usual_entry(name, Tier::Process)
        },
        arguments: Vec::new(),
        tls: true,
        sandbox: SandboxAsk::default(),
        limits: WasmLimits::USUAL,
        image: None,
    }
}

fn usual_entry(name: &str, tier: Tier) -> String {
    if tier == Tier::Wasm {
        format!("{name}.wasm")
    } else {
        format!("bin/{name}")
    }
}

fn tier(node: Option<&Node>, problems: &mut Problems) -> Option<Tier> {
    let Some(node) = node else {
        return Some(Tier::Process);
    };
    let tier = node.word("tier", TIERS, problems)?;
    if tier == Tier::Container {
        let what = "the tier `container` cannot be used yet: there is no container engine";
        let fix = "use `process` or `wasm`; nothing runs in a weaker tier than its manifest says";
        problems.error(code::VALUE, node.spot, what, fix);
    }
    Some(tier)
}

fn protocol_of(
    node: Option<&Node>,
    around: Spot,
    (tier, kind): (Option<Tier>, Option<Kind>),
    problems: &mut Problems,
) -> Option<Protocol> {
    let said = match node {
        Some(node) => Some(node.word("protocol", Protocol::WORDS, problems)?),
        None => None,
    };
    let wasm = tier? == Tier::Wasm;
    let protocol = said.unwrap_or(if wasm { Protocol::Wasm } else { Protocol::Grpc });
    let spot = node.map_or(around, |node| node.spot);
    let fits = match protocol {
        Protocol::Wasm => wasm,
        Protocol::Grpc | Protocol::Mcp => !wasm,
    };
    if !fits {
        let what = format!("the protocol `{}` does not fit the tier", protocol.as_str());
        let fix = "`wasm` speaks `wasm`, `process` speaks `grpc` or `mcp`";
        problems.error(code::VALUE, spot, what, fix);
        return None;
    }
    let tools_only = match protocol {
        Protocol::Wasm | Protocol::Mcp => true,
        Protocol::Grpc => false,
    };
    if tools_only && matches!(kind, Some(Kind::Provider | Kind::Channel)) {
        let what = format!("the protocol `{}` has only tools", protocol.as_str());
        let fix = "write `type: tool`, or use `grpc`";
        problems.error(code::VALUE, spot, what, fix);
        return None;
    }
    Some(protocol)
}

/// A path within the plugin's own directory.
fn entry(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = node.text(problems)?;
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    let good = text.len() <= ENTRY_BYTES
        && !text.starts_with('~')
        && text.split('/').all(plain)
        && !text.chars().any(|c| c.is_control() || c == '\\');
    if !good {
        let what = format!("`{}` is no path within the plugin's directory", shown(text));
        let fix = "write it relative to `plugin.yaml`, such as `bin/tool`, without `.` or `..`";
        problems.error(code::VALUE, node.spot, what, fix);
        return None;
    }
    Some(text.to_owned())
}

fn argument_list(node: &Node, problems: &mut Problems) -> Vec<String> {
    let mut found = Vec::new();
    for node in node.list(ARGUMENTS, problems).unwrap_or_default() {
        match node.text(problems) {
            Some(text) if text.len() <= ARGUMENT_BYTES => found.push(text.to_owned()),
            Some(text) => {
                let what = format!(
                    "an argument of {} bytes; the limit is {ARGUMENT_BYTES}",
                    text.len()
                );
                problems.error(code::VALUE, node.spot, what, "put it into a file");
            }
            None => {}
        }
    }
    found
}

fn sandbox_ask(node: &Node, problems: &mut Problems) -> SandboxAsk {
    let mut ask = SandboxAsk::default();
    let Some(mut fields) = Mapping::of(node, "`sandbox`", problems) else {
        return ask;
    };
    ask.template = fields
        .get("template")
        .and_then(|node| template(node, problems));
    if let Some(mut files) = fields
        .get("filesystem")
        .and_then(|node| Mapping::of(node, "`filesystem`", problems))
    {
        let mut list = |key, wildcards, problems: &mut Problems| {
            let node = files.get(key);
            node.map_or_else(Vec::new, |node| paths(node, wildcards, problems))
        };
        ask.read_allow = list("read_allow", Wildcards::Below, problems);
        ask.write_allow = list("write_allow", Wildcards::Below, problems);
        ask.read_deny = list("read_deny", Wildcards::Anywhere, problems);
        files.close(problems);
    }
    if let Some(mut network) = fields
        .get("network")
        .and_then(|node| Mapping::of(node, "`network`", problems))
    {
        let allow = network.get("allow");
        ask.network = allow.map_or_else(Vec::new, |node| hosts(node, problems));
        let proxy = network.get("proxy").and_then(|node| node.truth(problems));
        ask.proxy = proxy == Some(true);
        network.close(problems);
    }
    let (least, most) = (ByteSize::from_bytes(4 << 20), box_memory());
    ask.memory_limit = fields
        .get("memory_limit")
        .and_then(|node| node.unit(&least, &most, problems));
    fields.close(problems);
    ask
}

fn template(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = node.text(problems)?;
    if Template::find(text).is_none() {
        let known: Vec<&str> = TEMPLATES.iter().map(|one| one.name).collect();
        problems.unknown(code::VALUE, node.spot, ("template", text), &known);
        return None;
    }
    if text != TEMPLATE {
        let what = format!("no plugin is made from the template `{text}`");
        let fix = format!("write `{TEMPLATE}`, or leave it out");
        problems.error(code::VALUE, node.spot, what, fix);
        return None;
    }
    Some(text.to_owned())
}

fn wasm_limits(node: &Node, problems: &mut Problems) -> WasmLimits {
    let mut limits = WasmLimits::USUAL;
    let Some(mut fields) = Mapping::of(node, "`limits`", problems) else {
        return limits;
    };
    let mut count = |key, most, problems: &mut Problems| {
        let node = fields.get(key);
        node.and_then(|node| node.number(1..=most, problems))
    };
    if let Some(fuel) = count("fuel", 1_000_000_000_000, problems) {
        limits.fuel = fuel.unsigned_abs();
    }
    let small = |number: i64| u32::try_from(number).ok();
    if let Some(tables) = count("tables", WasmLimits::TABLES.into(), problems).and_then(small) {
        limits.tables = tables;
    }
    let instances = count("instances", WasmLimits::CALLS.into(), problems).and_then(small);
    let (least, most) = (
        Span::from_millis(1),
        Span::from_secs(WasmLimits::DEADLINE.as_secs()),
    );
    if let Some(deadline) = fields
        .get("deadline")
        .and_then(|node| node.unit(&least, &most, problems))
    {
        limits.deadline = Duration::from_millis(deadline.as_millis());
    }
    // A page is 64 KiB.
    let (least, most) = (ByteSize::from_bytes(64 << 10), WasmLimits::POOL);
    if let Some(memory) = fields
        .get("memory")
        .and_then(|node| node.unit(&least, &most, problems))
    {
        limits.memory = memory;
    }
    let (least, most) = (ByteSize::from_bytes(64 << 10), WasmLimits::STACK);
    if let Some(stack) = fields
        .get("stack")
        .and_then(|node| node.unit(&least, &most, problems))
    {
        limits.stack = stack;
    }
    let fit = WasmLimits::fit(limits.memory);
    limits.instances = instances.unwrap_or(fit);
    if limits.instances > fit {
        let what = format!(
            "{} instances of {} have no room: all have {} together",
            limits.instances,
            limits.memory,
            WasmLimits::POOL
        );
        let fix = "ask for less `memory`, or fewer `instances`";
        problems.error(code::VALUE, node.spot, what, fix);
    }
    fields.close(problems);
    limits
}
