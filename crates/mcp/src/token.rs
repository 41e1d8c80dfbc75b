//! The bearer token of the HTTP server: in a file that only its owner can read.

use rand::Rng as _;
use rustix::fs::{Mode, OFlags};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// Bytes of a made token, before they are written as hexadecimal digits.
const RANDOM: usize = 32;
/// A shorter token could be guessed.
const LEAST: usize = 32;
const MOST: u64 = 1_024;

/// What a client has to know.
#[derive(Clone)]
pub struct Token(String);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read or made.
    #[error("cannot use the token file")]
    File(#[source] io::Error),
    /// Somebody else could have read or written it.
    #[error("the token file {0}")]
    Exposed(&'static str),
    /// It holds something else.
    #[error("the token file does not hold a token: {0}")]
    Unfit(&'static str),
}

impl TokenError {
    /// What would help.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::File(_) => "name a file in a directory of your own with --token-file",
            Self::Exposed(_) => {
                "`chmod 600` it if nobody has seen it; else remove it for a new one"
            }
            Self::Unfit(_) => "remove it, and one is made",
        }
    }
}

impl Token {
    /// The token in the file `path`, which is made with a new one if it is not there.
    pub fn load_or_make(path: &Path) -> Result<Self, TokenError> {
        match Self::load(path) {
            Err(TokenError::File(error)) if error.kind() == io::ErrorKind::NotFound => {
                match Self::make(path) {
                    // Somebody else made it meanwhile.
                    Err(TokenError::File(error))
                        if error.kind() == io::ErrorKind::AlreadyExists =>
                    {
                        Self::load(path)
                    }
                    made => made,
                }
            }
            loaded => loaded,
        }
    }

    fn load(path: &Path) -> Result<Self, TokenError> {
        // A link could lead to a file that others chose; a pipe could keep us here.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let file = File::from(file);
        let found = file.metadata().map_err(TokenError::File)?;
        if !found.is_file() {
            return Err(TokenError::Unfit("it is not a file"));
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(TokenError::Exposed("belongs to somebody else"));
        }
        if found.mode() & 0o077 != 0 {
            return Err(TokenError::Exposed("can be used by others"));
        }
        let mut text = String::new();
        file.take(MOST + 1)
            .read_to_string(&mut text)
            .map_err(|_| TokenError::Unfit("it is not text"))?;
        Self::parse(text.trim())
    }

    fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() < LEAST {
            return Err(TokenError::Unfit("it is shorter than 32 characters"));
        }
        if text.len() as u64 > MOST {
            return Err(TokenError::Unfit("it is longer than 1024 characters"));
        }
        let fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !text.bytes().all(fit) {
            return Err(TokenError::Unfit("use letters, digits and `-._~+/=`"));
        }
        Ok(Self(text.to_owned()))
    }

    fn make(path: &Path) -> Result<Self, TokenError> {
        let mut random = [0u8; RANDOM];
        rand::rng().fill_bytes(&mut random);
        let text = random.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let mut file = File::from(file);
        let written = file.write_all(format!("{text}\n").as_bytes());
        if let Err(error) = written.and_then(|()| file.sync_all()) {
            // Half a token would be refused at every start after this one.
            let _removed = std::fs::remove_file(path);
            return Err(TokenError::File(error));
        }
        Ok(Self(text))
    }

    /// Whether `header`, the value of `Authorization`, bears this token. How long the look takes
    /// does not depend on where they differ.
    pub(crate) fn is_in(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked(7) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer ")
            && bool::from(given.trim_ascii().ct_eq(self.0.as_bytes()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

fn failed(error: rustix::io::Errno) -> TokenError {
    TokenError::File(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn place() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        (directory, file)
    }

    #[test]
    fn a_made_token_is_the_owner_s_alone_and_stays() {
        let (_directory, file) = place();
        let made = Token::load_or_make(&file).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(made.0.len(), 64);
        assert_eq!(Token::load_or_make(&file).unwrap().0, made.0);
        let (_directory, other) = place();
        assert_ne!(Token::load_or_make(&other).unwrap().0, made.0);
        assert!(!format!("{made:?}").contains(&made.0));
    }

    #[test]
    fn a_file_that_others_could_know_or_choose_is_refused() {
        let (directory, file) = place();
        Token::load_or_make(&file).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o666] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let refused = Token::load_or_make(&file);
            assert!(matches!(refused, Err(TokenError::Exposed(_))), "{mode:o}");
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let link = directory.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(matches!(
            Token::load_or_make(&link),
            Err(TokenError::File(_))
        ));
        let dangling = directory.path().join("dangling");
        symlink(directory.path().join("absent"), &dangling).unwrap();
        assert!(Token::load_or_make(&dangling).is_err());
        assert!(!directory.path().join("absent").exists());
        assert!(Token::load_or_make(directory.path()).is_err());
    }

    #[test]
    fn only_a_long_plain_word_is_a_token() {
        let good = "a".repeat(32);
        for (text, fits) in [
            (good.clone(), true),
            ("a".repeat(31), false),
            ("a".repeat(1025), false),
            (String::new(), false),
            (format!("{good} b"), false),
            (format!("{good}\r\nX: y"), false),
            (format!("{good}é"), false),
        ] {
            assert_eq!(Token::parse(&text).is_ok(), fits, "{text:?}");
        }
    }

    #[test]
    fn a_header_bears_the_token_or_nothing() {
        let word = "0123456789abcdef0123456789abcdef";
        let token = Token::parse(word).unwrap();
        for (header, bears) in [
            (format!("Bearer {word}"), true),
            (format!("bearer {word}"), true),
            (format!("Bearer  {word} "), true),
            (word.to_owned(), false),
            (format!("Basic {word}"), false),
            (format!("Bearer {word}0"), false),
            (format!("Bearer {}", word.trim_start_matches('0')), false),
            ("Bearer ".to_owned(), false),
            ("Bearer".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(token.is_in(header.as_bytes()), bears, "{header}");
        }
    }
}
