//! From what a machine does to what is said about it. Pure: a machine is asked, nothing is touched.

use super::feature::{Feature, Finding, Findings, Rung, State};
use super::fix;
use super::ladder;
use super::machine::{
    Ability, Bubble, Cgroups, Engine, Forbidden, Limited, Machine, StateDirectory, Terminal,
    Toolchain, Trial, Who,
};
use super::settings::Settings;
use crate::plan::{Class, Limit};

/// Asks `machine` everything.
pub(super) fn judge(machine: &dyn Machine) -> Findings {
    let (who, settings) = (machine.who(), Settings::of(machine));
    let trial = machine.native();
    let bubble = machine.bwrap();
    let engines = machine.engines();
    let ladder = vec![
        ladder::native(&trial),
        ladder::bwrap(bubble.as_ref()),
        ladder::container(&engines),
    ];
    let rung = ladder
        .iter()
        .find(|rung| rung.state != State::Missing)
        .map(|rung| rung.launcher);
    let needed = rung.is_none();
    let mut findings = abilities(machine, &who, &settings);
    findings.push(cgroups(&machine.cgroups(), &settings));
    findings.extend(walls(&trial));
    findings.extend(limits(&trial, &settings));
    let [_, bwrap_rung, _] = ladder.as_slice() else {
        return Findings {
            findings,
            rung,
            ladder,
        };
    };
    findings.push(bwrap(bubble.as_ref(), bwrap_rung, needed, &settings, &who));
    findings.push(engine(&engines, needed, &settings));
    findings.extend(toolchains(&machine.toolchains()));
    findings.push(state(machine.state(), &who));
    findings.push(terminal(&machine.terminal()));
    Findings {
        findings,
        rung,
        ladder,
    }
}

/// Puts what may change from one moment to the next in the place of what was remembered of it.
pub(super) fn refresh(findings: &mut Findings, machine: &dyn Machine) {
    let who = machine.who();
    for finding in &mut findings.findings {
        if finding.feature == Feature::StateDirectory {
            *finding = state(machine.state(), &who);
        } else if finding.feature == Feature::Terminal {
            *finding = terminal(&machine.terminal());
        }
    }
}

fn finding(feature: Feature, state: State, how: impl Into<String>) -> Finding {
    Finding {
        feature,
        state,
        how: how.into(),
        fix: None,
    }
}

impl Finding {
    fn mended(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

fn abilities(machine: &dyn Machine, who: &Who, settings: &Settings) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut without_user = false;
    for ability in Ability::ALL {
        // Only sandboxes that root starts need them, and only root may make them.
        if *ability == Ability::IdmappedMounts && !who.is_root() {
            continue;
        }
        let feature = ability.feature();
        found.push(match machine.ability(*ability) {
            Ok(how) => finding(feature, State::Works, how),
            Err(said) if without_user && needs_user(*ability) => finding(
                feature,
                State::Missing,
                format!("tried: {said}; needs user namespaces"),
            ),
            Err(said) => {
                without_user |= *ability == Ability::UserNamespace && !who.is_root();
                let why = explain(*ability, settings);
                finding(feature, State::Missing, format!("tried: {said}{why}"))
                    .mended(mend(*ability, settings, who))
            }
        });
    }
    found
}

/// What an ordinary user can do only inside a user namespace.
const fn needs_user(ability: Ability) -> bool {
    !matches!(
        ability,
        Ability::UserNamespace
            | Ability::Landlock
            | Ability::Seccomp
            | Ability::SeccompNotify
            | Ability::Pidfd
    )
}

/// The settings that make it fail.
fn explain(ability: Ability, settings: &Settings) -> String {
    let mut reasons = Vec::new();
    if ability == Ability::UserNamespace {
        for (name, value, refuses) in [
            ("kernel.unprivileged_userns_clone", settings.clone, 0),
            ("user.max_user_namespaces", settings.most, 0),
            (
                "kernel.apparmor_restrict_unprivileged_userns",
                settings.apparmor,
                1,
            ),
        ] {
            if value == Some(refuses) {
                reasons.push(format!("{name} is {refuses}"));
            }
        }
    }
    if ability == Ability::Landlock
        && let Some(modules) = &settings.modules
        && !modules.split(',').any(|module| module == "landlock")
    {
        reasons.push(format!("the active modules are {modules}"));
    }
    if reasons.is_empty() {
        String::new()
    } else {
        format!("; {}", reasons.join(", "))
    }
}

fn mend(ability: Ability, settings: &Settings, who: &Who) -> String {
    match ability {
        Ability::UserNamespace => fix::user_namespaces(settings, &who.program),
        Ability::Proc => fix::proc(settings),
        Ability::Overlay => fix::overlay(settings, who.is_root()),
        Ability::Landlock => fix::landlock(settings),
        Ability::MountNamespace
        | Ability::PidNamespace
        | Ability::NetworkNamespace
        | Ability::IpcNamespace
        | Ability::UtsNamespace
        | Ability::CgroupNamespace => fix::namespaces(settings),
        Ability::MountApi
        | Ability::IdmappedMounts
        | Ability::Seccomp
        | Ability::SeccompNotify
        | Ability::Pidfd => fix::newer_kernel(settings, "5.12"),
    }
}

fn cgroups(cgroups: &Cgroups, settings: &Settings) -> Finding {
    let version = match settings.cgroups {
        Some(version) => format!("version {version}: "),
        None => String::new(),
    };
    let names = |limits: Vec<Limit>| {
        let names: Vec<&str> = limits.iter().map(|limit| limit.name()).collect();
        names.join(", ")
    };
    let wanted = [Limit::Memory, Limit::Cpus, Limit::Pids];
    let (held, rest): (Vec<Limit>, Vec<Limit>) = wanted
        .into_iter()
        .partition(|limit| cgroups.held.contains(limit));
    let because = match cgroups.why_not.as_slice() {
        [] => String::new(),
        reasons => format!(" ({})", reasons.join("; ")),
    };
    match (held.is_empty(), rest.is_empty()) {
        (_, true) => finding(
            Feature::Cgroups,
            State::Works,
            format!("{version}made one that holds {}", names(held)),
        ),
        (false, false) => finding(
            Feature::Cgroups,
            State::Limited,
            format!(
                "{version}made one that holds {}, not {}{because}",
                names(held),
                names(rest)
            ),
        )
        .mended(fix::cgroups(settings)),
        (true, false) => finding(
            Feature::Cgroups,
            State::Missing,
            format!("{version}none can be made{because}"),
        )
        .mended(fix::cgroups(settings)),
    }
}

/// What somebody can do who finds that a wall does not hold.
const REPORT: &str =
    "# run nothing foreign here, and report what this says:\nairlock doctor --json";

fn walls(trial: &Result<Trial, String>) -> Vec<Finding> {
    let mut features: Vec<Feature> = Forbidden::ALL.iter().map(|f| f.feature()).collect();
    features.dedup();
    let about = |feature: Feature| {
        let Ok(trial) = trial else {
            return finding(feature, State::Missing, "there is no sandbox to try it in");
        };
        let mine = Forbidden::ALL
            .iter()
            .filter(|forbidden| forbidden.feature() == feature);
        let passed: Vec<String> = mine
            .clone()
            .filter_map(|forbidden| ladder::passed(&trial.refusals, *forbidden))
            .collect();
        if !passed.is_empty() {
            let broken = finding(
                feature,
                State::Missing,
                format!("tried: {}", passed.join("; ")),
            );
            return if feature == Feature::DeniedPatterns {
                broken.mended("# name each path to be denied; a pattern is not held here")
            } else {
                broken.mended(REPORT)
            };
        }
        let refused: Vec<String> = mine
            .filter_map(|forbidden| {
                let said = trial.refusals.get(forbidden)?.as_ref().ok()?;
                Some(format!("{}: {}", forbidden.name(), plain(said)))
            })
            .collect();
        finding(
            feature,
            State::Works,
            format!("tried inside: {}", refused.join("; ")),
        )
    };
    features.into_iter().map(about).collect()
}

/// What the system said, without its number for it.
fn plain(said: &str) -> &str {
    said.split(" (os error").next().unwrap_or(said)
}

const fn feature_of(limit: Limit) -> Feature {
    match limit {
        Limit::Memory => Feature::MemoryLimit,
        Limit::Cpus => Feature::ProcessorLimit,
        Limit::Pids => Feature::ProcessLimit,
        Limit::Duration => Feature::TimeLimit,
        Limit::Output => Feature::OutputLimit,
        Limit::FileSize => Feature::FileSizeLimit,
    }
}

/// The limits a feature is about.
pub(super) fn limit_features() -> impl Iterator<Item = (Limit, Feature)> {
    Limit::ALL.iter().map(|limit| (*limit, feature_of(*limit)))
}

fn limits(trial: &Result<Trial, String>, settings: &Settings) -> Vec<Finding> {
    let about = |(limit, feature): (Limit, Feature)| {
        let Ok(trial) = trial else {
            return finding(feature, State::Missing, "there is no sandbox to try it in");
        };
        match trial.limits.get(&limit) {
            None => finding(feature, State::Missing, "it is not held").mended(REPORT),
            Some(Limited {
                tried: Err(why), ..
            }) => finding(feature, State::Missing, format!("went over it: {why}")).mended(REPORT),
            Some(Limited {
                class: Class::Enforced,
                by,
                tried: Ok(came),
            }) => finding(
                feature,
                State::Works,
                format!("enforced: {by}; went over it: {came}"),
            ),
            Some(Limited {
                class: Class::Supervised,
                by,
                tried: Ok(came),
            }) => finding(
                feature,
                State::Limited,
                format!("supervised: {by}; went over it: {came}"),
            )
            .mended(fix::cgroups(settings)),
        }
    };
    limit_features().map(about).collect()
}

fn bwrap(
    bubble: Option<&Bubble>,
    rung: &Rung,
    needed: bool,
    settings: &Settings,
    who: &Who,
) -> Finding {
    let Some(bubble) = bubble else {
        let missing = finding(
            Feature::Bwrap,
            State::Missing,
            "looked for it where the system keeps programs",
        );
        return if needed {
            missing.mended(fix::package(settings, "bubblewrap"))
        } else {
            missing
        };
    };
    let Bubble { path, version, .. } = bubble;
    let said = format!("{path} {version}: {}", rung.reason);
    match (rung.state, &bubble.refusals) {
        (State::Missing, Err(_)) if needed && settings.apparmor == Some(1) => {
            finding(Feature::Bwrap, State::Missing, said).mended(fix::bwrap_profile(settings))
        }
        (State::Missing, Err(_)) if needed => finding(Feature::Bwrap, State::Missing, said)
            .mended(fix::user_namespaces(settings, &who.program)),
        (State::Missing, _) => finding(Feature::Bwrap, State::Missing, said),
        (State::Works | State::Limited, _) if overlays(version) => {
            finding(Feature::Bwrap, State::Works, said)
        }
        (State::Works | State::Limited, _) => finding(
            Feature::Bwrap,
            State::Limited,
            format!("{said}; before 0.11 it has no overlay, so stages are copies"),
        ),
    }
}

/// Whether a bubblewrap of this version mounts overlays.
fn overlays(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) >= (0, 11)
}

fn engine(engines: &[Engine], needed: bool, settings: &Settings) -> Finding {
    let shown = |engine: &Engine| {
        let client = match &engine.client {
            Some(path) => format!("{} at {path}", engine.name),
            None => engine.name.to_owned(),
        };
        match &engine.answers {
            Ok(socket) => format!("{client} answers at {socket}"),
            Err(why) => format!("{client} does not answer: {why}"),
        }
    };
    let all: Vec<String> = engines.iter().map(shown).collect();
    let answering = engines.iter().any(|engine| engine.answers.is_ok());
    let found = match (answering, engines.is_empty()) {
        (true, _) => finding(Feature::Engine, State::Works, all.join("; ")),
        (false, false) => finding(Feature::Engine, State::Limited, all.join("; ")),
        (false, true) => finding(
            Feature::Engine,
            State::Missing,
            "looked for sockets and clients of docker and podman",
        ),
    };
    match (needed && !answering, engines.first()) {
        (true, Some(engine)) => found.mended(fix::engine(engine.name)),
        (true, None) => found.mended(fix::package(settings, "podman")),
        (false, _) => found,
    }
}

const TOOLCHAINS: &[Feature] = &[
    Feature::Rust,
    Feature::Node,
    Feature::Python,
    Feature::Go,
    Feature::Java,
];

fn toolchains(all: &[Toolchain]) -> Vec<Finding> {
    let about = |feature: &Feature| {
        let found = all.iter().find(|toolchain| toolchain.feature == *feature);
        let Some(toolchain) = found else {
            return finding(
                *feature,
                State::Missing,
                "looked in PATH and the usual places",
            );
        };
        let notes = toolchain.notes.iter().map(|note| format!("note: {note}"));
        let said: Vec<String> = toolchain.found.iter().cloned().chain(notes).collect();
        let state = if toolchain.found.is_empty() {
            State::Limited
        } else {
            State::Works
        };
        finding(*feature, state, said.join("; "))
    };
    TOOLCHAINS.iter().map(about).collect()
}

/// Less than this is soon full of stages.
const ENOUGH: u64 = 1 << 30;

fn state(state: Result<StateDirectory, String>, who: &Who) -> Finding {
    let directory = match state {
        Ok(directory) => directory,
        Err(why) => {
            return finding(
                Feature::StateDirectory,
                State::Missing,
                format!("opened it: {why}"),
            )
            .mended("# point XDG_STATE_HOME at a directory of yours");
        }
    };
    let StateDirectory { path, free, .. } = &directory;
    let mut wrong = Vec::new();
    let mut fixes = Vec::new();
    if directory.owner != who.user {
        wrong.push(format!("it belongs to user {}", directory.owner));
        fixes.push("# point XDG_STATE_HOME at a directory of yours".to_owned());
    }
    if directory.mode & 0o077 != 0 {
        wrong.push(format!("others may use it (mode {:o})", directory.mode));
        fixes.push(format!("chmod 700 {}", fix::quoted(path)));
    }
    if *free < ENOUGH {
        wrong.push("that is little".to_owned());
        fixes.push(format!(
            "du -sh {}/*  # and remove what is old",
            fix::quoted(path)
        ));
    }
    if !directory.attributes {
        wrong.push("files there take no attributes, which stages need".to_owned());
        fixes.push("# point XDG_STATE_HOME at ext4, xfs, btrfs or tmpfs".to_owned());
    }
    let free = format!("{path}, {} free", amount(*free));
    if wrong.is_empty() {
        return finding(
            Feature::StateDirectory,
            State::Works,
            format!("{free}; for this user alone; files take attributes"),
        );
    }
    finding(
        Feature::StateDirectory,
        State::Limited,
        format!("{free}; {}", wrong.join("; ")),
    )
    .mended(fixes.join("\n"))
}

fn amount(bytes: u64) -> String {
    let (gib, mib) = (bytes >> 30, bytes >> 20);
    if gib > 0 {
        format!("{gib} GiB")
    } else {
        format!("{mib} MiB")
    }
}

fn terminal(terminal: &Terminal) -> Finding {
    let name = terminal.name.as_deref().unwrap_or("without a name");
    match (terminal.input, terminal.output) {
        (true, true) => finding(Feature::Terminal, State::Works, name),
        (false, true) => finding(
            Feature::Terminal,
            State::Limited,
            "input comes from elsewhere: nobody can be asked to approve",
        ),
        (true, false) => finding(
            Feature::Terminal,
            State::Limited,
            "output goes elsewhere: approvals are asked for on what is left",
        ),
        (false, false) => finding(
            Feature::Terminal,
            State::Missing,
            "neither input nor output: nobody can be asked to approve",
        ),
    }
}
