//! `airlock kernel`: a kernel that stays, for commands and other processes to use.

use super::{open, outcome};
use crate::args::Global;
use crate::config::Config;
use crate::failure::{Ending, Failure, Kind};
use crate::output::{Output, shown};
use crate::place::{Place, variable};
use airlock_core::Span;
use airlock_kernel::{Front, Kernel, Lifetime, Sandboxes};
use airlock_service::{
    ClientError, Ended, Lock, LockError, Notice, Options, Post, Remote, Running, ServeError,
    Stopper, Wish, socket_directory, start,
};
use clap::{Args, Subcommand, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// End after nobody was connected for this long; 0s to stay
    #[arg(long, value_name = "TIME", default_value = "10m")]
    idle: String,
    /// Stay in this terminal instead of the background
    #[arg(long)]
    foreground: bool,
    /// End when standard input does: for whoever starts it and may die
    #[arg(long, requires = "foreground")]
    until_closed: bool,
    /// Leave the terminal once it serves
    #[arg(long, hide = true, value_name = "BY")]
    detach: Option<StartedBy>,
}

/// Who has a kernel started in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StartedBy {
    /// A person, who is told whether it serves.
    Person,
    /// A command, for those to come. Nobody hears it, and it makes way for one that a person starts.
    Demand,
}

impl StartedBy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Demand => "demand",
        }
    }
}

impl Arguments {
    fn is_on_demand(&self) -> bool {
        self.detach == Some(StartedBy::Demand)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Say whether one runs, and how it is
    #[command(after_help = "Example:
  airlock kernel status --json")]
    Status,
    /// End the one that runs
    #[command(after_help = "Example:
  airlock kernel stop")]
    Stop,
}

/// How long a kernel may take to serve, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a kernel stays that was started because somebody needed one.
const ON_DEMAND: &str = "2m";
/// Where it is noted that a command was run without one, and how soon after it another counts as repeated.
const COMMANDED: &str = "commanded";
const SUCCESSION: Duration = Duration::from_mins(1);
/// How a kernel ends that a supervisor started for a workspace which another one serves: `airlock-bootstrap`
/// goes by it, and does not start it again.
const TAKEN: u8 = 75;
/// Most open files a kernel asks for: many times what all its connections take. Programs outside of
/// sandboxes inherit it, such as the one that tells a model's key, and some look at every number.
const FILES: u64 = 65_536;
/// How often somebody who waits looks.
const LOOK: Duration = Duration::from_millis(5);

pub(super) fn run(global: &Global, arguments: &Arguments, output: &mut Output) -> Ending {
    let place = Place::find(global.workspace.as_deref())?;
    match &arguments.action {
        Some(Action::Status) => status(&place, output),
        Some(Action::Stop) => stop(&place, output),
        None if arguments.foreground || arguments.detach.is_some() => {
            serve(global, &place, arguments, output)
        }
        None => background(global, &place, arguments, output),
    }
}

/// How long it may be idle; none: for ever.
fn idle(text: &str) -> Result<Option<Duration>, Failure> {
    let span: Span = text.parse().map_err(|error| {
        Failure::of(Kind::Usage, &error)
            .headed("`--idle` is no time")
            .fix("write it as 90s, 10m or 2h; 0s to stay")
    })?;
    let idle = Duration::from_millis(span.as_millis());
    Ok(Some(idle).filter(|idle| !idle.is_zero()))
}

fn serve(global: &Global, place: &Place, arguments: &Arguments, output: &mut Output) -> Ending {
    let idle = idle(&arguments.idle)?;
    if arguments.is_on_demand() {
        // Nobody hears it, and what a person sends to the command that started it is not for it.
        leave_session();
    }
    let config = open::configuration(global, place)?;
    open::apply_color(&config);
    let (state, _) = open::state(place)?;
    // Signals from now on end it in order.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::unwatched)?;
    let stopper = Stopper::default();
    let lock = lock(&state, arguments).map_err(|error| {
        let failure = locked(&error);
        if arguments.until_closed && error.is_served() {
            failure.ending_with(TAKEN)
        } else {
            failure
        }
    })?;
    let hosting = Hosting {
        global: global.clone(),
        place: place.clone(),
        stopper: stopper.clone(),
        idle,
        on_demand: arguments.is_on_demand(),
    };
    let kernel = open::embedded(place, &config, Lifetime::Long)?;
    // Left before anybody is served: what begins then would hold the streams, too.
    let left = arguments.detach.map(|_| Streams::leave()).transpose();
    let left =
        left.map_err(|error| Failure::new(Kind::Failed, "cannot leave the terminal").why(error))?;
    let served = hosting.host(&config, kernel, lock);
    if let (Err(_), Some(left)) = (&served, &left) {
        // Then the status alone says that it came to nothing.
        let _unheard = left.take_back();
    }
    let running = served?;
    drop(left);
    if arguments.until_closed {
        let stopper = stopper.clone();
        std::thread::spawn(move || {
            // What is said there does not matter, and an error is an end as well.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            stopper.stop();
        });
    }
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    });
    if arguments.detach.is_none() {
        ready(std::process::id(), running.socket(), output);
    }
    hosting.go_on(running, config)?;
    Ok(0)
}

/// Takes the lock. A supervisor that is started anew waits for the kernel that its predecessor leaves:
/// one that ends answers nobody any more. And one that a command started makes way for any other.
fn lock(state: &Path, arguments: &Arguments) -> Result<Lock, LockError> {
    let begun = Instant::now();
    let mut wish = None;
    loop {
        let taken = Lock::take(state);
        if !matches!(taken, Err(LockError::Taken { .. })) || begun.elapsed() >= PATIENCE {
            return taken;
        }
        // One that makes way says nothing any more at its very end.
        let makes_way = || airlock_service::running(state).is_some_and(|other| other.on_demand);
        if !arguments.is_on_demand() && (wish.is_some() || makes_way()) {
            wish.get_or_insert_with(|| Wish::make(state));
        } else if !arguments.until_closed || Remote::any(state, Front::Cli).is_some() {
            return taken;
        }
        std::thread::sleep(LOOK);
    }
}

/// Lets this process open as many files as it may, up to [`FILES`]: connections of others, and what
/// comes along with them, are not to use up those its own work needs. Sandboxes have a limit of their
/// own.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |most| most.min(FILES));
    if limit.current.is_some_and(|files| files < wanted) {
        let current = Some(wanted);
        // With fewer it serves as well, to fewer at once.
        let _allowed = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
}

/// How this process serves kernels to others, one after the other where their settings change.
pub(super) struct Hosting {
    pub(super) global: Global,
    pub(super) place: Place,
    pub(super) stopper: Stopper,
    pub(super) idle: Option<Duration>,
    pub(super) on_demand: bool,
}

impl Hosting {
    /// Serves `kernel`, which was opened with `config` under `lock`.
    pub(super) fn host(
        &self,
        config: &Config,
        kernel: Kernel,
        lock: Lock,
    ) -> Result<Running, Failure> {
        allow_files();
        let (state, id) = open::state(&self.place)?;
        let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        let directory = socket_directory(&state, runtime.as_deref(), id.as_str());
        let post = Post::take(lock, &directory).map_err(serve_failure)?;
        self.take_over(config, kernel, post)
    }

    fn take_over(&self, config: &Config, kernel: Kernel, post: Post) -> Result<Running, Failure> {
        let place = &self.place;
        let sandboxes = Sandboxes::in_reserve(super::doctor::ladder(place));
        let settings = open::settings(place, config)?;
        let mut options = Options::new(place.own(), settings);
        options.idle = self.idle;
        if self.on_demand {
            options.on_demand = Some(open::state(place)?.0);
        }
        options.stopper = self.stopper.clone();
        options.afresh = Some(open::afresh(&self.global, place));
        options.wire.limits = options.wire.limits.with_frames_of(config.frame_bytes());
        options.wire.users.extend(config.users());
        start(kernel.with_sandboxes(sandboxes), post, options).map_err(serve_failure)
    }

    /// Serves on until it is told to stop or nobody needs it: with other settings than `config`, once
    /// they have changed and somebody asks for that.
    pub(super) fn go_on(&self, mut running: Running, mut config: Config) -> Result<(), Failure> {
        loop {
            let post = match running.wait().map_err(serve_failure)? {
                Ended::Stopped => return Ok(()),
                Ended::Renewing(post) => post,
            };
            let kernel;
            (config, kernel) = self.opened_again(config)?;
            running = self.take_over(&config, kernel, post)?;
        }
    }

    /// A kernel with the settings as they are by now. What was broken since somebody looked is told to
    /// whoever asks next; until then it goes on with those `before`.
    fn opened_again(&self, before: Config) -> Result<(Config, Kernel), Failure> {
        let open = |config: Config| {
            open::settings(&self.place, &config)?;
            let kernel = open::embedded(&self.place, &config, Lifetime::Long)?;
            Ok((config, kernel))
        };
        let now = open::configuration(&self.global, &self.place).and_then(open);
        // It served: whatever keeps it from that now is not wrong use of the one who started it.
        now.or_else(|_: Failure| open(before))
            .map_err(|failure: Failure| failure.ending_with(1))
    }
}

/// Where this process said what it had to say. The terminal, and whoever waits for its output, are
/// held no longer than this.
struct Streams {
    output: OwnedFd,
    errors: OwnedFd,
}

impl Streams {
    /// Leaves the terminal. What is said from now on is heard by nobody.
    fn leave() -> io::Result<Self> {
        let left = Self {
            output: io::stdout().as_fd().try_clone_to_owned()?,
            errors: io::stderr().as_fd().try_clone_to_owned()?,
        };
        let nothing = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        rustix::stdio::dup2_stdout(&nothing)?;
        rustix::stdio::dup2_stderr(&nothing)?;
        leave_session();
        Ok(left)
    }

    /// Speaks where it was heard before.
    fn take_back(&self) -> io::Result<()> {
        rustix::stdio::dup2_stdout(&self.output)?;
        rustix::stdio::dup2_stderr(&self.errors)?;
        Ok(())
    }
}

/// Leaves the terminal, and whoever else belongs to it.
fn leave_session() {
    // Fails only for who has left it, or leads a group of their own in it, as nobody started here does.
    let _left = rustix::process::setsid();
}

fn ready(pid: u32, socket: &Path, output: &mut Output) {
    if output.is_json() {
        output.json(&json!({ "pid": pid, "socket": shown(socket) }));
    } else {
        output.line(format!("kernel ready: process {pid}, {}", shown(socket)));
    }
}

pub(super) fn locked(error: &LockError) -> Failure {
    let failure = Failure::of(Kind::Failed, error).fix(error.hint());
    match error {
        LockError::Taken { pid } => failure.json("pid", json!(pid)),
        LockError::Io { .. } => failure,
    }
}

pub(super) fn serve_failure(error: ServeError) -> Failure {
    match error {
        ServeError::Socket(error) => Failure::of(Kind::Failed, &error).fix(error.hint()),
        ServeError::Lock(error) => locked(&error),
        error @ (ServeError::Server(_)
        | ServeError::Threads(_)
        | ServeError::Held
        | ServeError::Unrecorded(_)) => Failure::of(Kind::Failed, &error),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the program is this one, and it is what the person asked for"
)]
fn program(place: &Place, idle: &str, by: StartedBy) -> io::Result<Command> {
    // What this command was handed is not to be held open by one that outlives it.
    #[cfg(target_os = "linux")]
    airlock_sandbox::hand_on_streams_alone()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["kernel", "--idle", idle, "--detach", by.as_str()])
        .arg("--workspace")
        .arg(&place.workspace)
        .stdin(Stdio::null());
    // Many threads that each work a little: with a heap for nearly every one of them, what one gave
    // back serves no other. Only the allocator reads this, and programs do not inherit it.
    command.env("MALLOC_ARENA_MAX", "2");
    Ok(command)
}

/// How waiting for a kernel to serve ended.
enum Awaited {
    Serves(Notice),
    Ended(u8),
    Late,
}

/// Waits until the kernel that was started as `child` serves.
fn awaited(state: &Path, child: &mut Child) -> Result<Awaited, Failure> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let notice = airlock_service::running(state).filter(|found| found.pid == child.id());
        if let Some(notice) = notice
            && Remote::any(state, Front::Cli).is_some()
        {
            return Ok(Awaited::Serves(notice));
        }
        match child.try_wait() {
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some(ended)) => {
                let code = ended.code().and_then(|code| u8::try_from(code).ok());
                return Ok(Awaited::Ended(code.unwrap_or(1)));
            }
            Err(error) => {
                return Err(Failure::new(Kind::Failed, "cannot watch the kernel").why(error));
            }
        }
    }
    let _ = child.kill();
    Ok(Awaited::Late)
}

/// Starts a kernel for whoever needs one that stays, and waits until it serves. It ends by itself
/// when nobody needed it for a while. Whether there is one now is for the caller to see.
pub(super) fn start_on_demand(place: &Place) {
    if let (Ok(mut child), Ok((state, _))) = (spawn_on_demand(place), open::state(place)) {
        let _awaited = awaited(&state, &mut child);
    }
}

/// Notes that a command was run without a kernel that stays, and starts one for those to come where
/// the last such command was a moment ago. Waits for nothing: the next command uses it if it serves by
/// then. One that runs and did not take this command is left as it is.
pub(super) fn start_for_more(place: &Place, state: &Path) {
    let repeated = noted(&state.join(COMMANDED)).is_some_and(|age| age < SUCCESSION);
    if !repeated || airlock_service::running(state).is_some_and(|notice| notice.is_alive()) {
        return;
    }
    // Where it comes to nothing, those that follow each do their own work, and every second tries again.
    forget_commands(state);
    drop(spawn_on_demand(place));
}

/// Has the next command count as the first.
fn forget_commands(state: &Path) {
    let _forgotten = std::fs::remove_file(state.join(COMMANDED));
}

fn spawn_on_demand(place: &Place) -> io::Result<Child> {
    let mut command = program(place, ON_DEMAND, StartedBy::Demand)?;
    // What keeps it from serving is told by the kernel that does the work then.
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// How long ago `file` was noted last, if it was; and notes it now.
fn noted(file: &Path) -> Option<Duration> {
    let last = std::fs::metadata(file).and_then(|found| found.modified());
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(false).mode(0o600);
    let now = SystemTime::now();
    opened.open(file).ok()?.set_modified(now).ok()?;
    // A clock that was set back tells nothing.
    now.duration_since(last.ok()?).ok()
}

/// Starts one and waits until it serves. What keeps it from that it says itself.
fn background(
    global: &Global,
    place: &Place,
    arguments: &Arguments,
    output: &mut Output,
) -> Ending {
    idle(&arguments.idle)?;
    let (state, _) = open::state(place)?;
    let mut command =
        program(place, &arguments.idle, StartedBy::Person).map_err(|error| unstarted(&error))?;
    if global.json {
        command.arg("--json");
    }
    let mut child = command.spawn().map_err(|error| unstarted(&error))?;
    match awaited(&state, &mut child)? {
        Awaited::Serves(notice) => {
            ready(notice.pid, &notice.socket, output);
            Ok(0)
        }
        Awaited::Ended(code) => Ok(code),
        Awaited::Late => Err(
            Failure::new(Kind::Failed, "the kernel did not start in time")
                .fix("run `airlock kernel --foreground` to see what it waits for"),
        ),
    }
}

fn unstarted(error: &io::Error) -> Failure {
    Failure::new(Kind::Failed, "cannot start a kernel").why(error)
}

/// Nobody answers: no kernel runs, or one does and says nothing.
fn unanswering(state: &Path) -> Result<(), Failure> {
    let Some(notice) = airlock_service::running(state).filter(Notice::is_alive) else {
        return Ok(());
    };
    let pid = notice.pid;
    Err(Failure::new(Kind::Failed, "the kernel does not answer")
        .why(format!(
            "process {pid} serves this workspace, or is about to end"
        ))
        .json("pid", json!(pid))
        .fix(format!("try again in a moment; if it hangs: kill {pid}")))
}

/// The kernel that runs, and one that is just being opened again.
fn found(state: &Path) -> Option<Remote> {
    let begun = Instant::now();
    loop {
        let remote = Remote::any(state, Front::Cli);
        let renews = || airlock_service::running(state).is_some_and(|notice| notice.renews());
        if remote.is_some() || begun.elapsed() >= PATIENCE || !renews() {
            return remote;
        }
        std::thread::sleep(LOOK);
    }
}

fn status(place: &Place, output: &mut Output) -> Ending {
    let (state, _) = open::state(place)?;
    let told = found(&state).and_then(|mut remote| remote.status().ok());
    let Some(mut told) = told else {
        unanswering(&state)?;
        if output.is_json() {
            output.json(&json!({ "running": false }));
        } else {
            output.note("no kernel runs for this workspace");
        }
        return Ok(1);
    };
    if output.is_json() {
        if let Some(object) = told.as_object_mut() {
            object.insert("running".to_owned(), Value::Bool(true));
        }
        output.json(&told);
        return Ok(0);
    }
    let number = |name: &str| told.get(name).and_then(Value::as_u64).unwrap_or_default();
    output.line(format!(
        "kernel runs: process {}, up {} s, {} calls",
        number("pid"),
        number("up_ms") / 1000,
        number("calls")
    ));
    if told.get("in_place") == Some(&Value::Bool(false)) {
        output.warning(
            "another directory stands in the place of its workspace, so that commands here do not use it; \
             end it: airlock kernel stop",
        );
    }
    for left in told
        .get("left_behind")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let left = left.as_str().unwrap_or_default();
        output.warning(&format!("a killed sandbox left something: {left}"));
    }
    Ok(0)
}

fn stop(place: &Place, output: &mut Output) -> Ending {
    let (state, _) = open::state(place)?;
    forget_commands(&state);
    let Some(mut remote) = found(&state) else {
        unanswering(&state)?;
        output.note("no kernel runs for this workspace");
        return Ok(0);
    };
    let mut told = remote.stop();
    // It was opened again at that moment, and did not hear it.
    while told.as_ref().is_err_and(ClientError::is_too_late)
        && let Some(again) = found(&state)
    {
        remote = again;
        told = remote.stop();
    }
    match told {
        Ok(None) => {}
        Ok(Some(refused)) => drop(outcome::done(refused)?),
        // It ends without having heard it.
        Err(error) if error.is_too_late() => {}
        Err(error) => return Err(Failure::of(Kind::Failed, &error)),
    }
    drop(remote);
    // Gone is who no longer holds the lock.
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match Lock::take(&state) {
            Ok(_) => {
                output.note("the kernel ended");
                return Ok(0);
            }
            Err(LockError::Taken { .. }) => std::thread::sleep(LOOK),
            Err(error @ LockError::Io { .. }) => return Err(locked(&error)),
        }
    }
    Err(Failure::new(Kind::Failed, "the kernel does not end")
        .fix("see what it does: airlock audit log"))
}
