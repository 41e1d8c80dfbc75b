//! The first line of a go-plugin: whatever it prints, and in whatever pieces, gives the same answer;
//! an address is one it said; what is told of a refusal moves no cursor and is not long.

use super::Target;
use airlock_plugin_grpc::PROTOCOL_VERSIONS;
use airlock_plugin_grpc::probe::first_line;

pub(super) const TARGET: Target = Target {
    name: "plugin_handshake",
    run,
    seeds: &[
        b"",
        b"\x011|1|unix|/run/p/s.sock|grpc\n",
        b"\x021|1|unix|/run/p/s.sock|grpc|\nmore output\n",
        b"\x031|1|unix|/r/s|grpc|MIIBszCCAVmgAwIBAgIUAAAAAAAAAAAAAAAAAAAAAAAAAAAwCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHYWlybG9jaw|false\n",
        b"\x041|1|unix|/r/s|grpc||true\n",
        b"\x051|1|tcp|127.0.0.1:80|netrpc\n",
        b"\x062|9|unix|/r/s|grpc\n",
        b"\x01\x1b[2Jhello\n",
        b"\x01no end",
    ],
    dictionary: &[
        "|", "1|", "1|1|unix|", "grpc", "netrpc", "unix", "tcp", "||", "\n", "\r\n", "\u{0}", "true",
        "../", "99999999999", "-1", "\u{202e}", "====", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ],
    iterations: 4_000,
};

/// Longest refusal that is told.
const TOLD: usize = 4_000;

fn run(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else {
        return;
    };
    let whole = first_line([bytes]);
    let pieces = first_line(bytes.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, pieces, "the pieces matter");
    match whole {
        Ok(heard) => {
            assert!(PROTOCOL_VERSIONS.contains(&heard.version));
            let said = String::from_utf8_lossy(bytes);
            assert!(said.contains(&heard.address) && !heard.address.contains(['|', '\n']));
        }
        Err(told) => {
            assert!(!told.chars().any(char::is_control), "{told:?}");
            assert!(told.len() <= TOLD, "{} bytes", told.len());
        }
    }
}
