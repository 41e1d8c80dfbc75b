//! What a token is good for, and when one scope provably lies within another.

use super::paths::PathGlobs;
use super::refusal::{NarrowError, NoToken};
use crate::decision::Generation;
use crate::document::Constraints;
use airlock_core::{
    Caller, CapabilityForm, Effect, EffectSet, Peer, Phase, PluginName, Request, SandboxId,
    SessionId, Span, Syscall, Tier, UserId, WorkspaceId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most globs, and most names, of one scope: a token is for one task, not a second policy.
const ENTRIES: usize = 256;
/// Longest a token may live; more is a grant, which people can see and revoke.
const LONGEST: Span = Span::from_secs(3_600);

/// What one token allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The one syscall it is for.
    pub syscall: Syscall,
    /// Globs that must cover every path of a request; `!` excludes. A request with paths needs
    /// globs, a scope with globs needs paths.
    pub paths: Vec<Arc<str>>,
    /// Exact names of what else a request may reach: host, tool, secret, program. A request that
    /// names one which is not listed is outside the scope.
    pub names: Vec<Arc<str>>,
    /// How often it may be used.
    pub operations: u32,
    /// How long it may be used.
    pub lifetime: Span,
    /// What each use is held to.
    pub constraints: Constraints,
}

impl Scope {
    /// One operation of `syscall` within 30 seconds, on no path and no name yet.
    pub fn new(syscall: Syscall) -> Self {
        Self {
            syscall,
            paths: Vec::new(),
            names: Vec::new(),
            operations: 1,
            lifetime: Span::from_secs(30),
            constraints: Constraints::default(),
        }
    }
}

/// What a token is issued for: what its holder may do, and what it may hand on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What the holder may do itself. No operations: nothing.
    pub scope: Scope,
    /// What the holder may have narrowed into tokens for others, without using it itself.
    pub delegable: Option<Scope>,
}

impl From<Scope> for Terms {
    fn from(scope: Scope) -> Self {
        Self {
            scope,
            delegable: None,
        }
    }
}

/// Who holds a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The sandbox whose socket it must come through; none: from outside any sandbox.
    pub sandbox: Option<SandboxId>,
    /// The process, told apart from a later one with the same pid by its start time.
    pub peer: Peer,
    /// The plugin it acts as.
    pub plugin: PluginName,
    /// On whose behalf.
    pub user: UserId,
}

/// What was in force when a token was issued, and must still be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The policy.
    pub generation: Generation,
    /// The workspace its paths are relative to.
    pub workspace: WorkspaceId,
    /// The session the phase belongs to.
    pub session: Option<SessionId>,
    /// The session's phase.
    pub phase: Option<Phase>,
}

/// A holder in its setting: who a token is issued to, and who presents one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bearer {
    /// Who.
    pub holder: Holder,
    /// Under which circumstances.
    pub setting: Setting,
}

impl Bearer {
    /// The bearer `caller` is, under the policy `generation`. None for a caller without a verified
    /// process: there is nothing to bind a token to.
    pub fn of(caller: &Caller, generation: Generation) -> Option<Self> {
        Some(Self {
            holder: Holder {
                sandbox: caller.sandbox.clone(),
                peer: caller.peer?,
                plugin: caller.plugin.clone(),
                user: caller.user.clone(),
            },
            setting: Setting {
                generation,
                workspace: caller.workspace.clone(),
                session: caller.session.clone(),
                phase: caller.phase,
            },
        })
    }

    /// Checks that `other` is this bearer in every respect.
    pub(super) fn is(&self, other: &Self) -> Result<(), NoToken> {
        let (mine, theirs) = (&self.holder, &other.holder);
        let (then, now) = (&self.setting, &other.setting);
        for (same, reason) in [
            (mine.sandbox == theirs.sandbox, NoToken::OtherSandbox),
            (mine.peer == theirs.peer, NoToken::OtherProcess),
            (mine.plugin == theirs.plugin, NoToken::OtherPlugin),
            (mine.user == theirs.user, NoToken::OtherUser),
            (then.workspace == now.workspace, NoToken::OtherWorkspace),
            (then.session == now.session, NoToken::OtherSession),
            (then.phase == now.phase, NoToken::OtherPhase),
            (then.generation == now.generation, NoToken::OtherGeneration),
        ] {
            if !same {
                return Err(reason);
            }
        }
        Ok(())
    }
}

/// Why a token was not issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The syscall touches files, and no glob says which.
    #[error("a token for `{0}` must say for which paths")]
    NoPaths(Syscall),
    /// The syscall reaches something with a name, and none is listed.
    #[error("a token for `{0}` must name what it may reach")]
    NoNames(Syscall),
    /// A glob is malformed.
    #[error("`{0}` is not a path glob")]
    BadGlob(String),
    /// More globs or names than a scope takes.
    #[error("a token's scope holds at most {ENTRIES} globs and {ENTRIES} names")]
    TooManyEntries,
    /// It could neither be used nor handed on.
    #[error("a token without operations allows nothing")]
    NoOperations,
    /// No time at all, or too much.
    #[error("a token lives longer than 0ms and at most {LONGEST}, not {0}")]
    Lifetime(Span),
    /// The authority holds as many live tokens as it will.
    #[error("too many tokens are live")]
    Full,
    /// Every number was used.
    #[error("token numbers are used up")]
    Exhausted,
}

impl IssueError {
    /// What would help.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoPaths(_) => "give at least one glob that is not an exclusion, such as `src/**`",
            Self::NoNames(_) => "list the exact host, tool, secret or program",
            Self::BadGlob(_) => "globs are relative to the workspace root",
            Self::TooManyEntries => "use broader globs, or several tokens",
            Self::NoOperations => "ask for at least one operation, or for a delegable scope",
            Self::Lifetime(_) => "ask for seconds; what must last longer is a grant",
            Self::Full => "let tokens expire, or revoke some",
            Self::Exhausted => "restart the kernel",
        }
    }
}

/// A scope that was checked, with its globs compiled.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) scope: Scope,
    globs: PathGlobs,
}

impl Compiled {
    /// Checks `scope`; whether it has operations is the caller's business.
    pub(super) fn new(scope: Scope) -> Result<Self, IssueError> {
        if scope.paths.len() > ENTRIES || scope.names.len() > ENTRIES {
            return Err(IssueError::TooManyEntries);
        }
        if scope.lifetime == Span::from_millis(0) || scope.lifetime > LONGEST {
            return Err(IssueError::Lifetime(scope.lifetime));
        }
        if needs_paths(scope.syscall) && scope.paths.iter().all(|glob| glob.starts_with('!')) {
            return Err(IssueError::NoPaths(scope.syscall));
        }
        if needs_names(scope.syscall) && scope.names.is_empty() {
            return Err(IssueError::NoNames(scope.syscall));
        }
        let globs = compile(&scope.paths)?;
        Ok(Self { scope, globs })
    }

    /// Checks that `request` is within the scope: syscall, every path, everything it names.
    pub(super) fn permits(&self, request: &Request) -> Result<(), NoToken> {
        if request.syscall != self.scope.syscall {
            return Err(NoToken::OtherSyscall);
        }
        // Globs without paths would let a request through whose paths somebody forgot to fill in.
        if request.paths.is_empty() != self.scope.paths.is_empty() {
            return Err(NoToken::OutsidePaths);
        }
        for path in &request.paths {
            let inside = path.inside().ok_or(NoToken::OutsidePaths)?;
            if !self.globs.matches(inside) {
                return Err(NoToken::OutsidePaths);
            }
        }
        let named = [&request.host, &request.tool, &request.secret];
        let mut named = named.into_iter().flatten().chain(request.command.first());
        if named.all(|name| self.scope.names.contains(name)) {
            Ok(())
        } else {
            Err(NoToken::OutsideNames)
        }
    }

    /// Makes `child` inherit what it leaves open, or says what it would widen.
    ///
    /// Lifetime and operations are not compared here: what is left of them is the ledger's.
    pub(super) fn narrow(&self, mut child: Scope) -> Result<Scope, NarrowError> {
        let parent = &self.scope;
        if child.syscall != parent.syscall {
            return Err(NarrowError::Syscall(child.syscall));
        }
        if let Some(glob) = first_uncovered(&parent.paths, &child.paths) {
            return Err(NarrowError::Paths(glob));
        }
        let foreign = child.names.iter().find(|name| !parent.names.contains(name));
        if let Some(name) = foreign {
            return Err(NarrowError::Names(name.clone()));
        }
        child.constraints = stricter(&parent.constraints, &child.constraints)?;
        Ok(child)
    }
}

fn compile(globs: &[Arc<str>]) -> Result<PathGlobs, IssueError> {
    // One by one first, to name the culprit.
    for glob in globs {
        PathGlobs::compile(std::slice::from_ref(glob))
            .map_err(|_| IssueError::BadGlob(glob.chars().take(120).collect()))?;
    }
    PathGlobs::compile(globs).map_err(|_| IssueError::TooManyEntries)
}

fn needs_paths(syscall: Syscall) -> bool {
    let files = EffectSet::of(&[Effect::Write, Effect::Delete]);
    matches!(syscall.spec().capability, CapabilityForm::Path(_))
        || syscall.spec().effects.intersects(files)
}

fn needs_names(syscall: Syscall) -> bool {
    match syscall.spec().capability {
        CapabilityForm::Host(_) | CapabilityForm::Secret(_) | CapabilityForm::Tool(_) => true,
        CapabilityForm::Fixed(_) | CapabilityForm::Path(_) => false,
    }
}

/// The first glob that keeps `child` from provably lying within `parent`.
///
/// Conservative: textual prefixes only, so some true inclusions are refused. An exclusion of the
/// parent must be repeated by the child.
fn first_uncovered(parent: &[Arc<str>], child: &[Arc<str>]) -> Option<Arc<str>> {
    let (excluded, included): (Vec<_>, Vec<_>) =
        parent.iter().partition(|glob| glob.starts_with('!'));
    excluded
        .into_iter()
        .find(|glob| !child.contains(glob))
        .or_else(|| {
            child
                .iter()
                .filter(|glob| !glob.starts_with('!'))
                .find(|glob| !included.iter().any(|wider| covers(wider, glob)))
        })
        .cloned()
}

fn covers(wider: &str, narrower: &str) -> bool {
    if wider == narrower || wider == "**" {
        return true;
    }
    let literal =
        |text: &str| !text.is_empty() && !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
    // `src/` alone would not be anchored, so something has to follow the slash.
    wider
        .strip_suffix("/**")
        .filter(|directory| literal(directory))
        .and_then(|directory| narrower.strip_prefix(directory))
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|rest| !rest.trim_matches('/').is_empty())
}

/// The child's constraints with the parent's where the child has none of its own.
fn stricter(parent: &Constraints, child: &Constraints) -> Result<Constraints, NarrowError> {
    Ok(Constraints {
        require_sandbox: sandbox(parent.require_sandbox, child.require_sandbox)?,
        require_capability_token: parent.require_capability_token || child.require_capability_token,
        max_file_size: least("max_file_size", parent.max_file_size, child.max_file_size)?,
        max_duration: least("max_duration", parent.max_duration, child.max_duration)?,
        max_output: least("max_output", parent.max_output, child.max_output)?,
        max_memory: least("max_memory", parent.max_memory, child.max_memory)?,
    })
}

fn least<T: Ord + Copy>(
    name: &'static str,
    parent: Option<T>,
    child: Option<T>,
) -> Result<Option<T>, NarrowError> {
    match (parent, child) {
        (Some(most), Some(wanted)) if wanted > most => Err(NarrowError::Constraint(name)),
        (_, Some(wanted)) => Ok(Some(wanted)),
        (most, None) => Ok(most),
    }
}

fn sandbox(parent: Option<Tier>, child: Option<Tier>) -> Result<Option<Tier>, NarrowError> {
    match (parent, child) {
        (Some(least), Some(wanted)) => {
            // Whatever satisfies the child's demand must satisfy the parent's.
            let holds = Tier::ALL
                .iter()
                .all(|tier| !tier.satisfies(wanted) || tier.satisfies(least));
            if holds {
                Ok(Some(wanted))
            } else {
                Err(NarrowError::Constraint("require_sandbox"))
            }
        }
        (least, None) => Ok(least),
        (None, wanted) => Ok(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_provable_inclusions_cover() {
        for (wider, narrower, want) in [
            ("src/**", "src/**", true),
            ("src/**", "src/a.rs", true),
            ("src/**", "src/deep/*.rs", true),
            ("src/**", "src/{a,b}/x", true),
            ("**", "anything/*.rs", true),
            ("src/**", "src", false),
            ("src/**", "src/", false),
            ("src/**", "src//", false),
            ("src/**", "srcs/a", false),
            ("src/**", "**", false),
            ("src/**", "*/a", false),
            ("src/**", "{src,etc}/a", false),
            ("*/**", "src/a", false),
            ("src/*", "src/a", false),
            ("/**", "src/a", false),
        ] {
            assert_eq!(covers(wider, narrower), want, "{wider} over {narrower}");
        }
    }

    #[test]
    fn a_parents_exclusion_must_be_repeated() {
        let globs = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| Arc::from(*text))
                .collect::<Vec<_>>()
        };
        let parent = globs(&["src/**", "!src/keys/**"]);
        assert!(first_uncovered(&parent, &globs(&["src/**"])).is_some());
        assert!(first_uncovered(&parent, &globs(&["src/a", "!src/keys/**"])).is_none());
        assert!(first_uncovered(&parent, &globs(&["etc/a", "!src/keys/**"])).is_some());
    }
}
