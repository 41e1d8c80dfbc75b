//! Child processes for tests: this test binary again, in a part of its own.

use crate::template::TEMPLATES;
use airlock_core::ByteSize;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

pub(crate) const MIB: u64 = 1 << 20;

/// The smallest limits a test can show something with.
pub(crate) fn limits() -> crate::plan::Limits {
    crate::plan::Limits {
        memory: ByteSize::from_bytes(64 * MIB),
        cpus: 500,
        pids: 20,
        ..TEMPLATES[0].limits
    }
}

const PART: &str = "AIRLOCK_TEST_PART";

/// A child that waits, after each step, for word to take the next.
pub(crate) struct Actor {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Actor {
    pub(crate) fn start(part: &str) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test needs a process of its own"
        )]
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "linux::limits::testing::an_actor_takes_its_cue";
        let mut child = command
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut actor = Self {
            child,
            stdin,
            stdout,
        };
        assert!(actor.said("ready"), "it never came on");
        actor
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it take its next step.
    pub(crate) fn go(&mut self) {
        let _ = writeln!(self.stdin);
    }

    /// Takes a step to its end; false if it did not live to say so.
    pub(crate) fn step(&mut self) -> bool {
        self.go();
        self.said("done")
    }

    fn said(&mut self, word: &str) -> bool {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).is_ok_and(|read| read > 0) {
            // The harness writes on the same line before the first word.
            if line.trim_end().ends_with(word) {
                return true;
            }
            line.clear();
        }
        false
    }

    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cue() {
    let mut byte = [0];
    // Nobody left to give cues: the test is over.
    let read = std::io::stdin().read(&mut byte).unwrap();
    assert_ne!(read, 0, "the test is over");
}

fn say(word: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{word}").unwrap();
    out.flush().unwrap();
}

#[test]
fn an_actor_takes_its_cue() {
    #[expect(clippy::disallowed_methods, reason = "how a test says which part")]
    let part = std::env::var(PART);
    if let Ok(part) = part {
        act(&part);
    }
    let mut actor = Actor::start("waits");
    assert!(actor.step());
    assert!(actor.step());
    assert!(actor.is_running());
}

/// What an actor does, until there are no more cues.
fn act(part: &str) -> ! {
    say("ready");
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut files = Vec::new();
    let mut children: Vec<Actor> = Vec::new();
    loop {
        cue();
        match part {
            "waits" => {}
            "grows by 32 MiB" => kept.push(vec![1; 32 << 20]),
            "grows by 256 MiB" => kept.push(vec![1; 256 << 20]),
            "fills a memory file" => {
                let name = "a) name\nof (its own";
                let flags = rustix::fs::MemfdFlags::CLOEXEC;
                let file = rustix::fs::memfd_create(name, flags).unwrap();
                let mut file = std::fs::File::from(file);
                file.write_all(&vec![1; 48 << 20]).unwrap();
                files.push(file);
            }
            "has ten threads" => {
                for _ in 0..9 {
                    std::thread::spawn(|| sleep(Duration::from_mins(1)));
                }
            }
            "threads until refused" => {
                while std::thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn(|| sleep(Duration::from_mins(1)))
                    .is_ok()
                {}
            }
            "has children" => {
                // From a thread, which then is their parent.
                let born = std::thread::spawn(|| {
                    (0..5).map(|_| Actor::start("waits")).collect::<Vec<_>>()
                });
                children.extend(born.join().unwrap());
            }
            "is a bomb" => {
                #[expect(clippy::disallowed_methods, reason = "a test needs many processes")]
                let mut bomb = Command::new("sh");
                // A hundred at a time, of which most vanish while they are looked at.
                let script =
                    "i=0; while [ $i -lt 100 ]; do sleep 0.0$((i % 10)) & i=$((i+1)); done; wait";
                bomb.args(["-c", script]).stdin(Stdio::null());
                assert!(bomb.status().unwrap().success());
            }
            "works" => {
                let begun = std::time::Instant::now();
                while begun.elapsed() < Duration::from_millis(300) {
                    std::hint::black_box(kept.len());
                }
            }
            other => panic!("there is no part `{other}`"),
        }
        say("done");
    }
}
