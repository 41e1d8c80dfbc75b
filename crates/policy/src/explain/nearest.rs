//! The allow rule that comes closest to a request, and the fields that keep them apart.

use super::place::Spots;
use super::text;
use crate::decision::Opinion;
use crate::document::{Action, Conditions, Place};
use crate::rules::conditions::{Asked, Coverage, Field, command_name};
use crate::rules::{CompiledRule, Policy};
use airlock_core::{Request, RequestPath};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Paths looked at while ranking: a merge of very many must not cost rules times paths.
const RANKED_PATHS: usize = 32;
/// Values of one field that are shown.
const SHOWN: usize = 8;

/// The allow rule that comes closest, and why it does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nearest {
    /// Its name.
    pub rule: Arc<str>,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Every field the request fails.
    pub mismatches: Vec<Mismatch>,
    /// Whether the request meets its conditions but also one of its exceptions.
    pub exception: bool,
    #[serde(skip)]
    pub(super) id: usize,
}

/// One field of a rule that a request fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Heard")]
pub struct Mismatch {
    /// The field of `match`.
    pub field: Cow<'static, str>,
    /// What the rule asks for.
    pub wanted: Vec<String>,
    /// What the request has instead. Never arguments: they may hold contents and secrets.
    pub found: Vec<String>,
    /// Where the field stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    #[serde(skip)]
    pub(super) kind: Field,
}

/// A mismatch as it is written.
#[derive(Deserialize)]
struct Heard {
    field: String,
    wanted: Vec<String>,
    found: Vec<String>,
    place: Option<Place>,
}

impl TryFrom<Heard> for Mismatch {
    type Error = String;

    fn try_from(heard: Heard) -> Result<Self, String> {
        let mut fields = Field::ALL.into_iter();
        let kind = fields
            .find(|field| field.as_str() == heard.field)
            .ok_or_else(|| format!("`{}` is no field of a rule", heard.field))?;
        Ok(Self {
            field: kind.as_str().into(),
            wanted: heard.wanted,
            found: heard.found,
            place: heard.place,
            kind,
        })
    }
}

/// The allow rule with the fewest failing fields; of several, the first. Rules for this syscall
/// come before all others.
pub(super) fn nearest(policy: &Policy, request: &Request) -> Option<Nearest> {
    let few = with_few_paths(request);
    let ranked = Asked::new(&few);
    let mut best: Option<((bool, usize), usize)> = None;
    for (id, rule) in policy.rules.iter().enumerate() {
        if rule.action != Action::Allow {
            continue;
        }
        let most = best.map_or(usize::MAX, |((_, count), _)| count);
        let other_syscall = rule
            .when
            .every_failing(ranked, Coverage::All)
            .next()
            .is_some_and(|field| field == Field::Syscall);
        // A rule for this syscall wins over one for another however many fields it fails.
        let most = match best {
            Some(((true, _), _)) if !other_syscall => usize::MAX,
            _ => most,
        };
        let rank = (other_syscall, distance(rule, ranked, most));
        if best.is_none_or(|(lowest, _)| rank < lowest) {
            best = Some((rank, id));
        }
    }
    let (_, id) = best?;
    let rule = policy.rules.get(id)?;
    Some(describe(policy, id, rule, request)).filter(|found| !found.applies())
}

/// How many fields fail, counted no further than `most`; an exception counts as one.
fn distance(rule: &CompiledRule, asked: Asked<'_>, most: usize) -> usize {
    let failing = rule.when.every_failing(asked, Coverage::All);
    let count = failing.take(most).count();
    if count == 0 && rule.opinion(asked) == Some(Opinion::Pass) {
        return 1;
    }
    count
}

fn with_few_paths(request: &Request) -> Cow<'_, Request> {
    if request.paths.len() <= RANKED_PATHS {
        return Cow::Borrowed(request);
    }
    let mut few = request.clone();
    few.paths.truncate(RANKED_PATHS);
    Cow::Owned(few)
}

fn describe(policy: &Policy, id: usize, rule: &CompiledRule, request: &Request) -> Nearest {
    let when = policy.document().rules.get(id).map(|rule| &rule.when);
    let asked = Asked::new(request);
    let spots = Spots::of(policy, id);
    let mismatch = |kind: Field| Mismatch {
        field: kind.as_str().into(),
        wanted: when.map_or_else(Vec::new, |when| wanted(when, kind)),
        found: found(rule, kind, request),
        place: spots.field(kind.as_str()).map(|spot| spot.place),
        kind,
    };
    let mismatches: Vec<Mismatch> = rule
        .when
        .every_failing(asked, Coverage::All)
        .map(mismatch)
        .collect();
    Nearest {
        rule: Arc::clone(&rule.name),
        place: spots.rule(),
        exception: rule.opinion(asked) == Some(Opinion::Pass),
        mismatches,
        id,
    }
}

/// The values of one condition, as texts.
pub(super) fn wanted(when: &Conditions, field: Field) -> Vec<String> {
    if field == Field::Arg {
        let tests = when.arg.as_deref().unwrap_or_default();
        return tests.iter().map(argument).collect();
    }
    values(&as_json(when), field)
}

/// Conditions as one object, a list for each field that is asked.
pub(super) fn as_json(when: &Conditions) -> Value {
    serde_json::to_value(when).unwrap_or_default()
}

/// The values of a field of [`as_json`], as texts.
pub(super) fn values(when: &Value, field: Field) -> Vec<String> {
    match when.get(field.as_str()) {
        Some(Value::Array(values)) => values.iter().map(shown).collect(),
        Some(_) | None => Vec::new(),
    }
}

pub(super) fn argument(condition: &crate::document::ArgCondition) -> String {
    use crate::document::ArgTest;
    let path = &condition.path;
    let text = match &condition.test {
        ArgTest::Equals(value) => format!("{path} equals {value}"),
        ArgTest::OneOf(values) => format!("{path} one of {}", Value::from(values.clone())),
        ArgTest::Matches(pattern) => format!("{path} matches {pattern}"),
    };
    text::prose(&text)
}

fn shown(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    text::plain(&text)
}

fn found(rule: &CompiledRule, field: Field, request: &Request) -> Vec<String> {
    let caller = &request.caller;
    let one = |text: Option<&str>| text.into_iter().map(text::plain).collect();
    match field {
        Field::Syscall => one(Some(request.syscall.name())),
        Field::Effect => request
            .effects
            .iter()
            .map(|effect| effect.to_string())
            .collect(),
        Field::Mode => one(caller.mode.map(airlock_core::Mode::as_str)),
        Field::State => one(caller.phase.map(airlock_core::Phase::as_str)),
        Field::Tier => one(Some(request.tier.as_str())),
        Field::Plugin => one(Some(caller.plugin.as_str())),
        Field::Tool => one(request.tool.as_deref()),
        Field::Template => one(request.template.as_deref()),
        Field::User => one(Some(caller.user.as_str())),
        Field::Workspace => one(Some(caller.workspace.as_str())),
        Field::CallerTag => caller
            .tags
            .iter()
            .map(|tag| text::plain(tag.as_str()))
            .collect(),
        Field::Host => one(request.host.as_deref()),
        Field::Port => request.port.iter().map(u16::to_string).collect(),
        Field::Command => one(command_name(request)),
        Field::Arg => Vec::new(),
        Field::PathGlob => failing_paths(rule, request)
            .take(SHOWN)
            .map(|path| text::plain(path.as_str()))
            .collect(),
    }
}

/// The paths that keep an allow from applying.
pub(super) fn failing_paths<'a>(
    rule: &'a CompiledRule,
    request: &'a Request,
) -> impl Iterator<Item = &'a RequestPath> {
    let fails = |path: &&RequestPath| !rule.when.takes_path(path, Coverage::All);
    request.paths.iter().filter(fails)
}

impl Nearest {
    /// Whether nothing keeps the rule from applying.
    const fn applies(&self) -> bool {
        self.mismatches.is_empty() && !self.exception
    }

    /// Its name, what each failing field asks for, and what the request has.
    pub(super) fn sentence(&self) -> String {
        let rule = text::quoted(&self.rule);
        if self.exception {
            return format!(
                "rule {rule} comes closest: it matches, but one of its exceptions does too"
            );
        }
        let parts: Vec<String> = self.mismatches.iter().map(Mismatch::sentence).collect();
        format!("rule {rule} comes closest: {}", parts.join("; "))
    }
}

impl Mismatch {
    fn sentence(&self) -> String {
        let mut wanted: Vec<String> = self
            .wanted
            .iter()
            .take(SHOWN)
            .map(|value| Value::from(value.as_str()).to_string())
            .collect();
        if self.wanted.len() > SHOWN {
            wanted.push("...".to_owned());
        }
        let wanted = wanted.join(", ");
        format!(
            "its `{}` is [{wanted}], and {}",
            self.field,
            self.contrast()
        )
    }

    fn is_outside(&self) -> bool {
        self.kind == Field::PathGlob && self.found.iter().any(|path| path.starts_with('/'))
    }

    /// "the path is `docs/x.md`".
    pub(super) fn contrast(&self) -> String {
        let (noun, plural) = match self.kind {
            Field::Syscall => ("the syscall", "the syscalls"),
            Field::Effect => ("the effect", "the effects"),
            Field::Mode => ("the session's mode", "the session's modes"),
            Field::State => ("the session's phase", "the session's phases"),
            Field::Tier => ("the tier", "the tiers"),
            Field::Plugin => ("the plugin", "the plugins"),
            Field::Tool => ("the tool", "the tools"),
            Field::Template => ("the sandbox template", "the sandbox templates"),
            Field::User => ("the user", "the users"),
            Field::Workspace => ("the workspace", "the workspaces"),
            Field::CallerTag => ("the caller's tag", "the caller's tags"),
            Field::Host => ("the host", "the hosts"),
            Field::Port => ("the port", "the ports"),
            Field::Command => ("the command", "the commands"),
            Field::Arg => return "the arguments do not meet it".to_owned(),
            Field::PathGlob => ("the path", "the paths"),
        };
        let values = text::several(self.found.iter().map(String::as_str), 3);
        match self.found.len() {
            0 => format!("{noun} is missing"),
            1 if self.is_outside() => format!("{noun} is {values}, outside the workspace"),
            1 => format!("{noun} is {values}"),
            _ => format!("{plural} are {values}"),
        }
    }
}
