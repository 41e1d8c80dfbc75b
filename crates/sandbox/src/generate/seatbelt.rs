//! A plan as a Seatbelt profile for macOS.
//!
//! Everything is denied first; each grant is one rule with one filter and one path; denials come
//! last, since the last rule that matches wins. The launcher writes the text to a file and names
//! the file: it is never part of an argument.
//!
//! Two characters have a meaning inside a string, `"` and `\`, and both are escaped; everything
//! else, newlines included, stands for itself. Hosts do not occur: the one address that can be
//! reached is the proxy's port on this machine.
//!
//! Not guaranteed: metadata of files can be read, but for denied ones: programs resolve paths with
//! it. Names are compared as written, so the launcher hands over paths without symlinks. Never run
//! on macOS by us. There is no seccomp and there are no namespaces there;
//! the profile and the limits the launcher sets are the walls.

use crate::plan::{Access, Extent, HostPath, Network, Part, Pattern, Piece, Plan, Target};
use std::ffi::OsStr;
use std::fmt::Write;
use std::num::NonZeroU16;

/// What the launcher knows and the plan does not.
#[derive(Debug, Clone)]
pub struct SeatbeltFacts<'a> {
    /// What every sandbox reads: system libraries and tools.
    pub system: &'a [HostPath],
    /// The private temporary directory, readable and writable.
    pub temporary: &'a HostPath,
    /// Where the stage of the workspace can be written, if the plan has one.
    pub stage: Option<&'a HostPath>,
    /// The proxy's port, if the plan has a network.
    pub proxy: Option<NonZeroU16>,
}

/// Why there is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeatbeltError {
    /// macOS has no such names.
    #[error("`{0}` is not UTF-8")]
    NotUtf8(HostPath),
    /// Without a stage the real tree would be written.
    #[error("the workspace `{0}` is to be staged, and there is no stage")]
    NoStage(HostPath),
    /// The network is the proxy, or nothing.
    #[error("the plan has a network, and there is no proxy")]
    NoProxy,
    /// A name in a pattern is not UTF-8.
    #[error("the pattern `{0}` is not UTF-8")]
    PatternNotUtf8(String),
}

/// Rules every process needs to start at all.
const BASE: &str = "(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-read* (literal \"/\"))
(allow file-read* (literal \"/dev/null\"))
(allow file-read* (literal \"/dev/zero\"))
(allow file-read* (literal \"/dev/random\"))
(allow file-read* (literal \"/dev/urandom\"))
(allow file-write* (literal \"/dev/null\"))
";

/// The profile that confines a process to `plan`.
pub fn seatbelt(plan: &Plan, facts: &SeatbeltFacts<'_>) -> Result<String, SeatbeltError> {
    let mut profile = Profile(BASE.to_owned());
    for path in facts.system {
        profile.path("allow", "file-read*", "subpath", path)?;
    }
    profile.path("allow", "file-read*", "subpath", facts.temporary)?;
    profile.path("allow", "file-write*", "subpath", facts.temporary)?;
    grants(&mut profile, plan, facts.stage)?;
    if let Network::Restricted(_) = plan.network() {
        let port = facts.proxy.ok_or(SeatbeltError::NoProxy)?;
        profile.rule(
            "allow",
            "network-outbound",
            &format!("remote ip \"localhost:{port}\""),
        );
    }
    denials(&mut profile, plan, facts.stage)?;
    Ok(profile.0)
}

fn grants(
    profile: &mut Profile,
    plan: &Plan,
    stage: Option<&HostPath>,
) -> Result<(), SeatbeltError> {
    for (path, access) in plan.mounts() {
        match access {
            Access::Read => profile.path("allow", "file-read*", "subpath", path)?,
            Access::Write => {
                profile.path("allow", "file-read*", "subpath", path)?;
                profile.path("allow", "file-write*", "subpath", path)?;
            }
            Access::Stage => {
                // No overlay there: the process works in the stage itself, and the real tree is
                // not writable at all.
                let stage = stage.ok_or_else(|| SeatbeltError::NoStage(path.clone()))?;
                profile.path("allow", "file-read*", "subpath", path)?;
                profile.path("allow", "file-read*", "subpath", stage)?;
                profile.path("allow", "file-write*", "subpath", stage)?;
            }
        }
    }
    Ok(())
}

fn denials(
    profile: &mut Profile,
    plan: &Plan,
    stage: Option<&HostPath>,
) -> Result<(), SeatbeltError> {
    let workspace = plan.workspace().map(|workspace| &workspace.path);
    for denial in plan.denials() {
        profile.denial(&denial.target, denial.extent, |path| plan.can_write(path))?;
        // The workspace is worked on at another path, where the denials hold as well.
        let moved = workspace
            .zip(stage)
            .map(|(from, to)| denial.target.moved(from, to));
        for target in moved.into_iter().flatten() {
            let inside = |path: &HostPath| stage.is_some_and(|stage| stage.holds(path));
            profile.denial(&target, denial.extent, inside)?;
        }
    }
    Ok(())
}

struct Profile(String);

impl Profile {
    fn path(
        &mut self,
        effect: &str,
        operation: &str,
        filter: &str,
        path: &HostPath,
    ) -> Result<(), SeatbeltError> {
        let text = path.as_os_str().to_str();
        let text = text.ok_or_else(|| SeatbeltError::NotUtf8(path.clone()))?;
        self.text(effect, operation, filter, text);
        Ok(())
    }

    fn denial(
        &mut self,
        target: &Target,
        extent: Extent,
        writable: impl Fn(&HostPath) -> bool,
    ) -> Result<(), SeatbeltError> {
        let operations: &[&str] = match extent {
            Extent::Writing => &["file-write*"],
            Extent::Everything => &["file-read*", "file-write*"],
        };
        for operation in operations {
            match target {
                Target::Path(path) => self.path("deny", operation, "subpath", path)?,
                Target::Pattern(pattern) => {
                    self.text("deny", operation, "regex", &expression(pattern)?);
                }
            }
        }
        // A directory above could be renamed, and the denied path with it.
        let mut above = target.root().parent();
        while let Some(path) = above.filter(|path| writable(path)) {
            self.path("deny", "file-write-unlink", "literal", &path)?;
            above = path.parent();
        }
        Ok(())
    }

    fn text(&mut self, effect: &str, operation: &str, filter: &str, text: &str) {
        self.rule(effect, operation, &format!("{filter} {}", quoted(text)));
    }

    fn rule(&mut self, effect: &str, operation: &str, filter: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "({effect} {operation} ({filter}))");
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

/// The pattern as a regular expression over whole paths, and what lies beneath.
///
/// No `.`: whether it matches a newline differs, and a denial must not hang on that.
fn expression(pattern: &Pattern) -> Result<String, SeatbeltError> {
    let mut expression = String::from("^");
    for part in pattern.parts() {
        match part {
            Part::Any => expression.push_str("(/[^/]+)*"),
            Part::Name(pieces) => {
                expression.push('/');
                for piece in pieces {
                    match piece {
                        Piece::Star => expression.push_str("[^/]*"),
                        Piece::One => expression.push_str("[^/]"),
                        Piece::Literal(text) => {
                            let text = literal(text).ok_or_else(|| {
                                SeatbeltError::PatternNotUtf8(pattern.to_string())
                            })?;
                            expression.push_str(&text);
                        }
                    }
                }
            }
        }
    }
    expression.push_str("(/|$)");
    Ok(expression)
}

fn literal(text: &OsStr) -> Option<String> {
    let mut literal = String::new();
    for character in text.to_str()?.chars() {
        if ".[]()*+?{}|^$\\".contains(character) {
            literal.push('\\');
        }
        literal.push(character);
    }
    Some(literal)
}
