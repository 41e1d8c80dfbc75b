//! The first line of a plugin, for whoever tries it with hostile bytes.

use crate::handshake::Handshake;
use crate::line::{FirstLine, Lines};
use crate::output::Output;
use crate::settings::PROTOCOL_VERSIONS;
use std::io::Write as _;

/// What was understood of a first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The version of the services.
    pub version: u32,
    /// Where it says that it listens.
    pub address: String,
    /// What it gives as its certificate.
    pub certificate: Option<Vec<u8>>,
}

/// What is made of a plugin that prints these `pieces`, one after the other, and ends.
pub fn first_line<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Heard, String> {
    let (mut lines, first) = Lines::new(Output::new(0));
    for piece in pieces {
        // It takes whatever comes.
        let _taken = lines.write_all(piece);
    }
    drop(lines);
    let line = first.try_recv();
    let line = line.unwrap_or_else(|_| FirstLine::Unfinished(Vec::new()));
    let said = Handshake::read(&line, PROTOCOL_VERSIONS).map_err(|error| error.to_string())?;
    Ok(Heard {
        version: said.version,
        address: said.address,
        certificate: said.certificate,
    })
}
