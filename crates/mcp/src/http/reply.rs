//! Answers of the guard itself.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::model::{ErrorCode, JsonRpcError};
use std::convert::Infallible;

pub(super) type Reply = Response<BoxBody<Bytes, Infallible>>;

/// A request that goes no further.
pub(super) struct Refused(Box<Reply>);

impl Refused {
    pub(super) fn into_reply(self) -> Reply {
        *self.0
    }
}

/// A refusal, after which the connection is closed: who is refused does not keep a place.
pub(super) fn refuse(status: StatusCode, why: &'static str) -> Refused {
    let mut reply = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"airlock\""),
        );
    }
    Refused(Box::new(reply))
}

/// A refusal in the protocol's own words.
pub(super) fn error(error: &JsonRpcError) -> Refused {
    let body = serde_json::to_vec(error).unwrap_or_default();
    let mut reply = Response::new(Full::new(Bytes::from(body)).boxed());
    *reply.status_mut() = match error.error.code {
        ErrorCode(-32000) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    reply.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Refused(Box::new(reply))
}
