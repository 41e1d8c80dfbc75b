//! Looks at every request before the protocol does.
//!
//! A page in a browser can send requests to this machine, also by a name of its own that leads here
//! (DNS rebinding). It cannot choose `Host` and `Origin`, so both must be this server's own; and it
//! does not know the token.

use super::Service;
use super::places::Place;
use super::reply::{Refused, Reply, error, refuse};
use super::sessions::Sessions;
use crate::admit;
use crate::in_flight::InFlight;
use crate::token::Token;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use rmcp::model::{JsonRpcMessage, RequestId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service as _;

/// The one path there is.
pub(crate) const PATH: &str = "/mcp";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

pub(super) struct Guard {
    /// What `Host` may be.
    authorities: Vec<String>,
    token: Token,
    sessions: Arc<Sessions>,
    service: Service,
    /// How long a body may take to arrive.
    arrival: Duration,
}

impl Guard {
    pub(super) fn new(
        address: SocketAddr,
        token: Token,
        sessions: Arc<Sessions>,
        service: Service,
        arrival: Duration,
    ) -> Self {
        Self {
            authorities: authorities(address),
            token,
            sessions,
            service,
            arrival,
        }
    }

    /// The answer to a request on the connection that has `place`.
    pub(super) async fn answer(&self, request: Request<Incoming>, place: &Place) -> Reply {
        let (request, begun) = match self.admit(request, place).await {
            Ok(admitted) => admitted,
            Err(refused) => return refused.into_reply(),
        };
        let reply = match self.service.clone().call(request).await {
            Ok(reply) => reply,
            Err(never) => match never {},
        };
        if !reply.status().is_success()
            && let Some(begun) = begun
        {
            begun.end();
        }
        reply
    }

    async fn admit(
        &self,
        request: Request<Incoming>,
        place: &Place,
    ) -> Result<(Request<Full<Bytes>>, Option<Begun>), Refused> {
        if request.uri().path() != PATH || request.uri().query().is_some() {
            return Err(refuse(StatusCode::NOT_FOUND, "there is only /mcp here"));
        }
        look_at(request.headers(), &self.authorities, &self.token)?;
        if !place.admit().await {
            let why = "there are too many connections: try again";
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        if ![Method::GET, Method::POST, Method::DELETE].contains(request.method()) {
            let why = "use GET, POST or DELETE";
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let posted = request.method() == Method::POST;
        let (head, body) = request.into_parts();
        let body = arrive(body, self.arrival).await?;
        let begun = if posted {
            self.look_into(&head.headers, &body)?
        } else {
            None
        };
        Ok((Request::from_parts(head, Full::new(body)), begun))
    }

    /// Bounds what a client has in flight, and what it sends.
    fn look_into(&self, headers: &HeaderMap, body: &[u8]) -> Result<Option<Begun>, Refused> {
        let message = admit::message(body).map_err(|refusal| error(&refusal))?;
        let Some(session) = headers.get(SESSION) else {
            // Only a new session can be meant.
            if self.sessions.is_full() {
                let why = "there are too many sessions: end one, or wait";
                return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, why));
            }
            return Ok(None);
        };
        let session = session.to_str().unwrap_or_default();
        // The protocol has its own answer to a session that is not there.
        let Some(in_flight) = self.sessions.in_flight(session) else {
            return Ok(None);
        };
        in_flight
            .receive(&message)
            .map_err(|refusal| error(&refusal))?;
        let JsonRpcMessage::Request(request) = message else {
            return Ok(None);
        };
        Ok(Some(Begun(in_flight, request.id)))
    }
}

/// A request that counts as unanswered.
struct Begun(Arc<InFlight>, RequestId);

impl Begun {
    /// It was not even taken, so no answer will end it.
    fn end(self) {
        self.0.forget(&self.1);
    }
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
fn look_at(headers: &HeaderMap, authorities: &[String], token: &Token) -> Result<(), Refused> {
    let own = |name: &str| authorities.iter().any(|own| own.eq_ignore_ascii_case(name));
    let host = only(headers, &HOST)
        .map_err(|()| refuse(StatusCode::BAD_REQUEST, "there is more than one Host"))?;
    if !host.is_some_and(own) {
        return Err(refuse(StatusCode::FORBIDDEN, "the Host is not this server"));
    }
    let origin = only(headers, &ORIGIN);
    let from_here = match origin {
        Ok(None) => true,
        Ok(Some(origin)) => origin.strip_prefix("http://").is_some_and(own),
        Err(()) => false,
    };
    if !from_here {
        return Err(refuse(
            StatusCode::FORBIDDEN,
            "the Origin is not this server",
        ));
    }
    let mut given = headers.get_all(AUTHORIZATION).iter();
    match (given.next(), given.next()) {
        (Some(header), None) if token.is_in(header.as_bytes()) => Ok(()),
        _ => Err(refuse(
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
async fn arrive(body: Incoming, patience: Duration) -> Result<Bytes, Refused> {
    let whole = Limited::new(body, admit::MOST_BYTES).collect();
    match tokio::time::timeout(patience, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let why = "a request holds at most 4 MiB";
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Ok(Err(_)) => Err(refuse(StatusCode::BAD_REQUEST, "the request broke off")),
        Err(_) => Err(refuse(
            StatusCode::REQUEST_TIMEOUT,
            "the request came too slowly",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const WORD: &str = "0123456789abcdef0123456789abcdef";

    fn token() -> Token {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, WORD).unwrap();
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
        look_at(&headers, &authorities, &token())
            .err()
            .map(|refused| refused.into_reply().status())
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
            (
                vec![("host", "localhost:7000.evil.example"), may],
                forbidden,
            ),
            (
                vec![("host", "evil.example@127.0.0.1:7000"), may],
                forbidden,
            ),
            (vec![("host", "[::1]:7000"), may], forbidden),
            (vec![host, ("host", "evil.example"), may], bad),
            (vec![host, may, ("origin", "null")], forbidden),
            (vec![host, may, ("origin", "")], forbidden),
            (
                vec![host, may, ("origin", "https://127.0.0.1:7000")],
                forbidden,
            ),
            (
                vec![host, may, ("origin", "http://evil.example")],
                forbidden,
            ),
            (
                vec![host, may, ("origin", "http://localhost:3000")],
                forbidden,
            ),
            (
                vec![host, may, ("origin", "http://127.0.0.1:7000/")],
                forbidden,
            ),
            (
                vec![
                    host,
                    may,
                    ("origin", "http://127.0.0.1:7000"),
                    ("origin", "http://evil.example"),
                ],
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
