//! Keeps an input that broke a target, so that it can be replayed.

use crate::rng::fnv;
use std::io;
use std::path::{Path, PathBuf};

/// Keeps `input` as `fuzz/artifacts/<target>-<hash>` and says how to replay it, or why it could
/// not be kept.
pub fn keep(target: &str, input: &[u8]) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts");
    match save(&directory, target, input) {
        Ok(path) => format!(
            "replay: cargo run -p airlock-fuzz -- replay {target} {}",
            path.display()
        ),
        Err(error) => format!("the input could not be kept: {error}\ninput: {input:?}"),
    }
}

/// The same input is kept once.
fn save(directory: &Path, target: &str, input: &[u8]) -> io::Result<PathBuf> {
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
        let name = first.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("units-"), "{name}");
        std::fs::remove_dir_all(place).unwrap();
    }
}
