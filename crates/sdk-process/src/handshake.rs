//! The line by which a plugin says where it listens. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::path::Path;

/// The version of go-plugin's own handshake.
const CORE: u32 = 1;

/// Versions of Airlock's services that are spoken here.
pub(crate) const VERSIONS: &[u32] = &[1];

/// The line, without its end. None for a path that would be read as something else.
pub(crate) fn line(version: u32, socket: &Path, certificate: Option<&[u8]>) -> Option<String> {
    let socket = socket.to_str()?;
    if socket.contains(|c: char| c == '|' || c.is_control()) {
        return None;
    }
    // As go-plugin has it: without padding, and empty where there is none.
    let certificate = certificate.map(|bytes| STANDARD_NO_PAD.encode(bytes));
    let certificate = certificate.unwrap_or_default();
    Some(format!("{CORE}|{version}|unix|{socket}|grpc|{certificate}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_one_meaning_or_there_is_none() {
        let line = |path: &str| line(1, Path::new(path), None);
        assert_eq!(line("/r/s").as_deref(), Some("1|1|unix|/r/s|grpc|"));
        assert_eq!(line("/r|tcp|x/s"), None);
        assert_eq!(line("/r\n1|1|unix|/other|grpc|/s"), None);
    }

    #[test]
    fn a_certificate_has_no_padding() {
        let line = line(1, Path::new("/s"), Some(&[1, 2, 3, 4])).unwrap();
        assert_eq!(line, "1|1|unix|/s|grpc|AQIDBA");
    }
}
