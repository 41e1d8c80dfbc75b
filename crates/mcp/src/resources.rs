//! Resources: the policy in force, and what was recorded of this client's session.
//!
//! Each is a tool call under another name, so policy decides about it like about any other.

use airlock_kernel::{Denied, Outcome};
use rmcp::model::{
    ErrorCode, ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};

const POLICY: &str = "airlock://policy";
const TAIL: &str = "airlock://audit/tail";
const TEMPLATE: &str = "airlock://audit/tail/{count}";

/// What a resource is read by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
}

pub(crate) fn list() -> Vec<Resource> {
    vec![
        Resource::new(POLICY, "policy")
            .with_title("Policy in force")
            .with_description("The rules that every tool call here is decided by")
            .with_mime_type("application/yaml"),
        Resource::new(TAIL, "audit-tail")
            .with_title("Own audit records")
            .with_description("The newest audit records of this session, oldest first")
            .with_mime_type("application/json"),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(TEMPLATE, "audit-tail-of")
            .with_title("Own audit records, so many")
            .with_description("The newest `count` audit records of this session: 1 to 200")
            .with_mime_type("application/json"),
    ]
}

/// What `uri` names. Anything that is not exactly one of ours names nothing.
pub(crate) fn find(uri: &str) -> Result<Reading, ErrorData> {
    let reading = |tool, arguments| Ok(Reading { tool, arguments });
    match uri {
        POLICY => reading("session.policy", json!({})),
        TAIL => reading("session.log", json!({})),
        other => {
            let count = other
                .strip_prefix(TAIL)
                .and_then(|rest| rest.strip_prefix('/'))
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse::<u32>().ok());
            match count {
                Some(count) => reading("session.log", json!({ "limit": count })),
                None => Err(absent(other)),
            }
        }
    }
}

fn absent(uri: &str) -> ErrorData {
    let uri: String = airlock_kernel::sanitise_line(uri, 100);
    let known = json!({ "resources": [POLICY, TAIL], "templates": [TEMPLATE] });
    ErrorData::resource_not_found(format!("there is no resource `{uri}`"), Some(known))
}

/// What came of reading `uri`.
pub(crate) fn contents(uri: String, outcome: Outcome) -> Result<ReadResourceResult, ErrorData> {
    match outcome {
        Outcome::Done(done) => {
            let (text, kind) = match done.value.get("text").and_then(Value::as_str) {
                Some(text) => (text.to_owned(), "application/yaml"),
                None => (done.value.to_string(), "application/json"),
            };
            let contents = ResourceContents::text(text, uri).with_mime_type(kind);
            Ok(ReadResourceResult::new(vec![contents]))
        }
        Outcome::Denied(denied) => Err(refused(&denied)),
        Outcome::NeedsReview(review) => Err(ErrorData::new(
            ErrorCode::INVALID_REQUEST,
            "a person has to approve this reading first",
            Some(json!({
                "status": "needs_review",
                "approval": review.approval.id.to_string(),
                "how": review.how_to_answer(),
            })),
        )),
        Outcome::Failed(failed) => Err(ErrorData::new(
            if failed.code == "invalid_arguments" {
                ErrorCode::INVALID_PARAMS
            } else {
                ErrorCode::INTERNAL_ERROR
            },
            failed.what.clone(),
            Some(json!({ "code": failed.code, "fix": failed.fix })),
        )),
    }
}

fn refused(denied: &Denied) -> ErrorData {
    let explanation = &denied.explanation;
    ErrorData::new(
        ErrorCode::INVALID_REQUEST,
        explanation.headline().to_owned(),
        Some(json!({
            "status": "denied",
            "reasons": explanation.reasons().collect::<Vec<_>>(),
            "fixes": explanation.fixes().collect::<Vec<_>>(),
        })),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_resources() {
        for uri in [
            POLICY,
            TAIL,
            "airlock://audit/tail/1",
            "airlock://audit/tail/007",
        ] {
            assert!(find(uri).is_ok(), "{uri}");
        }
        for uri in [
            "",
            "airlock://",
            "airlock://policy/",
            "airlock://policy/../audit/tail",
            "AIRLOCK://policy",
            "airlock://audit/tail/",
            "airlock://audit/tail/-1",
            "airlock://audit/tail/+1",
            "airlock://audit/tail/1/2",
            "airlock://audit/tail/99999999999999999999",
            "airlock://audit/tail/%31",
            "airlock://audit/tail?session=other",
            "file:///etc/passwd",
            "airlock://policy\0",
        ] {
            let error = find(uri).unwrap_err();
            assert_eq!(error.code, ErrorCode::RESOURCE_NOT_FOUND, "{uri}");
        }
    }
}
