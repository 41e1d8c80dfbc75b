//! What only compiled rules show: examples that contradict their rule, rules a denial shadows.

use super::argument::Argument;
use super::conditions::{Asked, Field, HostPattern, Matcher};
use super::rule::CompiledRule;
use crate::document::{Action, Place, Rule};
use crate::glob::{Glob, PathGlobs};
use crate::load::{Diagnostic, Severity};
use std::collections::HashMap;
use std::sync::Arc;

const CONDITION: &str = "policy/condition";
const EXAMPLE: &str = "policy/example";
pub(super) const SHADOWED: &str = "policy/shadowed-rule";
const TOKEN: &str = "policy/token";

/// The codes of problems that only compiling shows, with their meaning.
pub const COMPILE_CODES: &[(&str, &str)] = &[
    (
        CONDITION,
        "a condition that cannot be compiled, or never could match",
    ),
    (EXAMPLE, "an example that its rule contradicts"),
    (
        SHADOWED,
        "a rule that never decides because a denial always does",
    ),
    (
        TOKEN,
        "a rule that asks for a token, which nothing hands out",
    ),
];

fn diagnostic(
    severity: Severity,
    code: &'static str,
    place: Place,
    what: String,
    fix: String,
) -> Diagnostic {
    Diagnostic {
        severity,
        code,
        place,
        length: 1,
        what,
        fix,
    }
}

/// An error about a rule whose conditions cannot be compiled.
pub(super) fn condition(rule: &Rule, error: &super::conditions::ConditionError) -> Diagnostic {
    let what = format!("rule `{}`: {error}", rule.name);
    diagnostic(
        Severity::Error,
        CONDITION,
        rule.place,
        what,
        error.hint().to_owned(),
    )
}

/// An error about a sensitive path that is no glob.
pub(super) fn sensitive(error: &crate::glob::GlobError) -> Diagnostic {
    let what = format!("`approvals.sensitive_paths`: {error}");
    diagnostic(
        Severity::Error,
        CONDITION,
        Place::default(),
        what,
        error.hint().to_owned(),
    )
}

/// Most problems that are kept: more than anybody reads in one go.
const KEPT: usize = 100;

/// How much may be compared while a file is looked over: a hostile one is made of long lists, and
/// comparing each with each would take for ever.
#[derive(Debug)]
pub(super) struct Effort(usize);

impl Effort {
    /// About a second of comparing.
    pub(super) const fn new() -> Self {
        Self(20_000_000)
    }

    fn spend(&mut self, steps: usize) -> bool {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// How many values conditions hold, about.
fn weight(when: &Matcher) -> usize {
    let words = word_lists(when).map(|(_, words)| words.len());
    let more = [&when.template, &when.user, &when.workspace];
    let more = more.into_iter().flatten().map(|words| words.len());
    let hosts = when.host.as_ref().map_or(0, |hosts| hosts.len());
    let ports = when.port.as_ref().map_or(0, |ports| ports.len());
    let paths = when.paths.as_ref().map_or(0, PathGlobs::len);
    let arguments: usize = when.arg.iter().map(Argument::weight).sum();
    1 + words.chain(more).sum::<usize>() + hosts + ports + paths + arguments
}

/// The first problems, errors before warnings, and how many more there are.
pub(super) fn bounded(mut problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let more = problems.len().saturating_sub(KEPT);
    if more == 0 {
        return problems;
    }
    problems.sort_by_key(|problem| (problem.severity, problem.place));
    let severity = problems
        .get(KEPT)
        .map_or(Severity::Warning, |one| one.severity);
    problems.truncate(KEPT);
    let place = problems.last().map_or(Place::default(), |last| last.place);
    let what = format!("{more} more problems are not listed");
    let fix = "mend the ones above and check again".to_owned();
    let code = crate::load::TOO_MANY_PROBLEMS;
    problems.push(diagnostic(severity, code, place, what, fix));
    problems
}

/// An error for each example that `compiled` contradicts.
pub(super) fn examples(
    rule: &Rule,
    compiled: &CompiledRule,
    effort: &mut Effort,
    problems: &mut Vec<Diagnostic>,
) {
    let conditions = compiled.except.iter().chain([&compiled.when]);
    let each: usize = conditions.map(weight).sum();
    let paths = |one: &crate::document::Example| 1 + one.fields.path.len();
    let asked: usize = rule.examples.iter().map(paths).sum();
    if !effort.spend(each.saturating_mul(asked)) {
        problems.push(diagnostic(
            Severity::Error,
            EXAMPLE,
            rule.place,
            format!("rule `{}` is too long for so many examples", rule.name),
            "give it fewer examples, or shorten its lists with globs".to_owned(),
        ));
        return;
    }
    for given in &rule.examples {
        let error = |what: String, fix: &str| {
            diagnostic(Severity::Error, EXAMPLE, given.place, what, fix.to_owned())
        };
        let request = match given.fields.request() {
            Ok(request) => request,
            Err(why) => {
                let what = format!(
                    "this example of rule `{}` is not a request: {why}",
                    rule.name
                );
                problems.push(error(what, "write values a request can have"));
                continue;
            }
        };
        if compiled.triggers(Asked::new(&request)) == given.should_match {
            continue;
        }
        let failing = compiled
            .when
            .failing(Asked::new(&request), compiled.coverage());
        let what = match (given.should_match, failing) {
            (true, Some(field)) => format!(
                "rule `{}` does not match this example: `{}` differs",
                rule.name,
                field.as_str()
            ),
            (true, None) => {
                format!(
                    "rule `{}` does not match this example: an exception applies",
                    rule.name
                )
            }
            (false, _) => format!("rule `{}` matches this example", rule.name),
        };
        problems.push(error(
            what,
            "correct the rule, or move the example to the other list",
        ));
    }
}

/// A warning about a rule that allows only with a token: it never does.
pub(super) fn token(rule: &Rule) -> Option<Diagnostic> {
    rule.constraints.require_capability_token.then(|| {
        let what = format!(
            "rule `{}` allows only with a token, and nothing hands any out: it always denies",
            rule.name
        );
        let fix = "take `require_capability_token` out, or let a person decide: `require_review`";
        diagnostic(Severity::Warning, TOKEN, rule.place, what, fix.to_owned())
    })
}

/// A warning for each rule that some denial always overrules.
///
/// Gives up, without a word, where looking would cost more than a hint is worth.
pub(super) fn shadows(rules: &[CompiledRule], effort: &mut Effort, problems: &mut Vec<Diagnostic>) {
    let denials = Denials::of(rules);
    for rule in rules.iter().filter(|rule| rule.action != Action::Deny) {
        if never_applies(&rule.when) {
            continue;
        }
        if let Some(deny) = denials.covering(&rule.when, effort) {
            let what = format!(
                "rule `{}` never decides: `{}` denies all it matches",
                rule.name, deny.name
            );
            let fix = format!("remove it, or narrow `{}`", deny.name);
            problems.push(diagnostic(
                Severity::Warning,
                SHADOWED,
                rule.place,
                what,
                fix,
            ));
        }
    }
}

fn never_applies(when: &Matcher) -> bool {
    when.syscalls.len() == 0
        || when
            .paths
            .as_ref()
            .is_some_and(|paths| paths.includes().is_empty())
}

/// What a denial that covers a rule must share with it.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Glob(&'a Glob),
    Prefix(Vec<&'a str>),
    Host(&'a HostPattern),
    Word(Field, &'a str),
}

/// A denial and how much it costs to compare.
type Weighed<'a> = (&'a CompiledRule, usize);

/// Denials by key, so that not every pair of rules has to be compared.
#[derive(Default)]
struct Denials<'a> {
    by_key: HashMap<Key<'a>, Vec<Weighed<'a>>>,
    rest: Vec<Weighed<'a>>,
}

impl<'a> Denials<'a> {
    fn of(rules: &'a [CompiledRule]) -> Self {
        let mut denials = Self::default();
        for rule in rules.iter().filter(|rule| rule.action == Action::Deny) {
            match keys(&rule.when) {
                None => denials.rest.push((rule, weight(&rule.when))),
                Some(keys) => {
                    let weighed = (rule, weight(&rule.when));
                    for key in keys {
                        denials.by_key.entry(key).or_default().push(weighed);
                    }
                }
            }
        }
        denials
    }

    fn covering(&self, when: &'a Matcher, effort: &mut Effort) -> Option<&'a CompiledRule> {
        let own = weight(when);
        let filed = shared(when)
            .into_iter()
            .filter_map(|key| self.by_key.get(&key));
        filed
            .flatten()
            .chain(&self.rest)
            .take_while(|(_, weight)| effort.spend(own.saturating_mul(*weight)))
            .find(|(deny, _)| covers(&deny.when, when))
            .map(|(deny, _)| *deny)
    }
}

/// The words a rule asks for, by field; those of them that are asked.
fn word_lists(when: &Matcher) -> impl Iterator<Item = (Field, &[Arc<str>])> {
    [
        (Field::Command, when.command.as_deref()),
        (Field::Tool, when.tool.as_deref()),
        (Field::Plugin, when.plugin.as_deref()),
        (Field::CallerTag, when.caller_tag.as_deref()),
    ]
    .into_iter()
    .filter_map(|(field, words)| Some((field, words?)))
}

/// Where a denial is filed: one of these keys it shares with every rule it covers. `None` if it
/// might cover a rule that shares nothing with it.
fn keys(deny: &Matcher) -> Option<Vec<Key<'_>>> {
    if let Some(paths) = &deny.paths {
        let globs = paths.includes();
        if globs.iter().any(Glob::is_everything) {
            return None;
        }
        let both = |glob| [Key::Glob(glob), Key::Prefix(glob.prefix().collect())];
        return Some(globs.iter().flat_map(both).collect());
    }
    if let Some(hosts) = &deny.host {
        return Some(hosts.iter().map(Key::Host).collect());
    }
    let (field, words) = word_lists(deny).next()?;
    Some(words.iter().map(|word| Key::Word(field, word)).collect())
}

/// Every key a denial that covers `when` may be filed under: it must cover the first value of each
/// condition.
fn shared(when: &Matcher) -> Vec<Key<'_>> {
    let mut keys = Vec::new();
    if let Some(glob) = when
        .paths
        .as_ref()
        .and_then(|paths| paths.includes().first())
    {
        keys.push(Key::Glob(glob));
        let prefix: Vec<&str> = glob.prefix().collect();
        let parts = (1..=prefix.len()).filter_map(|length| prefix.get(..length));
        keys.extend(parts.map(|part| Key::Prefix(part.to_vec())));
    }
    keys.extend(when.host.iter().flatten().next().map(Key::Host));
    keys.extend(
        word_lists(when).filter_map(|(field, words)| Some(Key::Word(field, words.first()?))),
    );
    keys
}

/// Whether a denial on `deny` applies to every request that meets `when`. Sound, not complete:
/// each of its conditions must be absent or obviously contain the other's.
fn covers(deny: &Matcher, when: &Matcher) -> bool {
    let effects = || {
        deny.effect.is_none_or(|denied| match when.effect {
            Some(effect) => effect.is_subset(denied),
            // Every request has at least the effects of its syscall's row.
            None => when
                .syscalls
                .syscalls()
                .all(|syscall| syscall.spec().effects.intersects(denied)),
        })
    };
    let paths = || match (&deny.paths, &when.paths) {
        (None, _) => true,
        (Some(denied), Some(paths)) => denied.covers(paths),
        (Some(_), None) => false,
    };
    when.syscalls.is_subset(deny.syscalls)
        && effects()
        && paths()
        && superset(deny.caller_tag.as_deref(), when.caller_tag.as_deref())
        && superset(deny.plugin.as_deref(), when.plugin.as_deref())
        && superset(deny.tool.as_deref(), when.tool.as_deref())
        && superset(deny.mode.as_deref(), when.mode.as_deref())
        && superset(deny.state.as_deref(), when.state.as_deref())
        && superset(deny.tier.as_deref(), when.tier.as_deref())
        && superset(deny.template.as_deref(), when.template.as_deref())
        && superset(deny.host.as_deref(), when.host.as_deref())
        && superset(deny.port.as_deref(), when.port.as_deref())
        && superset(deny.command.as_deref(), when.command.as_deref())
        && superset(deny.user.as_deref(), when.user.as_deref())
        && superset(deny.workspace.as_deref(), when.workspace.as_deref())
        && deny
            .arg
            .iter()
            .all(|denied| when.arg.iter().any(|arg| denied.covers(arg)))
}

fn superset<T: PartialEq>(deny: Option<&[T]>, when: Option<&[T]>) -> bool {
    match (deny, when) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(denied), Some(values)) => values.iter().all(|value| denied.contains(value)),
    }
}
