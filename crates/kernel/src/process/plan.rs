//! From what is asked to what is granted. The template says what there can be, and how much of it
//! for what a person typed; how much for tools is the execution contract's. Policy and decision can
//! only take away.

use super::Sandboxes;
use super::checks;
use super::denials;
use super::failure::ProcessFailure;
use super::git;
use super::grants;
use super::job::{Job, Listing, Staging, Work};
use super::plans::{Made, Origin};
use super::surround::{Around, Ground, Look, Machine, real};
use super::unwritable;
use super::warm::Warm;
use crate::extensions::WorkerProgram;
use crate::policy_store::PolicyInForce;
use crate::sanitise::sanitise_line;
use crate::workspace::Workspace;
use airlock_core::{ByteSize, Digest, Request, Tier};
use airlock_policy::{Decision, Document, Layer, Narrowing, Opinion};
use airlock_sandbox::plan::{Class, Classes, Limit, Limits};
use airlock_sandbox::{Plan, Reach};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What a job is planned on.
pub(crate) struct Grounds<'a> {
    pub(crate) policy: &'a Arc<PolicyInForce>,
    pub(crate) workspace: &'a Workspace,
    pub(crate) machine: Option<&'a Machine>,
    pub(crate) worker: Option<&'a WorkerProgram>,
    /// Where sandboxes last, which are best granted the same for programs and the worker.
    pub(crate) lasting: Option<&'a Warm>,
    /// The stage of the call's session.
    pub(crate) stage: &'a str,
    pub(crate) sandboxes: &'a Sandboxes,
    pub(crate) request: &'a Request,
    pub(crate) decision: &'a Decision,
    /// Whether what it runs may ask the kernel.
    pub(crate) socket: bool,
    /// Whether the machine is looked at first.
    pub(crate) look: Look,
}

/// A job with everything it will be granted.
pub(crate) struct Planned {
    pub(super) job: Job,
    pub(super) made: Arc<Made>,
    pub(super) around: Arc<Around>,
    /// Whether the machine was looked at for it.
    looked: Look,
    pub(super) environment: BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    /// Whether nothing of what it writes is to stay.
    #[cfg(target_os = "linux")]
    pub(super) trial: bool,
    /// What its stage has to hold when it is run, where somebody's answer is for that.
    pub(super) bound: Option<Bound>,
    /// The sandbox, once it is begun.
    #[cfg(target_os = "linux")]
    pub(super) starting: Option<super::start::Starting>,
    /// One that stood in its stage and serves it as of now.
    #[cfg(target_os = "linux")]
    pub(super) kept: Option<super::warm::Kept>,
}

/// The digest of what a stage has to hold; none is of a stage that holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound(pub(super) Option<Digest>);

impl Planned {
    /// Plans `job`, or says why it cannot be run as asked.
    pub(crate) fn new(job: &Job, grounds: &Grounds<'_>) -> Result<Self, ProcessFailure> {
        let machine = grounds.machine.ok_or(ProcessFailure::NoMachine)?;
        let policy = grounds.policy.policy();
        let document = policy.document();
        check_template(job, document, grounds.decision)?;
        if !Tier::Process.satisfies(document.workspace.minimum_tier) {
            return Err(ProcessFailure::TierTooLow);
        }
        match job.listing {
            Listing::Policy => checks::listed(grounds.policy.commands(), job.program())?,
            Listing::Person | Listing::Own => {}
        }
        let narrowing = document.templates.get(job.template.name);
        let socket = grounds.socket && narrowing.is_none_or(|narrowing| narrowing.socket);
        let mut job = resolved(job, grounds, socket)?;
        let root = grounds.workspace.root().path();
        if job.keeps_git_from_denied() {
            let denied = denials::compile(document, grounds.request, root, &[])?;
            job.command.extend(git::excludes(&denied, root));
        }
        let job = &job;
        let look = grounds.lasting.map_or(Look::First, |_| grounds.look);
        let (around, looked) = grounds.sandboxes.around(machine, grounds.workspace, look)?;
        let imposed = grounds.decision.imposed;
        let mut origin = Origin::of(job, grounds.policy, grounds.request, imposed, root, &around);
        origin.socket = socket;
        let made = match grounds.lasting {
            Some(warm) => warm.plans().of(origin, build)?,
            None => Arc::new(Made::new(build(&origin)?)),
        };
        let environment = made.plan.environment();
        let environment = environment.resolve(machine.environment.clone());
        Ok(Self {
            job: job.clone(),
            made,
            around,
            looked,
            environment,
            bound: None,
            #[cfg(target_os = "linux")]
            trial: false,
            #[cfg(target_os = "linux")]
            starting: None,
            #[cfg(target_os = "linux")]
            kept: None,
        })
    }

    /// The same, of which nothing stays, wherever its stage can be laid over: no such run meets what
    /// another one left, but for what a job that stays built.
    #[must_use]
    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_mut, reason = "nothing runs elsewhere")
    )]
    pub(crate) fn on_trial(mut self) -> Self {
        // A report that a command of the project's own leaves is read in the stage, which no other
        // run is made in.
        #[cfg(target_os = "linux")]
        {
            self.trial = !self.job.stays && !self.job.leaves_report();
        }
        self
    }

    /// Has it run only while its stage holds what has the digest `staged`.
    pub(crate) const fn bind(&mut self, staged: Option<Digest>) {
        self.bound = Some(Bound(staged));
    }

    /// Whether the machine it is planned on is the one there is now.
    pub(crate) fn holds(&self, machine: Option<&Machine>, workspace: &Workspace) -> bool {
        match (self.looked, machine) {
            (Look::First, _) => true,
            (Look::Later, Some(machine)) => self.around.holds(machine, &Ground::of(workspace)),
            (Look::Later, None) => false,
        }
    }

    /// What the attempt's record says of it.
    pub(crate) fn notes(&self) -> BTreeMap<String, String> {
        let listed = |paths: Vec<String>| sanitise_line(&paths.join(" "), 500);
        let Made { plan, digest } = &*self.made;
        let limits = plan.limits();
        let stage = match &self.job.staging {
            Staging::Stage(name) => name.as_str(),
            Staging::Session | Staging::None => "none",
        };
        let mut notes = BTreeMap::from([
            ("template", plan.template().name.to_owned()),
            ("command", sanitise_line(&self.job.command.join(" "), 500)),
            ("stage", stage.to_owned()),
            (
                "limits",
                format!(
                    "memory {}, cpus {}, pids {}, duration {}, output {}",
                    limits.memory,
                    f64::from(limits.cpus) / 1000.0,
                    limits.pids,
                    limits.duration,
                    limits.stdout
                ),
            ),
            ("denials", plan.denials().len().to_string()),
            ("plan", digest.to_string()),
        ]);
        if let Some(purpose) = &self.job.terms.purpose {
            notes.insert("purpose", sanitise_line(purpose, 500));
        }
        if plan.has_socket() {
            notes.insert("socket", "yes".to_owned());
        }
        for (name, paths) in [("reads", &self.job.reads), ("writes", &self.job.writes)] {
            if !paths.is_empty() {
                notes.insert(name, listed(paths.clone()));
            }
        }
        notes
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// The job with the program that really runs and the paths that grants really lead to.
fn resolved(job: &Job, grounds: &Grounds<'_>, socket: bool) -> Result<Job, ProcessFailure> {
    let (reads, writes) = grants::led(job)?;
    let mut job = job.clone();
    (job.reads, job.writes) = (reads, writes);
    if job.staging == Staging::Session {
        job.staging = Staging::Stage(grounds.stage.to_owned());
    }
    // Where the kernel is asked, files are changed beside the program, by the worker.
    let shared = grounds.lasting.is_some() && job.listing != Listing::Person;
    if shared || socket {
        let worker = grounds.worker.and_then(|worker| worker.path.to_str());
        job.reads.extend(worker.map(real).transpose()?);
    }
    if socket {
        // By it a program asks, where it was installed or built with the worker.
        let called = grounds.worker.map(WorkerProgram::called);
        let called = called.filter(|path| path.is_file());
        let called = called.as_deref().and_then(Path::to_str);
        job.reads.extend(called.map(real).transpose()?);
    }
    match &job.work {
        Work::Command | Work::Tests(_) | Work::Git(_) => {}
        Work::Unavailable(why) => {
            return Err(ProcessFailure::Unavailable {
                state: why.state,
                reason: why.reason,
                available: why.available,
            });
        }
        Work::Files(Err(refusal)) => return Err(ProcessFailure::Files(refusal.clone())),
        Work::Files(Ok(order)) => {
            let worker = grounds.worker.ok_or(ProcessFailure::NoWorker)?;
            let arguments = worker.arguments.iter().map(std::ffi::OsString::as_os_str);
            let words = [worker.path.as_os_str()].into_iter().chain(arguments);
            let words = words.map(|word| word.to_str().map(str::to_owned));
            job.command = words
                .collect::<Option<_>>()
                .ok_or(ProcessFailure::NoWorker)?;
            if grounds.lasting.is_none() {
                let program = job.command.first().map(|path| real(path));
                job.reads.extend(program.transpose()?);
            }
            job.stdin = Some(order.clone());
        }
    }
    Ok(job)
}

/// Only templates without a network that may start programs, and `integration-test` only by a rule
/// that names it.
fn check_template(
    job: &Job,
    document: &Document,
    decision: &Decision,
) -> Result<(), ProcessFailure> {
    let template = job.template;
    let named = |name: &str| {
        let mut rules = document.rules.iter();
        rules.any(|rule| {
            let templates = rule.when.template.iter().flatten();
            *rule.name == *name && templates.into_iter().any(|one| **one == *template.name)
        })
    };
    let unavailable = |why| {
        Err(ProcessFailure::Template {
            template: template.name.to_owned(),
            why,
        })
    };
    match (template.network, template.name) {
        (_, "integration-test") => {
            let allows = |c: &airlock_policy::Contribution| {
                c.layer == Layer::Rules && c.opinion == Opinion::Allow && named(&c.rule)
            };
            if !decision.contributions.iter().any(allows) {
                return Err(ProcessFailure::TemplateNeedsRule {
                    template: template.name.to_owned(),
                });
            }
            unavailable("has a network, which sandboxes cannot have yet")
        }
        (Reach::None, "code-executor") => Ok(()),
        (Reach::None | Reach::Restricted, _) => unavailable("is for Airlock's own workers"),
    }
}

/// The plan itself. Pure.
fn build(origin: &Origin) -> Result<Plan, ProcessFailure> {
    let policy = origin.policy().policy();
    let (document, around) = (policy.document(), origin.around());
    let (root, reads, writes) = (&*origin.root, &origin.reads, &origin.writes);
    let elsewhere: Vec<String> = reads.iter().chain(writes).cloned().collect();
    let denied = denials::compile(document, &origin.request, root, &elsewhere)?;
    let narrowing = document.templates.get(origin.template.name);
    let mut builder = Plan::builder(origin.template, around.surroundings());
    if origin.contract {
        builder = builder.contract();
    }
    builder = builder
        .workspace(root, origin.view)
        .limits(limits(origin, narrowing));
    builder = around.apply(builder);
    if origin.socket {
        builder = builder.kernel_socket();
    }
    for path in reads {
        builder = builder.read(path);
    }
    for path in writes {
        builder = builder.write(path);
    }
    if !writes.is_empty() {
        builder = builder.keep_policies();
    }
    for pattern in denied.patterns.iter().chain(&origin.denials) {
        builder = builder.deny_pattern(pattern);
    }
    for path in &denied.paths {
        builder = builder.deny(path);
    }
    let git = unwritable::GIT.into_iter();
    let git = git.filter(|_| around.is_repository());
    let git = git.map(|name| format!("{root}/{name}"));
    for path in denied.unwritable.iter().cloned().chain(git) {
        builder = builder.deny_writing(path);
    }
    for name in &origin.inherited {
        builder = builder.inherit(name);
    }
    for (name, value) in &origin.environment {
        builder = builder.set(name, value);
    }
    if let Some(directory) = &origin.directory {
        builder = builder.directory(format!("{root}/{directory}"));
    }
    for limit in narrowing
        .iter()
        .flat_map(|narrowing| &narrowing.must_enforce)
    {
        builder = builder.require(enforced(*limit), Class::Enforced);
    }
    Ok(builder.build()?)
}

/// How firmly each limit has to hold for everything that `document` lets run: what one of its
/// templates must have enforced, the machine must be able to enforce.
pub fn required_classes(document: &Document) -> Classes {
    let limits = document
        .templates
        .values()
        .flat_map(|narrowing| &narrowing.must_enforce);
    limits.fold(Classes::usual(), |classes, limit| {
        classes.with(enforced(*limit), Class::Enforced)
    })
}

fn enforced(limit: airlock_policy::Limit) -> Limit {
    match limit {
        airlock_policy::Limit::Memory => Limit::Memory,
        airlock_policy::Limit::Cpus => Limit::Cpus,
        airlock_policy::Limit::Pids => Limit::Pids,
        airlock_policy::Limit::Duration => Limit::Duration,
        airlock_policy::Limit::Output => Limit::Output,
    }
}

/// The lowest of what contract or template, policy, decision and caller say.
fn limits(origin: &Origin, narrowing: Option<&Narrowing>) -> Limits {
    let most = if origin.contract {
        Limits::CONTRACT
    } else {
        origin.template.limits
    };
    let (asked, imposed) = (&origin.limits, &origin.imposed);
    let least = |values: [Option<ByteSize>; 3], most: ByteSize| {
        values.into_iter().flatten().fold(most, ByteSize::min)
    };
    let own = |of: fn(&Narrowing) -> Option<ByteSize>| narrowing.and_then(of);
    let output = least([own(|n| n.output), imposed.max_output, None], most.stdout);
    let duration = [
        narrowing.and_then(|n| n.duration),
        imposed.max_duration,
        asked.duration,
    ];
    Limits {
        memory: least(
            [own(|n| n.memory), imposed.max_memory, asked.memory],
            most.memory,
        ),
        cpus: [narrowing.and_then(|n| n.cpus), asked.cpus]
            .into_iter()
            .flatten()
            .fold(most.cpus, u32::min),
        pids: [narrowing.and_then(|n| n.pids), asked.pids]
            .into_iter()
            .flatten()
            .fold(most.pids, u32::min),
        duration: duration
            .into_iter()
            .flatten()
            .fold(most.duration, airlock_core::Span::min),
        stdout: output,
        stderr: output.min(most.stderr),
        file_size: most.file_size,
    }
}
