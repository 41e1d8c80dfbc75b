//! Which addresses a host's name may lead to.
//!
//! A name out there that leads to this machine, or to the network it stands in, is a way around the
//! decision, which saw the name alone. Whoever means such an address writes it down as it is.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long finding out addresses and connecting may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects to `host`, whose name was decided on.
pub(super) fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let until = Instant::now() + PATIENCE;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name leads nowhere");
    for address in addresses(host, port)? {
        if !is_named(host) && !is_public(address.ip()) {
            let what = format!(
                "the name leads to `{}`, which is no public address",
                address.ip()
            );
            last = io::Error::new(io::ErrorKind::PermissionDenied, what);
            continue;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The resolver cannot be interrupted, so it is left behind when it takes too long.
fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (found, waiting) = mpsc::channel();
    let host = host.to_owned();
    std::thread::Builder::new()
        .name("resolver".to_owned())
        .spawn(move || {
            let resolved = (host.as_str(), port)
                .to_socket_addrs()
                .map(|addresses| addresses.take(8).collect());
            // Whoever asked may be gone.
            let _ = found.send(resolved);
        })?;
    waiting
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether the host is an address, or this machine, by name: then that is what was decided on.
fn is_named(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok()
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

/// The address of the older kind that one of the newer kind stands for.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let last = |segments: [u16; 8]| {
        let [.., high, low] = segments;
        Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(last(segments)),
        [0x2002, high, low, ..] => Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        _ => None,
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Nothing else is given out for use on the net.
    (0x2000..0x4000).contains(&first) && !(first == 0x2001 && (second < 0x200 || second == 0xdb8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_network_are_told_from_public_ones() {
        for (text, public) in [
            ("93.184.216.34", true),
            ("1.1.1.1", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("198.18.0.1", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("2606:4700::1111", true),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fc00::1", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("2001::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("64:ff9b::a9fe:a9fe", false),
            ("2002:7f00:1::", false),
            ("::127.0.0.1", false),
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(is_public(address), public, "{text}");
        }
    }

    #[test]
    fn a_name_must_not_lead_to_this_machine_unless_it_says_so() {
        // The resolver answers this name by itself, wherever there is one.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(connect("localhost", port).is_ok());
        assert!(connect("127.0.0.1", port).is_ok());
        if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
            assert!(connect(name.trim(), port).is_err());
        }
    }
}
