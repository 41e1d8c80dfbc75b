//! The conditions of a rule, compiled, and what it means for a request to meet them.
//!
//! Fields are ANDed, the values of one field ORed; a field the request does not carry is not met.
//! Where a request has several paths or effects, [`Coverage`] says how many must fit.

use super::argument::Argument;
use super::syscalls::{SyscallSet, position};
use crate::document::Conditions;
use crate::glob::{GlobError, Leaf, PathGlobs, PathText};
use airlock_core::{EffectSet, Mode, Phase, Request, RequestPath, Tier, canonical_host};
use std::sync::Arc;

/// How many of a request's paths and effects must fit for conditions to be met.
///
/// An `allow` speaks for all of them, and so does an exception to a review, because both widen.
/// A denial, a review, and an exception to an allow narrow: one that fits is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// Every one. A path outside the workspace never fits.
    All,
    /// Any one. A path outside the workspace is read as if it lay below the root.
    Any,
}

impl Coverage {
    const fn leaf(self) -> Leaf {
        match self {
            Self::All => Leaf::File,
            Self::Any => Leaf::Directory,
        }
    }
}

/// A request and its syscall's place in the table, looked up once for all rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    position: Option<u32>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(request: &'a Request) -> Self {
        let position = position(request.syscall);
        Self { request, position }
    }

    /// The syscall's place in the table.
    pub(crate) const fn position(&self) -> Option<u32> {
        self.position
    }
}

/// A field of `match`, in the order it is looked at: the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Field {
    Syscall,
    Effect,
    Mode,
    State,
    Tier,
    Plugin,
    Tool,
    Template,
    User,
    Workspace,
    CallerTag,
    Host,
    Port,
    Command,
    Arg,
    PathGlob,
}

impl Field {
    /// Every field, in that order.
    pub(crate) const ALL: [Self; 16] = [
        Self::Syscall,
        Self::Effect,
        Self::Mode,
        Self::State,
        Self::Tier,
        Self::Plugin,
        Self::Tool,
        Self::Template,
        Self::User,
        Self::Workspace,
        Self::CallerTag,
        Self::Host,
        Self::Port,
        Self::Command,
        Self::Arg,
        Self::PathGlob,
    ];

    /// The key in the policy file.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Syscall => "syscall",
            Self::Effect => "effect",
            Self::Mode => "mode",
            Self::State => "state",
            Self::Tier => "tier",
            Self::Plugin => "plugin",
            Self::Tool => "tool",
            Self::Template => "template",
            Self::User => "user",
            Self::Workspace => "workspace",
            Self::CallerTag => "caller_tag",
            Self::Host => "host",
            Self::Port => "port",
            Self::Command => "command",
            Self::Arg => "arg",
            Self::PathGlob => "path_glob",
        }
    }
}

type Words = Option<Box<[Arc<str>]>>;

/// Compiled conditions.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    /// The fields that ask for something, in the order of [`Field::ALL`]. All others are met.
    fields: Box<[Field]>,
    pub(super) syscalls: SyscallSet,
    pub(super) effect: Option<EffectSet>,
    pub(super) paths: Option<PathGlobs>,
    pub(super) caller_tag: Words,
    pub(super) plugin: Words,
    pub(super) tool: Words,
    pub(super) mode: Option<Box<[Mode]>>,
    pub(super) state: Option<Box<[Phase]>>,
    pub(super) tier: Option<Box<[Tier]>>,
    pub(super) template: Words,
    pub(super) host: Option<Box<[HostPattern]>>,
    pub(super) port: Option<Box<[u16]>>,
    pub(super) command: Words,
    pub(super) user: Words,
    pub(super) workspace: Words,
    pub(super) arg: Box<[Argument]>,
}

/// Why conditions cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConditionError {
    #[error(transparent)]
    Glob(#[from] GlobError),
    #[error("`path_glob` has only excluding globs and so would never match")]
    OnlyExcludes,
    #[error("`{0}` is not a regular expression we can run: {1}")]
    Pattern(Arc<str>, String),
}

impl ConditionError {
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Glob(error) => error.hint(),
            Self::OnlyExcludes => "add the glob they exclude from, such as `**`",
            Self::Pattern(..) => "see https://docs.rs/regex for the syntax; keep it small",
        }
    }
}

impl Matcher {
    /// Compiles conditions that are asked with `coverage`.
    pub(crate) fn compile(when: &Conditions, coverage: Coverage) -> Result<Self, ConditionError> {
        let words = |words: &Option<Vec<Arc<str>>>| words.as_deref().map(Box::from);
        let paths = when
            .path_glob
            .as_deref()
            .map(PathGlobs::parse)
            .transpose()?;
        if paths.as_ref().is_some_and(PathGlobs::only_excludes) {
            return Err(ConditionError::OnlyExcludes);
        }
        let arg = when.arg.as_deref().unwrap_or_default();
        let mut matcher = Self {
            fields: Box::default(),
            syscalls: syscalls(when),
            effect: when.effect,
            paths,
            caller_tag: words(&when.caller_tag),
            plugin: words(&when.plugin),
            tool: words(&when.tool),
            mode: when.mode.as_deref().map(Box::from),
            state: when.state.as_deref().map(Box::from),
            tier: when.tier.as_deref().map(Box::from),
            template: words(&when.template),
            host: when.host.as_deref().map(hosts),
            port: when.port.as_deref().map(Box::from),
            command: words(&when.command),
            user: words(&when.user),
            workspace: words(&when.workspace),
            arg: arg
                .iter()
                .map(|condition| Argument::compile(condition, coverage))
                .collect::<Result<_, _>>()?,
        };
        let asked = Field::ALL.into_iter().filter(|field| matcher.asks(*field));
        matcher.fields = asked.collect();
        Ok(matcher)
    }

    fn asks(&self, field: Field) -> bool {
        match field {
            // Even one that takes every syscall does not take a syscall that does not exist.
            Field::Syscall => true,
            Field::Effect => self.effect.is_some(),
            Field::Mode => self.mode.is_some(),
            Field::State => self.state.is_some(),
            Field::Tier => self.tier.is_some(),
            Field::Plugin => self.plugin.is_some(),
            Field::Tool => self.tool.is_some(),
            Field::Template => self.template.is_some(),
            Field::User => self.user.is_some(),
            Field::Workspace => self.workspace.is_some(),
            Field::CallerTag => self.caller_tag.is_some(),
            Field::Host => self.host.is_some(),
            Field::Port => self.port.is_some(),
            Field::Command => self.command.is_some(),
            Field::Arg => !self.arg.is_empty(),
            Field::PathGlob => self.paths.is_some(),
        }
    }

    /// Whether the request meets every condition.
    pub(crate) fn matches(&self, asked: Asked<'_>, coverage: Coverage) -> bool {
        self.failing(asked, coverage).is_none()
    }

    /// The first field the request fails, if it fails one.
    pub(crate) fn failing(&self, asked: Asked<'_>, coverage: Coverage) -> Option<Field> {
        let fails = |field: &Field| !self.meets(*field, asked, coverage);
        self.fields.iter().copied().find(fails)
    }

    /// Every field the request fails.
    pub(crate) fn every_failing(
        &self,
        asked: Asked<'_>,
        coverage: Coverage,
    ) -> impl Iterator<Item = Field> {
        let fails = move |field: &Field| !self.meets(*field, asked, coverage);
        self.fields.iter().copied().filter(fails)
    }

    /// Whether `path` alone fits the globs, if there are any.
    pub(crate) fn takes_path(&self, path: &RequestPath, coverage: Coverage) -> bool {
        self.touches(std::slice::from_ref(path), coverage)
    }

    /// Whether some condition is on an argument.
    pub(crate) fn asks_arguments(&self) -> bool {
        !self.arg.is_empty()
    }

    fn meets(&self, field: Field, asked: Asked<'_>, coverage: Coverage) -> bool {
        let Asked { request, position } = asked;
        let caller = &request.caller;
        match field {
            Field::Syscall => position.is_some_and(|at| self.syscalls.contains(at)),
            Field::Effect => effects(self.effect, request.effects, coverage),
            Field::Mode => one_of(self.mode.as_deref(), caller.mode),
            Field::State => one_of(self.state.as_deref(), caller.phase),
            Field::Tier => one_of(self.tier.as_deref(), Some(request.tier)),
            Field::Plugin => word(self.plugin.as_deref(), Some(caller.plugin.as_str())),
            Field::Tool => word(self.tool.as_deref(), request.tool.as_deref()),
            Field::Template => word(self.template.as_deref(), request.template.as_deref()),
            Field::User => word(self.user.as_deref(), Some(caller.user.as_str())),
            Field::Workspace => word(self.workspace.as_deref(), Some(caller.workspace.as_str())),
            Field::CallerTag => self.tagged(request),
            Field::Host => self.reaches(request, coverage),
            Field::Port => one_of(self.port.as_deref(), request.port),
            Field::Command => word(self.command.as_deref(), command_name(request)),
            Field::Arg => self.arg.iter().all(|arg| arg.matches(&request.arguments)),
            Field::PathGlob => self.touches(&request.paths, coverage),
        }
    }

    fn tagged(&self, request: &Request) -> bool {
        let held = |tag: &Arc<str>| request.caller.tags.iter().any(|own| own.as_str() == &**tag);
        self.caller_tag
            .as_ref()
            .is_none_or(|tags| tags.iter().any(held))
    }

    fn reaches(&self, request: &Request, coverage: Coverage) -> bool {
        let (Some(patterns), Some(host)) = (&self.host, request.host.as_deref()) else {
            return self.host.is_none();
        };
        match canonical_host(host) {
            Some(host) => patterns.iter().any(|pattern| pattern.matches(&host)),
            // Nobody can say which host that is, so it might be a denied one.
            None => coverage == Coverage::Any && !patterns.is_empty(),
        }
    }

    fn touches(&self, paths: &[RequestPath], coverage: Coverage) -> bool {
        let Some(globs) = &self.paths else {
            return true;
        };
        let fits =
            |path: &RequestPath| globs.matches(PathText::new(path.as_str()), coverage.leaf());
        match coverage {
            Coverage::All => {
                let inside = |path: &RequestPath| path.inside().is_some() && fits(path);
                !paths.is_empty() && paths.iter().all(inside)
            }
            Coverage::Any => paths.iter().any(fits),
        }
    }
}

fn syscalls(when: &Conditions) -> SyscallSet {
    when.syscall.as_ref().map_or_else(SyscallSet::all, |words| {
        words.iter().fold(SyscallSet::default(), |set, word| {
            set.union(SyscallSet::named(word))
        })
    })
}

fn effects(wanted: Option<EffectSet>, actual: EffectSet, coverage: Coverage) -> bool {
    wanted.is_none_or(|wanted| match coverage {
        Coverage::All => !actual.is_empty() && actual.is_subset(wanted),
        Coverage::Any => actual.intersects(wanted),
    })
}

fn one_of<T: PartialEq>(wanted: Option<&[T]>, actual: Option<T>) -> bool {
    wanted.is_none_or(|wanted| actual.is_some_and(|actual| wanted.contains(&actual)))
}

fn word(wanted: Option<&[Arc<str>]>, actual: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| {
        actual.is_some_and(|actual| wanted.iter().any(|word| &**word == actual))
    })
}

/// The base name of the program a request runs.
pub(crate) fn command_name(request: &Request) -> Option<&str> {
    request.command.first()?.rsplit('/').next()
}

/// A host pattern: exact, `*.suffix`, or `*`, over hosts in their canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum HostPattern {
    /// This host.
    Exact(Box<str>),
    /// Every host below this one, but not it itself.
    Below(Box<str>),
    /// Every host.
    Any,
}

impl HostPattern {
    fn parse(text: &str) -> Self {
        let canonical = |text: &str| canonical_host(text).unwrap_or_else(|| text.to_owned());
        match text.strip_prefix("*.") {
            Some(suffix) => Self::Below(canonical(suffix).into()),
            None if text == "*" => Self::Any,
            None => Self::Exact(canonical(text).into()),
        }
    }

    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(wanted) => **wanted == *host,
            Self::Below(suffix) => host
                .len()
                .checked_sub(suffix.len() + 1)
                .filter(|labels| *labels > 0)
                .and_then(|labels| host.split_at_checked(labels))
                .and_then(|(_, end)| end.strip_prefix('.'))
                .is_some_and(|end| *end == **suffix),
            Self::Any => true,
        }
    }
}

fn hosts(texts: &[Arc<str>]) -> Box<[HostPattern]> {
    texts.iter().map(|text| HostPattern::parse(text)).collect()
}
