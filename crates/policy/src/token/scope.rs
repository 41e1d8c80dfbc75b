//! What a token is good for, and for whom.

use super::refusal::{NarrowError, NoToken};
use super::within::{first_uncovered, stricter};
use crate::decision::Generation;
use crate::document::Constraints;
use crate::glob::{Leaf, PathGlobs, PathText};
use airlock_core::{
    Caller, CapabilityForm, EffectSet, Peer, Phase, PluginName, Request, SandboxId, SessionId,
    Span, Syscall, UserId, WorkspaceId,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most globs, and most names, of one scope: a token is for one task, not a second policy.
const ENTRIES: usize = 256;
/// Work, in bytes of the scope times bytes of the path, that is done under the ledger's lock: some
/// microseconds at the very worst.
const QUICK: usize = 16_384;
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

    /// Checks that `caller`, under the policy `generation`, is this bearer in every respect.
    pub(super) fn is_caller(&self, caller: &Caller, generation: Generation) -> Result<(), NoToken> {
        let (holder, setting) = (&self.holder, &self.setting);
        if holder.sandbox != caller.sandbox {
            return Err(NoToken::OtherSandbox);
        }
        if Some(holder.peer) != caller.peer {
            return Err(NoToken::OtherProcess);
        }
        if holder.plugin != caller.plugin {
            return Err(NoToken::OtherPlugin);
        }
        if holder.user != caller.user {
            return Err(NoToken::OtherUser);
        }
        if setting.workspace != caller.workspace {
            return Err(NoToken::OtherWorkspace);
        }
        if setting.session != caller.session {
            return Err(NoToken::OtherSession);
        }
        if setting.phase != caller.phase {
            return Err(NoToken::OtherPhase);
        }
        if setting.generation != generation {
            return Err(NoToken::OtherGeneration);
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
    /// How long all globs and names are together.
    length: usize,
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
        let texts = scope.paths.iter().chain(&scope.names);
        let length = texts.map(|text| text.len()).sum();
        Ok(Self {
            scope,
            globs,
            length,
        })
    }

    /// Whether checking `request` is so little work that it may be done under a lock.
    pub(super) fn is_quick_for(&self, request: &Request) -> bool {
        match request.paths.as_slice() {
            [] => self.length <= QUICK,
            [path] => self.length.saturating_mul(path.as_str().len()) <= QUICK,
            _ => false,
        }
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
            if !self
                .globs
                .matches(PathText::new(inside.as_str()), Leaf::File)
            {
                return Err(NoToken::OutsidePaths);
            }
        }
        let named = [
            request.host.as_ref(),
            request.tool.as_ref(),
            request.secret.as_ref(),
            request.command.first(),
        ];
        for name in named.into_iter().flatten() {
            if !self.scope.names.contains(name) {
                return Err(NoToken::OutsideNames);
            }
        }
        Ok(())
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
    // One by one first, so that the error names the glob at fault.
    for glob in globs {
        crate::glob::check(glob)
            .map_err(|_| IssueError::BadGlob(glob.chars().take(120).collect()))?;
    }
    PathGlobs::parse(globs).map_err(|_| IssueError::TooManyEntries)
}

fn needs_paths(syscall: Syscall) -> bool {
    matches!(syscall.spec().capability, CapabilityForm::Path(_))
        || syscall.spec().effects.intersects(EffectSet::CHANGES)
}

fn needs_names(syscall: Syscall) -> bool {
    match syscall.spec().capability {
        CapabilityForm::Host(_) | CapabilityForm::Secret(_) | CapabilityForm::Tool(_) => true,
        CapabilityForm::Fixed(_) | CapabilityForm::Path(_) => false,
    }
}
