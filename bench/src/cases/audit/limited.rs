//! Durable appends where a sync takes as long as on a disk that has to write: a control group limits
//! how many writes a second the disk does for a worker.

use super::durable::{WANTED, WRITERS, append_rate, fsync_rate};
use super::{entries, open, stored};
use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a worker is asked to measure.
pub(in super::super) const TASK: &str = "durable";

const WRITES_A_SECOND: u32 = 1_000;
const WHAT: &str = "durable append, threads: 32, on a disk limited to 1,000 writes a second";
const TARGET: &str = "at least 10 x";

/// The row, measured in a worker of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "it starts itself, so that only the worker is limited"
)]
pub(super) fn row(options: &Options) -> Result<Row, Failure> {
    let home = tempfile::tempdir()?;
    let group = match Group::new(home.path()) {
        Ok(group) => group,
        Err(why) => return Ok(Row::missing(WHAT, TARGET, why)),
    };
    let worker = Command::new(std::env::current_exe()?)
        .args(["--worker", TASK])
        .arg(home.path())
        .arg(&group.0)
        .arg(options.pick("100", "20"))
        .stderr(Stdio::inherit())
        .output()?;
    let told = String::from_utf8_lossy(&worker.stdout).into_owned();
    match told.lines().next() {
        Some(line) if worker.status.success() => Row::from_json(line),
        Some(_) | None => Err(Failure::new("the worker on the limited disk failed")),
    }
}

/// The worker's part: joins the group, then measures in `home`.
pub(in super::super) fn worker(home: &Path, arguments: &[String]) -> Result<Vec<Row>, Failure> {
    let [group, each] = arguments else {
        return Err(Failure::new("a worker needs two arguments"));
    };
    let each: usize = each.parse()?;
    fs::write(
        Path::new(group).join("cgroup.procs"),
        std::process::id().to_string(),
    )?;
    let entries = entries(u64::try_from(WRITERS * each)?)?;
    let stored = stored(&entries)?;
    let (mut together, mut raw) = (Vec::new(), Vec::new());
    let log = open(&home.join("log"))?;
    for _ in 0..3 {
        raw.push(fsync_rate(home, &stored, each)?);
        together.push(append_rate(&log, &entries, each)?);
    }
    log.close()?;
    let ratio = measure::median_ratio(&together, &raw);
    let [together, raw] = [together, raw].map(|rates| Samples::new(rates).median());
    Ok(vec![
        Row::new(WHAT)
            .measured(format!("{together:.0} records a second"))
            .against(format!(
                "{raw:.0} writes with fsync a second, {} each",
                measure::time_text(1e9 / raw)
            ))
            .ratio(ratio)
            .wanted(TARGET, ratio >= WANTED),
    ])
}

/// A control group whose processes write less than the disk could; gone when dropped.
struct Group(PathBuf);

impl Group {
    /// A group that limits the disk below `directory`, or why there can be none.
    fn new(directory: &Path) -> Result<Self, String> {
        let device = fs::metadata(directory).map_err(|error| error.to_string())?;
        let device = device.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = format!("{major}:{minor}");
        let limits = [
            (
                "/sys/fs/cgroup/blkio",
                "blkio.throttle.write_iops_device",
                format!("{device} {WRITES_A_SECOND}"),
            ),
            (
                "/sys/fs/cgroup",
                "io.max",
                format!("{device} wiops={WRITES_A_SECOND}"),
            ),
        ];
        let name = format!("airlock-bench-{}", std::process::id());
        for (parent, file, limit) in limits {
            let path = Path::new(parent).join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Self(path);
            // What is not there is not made: only the system's own files take limits.
            let file = fs::OpenOptions::new().write(true).open(group.0.join(file));
            let limited = file.and_then(|mut file| file.write_all(limit.as_bytes()));
            if limited.is_ok() {
                return Ok(group);
            }
        }
        Err("needs root, and a control group that limits this disk".to_owned())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its only process has ended; a group that stays limits nobody.
        let _ = fs::remove_dir(&self.0);
    }
}
