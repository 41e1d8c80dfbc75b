//! Decisions by rules, against Cedar and Rego on the same rules.
//!
//! Rule `i` is about `fs.write` below `src/module_<i/2>/` by a caller with tag `t<i%7>`; three in
//! five allow, one denies, one asks for review. Two rules share a module, so that verdicts have to
//! be combined. Every engine answers every request once, and equally, before any is timed.

#[cfg(feature = "peers")]
mod cedar;
#[cfg(feature = "peers")]
mod rego;

use super::caller;
use crate::failure::Failure;
use crate::options::Options;
use crate::table::Row;
use crate::{alloc, measure};
use airlock_core::{Digest, Request, RequestPath, Syscall, Tier, Timestamp};
use airlock_policy::{
    Action, BuiltIns, Conditions, Constraints, Document, Engine, ExtensionHost, Generation, Place,
    Policy, Protected, Rule, Verdict,
};

pub(super) const NOW: Timestamp = Timestamp::from_micros(1_769_860_800_000_000);

/// The workspace the requests are about.
const ROOT: &str = "/work";
/// Different requests asked in turn.
const ASKED: usize = 64;
/// Peers must be slower by this.
const FASTER: f64 = 5.0;

/// One rule, said in no engine's language.
pub(super) struct Spec {
    number: usize,
    directory: String,
    tag: String,
    action: Action,
}

/// One request, said in no engine's language.
struct Ask {
    syscall: &'static str,
    path: String,
    tags: Vec<String>,
}

/// An engine with its requests, ready to answer the one of a given number.
struct Peer {
    name: &'static str,
    answer: Box<dyn FnMut(usize) -> Result<Verdict, Failure>>,
}

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (count, limit) in [(10, None), (1_000, Some(5_000.0)), (10_000, Some(10_000.0))] {
        rows.extend(measure_rules(options, count, limit)?);
    }
    if cfg!(not(feature = "peers")) {
        let why = "not built in: run `cargo xtask bench`";
        rows.push(Row::missing(
            "decision against Cedar and Rego",
            "at least 5 x faster",
            why,
        ));
    }
    Ok(rows)
}

fn measure_rules(options: &Options, count: usize, limit: Option<f64>) -> Result<Vec<Row>, Failure> {
    let specs = rules(count);
    let asked = requests(count);
    let engine = engine(&specs)?;
    let mut ready = Vec::with_capacity(asked.len());
    for ask in &asked {
        ready.push(request(ask.syscall, &ask.path, &ask.tags)?);
    }
    let decide = |request: &Request| engine.decide(request, None, NOW);
    let mut peers = Vec::new();
    for make in MAKERS {
        peers.extend(make(&specs, &asked)?);
    }
    agree(&asked, &ready, &decide, &mut peers)?;

    let mut ours = measure::cycle(&ready, decide);
    let our_allocations = alloc::count(1_024, &mut ours);
    let rounds = options.pick(400, 40);
    let ours_alone = measure::in_turns(rounds, &mut [&mut ours]);
    let alone = ours_alone
        .first()
        .map_or(f64::NAN, measure::Samples::median);
    let mut rows = vec![limited(
        Row::new(format!("decision, {count} rules"))
            .measured(format!(
                "{}{}",
                measure::time_text(alone),
                alloc::text(our_allocations)
            ))
            .against("a limit"),
        alone,
        limit,
    )];
    for peer in &mut peers {
        let mut numbers = (0..asked.len()).cycle();
        let mut theirs = || {
            // Agreed beforehand, so an error here would be a bug of the peer's own.
            let _ = std::hint::black_box(numbers.next().map(|number| (peer.answer)(number)));
        };
        let allocations = alloc::count(64, &mut theirs);
        let samples = measure::in_turns(rounds.min(100), &mut [&mut ours, &mut theirs]);
        let [ours, theirs] = samples.as_slice() else {
            return Err(Failure::new("two sides were timed"));
        };
        let ratio = theirs.median() / ours.median();
        let row = Row::new(format!("decision, {count} rules, against {}", peer.name))
            .measured(measure::time_text(ours.median()))
            .against(format!(
                "{}{}",
                measure::time_text(theirs.median()),
                alloc::text(allocations)
            ))
            .ratio(ratio)
            .wanted("at least 5 x faster", ratio >= FASTER);
        rows.push(row);
    }
    Ok(rows)
}

fn limited(row: Row, nanos: f64, limit: Option<f64>) -> Row {
    match limit {
        Some(limit) => row.wanted(
            format!("under {}", measure::time_text(limit)),
            nanos < limit,
        ),
        None => row,
    }
}

/// The same questions get the same answers, and all three answers occur.
fn agree(
    asked: &[Ask],
    ready: &[Request],
    decide: &dyn Fn(&Request) -> airlock_policy::Decision,
    peers: &mut [Peer],
) -> Result<(), Failure> {
    let mut seen = Vec::new();
    for (number, (ask, request)) in asked.iter().zip(ready).enumerate() {
        let verdict = decide(request).verdict;
        seen.push(verdict);
        for peer in &mut *peers {
            let other = (peer.answer)(number)?;
            if other != verdict {
                return Err(Failure::new(format!(
                    "{} says {other} to `{}` where Airlock says {verdict}",
                    peer.name, ask.path
                )));
            }
        }
    }
    let all = [Verdict::Allow, Verdict::Deny, Verdict::RequireReview];
    if all.iter().all(|verdict| seen.contains(verdict)) {
        Ok(())
    } else {
        Err(Failure::new("the requests do not lead to every verdict"))
    }
}

/// Makes the engines of one maker.
type Maker = fn(&[Spec], &[Ask]) -> Result<Vec<Peer>, Failure>;

#[cfg(feature = "peers")]
const MAKERS: &[Maker] = &[cedar::peers, rego::peers];
#[cfg(not(feature = "peers"))]
const MAKERS: &[Maker] = &[];

pub(super) fn rules(count: usize) -> Vec<Spec> {
    (0..count)
        .map(|number| Spec {
            number,
            directory: format!("src/module_{}", number / 2),
            tag: tag(number),
            action: match number % 5 {
                3 => Action::Deny,
                4 => Action::RequireReview,
                _ => Action::Allow,
            },
        })
        .collect()
}

fn tag(number: usize) -> String {
    format!("t{}", number % 7)
}

/// Requests spread over all rules; some meet two rules, some one, some none.
fn requests(rules: usize) -> Vec<Ask> {
    (0..ASKED)
        .map(|i| {
            let module = i * rules.div_ceil(2) / ASKED;
            let (first, second) = (tag(2 * module), tag(2 * module + 1));
            Ask {
                syscall: if i % 16 == 15 { "fs.read" } else { "fs.write" },
                path: if i % 8 == 7 {
                    format!("docs/part_{i}/page.md")
                } else {
                    format!("src/module_{module}/deep/file_{i}.rs")
                },
                tags: match i % 4 {
                    0 => vec![first],
                    1 => vec![second],
                    2 => vec![first, second],
                    _ => vec!["t9".to_owned(), second],
                },
            }
        })
        .collect()
}

pub(super) fn request(syscall: &str, path: &str, tags: &[String]) -> Result<Request, Failure> {
    let mut request = Request::new(Syscall::parse(syscall)?, Tier::Process, caller(tags)?);
    request.paths = vec![RequestPath::parse(path, ROOT)?];
    Ok(request)
}

/// The whole engine: the rules above, and every built-in one.
pub(super) fn engine(specs: &[Spec]) -> Result<Engine, Failure> {
    let document = Document {
        rules: specs.iter().map(rule).collect(),
        ..Document::default()
    };
    let generation = Generation::new(Digest::of(b"bench"));
    let loaded = Policy::compile(document, generation)
        .map_err(|problems| Failure::new(format!("the policy does not compile: {problems:?}")))?;
    let built_ins = BuiltIns::standard(Protected::default());
    Ok(Engine::new(
        loaded.policy,
        built_ins,
        ExtensionHost::default(),
    ))
}

fn rule(spec: &Spec) -> Rule {
    Rule {
        name: format!("rule-{}", spec.number).into(),
        place: Place::default(),
        when: Conditions {
            syscall: Some(vec!["fs.write".into()]),
            path_glob: Some(vec![format!("{}/**", spec.directory).into()]),
            caller_tag: Some(vec![spec.tag.as_str().into()]),
            ..Conditions::default()
        },
        action: spec.action,
        reason: Some("because the bench says so".into()),
        except: Vec::new(),
        constraints: Constraints::default(),
        examples: Vec::new(),
    }
}
