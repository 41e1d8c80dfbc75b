//! Starting: the program that only says its version, and a kernel that is ready to be asked.

use super::config;
use crate::failure::Failure;
use crate::measure;
use crate::options::Options;
use crate::programs;
use crate::table::Row;
use airlock_kernel::{DEFAULT_OUTPUT_BYTES, Kernel};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

const VERSION: f64 = 10e6;
const READY: f64 = 50e6;

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let times = options.pick(200, 30);
    Ok(vec![version(times)?, ready(times)?])
}

/// The whole program.
fn version(times: usize) -> Result<Row, Failure> {
    const WHAT: &str = "start of `airlock --version`, p50";
    const WANTED: &str = "under 10 ms";
    let program = programs::handed_out("airlock")?;
    if !program.is_file() {
        return Ok(Row::missing(WHAT, WANTED, programs::NOT_BUILT));
    }
    spawn(&program, &["--version"])?;
    let ours = measure::each(times, || drop(black_box(spawn(&program, &["--version"]))));
    let nothing = Path::new("true");
    spawn(nothing, &[])?;
    let floor = measure::each(times, || drop(black_box(spawn(nothing, &[]))));
    let (ours, floor) = (ours.median(), floor.median());
    Ok(Row::new(WHAT)
        .measured(measure::time_text(ours))
        .against(format!("{} `true`", measure::time_text(floor)))
        .ratio(ours / floor)
        .wanted(WANTED, ours < VERSION))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the start of a program is what is measured"
)]
fn spawn(program: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{}` failed", program.display())))
    }
}

/// A kernel on a workspace that has been used before.
fn ready(times: usize) -> Result<Row, Failure> {
    let directory = tempfile::tempdir()?;
    let workspace = directory.path().join("work");
    std::fs::create_dir_all(&workspace)?;
    let state = directory.path().join("state");
    let open = || Kernel::open(config(&workspace, &state, DEFAULT_OUTPUT_BYTES));
    open()?.close()?;
    let mut nanos = Vec::with_capacity(times);
    for _ in 0..times {
        let start = std::time::Instant::now();
        let kernel = open()?;
        nanos.push(measure::nanos(start.elapsed()));
        kernel.close()?;
    }
    let median = measure::Samples::new(nanos).median();
    Ok(Row::new("kernel opened and ready, p50")
        .measured(measure::time_text(median))
        .against("a limit")
        .wanted("under 50 ms", median < READY))
}
