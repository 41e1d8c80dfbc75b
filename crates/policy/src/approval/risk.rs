//! How risky an action is, and what makes it so.
//!
//! Each factor that applies has a level; the action has the highest of them, and one more where
//! three or more factors are at least medium: several moderate risks at once are how a bad action
//! hides. A level informs the person who answers; it decides nothing.

use super::gate::{GateFacts, elevated};
use airlock_core::{Effect, Request};
use serde::{Deserialize, Serialize};

/// From harmless to grave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// Easily undone, or confined to the stage.
    Low,
    /// Worth a look.
    Medium,
    /// Reaches beyond the stage, or changes what runs later.
    High,
    /// Changes who may do what.
    Critical,
}

impl RiskLevel {
    /// The word used in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    const fn raised(self) -> Self {
        match self {
            Self::Low => Self::Medium,
            Self::Medium => Self::High,
            Self::High | Self::Critical => Self::Critical,
        }
    }
}

/// What makes an action risky.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskFactor {
    /// Changes files.
    Writes,
    /// Removes files.
    Deletes,
    /// Touches very many paths.
    ManyPaths,
    /// Runs code.
    Executes,
    /// Runs a shell line, whose words can hide anything.
    Shell,
    /// Reaches a host.
    Network,
    /// Spends more than the session was given.
    OverBudget,
    /// A path that changes what is built, shipped or run later.
    SensitivePath,
    /// A path outside the workspace.
    OutsideWorkspace,
    /// Releases a secret.
    Secret,
    /// Admin, unsandboxed, debug or credentials.
    Elevated,
}

/// More paths than a person reads through with care.
const MANY: usize = 20;

impl RiskFactor {
    /// The level the factor has by itself.
    pub const fn level(self) -> RiskLevel {
        match self {
            Self::Writes => RiskLevel::Low,
            Self::Deletes
            | Self::ManyPaths
            | Self::Executes
            | Self::Shell
            | Self::Network
            | Self::OverBudget => RiskLevel::Medium,
            Self::SensitivePath | Self::OutsideWorkspace | Self::Secret => RiskLevel::High,
            Self::Elevated => RiskLevel::Critical,
        }
    }
}

/// A level with the factors that led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// The level.
    pub level: RiskLevel,
    /// Every factor that applies.
    pub factors: Vec<RiskFactor>,
}

impl Risk {
    /// The risk of `request`.
    pub fn of(request: &Request, facts: &GateFacts) -> Self {
        let has = |effect| request.effects.contains(effect);
        let outside = request.paths.iter().any(|path| path.inside().is_none());
        let factors: Vec<RiskFactor> = [
            (has(Effect::Write), RiskFactor::Writes),
            (has(Effect::Delete), RiskFactor::Deletes),
            (request.paths.len() > MANY, RiskFactor::ManyPaths),
            (has(Effect::Execute), RiskFactor::Executes),
            (request.syscall.area() == "shell", RiskFactor::Shell),
            (has(Effect::Network), RiskFactor::Network),
            (facts.over_budget, RiskFactor::OverBudget),
            (facts.sensitive_path, RiskFactor::SensitivePath),
            (outside, RiskFactor::OutsideWorkspace),
            (has(Effect::Secret), RiskFactor::Secret),
            (elevated(request), RiskFactor::Elevated),
        ]
        .into_iter()
        .filter_map(|(applies, factor)| applies.then_some(factor))
        .collect();
        let levels = || factors.iter().map(|factor| factor.level());
        let highest = levels().max().unwrap_or(RiskLevel::Low);
        let serious = levels().filter(|level| *level >= RiskLevel::Medium).count();
        let level = if serious >= 3 {
            highest.raised()
        } else {
            highest
        };
        Self { level, factors }
    }
}
