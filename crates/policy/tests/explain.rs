//! Explanations: what people read, and that every suggestion is true.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

#[path = "explain/apply.rs"]
mod apply;
#[path = "explain/nearest.rs"]
mod nearest;
#[path = "explain/reading.rs"]
mod reading;
#[path = "explain/truth.rs"]
mod truth;

use airlock_core::Request;
use airlock_policy::{BuiltIns, Decision, Engine, Explanation, ExtensionHost, Policy, Protected};

const FILE: &str = ".airlock/policy.yaml";

fn engine(text: &str) -> Engine {
    let policy = Policy::load(FILE, text.as_bytes()).unwrap().policy;
    let built_ins = BuiltIns::standard(Protected::new("/work", ["/state"]).unwrap());
    Engine::new(policy, built_ins, ExtensionHost::default())
}

fn explained(engine: &Engine, request: &Request) -> (Decision, Explanation) {
    let decision = engine.decide(request, None, support::NOW);
    let explanation = engine.explain(request, &decision);
    (decision, explanation)
}

/// Everything an explanation shows, as the command line would.
fn shown(explanation: &Explanation) -> String {
    let mut out = format!("{}: {}\n", explanation.verdict(), explanation.headline());
    for line in explanation.body() {
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// The lines other programs print: reasons and fixes.
fn short(explanation: &Explanation) -> String {
    let reasons = explanation.reasons().map(|text| format!("why: {text}\n"));
    let fixes = explanation.fixes().map(|text| format!("fix: {text}\n"));
    reasons.chain(fixes).collect()
}
