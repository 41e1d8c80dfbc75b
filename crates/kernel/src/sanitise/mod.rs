//! Sanitising on the road: which session a result belongs to, what policy adds, what a flag means.
//!
//! Guarantee: every result goes through [`Clean::new`], and there through the session's sanitiser:
//! within a session the same secret keeps its placeholder, and no session learns from numbers what
//! another one saw. A result outside any session has numbers of its own.

mod held;
mod sessions;

pub(crate) use airlock_sanitise::sanitise_path;
pub use airlock_sanitise::{
    DEFAULT_OUTPUT_BYTES, Flag, Origin, Sanitised, sanitise, sanitise_line, strip_control,
};
pub(crate) use held::Held;
pub(crate) use sessions::Sessions;

use crate::tools::ToolFailure;
use airlock_core::{Digest, Request, RequestPath};
use airlock_policy::OnFlag;
use airlock_sanitise::{Bound, Sanitiser, tag};
use serde_json::Value;
use std::collections::BTreeSet;

/// As much of a host's name as an origin says: the longest there is.
const HOST_CHARS: usize = 253;

/// A sanitised result, and what is kept about it.
#[derive(Debug)]
pub(crate) struct Clean {
    pub(crate) sanitised: Sanitised,
    pub(crate) origin: Box<Origin>,
    /// Of the result as the tool gave it.
    pub(crate) original: Digest,
    /// Of the result as it is given out, or would have been.
    pub(crate) given: Digest,
    /// Why it is not given out after all.
    pub(crate) withheld: Option<ToolFailure>,
}

impl Clean {
    /// Sanitises what a tool gave for `request`.
    pub(crate) fn new(
        value: Value,
        request: &Request,
        sanitiser: &Sanitiser,
        bound: Bound<'_>,
        on_flag: OnFlag,
    ) -> Self {
        let before = digest(&value);
        let origin = origin(request, sanitiser);
        let mut result = sanitiser.value(value, bound);
        if is_our_own(request) {
            // What the kernel says about itself quotes others, and is read as a quotation.
            result.flags.clear();
        }
        let withheld = match on_flag {
            _ if result.flags.is_empty() => None,
            OnFlag::Mark => {
                wrap(&mut result, &origin);
                None
            }
            OnFlag::Review => Some(
                "results cannot be reviewed yet: read it yourself, or set `sanitise.flagged: mark`",
            ),
            OnFlag::Block => {
                Some("read it yourself, or set `sanitise.flagged: mark` in the policy")
            }
        };
        let withheld = withheld.map(|fix| ToolFailure::Flagged {
            rules: rules(&result.flags),
            fix,
        });
        let given = if result.changed {
            digest(&result.value)
        } else {
            before
        };
        Self {
            sanitised: result,
            origin: Box::new(origin),
            original: before,
            given,
            withheld,
        }
    }
}

/// The rules of flags, each once.
pub(crate) fn rules(flags: &[Flag]) -> String {
    let rules: BTreeSet<&str> = flags.iter().map(|flag| &*flag.rule).collect();
    rules.into_iter().collect::<Vec<_>>().join(", ")
}

/// Puts every flagged string between marks that name its origin.
fn wrap(sanitised: &mut Sanitised, origin: &Origin) {
    let fields: BTreeSet<&str> = sanitised
        .flags
        .iter()
        .map(|flag| flag.field.as_str())
        .collect();
    for field in fields {
        if let Some(Value::String(text)) = sanitised.value.pointer_mut(field) {
            *text = tag(text, origin);
            sanitised.changed = true;
        }
    }
}

fn origin(request: &Request, sanitiser: &Sanitiser) -> Origin {
    let name = request.syscall.name();
    match (request.paths.first(), &request.host) {
        (Some(path), _) if name == "fs.read" => Origin::File(sanitiser.path(path_text(path))),
        // What a host answers is that host's word, by whatever tool it was asked.
        (_, Some(host)) if name == "net.connect" => Origin::Web(sanitiser.line(host, HOST_CHARS)),
        (_, _) => Origin::Tool(request.tool.as_deref().unwrap_or(name).to_owned()),
    }
}

fn path_text(path: &RequestPath) -> &str {
    path.as_str()
}

/// Whether it is the kernel itself that answers.
fn is_our_own(request: &Request) -> bool {
    let area = request.syscall.name().split('.').next();
    matches!(area, Some("policy" | "trust" | "audit" | "stage"))
}

/// The digest of a value as JSON, without writing it out in memory.
fn digest(value: &Value) -> Digest {
    // Gathered first: the writer comes with a few bytes at a time, a digest takes blocks.
    let mut sum = std::io::BufWriter::new(Sum(sha2::Sha256::default()));
    // Writing into a digest cannot fail.
    let _ = serde_json::to_writer(&mut sum, value);
    let _ = std::io::Write::flush(&mut sum);
    let (Sum(sum), _) = sum.into_parts();
    Digest::from_bytes(sha2::Digest::finalize(sum).into())
}

struct Sum(sha2::Sha256);

impl std::io::Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        sha2::Digest::update(&mut self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
