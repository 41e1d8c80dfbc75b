//! The token path: redeem, then decide with the full set of built-in rules.

use super::decision::{NOW, engine, request, rules};
use crate::failure::Failure;
use crate::options::Options;
use crate::table::Row;
use crate::{alloc, measure};
use airlock_core::{Span, Syscall};
use airlock_policy::Verdict;
use airlock_policy::token::{Bearer, Scope, TokenAuthority};
use hmac::{Hmac, KeyInit, Mac};
use measure::Samples;
use sha2::Sha256;
use std::hint::black_box;

/// As long as what a token's signature covers.
const MESSAGE: [u8; 55] = [7; 55];

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let engine = engine(&rules(1_000))?;
    let request = request("fs.write", "src/module_3/deep/file.rs", &[])?;
    let authority = TokenAuthority::new([7; 32]);
    let generation = engine.generation();
    // As in the kernel: whoever was given the token asks over the same connection.
    let bearer = Bearer::of(&request.caller, generation)
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
    let mut ours = || {
        black_box(&decide());
    };
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
    let mut whole = || {
        if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(black_box(&[7; 32])) {
            mac.update(black_box(&MESSAGE));
            black_box(mac.finalize());
        }
    };
    let rounds = options.pick(1_500, 60);
    // Ours stands next to the peer it is held against.
    let mut operations: [measure::Operation<'_>; 4] =
        [&mut redeem, &mut ours, &mut hmac, &mut whole];
    let batches = measure::batches_in_turns(rounds, &mut operations);
    let [redeem, ours, hmac, whole] = batches.as_slice() else {
        return Err(Failure::new("four sides were timed"));
    };
    let median = |batches: &[f64]| measure::time_text(Samples::new(batches.to_vec()).median());
    let ratio = measure::median_ratio(ours, hmac);
    Ok(vec![
        Row::new("decision by token, redeemed and decided")
            .measured(format!("{}{}", median(ours), alloc::text(allocations)))
            .against(format!("{} one HMAC-SHA256, key already set", median(hmac)))
            .ratio(ratio)
            .wanted("under 2 x", ratio < 2.0),
        Row::new("the same against setting the key, too")
            .measured(median(ours))
            .against(format!("{} one HMAC-SHA256 from its key", median(whole)))
            .ratio(measure::median_ratio(ours, whole)),
        Row::new("of which redeeming the token")
            .measured(median(redeem))
            .ratio(measure::median_ratio(redeem, hmac)),
    ])
}
