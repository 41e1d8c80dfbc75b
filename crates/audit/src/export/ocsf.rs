//! Records as events of the Open Cybersecurity Schema Framework, version 1.3.0.
//!
//! Starts and stops of the kernel are Application Lifecycle events (6002), everything else is API
//! Activity (6003) with the syscall, or else the event's own name, as the operation. What has no
//! place in the schema stands under `unmapped`.

use crate::chain::{LogId, Stored};
use crate::{Entry, EventType, Stage};
use airlock_core::{Effect, Syscall};
use serde::Serialize;
use serde_json::{Map, Value, json};

const OCSF_VERSION: &str = "1.3.0";
const CATEGORY: u32 = 6;
const APPLICATION_LIFECYCLE: u32 = 6002;
const API_ACTIVITY: u32 = 6003;

pub(super) fn event(record: &Stored<'_>, entry: &Entry, log: &LogId) -> Value {
    let (class, class_name) = class(entry.event);
    let (activity, activity_name) = activity(entry);
    let (severity, severity_name) = severity(entry);
    let (status, status_name) = status(entry);
    let mut event = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            event.insert(name.to_owned(), value);
        }
    };
    put("category_uid", json!(CATEGORY));
    put("category_name", json!("Application Activity"));
    put("class_uid", json!(class));
    put("class_name", json!(class_name));
    put("activity_id", json!(activity));
    put("activity_name", json!(activity_name));
    put("type_uid", json!(class * 100 + activity));
    put("severity_id", json!(severity));
    put("severity", json!(severity_name));
    put("status_id", json!(status));
    put("status", json!(status_name));
    put("status_detail", json!(entry.reason));
    put(
        "message",
        json!(entry.output.as_ref().or(entry.input.as_ref())),
    );
    put("time", json!(entry.time.as_micros().div_euclid(1_000)));
    // OCSF counts in milliseconds; the exact value is in `unmapped`.
    put("duration", json!(entry.duration.map(|us| us / 1_000)));
    put("metadata", metadata(record, entry, log));
    if class == APPLICATION_LIFECYCLE {
        put("app", json!({"name": "Airlock", "vendor_name": "Airlock"}));
    } else {
        put("api", api(entry));
        put("actor", actor(entry));
        put("src_endpoint", source(entry));
        put("dst_endpoint", destination(entry));
        put("action_id", action(entry));
    }
    put("unmapped", unmapped(record, entry));
    Value::Object(event)
}

const fn class(event: EventType) -> (u32, &'static str) {
    if matches!(event, EventType::KernelStart | EventType::KernelShutdown) {
        (APPLICATION_LIFECYCLE, "Application Lifecycle")
    } else {
        (API_ACTIVITY, "API Activity")
    }
}

fn activity(entry: &Entry) -> (u32, &'static str) {
    if entry.event == EventType::KernelStart {
        return (3, "Start");
    }
    if entry.event == EventType::KernelShutdown {
        return (4, "Stop");
    }
    let syscall = entry.syscall.as_deref();
    let Some(Ok(syscall)) = syscall.map(Syscall::parse) else {
        return (99, "Other");
    };
    let effects = syscall.spec().effects;
    if effects.contains(Effect::Delete) && !effects.contains(Effect::Write) {
        (4, "Delete")
    } else if effects.contains(Effect::Write) {
        (3, "Update")
    } else if effects.contains(Effect::Read) {
        (2, "Read")
    } else {
        (99, "Other")
    }
}

fn severity(entry: &Entry) -> (u32, &'static str) {
    match entry.event {
        EventType::AuditChainBreak => (5, "Critical"),
        EventType::AuditStorageCritical | EventType::InjectionFlagged => (4, "High"),
        EventType::AuditStorageWarning
        | EventType::AuditArchiveDeleted
        | EventType::SandboxFailed
        | EventType::SecretRedacted => (3, "Medium"),
        EventType::Syscall
        | EventType::CapabilityCheck
        | EventType::ToolExecute
        | EventType::ToolResult
        | EventType::StateTransition
        | EventType::PolicyUpdate
        | EventType::SessionModeChange
        | EventType::SandboxCreated
        | EventType::SandboxDestroyed
        | EventType::CapabilityIssued
        | EventType::CapabilityExpired
        | EventType::ApprovalRequested
        | EventType::ApprovalDecided
        | EventType::MergeApproved
        | EventType::MergeRejected
        | EventType::MergeUndone
        | EventType::NetworkConnect
        | EventType::KernelStart
        | EventType::KernelShutdown
        | EventType::Checkpoint
        | EventType::TrustChange
        | EventType::PluginSkipped => match verdict(entry) {
            Some("deny") => (2, "Low"),
            Some(_) | None => (1, "Informational"),
        },
    }
}

fn verdict(entry: &Entry) -> Option<&str> {
    entry.decision.as_ref().map(|decision| &*decision.verdict)
}

/// Under one of these an entry has the word for why nothing came of it.
const FAILED: [&str; 2] = ["failed", "refused"];

/// An attempt has not succeeded yet, whatever was decided. An outcome has no verdict of its own: it
/// is there because the attempt was carried out, or it says why not.
fn status(entry: &Entry) -> (u32, &'static str) {
    let failed = FAILED.iter().any(|name| entry.metadata.contains_key(*name));
    match (verdict(entry), entry.stage) {
        (Some("deny"), _) => (2, "Failure"),
        (_, Stage::Attempt | Stage::Outcome) if failed => (2, "Failure"),
        (_, Stage::Outcome) => (1, "Success"),
        (_, Stage::Attempt | Stage::Note) => (0, "Unknown"),
    }
}

/// 1 is allowed, 2 is denied; a review is neither.
fn action(entry: &Entry) -> Value {
    match verdict(entry) {
        Some("allow") => json!(1),
        Some("deny") => json!(2),
        Some(_) => json!(99),
        None => Value::Null,
    }
}

fn metadata(record: &Stored<'_>, entry: &Entry, log: &LogId) -> Value {
    let mut metadata = json!({
        "version": OCSF_VERSION,
        "product": {"name": "Airlock", "vendor_name": "Airlock"},
        "profiles": ["security_control"],
        "log_name": log,
        "uid": record.digest,
        "sequence": record.seq,
        "event_code": entry.event,
    });
    insert(&mut metadata, "correlation_uid", entry.action.as_ref());
    metadata
}

/// Adds a field to an object, if there is a value for it.
fn insert(object: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let (Some(fields), Some(value)) = (object.as_object_mut(), value) {
        fields.insert(name.to_owned(), json!(value));
    }
}

fn api(entry: &Entry) -> Value {
    let operation = entry.syscall.as_deref().unwrap_or(entry.event.as_str());
    let mut api = json!({"operation": operation, "service": {"name": "airlock"}});
    let request = entry.action.as_ref().map(|action| json!({"uid": action}));
    insert(&mut api, "request", request);
    api
}

fn actor(entry: &Entry) -> Value {
    let Some(caller) = &entry.caller else {
        return json!({"app_name": "airlock"});
    };
    let mut actor = json!({
        "app_name": caller.plugin,
        "user": {"uid": caller.user, "org": {"uid": caller.tenant}},
    });
    let session = caller.session.as_ref();
    insert(&mut actor, "session", session.map(|id| json!({"uid": id})));
    insert(
        &mut actor,
        "process",
        caller.peer.map(|peer| json!({"pid": peer.pid})),
    );
    actor
}

fn source(entry: &Entry) -> Value {
    let caller = entry.caller.as_ref();
    match caller.and_then(|caller| caller.sandbox.as_ref()) {
        Some(sandbox) => json!({"name": "sandbox", "uid": sandbox}),
        None => json!({"name": "local"}),
    }
}

fn destination(entry: &Entry) -> Value {
    let request = entry.request.as_deref();
    match request.and_then(|request| request.host.as_ref().map(|host| (host, request.port))) {
        Some((host, Some(port))) => json!({"hostname": host, "port": port}),
        Some((host, None)) => json!({"hostname": host}),
        None => Value::Null,
    }
}

fn unmapped(record: &Stored<'_>, entry: &Entry) -> Value {
    let caller = entry.caller.as_ref();
    let decision = entry.decision.as_ref();
    let request = entry.request.as_deref();
    let mut unmapped = json!({
        "stage": entry.stage,
        "previous": record.previous,
        "tool": entry.tool,
        "workspace": caller.map(|caller| &caller.workspace),
        "mode": caller.map(|caller| caller.mode),
        "phase": caller.map(|caller| caller.phase),
        "verdict": verdict(entry),
        "rules": decision.map(|decision| &decision.rules),
        "generation": decision.map(|decision| &decision.generation),
        "token": entry.token,
        "sandbox": entry.sandbox,
        "duration_us": entry.duration,
        "input": entry.input,
        "paths": request.map(|request| &request.paths),
        "command": request.map(|request| &request.command),
        "metadata": entry.metadata,
    });
    if let Some(fields) = unmapped.as_object_mut() {
        fields.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        });
    }
    unmapped
}
