//! Sanitising on the road: which session a result belongs to, what policy adds, what a flag means.
//!
//! Guarantee: every result goes through [`Clean::new`], and there through the session's sanitiser:
//! within a session the same secret keeps its placeholder, and no session learns from numbers what
//! another one saw. A result outside any session has numbers of its own. What is said of a failure goes
//! through [`Told::new`] the same way.

mod held;
mod sessions;
mod told;
mod written;

pub(crate) use airlock_sanitise::sanitise_path;
pub use airlock_sanitise::{
    DEFAULT_OUTPUT_BYTES, Flag, Origin, Sanitised, sanitise, sanitise_line, strip_control,
};
pub(crate) use held::Held;
pub use held::not_held;
pub(crate) use sessions::Sessions;
pub(crate) use told::{Source, Told};

use crate::results::{Kept, Page, Results, TOOL};
use crate::tools::ToolFailure;
use airlock_core::{Digest, Request, RequestPath};
use airlock_policy::OnFlag;
use airlock_sanitise::{Bound, RefusedPattern, Sanitiser, fitted, tag, weight};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use written::Writing;
pub(crate) use written::Written;

/// As much of a host's name as an origin says: the longest there is.
const HOST_CHARS: usize = 253;

/// What helps where policy wants flagged text reviewed, and it is no result.
const UNREVIEWED: &str =
    "what is said of a failure is not kept: look yourself, or set `sanitise.flagged: mark`";
/// What helps where policy blocks flagged text.
const BLOCKED: &str = "read it yourself, or set `sanitise.flagged: mark` in the policy";

/// A sanitised result, and what is kept about it.
#[derive(Debug)]
pub(crate) struct Clean {
    pub(crate) sanitised: Sanitised,
    pub(crate) origin: Box<Origin>,
    /// The digest of the result as the tool gave it, if it is given out otherwise.
    pub(crate) original: Option<Digest>,
    /// The result as it is given out, or would have been.
    pub(crate) given: Written,
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
        results: &Results,
    ) -> Self {
        let before = Writing::begin(&value);
        let origin = origin(request, sanitiser);
        let mut result = if was_cleaned(request) {
            sanitiser.whole_again(value)
        } else {
            sanitiser.whole(value)
        };
        if is_our_own(request) {
            // What the kernel says about itself quotes others, and is read as a quotation.
            result.flags.clear();
            result.flagged.clear();
        }
        let long = weight(&result.value) > bound.bytes;
        let keep = |result: &Sanitised| {
            let (flags, value) = (result.flags.clone(), result.value.clone());
            let kept = Kept::new(&request.caller, origin.clone(), flags, value);
            results.keep(&kept).ok()
        };
        let withheld = match on_flag {
            _ if result.flags.is_empty() => None,
            OnFlag::Mark => None,
            OnFlag::Review => Some(keep(&result).map_or_else(
                || "it could not be kept for a person to look at: make room".to_owned(),
                |digest| {
                    format!(
                        "call `{TOOL}` with `digest` {digest}: a person looks at it first, and \
                         nothing is run again"
                    )
                },
            )),
            OnFlag::Block => Some(BLOCKED.to_owned()),
        };
        let withheld = withheld.map(|fix| ToolFailure::Flagged {
            rules: rules(&result.flags),
            fix,
        });
        if long {
            // Tools that can be asked for another part say so themselves.
            let keeps = withheld.is_none() && bound.paging.is_none();
            let kept = keeps.then(|| keep(&result)).flatten();
            let paging = kept.map(|digest| format!("read on with `{TOOL}`, `digest` {digest}"));
            let bound = match &paging {
                Some(paging) => bound.paged(paging),
                None => bound,
            };
            (result.value, result.cut) = fitted(result.value, bound);
            result.changed |= result.cut;
            let Sanitised { value, flags, .. } = &mut result;
            // Of what nobody sees nothing is told but to whoever reads on.
            flags.retain(|flag| withheld.is_some() || value.pointer(&flag.field).is_some());
        }
        if withheld.is_none() {
            wrap(&mut result, &origin);
        }
        let before = before.finish();
        let (original, given) = if result.changed {
            (Some(before.digest()), Written::of(&result.value))
        } else {
            (None, before)
        };
        Self {
            sanitised: result,
            origin: Box::new(origin),
            original,
            given,
            withheld,
        }
    }
}

impl Clean {
    /// A part of a result that was kept, for somebody who may read it: what `on_flag` has a person
    /// look at was looked at.
    pub(crate) fn page(page: &Page, kept: &Kept, on_flag: OnFlag) -> Self {
        let digest_of_part = Digest::of(page.text.as_bytes());
        let flags: Vec<Flag> = kept.flags.iter().map(on_page).collect();
        let withheld =
            (on_flag == OnFlag::Block && !flags.is_empty()).then(|| ToolFailure::Flagged {
                rules: rules(&flags),
                fix: BLOCKED.to_owned(),
            });
        let marked = flags.first().map(|flag| flag.field.clone());
        let mut result = Sanitised {
            value: json!({
                "digest": page.digest,
                "origin": kept.origin,
                "offset": page.offset,
                "next_offset": page.next,
                "bytes": page.bytes,
                "text": page.text,
            }),
            secrets: page.secrets,
            cut: false,
            flags,
            flagged: marked.into_iter().collect(),
            changed: true,
        };
        wrap(&mut result, &kept.origin);
        Self {
            given: Written::of(&result.value),
            sanitised: result,
            origin: Box::new(kept.origin.clone()),
            original: Some(digest_of_part),
            withheld,
        }
    }
}

/// A flag of a whole result, told of a part: the part is tagged, wherever in the whole it stood.
fn on_page(flag: &Flag) -> Flag {
    Flag {
        field: "/text".to_owned(),
        at: 0..0,
        line: 1,
        ..flag.clone()
    }
}

/// Where the policy's own patterns cannot be looked for, nothing is let through.
pub(crate) fn unusable(refused: &RefusedPattern) -> ToolFailure {
    ToolFailure::Control {
        what: format!("the policy's patterns cannot be used: {refused}"),
        fix: refused.hint(),
    }
}

/// The rules of flags, each once.
pub(crate) fn rules(flags: &[Flag]) -> String {
    let rules: BTreeSet<&str> = flags.iter().map(|flag| &*flag.rule).collect();
    rules.into_iter().collect::<Vec<_>>().join(", ")
}

/// The most parts that are put between marks one by one: around more of them, the marks could be
/// longer than all that they stand around.
const MARKED: usize = 200;

/// Puts every flagged part between marks that name its origin, also where more is flagged than is told.
/// Whatever is no string, such as an object with a flagged key, is one then, of JSON.
fn wrap(sanitised: &mut Sanitised, origin: &Origin) {
    let Sanitised {
        value,
        flagged,
        changed,
        ..
    } = sanitised;
    let is_left = |field: &&String| value.pointer(field).is_some();
    if flagged.iter().filter(is_left).count() > MARKED {
        *flagged = BTreeSet::from([String::new()]);
    }
    // What a part stands in comes before it, and takes it along.
    for field in &*flagged {
        let Some(part) = value.pointer_mut(field) else {
            continue;
        };
        let text = part
            .as_str()
            .map_or_else(|| part.to_string(), str::to_owned);
        *part = Value::String(tag(&text, origin));
        *changed = true;
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
    matches!(
        area,
        Some("policy" | "trust" | "audit" | "stage" | "approval")
    )
}

/// Whether what comes back was sanitised before it was kept: its placeholders are real, and whatever
/// only looked like one was marked then.
fn was_cleaned(request: &Request) -> bool {
    matches!(request.syscall.name(), "session.observe" | "session.recall")
}
