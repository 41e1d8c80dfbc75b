//! Decoders for hosts and addresses.

use super::code;
use super::problems::{Problems, shown};
use super::scalar::line;
use super::tree::Node;
use std::net::IpAddr;
use std::sync::Arc;

/// A host in lower case: a name, `*.` and a name, or an address.
pub(crate) fn host(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "a host", problems)?;
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_prefix("*.").unwrap_or(&lower);
    if is_host_name(name) {
        return Some(Arc::from(lower));
    }
    if let Ok(address) = lower.parse::<IpAddr>() {
        return Some(address.to_canonical().to_string().into());
    }
    let fix = if text == "*" {
        "name the hosts; every host at once cannot be granted"
    } else if text.contains("://") || text.contains('/') {
        "leave out scheme and path: only the host name"
    } else if text.contains(':') {
        "give the port in `port`"
    } else if !text.is_ascii() {
        "write the name in its `xn--` form"
    } else {
        "write a name such as `example.org`, or `*.example.org` for every name below it"
    };
    problems.error(
        code::HOST,
        node.spot,
        format!("`{}` is not a host", shown(text)),
        fix,
    );
    None
}

fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name that ends in a number would be read as an IPv4 address by resolvers.
    let numeric = |label: &str| {
        label.bytes().all(|b| b.is_ascii_digit())
            || (label.starts_with("0x") && label.bytes().skip(2).all(|b| b.is_ascii_hexdigit()))
    };
    text.len() <= 253 && text.split('.').all(label) && !text.rsplit('.').next().is_some_and(numeric)
}

/// An address, or a block of addresses such as `10.0.0.0/8`.
pub(crate) fn address(node: &Node, problems: &mut Problems) -> Option<Arc<str>> {
    let text = line(node, "an address", problems)?;
    let (base, bits) = text
        .split_once('/')
        .map_or((text, None), |(base, bits)| (base, Some(bits)));
    let most = base
        .parse()
        .ok()
        .map(|base: IpAddr| if base.is_ipv4() { 32 } else { 128 });
    // A block of every address would undo the protection of the host's own network.
    let fits = |bits: &str| {
        bits.parse::<u8>()
            .ok()
            .is_some_and(|bits| (8..=most.unwrap_or(0)).contains(&bits))
    };
    if most.is_some() && bits.is_none_or(fits) {
        return Some(Arc::from(text));
    }
    problems.error(
        code::ADDRESS,
        node.spot,
        format!(
            "`{}` is not an address or a block of addresses",
            shown(text)
        ),
        "write `127.0.0.1`, or a block of `/8` or narrower such as `10.1.0.0/16`",
    );
    None
}
