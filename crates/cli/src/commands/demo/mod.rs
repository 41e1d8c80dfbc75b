//! `airlock demo`: the whole road on a sample project, offline, leaving nothing behind.
//!
//! Everything shown really happens: a real project in a temporary directory, the real kernel, real
//! sandboxes, the real log. The agent is a recorded conversation and says so; what its calls come to
//! is not recorded, and a step that goes otherwise than told ends the demo with a failure.

mod hands;
mod interrupt;
mod person;
mod play;
mod project;
mod repository;
mod scene;
mod tampering;

use crate::failure::{Ending, Failure, Kind};
use crate::output::Output;
use crate::place::Place;
use airlock_audit::ExportFormat;
use airlock_core::SessionId;
use airlock_kernel::{
    Call, Clock, DEFAULT_OUTPUT_BYTES, Front, Kernel, KernelConfig, Lifetime, Machine, Outcome,
};
use scene::Scene;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Less than this many bytes are no room to build in.
const ROOM: u64 = 32 * 1024 * 1024;
const TMPDIR: &str = "set TMPDIR to a directory with some room that you can write";

const TASK: &str = "parse_config panics on bad input: return an error instead";

/// Where the demo happens.
struct Room {
    directory: tempfile::TempDir,
    machine: Machine,
    /// What a report that got out would reach.
    outside: TcpListener,
}

impl Drop for Room {
    fn drop(&mut self) {
        // Overlays of an ordinary user leave directories that nobody may enter; the temporary
        // directory is removed after this, and could not be with them.
        interrupt::open_up(self.directory.path());
    }
}

impl Room {
    fn make() -> Result<Self, Failure> {
        let directory = tempfile::Builder::new()
            .prefix("airlock-demo-")
            .tempdir()
            .map_err(|error| failed(&error))?;
        let outside = TcpListener::bind("127.0.0.1:0").map_err(|error| failed(&error))?;
        outside
            .set_nonblocking(true)
            .map_err(|error| failed(&error))?;
        let port = outside.local_addr().map_err(|error| failed(&error))?.port();
        let workspace = directory.path().join("parser");
        project::write(&workspace, port).map_err(|error| failed(&error))?;
        let mut machine = Place::machine_here();
        machine.own.push(directory.path().join("state"));
        Ok(Self {
            directory,
            machine,
            outside,
        })
    }

    fn workspace(&self) -> PathBuf {
        self.directory.path().join("parser")
    }

    /// What went wrong, with the usual reason where that is it.
    fn explained(&self, failure: Failure) -> Failure {
        let free = rustix::fs::statvfs(self.directory.path());
        let free = free.map_or(u64::MAX, |about| {
            about.f_bavail.saturating_mul(about.f_frsize)
        });
        if free < ROOM {
            failure.fix(TMPDIR)
        } else {
            failure
        }
    }

    /// Whether something got out to where the report was meant to go; none if nothing could, whoever
    /// tried.
    fn reached(&self) -> Option<bool> {
        let reached = self.outside.accept().is_ok();
        let address = self.outside.local_addr().ok()?;
        TcpStream::connect(address).ok()?;
        self.outside.accept().ok()?;
        Some(reached)
    }

    /// Whether the agent's real work can be done: it builds and tests.
    fn has_cargo(&self) -> bool {
        let path = self.machine.environment.get(OsStr::new("PATH"));
        let path = path.map(std::env::split_paths);
        path.into_iter()
            .flatten()
            .any(|directory| directory.join("cargo").is_file())
    }

    fn open(&self) -> Result<Kernel, Failure> {
        let opened = Kernel::open(KernelConfig {
            workspace: self.workspace(),
            state_home: self.directory.path().join("state"),
            clock: Clock::system(),
            lifetime: Lifetime::Long,
            output_bytes: DEFAULT_OUTPUT_BYTES,
            search_threads: 0,
            worker: super::script_worker::program(),
        });
        Ok(opened
            .map_err(super::open::start_failure)?
            .on(self.machine.clone()))
    }
}

pub(super) fn run(output: &mut Output) -> Ending {
    let begun = Instant::now();
    let room = Room::make()?;
    let watch = interrupt::watch(room.directory.path())?;
    let mut scene = Scene::new(output, &watch);
    let told = tell(&mut scene, &room);
    watch.give_way();
    let whole = told.map_err(|failure| room.explained(failure))?;
    let took = gone(&mut scene, room, begun);
    let claims = scene.claims().to_vec();
    let surprises = claims.iter().filter(|one| !one.holds).count();
    if surprises > 0 {
        return Err(Failure::new(
            Kind::Failed,
            format!("{surprises} steps did not go as they should"),
        )
        .fix("please report this with the text above"));
    }
    let next = "Next, in a project of yours:  airlock init && airlock exec -- make test";
    scene.close(whole.closing(), next);
    let is_json = scene.is_json();
    drop(scene);
    if is_json {
        let seconds = took.as_secs();
        output.json(&json!({ "surprises": surprises, "seconds": seconds, "claims": claims }));
    }
    Ok(0)
}

/// Takes the room away, and says so, with how long all of it took.
fn gone(scene: &mut Scene<'_>, room: Room, begun: Instant) -> Duration {
    let place = room.directory.path().to_owned();
    drop(room);
    let took = begun.elapsed();
    scene.title("The end");
    let text = format!("it took {}, and nothing is left behind", timed(took));
    scene.holds(!place.exists(), &text);
    took
}

/// What the demo should take at most.
const MINUTE: Duration = Duration::from_mins(1);

/// How long it took, and whether that is what it should. A machine that is slow or at work on
/// something else is no fault of what was shown.
fn timed(took: Duration) -> String {
    let seconds = took.as_secs().max(1);
    if took < MINUTE {
        format!("{seconds} seconds, which is under a minute")
    } else {
        format!("{seconds} seconds, which is more than the minute it takes where nothing else runs")
    }
}

/// How much of the story could be told here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Whole,
    /// Without the agent's work, and so without review, merge and undo.
    WithoutWork,
    /// Without any program.
    WithoutPrograms,
}

impl Told {
    /// What was shown, and nothing else.
    const fn closing(self) -> &'static str {
        match self {
            Self::Whole => {
                "That is the road: decided, sandboxed, staged, recorded, reviewed, undoable, proven."
            }
            Self::WithoutWork => "That is the road: decided, sandboxed, recorded, proven.",
            Self::WithoutPrograms => "That is the road: decided, recorded, proven.",
        }
    }
}

fn tell(scene: &mut Scene<'_>, room: &Room) -> Result<Told, Failure> {
    scene.title("Airlock, on a small Rust project in a temporary directory");
    scene.say("offline, and timed; the kernel, the sandboxes, cargo, git and the log are real");
    scene.title("A repository from somewhere, with a policy of its own inside");
    repository::begin(scene, &room.workspace());
    untrusted(scene, room)?;
    let kernel = room.open()?;
    policy(scene, &kernel)?;
    let session = session(&kernel)?;
    if !can_confine(scene, &kernel) {
        return finish(scene, kernel, room).map(|()| Told::WithoutPrograms);
    }
    let works = room.has_cargo() && cargo_runs(&kernel);
    work(scene, &kernel, room, (&session, works))?;
    if works {
        repository::review(scene, &kernel, &room.workspace(), &session)?;
    } else {
        scene.title("There is no cargo here that runs in a sandbox");
        scene.say("so the agent's real work, its review, merge and undo are left out");
    }
    finish(scene, kernel, room)?;
    Ok(if works {
        Told::Whole
    } else {
        Told::WithoutWork
    })
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(Kind::Failed, "the demo cannot set up its sample project")
        .why(error)
        .fix(TMPDIR)
}

fn closed(kernel: Kernel) -> Result<(), Failure> {
    kernel
        .close()
        .map_err(|error| Failure::of(Kind::Failed, &error))
}

/// The clone's own policy allows everything; nobody approved it, so it counts for nothing.
fn untrusted(scene: &mut Scene<'_>, room: &Room) -> Result<(), Failure> {
    let kernel = room.open()?;
    scene.say("its .airlock/policy.yaml would allow everything, but nobody approved it");
    let outcome = kernel.submit(
        Front::Agent,
        &Call::new("fs.read", json!({ "path": ".env" })),
    );
    let denied = matches!(outcome, Outcome::Denied(_));
    scene.holds(
        denied,
        &format!(
            "policy in force: {}; reading .env is denied",
            kernel.policy().origin()
        ),
    );
    closed(kernel)?;
    std::fs::remove_dir_all(room.workspace().join(".airlock")).map_err(|error| failed(&error))
}

fn policy(scene: &mut Scene<'_>, kernel: &Kernel) -> Result<(), Failure> {
    scene.title("airlock init: a policy that fits the project, deny by default");
    person::approved(kernel, &Call::new("policy.init", json!({})))?;
    let path = Path::new(kernel.workspace().root().path()).join(".airlock/policy.yaml");
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    // The project's scripts, so that what they try meets the sandbox's walls and not the list.
    let text = text.replace(
        "  - executable: rustc\n",
        "  - executable: rustc\n  - executable: bash\n",
    );
    person::approved(kernel, &Call::new("policy.update", json!({ "text": text })))?;
    scene
        .say("the person adds `bash` to the programs an agent may run, reviews that, and says yes");
    let rules = kernel.policy().policy().document().rules.len();
    scene.holds(
        rules > 0,
        &format!("{rules} rules of the person's, and the built-in ones that nothing removes"),
    );
    Ok(())
}

fn session(kernel: &Kernel) -> Result<SessionId, Failure> {
    let arguments = json!({ "title": TASK, "mode": "strict" });
    let made = person::approved(kernel, &Call::new("session.create", arguments))?;
    let id = made
        .value
        .get("id")
        .and_then(Value::as_str)
        .unwrap_or_default();
    SessionId::new(id).map_err(|error| Failure::of(Kind::Failed, &error))
}

/// Where this machine cannot confine a program, none is run, and the story ends early.
fn can_confine(scene: &mut Scene<'_>, kernel: &Kernel) -> bool {
    let call = Call::new("exec.own", json!({ "command": ["true"], "no_stage": true }));
    match kernel.submit(Front::Cli, &call) {
        Outcome::Failed(failed) if failed.code == "not_enforceable" => {
            scene.title("This machine cannot confine programs");
            scene.say("so none is run: nothing falls back to running it unconfined");
            scene.say("`airlock doctor` says what is missing and how to mend it");
            false
        }
        outcome @ (Outcome::Done(_)
        | Outcome::Denied(_)
        | Outcome::NeedsReview(_)
        | Outcome::Failed(_)) => {
            scene.holds(
                matches!(outcome, Outcome::Done(_)),
                "programs run in a sandbox of Airlock's own making",
            );
            true
        }
    }
}

/// Whether cargo is more than a name: without a home its toolchain may not be found.
fn cargo_runs(kernel: &Kernel) -> bool {
    let arguments = json!({ "command": ["cargo", "--version"], "no_stage": true });
    match kernel.submit(Front::Cli, &Call::new("exec.own", arguments)) {
        Outcome::Done(done) => done.value.get("exit") == Some(&json!(0)),
        Outcome::Denied(_) | Outcome::NeedsReview(_) | Outcome::Failed(_) => false,
    }
}

fn work(
    scene: &mut Scene<'_>,
    kernel: &Kernel,
    room: &Room,
    (session, works): (&SessionId, bool),
) -> Result<(), Failure> {
    scene.title(&format!("airlock run \"{TASK}\""));
    scene.say("the agent is a recorded conversation; what its calls come to is not");
    let home = room.machine.home.to_string_lossy().into_owned();
    let tally = play::play(scene, kernel, session, &home, works)?;
    scene.title("What it got, and what it did not");
    scene.holds(
        tally.denied >= 4,
        &format!(
            "{} calls denied, each with the rule that denied it",
            tally.denied
        ),
    );
    scene.holds(
        tally.flagged > 0,
        "the instruction in CONTRIBUTING.md reached it only as marked data",
    );
    scene.holds(
        room.reached() == Some(false),
        "its report got nowhere: the port it was meant for is open, and nothing reached it",
    );
    let real = std::fs::read_to_string(room.workspace().join("src/lib.rs")).unwrap_or_default();
    scene.holds(
        real.contains("unwrap"),
        "the real tree is as it was: all changes wait in the stage",
    );
    Ok(())
}

fn finish(scene: &mut Scene<'_>, kernel: Kernel, room: &Room) -> Result<(), Failure> {
    scene.title("Every one of these calls is in the log, attempts and outcomes");
    scene.log(&kernel)?;
    let checkpoint = kernel
        .log()
        .checkpoint()
        .map_err(|error| Failure::of(Kind::Failed, &error).maybe_fix(error.hint()))?;
    let mut export = Vec::new();
    kernel
        .log()
        .export(&mut export, ExportFormat::Jsonl)
        .map_err(|error| Failure::of(Kind::Failed, &error))?;
    let state_dir = kernel.workspace().state().clone();
    closed(kernel)?;
    tampering::show(
        scene,
        &state_dir,
        &export,
        &checkpoint,
        room.directory.path(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_took_less_is_under_a_minute() {
        for (millis, seconds, under) in [
            (10, "1 seconds", true),
            (59_999, "59 seconds", true),
            (60_000, "60 seconds", false),
            (200_000, "200 seconds", false),
        ] {
            let told = timed(Duration::from_millis(millis));
            assert!(told.starts_with(seconds), "{told}");
            assert_eq!(told.contains("under a minute"), under, "{told}");
        }
    }
}
