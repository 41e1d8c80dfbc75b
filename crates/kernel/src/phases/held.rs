//! The exceptions to the rules on a session's state: what an exemption names, and inline tests.
//!
//! Invariant: an exception takes away what the state objects to, and nothing else: every other rule
//! is asked anew.

use super::facts::{side, text};
use crate::beneath::Root;
use crate::kernel::Kernel;
use crate::policy_store::PolicyInForce;
use airlock_core::{Caller, EffectSet, Phase, Request, RequestPath, Timestamp};
use airlock_phases::{Exemption, Language, Route, only_tests_differ};
use airlock_policy::token::Redeemed;
use airlock_policy::{Contribution, Decision, Layer, Opinion, PathClass, Verdict, combine};
use airlock_state::Session;
use serde::{Deserialize, Serialize};

/// How one session is held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exemption: Option<Exemption>,
}

/// What a file would be after a call.
pub(crate) enum After<'a> {
    /// What the call itself says, over what is in the root.
    Asked(&'a Root),
    /// What the second root holds, over the first.
    Done(&'a Root, Option<&'a Root>),
}

impl Held {
    /// How `session` is held.
    pub(crate) fn of(session: &Session) -> Self {
        let route = session
            .progress
            .as_ref()
            .and_then(|progress| progress.route.clone());
        Self {
            exemption: match route {
                Some(Route::Exempt(exemption)) => Some(exemption),
                Some(Route::TestFirst | Route::Refactoring(_) | Route::Exploring) | None => None,
            },
        }
    }

    /// The decision on `request`, with the exceptions.
    pub(crate) fn decide(
        &self,
        policy: &PolicyInForce,
        request: &Request,
        token: Option<&Redeemed>,
        after: &After<'_>,
        now: Timestamp,
    ) -> Decision {
        let Some(state) = writes_in(request) else {
            return policy.decide_with(request, token, now);
        };
        if let (Phase::Exploring, Some(exemption)) = (state, &self.exemption) {
            let mut decision = policy.decide_past_phases(request, token, now);
            let outside = request.paths.iter().find(|path| !covered(exemption, path));
            if let Some(path) = outside {
                decision.contributions.push(Contribution {
                    layer: Layer::BuiltIn,
                    rule: "phases/exemption".into(),
                    opinion: Opinion::Deny,
                    reason: format!("the exemption does not name `{}`", path.as_str()).into(),
                });
                decision.verdict = combine(decision.contributions.iter().map(|one| one.opinion));
            }
            return decision;
        }
        let first = policy.decide_with(request, token, now);
        let inline = first.verdict == Verdict::Deny
            && denied_by(&first, "phases/tests-first")
            && Self::only_inline_tests(policy, request, after);
        if inline {
            policy.decide_past_phases(request, token, now)
        } else {
            first
        }
    }

    /// Whether all that `request` changes beside tests is inline tests.
    fn only_inline_tests(policy: &PolicyInForce, request: &Request, after: &After<'_>) -> bool {
        let policy = policy.policy();
        request.paths.iter().all(|path| {
            let Some(path) = path.inside().map(airlock_core::WorkspacePath::as_str) else {
                return false;
            };
            if policy.path_class(path) == PathClass::Test {
                return true;
            }
            if policy.path_class(path) != PathClass::Source
                || Language::of(path) != Some(Language::Rust)
            {
                return false;
            }
            let (old, new) = match after {
                After::Asked(root) => (side(root, path), asked_text(request, root, path)),
                After::Done(real, staged) => {
                    let staged = staged.and_then(|staged| text(staged, path));
                    (side(real, path), staged)
                }
            };
            let both = old.zip(new);
            both.is_some_and(|(old, new)| only_tests_differ(&old, &new))
        })
    }
}

/// The state a change is made in; none if `request` changes no file of a held session.
fn writes_in(request: &Request) -> Option<Phase> {
    let changes = request.syscall.area() == "fs" && request.effects.intersects(EffectSet::CHANGES);
    request.caller.phase.filter(|_| changes)
}

fn covered(exemption: &Exemption, path: &RequestPath) -> bool {
    path.inside()
        .is_some_and(|path| exemption.covers(path.as_str()))
}

fn denied_by(decision: &Decision, rule: &str) -> bool {
    let mut denials = decision
        .contributions
        .iter()
        .filter(|one| one.opinion == Opinion::Deny);
    denials.all(|one| &*one.rule == rule || one.layer == Layer::Default)
}

/// What a call of a file tool would make of `path`.
fn asked_text(request: &Request, root: &Root, path: &str) -> Option<String> {
    match request.syscall.name() {
        "fs.write" => {
            let content = request.arguments.get("text")?;
            content.as_str().map(str::to_owned)
        }
        "fs.patch" => {
            let diff = request.arguments.get("patch")?.as_str()?;
            crate::process::patched(diff, path, &side(root, path)?)
        }
        _ => None,
    }
}

impl Kernel {
    /// How the session of `caller` is held.
    pub(crate) fn held(&self, caller: &Caller) -> Held {
        let session = caller.phase.and(caller.session.as_ref());
        let found = session.and_then(|id| {
            let state = self.state().ok()?;
            state.session(&airlock_state::Owner::of(caller), id).ok()?
        });
        found.as_ref().map(Held::of).unwrap_or_default()
    }
}
