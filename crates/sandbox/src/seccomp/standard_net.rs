//! Rows of `standard-net`: TCP and UDP. Where they lead is up to the network namespace.

use super::{AF_INET, AF_INET6, Row, SOCK_DGRAM, SOCK_STREAM, SOCK_TYPE, is, masked, only};

const TCP: u32 = 6;
const UDP: u32 = 17;

pub(super) const ROWS: &[Row] = &[
    only(
        "socket",
        &[is(0, AF_INET), masked(1, SOCK_TYPE, SOCK_STREAM), is(2, 0)],
        "TCP over IPv4",
    ),
    only(
        "socket",
        &[
            is(0, AF_INET),
            masked(1, SOCK_TYPE, SOCK_STREAM),
            is(2, TCP),
        ],
        "TCP over IPv4, by name",
    ),
    only(
        "socket",
        &[is(0, AF_INET), masked(1, SOCK_TYPE, SOCK_DGRAM), is(2, 0)],
        "UDP over IPv4: libc sorts addresses with it, tests use it on loopback",
    ),
    only(
        "socket",
        &[is(0, AF_INET), masked(1, SOCK_TYPE, SOCK_DGRAM), is(2, UDP)],
        "UDP over IPv4, by name",
    ),
    only(
        "socket",
        &[is(0, AF_INET6), masked(1, SOCK_TYPE, SOCK_STREAM), is(2, 0)],
        "TCP over IPv6",
    ),
    only(
        "socket",
        &[
            is(0, AF_INET6),
            masked(1, SOCK_TYPE, SOCK_STREAM),
            is(2, TCP),
        ],
        "TCP over IPv6, by name",
    ),
    only(
        "socket",
        &[is(0, AF_INET6), masked(1, SOCK_TYPE, SOCK_DGRAM), is(2, 0)],
        "UDP over IPv6",
    ),
    only(
        "socket",
        &[
            is(0, AF_INET6),
            masked(1, SOCK_TYPE, SOCK_DGRAM),
            is(2, UDP),
        ],
        "UDP over IPv6, by name",
    ),
    only("ioctl", &[is(1, 0x8910)], "SIOCGIFNAME: reading interfaces"),
    only("ioctl", &[is(1, 0x8912)], "SIOCGIFCONF: reading interfaces"),
    only(
        "ioctl",
        &[is(1, 0x8913)],
        "SIOCGIFFLAGS: reading interfaces",
    ),
    only("ioctl", &[is(1, 0x8915)], "SIOCGIFADDR: reading interfaces"),
    only(
        "ioctl",
        &[is(1, 0x891b)],
        "SIOCGIFNETMASK: reading interfaces",
    ),
    only("ioctl", &[is(1, 0x8921)], "SIOCGIFMTU: reading interfaces"),
    only(
        "ioctl",
        &[is(1, 0x8927)],
        "SIOCGIFHWADDR: reading interfaces",
    ),
    only(
        "ioctl",
        &[is(1, 0x8933)],
        "SIOCGIFINDEX: reading interfaces",
    ),
];
