//! Requests: the host is the definition's, and values stay where the mapping puts them.

use super::arguments::{ArgumentError, Interface};
use super::how::{Place, SCALARS, input, one};
use airlock_yaml::{Mapping, Names, Node, Problems, code};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A request to a host. Which host is fixed by the definition.
#[derive(Debug, Clone)]
pub struct Api {
    /// `GET`, `POST`, ...
    pub method: &'static str,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    path: Vec<Place>,
    query: BTreeMap<String, String>,
    body: bool,
}

/// A request as it would be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Path and query, percent-encoded.
    pub target: String,
    /// The body, as JSON.
    pub body: Option<String>,
}

impl Api {
    pub(super) fn parse(
        node: &Node,
        interface: &Interface,
        problems: &mut Problems,
    ) -> Option<Self> {
        let mut fields = Mapping::of(node, "`api`", problems)?;
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map(|word| (word, word));
        let method = fields
            .need("method", problems)
            .and_then(|node| node.word("method", &methods, problems));
        let url = fields
            .need("url", problems)
            .and_then(|node| url(node, interface, problems));
        let pairs = fields
            .get("query")
            .and_then(|node| node.pairs(Names::Field, 50, problems));
        let mut query = BTreeMap::new();
        for (name, node) in pairs.unwrap_or_default() {
            if let Some(from) = input(node, interface, SCALARS, problems) {
                query.insert(name.to_owned(), from);
            }
        }
        let bodies = [("json", true), ("none", false)];
        let body = fields
            .get("body")
            .map_or(Some(false), |node| node.word("body", &bodies, problems));
        fields.close(problems);
        let (host, port, path) = url?;
        Some(Self {
            method: method?,
            host,
            port,
            path,
            query,
            body: body?,
        })
    }

    /// Path and query, with the names of inputs where their values will be: `/items/<id>?q=<text>`.
    pub fn pattern(&self) -> String {
        let mut target: String = self.path.iter().map(Place::pattern).collect();
        let mut separator = '?';
        for (name, from) in &self.query {
            // Writing to a `String` cannot fail.
            let _ = write!(target, "{separator}{name}=<{from}>");
            separator = '&';
        }
        target
    }

    /// Whether the arguments are sent as the body.
    pub fn has_body(&self) -> bool {
        self.body
    }

    /// What would be sent for checked `arguments`.
    pub fn call(&self, arguments: &Map<String, Value>) -> Result<Call, ArgumentError> {
        let mut target = String::new();
        for place in &self.path {
            match place {
                Place::Fixed(text) => target.push_str(text),
                Place::From(name) => {
                    let value = arguments.get(name).ok_or_else(|| {
                        ArgumentError::new(
                            name,
                            "this is missing, and the path needs it",
                            "give it",
                        )
                    })?;
                    let value = one(name, value)?;
                    // These two mean another path, encoded or not.
                    if value.is_empty() || value == "." || value == ".." {
                        let what = format!("`{value}` cannot be part of a path");
                        return Err(ArgumentError::new(name, what, "give a name"));
                    }
                    target.push_str(&encoded(&value));
                }
            }
        }
        let mut separator = '?';
        for (name, from) in &self.query {
            if let Some(value) = arguments.get(from) {
                target.push(separator);
                let value = encoded(&one(from, value)?);
                target.extend([name, "=", value.as_str()]);
                separator = '&';
            }
        }
        let body = self
            .body
            .then(|| Value::Object(arguments.clone()).to_string());
        Ok(Call { target, body })
    }
}

type Parsed = (String, u16, Vec<Place>);

/// `https://host[:port]/path/{input}`: nothing but the path may hold inputs.
fn url(node: &Node, interface: &Interface, problems: &mut Problems) -> Option<Parsed> {
    let text = node.text(problems)?;
    let mut refuse = |what: &str| {
        let fix = "write `https://host/path`, with inputs as `{name}` in the path only";
        problems.error(code::VALUE, node.spot, what, fix);
    };
    let Some(rest) = text.strip_prefix("https://") else {
        refuse("this is no https address");
        return None;
    };
    let (authority, path) = rest
        .find('/')
        .and_then(|at| rest.split_at_checked(at))
        .unwrap_or((rest, "/"));
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "443"));
    let host = airlock_core::canonical_host(host).filter(|host| !host.is_empty());
    let (Some(host), Ok(port)) = (host, port.parse::<u16>()) else {
        refuse("this address has no host, or a host that is not fixed");
        return None;
    };
    if path.contains(['?', '#']) || path.contains(char::is_whitespace) {
        refuse("a path has no query, fragment or space");
        return None;
    }
    let mut places = Vec::new();
    for (index, piece) in path.split('{').enumerate() {
        if index == 0 {
            places.push(Place::Fixed(piece.to_owned()));
            continue;
        }
        let Some((name, after)) = piece.split_once('}') else {
            refuse("a brace is not closed");
            return None;
        };
        let Some(schema) = interface.input.property(name) else {
            let known: Vec<&str> = interface.input.names().collect();
            problems.unknown(code::REFERENCE, node.spot, ("input", name), &known);
            return None;
        };
        if !SCALARS.iter().any(|one| schema.is_only(one)) {
            refuse("an input in a path has to be a single value");
            return None;
        }
        places.push(Place::From(name.to_owned()));
        places.push(Place::Fixed(after.to_owned()));
    }
    Some((host, port, places))
}

/// Everything but unreserved characters is percent-encoded, so a value stays in its place.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
