//! A source tree to search: the same one on every run, and made of nothing but a formula.

use crate::failure::Failure;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Stands in one file of a thousand.
pub(super) const RARE: &str = "unlikely_marker";
/// A regular expression that one line in a thousand matches.
pub(super) const COMMON: &str = r"fn compute_m\w+_7\d";

const WORDS: &[&str] = &[
    "buffer", "channel", "decode", "entry", "frame", "graph", "handle", "index", "journal", "key",
    "layout", "merge", "node", "offset", "packet", "queue", "record", "slice", "table", "value",
];
const FILES_IN_DIRECTORY: usize = 50;
const DIRECTORIES_IN_MODULE: usize = 20;

/// Fills `root` with `files` files of about `bytes` bytes each, as a repository with ignored files.
pub(super) fn write(root: &Path, files: usize, bytes: usize) -> Result<(), Failure> {
    fs::create_dir_all(root.join(".git"))?;
    fs::write(
        root.join(".gitignore"),
        "*.log\n/build/\nnode_modules/\n!keep.log\n",
    )?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for number in 0..files {
        let directory = number / FILES_IN_DIRECTORY;
        let path = root.join(format!(
            "module_{}/part_{directory}/{}",
            directory / DIRECTORIES_IN_MODULE,
            name(number)
        ));
        if number % FILES_IN_DIRECTORY == 0
            && let Some(parent) = path.parent()
        {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content(number, bytes, &mut random))?;
    }
    Ok(())
}

/// One file in ten is ignored, one in five is no source.
fn name(number: usize) -> String {
    match number % 10 {
        0 => format!("trace_{number}.log"),
        1 | 2 => format!("notes_{number}.md"),
        _ => format!("file_{number}.rs"),
    }
}

fn content(number: usize, bytes: usize, random: &mut Random) -> String {
    let mut text = String::with_capacity(bytes + 128);
    if number % 1_000 == 777 {
        let _ = writeln!(text, "// {RARE} {number}");
    }
    while text.len() < bytes {
        let (first, second) = (random.word(), random.word());
        let line = random.below(100);
        // Writing to a string cannot fail.
        let _ = match random.below(4) {
            0 => writeln!(text, "    let {first}_{line} = {second}.{first}({line});"),
            1 => writeln!(
                text,
                "pub fn compute_{first}_{line}({second}: &str) -> u64 {{"
            ),
            2 => writeln!(text, "    // The {first} of a {second} is {line} at most."),
            _ => writeln!(text, "}}\n"),
        };
    }
    text
}

/// Small, quick and always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    fn word(&mut self) -> &'static str {
        let index = self.below(WORDS.len() as u64);
        let index = usize::try_from(index).unwrap_or(0);
        WORDS.get(index).copied().unwrap_or("word")
    }
}
