//! Hosts in the one spelling that is compared.
//!
//! A resolver takes many spellings for one host: other cases, a final dot, brackets, addresses in
//! octal, hexadecimal or as one number, IPv4 inside IPv6. Whoever compares hosts compares what
//! [`canonical_host`] makes of them, or a denial of one spelling would let another through.
//!
//! Not guaranteed: that a name does not resolve to a denied address; whoever connects judges that.

use std::net::{IpAddr, Ipv4Addr};

/// Longest host name, in bytes.
const NAME_BYTES: usize = 253;
/// Longest label of a host name, in bytes.
const LABEL_BYTES: usize = 63;

/// `text` as hosts are compared: a lower-case name without a final dot, or an address as it is
/// usually written. None for what is no host: a port, a user, other scripts, spaces, empty labels.
pub fn canonical_host(text: &str) -> Option<String> {
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => text.strip_suffix('.').unwrap_or(text),
    };
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(address.to_canonical().to_string());
    }
    let name = bare.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    if text.starts_with('[') || !is_name(&name) {
        return None;
    }
    if is_number(last) {
        return old_address(&name).map(|address| address.to_string());
    }
    Some(name)
}

fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=LABEL_BYTES).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.len() <= NAME_BYTES && text.split('.').all(label)
}

fn is_number(label: &str) -> bool {
    label.strip_prefix("0x").map_or_else(
        || label.bytes().all(|b| b.is_ascii_digit()),
        |hex| hex.bytes().all(|b| b.is_ascii_hexdigit()),
    )
}

/// An IPv4 address as old resolvers read it: one to four numbers, the last filling what is left.
fn old_address(text: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, bytes) = numbers.split_last()?;
    let mut value: u32 = 0;
    for byte in bytes {
        let byte = u8::try_from(*byte).ok()?;
        value = value << 8 | u32::from(byte);
    }
    let left = 4usize.checked_sub(bytes.len()).filter(|left| *left > 0)?;
    let bits = u32::try_from(8 * left).ok()?;
    let fits = bits == 32 || *last < 1 << bits;
    let high = value.checked_shl(bits).unwrap_or(0);
    fits.then(|| Ipv4Addr::from(high | last))
}

fn number(text: &str) -> Option<u32> {
    match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(""), _) => Some(0),
        (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8).ok(),
        (None, _) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_of_a_host_is_one() {
        for (text, want) in [
            ("Example.ORG", Some("example.org")),
            ("example.org.", Some("example.org")),
            ("example.org..", None),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("bücher.example", None),
            ("127.1", Some("127.0.0.1")),
            ("0x7f.1", Some("127.0.0.1")),
            ("0177.0.0.1", Some("127.0.0.1")),
            ("2130706433", Some("127.0.0.1")),
            ("0x7f000001", Some("127.0.0.1")),
            ("256.1", None),
            ("1.2.3.4.5", None),
            ("08.1", None),
            ("4294967296", None),
            ("[::1]", Some("::1")),
            ("0:0::1", Some("::1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("[::1", None),
            ("[example.org]", None),
            ("::1%eth0", None),
            ("a:443", None),
            ("u@a", None),
            ("", None),
            (".", None),
            ("a b", None),
            ("a\0b", None),
        ] {
            assert_eq!(canonical_host(text).as_deref(), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_canonical_host_is_its_own_canonical_form(text in "[a-fx0-9A-F.:\\[\\]-]{0,20}") {
            if let Some(host) = canonical_host(&text) {
                prop_assert_eq!(canonical_host(&host), Some(host.clone()));
            }
        }
    }
}
