//! What is noted of a sandbox, as text. Pure.
//!
//! Paths are bytes: what is not plain in them is written as `%XX`.

use super::super::limits::Process;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What has to be known to remove a sandbox whose supervisor died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Which sandbox.
    pub(crate) id: String,
    /// Who started it.
    pub(crate) supervisor: Process,
    /// Its init, once there is one.
    pub(crate) init: Option<Process>,
    /// The directories of its group.
    pub(crate) cgroups: Vec<PathBuf>,
    /// Directories of its own, in the registry's.
    pub(crate) directories: Vec<PathBuf>,
}

/// The same, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    /// Process numbers and times mean nothing after a restart of the machine.
    boot: String,
    supervisor: Process,
    init: Option<Process>,
    cgroups: Vec<String>,
    directories: Vec<String>,
}

/// The most an entry is read of: far more than any takes.
pub(super) const MOST: u64 = 64 << 10;

impl Entry {
    pub(super) fn to_text(&self, boot: &str) -> Result<Vec<u8>, serde_json::Error> {
        let all = |paths: &[PathBuf]| paths.iter().map(|path| escape(path)).collect();
        serde_json::to_vec(&Written {
            id: self.id.clone(),
            boot: boot.to_owned(),
            supervisor: self.supervisor,
            init: self.init,
            cgroups: all(&self.cgroups),
            directories: all(&self.directories),
        })
    }

    /// The entry and the start of the machine it was written in; or why it is none.
    pub(super) fn from_text(text: &[u8]) -> Result<(Self, String), String> {
        let written: Written = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let all = |paths: &[String]| -> Option<Vec<PathBuf>> {
            paths.iter().map(|path| unescape(path)).collect()
        };
        let broken = || "a path is broken".to_owned();
        let entry = Self {
            cgroups: all(&written.cgroups).ok_or_else(broken)?,
            directories: all(&written.directories).ok_or_else(broken)?,
            id: written.id,
            supervisor: written.supervisor,
            init: written.init,
        };
        Ok((entry, written.boot))
    }
}

fn escape(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.fold(String::new(), |mut text, byte| {
        if plain(*byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail.get(2..)?;
        } else {
            bytes.push(*first);
        }
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_noted_is_read_back(
            path in proptest::collection::vec(any::<u8>(), 0..40),
            id in "[a-z0-9-]{1,20}",
            pid in any::<u32>(),
        ) {
            let process = Process { pid, start_time: u64::from(pid) << 9 };
            let entry = Entry {
                id,
                supervisor: process,
                init: Some(process),
                cgroups: vec![OsString::from_vec(path.clone()).into()],
                directories: vec![OsString::from_vec(path).into(), PathBuf::new()],
            };
            let text = entry.to_text("boot").unwrap();
            prop_assert_eq!(Entry::from_text(&text).unwrap(), (entry, "boot".to_owned()));
        }

        #[test]
        fn nothing_makes_the_reader_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Entry::from_text(&text);
        }
    }
}
