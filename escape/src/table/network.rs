//! Reaching anything over a socket.

use super::{nothing, own};
use crate::attack::{Attack, Class, Limit};

use crate::scene::Scene;
use airlock_sandbox::Launcher;
use airlock_sandbox::Wall::{NetworkNamespace, Root, Seccomp};
use serde_json::{Value, json};
use std::path::PathBuf;

const fn row(
    name: &'static str,
    probe: &'static str,
    about: &'static str,
    scene: fn(&mut Scene) -> Value,
) -> Attack {
    Attack::new(Class::Network, name, probe, about, scene)
}

const REFUSED: &[&str] = &["EPERM"];
/// A socket that is not there, may not be reached, or has nobody behind it.
const UNREACHED: &[&str] = &["ENOENT", "EACCES", "ECONNREFUSED", "EPERM"];

const fn family(name: &'static str, about: &'static str, scene: fn(&mut Scene) -> Value) -> Attack {
    row(name, "socket-family", about, scene)
        .denied(REFUSED)
        .by(&[Seccomp])
}

pub(super) const ROWS: &[Attack] = &[
    row("tcp", "tcp", "a port of the host's loopback", ports)
        .denied(REFUSED)
        .by(&[Seccomp, NetworkNamespace]),
    row(
        "tcp6",
        "tcp6",
        "the host's loopback over IPv6, mapped too",
        ports,
    )
    .denied(REFUSED)
    .by(&[Seccomp, NetworkNamespace]),
    row("udp", "udp", "a datagram to the host", ports)
        .denied(REFUSED)
        .by(&[Seccomp, NetworkNamespace]),
    row("dns", "dns", "a secret in a query for a name", ports)
        .denied(&["EPERM", "NO-RESOLVER"])
        .by(&[Seccomp, NetworkNamespace]),
    row("raw-socket", "raw-socket", "raw and ping sockets", nothing)
        .denied(REFUSED)
        .by(&[Seccomp]),
    row(
        "packet-socket",
        "packet-socket",
        "every packet on the wire",
        nothing,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row(
        "multipath",
        "multipath",
        "MPTCP, SCTP, UDP-Lite, DCCP",
        nothing,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    family("vsock", "the hypervisor", |_| json!({ "domain": 40 })),
    family(
        "crypto-socket",
        "the kernel's ciphers",
        |_| json!({ "domain": 38 }),
    ),
    family("bluetooth", "Bluetooth", |_| json!({ "domain": 31 })),
    family("express-data-path", "AF_XDP", |_| json!({ "domain": 44 })).root(),
    family("can-bus", "the CAN bus", |_| json!({ "domain": 29 })),
    family("tipc", "TIPC", |_| json!({ "domain": 30 })),
    family("rds", "RDS", |_| json!({ "domain": 21 })),
    family("smc", "SMC", |_| json!({ "domain": 43 })),
    family("qualcomm-router", "QIPCRTR", |_| json!({ "domain": 42 })),
    row(
        "abstract-socket",
        "abstract-socket",
        "a socket of the host that has no path",
        abstract_names,
    )
    .denied(&["ECONNREFUSED", "EPERM"])
    .by(&[NetworkNamespace]),
    row(
        "abstract-datagram",
        "abstract-datagram",
        "a datagram to a socket without a path",
        abstract_datagrams,
    )
    .denied(&["ECONNREFUSED", "EPERM"])
    .by(&[NetworkNamespace]),
    row(
        "agent-socket",
        "pathname-socket",
        "an ssh-agent, a session bus, an X server by path",
        sockets,
    )
    .denied(&["ENOENT", "EACCES", "ECONNREFUSED"])
    .by(&[Root]),
    row(
        "engine-socket",
        "pathname-socket",
        "a container engine's socket in the home directory",
        engine,
    )
    .denied(&["ENOENT", "EACCES", "ECONNREFUSED"])
    .by(&[Root]),
    row(
        "socket-in-read-grant",
        "pathname-socket",
        "a service's socket in a directory granted for reading",
        granted,
    )
    .denied(UNREACHED)
    .by(&[Root])
    .limits(&[SOCKETS]),
    row(
        "socket-in-workspace",
        "pathname-socket",
        "a service's socket in the workspace",
        workspace,
    )
    .denied(UNREACHED)
    .by(&[Root]),
    row("netlink", "netlink", "netlink beyond routes", nothing)
        .denied(REFUSED)
        .by(&[Seccomp]),
    row(
        "loopback-up",
        "loopback-up",
        "bringing an interface up",
        nothing,
    )
    .denied(REFUSED)
    .by(&[Seccomp, NetworkNamespace]),
    row(
        "interfaces",
        "socket-ioctl",
        "the host's interfaces",
        listing,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row(
        "join-network",
        "join-network",
        "the host's network namespace",
        own,
    )
    .denied(REFUSED)
    .by(&[Seccomp]),
    row(
        "host-connections",
        "find-in-file",
        "the host's connections",
        connections,
    )
    .denied(&["NOT-THERE"])
    .of_init()
    .by(&[NetworkNamespace]),
];

/// Connecting writes nothing that a read-only mount would stop, and bubblewrap cannot show the
/// directory through an overlay, as the native launcher does.
const SOCKETS: Limit = Limit::new(
    "connect /",
    "a socket in a directory granted for reading can be connected to",
)
.with(Launcher::Bwrap);

fn ports(scene: &mut Scene) -> Value {
    json!({
        "port": scene.tcp("127.0.0.1:0"),
        "port6": scene.tcp("[::1]:0"),
        "udp": scene.udp(),
        "marker": scene.marker,
    })
}

fn abstract_names(scene: &mut Scene) -> Value {
    let names = [
        format!("/tmp/.X11-unix/{}", scene.marker),
        format!("/tmp/dbus-{}", scene.marker),
    ];
    for name in &names {
        scene.abstract_stream(name);
    }
    json!({ "names": names, "marker": scene.marker })
}

fn abstract_datagrams(scene: &mut Scene) -> Value {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let name = format!("journal-{}", scene.marker);
    let address = SocketAddr::from_abstract_name(&name);
    if let Ok(socket) = address.and_then(|address| UnixDatagram::bind_addr(&address)) {
        std::mem::forget(socket);
    }
    json!({ "names": [name] })
}

fn listening(scene: &mut Scene, name: &str) -> Value {
    let path: PathBuf = scene.path(name);
    scene.stream_at(&path);
    json!({ "paths": [path], "marker": scene.marker })
}

fn sockets(scene: &mut Scene) -> Value {
    listening(scene, "outside/agent")
}

fn engine(scene: &mut Scene) -> Value {
    let _ = std::fs::create_dir(scene.path("home/.docker"));
    listening(scene, "home/.docker/s")
}

fn granted(scene: &mut Scene) -> Value {
    scene.grants.reads.push(scene.path("readable"));
    listening(scene, "readable/s")
}

fn workspace(scene: &mut Scene) -> Value {
    listening(scene, "tree/s")
}

fn listing(scene: &mut Scene) -> Value {
    json!({ "listing": !scene.confined })
}

/// The port as the kernel's table of connections writes it.
fn connections(scene: &mut Scene) -> Value {
    let port = scene.tcp("127.0.0.1:0");
    let paths = ["/proc/net/tcp", "/proc/self/net/tcp", "/proc/1/net/tcp"];
    json!({ "paths": paths, "marker": format!("0100007F:{port:04X}") })
}
