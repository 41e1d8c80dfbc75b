//! A program down the whole road, in a sandbox that lasts, against the same program without one and
//! one `fsync`: the attempt of a program is on disk before it runs.

use super::config;
use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::options::Options;
use crate::table::Row;
use airlock_kernel::{Call, DEFAULT_OUTPUT_BYTES, Front, Kernel, Machine, Outcome};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

const WANTED: &str = "at most + 1.5 ms";
const MOST: f64 = 1.5e6;

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let directory = tempfile::tempdir()?;
    let own = |name: &str| directory.path().join(name);
    for name in ["work", "home", "state"] {
        fs::create_dir(own(name))?;
    }
    let kernel = Kernel::open(config(&own("work"), &own("state"), DEFAULT_OUTPUT_BYTES))?;
    let kernel = kernel.on(Machine {
        home: own("home"),
        own: vec![own("state")],
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
    });
    let call = Call::new("exec.own", json!({ "command": ["/bin/true"] }));
    let mut log = File::create(own("log"))?;
    warm(&kernel, &call)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..options.pick(300, 30) {
        let start = Instant::now();
        plain()?;
        log.write_all(&[b'x'; 1_024])?;
        log.sync_data()?;
        theirs.push(measure::nanos(start.elapsed()));
        let start = Instant::now();
        warm(&kernel, &call)?;
        ours.push(measure::nanos(start.elapsed()));
    }
    let more = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs);
    let more = Samples::new(more.collect()).median();
    let (ours, theirs) = (Samples::new(ours), Samples::new(theirs));
    Ok(vec![
        Row::new("`true` by the kernel in a sandbox that lasts, p50 / p99")
            .measured(format!(
                "{} / {}",
                measure::time_text(ours.median()),
                measure::time_text(ours.at(99))
            ))
            .against(format!(
                "{} plain fork and exec, and one `fsync`",
                measure::time_text(theirs.median())
            ))
            .difference(more)
            .wanted(WANTED, more <= MOST),
    ])
}

fn warm(kernel: &Kernel, call: &Call) -> Result<(), Failure> {
    match kernel.submit(Front::Cli, call) {
        Outcome::Done(done) if done.value.get("exit") == Some(&json!(0)) => Ok(()),
        Outcome::Failed(failed) => Err(Failure::new(failed.what)),
        Outcome::Done(_) | Outcome::Denied(_) | Outcome::NeedsReview(_) => {
            Err(Failure::new("`true` did not run"))
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the start of a program is what is measured"
)]
fn plain() -> Result<(), Failure> {
    let mut command = Command::new("/bin/true");
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(())
}
