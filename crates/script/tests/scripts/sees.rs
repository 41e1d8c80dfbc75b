//! A script sees exactly the request.

use crate::support::{extension, request, said};
use airlock_core::{
    Effect, EffectSet, Mode, Phase, Request, RequestPath, SandboxId, SessionId, Syscall, TagName,
    Tier,
};
use airlock_policy::{Extension, Opinion};
use airlock_script::ScriptExtension;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// Compares the request it gets with the one that its arguments say it should get.
const COMPARE: &str = r#"
const same = (a, b) => a === b || (typeof a === "object" && typeof b === "object" && a && b
  && Array.isArray(a) === Array.isArray(b)
  && Object.keys(a).sort().join("\0") === Object.keys(b).sort().join("\0")
  && Object.keys(a).every((key) => same(a[key], b[key])));
export default (request) => {
  const expected = JSON.parse(request.arguments.expected);
  request.arguments = request.arguments.given;
  return same(request, expected) ? "allow" : { decision: "deny", reason: JSON.stringify(request) };
};"#;

static EXTENSION: LazyLock<ScriptExtension> = LazyLock::new(|| extension("guard.js", COMPARE).0);

/// The documented object, written out by hand.
fn expected(request: &Request, arguments: &Value) -> Value {
    let caller = &request.caller;
    json!({
        "syscall": request.syscall.name(),
        "effects": request.effects.iter().map(Effect::as_str).collect::<Vec<_>>(),
        "paths": request.paths.iter().map(RequestPath::as_str).collect::<Vec<_>>(),
        "host": request.host.as_deref(),
        "port": request.port,
        "command": request.command.iter().map(|word| &**word).collect::<Vec<_>>(),
        "tool": request.tool.as_deref(),
        "secret": request.secret.as_deref(),
        "tier": request.tier.as_str(),
        "template": request.template.as_deref(),
        "file_size": request.file_size,
        "arguments": arguments,
        "caller": {
            "plugin": caller.plugin.as_str(),
            "user": caller.user.as_str(),
            "tenant": caller.tenant.as_str(),
            "workspace": caller.workspace.as_str(),
            "session": caller.session.as_ref().map(ToString::to_string),
            "tags": caller.tags.iter().map(TagName::as_str).collect::<Vec<_>>(),
            "sandbox": caller.sandbox.as_ref().map(ToString::to_string),
            "mode": caller.mode.map(Mode::as_str),
            "phase": caller.phase.map(Phase::as_str),
        },
    })
}

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof!["\\PC{0,12}", any::<String>()].prop_map(Arc::from)
}

fn arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        // Up to what JavaScript's numbers hold exactly.
        (-(1i64 << 53)..=1 << 53).prop_map(Value::from),
        any::<f32>()
            .prop_filter("JSON has no other", |n| n.is_finite())
            .prop_map(|n| Value::from(f64::from(n))),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let key = prop_oneof![
            any::<String>(),
            Just("__proto__".to_owned()),
            Just("constructor".to_owned()),
            Just("toJSON".to_owned()),
            Just("7".to_owned())
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn requests()(
        syscall in 0..Syscall::all().count(),
        effects in prop::sample::subsequence(Effect::ALL, 0..=Effect::ALL.len()),
        paths in prop::collection::vec("[^\\x00]{1,20}", 0..4),
        host in prop::option::of(text()),
        port in any::<Option<u16>>(),
        command in prop::collection::vec(text(), 0..4),
        tool in prop::option::of(text()),
        secret in prop::option::of(text()),
        tier in prop::sample::select(Tier::ALL),
        size in prop::option::of(0..1u64 << 53),
        (mode, phase) in (prop::option::of(prop::sample::select(Mode::ALL)), prop::option::of(prop::sample::select(Phase::ALL))),
        tagged in any::<bool>(),
    ) -> Request {
        let mut request = request("fs.read", &[]);
        request.syscall = Syscall::all().nth(syscall).unwrap();
        request.effects = EffectSet::of(&effects);
        request.paths = paths.iter().filter_map(|path| RequestPath::parse(path, "/w").ok()).collect();
        request.host = host;
        request.port = port;
        request.command = command;
        request.tool = tool;
        request.secret = secret;
        request.tier = tier;
        request.file_size = size;
        request.caller.mode = mode;
        request.caller.phase = phase;
        if tagged {
            request.caller.tags = vec![TagName::new("release_bot").unwrap(), TagName::new("core").unwrap()];
        }
        request
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_script_sees_exactly_the_request(mut request in requests(), given in arguments()) {
        let expected = expected(&request, &given).to_string();
        request.arguments = json!({ "given": given, "expected": expected });
        let answer = EXTENSION.evaluate(&request).unwrap();
        prop_assert_eq!(answer.opinion, Opinion::Allow, "{} instead of {}", answer.reason, expected);
    }
}

#[test]
fn what_compares_requests_finds_a_difference() {
    for arguments in [
        json!({ "given": 1, "expected": expected(&request("fs.read", &["a"]), &json!(2)).to_string() }),
        json!({ "given": 1, "expected": expected(&request("fs.read", &["b"]), &json!(1)).to_string() }),
        json!({ "given": {}, "expected": expected(&request("fs.read", &["a"]), &json!([])).to_string() }),
    ] {
        let mut asked = request("fs.read", &["a"]);
        asked.arguments = arguments;
        assert_eq!(EXTENSION.evaluate(&asked).unwrap().opinion, Opinion::Deny);
    }
}

#[test]
fn sessions_and_sandboxes_are_seen() {
    let mut asked = request("fs.read", &["a"]);
    asked.caller.session = SessionId::new("s-1").ok();
    asked.caller.sandbox = SandboxId::new("b-1").ok();
    assert!(asked.caller.session.is_some() && asked.caller.sandbox.is_some());
    let source = "export default (r) => ({ decision: 'pass', reason: `${r.caller.session} ${r.caller.sandbox} ${r.nothing}` })";
    let (extension, _) = extension("guard.js", source);
    assert_eq!(
        *extension.evaluate(&asked).unwrap().reason,
        *"s-1 b-1 undefined"
    );
    assert_eq!(said(&extension).1, "null null undefined");
}
