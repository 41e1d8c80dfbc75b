//! Files that somebody else may have made: those of the workspace, and those a command line names.
//!
//! Guarantee: reading one ends. A pipe, a device or a socket is refused before a byte of it is read,
//! and of a file no more is held than its limit. A link to a regular file is followed.
//! Non-guarantee: what is in the file is not looked at. A pipe that this process was handed itself, as
//! by `<(...)`, ends when whoever started both lets it.

use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is a directory")]
    Directory,
    /// It may have no end, or wait for somebody who never comes.
    #[error("it is no regular file, but a pipe, a socket or a device")]
    Special,
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error("it is not UTF-8 text")]
    NotText,
}

/// Opens a regular file, to be read bit by bit, or a pipe that the command was handed.
pub(crate) fn open(path: &Path) -> Result<File, ReadError> {
    if is_handed(path) && std::fs::metadata(path)?.file_type().is_fifo() {
        return Ok(File::open(path)?);
    }
    // Looked at first, because some devices act as soon as they are opened.
    regular(&std::fs::metadata(path)?)?;
    // Opening a pipe that took its place meanwhile would wait for whoever writes.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?;
    let file = File::from(file);
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Whether `path` is a descriptor of this process: nobody can put another file there.
pub(crate) fn is_handed(path: &Path) -> bool {
    let number = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let below = ["/dev/fd", "/proc/self/fd"].map(Path::new);
    path == Path::new("/dev/stdin")
        || path.parent().is_some_and(|parent| below.contains(&parent))
            && path.file_name().is_some_and(number)
}

pub(crate) fn regular(found: &Metadata) -> Result<(), ReadError> {
    if found.is_dir() {
        Err(ReadError::Directory)
    } else if found.is_file() {
        Ok(())
    } else {
        Err(ReadError::Special)
    }
}

/// All of a regular file that has at most `most` bytes.
pub(crate) fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    // One byte more than fits is enough to know that it does not.
    let mut limited = open(path)?.take(most.saturating_add(1));
    limited.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(ReadError::TooLarge(most));
    }
    Ok(bytes)
}

/// The same as text.
pub(crate) fn text(path: &Path, most: u64) -> Result<String, ReadError> {
    String::from_utf8(bytes(path, most)?).map_err(|_| ReadError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(bytes(&at(name), 5).unwrap(), b"12345", "{name}");
            let long = bytes(&at(name), 4).unwrap_err();
            assert!(matches!(long, ReadError::TooLarge(4)), "{name}: {long}");
        }
        for (name, want) in [
            ("zero", "it is no regular file"),
            ("socket", "it is no regular file"),
            (".", "it is a directory"),
            ("absent", "No such file"),
        ] {
            let error = bytes(&at(name), 5).unwrap_err().to_string();
            assert!(error.starts_with(want), "{name}: {error}");
        }
    }

    #[test]
    fn a_pipe_that_was_handed_over_is_read() {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"handed").unwrap();
        drop(writer);
        for (path, want) in [
            (format!("/dev/fd/{}", reader.as_raw_fd()), true),
            ("/dev/fd/x".to_owned(), false),
            ("/dev/fd/3/..".to_owned(), false),
            ("/proc/1/fd/0".to_owned(), false),
            ("/dev/stdin".to_owned(), true),
            // What this process writes to itself would never end.
            ("/dev/stdout".to_owned(), false),
        ] {
            assert_eq!(is_handed(Path::new(&path)), want, "{path}");
        }
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(bytes(Path::new(&path), 6).unwrap(), b"handed");
    }

    #[test]
    fn what_is_no_text_is_not_given_as_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"a\xff").unwrap();
        assert!(matches!(text(&path, 9), Err(ReadError::NotText)));
    }
}
