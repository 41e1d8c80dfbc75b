//! What is written into a new cgroup to hold a sandbox to its limits, as data.

use super::files;
use super::layout::{Controller, Version};
use crate::plan::{Class, Limit, Limits};
use crate::report::Held;
use std::io;
use std::path::Path;

/// One file and its value.
struct Setting {
    file: &'static str,
    value: String,
    /// What is lost where the file does not exist; without words, the limit is.
    without: Option<&'static str>,
}

/// The time over which processor time is counted, in microseconds: the kernel's own default.
const PERIOD: u32 = 100_000;

fn settings(version: Version, controller: Controller, limits: &Limits) -> Vec<Setting> {
    let must = |file, value: String| Setting {
        file,
        value,
        without: None,
    };
    let may = |file, value: &str, without| Setting {
        file,
        value: value.to_owned(),
        without: Some(without),
    };
    let memory = limits.memory.as_bytes().to_string();
    let tasks = limits
        .pids
        .saturating_add(super::super::OWN_TASKS)
        .to_string();
    // Thousandths of a processor.
    let quota = u64::from(limits.cpus) * u64::from(PERIOD) / 1_000;
    match (version, controller) {
        (Version::Two, Controller::Memory) => vec![
            must("memory.max", memory),
            may("memory.swap.max", "0", "swap is not limited"),
            // All of the sandbox ends, not the one process the kernel happens to choose.
            may("memory.oom.group", "1", "one process ends at a time"),
        ],
        // With swap allowed no more than memory alone, nothing is swapped.
        (Version::One, Controller::Memory) => vec![
            must("memory.limit_in_bytes", memory.clone()),
            may(
                "memory.memsw.limit_in_bytes",
                &memory,
                "swap is not counted",
            ),
            may("memory.swappiness", "0", "swap is not avoided"),
        ],
        (_, Controller::Pids) => vec![must("pids.max", tasks)],
        (Version::Two, Controller::Cpu) => vec![must("cpu.max", format!("{quota} {PERIOD}"))],
        (Version::One, Controller::Cpu) => vec![
            must("cpu.cfs_period_us", PERIOD.to_string()),
            must("cpu.cfs_quota_us", quota.to_string()),
        ],
        (_, Controller::Freezer) => Vec::new(),
    }
}

const fn limit_of(controller: Controller) -> Option<Limit> {
    match controller {
        Controller::Memory => Some(Limit::Memory),
        Controller::Pids => Some(Limit::Pids),
        Controller::Cpu => Some(Limit::Cpus),
        Controller::Freezer => None,
    }
}

/// Sets one controller of a new cgroup; says what it holds now.
pub(super) fn apply(
    directory: &Path,
    version: Version,
    controller: Controller,
    limits: &Limits,
) -> Result<Option<(Limit, Held)>, String> {
    let mut how = match version {
        Version::One => "cgroup v1".to_owned(),
        Version::Two => "cgroup v2".to_owned(),
    };
    for setting in settings(version, controller, limits) {
        match (
            files::write(&directory.join(setting.file), &setting.value),
            setting.without,
        ) {
            (Ok(()), _) => {}
            (Err(error), Some(without)) if error.kind() == io::ErrorKind::NotFound => {
                how.push_str(", ");
                how.push_str(without);
            }
            (Err(error), _) => {
                return Err(format!(
                    "`{}` of `{}` cannot be set to `{}`: {error}",
                    setting.file,
                    directory.display(),
                    setting.value
                ));
            }
        }
    }
    Ok(limit_of(controller).map(|limit| {
        let class = Class::Enforced;
        (limit, Held { class, how })
    }))
}
