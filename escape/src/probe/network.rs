//! Reaching anything over a socket.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{
    Fault, MINUS_ONE, Try, at, call, fd, in_child, nothing, open_call, own_namespaces,
};
use std::os::fd::OwnedFd;

pub(crate) const ATTACKS: &[Entry] = &[
    ("tcp", tcp),
    ("tcp6", tcp6),
    ("udp", udp),
    ("dns", dns),
    ("raw-socket", raw),
    ("packet-socket", packet),
    ("socket-family", family),
    ("multipath", multipath),
    ("abstract-socket", abstract_socket),
    ("abstract-datagram", abstract_datagram),
    ("pathname-socket", pathname_socket),
    ("netlink", netlink),
    ("loopback-up", loopback_up),
    ("socket-ioctl", socket_ioctl),
    ("join-network", join_network),
];

/// `sockaddr_in` of loopback.
fn loopback(port: u16) -> [u8; 16] {
    let mut address = [0_u8; 16];
    address[0] = libc::AF_INET as u8;
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    address
}

/// `sockaddr_in6` of loopback, or of an IPv4 address mapped into it.
fn loopback6(port: u16, mapped: bool) -> [u8; 28] {
    let mut address = [0_u8; 28];
    address[0] = libc::AF_INET6 as u8;
    address[2..4].copy_from_slice(&port.to_be_bytes());
    if mapped {
        address[18] = 0xff;
        address[19] = 0xff;
        address[20..24].copy_from_slice(&[127, 0, 0, 1]);
    } else {
        address[23] = 1;
    }
    address
}

fn socket(domain: i32, kind: i32, protocol: i32) -> Try<OwnedFd> {
    open_call(
        libc::SYS_socket,
        &[domain as usize, kind as usize, protocol as usize],
    )
}

fn connect(socket: &OwnedFd, address: &[u8]) -> Try<()> {
    call(libc::SYS_connect, &[fd(socket), at(address), address.len()]).map(|_| ())
}

/// What the other side says, as a sign that it was reached.
fn greeting(socket: &OwnedFd, marker: &str) -> Try {
    let wait = [2_u64, 0];
    let _ = call(libc::SYS_setsockopt, &[fd(socket), 1, 20, at(&wait), 16]);
    let mut bytes = [0_u8; 128];
    let read = call(
        libc::SYS_recvfrom,
        &[
            fd(socket),
            bytes.as_mut_ptr() as usize,
            bytes.len(),
            0,
            0,
            0,
        ],
    )?;
    crate::files::judged(bytes.get(..read).unwrap_or_default(), marker)
}

fn tcp(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    let address = loopback(arguments.number("port") as u16);
    attempt.route("socket, connect", || {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        connect(&socket, &address)?;
        greeting(&socket, &marker)
    });
    attempt.route("sendto MSG_FASTOPEN", || {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        call(
            libc::SYS_sendto,
            &[
                fd(&socket),
                at(b"x".as_slice()),
                1,
                libc::MSG_FASTOPEN as usize,
                at(&address),
                16,
            ],
        )?;
        greeting(&socket, &marker)
    });
}

fn tcp6(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for (word, port, mapped) in [("::1", "port6", false), ("::ffff:127.0.0.1", "port", true)] {
        attempt.route(format!("connect {word}"), || {
            let socket = socket(libc::AF_INET6, libc::SOCK_STREAM, 0)?;
            connect(&socket, &loopback6(arguments.number(port) as u16, mapped))?;
            greeting(&socket, &marker)
        });
    }
}

fn exchange(domain: i32, address: &[u8], message: &[u8], marker: &str) -> Try {
    let socket = socket(domain, libc::SOCK_DGRAM, 0)?;
    call(
        libc::SYS_sendto,
        &[
            fd(&socket),
            at(message),
            message.len(),
            0,
            at(address),
            address.len(),
        ],
    )?;
    greeting(&socket, marker)
}

fn udp(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    let port = arguments.number("udp") as u16;
    attempt.route("sendto 127.0.0.1", || {
        exchange(libc::AF_INET, &loopback(port), b"hello", &marker)
    });
    attempt.route("sendto ::ffff:127.0.0.1", || {
        exchange(libc::AF_INET6, &loopback6(port, true), b"hello", &marker)
    });
}

/// A secret as a name to be looked up, to the resolver the system is told of.
fn dns(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x06secret\x07example\0\0\x01\0\x01";
    attempt.route("a query to the resolver", || {
        exchange(
            libc::AF_INET,
            &loopback(arguments.number("udp") as u16),
            query,
            &marker,
        )
    });
    attempt.route("the library's resolver", || {
        use std::net::ToSocketAddrs;
        match ("localhost.airlock.invalid", 80).to_socket_addrs() {
            Ok(_) => Ok("a name was resolved".to_owned()),
            Err(_) => nothing("NO-RESOLVER"),
        }
    });
}

fn raw(_: &Arguments, attempt: &mut Attempt) {
    for (word, domain, kind, protocol) in [
        ("ICMP", libc::AF_INET, libc::SOCK_RAW, 1),
        ("ICMPv6", libc::AF_INET6, libc::SOCK_RAW, 58),
        ("any IP", libc::AF_INET, libc::SOCK_RAW, 255),
        ("ping", libc::AF_INET, libc::SOCK_DGRAM, 1),
    ] {
        attempt.route(format!("socket {word}"), || {
            socket(domain, kind, protocol)?;
            Ok(format!("has a {word} socket"))
        });
    }
    attempt.route("unshare, socket raw", || {
        in_child(|| {
            own_namespaces(libc::CLONE_NEWNET)?;
            socket(libc::AF_INET, libc::SOCK_RAW, 1)?;
            Ok("has a raw socket".to_owned())
        })
    });
}

fn packet(_: &Arguments, attempt: &mut Attempt) {
    for kind in [libc::SOCK_RAW, libc::SOCK_DGRAM, 10] {
        attempt.route(format!("socket AF_PACKET {kind}"), || {
            socket(libc::AF_PACKET, kind, 0x0300)?;
            Ok("sees every packet".to_owned())
        });
    }
    attempt.route("unshare, socket AF_PACKET", || {
        in_child(|| {
            own_namespaces(libc::CLONE_NEWNET)?;
            socket(libc::AF_PACKET, libc::SOCK_RAW, 0x0300)?;
            Ok("has a packet socket".to_owned())
        })
    });
}

/// A family of sockets: whatever the kernel itself answers shows that no filter stood before it.
fn family(arguments: &Arguments, attempt: &mut Attempt) {
    let domain = arguments.number("domain") as i32;
    for kind in [
        libc::SOCK_STREAM,
        libc::SOCK_DGRAM,
        libc::SOCK_SEQPACKET,
        libc::SOCK_RAW,
    ] {
        attempt.route(format!("socket {domain} {kind}"), || {
            match socket(domain, kind, 0) {
                Ok(_) => Ok("has a socket".to_owned()),
                Err(Fault::Errno(libc::EPERM)) => Err(Fault::Errno(libc::EPERM)),
                Err(fault) => Ok(format!("the kernel itself answered {fault}")),
            }
        });
    }
    attempt.route(format!("socketpair {domain}"), || {
        let mut pair = [0_i32; 2];
        let given = [
            domain as usize,
            libc::SOCK_STREAM as usize,
            0,
            pair.as_mut_ptr() as usize,
        ];
        match call(libc::SYS_socketpair, &given) {
            Err(Fault::Errno(libc::EPERM)) => Err(Fault::Errno(libc::EPERM)),
            Err(fault) => Ok(format!("the kernel itself answered {fault}")),
            Ok(_) => Ok("has a pair".to_owned()),
        }
    });
}

fn multipath(_: &Arguments, attempt: &mut Attempt) {
    for (word, kind, protocol) in [
        ("MPTCP", libc::SOCK_STREAM, 262),
        ("SCTP", libc::SOCK_STREAM, 132),
        ("UDP-Lite", libc::SOCK_DGRAM, 136),
        ("DCCP", 6, 33),
    ] {
        attempt.route(format!("socket {word}"), || {
            socket(libc::AF_INET, kind, protocol)?;
            Ok(format!("has a {word} socket"))
        });
    }
}

/// `sockaddr_un` of a name without a path.
fn abstract_address(name: &str) -> Vec<u8> {
    let mut address = vec![libc::AF_UNIX as u8, 0, 0];
    address.extend(name.as_bytes());
    address
}

fn abstract_socket(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for name in arguments.list("names") {
        attempt.route(format!("connect @{name}"), || {
            let socket = socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)?;
            connect(&socket, &abstract_address(&name))?;
            greeting(&socket, &marker)
        });
    }
}

fn abstract_datagram(arguments: &Arguments, attempt: &mut Attempt) {
    for name in arguments.list("names") {
        attempt.route(format!("sendto @{name}"), || {
            let socket = socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
            let address = abstract_address(&name);
            call(
                libc::SYS_sendto,
                &[
                    fd(&socket),
                    at(b"leak".as_slice()),
                    4,
                    0,
                    at(address.as_slice()),
                    address.len(),
                ],
            )?;
            Ok("sent".to_owned())
        });
    }
}

fn pathname_socket(arguments: &Arguments, attempt: &mut Attempt) {
    let marker = arguments.text("marker");
    for path in arguments.list("paths") {
        for prefix in ["", "/proc/self/root", "/proc/1/root"] {
            let path = format!("{prefix}{path}");
            attempt.route(format!("connect {path}"), || {
                let mut address = vec![libc::AF_UNIX as u8, 0];
                address.extend(path.as_bytes());
                address.push(0);
                if address.len() > 110 {
                    return nothing("TOO-LONG");
                }
                let socket = socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)?;
                connect(&socket, &address)?;
                greeting(&socket, &marker)
            });
        }
    }
}

fn netlink(_: &Arguments, attempt: &mut Attempt) {
    for (word, protocol) in [
        ("KOBJECT_UEVENT", 15),
        ("AUDIT", 9),
        ("SOCK_DIAG", 4),
        ("NETFILTER", 12),
        ("GENERIC", 16),
        ("CONNECTOR", 11),
        ("XFRM", 6),
        ("CRYPTO", 21),
    ] {
        attempt.route(format!("socket NETLINK_{word}"), || {
            socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
            Ok(format!("talks to {word}"))
        });
    }
    attempt.route("socket NETLINK_AUDIT with high bits", || {
        open_call(libc::SYS_socket, &[16, 3, 9 | (1 << 32)])?;
        Ok("talks to AUDIT".to_owned())
    });
}

/// `RTM_NEWLINK` with the up flag for interface 1.
fn set_up() -> Try {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, 0)?;
    let mut request = [0_u8; 32];
    request[0] = 32;
    request[4] = 16;
    request[6] = 5;
    request[20] = 1;
    request[24] = 1;
    request[28] = 1;
    let address: [u8; 12] = [16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    call(
        libc::SYS_sendto,
        &[fd(&socket), at(&request), 32, 0, at(&address), 12],
    )?;
    let mut answer = [0_u8; 512];
    call(
        libc::SYS_recvfrom,
        &[
            fd(&socket),
            answer.as_mut_ptr() as usize,
            answer.len(),
            0,
            0,
            0,
        ],
    )?;
    let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    if code == 0 {
        Ok("loopback is up".to_owned())
    } else {
        Err(Fault::Errno(-code))
    }
}

fn loopback_up(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("unshare, RTM_NEWLINK", || {
        in_child(|| {
            own_namespaces(libc::CLONE_NEWNET)?;
            set_up()
        })
    });
    attempt.route("RTM_NEWLINK", set_up);
    attempt.route("SIOCSIFFLAGS", || {
        let socket = socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
        let mut request = [0_u8; 40];
        request[..2].copy_from_slice(b"lo");
        request[16] = 0x41;
        call(libc::SYS_ioctl, &[fd(&socket), 0x8914, at(&request)])?;
        Ok("loopback is up".to_owned())
    });
}

/// Interfaces of the network namespace by a socket that needs no network.
fn socket_ioctl(arguments: &Arguments, attempt: &mut Attempt) {
    attempt.route("SIOCGIFCONF by AF_UNIX", || {
        let socket = socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
        let mut list = [0_u8; 4096];
        let mut request = [list.len(), list.as_mut_ptr() as usize];
        call(
            libc::SYS_ioctl,
            &[fd(&socket), 0x8912, request.as_mut_ptr() as usize],
        )?;
        Ok(format!("{} bytes of interfaces", request[0] & 0xffff_ffff))
    });
    attempt.route("SIOCGSKNS", || {
        let socket = socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?;
        open_call(libc::SYS_ioctl, &[fd(&socket), 0x894c, 0])?;
        Ok("has the network namespace".to_owned())
    });
    if arguments.is("listing") {
        attempt.route("/sys/class/net", || {
            let names = std::fs::read_dir("/sys/class/net")?.count();
            Ok(format!("{names} interfaces"))
        });
    }
}

/// The network namespace of any process that can be seen.
fn join_network(arguments: &Arguments, attempt: &mut Attempt) {
    let own = std::fs::read_link("/proc/self/ns/net");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries.take(4000) {
        let link = entry.path().join("ns/net");
        let Ok(found) = std::fs::read_link(&link) else {
            continue;
        };
        if own.as_ref().is_ok_and(|own| *own == found) && !arguments.is("own") {
            continue;
        }
        attempt.route(format!("setns {}", link.display()), || {
            in_child(|| {
                let namespace = crate::sys::open(&link, libc::O_RDONLY)?;
                call(libc::SYS_setns, &[fd(&namespace), 0])?;
                Ok("joined".to_owned())
            })
        });
        if attempt.done() {
            return;
        }
    }
    if arguments.is("own") {
        attempt.route("unshare, setns", || {
            in_child(|| {
                own_namespaces(libc::CLONE_NEWNET)?;
                let own =
                    crate::sys::open(std::path::Path::new("/proc/self/ns/net"), libc::O_RDONLY)?;
                call(libc::SYS_setns, &[fd(&own), 0])?;
                Ok("joined".to_owned())
            })
        });
    }
    attempt.route("setns -1", || {
        call(libc::SYS_setns, &[MINUS_ONE, 0]).map(|_| "joined".to_owned())
    });
}
