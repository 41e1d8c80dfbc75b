//! Starts workers: the worker program, in a sandbox that shows it itself and the system, with no
//! workspace, network or environment.
//!
//! Guarantee: a worker that is killed is gone, with its sandbox, when killing returns.

use super::WorkerProgram;
use airlock_plugin::boxed::Outlet;
use airlock_sandbox::launch::{Command, Launch, StartError, Stdin, Streams};
use airlock_sandbox::{
    Control, HostPath, Minimum, Plan, Sandbox, Surroundings, Template, base, start,
};
use airlock_script::{Pipes, Spawn};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

/// The template of workers.
const TEMPLATE: &str = "policy-sandbox";
/// The home inside, which is empty.
const HOME: &str = "/home/user";
/// Below the state directory: where live sandboxes of workers are noted.
pub(crate) const REGISTRY: &str = "workers";

/// Starts workers of one extension, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    program: WorkerProgram,
    /// Airlock's own directory, which no plan may grant.
    state: PathBuf,
    /// Bytes the worker that runs now has answered.
    passed: Arc<AtomicU64>,
}

/// What ends a running worker.
struct Running {
    /// Closed, it frees whoever carries the worker's output.
    stopping: OwnedFd,
    control: Control,
    supervisor: JoinHandle<()>,
}

impl Running {
    fn end(self) {
        drop(self.stopping);
        self.control.cancel();
        // A supervisor that panicked has dropped its sandbox, and so ended it.
        let _ended = self.supervisor.join();
    }
}

impl Launcher {
    pub(crate) fn new(program: &WorkerProgram, state: &Path) -> Self {
        Self {
            program: program.clone(),
            state: state.to_owned(),
            passed: Arc::default(),
        }
    }

    /// Whether the worker has used up half of what a sandbox may write in its life. It is replaced
    /// before the sandbox ends it for that, since its end would be a denial.
    pub(super) fn is_spent(&self) -> bool {
        let most = template().map_or(0, |template| template.limits.stdout.as_bytes());
        self.passed.load(Ordering::Relaxed) > most / 2
    }

    fn launch(&self) -> Result<Launch, StartError> {
        let problem = |problem| step("find a path for a worker", io::Error::other(problem));
        let path = |path: &Path| HostPath::new(path).map_err(problem);
        let surroundings = Surroundings {
            own: vec![path(&self.state)?],
            home: None,
        };
        let template = template().ok_or_else(|| {
            step(
                "find the template of workers",
                io::ErrorKind::NotFound.into(),
            )
        })?;
        let plan = Plan::builder(template, &surroundings)
            .read(&self.program.path)
            .without_network()
            .build()?;
        Ok(Launch {
            minimum: Minimum::of(&plan),
            plan,
            base: base::detect(Path::new("/"), &path(Path::new(HOME))?),
            home: Vec::new(),
            layers: None,
            registry: self.state.join(REGISTRY),
        })
    }

    fn command(&self) -> Command {
        let program = self.program.path.clone().into_os_string();
        let arguments = self.program.arguments.iter().cloned();
        Command {
            arguments: [program].into_iter().chain(arguments).collect(),
            lasting: true,
            ..Command::default()
        }
    }
}

fn template() -> Option<&'static Template> {
    Template::find(TEMPLATE)
}

fn step(what: &str, source: io::Error) -> StartError {
    StartError::Step {
        step: what.to_owned(),
        source,
    }
}

impl Spawn for Launcher {
    fn spawn(&self) -> io::Result<Pipes> {
        // What a kernel that was killed left of its workers. If it cannot be removed now, it is
        // tried again at the next start.
        let _collected = airlock_sandbox::collect(&self.state.join(REGISTRY));
        let sandbox = self.launch().and_then(start).map_err(io::Error::other)?;
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((input, stdin), (stdout, output)) = (pipe()?, pipe()?);
        let (stop, stopping) = pipe()?;
        self.passed.store(0, Ordering::Relaxed);
        let outlet = Outlet::new(output, stop, Arc::clone(&self.passed))?;
        let control = sandbox.control();
        let command = self.command();
        let supervisor = Builder::new()
            .name("extension worker".to_owned())
            .spawn(move || supervise(sandbox, &command, input, outlet))?;
        let mut running = Some(Running {
            stopping,
            control,
            supervisor,
        });
        Ok(Pipes {
            stdin: Box::new(File::from(stdin)),
            stdout: Box::new(File::from(stdout)),
            kill: Box::new(move || {
                if let Some(running) = running.take() {
                    running.end();
                }
            }),
        })
    }
}

/// Runs the worker to its end, and ends its sandbox. How it ended is seen by its silence.
fn supervise(mut sandbox: Sandbox, command: &Command, input: OwnedFd, mut outlet: Outlet) {
    let streams = Streams {
        stdin: Stdin::From(input),
        stdout: &mut outlet,
        stderr: &mut io::sink(),
        terminal: None,
    };
    let _ended = sandbox.run(command, streams);
}
