//! Decoders of values that only one section has.

use super::code;
use super::fields::Decode;
use super::host::host;
use super::number::number;
use super::problems::{Problems, list, shown};
use super::scalar::{glob, line, scalar, word, workspace_path};
use super::shape::{one_or_many, table};
use super::tree::{Node, Value};
use crate::approval::Gate;
use crate::document::{Coverage, Destination, ExampleFields, LeastTier, Place};
use airlock_core::Tier;
use std::sync::Arc;

/// The version of the file format.
pub(crate) fn version(node: &Node, problems: &mut Problems) -> Option<u32> {
    let (text, plain) = scalar(node, "a version", problems)?;
    if plain && text == "1" {
        return Some(1);
    }
    let (what, fix) = if text == "1" {
        let what = "the version is the text `1`, not the number".to_owned();
        (what, "remove the quotes: write `version: 1`")
    } else {
        (
            format!("version `{}` of the file format is not known", shown(text)),
            "write `version: 1`; a newer file needs a newer Airlock",
        )
    };
    problems.error(code::VERSION, node.spot, what, fix);
    None
}

/// The values of one condition. Warns of an empty list: it is never met.
pub(crate) fn condition<T>(
    item: impl Fn(&Node, &mut Problems) -> Option<T>,
) -> impl Fn(&Node, &mut Problems) -> Option<Option<Vec<T>>> {
    move |node, problems| {
        if matches!(&node.value, Value::Sequence(items) if items.is_empty()) {
            problems.warning(
                code::EMPTY_CONDITION,
                node.spot,
                "the list is empty, so this is never met",
                "add a value, or remove the field to ask nothing",
            );
        }
        one_or_many(&item)(node, problems).map(Some)
    }
}

/// Path globs of a rule. Warns of an empty list, which matches no path; that one only excludes is an
/// error as soon as the rule is compiled.
pub(crate) fn path_globs(node: &Node, problems: &mut Problems) -> Option<Vec<Arc<str>>> {
    if matches!(&node.value, Value::Sequence(items) if items.is_empty()) {
        let what = "`path_glob` is empty, so it matches nothing";
        let fix = "add a glob such as `src/**`, or remove the field to ask nothing of paths";
        problems.warning(code::EMPTY_PATH_GLOB, node.spot, what, fix);
    }
    one_or_many(glob)(node, problems)
}

/// A port.
pub(crate) fn port(node: &Node, problems: &mut Problems) -> Option<u16> {
    number(1, 65_535)(node, problems)
}

/// A tier a policy can ask for.
pub(crate) fn sandbox_tier(node: &Node, problems: &mut Problems) -> Option<Tier> {
    word::<LeastTier>(node, problems).map(Tier::from)
}

/// A destination, or a bare host.
pub(crate) fn destination(node: &Node, problems: &mut Problems) -> Option<Destination> {
    if matches!(node.value, Value::Scalar { .. }) {
        return host(node, problems).map(|host| Destination {
            host,
            ..Destination::default()
        });
    }
    table(node, problems)
}

/// A method of HTTP, in capitals.
pub(crate) fn method(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a method", problems)?;
    if text.len() <= 20 && text.bytes().all(|b| b.is_ascii_uppercase()) {
        return Some(Arc::from(text));
    }
    problems.error(
        code::TEXT,
        node.spot,
        format!("`{}` is not a method of HTTP", shown(text)),
        "write it in capitals, such as `GET`",
    );
    None
}

/// The beginning of the path of a URL.
pub(crate) fn url_path(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a path", problems)?;
    let clean = text.starts_with('/')
        && !text.contains(['?', '#', '%', '\\', ' '])
        && !text.split('/').any(|part| part == "." || part == "..");
    if clean {
        return Some(Arc::from(text));
    }
    problems.error(
        code::PATH,
        node.spot,
        format!("`{}` is not the beginning of a URL's path", shown(text)),
        "write it from the first `/`, without `..`, query or escapes",
    );
    None
}

/// A script or Wasm module below `.airlock/`.
pub(crate) fn extension_file(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let path = workspace_path(node, problems)?;
    let known = path
        .rsplit_once('.')
        .is_some_and(|(_, end)| matches!(end, "ts" | "js" | "wasm"));
    if path.starts_with(".airlock/") && known {
        return Some(path);
    }
    problems.error(
        code::PATH,
        node.spot,
        format!(
            "`{}` is not a script or module below `.airlock/`",
            shown(&path)
        ),
        "put it below `.airlock/`, which agents cannot write, as `.ts`, `.js` or `.wasm`",
    );
    None
}

/// A gate policy may answer by itself.
pub(crate) fn policy_gate(node: &Node, problems: &mut Problems) -> Option<Gate> {
    gate(
        node,
        "by policy",
        &[Gate::FirstUse, Gate::Host, Gate::SensitiveWrite],
        problems,
    )
}

/// A gate that may be answered through an MCP client.
pub(crate) fn mcp_gate(node: &Node, problems: &mut Problems) -> Option<Gate> {
    gate(
        node,
        "through an MCP client",
        &[Gate::FirstUse, Gate::Host],
        problems,
    )
}

fn gate(node: &Node, how: &str, allowed: &[Gate], problems: &mut Problems) -> Option<Gate> {
    let gate: Gate = word(node, problems)?;
    if allowed.contains(&gate) {
        return Some(gate);
    }
    let words: Vec<&str> = allowed.iter().map(|gate| gate.as_str()).collect();
    problems.error(
        code::GATE_NEEDS_PERSON,
        node.spot,
        format!(
            "{} cannot be answered {how}: it needs a person",
            gate.as_str()
        ),
        format!("remove it; only {} can stand here", list(&words)),
    );
    None
}

/// The coverage budget; locking must not come before warning.
pub(crate) fn coverage(node: &Node, problems: &mut Problems) -> Option<Coverage> {
    let coverage: Coverage = table(node, problems)?;
    if coverage.warn_points <= coverage.lock_points {
        return Some(coverage);
    }
    problems.error(
        code::COVERAGE_ORDER,
        node.spot,
        format!(
            "exploring locks at {} points, before it warns at {}",
            coverage.lock_points, coverage.warn_points
        ),
        "make `lock_points` at least `warn_points`",
    );
    None
}

/// A request with the place it stands at.
pub(crate) fn placed(node: &Node, problems: &mut Problems) -> Option<(Place, ExampleFields)> {
    ExampleFields::decode(node, problems).map(|fields| (node.spot.place, fields))
}
