//! Cedar: one policy a rule, everything in the policies' scopes, where Cedar is fastest.
//!
//! Tags and directories are entities, so that a rule is two hierarchy lookups. Policies, entities
//! and requests are built before the clock runs. A review is a permit with an annotation, found
//! again among the determining policies.

use super::{Ask, Peer, Spec};
use crate::failure::Failure;
use airlock_policy::{Action, Verdict};
use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityUid, PolicySet, Request, Response,
};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

pub(super) fn peers(specs: &[Spec], asked: &[Ask]) -> Result<Vec<Peer>, Failure> {
    let policies: PolicySet = text(specs).parse()?;
    let entities = entities(specs, asked)?;
    let mut requests = Vec::with_capacity(asked.len());
    for (number, ask) in asked.iter().enumerate() {
        requests.push(Request::new(
            uid("Caller", &number.to_string())?,
            uid("Action", ask.syscall)?,
            uid("File", &ask.path)?,
            Context::empty(),
            None,
        )?);
    }
    let authorizer = Authorizer::new();
    Ok(vec![Peer {
        name: "Cedar",
        answer: Box::new(move |number| {
            let request = requests
                .get(number)
                .ok_or_else(|| Failure::new("no such request"))?;
            Ok(verdict(
                &policies,
                &authorizer.is_authorized(request, &policies, &entities),
            ))
        }),
    }])
}

fn verdict(policies: &PolicySet, response: &Response) -> Verdict {
    let mut reasons = response.diagnostics().reason();
    match response.decision() {
        Decision::Deny => Verdict::Deny,
        Decision::Allow if reasons.any(|id| policies.annotation(id, "review").is_some()) => {
            Verdict::RequireReview
        }
        Decision::Allow => Verdict::Allow,
    }
}

fn text(specs: &[Spec]) -> String {
    let mut text = String::new();
    for spec in specs {
        let effect = match spec.action {
            Action::Allow => "permit",
            Action::Deny => "forbid",
            Action::RequireReview => "@review(\"\") permit",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{effect}(principal in Tag::\"{}\", action == Action::\"fs.write\", \
             resource in Directory::\"{}\");",
            spec.tag, spec.directory
        );
    }
    text
}

fn uid(kind: &str, id: &str) -> Result<EntityUid, Failure> {
    Ok(format!("{kind}::\"{id}\"").parse()?)
}

fn entities(specs: &[Spec], asked: &[Ask]) -> Result<Entities, Failure> {
    let mut parents: HashMap<EntityUid, HashSet<EntityUid>> = HashMap::new();
    for (number, ask) in asked.iter().enumerate() {
        let tags = ask.tags.iter().map(|tag| uid("Tag", tag));
        let tags = tags.collect::<Result<_, _>>()?;
        parents.insert(uid("Caller", &number.to_string())?, tags);
        let mut child = uid("File", &ask.path)?;
        let mut path = ask.path.as_str();
        while let Some((directory, _)) = path.rsplit_once('/') {
            let parent = uid("Directory", directory)?;
            parents.entry(child).or_default().insert(parent.clone());
            (child, path) = (parent, directory);
        }
        parents.entry(child).or_default();
        for tag in &ask.tags {
            parents.entry(uid("Tag", tag)?).or_default();
        }
    }
    for spec in specs {
        parents.entry(uid("Tag", &spec.tag)?).or_default();
        let directory = uid("Directory", &spec.directory)?;
        parents.entry(directory).or_default();
    }
    let entities = parents
        .into_iter()
        .map(|(id, parents)| Entity::new_no_attrs(id, parents));
    Ok(Entities::from_entities(entities, None)?)
}
