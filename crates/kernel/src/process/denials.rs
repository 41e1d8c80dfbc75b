//! Which reads policy keeps from a caller, as what a sandbox of theirs must deny. Pure.
//!
//! A program's reads are no syscalls, so they cannot be decided one by one: what a rule denies to
//! `fs.read` is compiled into the plan instead, and a read that needs review is denied as well,
//! because nobody can be asked inside. A condition that cannot be known before the program runs
//! counts as met; an excluding glob and an exception, which would let something through, count as
//! absent. So a sandbox may be kept from more than `fs.read` would be, never from less.
//!
//! Not guaranteed: that no rule allows a read is no denial here. Whoever may run programs in a
//! workspace lets them see the workspace.

use super::failure::ProcessFailure;
use super::translate::{self, Denied};
use airlock_core::{Effect, EffectSet, Request};
use airlock_policy::{Action, Conditions, Document, Rule};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a sandbox must deny.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Denials {
    /// These paths and all beneath.
    pub(super) paths: BTreeSet<String>,
    /// What these patterns match, and all beneath.
    pub(super) patterns: BTreeSet<String>,
    /// Writing these paths.
    pub(super) unwritable: BTreeSet<String>,
}

const READING: &str = "fs.read";
const CHANGING: &[&str] = &["fs.write", "fs.patch", "fs.delete", "fs.move"];

/// What `document` denies to whoever asks for `request`, beneath the workspace `root` and, where a
/// glob applies at any depth, beneath the granted directories `elsewhere`.
pub(super) fn compile(
    document: &Document,
    request: &Request,
    root: &str,
    elsewhere: &[String],
) -> Result<Denials, ProcessFailure> {
    let judges = |asked: &Option<Vec<Arc<str>>>| takes(asked.as_deref(), READING);
    if let Some(extension) = document
        .extensions
        .iter()
        .find(|extension| judges(&extension.syscall))
    {
        return Err(ProcessFailure::ReadsByExtension {
            name: extension.name.to_string(),
        });
    }
    let mut denials = Denials::default();
    for rule in &document.rules {
        if keeps_from_reading(rule, request) {
            denials.add(rule, root, elsewhere)?;
        } else if keeps_from_writing(rule, request) {
            denials.keep(rule, root);
        }
    }
    Ok(denials)
}

/// What `document` denies to whoever asks for `request` of places outside the workspace `root` that
/// are granted to them, as patterns. Nothing written there is looked at afterwards, so what may not
/// be written is not shown either.
pub(crate) fn elsewhere(
    document: &Document,
    request: &Request,
    root: &str,
    (reads, writes): (&[String], &[String]),
) -> Result<BTreeSet<String>, ProcessFailure> {
    let places: Vec<String> = reads.iter().chain(writes).cloned().collect();
    let mut denials = compile(document, request, root, &places)?;
    let mut rules = document.rules.iter().filter(|_| !writes.is_empty());
    rules.try_for_each(|rule| {
        if !keeps_from_writing(rule, request) {
            return Ok(());
        }
        match &rule.when.path_glob {
            Some(_) => denials.add(rule, root, writes),
            None if takes(rule.when.syscall.as_deref(), "fs.write") => {
                Err(ProcessFailure::NothingReadable {
                    rule: rule.name.to_string(),
                })
            }
            None => Ok(()),
        }
    })?;
    Ok(denials.patterns)
}

impl Denials {
    fn add(&mut self, rule: &Rule, root: &str, elsewhere: &[String]) -> Result<(), ProcessFailure> {
        let everything = || ProcessFailure::NothingReadable {
            rule: rule.name.to_string(),
        };
        let globs = rule.when.path_glob.as_deref().ok_or_else(everything)?;
        for glob in globs.iter().filter(|glob| !glob.starts_with('!')) {
            match translate::denied(glob, root) {
                Denied::Everything => return Err(everything()),
                Denied::Path(path) => {
                    self.paths.insert(path);
                }
                Denied::Patterns(patterns) => self.patterns.extend(patterns),
            }
            let places = elsewhere.iter().filter(|_| translate::floats(glob));
            for place in places {
                if let Denied::Patterns(patterns) = translate::denied(glob, place) {
                    self.patterns.extend(patterns);
                }
            }
        }
        Ok(())
    }

    /// A plan keeps exact paths from being written; patterns are judged when a stage is merged.
    fn keep(&mut self, rule: &Rule, root: &str) {
        let globs = rule.when.path_glob.iter().flatten();
        for glob in globs.filter(|glob| !glob.starts_with('!')) {
            if let Denied::Path(path) = translate::denied(glob, root) {
                self.unwritable.insert(path);
            }
        }
    }
}

/// Whether `rule` may keep whoever makes `request` from reading what its globs name.
fn keeps_from_reading(rule: &Rule, request: &Request) -> bool {
    let when = &rule.when;
    let reads = when
        .effect
        .is_none_or(|effects| effects.contains(Effect::Read));
    // A rule on running programs that names paths can only mean what the program reads.
    let running = request.syscall.name();
    let execution = when
        .effect
        .is_none_or(|effects| effects.contains(Effect::Execute));
    let named = (reads && takes(when.syscall.as_deref(), READING))
        || (execution && when.path_glob.is_some() && takes(when.syscall.as_deref(), running));
    rule.action != Action::Allow && named && is_of_caller(when, request)
}

fn keeps_from_writing(rule: &Rule, request: &Request) -> bool {
    let when = &rule.when;
    let writes = when
        .effect
        .is_none_or(|effects| effects.intersects(EffectSet::CHANGES));
    let named = CHANGING
        .iter()
        .any(|syscall| takes(when.syscall.as_deref(), syscall));
    rule.action == Action::Deny && writes && named && is_of_caller(when, request)
}

/// Whether the conditions could be met by something `request`'s caller does while it runs.
fn is_of_caller(when: &Conditions, request: &Request) -> bool {
    let Conditions {
        syscall: _,
        effect: _,
        path_glob: _,
        caller_tag,
        plugin,
        tool,
        mode,
        state,
        tier,
        template,
        host,
        port,
        command,
        user,
        workspace,
        arg,
    } = when;
    let caller = &request.caller;
    let tagged = |tags: &Vec<Arc<str>>| {
        let held = |tag: &Arc<str>| caller.tags.iter().any(|own| own.as_str() == &**tag);
        tags.iter().any(held)
    };
    // Reading is the tool `fs.read`'s, whatever program does it.
    let by_tool = one_of(tool.as_deref(), READING)
        || request
            .tool
            .as_deref()
            .is_some_and(|own| one_of(tool.as_deref(), own));
    caller_tag.as_ref().is_none_or(tagged)
        && one_of(plugin.as_deref(), caller.plugin.as_str())
        && by_tool
        && mode
            .as_ref()
            .is_none_or(|modes| caller.mode.is_some_and(|own| modes.contains(&own)))
        && state
            .as_ref()
            .is_none_or(|states| caller.phase.is_some_and(|own| states.contains(&own)))
        && one_of(user.as_deref(), caller.user.as_str())
        && one_of(workspace.as_deref(), caller.workspace.as_str())
        && template.as_ref().is_none_or(|names| {
            let own = request.template.as_deref();
            own.is_some_and(|own| names.iter().any(|name| **name == *own))
        })
        // A file has no host. An empty list is never met, whatever it is a list of.
        && host.is_none()
        && port.is_none()
        && tier.as_ref().is_none_or(|tiers| !tiers.is_empty())
        && command.as_ref().is_none_or(|words| !words.is_empty())
        && arg.as_ref().is_none_or(|tests| !tests.is_empty())
}

/// Whether a list of syscalls, or none, names `syscall`.
fn takes(words: Option<&[Arc<str>]>, syscall: &str) -> bool {
    let area = syscall.split_once('.').map_or(syscall, |(area, _)| area);
    words.is_none_or(|words| {
        words.iter().any(|word| {
            &**word == "*" || **word == *syscall || word.strip_suffix(".*") == Some(area)
        })
    })
}

fn one_of(words: Option<&[Arc<str>]>, actual: &str) -> bool {
    words.is_none_or(|words| words.iter().any(|word| **word == *actual))
}
