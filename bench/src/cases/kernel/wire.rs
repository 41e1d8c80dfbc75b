//! A kernel in a process of its own: `fs.read` over its socket against opening and reading the same
//! file, its start, and what it keeps in memory while nobody asks.

use crate::failure::Failure;
use crate::measure::{self, Rounds};
use crate::options::Options;
use crate::programs;
use crate::table::Row;
use airlock_wire::{Client, Hello};
use serde_json::{Value, json};
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FILE: &str = "main.rs";
/// Reads of one round.
const READS: usize = 500;
const MEDIAN: f64 = 150_000.0;
const TAIL: f64 = 500_000.0;
const READY: f64 = 50e6;
const AGAIN_LIMIT: f64 = 1e9;
const MEMORY: u64 = 30 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

const READ: &str = "fs.read of 4 KiB over the socket, p50";
const START: &str = "`airlock kernel` until it answers, p50";
const AGAIN: &str = "a kernel killed amid calls until the next answers, p50";
const IDLE: &str = "resident memory of an idle kernel";

pub(in super::super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let program = programs::handed_out("airlock")?;
    if !program.is_file() {
        let wanted = [
            (READ, "under 150 us more"),
            (START, "under 50 ms"),
            (AGAIN, "under 1 s"),
            (IDLE, "under 30 MiB"),
        ];
        let missing = wanted.map(|(what, wanted)| Row::missing(what, wanted, programs::NOT_BUILT));
        return Ok(missing.into());
    }
    let place = Place::new(program)?;
    let mut rows = vec![place.start(options.pick(20, 5))?];
    rows.push(place.again(options.pick(20, 5))?);
    rows.extend(place.reads(options.pick(20, 3))?);
    rows.push(place.memory()?);
    Ok(rows)
}

/// A workspace, and the program that serves a kernel for it.
pub(in super::super) struct Place {
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Place {
    pub(in super::super) fn new(program: PathBuf) -> Result<Self, Failure> {
        let directory = tempfile::tempdir()?;
        for name in ["work/.git", "state", "config"] {
            fs::create_dir_all(directory.path().join(name))?;
        }
        let line = "    let frame_7 = buffer.decode(offset); // the frame of a buffer\n";
        fs::write(
            directory.path().join("work").join(FILE),
            line.repeat(4096 / line.len()),
        )?;
        Ok(Self { program, directory })
    }

    /// A path below a directory that goes with this value: `work` is the workspace.
    pub(in super::super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the kernel measured is a process"
    )]
    fn airlock(&self, words: &[&str]) -> Result<Value, Failure> {
        let output = Command::new(&self.program)
            .args(words)
            .arg("--json")
            .current_dir(self.path("work"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .output()?;
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// A kernel that answers; its process and a connection to it.
    pub(in super::super) fn kernel(&self) -> Result<(Served<'_>, Client), Failure> {
        let told = self.airlock(&["kernel"])?;
        let (Some(pid), Some(socket)) = (
            told.get("pid").and_then(Value::as_u64),
            told.get("socket").and_then(Value::as_str),
        ) else {
            return Err(Failure::new(format!("no kernel started: {told}")));
        };
        let kernel = Served {
            place: self,
            pid,
            socket: PathBuf::from(socket),
        };
        let client = kernel.client("agent")?;
        Ok((kernel, client))
    }

    fn start(&self, times: usize) -> Result<Row, Failure> {
        drop(self.kernel()?);
        let mut nanos = Vec::with_capacity(times);
        for _ in 0..times {
            let begun = Instant::now();
            let running = self.kernel()?;
            nanos.push(measure::nanos(begun.elapsed()));
            drop(running);
        }
        let median = measure::Samples::new(nanos).median();
        Ok(Row::new(START)
            .measured(measure::time_text(median))
            .against("a limit")
            .wanted("under 50 ms", median < READY))
    }

    /// Killed without a warning while calls are under way, as a crash would.
    fn again(&self, times: usize) -> Result<Row, Failure> {
        let mut nanos = Vec::with_capacity(times);
        for _ in 0..times {
            let (kernel, mut client) = self.kernel()?;
            let params = json!({ "name": "fs.read", "arguments": { "path": FILE } });
            let calling =
                std::thread::spawn(move || while client.call("call", params.clone()).is_ok() {});
            std::thread::sleep(Duration::from_millis(20));
            kernel.kill()?;
            let begun = Instant::now();
            let running = self.kernel()?;
            nanos.push(measure::nanos(begun.elapsed()));
            drop(running);
            drop(calling.join());
        }
        let median = measure::Samples::new(nanos).median();
        Ok(Row::new(AGAIN)
            .measured(measure::time_text(median))
            .against("a limit")
            .wanted("under 1 s", median < AGAIN_LIMIT))
    }

    fn reads(&self, rounds: usize) -> Result<Vec<Row>, Failure> {
        let (_kernel, mut client) = self.kernel()?;
        let params =
            json!({ "name": "fs.read", "arguments": { "path": FILE, "limit_lines": 100_000 } });
        let mut failed = 0;
        let mut road = || {
            let answer = black_box(client.call("call", params.clone()));
            let shown = answer
                .ok()
                .filter(|answer| answer.pointer("/outcome/done").is_some());
            failed += usize::from(shown.is_none());
        };
        measure::each(READS, &mut road);
        let ours = Rounds::new(rounds, || measure::each(READS, &mut road));
        let path = self.path("work").join(FILE);
        let mut plain = || drop(black_box(fs::read(&path)));
        let raw = Rounds::new(rounds, || measure::each(READS, &mut plain));
        if failed > 0 {
            return Err(Failure::new(format!("{failed} reads failed")));
        }
        let rows = [(50, MEDIAN), (99, TAIL)].map(|(percent, limit)| {
            let told = ours.text(percent, measure::time_text);
            let (ours, raw) = (ours.quietest(percent), raw.quietest(percent));
            Row::new(format!("fs.read of 4 KiB over the socket, p{percent}"))
                .measured(told)
                .against(format!("{} open and read(2)", measure::time_text(raw)))
                .ratio(ours / raw)
                .wanted(
                    format!("under {} more", measure::time_text(limit)),
                    ours - raw < limit,
                )
        });
        Ok(rows.into())
    }

    fn memory(&self) -> Result<Row, Failure> {
        let (kernel, mut client) = self.kernel()?;
        client
            .call("ping", Value::Null)
            .map_err(|error| Failure::new(error.to_string()))?;
        let status = fs::read_to_string(format!("/proc/{}/status", kernel.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        let resident: u64 = resident.ok_or_else(|| Failure::new("no memory is told"))?;
        Ok(Row::new(IDLE)
            .measured(format!("{resident} KiB"))
            .against("a limit")
            .wanted("under 30 MiB", resident < MEMORY))
    }
}

/// A running kernel, ended with this value.
pub(in super::super) struct Served<'a> {
    place: &'a Place,
    pid: u64,
    socket: PathBuf,
}

impl Served<'_> {
    /// A connection of its own, as `name`.
    pub(in super::super) fn client(&self, name: &str) -> Result<Client, Failure> {
        let hello = Hello::new(name, "bench");
        Client::connect(&self.socket, &hello, PATIENCE)
            .map_err(|error| Failure::new(error.to_string()))
    }

    /// Ends it as a crash would. What is left of it is found by the next one.
    fn kill(self) -> Result<(), Failure> {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new("no process is told"))?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)
            .map_err(std::io::Error::from)?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.place.airlock(&["kernel", "stop"]);
    }
}
