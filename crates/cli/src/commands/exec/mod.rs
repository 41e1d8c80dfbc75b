//! `airlock exec`: a command the person typed, in a sandbox, against a stage.
//!
//! The command's bytes pass unchanged to a file or pipe, and filtered to a terminal; what Airlock
//! itself has to say goes to stderr, after it.

mod ahead;
mod handed;
mod passing;
mod report;
mod running;
mod sinks;

pub(crate) use ahead::{Ahead, Begun};
pub(crate) use handed::Small;

use super::kernel::start_for_more;
use super::{open, outcome};
use crate::args::{ExecArgs, Global};
use crate::failure::{Ending, Failure, Kind};
use crate::output::Output;
use crate::place::current_directory;
use crate::review;
use crate::terminal::{Level, Raw, Watch, size};
use ahead::Hail;
use airlock_kernel::{Attached, Call, Front, Kernel, Outcome};
use airlock_sandbox::launch::{Stdin, TerminalSize};
use passing::Passing;
use serde_json::{Map, Value, json};
use sinks::{Captured, Passed};
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

const DENIED: u8 = 120;
const NEEDS_REVIEW: u8 = 121;
const NOT_ENFORCEABLE: u8 = 122;
/// Airlock's own failures, so that none of them looks like the command's.
pub(crate) const INTERNAL: u8 = 125;

/// The most `--json` keeps of each stream.
const STDOUT: usize = 1024 * 1024;
const STDERR: usize = 256 * 1024;

pub(super) fn run(
    global: &Global,
    args: &ExecArgs,
    begun: Option<Begun>,
    output: &mut Output,
) -> Ending {
    execute(global, args, begun, output).map_err(own_code)
}

/// Says what came of a command that the small program had the running kernel run.
pub(super) fn tell(global: &Global, args: &ExecArgs, output: &mut Output) -> Ending {
    handed::tell(global, args, output).map_err(own_code)
}

/// With a code that no command's own looks like.
fn own_code(failure: Failure) -> Failure {
    let code = match failure.kind {
        Kind::Denied => DENIED,
        Kind::NeedsReview => NEEDS_REVIEW,
        Kind::Unenforceable => NOT_ENFORCEABLE,
        Kind::Failed | Kind::Usage => INTERNAL,
    };
    failure.ending_with(code)
}

fn execute(global: &Global, args: &ExecArgs, begun: Option<Begun>, output: &mut Output) -> Ending {
    if args.tty && !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::new(Kind::Usage, "`--tty` needs a terminal")
            .why("stdin or stdout is none")
            .fix("leave `--tty` out"));
    }
    let (hail, ahead) = match begun {
        Some(Begun::There(hail)) => (Some(hail), None),
        Some(Begun::Here(ahead)) => (None, Some(ahead)),
        None => (Hail::find(global)?, None),
    };
    if let Some(hail) = hail
        && let Some(exit) = running::execute(global, args, hail, output)?
    {
        return Ok(exit);
    }
    let ahead = ahead.map_or_else(|| begun_here(global), Ok)?;
    let watch = Watch::begin().map_err(Failure::unwatched)?;
    let place = ahead.place.clone();
    let (kernel, config) = open::hurried(global, ahead, output)?;
    let root = Path::new(kernel.workspace().root().path());
    let call = Call::new("exec.own", arguments(args, root)?);
    let session = Session {
        args,
        watch: &watch,
        json: output.is_json(),
    };
    let mut streams = session.streams();
    let mut ended = session.submit(&kernel, &call, &mut streams)?;
    if let Outcome::NeedsReview(asked) = &mut ended {
        let what = format!(
            "running `{}`",
            airlock_kernel::sanitise_line(&args.command.join(" "), 200)
        );
        review::answer(&kernel, asked, &what, None, output)?;
        let again = session.submit(&kernel, &call, &mut streams);
        review::withdraw_unused(&kernel, asked, output);
        ended = again?;
    }
    let done = outcome::done(ended)?;
    let Some(ran) = done.ran.as_deref() else {
        return Err(Failure::new(Kind::Failed, "the command left no result"));
    };
    let exit = session.passing(&streams).exit(ran)?;
    open::warn_of_break(&kernel, Duration::ZERO, output);
    if output.is_json() {
        report::object(&done, ran, exit, &streams, output);
    } else {
        report::notes(ran, args, output);
    }
    // One that is not told this person's environment takes none of their commands.
    if config.starts_kernels() && place.person().is_some() {
        start_for_more(&place, kernel.workspace().state().path());
    }
    Ok(exit)
}

/// What is begun only now. A kernel that runs and did not take the command may hold its stage ready
/// for the next it takes.
fn begun_here(global: &Global) -> Result<Ahead, Failure> {
    open::flush_running(global);
    Ahead::here(global)
}

/// One run, as the person asked for it.
struct Session<'a> {
    args: &'a ExecArgs,
    watch: &'a Watch,
    json: bool,
}

/// Where the command's output goes.
enum Target {
    Captured(Captured, Captured),
    Passed(Passed, Passed),
}

impl Target {
    fn lost(&self) -> Option<&io::Error> {
        match self {
            Self::Passed(out, err) => out.lost().or_else(|| err.lost()),
            Self::Captured(..) => None,
        }
    }
}

impl Session<'_> {
    fn streams(&self) -> Target {
        if self.json {
            return Target::Captured(Captured::new(STDOUT), Captured::new(STDERR));
        }
        let level = if self.args.tty {
            Level::Screen
        } else {
            Level::Colours
        };
        let stdout = io::stdout();
        let stderr = io::stderr();
        let (out, err) = (stdout.is_terminal(), stderr.is_terminal());
        Target::Passed(
            Passed::new(Box::new(stdout), out.then_some(level)),
            Passed::new(Box::new(stderr), err.then_some(level)),
        )
    }

    fn submit(
        &self,
        kernel: &Kernel,
        call: &Call,
        target: &mut Target,
    ) -> Result<Outcome, Failure> {
        let terminal: Option<TerminalSize> = self.args.tty.then(size).flatten();
        // Put back when this returns, whatever happened.
        let _raw = terminal
            .map(|_| Raw::enter())
            .transpose()
            .map_err(|error| {
                Failure::new(Kind::Failed, "cannot put the terminal into raw mode").why(error)
            })?;
        let (stdout, stderr): (&mut (dyn Write + Send), &mut (dyn Write + Send)) = match target {
            Target::Captured(out, err) => (out, err),
            Target::Passed(out, err) => {
                out.cancels(self.watch);
                err.cancels(self.watch);
                (out, err)
            }
        };
        let attached = Attached {
            stdin: self.stdin()?,
            stdout,
            stderr,
            terminal,
            started: &|steering| self.watch.started(steering),
        };
        Ok(kernel.submit_with(Front::Cli, call, Some(attached)))
    }

    /// Ours, unless a person would have to type it without being asked to.
    fn stdin(&self) -> Result<Stdin, Failure> {
        if io::stdin().is_terminal() && !self.args.stdin && !self.args.tty {
            return Ok(Stdin::Empty);
        }
        if is_null_device(io::stdin().as_fd()) {
            return Ok(Stdin::Empty);
        }
        let copy = io::stdin().as_fd().try_clone_to_owned();
        copy.map(Stdin::From).map_err(|error| {
            Failure::new(Kind::Failed, "cannot pass stdin on")
                .why(error)
                .fix("redirect stdin from /dev/null")
        })
    }

    /// How it went to pass on what it said.
    fn passing(&self, target: &Target) -> Passing {
        let signal = match target {
            // Nobody reads on: what the command itself would have died of.
            Target::Passed(out, _) if out.is_closed() => Some(13),
            Target::Passed(..) | Target::Captured(..) => self.watch.last(),
        };
        Passing {
            lost: target.lost().map(ToString::to_string),
            signal,
        }
    }
}

/// The call's arguments.
fn arguments(args: &ExecArgs, root: &Path) -> Result<Value, Failure> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            object.insert(name.to_owned(), value);
        }
    };
    let (mut set, mut inherit) = (Map::new(), Vec::new());
    for word in &args.env {
        match word.split_once('=') {
            Some((name, value)) => {
                set.insert(name.to_owned(), json!(value));
            }
            None => inherit.push(word.as_str()),
        }
    }
    put("command", json!(args.command));
    put("template", json!(args.template));
    put("timeout", json!(args.timeout));
    put("memory", json!(args.memory));
    put("pids", json!(args.pids));
    put("stage", json!(args.stage));
    put("no_stage", json!(args.no_stage));
    put("deny", json!(args.deny));
    put("environment", Value::Object(set));
    put("inherit", json!(inherit));
    put("allow_read", json!(grants(&args.allow_read)?));
    put("allow_write", json!(grants(&args.allow_write)?));
    put("directory", json!(start(root)?));
    Ok(Value::Object(object))
}

/// Whether there is nothing to be read, now or ever.
fn is_null_device(descriptor: BorrowedFd<'_>) -> bool {
    let facts = |about: rustix::fs::Stat| {
        let kind = rustix::fs::FileType::from_raw_mode(about.st_mode);
        (kind == rustix::fs::FileType::CharacterDevice).then_some(about.st_rdev)
    };
    let ours = rustix::fs::fstat(descriptor).ok().and_then(facts);
    let null = rustix::fs::stat("/dev/null").ok().and_then(facts);
    ours.is_some() && ours == null
}

/// Granted paths, from where the person stands.
fn grants(paths: &[String]) -> Result<Vec<String>, Failure> {
    let absolute = |path: &String| {
        if Path::new(path).is_absolute() {
            return Ok(path.clone());
        }
        let here = current_directory()?.join(path);
        here.into_os_string().into_string().map_err(|_| {
            Failure::new(Kind::Usage, format!("cannot grant `{path}`"))
                .why("the current directory's name is not UTF-8 text")
                .fix("write the whole path")
        })
    };
    paths.iter().map(absolute).collect()
}

/// Where the command starts: where the person stands, if that is in the workspace. One who stands
/// in a directory that is gone named the workspace, and stands nowhere in it.
fn start(root: &Path) -> Result<Option<String>, Failure> {
    let here = current_directory()
        .ok()
        .and_then(|here| here.canonicalize().ok());
    let below = here
        .as_deref()
        .and_then(|here| here.strip_prefix(root).ok());
    let Some(below) = below.filter(|below| !below.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let text = below.to_str().map(str::to_owned);
    text.map(Some).ok_or_else(|| {
        Failure::new(Kind::Usage, "cannot start the command where you are")
            .why("the current directory's name is not UTF-8 text")
            .fix("change to another directory of the workspace")
    })
}
