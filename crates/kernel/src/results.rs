//! Results that were cut for length or withheld, whole, for whoever they were for: `session.result`.
//!
//! Kept is what the caller might have been given had it been shorter, or had a person looked at it:
//! secrets are out. The name of a result is the digest of it and of whom it is for.
//!
//! Guarantee: nobody else finds it, neither another session nor another caller of the same session,
//! and to them it is as if it were not there; but the person who was asked about one finds that one.
//! What policy blocks is never kept. Non-guarantee: that it is still there: it is kept for [`AGE`],
//! and while there is room.

use crate::beneath::Root;
use crate::clock::Clock;
use crate::content;
use crate::control::{ForCaller, arguments, is_person, spec};
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use crate::sanitise::{Flag, Origin, rules};
use crate::showing::ends;
use crate::tools::{InvalidArguments, Prepared, Tool, ToolFailure, ToolSchema, ToolSpec};
use airlock_core::{Caller, Digest, Request, SandboxId};
use airlock_policy::approval::{Asker, Diff};
use airlock_policy::{Contribution, Decision, Layer, OnFlag, Opinion, Verdict};
use airlock_sanitise::Sanitiser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The tool.
pub(crate) const TOOL: &str = "session.result";

/// How long a result is kept.
const AGE: Duration = Duration::from_hours(1);

/// The longest one, and how much of all there may be.
const LONGEST: usize = 16 * 1024 * 1024;
const MOST: u64 = 256 * 1024 * 1024;

/// So much of that is free whenever what there is was looked through: not every result has it looked
/// through again.
const SPARE: u64 = 32 * 1024 * 1024;

/// How long what was found then is relied on, in microseconds.
const LOOK_MICROS: i64 = 60 * 1_000_000;

/// How much of a withheld result a person is shown who is asked about it, besides what was flagged.
const SHOWN: usize = 3_000;

/// The most places that were flagged they are shown, how much of each, how much around it, and how
/// much of where it stands.
const PLACES: usize = 20;
const PLACE: usize = 240;
const AROUND: usize = 80;
const FIELD: usize = 60;

/// A result, and for whom it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    asker: Asker,
    sandbox: Option<SandboxId>,
    pub(crate) origin: Origin,
    /// What in it may be instructions.
    pub(crate) flags: Vec<Flag>,
    pub(crate) value: Value,
}

impl Kept {
    pub(crate) fn new(caller: &Caller, origin: Origin, flags: Vec<Flag>, value: Value) -> Self {
        Self {
            asker: Asker::of(caller),
            sandbox: caller.sandbox.clone(),
            origin,
            flags,
            value,
        }
    }

    pub(crate) fn is_for(&self, caller: &Caller) -> bool {
        self.asker == Asker::of(caller) && self.sandbox == caller.sandbox
    }

    /// Whether `caller` is the person who answers for whoever it is for.
    fn is_answered_by(&self, caller: &Caller) -> bool {
        let whose = (&self.asker.tenant, &self.asker.user, &self.asker.workspace);
        let same = whose == (&caller.tenant, &caller.user, &caller.workspace);
        same && is_person(caller) && caller.sandbox.is_none()
    }

    /// What was flagged and what stands around it, a place after the other.
    fn places(&self, cleaner: &Sanitiser) -> String {
        let place = |flag: &Flag| {
            let text = match self.value.pointer(&flag.field) {
                Some(Value::String(text)) => around(text, &flag.at),
                // A key of it.
                Some(_) | None => &flag.excerpt,
            };
            let field = ends(&flag.field, FIELD);
            let text = ends(&cleaner.line(text, usize::MAX / 8), PLACE);
            format!("{} at `{field}`: {text}", flag.rule)
        };
        let mut told: Vec<String> = self.flags.iter().take(PLACES).map(place).collect();
        if let Some(more @ 1..) = self.flags.len().checked_sub(PLACES) {
            told.push(format!("AND {more} MORE PLACES"));
        }
        told.join("; ")
    }
}

/// `place` of `text` with a little on either side.
fn around<'t>(text: &'t str, place: &Range<usize>) -> &'t str {
    let from = text.floor_char_boundary(place.start.saturating_sub(AROUND));
    let to = text.ceil_char_boundary(place.end.saturating_add(AROUND));
    text.get(from..to).unwrap_or(text)
}

/// The results of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    place: PathBuf,
    clock: Clock,
    room: Arc<Mutex<Room>>,
}

/// What is known of the room there is.
#[derive(Debug, Default)]
struct Room {
    /// When all there is was last looked through, in microseconds.
    looked: Option<i64>,
    /// Bytes that were left then, and what was kept since. Not what others keep meanwhile.
    bytes: u64,
}

impl Results {
    pub(crate) fn of(state: &Path) -> Self {
        Self {
            place: state.join("results"),
            clock: Clock::system(),
            room: Arc::default(),
        }
    }

    /// The same by another clock.
    #[must_use]
    pub(crate) fn by(self, clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            ..self
        }
    }

    /// Keeps a result, and says under which name.
    pub(crate) fn keep(&self, kept: &Kept) -> io::Result<Digest> {
        let text = serde_json::to_string(kept)?;
        if text.len() > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // Room is made first: what was just kept is not what goes.
        self.make_room(text.len() as u64)?;
        content::keep_in(&self.place, text.as_bytes())
    }

    /// Makes room for `more` bytes. What there is is looked through once a minute, and before there
    /// would be too much.
    fn make_room(&self, more: u64) -> io::Result<()> {
        let now = self.clock.now().as_micros();
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let since = room.looked.map(|looked| now.saturating_sub(looked));
        let is_known = since.is_some_and(|since| (0..LOOK_MICROS).contains(&since));
        if !is_known || room.bytes.saturating_add(more) > MOST {
            room.bytes = content::forget_in(&self.place, AGE, MOST - SPARE)?;
            room.looked = Some(now);
        }
        room.bytes = room.bytes.saturating_add(more);
        Ok(())
    }

    /// The result of that name, if it is there and for `caller`, or `caller` was asked about it.
    fn find(&self, digest: Digest, caller: &Caller) -> Option<Kept> {
        let text = content::read_in(&self.place, digest, Some(AGE)).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        let asked = || self.asked(digest).is_file() && kept.is_answered_by(caller);
        (kept.is_for(caller) || asked()).then_some(kept)
    }

    /// Notes that a person is asked about a result.
    fn ask(&self, digest: Digest) -> io::Result<()> {
        std::fs::write(self.asked(digest), b"")
    }

    fn asked(&self, digest: Digest) -> PathBuf {
        self.place.join(format!("{digest}.asked"))
    }

    /// Notes that a person let a result through.
    fn release(&self, digest: Digest) -> io::Result<()> {
        std::fs::write(self.released(digest), b"")
    }

    fn is_released(&self, digest: Digest) -> bool {
        self.released(digest).is_file()
    }

    fn released(&self, digest: Digest) -> PathBuf {
        self.place.join(format!("{digest}.released"))
    }

    /// Forgets what is too old.
    pub(crate) fn forget(&self) -> io::Result<()> {
        content::forget_in(&self.place, AGE, MOST).map(drop)
    }
}

/// Which part of which result.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResultArguments {
    /// The digest that stands where a result was cut or withheld.
    #[schemars(with = "String")]
    digest: Digest,
    /// The first byte to return; `next_offset` of the part before.
    #[serde(default)]
    offset: usize,
    /// One string of the result alone, such as `/stdout`. Absent: all of it, as JSON.
    #[serde(default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

static SPEC: ToolSpec = spec(
    TOOL,
    "Read on in a result that was cut, or that waits for a person to look at it",
    ToolSchema::of::<ResultArguments>(),
)
.reading();

/// The tool. What it gives is made into a page by [`Asked::of`].
pub(crate) struct SessionResult(pub(crate) Results);

impl Tool for SessionResult {
    fn spec(&self) -> &'static ToolSpec {
        &SPEC
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: ResultArguments = arguments(value)?;
        let results = self.0.clone();
        Ok(ForCaller::boxed(move |caller| {
            let kept = results.find(asked.digest, caller);
            let kept = kept.ok_or_else(|| ToolFailure::Stored {
                code: "unknown_result",
                what: "there is no such result for this caller".to_owned(),
                fix: Some("results are kept for an hour: call the tool again".to_owned()),
                retryable: false,
            })?;
            serde_json::to_value(Asked { asked, kept }).map_err(|error| ToolFailure::Control {
                what: error.to_string(),
                fix: "call the tool again",
            })
        }))
    }
}

/// A result that is there, and which part of it is wanted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    asked: ResultArguments,
    pub(crate) kept: Kept,
}

/// A part of a result.
#[derive(Debug)]
pub(crate) struct Page {
    /// The result's name.
    pub(crate) digest: Digest,
    pub(crate) text: String,
    pub(crate) offset: usize,
    /// Where the next part begins, if there is one.
    pub(crate) next: Option<usize>,
    /// Bytes of all parts.
    pub(crate) bytes: usize,
    /// Secrets that became known since it was kept.
    pub(crate) secrets: usize,
}

impl Asked {
    /// What the tool gave.
    pub(crate) fn of(value: Value) -> Result<Self, ToolFailure> {
        serde_json::from_value(value).map_err(|error| ToolFailure::Control {
            what: error.to_string(),
            fix: "call the tool again",
        })
    }

    /// The part that is wanted, of about `bytes` bytes. What `sanitiser` knows by now is taken out of
    /// the whole first: no part of a secret passes because it stands where a page ends.
    pub(crate) fn page(
        &mut self,
        sanitiser: &Sanitiser,
        bytes: usize,
    ) -> Result<Page, ToolFailure> {
        let whole = sanitiser.whole_again(self.kept.value.take());
        let field = self.asked.field.as_deref().unwrap_or_default();
        let text = match whole.value.pointer(field) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => {
                return Err(ToolFailure::Stored {
                    code: "unknown_field",
                    what: "the result has no such field".to_owned(),
                    fix: Some("leave `field` out to see all of it".to_owned()),
                    retryable: false,
                });
            }
        };
        let offset = self.asked.offset;
        let part = airlock_sanitise::page(&text, offset, bytes);
        let offset = text.ceil_char_boundary(offset.min(text.len()));
        let end = offset + part.len();
        Ok(Page {
            digest: self.asked.digest,
            text: part.to_owned(),
            offset,
            next: (end < text.len()).then_some(end),
            bytes: text.len(),
            secrets: whole.secrets,
        })
    }
}

impl Kernel {
    /// The result that `request` asks for, and its name, where policy wants a person to look at it
    /// first and none has.
    fn unseen(&self, policy: &PolicyInForce, request: &Request) -> Option<(Digest, Kept)> {
        let reviewed = policy.policy().document().sanitise.flagged == OnFlag::Review;
        if !reviewed || request.tool.as_deref() != Some(TOOL) {
            return None;
        }
        let asked: ResultArguments = arguments(&request.arguments).ok()?;
        let results = self.results();
        let kept = results.find(asked.digest, &request.caller)?;
        // Whoever looks at it first need not ask anybody.
        let waits = kept.is_for(&request.caller) && !results.is_released(asked.digest);
        (!kept.flags.is_empty() && waits).then_some((asked.digest, kept))
    }

    /// Makes an allow a review where a person has to look at a result before anybody reads it.
    pub(crate) fn review_result(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        decision: &mut Decision,
    ) {
        if decision.verdict == Verdict::Deny {
            return;
        }
        if let Some((_, kept)) = self.unseen(policy, request) {
            decision.verdict = Verdict::RequireReview;
            decision.contributions.push(Contribution {
                layer: Layer::BuiltIn,
                rule: "flagged-result".into(),
                opinion: Opinion::RequireReview,
                reason: format!(
                    "it may hold instructions ({}), and policy has a person look first",
                    rules(&kept.flags)
                )
                .into(),
            });
        }
    }

    /// What a person is shown of the result that `request` asks for, if one has to look at it: what was
    /// flagged, wherever it stands, the beginning and the end, and how to see the rest.
    pub(crate) fn result_to_review(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        cleaner: &Sanitiser,
    ) -> Option<Diff> {
        let (digest, kept) = self.unseen(policy, request)?;
        let text = kept.value.to_string();
        let line = cleaner.line(&text, usize::MAX / 8);
        let shown = ends(&line, SHOWN);
        // Where it cannot be noted, they see what is shown here.
        let readable = self.results().ask(digest).is_ok() && shown != line;
        let rest = if readable {
            format!(" ALL OF IT: `airlock tool call {TOOL} digest={digest}`")
        } else {
            String::new()
        };
        let (rules, places) = (rules(&kept.flags), kept.places(cleaner));
        Some(Diff {
            digest: Digest::of(text.as_bytes()),
            summary: format!(
                "{} ({rules}) FLAGGED: {places} WHOLE: {shown}{rest}",
                kept.origin
            )
            .into(),
        })
    }

    /// Notes that a result was read that a person had to look at, so that the rest of it is nobody's
    /// question any more.
    pub(crate) fn result_was_reviewed(&self, digest: Digest) -> Result<(), ToolFailure> {
        let noted = self.results().release(digest);
        noted.map_err(|error| ToolFailure::Control {
            what: format!("cannot note that the result was looked at: {error}"),
            fix: "make room in the state directory, and call it again",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::Timestamp;
    use std::fs::File;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::SystemTime;

    #[test]
    fn old_results_go_once_a_minute_and_before_there_is_too_much() {
        let place = tempfile::tempdir().unwrap();
        let time = Arc::new(AtomicI64::new(0));
        let told = Arc::clone(&time);
        let clock = Clock::from_fn(move || Timestamp::from_micros(told.load(Ordering::SeqCst)));
        let results = Results::of(place.path()).by(&clock);
        let old = place.path().join("results/old");
        std::fs::create_dir(place.path().join("results")).unwrap();
        let put = || {
            let file = File::create(&old).unwrap();
            let then = SystemTime::now() - 2 * AGE;
            file.set_modified(then).unwrap();
        };
        let kept = |more: u64| {
            results.make_room(more).unwrap();
            old.exists()
        };
        put();
        assert!(!kept(1), "at first");
        put();
        assert!(kept(1), "it was just looked at");
        time.fetch_add(LOOK_MICROS, Ordering::SeqCst);
        assert!(!kept(1), "a minute later");
        put();
        let longest = LONGEST as u64;
        for round in 1..MOST / longest {
            assert!(kept(longest), "{round}");
        }
        assert!(!kept(longest), "there would be too much");
    }
}
