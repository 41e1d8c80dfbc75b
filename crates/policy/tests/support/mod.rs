//! Requests and rules for tests: short to write, and random ones from a world so small that they
//! often meet.

use airlock_core::{
    ByteSize, Caller, Digest, Effect, EffectSet, Mode, Peer, PluginName, Request, RequestPath,
    SandboxId, SessionId, Span, Syscall, TagName, TenantId, Tier, Timestamp, UserId, WorkspaceId,
};
use airlock_policy::{
    Action, BuiltIns, Conditions, Constraints, Diagnostic, Document, Engine, ExtensionHost,
    Generation, Loaded, Place, Policy, Rule,
};
use proptest::prelude::*;
use std::sync::Arc;

pub(crate) const ROOT: &str = "/work";
pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

pub(crate) fn caller() -> Caller {
    Caller {
        tenant: TenantId::new("local").unwrap(),
        user: UserId::new("ann").unwrap(),
        workspace: WorkspaceId::new("w1").unwrap(),
        session: Some(SessionId::new("s1").unwrap()),
        plugin: PluginName::new("agent").unwrap(),
        tags: Vec::new(),
        peer: Some(Peer {
            pid: 7,
            uid: 1_000,
            started: 99,
        }),
        sandbox: Some(SandboxId::new("box-1").unwrap()),
        mode: Some(Mode::Strict),
        phase: None,
    }
}

pub(crate) fn request(syscall: &str, paths: &[&str]) -> Request {
    let mut request = Request::new(Syscall::parse(syscall).unwrap(), Tier::Process, caller());
    let parse = |path: &&str| RequestPath::parse(path, ROOT).unwrap();
    request.paths = paths.iter().map(parse).collect();
    request
}

#[expect(clippy::unnecessary_wraps, reason = "a condition that is asked")]
pub(crate) fn words(words: &[&str]) -> Option<Vec<Arc<str>>> {
    Some(words.iter().map(|word| (*word).into()).collect())
}

pub(crate) fn tags(names: &[&str]) -> Vec<TagName> {
    names
        .iter()
        .map(|name| TagName::new(name).unwrap())
        .collect()
}

pub(crate) fn on(syscall: &str) -> Conditions {
    Conditions {
        syscall: words(&[syscall]),
        ..Conditions::default()
    }
}

pub(crate) fn on_paths(syscall: &str, globs: &[&str]) -> Conditions {
    Conditions {
        path_glob: words(globs),
        ..on(syscall)
    }
}

pub(crate) fn tagged(tag: &str) -> Conditions {
    Conditions {
        caller_tag: words(&[tag]),
        ..Conditions::default()
    }
}

pub(crate) fn rule(name: &str, action: Action, when: Conditions) -> Rule {
    Rule {
        name: name.into(),
        place: Place::default(),
        when,
        action,
        reason: Some(format!("because {name}").into()),
        except: Vec::new(),
        constraints: Constraints::default(),
        examples: Vec::new(),
    }
}

pub(crate) fn allow(name: &str, when: Conditions) -> Rule {
    rule(name, Action::Allow, when)
}

pub(crate) fn deny(name: &str, when: Conditions) -> Rule {
    rule(name, Action::Deny, when)
}

pub(crate) fn review(name: &str, when: Conditions) -> Rule {
    rule(name, Action::RequireReview, when)
}

pub(crate) fn generation(text: &str) -> Generation {
    Generation::new(Digest::of(text.as_bytes()))
}

pub(crate) fn compile(rules: &[Rule], name: &str) -> Result<Loaded, Vec<Diagnostic>> {
    let document = Document {
        rules: rules.to_vec(),
        ..Document::default()
    };
    Policy::compile(document, generation(name))
}

pub(crate) fn policy(rules: &[Rule]) -> Policy {
    compile(rules, "test").unwrap().policy
}

/// An engine with these rules alone.
pub(crate) fn bare(rules: &[Rule]) -> Engine {
    Engine::new(policy(rules), BuiltIns::none(), ExtensionHost::default())
}

fn some<T: Clone + std::fmt::Debug + 'static>(
    values: &'static [T],
    most: usize,
) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(prop::sample::select(values), 0..=most)
}

fn asked(
    values: &'static [&'static str],
    weight: f64,
) -> impl Strategy<Value = Option<Vec<Arc<str>>>> {
    let texts = some(values, 3).prop_map(|texts| texts.into_iter().map(Arc::from).collect());
    prop::option::weighted(weight, texts)
}

const GLOBS: &[&str] = &[
    "**",
    "a/**",
    "a",
    "/b",
    "b/",
    "*.rs",
    "a/b",
    "a/*.rs",
    "**/b",
    "a/**/c.rs",
    "[ab]",
    "c*",
    "!a/b",
    "!*.rs",
    "!b/",
    "/a/b/c.rs",
    "*",
];
const PATHS: &[&str] = &[
    "a",
    "b",
    ".",
    "a/b",
    "a/b/c.rs",
    "b/a",
    "x.rs",
    "a/x.rs",
    "cab",
    "/a/b",
    "/etc/x.rs",
    "q/b/z",
];
const SYSCALLS: &[&str] = &[
    "fs.read",
    "fs.write",
    "fs.move",
    "net.connect",
    "exec.run",
    "tool.call",
];
const EFFECTS: &[Effect] = &[Effect::Read, Effect::Write, Effect::Delete, Effect::Network];

fn globs() -> impl Strategy<Value = Option<Vec<Arc<str>>>> {
    asked(GLOBS, 0.5).prop_map(|globs| {
        // A list of exclusions alone does not load.
        globs.map(|mut globs| {
            if !globs.is_empty() && globs.iter().all(|glob| glob.starts_with('!')) {
                globs.push("**".into());
            }
            globs
        })
    })
}

pub(crate) fn any_conditions() -> impl Strategy<Value = Conditions> {
    let syscall = asked(
        &[
            "fs.read",
            "fs.write",
            "fs.move",
            "fs.*",
            "net.connect",
            "exec.run",
            "tool.call",
            "*",
        ],
        0.8,
    );
    let effect = prop::option::weighted(0.2, some(EFFECTS, 3));
    let host = asked(&["x.org", "*.x.org", "*", "Y.X.org."], 0.2);
    let command = asked(&["cargo", "sh"], 0.2);
    let tool = asked(&["p.t", "p.u"], 0.1);
    let plugin = asked(&["agent", "cli"], 0.1);
    let caller_tag = asked(&["t1", "t2"], 0.2);
    let mode = prop::option::weighted(0.1, some(Mode::ALL, 2));
    (
        syscall,
        effect,
        globs(),
        host,
        command,
        tool,
        plugin,
        caller_tag,
        mode,
    )
        .prop_map(
            |(syscall, effect, path_glob, host, command, tool, plugin, caller_tag, mode)| {
                Conditions {
                    syscall,
                    effect: effect.map(|effects| EffectSet::of(&effects)),
                    path_glob,
                    host,
                    command,
                    tool,
                    plugin,
                    caller_tag,
                    mode,
                    ..Conditions::default()
                }
            },
        )
}

fn any_constraints() -> impl Strategy<Value = Constraints> {
    let sandbox = prop::option::weighted(0.1, prop::sample::select(Tier::ALL));
    let size = prop::option::weighted(0.1, prop::sample::select(&[10, 1_000][..]));
    let limits = prop::option::weighted(0.3, 1..5_u64);
    (
        sandbox,
        prop::bool::weighted(0.05),
        size,
        limits.clone(),
        limits,
    )
        .prop_map(
            |(require_sandbox, require_capability_token, size, duration, output)| Constraints {
                require_sandbox,
                require_capability_token,
                max_file_size: size.map(ByteSize::from_bytes),
                max_duration: duration.map(Span::from_secs),
                max_output: output.map(ByteSize::from_bytes),
                max_memory: None,
            },
        )
}

pub(crate) fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => Just(Action::Allow),
        1 => Just(Action::Deny),
        2 => Just(Action::RequireReview),
    ]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let except = prop::collection::vec(any_conditions(), 0..2);
    (any_action(), any_conditions(), except, any_constraints()).prop_map(
        |(action, when, except, constraints)| Rule {
            except,
            constraints,
            ..rule("unnamed", action, when)
        },
    )
}

/// Up to `most` rules with names of their own.
pub(crate) fn any_rules(most: usize) -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(any_rule(), 0..=most).prop_map(|mut rules| {
        for (number, rule) in rules.iter_mut().enumerate() {
            rule.name = format!("r{number}").into();
            rule.reason = Some(format!("because r{number}").into());
        }
        rules
    })
}

pub(crate) fn any_request() -> impl Strategy<Value = Request> {
    let host = prop::option::of(prop::sample::select(
        &["x.org", "y.x.org", "Y.X.ORG.", "z"][..],
    ));
    let command = prop::option::of(prop::sample::select(&["/bin/sh", "cargo", "rm"][..]));
    let tool = prop::option::of(prop::sample::select(&["p.t", "q.t"][..]));
    let tag_names: &'static [&'static str] = &["t1", "t2"];
    (
        prop::sample::select(SYSCALLS),
        some(PATHS, 3),
        host,
        command,
        tool,
        some(tag_names, 2),
        prop::sample::select(Tier::ALL),
        prop::option::of(0..2_000_u64),
        some(EFFECTS, 2),
    )
        .prop_map(
            |(syscall, paths, host, command, tool, held, tier, file_size, more)| {
                let mut request = request(syscall, &paths);
                request.host = host.map(Arc::from);
                request.command = command.into_iter().map(Arc::from).collect();
                request.tool = tool.map(Arc::from);
                request.caller.tags = tags(&held);
                request.tier = tier;
                request.file_size = file_size;
                request.effects = request.effects.union(EffectSet::of(&more));
                request
            },
        )
}
