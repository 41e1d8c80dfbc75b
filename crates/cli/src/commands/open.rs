//! Opening a kernel for one command, and telling the person what they should know about it.

use super::exec::Ahead;
use crate::args::{Color, Global};
use crate::config::{Config, Unusable};
use crate::failure::{Failure, Kind};
use crate::models::Configured;
use crate::output::{Output, count};
use crate::place::Place;
use airlock_audit::Health;
use airlock_core::{Digest, WorkspaceId};
use airlock_kernel::{
    Call, Clock, Errand, Front, Kernel, KernelConfig, Lifetime, Outcome, OwnDefinitions,
    PolicyOrigin, StartError, Workspace, WorkspaceError,
};
use airlock_service::{
    Accompanied, Afresh, Door, Program, Remote, SandboxReception, Settings, Standing, accompany,
};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Opens the kernel of the workspace this command stands in.
pub(super) fn kernel(global: &Global, output: &mut Output) -> Result<Kernel, Failure> {
    let kernel = unannounced(global, output)?;
    announce(&kernel, output);
    Ok(kernel)
}

fn announce(kernel: &Kernel, output: &mut Output) {
    if let PolicyOrigin::Untrusted = kernel.policy().origin() {
        output.warning(UNTRUSTED);
    }
}

/// The same for a command that says itself whether the workspace is trusted.
pub(super) fn unannounced(global: &Global, output: &mut Output) -> Result<Kernel, Failure> {
    let kernel = opened(global)?;
    tell(&kernel, output);
    warn_of_break(&kernel, HEALTH_PATIENCE, output);
    Ok(kernel)
}

/// The same for a command that has something better to do while the log is looked at; it warns of
/// a break at its end.
pub(super) fn hurried(
    global: &Global,
    ahead: Ahead,
    output: &mut Output,
) -> Result<(Kernel, Config), Failure> {
    let Ahead {
        place,
        workspace,
        sandboxes,
    } = ahead;
    let config = configured(global, &place, || trusted_settings(&workspace))?;
    apply_color(&config);
    let kernel = embedded_in(
        workspace,
        &place,
        &config,
        (Lifetime::Command, Errand::Work),
    )?;
    let kernel = kernel.with_sandboxes(sandboxes);
    announce(&kernel, output);
    tell(&kernel, output);
    Ok((kernel, config))
}

/// What a person should know of a kernel that was opened to stay.
pub(super) fn introduce(kernel: &Kernel, output: &mut Output) {
    announce(kernel, output);
    tell(kernel, output);
}

/// The same for a command that only looks, and says nothing of its own.
pub(super) fn opened(global: &Global) -> Result<Kernel, Failure> {
    opened_for(global, Errand::Work)
}

/// The same for `errand`.
fn opened_for(global: &Global, errand: Errand) -> Result<Kernel, Failure> {
    let place = Place::find(global.workspace.as_deref())?;
    let config = configuration(global, &place)?;
    apply_color(&config);
    embedded_for(&place, &config, (Lifetime::Command, errand))
}

/// A kernel in this process.
pub(super) fn embedded(
    place: &Place,
    config: &Config,
    lifetime: Lifetime,
) -> Result<Kernel, Failure> {
    embedded_for(place, config, (lifetime, Errand::Work))
}

/// The same for an errand.
fn embedded_for(
    place: &Place,
    config: &Config,
    opening: (Lifetime, Errand),
) -> Result<Kernel, Failure> {
    let workspace = Workspace::open(&place.workspace, &place.state_home)
        .map_err(|error| start_failure(error.into()))?;
    embedded_in(workspace, place, config, opening)
}

/// The same in a workspace that is open.
fn embedded_in(
    workspace: Workspace,
    place: &Place,
    config: &Config,
    (lifetime, errand): (Lifetime, Errand),
) -> Result<Kernel, Failure> {
    let opening = KernelConfig {
        workspace: place.workspace.clone(),
        state_home: place.state_home.clone(),
        clock: Clock::system(),
        lifetime,
        output_bytes: config.output_bytes(),
        search_threads: config.search_threads(),
        worker: super::script_worker::program(),
    };
    let kernel = Kernel::open_for(errand, workspace, opening)
        .map_err(start_failure)?
        .on(place.machine())
        .defining(&own_definitions(place, config)?)
        .asking(Arc::new(Configured::new(config, place)))
        .receiving(Arc::new(SandboxReception::new()));
    #[cfg(target_os = "linux")]
    let kernel = kernel.hosting(super::plugin::hosting(place));
    Ok(kernel)
}

/// What the person has of their own.
fn own_definitions(place: &Place, config: &Config) -> Result<OwnDefinitions, Failure> {
    Ok(OwnDefinitions {
        directory: Some(place.config_home.join("airlock")),
        experimental: config.experimental(),
        certificates: config.certificates()?,
    })
}

/// Says what was found out since the kernel was opened.
pub(super) fn tell_late(kernel: &Kernel, output: &mut Output) {
    if let Some(notice) = kernel.late_notice() {
        output.warning(&notice);
    }
}

/// What shows in a kernel's results besides policy.
pub(super) fn settings(place: &Place, config: &Config) -> Result<Settings, Failure> {
    settings_of(Program::own(), place, config)
}

/// The same for kernels of `program`.
pub(super) fn settings_of(
    program: io::Result<Program>,
    place: &Place,
    config: &Config,
) -> Result<Settings, Failure> {
    Ok(Settings {
        definitions: own_definitions(place, config)?.digest(),
        output_bytes: config.output_bytes(),
        search_threads: config.search_threads(),
        program: program.map_err(|error| {
            Failure::new(Kind::Failed, "cannot tell which program this is").why(error)
        })?,
        models: Digest::of(config.models().unwrap_or_default().as_bytes()),
        serving: Digest::of(format!("{:?} {}", config.users(), config.frame_bytes()).as_bytes()),
    })
}

/// What a kernel of this process would be opened with if it were now.
pub(super) fn afresh(global: &Global, place: &Place) -> Afresh {
    let (global, place) = (global.clone(), place.clone());
    Arc::new(move || {
        let settings = configuration(&global, &place).and_then(|config| settings(&place, &config));
        settings.map_err(|failure| failure.what().to_owned())
    })
}

/// Where the state of this workspace is, and what it is called.
pub(super) fn state(place: &Place) -> Result<(PathBuf, WorkspaceId), Failure> {
    let failed = |error: WorkspaceError| Failure::of(Kind::Failed, &error).fix(error.hint());
    let state = Workspace::state_path(&place.workspace, &place.state_home).map_err(failed)?;
    let id = state.file_name().and_then(|name| name.to_str());
    let id = id.and_then(|name| WorkspaceId::new(name).ok());
    id.map(|id| (state.clone(), id))
        .ok_or_else(|| Failure::new(Kind::Failed, "cannot name the workspace"))
}

/// The kernel that runs for this workspace, to act as `front`, if it is as one of this command's own
/// would be.
pub(super) fn running(place: &Place, config: &Config, front: Front) -> Option<Remote> {
    running_with(place, &settings(place, config).ok()?, front)
}

/// The same for one that was opened with `settings`.
pub(super) fn running_with(place: &Place, settings: &Settings, front: Front) -> Option<Remote> {
    let (state, id) = state(place).ok()?;
    Remote::find(&state, &id, front, settings)
}

/// Has the kernel that runs for this workspace, if one does, write what it kept back of the log and
/// let go of stages nobody works in.
pub(super) fn flush_running(global: &Global) {
    let remote = Place::find(global.workspace.as_deref())
        .and_then(|place| state(&place))
        .ok()
        .and_then(|(state, _)| Remote::any(&state, Front::Cli));
    if let Some(mut remote) = remote {
        // It does so by itself within half a second.
        let _ = remote.flush();
    }
}

/// The way to the kernel that runs for this workspace, if it can do what one of this command's own would.
pub(super) fn running_door(place: &Place, config: &Config, front: Front) -> Option<Door> {
    // Without the person's environment a program of theirs would run as no program of theirs does.
    let tellable = front != Front::Cli || place.person().is_some();
    let remote = running(place, config, front).filter(|_| tellable)?;
    Some(Door::Running(Box::new(remote)))
}

/// The kernel of this workspace, to act as `front`: the one that runs, or one of this command's own,
/// opened for `errand`.
pub(super) fn door(
    global: &Global,
    front: Front,
    errand: Errand,
    output: &mut Output,
) -> Result<Door, Failure> {
    let place = Place::find(global.workspace.as_deref())?;
    let config = configuration(global, &place)?;
    apply_color(&config);
    if let Some(door) = running_door(&place, &config, front) {
        return Ok(door);
    }
    // One that runs and is not asked may hold the stage ready that is needed here.
    flush_running(global);
    let kernel = embedded_for(&place, &config, (Lifetime::Command, errand))?;
    tell(&kernel, output);
    Ok(Door::Embedded(Box::new(kernel)))
}

/// What the kernel that runs for this workspace says to `call`; none if none runs.
pub(super) fn ask_running(global: &Global, call: &Call) -> Option<Outcome> {
    let place = Place::find(global.workspace.as_deref()).ok()?;
    let (state, _) = state(&place).ok()?;
    let mut remote = Remote::any(&state, Front::Cli)?;
    Some(remote.call(call, None).ok()?.outcome)
}

/// A kernel of this process beside the one that runs: every call is made to that one.
pub(super) fn beside(
    global: &Global,
    errand: Errand,
    output: &mut Output,
) -> Result<Kernel, Failure> {
    let kernel = opened_for(global, errand)?;
    tell(&kernel, output);
    Ok(kernel)
}

/// A kernel of this process whose plugins can ask for something, as those of one that stays can.
pub(super) fn accompanied(global: &Global, output: &mut Output) -> Result<Accompanied, Failure> {
    // One that runs may hold the stage ready that is needed here.
    flush_running(global);
    let place = Place::find(global.workspace.as_deref())?;
    let config = configuration(global, &place)?;
    let settings = settings(&place, &config)?;
    let kernel = kernel(global, output)?;
    accompany(kernel, place.own(), settings).map_err(super::kernel::serve_failure)
}

/// A kernel of this command's own, whichever runs.
pub(super) fn own_door(
    global: &Global,
    errand: Errand,
    output: &mut Output,
) -> Result<Door, Failure> {
    flush_running(global);
    let kernel = beside(global, errand, output)?;
    Ok(Door::Embedded(Box::new(kernel)))
}

/// Says how a kernel stands.
pub(super) fn told(standing: &Standing, output: &mut Output) {
    if standing.untrusted {
        output.warning(UNTRUSTED);
    }
    if let Some(detail) = &standing.broken {
        output.warning(&broken(detail));
    }
}

const UNTRUSTED: &str = "this workspace's .airlock/ is not approved, so built-in defaults hold; \
                         review it with `airlock trust`";

fn broken(detail: &str) -> String {
    format!("the audit log is broken: {detail}; `airlock audit verify` shows where")
}

/// The settings in force; the workspace's file counts only while it is trusted.
pub(super) fn configuration(global: &Global, place: &Place) -> Result<Config, Failure> {
    configured(global, place, || {
        let workspace = Workspace::open(&place.workspace, &place.state_home).ok()?;
        trusted_settings(&workspace)
    })
}

/// The workspace's own file, while it is trusted.
fn trusted_settings(workspace: &Workspace) -> Option<Vec<u8>> {
    let trust = workspace.trust().ok()?;
    trust.config().map(<[u8]>::to_vec)
}

fn configured(
    global: &Global,
    place: &Place,
    trusted: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Config, Failure> {
    // Without a file there is nothing to be trusted, and to judge it takes all that comes with it.
    let trusted = place.has_settings().then(trusted).flatten();
    let color = global.color.map(|color| match color {
        Color::Auto => "auto",
        Color::Always => "always",
        Color::Never => "never",
    });
    Config::gather(place, trusted.as_deref(), color).map_err(Unusable::failure)
}

pub(super) fn apply_color(config: &Config) {
    match config.color() {
        "always" => anstream::ColorChoice::Always.write_global(),
        "never" => anstream::ColorChoice::Never.write_global(),
        _ => {}
    }
}

/// What went wrong at start, with the code that says whether it is the input or the machine.
pub(super) fn start_failure(error: StartError) -> Failure {
    match error {
        StartError::Workspace(error) => Failure::of(Kind::Failed, &error).fix(error.hint()),
        StartError::Trust(error) => Failure::of(Kind::Failed, &error).fix(error.hint()),
        StartError::Policy { error, source_text } => {
            super::policy::load_failure(&error, &source_text)
        }
        StartError::Audit(error) => {
            let failure = Failure::new(Kind::Failed, "cannot open the audit log").why(&error);
            failure
                .maybe_fix(error.hint())
                .why("without a log nothing may happen, so nothing was done")
        }
        StartError::Broken(found) => Failure::new(Kind::Failed, "the audit log is broken")
            .why(found)
            .why("the policy says `audit.stop_on_break`, so nothing was done")
            .why("only reading the log and approving another policy is still possible")
            .fix("`airlock audit verify` shows where, and `airlock audit log` what there is; to go on, keep the files and approve a policy without that setting: `airlock policy update FILE`"),
        StartError::Unrecorded(error) => {
            let failure = Failure::of(Kind::Failed, &error).maybe_fix(error.hint());
            failure.why("a start that cannot be recorded does not happen")
        }
        error @ (StartError::Identity(_) | StartError::Manifest(_) | StartError::Protected(_)) => {
            Failure::of(Kind::Failed, &error)
        }
    }
}

/// How long a command waits to hear whether the newest part of the log holds.
pub(super) const HEALTH_PATIENCE: Duration = Duration::from_millis(20);
/// Attempts without outcome that are named; the log has the rest.
const NAMED_ATTEMPTS: usize = 5;

/// Warns if the newest part of the log does not hold, as far as that is known by then.
pub(super) fn warn_of_break(kernel: &Kernel, patience: Duration, output: &mut Output) {
    if let Health::Broken { detail, .. } = kernel.log().wait_for_health(patience) {
        output.warning(&broken(&detail));
    }
}

/// Says once, on stderr, what the person would want to know before reading results.
fn tell(kernel: &Kernel, output: &mut Output) {
    if let Some(notice) = kernel.notice() {
        output.warning(notice);
    }
    let report = kernel.log().open_report();
    if let Some(recovery) = &report.recovery {
        output.warning(&recovery.message());
    }
    if !report.unclean.is_empty() {
        output.warning(&format!(
            "{} died without closing the log; {} without an outcome",
            count(report.unclean.len() as u64, "earlier command"),
            count(report.unfinished.len() as u64, "attempt")
        ));
        for attempt in report.unfinished.iter().take(NAMED_ATTEMPTS) {
            let what = attempt.syscall.as_deref().unwrap_or(attempt.event.as_str());
            output.note(format!(
                "  record {}: {} may or may not have happened",
                attempt.seq,
                airlock_kernel::sanitise_line(what, 60)
            ));
        }
    }
}
