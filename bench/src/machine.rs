//! What the figures were measured on: no host name, no path, no user.

use std::fs;
use std::process::Command;

/// The versions in use when this was built.
const LOCK: &str = include_str!("../../Cargo.lock");

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub(crate) fn processor() -> String {
    field("/proc/cpuinfo", "model name")
}

pub(crate) fn memory() -> String {
    let text = field("/proc/meminfo", "MemTotal");
    let kibibytes = text
        .split_whitespace()
        .next()
        .and_then(|number| number.parse::<u64>().ok());
    kibibytes.map_or(text, |size| format!("{} MiB", size / 1024))
}

pub(crate) fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// The load averages of one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split_whitespace().take(3).collect();
    averages.join(" ")
}

/// A field of this process's status in kibibytes, such as `VmHWM`.
pub(crate) fn own_memory(name: &str) -> Option<u64> {
    let text = field("/proc/self/status", name);
    text.split_whitespace().next()?.parse().ok()
}

fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or_else(
            || "unknown".to_owned(),
            |(_, value)| value.trim().to_owned(),
        )
}

/// The version of a crate in the lock file; of several the last, which ours are on.
pub(crate) fn crate_version(name: &str) -> String {
    let wanted = format!("name = \"{name}\"");
    let versions = LOCK.lines().zip(LOCK.lines().skip(1));
    versions
        .filter(|(line, _)| *line == wanted)
        .filter_map(|(_, next)| next.strip_prefix("version = \""))
        .last()
        .map_or("unknown", |rest| rest.trim_end_matches('"'))
        .to_owned()
}

/// The first line a program says about itself, if it is installed.
#[expect(
    clippy::disallowed_methods,
    reason = "peers are programs, and nothing here is sandboxed"
)]
pub(crate) fn program_version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let version = crate_version("serde_json");
        assert!(version.starts_with("1."), "{version}");
        let of_several = crate_version("sha2");
        assert!(!of_several.starts_with("0.10."), "{of_several}");
        assert_eq!(crate_version("no such crate"), "unknown");
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(own_memory("VmHWM").unwrap() > 0);
        assert_eq!(own_memory("NoSuchField"), None);
    }
}
