//! The token path: redeem, then decide with the full set of built-in rules.

use super::caller;
use super::decision::{NOW, engine, request, rules};
use crate::failure::Failure;
use crate::options::Options;
use crate::table::Row;
use crate::{alloc, measure};
use airlock_core::{Span, Syscall};
use airlock_policy::Verdict;
use airlock_policy::token::{Bearer, Scope, TokenAuthority};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::hint::black_box;

/// As long as what a token's signature covers.
const MESSAGE: [u8; 55] = [7; 55];

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let engine = engine(&rules(1_000))?;
    let request = request("fs.write", "src/module_3/deep/file.rs", &[])?;
    let authority = TokenAuthority::new([7; 32]);
    let generation = engine.generation();
    let bearer = Bearer::of(&caller(&[])?, generation)
        .ok_or_else(|| Failure::new("the caller cannot bear a token"))?;
    let mut scope = Scope::new(Syscall::parse("fs.write")?);
    scope.paths = vec!["src/**".into()];
    scope.operations = u32::MAX;
    scope.lifetime = Span::from_secs(3_600);
    let token = authority.prepare(scope, bearer, NOW)?.activate();
    let decide = || {
        let redeemed = authority.redeem(&token, &request, generation, NOW).ok();
        engine.decide(&request, redeemed.as_ref(), NOW)
    };
    let decision = decide();
    if decision.verdict != Verdict::Allow || decision.deciding().count() != 1 {
        return Err(Failure::new("the token does not allow what it is for"));
    }
    let mut ours = || drop(black_box(decide()));
    let allocations = alloc::count(1_000, &mut ours);
    let keyed = Hmac::<Sha256>::new_from_slice(&[7; 32])?;
    let mut hmac = || {
        let mut mac = keyed.clone();
        mac.update(black_box(&MESSAGE));
        black_box(mac.finalize());
    };
    let mut redeem = || {
        let _ = black_box(authority.redeem(&token, &request, generation, NOW));
    };
    let rounds = options.pick(600, 60);
    let samples = measure::in_turns(rounds, &mut [&mut ours, &mut redeem, &mut hmac]);
    let [ours, redeem, hmac] = samples.as_slice() else {
        return Err(Failure::new("three sides were timed"));
    };
    let ratio = ours.median() / hmac.median();
    Ok(vec![
        Row::new("decision by token, redeemed and decided")
            .measured(format!(
                "{}{}",
                measure::time_text(ours.median()),
                alloc::text(allocations)
            ))
            .against(format!(
                "{} one HMAC-SHA256, key already set",
                measure::time_text(hmac.median())
            ))
            .ratio(ratio)
            .wanted("under 2 x", ratio < 2.0),
        Row::new("of which redeeming the token")
            .measured(measure::time_text(redeem.median()))
            .ratio(redeem.median() / hmac.median()),
    ])
}
