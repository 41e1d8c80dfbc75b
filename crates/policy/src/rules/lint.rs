//! What only compiled rules show: examples that contradict their rule, rules a denial shadows.

use super::conditions::Matcher;
use super::rule::CompiledRule;
use crate::document::{Action, Place, Rule};
use crate::load::{Diagnostic, Severity};
use std::collections::HashMap;

/// The code of a condition that does not compile.
pub(super) const CONDITION: &str = "policy/condition";
/// The code of an example its rule contradicts.
pub(super) const EXAMPLE: &str = "policy/example";
/// The code of a rule that can never decide because a denial always does.
pub(super) const SHADOWED: &str = "policy/shadowed-rule";

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

/// An error for each example that `compiled` contradicts.
pub(super) fn examples(rule: &Rule, compiled: &CompiledRule, problems: &mut Vec<Diagnostic>) {
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
        if compiled.triggers(&request) == given.should_match {
            continue;
        }
        let failing = compiled.when.failing(&request, compiled.coverage());
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

/// A warning for each rule that some denial always overrules.
pub(super) fn shadows(rules: &[CompiledRule], problems: &mut Vec<Diagnostic>) {
    let denials = Denials::of(rules);
    for rule in rules.iter().filter(|rule| rule.action != Action::Deny) {
        if never_applies(&rule.when) {
            continue;
        }
        if let Some(deny) = denials.covering(&rule.when) {
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

/// Denials, by the first name of each glob, so that not every pair of rules has to be compared.
struct Denials<'a> {
    by_name: HashMap<&'a str, Vec<&'a CompiledRule>>,
    rest: Vec<&'a CompiledRule>,
}

impl<'a> Denials<'a> {
    fn of(rules: &'a [CompiledRule]) -> Self {
        let mut denials = Self {
            by_name: HashMap::new(),
            rest: Vec::new(),
        };
        for rule in rules.iter().filter(|rule| rule.action == Action::Deny) {
            let includes = rule
                .when
                .paths
                .as_ref()
                .map_or(&[][..], |paths| paths.includes());
            let heads: Option<Vec<&str>> =
                includes.iter().map(|glob| glob.prefix().next()).collect();
            match heads.filter(|names| !names.is_empty()) {
                Some(names) => {
                    for name in names {
                        denials.by_name.entry(name).or_default().push(rule);
                    }
                }
                None => denials.rest.push(rule),
            }
        }
        denials
    }

    fn covering(&self, when: &Matcher) -> Option<&'a CompiledRule> {
        let first = when
            .paths
            .as_ref()
            .and_then(|paths| paths.includes().first());
        let named = first
            .and_then(|glob| glob.prefix().next())
            .and_then(|name| self.by_name.get(name));
        named
            .into_iter()
            .flatten()
            .chain(&self.rest)
            .copied()
            .find(|deny| covers(&deny.when, when))
    }
}

/// Whether a denial on `deny` applies to every request that meets `when`. Sound, not complete:
/// each of its conditions must be absent or obviously contain the other's.
fn covers(deny: &Matcher, when: &Matcher) -> bool {
    let effects = deny.effect.is_none_or(|denied| match when.effect {
        Some(effect) => effect.is_subset(denied),
        // Every request has at least the effects of its syscall's row.
        None => when
            .syscalls
            .syscalls()
            .all(|syscall| syscall.spec().effects.intersects(denied)),
    });
    let paths = match (&deny.paths, &when.paths) {
        (None, _) => true,
        (Some(denied), Some(paths)) => denied.covers(paths),
        (Some(_), None) => false,
    };
    effects
        && paths
        && when.syscalls.is_subset(deny.syscalls)
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
