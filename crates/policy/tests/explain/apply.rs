//! Does what a fix says, and nothing else.

use airlock_policy::{Document, Fix, Policy, Remedy, Rule};
use std::sync::Arc;

fn find<'a>(document: &'a mut Document, name: &str) -> &'a mut Rule {
    let mut rules = document.rules.iter_mut();
    rules
        .find(|rule| &*rule.name == name)
        .expect("the fix names a rule that exists")
}

fn list<'a>(rule: &'a mut Rule, field: &str) -> &'a mut Vec<Arc<str>> {
    let when = &mut rule.when;
    let list = match field {
        "path_glob" => &mut when.path_glob,
        "host" => &mut when.host,
        "command" => &mut when.command,
        "tool" => &mut when.tool,
        other => panic!("`{other}` is no list of words"),
    };
    list.as_mut().expect("the fix names a field the rule has")
}

/// Makes the change a fix describes; a narrowing by hand is made by removing the rule.
pub(crate) fn apply(document: &mut Document, fix: &Fix) {
    match &fix.remedy {
        Remedy::AddValues {
            rule,
            field,
            values,
        } if field == "port" => {
            let ports = values.iter().map(|value| value.parse::<u16>().unwrap());
            find(document, rule)
                .when
                .port
                .as_mut()
                .unwrap()
                .extend(ports);
        }
        Remedy::AddValues {
            rule,
            field,
            values,
        } => {
            let values = values.iter().map(|value| Arc::from(value.as_str()));
            list(find(document, rule), field).extend(values);
        }
        Remedy::RemoveValues {
            rule,
            field,
            values,
        } => {
            let gone = |one: &Arc<str>| values.iter().any(|value| **value == **one);
            list(find(document, rule), field).retain(|one| !gone(one));
        }
        Remedy::AddRule { yaml } => {
            let file = format!("version: 1\nrules:\n{yaml}");
            let loaded = Policy::load("fix", file.as_bytes()).unwrap();
            let [rule] = loaded.policy.document().rules.as_slice() else {
                panic!("not exactly one rule: {yaml}");
            };
            document.rules.push(rule.clone());
        }
        Remedy::NarrowRule { rule } => document.rules.retain(|one| one.name != *rule),
        Remedy::SetConstraint {
            rule,
            constraint,
            value,
        } => {
            let constraints = &mut find(document, rule).constraints;
            match constraint.as_ref() {
                "require_sandbox" => {
                    constraints.require_sandbox = value.as_ref().map(|tier| tier.parse().unwrap());
                }
                "require_capability_token" => constraints.require_capability_token = false,
                "max_file_size" => {
                    constraints.max_file_size = value.as_ref().map(|size| size.parse().unwrap());
                }
                other => panic!("`{other}` is no checked constraint"),
            }
        }
        Remedy::GrantCapability { .. } | Remedy::Answer | Remedy::Otherwise => {}
    }
}
