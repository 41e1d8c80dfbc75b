//! How to lift a denial of the policy file: narrow the rule, or meet or change a constraint.
//!
//! Invariant: a narrowed rule was compiled and asked before it is suggested; where no edit of a
//! list is enough, the rule is named and the narrowing left to its author.

use super::allowing::{add_values, alone, as_written, loads, whereabouts, words};
use super::fix::{Fix, Remedy};
use super::text::glob;
use crate::document::{Constraints, Rule};
use crate::rules::conditions::{Asked, Coverage, Field, command_name};
use crate::rules::constraint::{TokenUse, unmet};
use crate::rules::{CompiledRule, Policy};
use airlock_core::{ByteSize, Request, RequestPath, Tier};
use std::sync::Arc;

/// Most paths that are excluded one by one.
const FEW_PATHS: usize = 8;

/// How to keep the denial at position `id` from applying, without looking for the best way.
pub(super) fn narrow_somehow(policy: &Policy, id: usize) -> Option<Fix> {
    let rule = policy.document().rules.get(id)?;
    let place = whereabouts(policy, &rule.name, Some(rule.place));
    let text = format!(
        "narrow `match` of {place} so that it leaves this out, or remove it (a denial wins: no \
         allow can help)"
    );
    let rule = Arc::clone(&rule.name);
    Some(Fix::new(Remedy::NarrowRule { rule }, text))
}

/// How to keep the denial at position `id` from applying.
pub(super) fn narrow(policy: &Policy, request: &Request, id: usize) -> Option<Fix> {
    let (rule, compiled) = (policy.document().rules.get(id)?, policy.rules.get(id)?);
    let place = whereabouts(policy, &rule.name, Some(rule.place));
    if let Some(values) = exclude(rule, compiled, request) {
        let text = format!(
            "narrow {place}: add {} to its `path_glob` (a denial wins: no allow can help)",
            as_written(Field::PathGlob, &values)
        );
        return Some(Fix::new(add(rule, Field::PathGlob, values), text));
    }
    let about = [
        (Field::Host, host(request)),
        (Field::Command, command_name(request).map(str::to_owned)),
        (Field::Tool, request.tool.as_deref().map(str::to_owned)),
    ];
    let listed = about
        .into_iter()
        .filter_map(|(field, value)| Some((field, value?)))
        .find(|(field, value)| can_take_out(rule, request, *field, value));
    if let Some((field, value)) = listed {
        let text = format!(
            "narrow {place}: take `{value}` out of its `{}` (a denial wins: no allow can help)",
            field.as_str()
        );
        let remedy = Remedy::RemoveValues {
            rule: Arc::clone(&rule.name),
            field: field.as_str().into(),
            values: vec![value],
        };
        return Some(Fix::new(remedy, text));
    }
    narrow_somehow(policy, id)
}

fn add(rule: &Rule, field: Field, values: Vec<String>) -> Remedy {
    Remedy::AddValues {
        rule: Arc::clone(&rule.name),
        field: field.as_str().into(),
        values,
    }
}

/// Excluding globs for every path the denial is about.
fn exclude(rule: &Rule, compiled: &CompiledRule, request: &Request) -> Option<Vec<String>> {
    rule.when.path_glob.as_ref()?;
    let hit = |path: &&RequestPath| compiled.when.takes_path(path, Coverage::Any);
    let paths: Vec<&RequestPath> = request
        .paths
        .iter()
        .filter(hit)
        .take(FEW_PATHS + 1)
        .collect();
    if paths.len() > FEW_PATHS {
        return None;
    }
    let exact = |path: &&RequestPath| path.inside().filter(|path| !path.is_root()).map(glob);
    let globs: Option<Vec<String>> = paths.iter().map(exact).collect();
    let values: Vec<String> = globs?.iter().map(|glob| format!("!{glob}")).collect();
    let mut narrower = rule.clone();
    add_values(&mut narrower.when, Field::PathGlob, &values)?;
    let fits = leaves_out(&narrower, request)
        && values
            .iter()
            .all(|value| loads(Field::PathGlob, &["**".to_owned(), value.clone()]));
    fits.then_some(values)
}

fn host(request: &Request) -> Option<String> {
    let host = request.host.as_deref()?;
    airlock_core::canonical_host(host)
}

/// Whether the denial no longer applies once `value` is out of a list that holds others too.
fn can_take_out(rule: &Rule, request: &Request, field: Field, value: &str) -> bool {
    let mut narrower = rule.clone();
    let Some(Some(list)) = words(&mut narrower.when, field) else {
        return false;
    };
    let before = list.len();
    list.retain(|one| **one != *value);
    let several = !list.is_empty() && list.len() < before;
    several && leaves_out(&narrower, request)
}

fn leaves_out(narrower: &Rule, request: &Request) -> bool {
    let asked = Asked::new(request);
    alone(narrower.clone()).is_some_and(|policy| {
        let mut rules = policy.rules.iter();
        rules.all(|rule| rule.opinion(asked).is_none())
    })
}

/// What to do about every constraint of the allow at position `id` that does not hold.
pub(super) fn constraints(policy: &Policy, request: &Request, id: usize) -> Vec<Fix> {
    let Some(rule) = policy.document().rules.get(id) else {
        return Vec::new();
    };
    let place = whereabouts(policy, &rule.name, Some(rule.place));
    let constraints = &rule.constraints;
    [
        sandbox(constraints, request, &place),
        token(constraints, request, &place),
        file_size(constraints, request, &place),
    ]
    .into_iter()
    .flatten()
    .map(|(constraint, value, text)| {
        let rule = Arc::clone(&rule.name);
        let remedy = Remedy::SetConstraint {
            rule,
            constraint: constraint.into(),
            value,
        };
        Fix::new(remedy, text)
    })
    .collect()
}

type Change = (&'static str, Option<String>, String);

fn fails(constraints: &Constraints, request: &Request) -> bool {
    unmet(constraints, request, TokenUse::None).is_some()
}

fn sandbox(all: &Constraints, request: &Request, place: &str) -> Option<Change> {
    let alone = Constraints {
        require_sandbox: all.require_sandbox,
        ..Constraints::default()
    };
    let wanted = all.require_sandbox.filter(|_| fails(&alone, request))?;
    // Only tiers that isolate can be written in the file.
    let value = request
        .tier
        .satisfies(Tier::Process)
        .then_some(Tier::Process);
    let change = match value {
        Some(tier) => format!("set `require_sandbox: {tier}` in {place}"),
        None => format!("remove `require_sandbox` from {place}"),
    };
    let text = format!("run it in the `{wanted}` tier, or {change}");
    Some(("require_sandbox", value.map(|tier| tier.to_string()), text))
}

fn token(all: &Constraints, request: &Request, place: &str) -> Option<Change> {
    let alone = Constraints {
        require_capability_token: all.require_capability_token,
        ..Constraints::default()
    };
    fails(&alone, request).then(|| {
        let text = format!(
            "ask with a capability token, or remove `require_capability_token` from {place}"
        );
        ("require_capability_token", None, text)
    })
}

fn file_size(all: &Constraints, request: &Request, place: &str) -> Option<Change> {
    let alone = Constraints {
        max_file_size: all.max_file_size,
        ..Constraints::default()
    };
    let limit = all.max_file_size.filter(|_| fails(&alone, request))?;
    let size = request.file_size.map(ByteSize::from_bytes);
    let text = match size {
        Some(size) => {
            format!("write at most {limit} to one file, or set `max_file_size: {size}` in {place}")
        }
        None => format!(
            "say how large the file will be, at most {limit}, or remove `max_file_size` from {place}"
        ),
    };
    Some(("max_file_size", size.map(|size| size.to_string()), text))
}
