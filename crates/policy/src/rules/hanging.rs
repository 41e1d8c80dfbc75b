//! Which opinions hang on the arguments of a request: for whoever has to judge without them.

use super::conditions::{Asked, Coverage, Field, Matcher};
use super::syscalls::{SyscallSet, position};
use super::{CompiledRule, Policy, say};
use crate::decision::Contribution;
use crate::document::Rule;
use airlock_core::{Request, Syscall};
use std::sync::Arc;

/// An opinion that is given or not, by what the arguments are.
#[derive(Debug)]
pub(crate) struct Hanging {
    /// What it hangs on, as a key: with one key all is said, or nothing is, under any policy.
    pub(crate) on: String,
    /// What is said then.
    pub(crate) said: Contribution,
}

impl Policy {
    /// The rules whose opinion of `request` hangs on its arguments: a rule, or an exception, that
    /// applies as far as anything else is asked has a condition on them.
    pub(crate) fn hanging(&self, request: &Request) -> Vec<Hanging> {
        let asked = Asked::new(request);
        let rules = self.document.rules.iter().zip(&self.rules);
        rules
            .filter_map(|(written, rule)| hanging(written, rule, asked))
            .collect()
    }
}

fn hanging(written: &Rule, rule: &CompiledRule, asked: Asked<'_>) -> Option<Hanging> {
    let asks = |when: &Matcher| when.asks_arguments();
    if !asks(&rule.when) && !rule.except.iter().any(asks) {
        return None;
    }
    let could = |when: &Matcher, coverage: Coverage| {
        let mut failing = when.every_failing(asked, coverage);
        failing.all(|field| field == Field::Arg)
    };
    if !could(&rule.when, rule.coverage()) {
        return None;
    }
    let within = rule.exception_coverage();
    let mut except = Vec::new();
    for (written, one) in written.except.iter().zip(&rule.except) {
        if could(one, within) {
            if !asks(one) {
                // It passes, whatever the arguments are.
                return None;
            }
            except.push(&written.arg);
        }
    }
    if !asks(&rule.when) && except.is_empty() {
        return None;
    }
    // A condition is asked otherwise where it narrows than where it widens.
    let except = (!except.is_empty()).then_some((within, except));
    Some(Hanging {
        on: format!("{:?}", (rule.coverage(), &written.when.arg, except)),
        said: say(rule, rule.spoken(), asked.request),
    })
}

/// Whether one of `words`, as a policy writes syscalls, means `syscall`.
pub(crate) fn means(words: &[Arc<str>], syscall: Syscall) -> bool {
    let takes = |at: u32| {
        let mut words = words.iter();
        words.any(|word| SyscallSet::named(word).contains(at))
    };
    position(syscall).is_some_and(takes)
}
