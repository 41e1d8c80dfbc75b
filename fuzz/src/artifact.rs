//! Keeps an input that broke a target, so that it can be replayed.

use crate::rng::fnv;
use std::io;
use std::path::{Path, PathBuf};

/// Writes `input` into `directory` as `<target>-<hash>`: the same input is kept once.
pub fn save(directory: &Path, target: &str, input: &[u8]) -> io::Result<PathBuf> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join(format!("{target}-{:016x}", fnv(input)));
    std::fs::write(&path, input)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_kept_once_under_its_target() {
        let place = std::env::temp_dir().join(format!("airlock-fuzz-{}", std::process::id()));
        let first = save(&place, "units", b"\xff\0").unwrap();
        assert_eq!(save(&place, "units", b"\xff\0").unwrap(), first);
        assert_ne!(save(&place, "units", b"other").unwrap(), first);
        assert_eq!(std::fs::read(&first).unwrap(), b"\xff\0");
        assert!(
            first
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("units-")
        );
        std::fs::remove_dir_all(place).unwrap();
    }
}
