//! Decoders for names: users, plugins, tags, rules, tools, programs.

use super::code;
use super::problems::{Problems, shown};
use super::scalar::line;
use super::tree::Node;
use airlock_core::{IdError, PluginName, TagName, UserId, WorkspaceId};
use std::sync::Arc;

macro_rules! identifiers {
    ($($function:ident: $type:ident, $wanted:literal;)+) => {
        $(
            #[doc = concat!("The text of ", $wanted, ".")]
            pub(crate) fn $function(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
                let text = line(node, $wanted, problems)?;
                identifier(node, text, $type::new(text).err(), problems)
            }
        )+
    };
}

identifiers! {
    user: UserId, "a user";
    workspace: WorkspaceId, "a workspace";
    plugin: PluginName, "a plugin";
    tag: TagName, "a tag";
}

fn identifier(
    node: &Node,
    text: &str,
    error: Option<IdError>,
    problems: &mut Problems,
) -> Option<Arc<str>> {
    match error {
        None => Some(Arc::from(text)),
        Some(error) => {
            // "`x` is not a tag: use ...": what is wrong, then how to mend it.
            let full = error.to_string();
            let (what, fix) = full
                .rsplit_once(": ")
                .unwrap_or((&full, "write a plain name"));
            problems.error(code::IDENTIFIER, node.spot, shown(what), fix);
            None
        }
    }
}

/// The name of a rule, role, group, secret or extension.
pub(crate) fn name(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a name", problems)?;
    let body = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_./-".contains(&b);
    let first = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if text.len() <= 80 && text.bytes().all(body) && text.as_bytes().first().is_some_and(first) {
        return Some(Arc::from(text));
    }
    problems.error(
        code::NAME,
        node.spot,
        format!("`{}` is not a name", shown(text)),
        "use 1 to 80 of a-z, 0-9 and `_./-`, beginning with a letter or digit",
    );
    None
}

/// The name of a tool: `grep`, `fs.read`, `<plugin>.<tool>`.
pub(crate) fn tool(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a tool", problems)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if text.len() <= 128 && text.bytes().all(plain) && text.split('.').all(|part| !part.is_empty())
    {
        return Some(Arc::from(text));
    }
    problems.error(
        code::IDENTIFIER,
        node.spot,
        format!("`{}` is not a tool name", shown(text)),
        "write a tool such as `fs.read`, or `<plugin>.<tool>`; patterns are not taken",
    );
    None
}

/// The base name of a program.
pub(crate) fn program(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a program", problems)?;
    if !text.contains(['/', '\\', ' ', '*']) {
        return Some(Arc::from(text));
    }
    problems.error(
        code::IDENTIFIER,
        node.spot,
        format!("`{}` is not the base name of a program", shown(text)),
        "write only the name, such as `cargo`: no directories, arguments or patterns",
    );
    None
}
