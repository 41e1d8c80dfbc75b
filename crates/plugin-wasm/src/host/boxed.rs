//! Starts workers in boxes: the worker program, in a sandbox that shows it itself and the system,
//! with no workspace, network or environment.
//!
//! Guarantee: a worker that is killed is gone, with its sandbox, when killing returns.

use super::link::{Pipes, Spawn};
use airlock_sandbox::launch::{Command, Launch, StartError, Stdin, Streams};
use airlock_sandbox::{
    Control, HostPath, Launcher, Minimum, Plan, Sandbox, Surroundings, Template, base, start_with,
};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

/// The template of workers.
const TEMPLATE: &str = "policy-sandbox";
/// The home inside, which is empty.
const HOME: &str = "/home/user";
/// Below the state directory: where live sandboxes of workers are noted.
const REGISTRY: &str = "wasm-workers";

/// The program that serves plugins, started in a box each time.
#[derive(Debug, Clone)]
pub struct Boxed {
    /// The executable, by its real absolute path. It must call `serve` and nothing else.
    pub program: PathBuf,
    /// What it is given.
    pub arguments: Vec<OsString>,
    /// A directory of Airlock's own, which no box sees. It is made if it is not there.
    pub state: PathBuf,
    /// What raises the walls.
    pub launcher: Launcher,
}

impl Boxed {
    fn launch(&self, template: &'static Template) -> Result<Launch, StartError> {
        let problem = |problem| step("find a path for a worker", io::Error::other(problem));
        let path = |path: &Path| HostPath::new(path).map_err(problem);
        let surroundings = Surroundings {
            own: vec![path(&self.state)?],
            home: None,
        };
        let plan = Plan::builder(template, &surroundings)
            .read(&self.program)
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
        let program = self.program.clone().into_os_string();
        let arguments = self.arguments.iter().cloned();
        Command {
            arguments: [program].into_iter().chain(arguments).collect(),
            lasting: true,
            ..Command::default()
        }
    }
}

impl Spawn for Boxed {
    fn spawn(&self) -> io::Result<Pipes> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.state)?;
        // What was left of workers by a kernel that was killed. If it cannot be removed now, it is
        // tried again at the next start.
        let _collected = airlock_sandbox::collect(&self.state.join(REGISTRY));
        let template = Template::find(TEMPLATE).ok_or(io::ErrorKind::NotFound)?;
        let sandbox = self
            .launch(template)
            .and_then(|launch| start_with(self.launcher, launch))
            .map_err(io::Error::other)?;
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((input, stdin), (stdout, output)) = (pipe()?, pipe()?);
        let id = sandbox.id().to_owned();
        let report = serde_json::to_value(sandbox.report()).unwrap_or_default();
        let control = sandbox.control();
        let command = self.command();
        let supervisor = Builder::new()
            .name("wasm worker".to_owned())
            .spawn(move || supervise(sandbox, &command, input, output))?;
        let mut running = Some((control, supervisor));
        Ok(Pipes {
            stdin: Box::new(File::from(stdin)),
            stdout: Box::new(File::from(stdout)),
            kill: Box::new(move || {
                if let Some((control, supervisor)) = running.take() {
                    end(&control, supervisor);
                }
            }),
            sandbox: Some(id),
            report,
            most: template.limits.stdout.as_bytes(),
        })
    }
}

fn end(control: &Control, supervisor: JoinHandle<()>) {
    control.cancel();
    // A supervisor that panicked has dropped its sandbox, and so ended it.
    let _ended = supervisor.join();
}

/// Runs the worker to its end, and ends its sandbox. How it ended is seen by its silence.
///
/// Passing its output on never waits for long: whoever reads the pipe reads all of it, or closes it.
fn supervise(mut sandbox: Sandbox, command: &Command, input: OwnedFd, output: OwnedFd) {
    let streams = Streams {
        stdin: Stdin::From(input),
        stdout: &mut File::from(output),
        stderr: &mut io::sink(),
        terminal: None,
    };
    let _ended = sandbox.run(command, streams);
}

fn step(what: &str, source: io::Error) -> StartError {
    StartError::Step {
        step: what.to_owned(),
        source,
    }
}
