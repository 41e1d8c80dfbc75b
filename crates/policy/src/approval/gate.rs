//! The five gates: what raises each, and who may answer.

use crate::load::choice;
use airlock_core::{Effect, EffectSet, Mode, Request, Tier};
use std::fmt;

choice! {
    /// A gate an action has to pass: why a review is asked for.
    #[derive(serde::Deserialize)]
    pub enum Gate, "gate" {
        /// First use of a tool in a session.
        FirstUse = "AG-01",
        /// Beyond the session's autonomy budget.
        Budget = "AG-02",
        /// A host that was not granted yet.
        Host = "AG-03",
        /// A write outside the workspace or to a sensitive path.
        SensitiveWrite = "AG-04",
        /// Elevated permission.
        Elevated = "AG-05",
    }
}

/// Who may answer for a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MayAnswer {
    /// Policy by itself, or a person.
    PolicyOrPerson,
    /// A person.
    Person,
    /// A person, or policy where it was delegated expressly.
    PersonUnlessDelegated,
    /// A person, each time anew: no answer carries over to another action.
    PersonOnly,
}

impl Gate {
    /// Every gate, in order.
    pub const ALL: &'static [Self] = &[
        Self::FirstUse,
        Self::Budget,
        Self::Host,
        Self::SensitiveWrite,
        Self::Elevated,
    ];

    /// What raises it, in a few words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::FirstUse => "first use of a tool in this session",
            Self::Budget => "beyond the session's autonomy budget",
            Self::Host => "network access to a host not yet granted",
            Self::SensitiveWrite => "a write outside the workspace or to a sensitive path",
            Self::Elevated => "elevated permission",
        }
    }

    /// Who may answer.
    pub const fn may_answer(self) -> MayAnswer {
        match self {
            Self::FirstUse | Self::Host => MayAnswer::PolicyOrPerson,
            Self::Budget => MayAnswer::Person,
            Self::SensitiveWrite => MayAnswer::PersonUnlessDelegated,
            Self::Elevated => MayAnswer::PersonOnly,
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the gates need to know beyond the request itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts, each named at the place that establishes it"
)]
pub struct GateFacts {
    /// The host was granted before.
    pub host_granted: bool,
    /// One of the paths is sensitive by policy or by a built-in rule.
    pub sensitive_path: bool,
    /// The session's autonomy budget does not cover it.
    pub over_budget: bool,
    /// The session has not used this tool yet.
    pub first_use: bool,
}

/// The gate for a request that needs review.
///
/// Where several apply the one with the strictest answerer wins, or an action could be steered
/// past a person by raising a laxer gate as well. A review that no fact explains was asked for by
/// a rule: it goes to a person unless policy delegates, like a sensitive write.
pub fn gate_for(request: &Request, facts: &GateFacts) -> Gate {
    let outside = request.paths.iter().any(|path| path.inside().is_none());
    let touches =
        request.effects.intersects(EffectSet::CHANGES) && (outside || facts.sensitive_path);
    if elevated(request) {
        Gate::Elevated
    } else if facts.over_budget {
        Gate::Budget
    } else if touches {
        Gate::SensitiveWrite
    } else if request.effects.contains(Effect::Network) && !facts.host_granted {
        Gate::Host
    } else if facts.first_use {
        Gate::FirstUse
    } else {
        Gate::SensitiveWrite
    }
}

/// Admin, unsandboxed, debug or credentials.
pub(super) fn elevated(request: &Request) -> bool {
    let admin = match request.syscall.area() {
        "policy" | "trust" | "approval" | "plugin" | "container" => true,
        "session" => debug_switch(request),
        // Never automatic: what policy may answer by itself, it could answer for all of them.
        "phase" => request.syscall.name() == "phase.request_exemption",
        _ => false,
    };
    let unsandboxed =
        request.effects.contains(Effect::Execute) && matches!(request.tier, Tier::Kernel);
    admin || unsandboxed || request.effects.contains(Effect::Secret)
}

/// Whether a session would enter debug mode. A mode that cannot be read counts as debug.
fn debug_switch(request: &Request) -> bool {
    let mode = request.arguments.get("mode");
    let asked = match mode {
        None => return request.syscall.name() == "session.set_mode",
        Some(value) => value.as_str().and_then(|word| word.parse().ok()),
    };
    match asked {
        Some(Mode::Strict | Mode::Explore) => false,
        Some(Mode::Debug) | None => true,
    }
}
