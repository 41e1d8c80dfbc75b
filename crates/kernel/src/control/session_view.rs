//! `session.policy` and `session.log`: what a session may know of itself.
//!
//! Guarantee: the log shows records of the caller's own session and of no other, and of them what
//! was decided, not what was said. A caller outside any session is shown what its own process did
//! outside any. Non-guarantee: clients of one process that have no session are not told apart there,
//! the newest records may still be on their way to disk, and of a log with many other records only
//! the newest are looked through.

use super::arguments;
use crate::beneath::Root;
use crate::policy_store::PolicyStore;
use crate::tools::{
    InvalidArguments, Keep, Prepared, RunContext, Tool, ToolFailure, ToolOutput, ToolSchema,
    ToolSpec,
};
use airlock_audit::{Filter, ReadError, Record, read_log};
use airlock_core::{Caller, Request, RequestPath, Tier};
use airlock_sanitise::weight;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Most records of one answer.
const MOST: u32 = 200;
/// Records looked through for those of one session.
const LOOKED_AT: u64 = 20_000;
/// What an answer has besides its records, and besides what is in each.
const BESIDE: u64 = 256;
const EACH: u64 = 4;

/// Nothing to say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PolicyArguments {}

/// Which records are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogArguments {
    /// How many of the newest records: 1 to 200. Absent: 50.
    #[serde(default)]
    limit: Option<u32>,
}

const fn view(
    name: &'static str,
    summary: &'static str,
    schema: ToolSchema,
    keep: Keep,
    examples: &'static [&'static str],
) -> ToolSpec {
    ToolSpec {
        name,
        summary,
        syscall: name,
        tier: Tier::Kernel,
        read_only: true,
        keep,
        schema,
        examples,
    }
}

static POLICY: ToolSpec = view(
    "session.policy",
    "Show the policy in force",
    ToolSchema::of::<PolicyArguments>(),
    Keep::Head,
    &["{}"],
);
static LOG: ToolSpec = view(
    "session.log",
    "Show what was recorded of this session",
    ToolSchema::of::<LogArguments>(),
    Keep::Head,
    &["{}", r#"{"limit": 10}"#],
);

pub(super) struct SessionPolicy(Arc<PolicyStore>);

impl SessionPolicy {
    pub(super) fn new(store: &Arc<PolicyStore>) -> Self {
        Self(Arc::clone(store))
    }
}

impl Tool for SessionPolicy {
    fn spec(&self) -> &'static ToolSpec {
        &POLICY
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let PolicyArguments {} = arguments(value)?;
        let store = Arc::clone(&self.0);
        Ok(Box::new(super::Ready(move || {
            let policy = store.current();
            Ok(ToolOutput {
                value: json!({
                    "origin": policy.origin().to_string(),
                    "generation": policy.generation().digest().to_string(),
                    "text": String::from_utf8_lossy(policy.source()),
                }),
                hidden: 0,
            })
        })))
    }
}

pub(super) struct SessionLog(PathBuf);

impl SessionLog {
    pub(super) fn new(store: &Arc<PolicyStore>) -> Self {
        Self(store.workspace().state().path().to_owned())
    }
}

impl Tool for SessionLog {
    fn spec(&self) -> &'static ToolSpec {
        &LOG
    }

    fn prepare(&self, value: &Value, _root: &Root) -> Result<Box<dyn Prepared>, InvalidArguments> {
        let asked: LogArguments = arguments(value)?;
        let limit = asked.limit.unwrap_or(50);
        if !(1..=MOST).contains(&limit) {
            return Err(InvalidArguments {
                at: "limit".to_owned(),
                what: format!("{limit} is not between 1 and {MOST}"),
                fix: None,
            });
        }
        Ok(Box::new(Tail {
            directory: self.0.clone(),
            limit: limit as usize,
            caller: OnceLock::new(),
        }))
    }
}

struct Tail {
    directory: PathBuf,
    limit: usize,
    /// Whose records: the caller's, never an argument.
    caller: OnceLock<Caller>,
}

impl Prepared for Tail {
    fn paths(&self) -> &[RequestPath] {
        &[]
    }

    fn describe(&self, request: &mut Request) {
        let _first = self.caller.set(request.caller.clone());
    }

    fn run(self: Box<Self>, context: &RunContext<'_>) -> Result<ToolOutput, ToolFailure> {
        let Some(caller) = self.caller.get() else {
            return Err(ToolFailure::Cancelled);
        };
        let newest = Filter {
            newest_first: true,
            limit: Some(LOOKED_AT),
            ..Filter::default()
        };
        let unreadable = |error: ReadError| ToolFailure::Control {
            what: format!("the log cannot be read: {error}"),
            fix: "`airlock audit verify` shows what is wrong",
        };
        let mut records = Vec::new();
        let mut left = context.max_output.saturating_sub(BESIDE);
        for record in read_log(&self.directory, newest).map_err(unreadable)? {
            if context.cancelled.load(Ordering::Relaxed) {
                return Err(ToolFailure::Cancelled);
            }
            let record = match record {
                // It keeps nobody from the others.
                Err(ReadError::Record { .. }) => continue,
                record => record.map_err(unreadable)?,
            };
            if record
                .entry
                .caller
                .as_ref()
                .is_some_and(|by| same(by, caller))
            {
                let record = shown(&record);
                let taken = weight(&record) as u64 + EACH;
                // Cut for length, the answer would lose the newest.
                if taken > left && !records.is_empty() {
                    break;
                }
                left = left.saturating_sub(taken);
                records.push(record);
            }
            if records.len() == self.limit {
                break;
            }
        }
        records.reverse();
        let value = match &caller.session {
            Some(session) => json!({ "session": session, "records": records }),
            None => json!({ "records": records }),
        };
        Ok(ToolOutput { value, hidden: 0 })
    }
}

/// Whether a record of `by` is the caller's own: of its session, or where it has none, of the same
/// process acting as the same front for the same user, outside any.
fn same(by: &Caller, caller: &Caller) -> bool {
    let owner = by.tenant == caller.tenant && by.user == caller.user;
    let process = by.plugin == caller.plugin && by.peer == caller.peer;
    owner && by.session == caller.session && (caller.session.is_some() || process)
}

/// What was decided, without what was said.
fn shown(record: &Record) -> Value {
    let entry = &record.entry;
    let decision = entry.decision.as_ref();
    json!({
        "seq": record.sealed.seq(),
        "time": entry.time,
        "event": entry.event.as_str(),
        "stage": entry.stage,
        "action": entry.action,
        "syscall": entry.syscall,
        "tool": entry.tool,
        "verdict": decision.map(|decision| &decision.verdict),
        "rules": decision.map(|decision| &decision.rules),
        "reason": entry.reason,
    })
}
