//! The line with which a plugin says where it listens. Pure: text in, facts or a refusal out.
//!
//! `CORE|VERSION|NETWORK|ADDRESS|PROTOCOL[|CERTIFICATE[|MULTIPLEXED]]`. Whether the address may be
//! connected to is not decided here.

use crate::line::FirstLine;
use crate::output::shown;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The version of go-plugin's own handshake.
const CORE: &str = "1";
/// Libraries of old put other things where the certificate belongs; none is as long as one.
const SHORTEST_CERTIFICATE: usize = 50;
/// go-plugin leaves out the padding; other libraries may not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a plugin said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The version of Airlock's services it speaks.
    pub(crate) version: u32,
    /// The path of its socket, as it names it.
    pub(crate) address: String,
    /// Its certificate, if it wants TLS.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// Why a line is no handshake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("it printed nothing before it closed its standard output")]
    Nothing,
    #[error("it closed its standard output in the middle of the handshake: `{}`", shown(.0))]
    Unfinished(String),
    #[error("its first line is too long for a handshake and begins with `{}`", shown(.0))]
    TooLong(String),
    #[error("its first line is no handshake: `{}`", shown(.0))]
    Unrecognised(String),
    #[error("it speaks version `{}` of go-plugin's handshake, not {CORE}", shown(.0))]
    Core(String),
    #[error("it speaks version `{}` of Airlock's services, not {}", shown(.said), list(.spoken))]
    Version { said: String, spoken: Vec<u32> },
    #[error("it listens on `{}`: only a Unix socket is connected to", shown(.0))]
    Network(String),
    #[error("it speaks net/rpc (`netrpc`), which only Go does; it has to serve gRPC")]
    NetRpc,
    #[error("it speaks `{}`, not `grpc`", shown(.0))]
    Protocol(String),
    #[error("what it gives as its certificate is none")]
    Certificate,
    #[error("it wants to multiplex connections, which it was not asked to")]
    Multiplexed,
}

fn list(versions: &[u32]) -> String {
    let words: Vec<String> = versions.iter().map(u32::to_string).collect();
    words.join(" or ")
}

impl Handshake {
    /// Reads what a plugin printed first. `versions` are those it was offered.
    pub(crate) fn read(line: &FirstLine, versions: &[u32]) -> Result<Self, HandshakeError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match line {
            FirstLine::Whole(line) => Self::parse(&text(line), versions),
            FirstLine::TooLong(line) => Err(HandshakeError::TooLong(text(line))),
            FirstLine::Unfinished(line) if line.is_empty() => Err(HandshakeError::Nothing),
            FirstLine::Unfinished(line) => Err(HandshakeError::Unfinished(text(line))),
        }
    }

    fn parse(line: &str, versions: &[u32]) -> Result<Self, HandshakeError> {
        let line = line.trim();
        let mut fields = line.split('|');
        let (Some(core), Some(version), Some(network), Some(address)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(HandshakeError::Unrecognised(line.to_owned()));
        };
        if core != CORE {
            return Err(HandshakeError::Core(core.to_owned()));
        }
        let version = spoken(version, versions)?;
        // The oldest libraries do not name the protocol, and speak this one.
        match fields.next() {
            Some("grpc") => {}
            None | Some("" | "netrpc") => return Err(HandshakeError::NetRpc),
            Some(other) => return Err(HandshakeError::Protocol(other.to_owned())),
        }
        if network != "unix" {
            return Err(HandshakeError::Network(network.to_owned()));
        }
        let certificate = certificate(fields.next().unwrap_or_default())?;
        if fields.next() == Some("true") {
            return Err(HandshakeError::Multiplexed);
        }
        Ok(Self {
            version,
            address: address.to_owned(),
            certificate,
        })
    }
}

fn spoken(said: &str, versions: &[u32]) -> Result<u32, HandshakeError> {
    let spoken = |version: &u32| versions.contains(version);
    said.parse()
        .ok()
        .filter(spoken)
        .ok_or_else(|| HandshakeError::Version {
            said: said.to_owned(),
            spoken: versions.to_vec(),
        })
}

fn certificate(field: &str) -> Result<Option<Vec<u8>>, HandshakeError> {
    if field.len() <= SHORTEST_CERTIFICATE {
        return Ok(None);
    }
    let bytes = BASE64.decode(field);
    bytes.map(Some).map_err(|_| HandshakeError::Certificate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Result<Handshake, HandshakeError> {
        Handshake::read(&FirstLine::Whole(line.as_bytes().to_vec()), &[3, 2])
    }

    #[test]
    fn a_line_of_go_plugin_is_understood() {
        let certificate = "QUFB".repeat(20);
        for (line, version, has_certificate) in [
            ("1|3|unix|/r/s|grpc".to_owned(), 3, false),
            ("1|2|unix|/r/s|grpc|".to_owned(), 2, false),
            ("1|2|unix|/r/s|grpc|old extra".to_owned(), 2, false),
            (format!("1|3|unix|/r/s|grpc|{certificate}"), 3, true),
            (format!("1|3|unix|/r/s|grpc|{certificate}QQ=="), 3, true),
            (format!("1|3|unix|/r/s|grpc|{certificate}|false\r"), 3, true),
        ] {
            let said = read(&line).unwrap();
            assert_eq!(said.version, version, "{line}");
            assert_eq!(said.address, "/r/s", "{line}");
            assert_eq!(said.certificate.is_some(), has_certificate, "{line}");
        }
    }

    #[test]
    fn every_other_line_is_refused_for_its_own_reason() {
        let version = |said: &str| HandshakeError::Version {
            said: said.to_owned(),
            spoken: vec![3, 2],
        };
        for (line, want) in [
            ("hello", HandshakeError::Unrecognised("hello".to_owned())),
            ("", HandshakeError::Unrecognised(String::new())),
            (
                "1|2|unix",
                HandshakeError::Unrecognised("1|2|unix".to_owned()),
            ),
            ("2|3|unix|/r/s|grpc", HandshakeError::Core("2".to_owned())),
            ("|3|unix|/r/s|grpc", HandshakeError::Core(String::new())),
            ("1|4|unix|/r/s|grpc", version("4")),
            ("1|-3|unix|/r/s|grpc", version("-3")),
            ("1|99999999999999|unix|/r/s|grpc", version("99999999999999")),
            ("1|3|unix|/r/s", HandshakeError::NetRpc),
            ("1|3|unix|/r/s|netrpc|", HandshakeError::NetRpc),
            ("1|3|tcp|127.0.0.1:80|netrpc", HandshakeError::NetRpc),
            (
                "1|3|unix|/r/s|http",
                HandshakeError::Protocol("http".to_owned()),
            ),
            (
                "1|3|tcp|127.0.0.1:80|grpc",
                HandshakeError::Network("tcp".to_owned()),
            ),
            ("1|3|unix|/r/s|grpc||true", HandshakeError::Multiplexed),
        ] {
            assert_eq!(read(line).unwrap_err(), want, "{line}");
        }
        let broken = format!("1|3|unix|/r/s|grpc|{}", "*".repeat(60));
        assert_eq!(read(&broken).unwrap_err(), HandshakeError::Certificate);
    }

    #[test]
    fn what_is_no_line_is_named() {
        let read = |line| Handshake::read(&line, &[1]).unwrap_err();
        assert_eq!(
            read(FirstLine::Unfinished(Vec::new())),
            HandshakeError::Nothing
        );
        let error = read(FirstLine::TooLong(vec![0x1b; 16_000])).to_string();
        assert!(!error.contains('\x1b') && error.len() < 2_000, "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_are_taken_for_more_than_they_say(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _read = Handshake::read(&FirstLine::Whole(bytes), &[1]);
        }
    }
}
