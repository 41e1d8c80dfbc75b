//! What a plugin says and does, seen from outside.

use crate::support::{Fixture, PATIENCE};
use airlock_plugin::StartError;
use airlock_plugin::boxed::Running;
use std::fs;
use std::io::Read as _;
use std::path::Path;

impl Fixture {
    pub(crate) fn start(&self) -> Result<Running, StartError> {
        self.start_as(self.digest())
    }

    /// What the plugin says until it ends.
    pub(crate) fn says(&self) -> String {
        let running = self.start().unwrap();
        let mut text = String::new();
        let mut stdout = running.take_stdout().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        let end = running.wait(PATIENCE);
        format!(
            "{text}{}{}",
            running.said(),
            end.map_or_else(String::new, |end| end.to_string())
        )
    }
}

/// Whether anything that runs on this machine has `mark` among its arguments.
pub(crate) fn runs(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|line| has(&line, mark) && !has(&line, "boxed-"))
}

fn has(line: &[u8], mark: &str) -> bool {
    line.windows(mark.len()).any(|part| part == mark.as_bytes())
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}
