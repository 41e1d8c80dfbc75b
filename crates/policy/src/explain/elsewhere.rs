//! What to do where no rule of the policy file decided: capabilities, built-in rules, extensions,
//! tokens, earlier answers, and the person who is asked.

use super::fix::{Fix, Remedy};
use super::place::file;
use super::text::quoted;
use crate::decision::Contribution;
use crate::document::Headless;
use crate::rules::Policy;
use airlock_core::{CapabilityForm, Request};

/// The fronts whose manifests are Airlock's own; the command line has everything.
const FRONTS: [&str; 3] = ["agent", "mcp", "server"];

/// Which set lacks a capability, and where it is added.
pub(super) fn capability(policy: &Policy, request: &Request, denial: &Contribution) -> Fix {
    let named = named_capability(request, &denial.reason);
    let plugin = quoted(request.caller.plugin.as_str());
    let capability = named
        .as_deref()
        .map_or_else(|| described_capability(request), quoted);
    let file = file(policy);
    let text = match &*denial.rule {
        "unknown plugin" => {
            format!("install and enable plugin {plugin}: `airlock plugin list` shows what there is")
        }
        "plugin" | "plugin deny" if FRONTS.contains(&request.caller.plugin.as_str()) => format!(
            "nothing grants {capability} to the front {plugin}: a person does this at the command \
             line, with `airlock`"
        ),
        "plugin" => format!(
            "add {capability} to the capabilities in the manifest of {plugin}, then install it anew \
             and approve it; policy cannot widen a manifest"
        ),
        "plugin deny" => format!(
            "take {capability} out of what {plugin} is denied (`deny_capabilities`); a denial beats \
             every grant"
        ),
        "workspace" => format!(
            "add {capability} to `workspace.allow` in {file}, then: airlock policy update FILE"
        ),
        "user" => user(policy, request, &capability, &file),
        gate => format!("have the gate {} grant {capability}", quoted(gate)),
    };
    let remedy = Remedy::GrantCapability {
        gate: super::text::plain(&denial.rule),
        capability: named,
    };
    Fix::new(remedy, format!("{text} (the rules are asked after that)"))
}

fn user(policy: &Policy, request: &Request, capability: &str, file: &str) -> String {
    let user = request.caller.user.as_str();
    let shown = quoted(user);
    let roles = policy.document().users.get(user);
    match roles.and_then(|roles| roles.first()) {
        Some(role) => format!(
            "add {capability} to `roles.{role}` in {file}, a role of user {shown}, then: airlock \
             policy update FILE"
        ),
        None => format!(
            "give user {shown} a role that has {capability}, in `users` and `roles` of {file}, \
             then: airlock policy update FILE"
        ),
    }
}

const fn family(request: &Request) -> &'static str {
    match request.syscall.spec().capability {
        CapabilityForm::Fixed(name)
        | CapabilityForm::Path(name)
        | CapabilityForm::Host(name)
        | CapabilityForm::Secret(name)
        | CapabilityForm::Tool(name) => name,
    }
}

/// What a command that runs may be granted besides, which is a capability of its own.
const GRANTS: [&str; 2] = ["filesystem.read", "filesystem.write"];

/// The capability the enforcer named, or the one the syscall always needs.
fn named_capability(request: &Request, reason: &str) -> Option<String> {
    let is_of = |word: &str, family: &str| {
        word.strip_prefix(family)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut families = GRANTS.to_vec();
    families.push(family(request));
    let named = reason
        .split('`')
        .skip(1)
        .step_by(2)
        .find(|word| families.iter().any(|family| is_of(word, family)))
        .map(super::text::plain);
    named.or_else(|| match request.syscall.spec().capability {
        // The absolute path is not known here.
        CapabilityForm::Path(_) => None,
        CapabilityForm::Fixed(_)
        | CapabilityForm::Host(_)
        | CapabilityForm::Secret(_)
        | CapabilityForm::Tool(_) => request
            .needs("")
            .first()
            .map(|need| super::text::plain(need)),
    })
}

fn described_capability(request: &Request) -> String {
    let family = family(request);
    match request.paths.first() {
        Some(path) => format!(
            "`{family}.` with the absolute path of {}",
            quoted(path.as_str())
        ),
        None => format!("`{family}`"),
    }
}

/// What to do instead where a built-in rule denies.
pub(super) fn built_in(denial: &Contribution) -> Fix {
    if denial.rule.starts_with("phases/") {
        return Fix::otherwise(phase(&denial.rule));
    }
    let instead = match &*denial.rule {
        "built-in/policy-files" => "change the policy with: airlock policy update FILE",
        "built-in/container-outside-debug" => {
            "switch the session to debug mode first (`/debug`; a person approves it)"
        }
        "built-in/airlock-state" => "use Airlock's own commands, such as `airlock audit log`",
        _ => "ask for something else",
    };
    Fix::otherwise(format!("this cannot be allowed by policy: {instead}"))
}

/// How to get on where the state a session stands in denies.
fn phase(rule: &str) -> &'static str {
    match rule {
        "phases/tests-first" => {
            "write a test that fails first, run `test.run`, then `phase.advance`; or, before anything is written, ask for an exemption: airlock session exempt CATEGORY PATH"
        }
        "phases/tests-are-read-only" => {
            "make the tests pass as they are, or give the task up with `phase.advance` to `idle`"
        }
        "phases/source-only" | "phases/source-and-tests" | "phases/exemption" => {
            "ask for an exemption while planning: `phase.request_exemption`"
        }
        _ => "`phase.status` says where the session stands and what leads on",
    }
}

/// What to do about an extension that objects or failed.
pub(super) fn extension(policy: &Policy, denial: &Contribution) -> Fix {
    let name = quoted(&denial.rule);
    let listed = policy
        .document()
        .extensions
        .iter()
        .find(|extension| extension.name == denial.rule);
    let script = listed.map_or_else(String::new, |one| format!(" ({})", quoted(&one.file)));
    Fix::otherwise(format!(
        "change extension {name}{script} or take it out of `extensions`, then: airlock policy \
         update FILE; one that crashed is back after a reload (a denial wins: no allow can help)"
    ))
}

/// What to do about a token that is held to more than the request meets.
pub(super) fn token() -> Fix {
    Fix::otherwise("ask without the token: the rules decide then")
}

/// What to do about an earlier no.
pub(super) fn grant() -> Fix {
    Fix::otherwise("a person answered no before: ask again in a terminal")
}

/// Who answers a review, and how.
pub(super) fn answer(policy: &Policy) -> Fix {
    let approvals = &policy.document().approvals;
    let mut text = "a person is asked where the command runs in a terminal".to_owned();
    if approvals.require_passphrase {
        text.push_str(" (it asks for the passphrase)");
    }
    let alone = match approvals.headless {
        Headless::Wait => "; with nobody there it waits",
        Headless::Deny => "; with nobody there the answer is no",
    };
    text.push_str(alone);
    Fix::new(Remedy::Answer, text)
}

/// Where the policy that decided is no longer the one in force.
pub(super) fn stale() -> Fix {
    Fix::otherwise("ask again: the policy changed since this was decided")
}
