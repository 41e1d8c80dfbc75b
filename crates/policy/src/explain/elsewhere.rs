//! What to do where no rule of the policy file decided: capabilities, built-in rules, extensions,
//! tokens, earlier answers, and the person who is asked.

use super::fix::{Fix, Remedy};
use super::place::file;
use super::text::quoted;
use super::unsaid::unsaid;
use crate::capability::Pattern;
use crate::decision::Contribution;
use crate::document::Headless;
use crate::rules::Policy;
use airlock_core::{CapabilityForm, Request, RequestPath};

/// The fronts whose manifests are Airlock's own; the command line has everything.
const FRONTS: [&str; 3] = ["agent", "mcp", "server"];

/// A capability that is missing.
enum Missing {
    /// It, as a pattern that names it and nothing else.
    Exactly(String),
    /// No pattern names it alone: it holds a `*`, or what a pattern may not hold.
    Unnameable,
    /// The absolute path is not known here.
    Unknown,
}

/// Which set lacks a capability, and where it is added. Never more is offered than was asked for.
pub(super) fn capability(policy: &Policy, request: &Request, denial: &Contribution) -> Fix {
    if let Some(unsaid) = unsaid(request) {
        return Fix::otherwise(format!("{unsaid}: only then is there something to grant"));
    }
    let missing = missing(request, &denial.reason);
    let capability = match &missing {
        // Whole: shortened it would be another.
        Missing::Exactly(named) => format!("`{named}`"),
        Missing::Unnameable | Missing::Unknown => described_capability(request),
    };
    let file = file(policy);
    let text = match (&missing, &*denial.rule) {
        (Missing::Unnameable, "plugin" | "workspace" | "user")
            if !is_fronts_own(request, denial) =>
        {
            unnameable(policy, request, denial, &file)
        }
        (Missing::Exactly(_) | Missing::Unnameable | Missing::Unknown, gate) => {
            granting(policy, request, gate, &capability, &file)
        }
    };
    let remedy = Remedy::GrantCapability {
        gate: super::text::plain(&denial.rule),
        capability: match missing {
            Missing::Exactly(named) => Some(named),
            Missing::Unnameable | Missing::Unknown => None,
        },
    };
    Fix::new(remedy, format!("{text} (the rules are asked after that)"))
}

/// Whether a person has to do it because a front's own manifest lacks it.
fn is_fronts_own(request: &Request, denial: &Contribution) -> bool {
    &*denial.rule == "plugin" && FRONTS.contains(&request.caller.plugin.as_str())
}

fn granting(
    policy: &Policy,
    request: &Request,
    gate: &str,
    capability: &str,
    file: &str,
) -> String {
    let plugin = quoted(request.caller.plugin.as_str());
    match gate {
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
        "user" => user(policy, request, capability, file),
        gate => format!("have the gate {} grant {capability}", quoted(gate)),
    }
}

/// Where a pattern would grant more than was asked for: that there is none to offer.
fn unnameable(policy: &Policy, request: &Request, denial: &Contribution, file: &str) -> String {
    let set = match &*denial.rule {
        "workspace" => format!("`workspace.allow` in {file}"),
        "user" => match first_role(policy, request) {
            Some(role) => format!("`roles.{role}` in {file}"),
            None => format!("the roles of the user in {file}"),
        },
        _ => format!("the manifest of {}", quoted(request.caller.plugin.as_str())),
    };
    format!(
        "no pattern that can be written names this alone (a `*` takes in everything there): ask for \
         another name, or write into {set} by hand what you mean to grant"
    )
}

fn first_role<'p>(policy: &'p Policy, request: &Request) -> Option<&'p str> {
    let roles = policy.document().users.get(request.caller.user.as_str())?;
    roles.first().map(|role| &**role)
}

fn user(policy: &Policy, request: &Request, capability: &str, file: &str) -> String {
    let shown = quoted(request.caller.user.as_str());
    match first_role(policy, request) {
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

/// The capability that is missing. What a request needs is taken from the request; the enforcer's
/// words only say which of it is meant, and where the workspace is.
fn missing(request: &Request, reason: &str) -> Missing {
    let of_path = |name: &str| match in_words(reason, name) {
        Some(said) if request.paths.iter().any(|path| is_of(path, said, name)) => {
            Some(said.to_owned())
        }
        Some(_) | None => None,
    };
    let own = || request.needs("").into_iter().next();
    let needed = match request.syscall.spec().capability {
        CapabilityForm::Path(name) => of_path(name),
        // A name of somebody else's making is not in its words, so they can be read.
        CapabilityForm::Fixed(_) => {
            match GRANTS.into_iter().find_map(|name| in_words(reason, name)) {
                // A directory is granted with all in it, and that is what was asked for.
                Some(granted) if granted.strip_suffix("/*").is_some_and(is_exact) => {
                    return Missing::Exactly(granted.to_owned());
                }
                Some(granted) => Some(granted.to_owned()),
                None => own(),
            }
        }
        CapabilityForm::Host(_) | CapabilityForm::Secret(_) | CapabilityForm::Tool(_) => own(),
    };
    match needed {
        Some(needed) if is_exact(&needed) => Missing::Exactly(needed),
        None if request.paths.iter().all(|path| is_plain(path.as_str())) => Missing::Unknown,
        Some(_) | None => Missing::Unnameable,
    }
}

/// What `reason` quotes of the capability family `name`, up to the last quotation mark: a path may
/// hold some.
fn in_words<'r>(reason: &'r str, name: &str) -> Option<&'r str> {
    let begin = reason.find(&format!("`{name}."))? + 1;
    let end = reason.rfind('`')?;
    reason.get(begin..end)
}

/// Whether `said`, a capability of the family `name`, is that of `path` in some workspace.
fn is_of(path: &RequestPath, said: &str, name: &str) -> bool {
    let said = said
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('.'));
    said.is_some_and(|said| match path {
        RequestPath::Inside(path) if path.is_root() => said.starts_with('/'),
        RequestPath::Inside(path) => {
            let root = said.strip_suffix(path.as_str());
            root.is_some_and(|root| root.starts_with('/') && root.ends_with('/'))
        }
        RequestPath::Outside(path) => said == &**path,
    })
}

/// Whether `text`, written down as a pattern, names just what it is.
fn is_exact(text: &str) -> bool {
    is_plain(text) && Pattern::parse(text).is_ok_and(|pattern| pattern.matches(text))
}

/// Whether `text` has no wildcard, and shows as what it is.
fn is_plain(text: &str) -> bool {
    !text.contains(['*', '`']) && super::text::plain(text) == text
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
    Fix::otherwise(
        "a person said no: it can be asked for again once that is over (`approvals.expires_after`)",
    )
}

/// What to do about a question that nobody is there to answer.
pub(super) fn unattended() -> Fix {
    Fix::otherwise(
        "call it while somebody is there to answer, or have it wait for them: `approvals.headless: wait`",
    )
}

/// Syscalls of commands that ask whoever types them, and go on with their yes.
const ASKED_WHERE_TYPED: [&str; 10] = [
    "exec.run",
    "merge.apply",
    "merge.undo",
    "phase.commit",
    "phase.request_exemption",
    "plugin.enable",
    "plugin.install",
    "policy.update",
    "trust.approve",
    "workflow.confirm",
];

/// Who answers a review, and how.
pub(super) fn answer(policy: &Policy, request: &Request) -> Fix {
    let approvals = &policy.document().approvals;
    let passphrase = if approvals.require_passphrase {
        " (it asks for the passphrase)"
    } else {
        ""
    };
    let is_typed = request.caller.plugin.as_str() == "cli"
        && ASKED_WHERE_TYPED.contains(&request.syscall.name());
    if is_typed {
        let text = format!(
            "a person is asked where the command runs in a terminal{passphrase}; elsewhere nothing \
             is done (exit code 4)"
        );
        return Fix::new(Remedy::Answer, text);
    }
    let alone = match approvals.headless {
        Headless::Wait => "",
        Headless::Deny => {
            "; where a caller says that nobody is there (`--unattended`) the answer is no"
        }
    };
    let text = format!(
        "the call leaves a request that waits (exit code 4): a person answers it in a terminal with \
         `airlock approvals approve ID`{passphrase}, then the call is made again{alone}"
    );
    Fix::new(Remedy::Answer, text)
}

/// Where the policy that decided is no longer the one in force.
pub(super) fn stale() -> Fix {
    Fix::otherwise("ask again: the policy changed since this was decided")
}
