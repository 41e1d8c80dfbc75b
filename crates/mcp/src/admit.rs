//! What is let in: messages of bounded size and bounded structure, of clients that greet.
//!
//! Size and structure are bounded before anything is parsed. A request that names a revision of its
//! own instead of the one that was agreed upon belongs to no session: there would be nobody whose
//! budget it uses, and nobody to whom an approval that it asks for is given.

use airlock_core::json_values;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetMeta as _, JsonRpcError,
    JsonRpcMessage, ProtocolVersion, RequestId,
};
use serde_json::Value;

/// Most bytes of one message: a written file of a mebibyte, escaped, fits well.
pub(crate) const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Most values in one message.
const MOST_VALUES: usize = 50_000;

/// The revisions that are spoken: those with a handshake, which is what a session begins with.
pub(crate) fn spoken() -> &'static [ProtocolVersion] {
    ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)
}

/// Reads one message, or says to the client why not.
pub(crate) fn message(bytes: &[u8]) -> Result<ClientJsonRpcMessage, JsonRpcError> {
    if bytes.len() > MOST_BYTES {
        return Err(too_large());
    }
    if json_values(bytes) > MOST_VALUES {
        let what = format!("a message holds at most {MOST_VALUES} values");
        return Err(refusal(None, ErrorCode::INVALID_REQUEST, what));
    }
    let message = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            malformed(bytes)
        } else {
            let what = "the message is not JSON".to_owned();
            refusal(None, ErrorCode::PARSE_ERROR, what)
        }
    })?;
    within_a_session(&message)?;
    Ok(message)
}

/// Refuses a request that names its revision by itself. To ask which ones there are is no such
/// request: that is how a client of a later revision learns that it has to greet.
fn within_a_session(message: &ClientJsonRpcMessage) -> Result<(), JsonRpcError> {
    let JsonRpcMessage::Request(request) = message else {
        return Ok(());
    };
    if let ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_) =
        &request.request
    {
        return Ok(());
    }
    let Some(version) = request.request.get_meta().protocol_version() else {
        return Ok(());
    };
    let id = Some(request.id.clone());
    if spoken().contains(&version) {
        let what = "requests are answered in a session: send `initialize` first, and no protocol \
                    version with each request";
        return Err(refusal(id, ErrorCode::INVALID_REQUEST, what.to_owned()));
    }
    let error = ErrorData::unsupported_protocol_version(version, spoken());
    Err(JsonRpcError::new(id, error))
}

pub(crate) fn too_large() -> JsonRpcError {
    let what = format!("a message holds at most {MOST_BYTES} bytes");
    refusal(None, ErrorCode::INVALID_REQUEST, what)
}

pub(crate) fn refusal(id: Option<RequestId>, code: ErrorCode, what: String) -> JsonRpcError {
    JsonRpcError::new(id, ErrorData::new(code, what, None))
}

/// JSON, but not a message.
fn malformed(bytes: &[u8]) -> JsonRpcError {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    if value.is_array() {
        let what = "batches are not part of this protocol: send one message at a time".to_owned();
        return refusal(None, ErrorCode::INVALID_REQUEST, what);
    }
    let id = value.get("id").and_then(|id| match id {
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    });
    let is_versioned = value.get("jsonrpc").is_some_and(|version| version == "2.0");
    let is_named = value.get("method").is_some_and(Value::is_string);
    if is_versioned && is_named && value.get("params").is_some_and(Value::is_array) {
        let what = "the parameters of a method are an object, not a list".to_owned();
        return refusal(id, ErrorCode::INVALID_PARAMS, what);
    }
    let what = "the message is not a JSON-RPC 2.0 request, notification or response".to_owned();
    refusal(id, ErrorCode::INVALID_REQUEST, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(bytes: &[u8]) -> Option<ErrorCode> {
        message(bytes).err().map(|error| error.error.code)
    }

    #[test]
    fn what_is_no_message_is_refused_with_the_protocol_s_code() {
        let parse = Some(ErrorCode::PARSE_ERROR);
        let invalid = Some(ErrorCode::INVALID_REQUEST);
        let deep = [b"[".repeat(40_000), b"]".repeat(40_000)].concat();
        let wide = [&b"["[..], &b"[],".repeat(MOST_VALUES), b"0]"].concat();
        let long = vec![b' '; MOST_BYTES + 1];
        for (bytes, want) in [
            (&br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#[..], None),
            (
                br#"{"jsonrpc":"2.0","method":"notifications/made-up"}"#,
                None,
            ),
            (b"{", parse),
            (b"\xff\xfe", parse),
            (b"nonsense", parse),
            (b"", parse),
            (&deep, parse),
            (&wide, invalid),
            (&long, invalid),
            (b"[]", invalid),
            (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, invalid),
            (b"null", invalid),
            (b"7", invalid),
            (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, invalid),
            (br#"{"id":1,"method":"ping"}"#, invalid),
            (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, invalid),
        ] {
            let shown = String::from_utf8_lossy(bytes.get(..60.min(bytes.len())).unwrap());
            assert_eq!(code(bytes), want, "{shown}");
        }
    }

    #[test]
    fn a_malformed_request_is_answered_by_its_id_where_it_has_one() {
        for (text, id) in [
            (
                r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
                Some(RequestId::String("a".into())),
            ),
            (
                r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
                Some(RequestId::Number(7)),
            ),
            (r#"{"jsonrpc":"1.0","id":[7],"method":"ping"}"#, None),
        ] {
            assert_eq!(message(text.as_bytes()).unwrap_err().id, id, "{text}");
        }
    }

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(fields) => fields.values().map(count).sum::<usize>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_are_never_counted_short(value in json()) {
            prop_assert!(json_values(value.to_string().as_bytes()) >= count(&value));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = message(&bytes);
        }
    }
}
