//! A command in a sandbox that stands already, against the same command without one.

use super::person::plain_command;
use super::place::{DENIED, Place, run};
use crate::failure::Failure;
use crate::measure::{self, Samples};
use crate::table::Row;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

const WANTED: &str = "at most + 1.5 ms";
const MOST: f64 = 1.5e6;

pub(super) fn row(person: &str, home: &Path, times: usize) -> Result<Row, Failure> {
    let place = Place::small(home, "warm")?;
    let mut sandbox = place.start(&[DENIED])?;
    let mut plain = plain_command("/bin/true", home);
    plain.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let start = Instant::now();
        plain.status()?;
        theirs.push(measure::nanos(start.elapsed()));
        let start = Instant::now();
        run(&mut sandbox, &["/bin/true"])?;
        ours.push(measure::nanos(start.elapsed()));
    }
    sandbox.stop();
    let more = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs);
    let more = Samples::new(more.collect()).median();
    let (ours, theirs) = (Samples::new(ours), Samples::new(theirs));
    Ok(
        Row::new(format!("`true` in a warm sandbox as {person}, p50 / p99"))
            .measured(format!(
                "{} / {}",
                measure::time_text(ours.median()),
                measure::time_text(ours.at(99))
            ))
            .against(format!(
                "{} plain fork and exec",
                measure::time_text(theirs.median())
            ))
            .difference(more)
            .wanted(WANTED, more <= MOST),
    )
}
