//! Opening a kernel for one command, and telling the person what they should know about it.

use crate::args::{Color, Global};
use crate::config::Config;
use crate::failure::{Failure, Kind};
use crate::output::{Output, count};
use crate::place::Place;
use airlock_audit::Health;
use airlock_kernel::{Clock, Kernel, KernelConfig, Lifetime, PolicyOrigin, StartError, Workspace};
use std::time::Duration;

/// Opens the kernel of the workspace this command stands in.
pub(super) fn kernel(global: &Global, output: &mut Output) -> Result<Kernel, Failure> {
    let kernel = unannounced(global, output)?;
    announce(&kernel, output);
    Ok(kernel)
}

fn announce(kernel: &Kernel, output: &mut Output) {
    if let PolicyOrigin::Untrusted = kernel.policy().origin() {
        output.warning(
            "this workspace's .airlock/ is not approved, so built-in defaults hold; \
             review it with `airlock trust`",
        );
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
pub(super) fn hurried(global: &Global, output: &mut Output) -> Result<Kernel, Failure> {
    let kernel = opened(global)?;
    announce(&kernel, output);
    tell(&kernel, output);
    Ok(kernel)
}

/// The same for a command that stays.
pub(super) fn staying(global: &Global, output: &mut Output) -> Result<Kernel, Failure> {
    let kernel = opened_for(global, Lifetime::Long)?;
    announce(&kernel, output);
    tell(&kernel, output);
    Ok(kernel)
}

fn opened(global: &Global) -> Result<Kernel, Failure> {
    opened_for(global, Lifetime::Command)
}

fn opened_for(global: &Global, lifetime: Lifetime) -> Result<Kernel, Failure> {
    let place = Place::find(global.workspace.as_deref())?;
    let config = configuration(global, &place)?;
    apply_color(&config);
    let kernel = Kernel::open(KernelConfig {
        workspace: place.workspace.clone(),
        state_home: place.state_home.clone(),
        clock: Clock::system(),
        lifetime,
        output_bytes: config.output_bytes(),
        search_threads: config.search_threads(),
        worker: super::script_worker::program(),
    })
    .map_err(start_failure)?
    .on(place.machine());
    Ok(kernel)
}

/// The settings in force; the workspace's file counts only while it is trusted.
pub(super) fn configuration(global: &Global, place: &Place) -> Result<Config, Failure> {
    let trusted = Workspace::open(&place.workspace, &place.state_home)
        .ok()
        .and_then(|workspace| workspace.trust().ok())
        .and_then(|trust| trust.config().map(<[u8]>::to_vec));
    let color = global.color.map(|color| match color {
        Color::Auto => "auto",
        Color::Always => "always",
        Color::Never => "never",
    });
    Config::gather(place, trusted.as_deref(), color)
}

fn apply_color(config: &Config) {
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
            .fix("`airlock audit verify` shows where; keep the files, and approve a policy without that setting to go on"),
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
const HEALTH_PATIENCE: Duration = Duration::from_millis(20);
/// Attempts without outcome that are named; the log has the rest.
const NAMED_ATTEMPTS: usize = 5;

/// Warns if the newest part of the log does not hold, as far as that is known by then.
pub(super) fn warn_of_break(kernel: &Kernel, patience: Duration, output: &mut Output) {
    if let Health::Broken { detail, .. } = kernel.log().wait_for_health(patience) {
        output.warning(&format!(
            "the audit log is broken: {detail}; `airlock audit verify` shows where"
        ));
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
