//! Looks at every request before the protocol does.
//!
//! A page in a browser can send requests to this machine, also by a name of its own that leads here
//! (DNS rebinding). It cannot choose `Host` and `Origin`, so both must be this server's own; and it
//! does not know the token.

use super::Service;
use super::reply::{Reply, error, refuse};
use super::sessions::Sessions;
use crate::admit;
use crate::token::Token;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use rmcp::model::JsonRpcError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service as _;

/// The one path there is.
pub(crate) const PATH: &str = "/mcp";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);

pub(super) struct Guard {
    /// What `Host` may be.
    authorities: Vec<String>,
    token: Token,
    sessions: Arc<Sessions>,
    service: Service,
}

impl Guard {
    pub(super) fn new(
        address: SocketAddr,
        token: Token,
        sessions: Arc<Sessions>,
        service: Service,
    ) -> Self {
        Self {
            authorities: authorities(address),
            token,
            sessions,
            service,
        }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Reply {
        match self.admit(request).await {
            Ok(request) => match self.service.clone().call(request).await {
                Ok(reply) => reply,
                Err(never) => match never {},
            },
            Err(reply) => *reply,
        }
    }

    async fn admit(&self, request: Request<Incoming>) -> Result<Request<Full<Bytes>>, Box<Reply>> {
        if request.uri().path() != PATH || request.uri().query().is_some() {
            return Err(refused(StatusCode::NOT_FOUND, "there is only /mcp here"));
        }
        look_at(request.headers(), &self.authorities, &self.token)?;
        if ![Method::GET, Method::POST, Method::DELETE].contains(request.method()) {
            let why = "use GET, POST or DELETE";
            return Err(refused(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let posted = request.method() == Method::POST;
        let (head, body) = request.into_parts();
        let body = arrive(body).await?;
        if posted {
            self.look_into(&head.headers, &body)?;
        }
        Ok(Request::from_parts(head, Full::new(body)))
    }

    /// Bounds what a client has in flight, and what it sends.
    fn look_into(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Box<Reply>> {
        let spoken = |refusal: JsonRpcError| Box::new(error(&refusal));
        let message = admit::message(body).map_err(spoken)?;
        let Some(session) = headers.get(SESSION) else {
            // Only a new session can be meant.
            let why = "there are too many sessions: end one, or wait";
            return if self.sessions.is_full() {
                Err(refused(StatusCode::SERVICE_UNAVAILABLE, why))
            } else {
                Ok(())
            };
        };
        let session = session.to_str().unwrap_or_default();
        match self.sessions.in_flight(session) {
            Some(in_flight) => in_flight.receive(&message).map_err(spoken),
            // The protocol has its own answer to a session that is not there.
            None => Ok(()),
        }
    }
}

fn refused(status: StatusCode, why: &'static str) -> Box<Reply> {
    Box::new(refuse(status, why))
}

/// Names by which a client on this machine reaches `address`.
fn authorities(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let mut names = vec![address.to_string(), format!("localhost:{port}")];
    if port == 80 {
        names.extend([address.ip().to_string(), "localhost".to_owned()]);
    }
    names
}

/// Where it was sent to, where it comes from, and whether it may.
fn look_at(headers: &HeaderMap, authorities: &[String], token: &Token) -> Result<(), Box<Reply>> {
    let own = |name: &str| authorities.iter().any(|own| own.eq_ignore_ascii_case(name));
    let host = only(headers, &HOST).map_err(|()| {
        refused(StatusCode::BAD_REQUEST, "there is more than one Host")
    })?;
    if !host.is_some_and(own) {
        return Err(refused(StatusCode::FORBIDDEN, "the Host is not this server"));
    }
    let origin = only(headers, &ORIGIN);
    let from_here = match origin {
        Ok(None) => true,
        Ok(Some(origin)) => origin.strip_prefix("http://").is_some_and(own),
        Err(()) => false,
    };
    if !from_here {
        return Err(refused(StatusCode::FORBIDDEN, "the Origin is not this server"));
    }
    let mut given = headers.get_all(AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (Some(header), None) if token.is_in(header.as_bytes()) => Ok(()),
        _ => Err(refused(
            StatusCode::UNAUTHORIZED,
            "a bearer token is needed: `airlock mcp serve` says where it is",
        )),
    }
}

/// The value of a field that must not be there twice; what is not text is no value of ours.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// The whole body, within bounds.
async fn arrive(body: Incoming) -> Result<Bytes, Box<Reply>> {
    let whole = Limited::new(body, admit::MOST_BYTES).collect();
    match tokio::time::timeout(ARRIVAL, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let why = "a request holds at most 4 MiB";
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, "the request broke off")),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the request came too slowly")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: &str = "0123456789abcdef0123456789abcdef";

    fn token() -> Token {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, WORD).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        Token::load_or_make(&file).unwrap()
    }

    fn status(fields: &[(&str, &str)], address: &str) -> Option<StatusCode> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        let authorities = authorities(address.parse().unwrap());
        look_at(&headers, &authorities, &token()).err().map(|reply| reply.status())
    }

    #[test]
    fn only_who_comes_by_this_server_s_name_with_its_token_is_let_in() {
        let bearer = format!("Bearer {WORD}");
        let (forbidden, bad) = (Some(StatusCode::FORBIDDEN), Some(StatusCode::BAD_REQUEST));
        let unknown = Some(StatusCode::UNAUTHORIZED);
        let host = ("host", "127.0.0.1:7000");
        let may = ("authorization", bearer.as_str());
        for (fields, want) in [
            (vec![host, may], None),
            (vec![("host", "localhost:7000"), may], None),
            (vec![("host", "LOCALHOST:7000"), may], None),
            (vec![host, may, ("origin", "http://127.0.0.1:7000")], None),
            (vec![host, may, ("origin", "http://localhost:7000")], None),
            (vec![may], forbidden),
            (vec![("host", "evil.example"), may], forbidden),
            (vec![("host", "evil.example:7000"), may], forbidden),
            (vec![("host", "127.0.0.1:7001"), may], forbidden),
            (vec![("host", "127.0.0.1"), may], forbidden),
            (vec![("host", "localhost:7000.evil.example"), may], forbidden),
            (vec![("host", "evil.example@127.0.0.1:7000"), may], forbidden),
            (vec![("host", "[::1]:7000"), may], forbidden),
            (vec![host, ("host", "evil.example"), may], bad),
            (vec![host, may, ("origin", "null")], forbidden),
            (vec![host, may, ("origin", "")], forbidden),
            (vec![host, may, ("origin", "https://127.0.0.1:7000")], forbidden),
            (vec![host, may, ("origin", "http://evil.example")], forbidden),
            (vec![host, may, ("origin", "http://localhost:3000")], forbidden),
            (vec![host, may, ("origin", "http://127.0.0.1:7000/")], forbidden),
            (
                vec![host, may, ("origin", "http://127.0.0.1:7000"), ("origin", "http://evil.example")],
                forbidden,
            ),
            (vec![host], unknown),
            (vec![host, ("authorization", "Bearer wrong")], unknown),
            (vec![host, ("authorization", "Bearer wrong"), may], unknown),
            (vec![host, may, may], unknown),
        ] {
            assert_eq!(status(&fields, "127.0.0.1:7000"), want, "{fields:?}");
        }
        assert_eq!(status(&[("host", "[::1]:7000"), may], "[::1]:7000"), None);
    }
}
