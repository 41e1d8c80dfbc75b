//! Walks at random that try to get around the table.

use super::{World, digest, documentation, lines, place, run};
use airlock_core::{Digest, Mode, Phase};
use airlock_phases::{
    Event, Ledger, Place, Progress, Proof, Route, Writable, advance_event, mode_switch, step,
    writable,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a walk does at one moment.
#[derive(Debug, Clone)]
enum Move {
    Happen(Event),
    /// A person approves what there is.
    Approve,
    /// What somebody does who keeps to the discipline.
    GoOn,
    /// And who is about to change how something is written, and not what it does.
    Rewrite,
    Advance(Option<Phase>),
    Switch(Mode),
    Write(&'static str),
    Test(Proof, bool),
}

fn moves() -> impl Strategy<Value = Move> {
    let phase = || prop::sample::select(Phase::ALL.to_vec());
    let path = prop::sample::select(vec!["tests/a.rs", "src/a.rs", "docs/a.md", "Cargo.toml"]);
    let proof = prop::sample::select(vec![
        Proof::Red,
        Proof::Green,
        Proof::NoTests,
        Proof::Nothing,
    ]);
    let event = prop::sample::select(vec![
        Event::Begin,
        Event::PlanComplete,
        Event::Refactor(lines()),
        Event::Exempted(documentation("docs/a.md")),
        Event::Exempted(documentation("src/a.rs")),
        Event::TestsWritten,
        Event::ChangesMade,
        Event::Validated,
        Event::SentBack,
        Event::AddTests,
        Event::MergeApproved(digest("other")),
        Event::Committed,
        Event::Cancel,
    ]);
    prop_oneof![
        3 => event.prop_map(Move::Happen),
        3 => Just(Move::Approve),
        6 => Just(Move::GoOn),
        1 => Just(Move::Rewrite),
        6 => prop::option::of(phase()).prop_map(Move::Advance),
        1 => prop::sample::select(Mode::ALL.to_vec()).prop_map(Move::Switch),
        6 => path.prop_map(Move::Write),
        6 => (proof, any::<bool>()).prop_map(|(proof, suspect)| Move::Test(proof, suspect)),
    ]
}

/// A model of a session: what was written since the last commit, in which state.
struct Walk {
    place: Place,
    /// Each with the state, and whether an exemption was in force.
    writes: Vec<(&'static str, Phase, bool)>,
    seen: BTreeMap<&'static str, u32>,
    tested: Option<(Option<Digest>, Proof)>,
    /// Whether a run was RED with nothing but tests in the stage.
    red: bool,
}

impl Walk {
    fn world(&self) -> World {
        let of = |class: &str| -> Vec<&str> {
            let paths = self.writes.iter().map(|(path, ..)| *path);
            let mut found: Vec<&str> = paths.filter(|path| path.starts_with(class)).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let other = [of("docs/"), of("Cargo")].concat();
        let mut world = World::changing(&of("tests/"), &of("src/"), &other);
        world.stage = self.stage();
        world
    }

    fn stage(&self) -> Option<Digest> {
        let held = format!("{:?}", self.seen);
        (!self.seen.is_empty()).then(|| digest(&held))
    }

    fn may_write(&self, path: &str) -> bool {
        if let Some(Route::Exempt(exemption)) = &self.place.progress.route {
            return self.place.state == Phase::Exploring && exemption.covers(path);
        }
        let (test, source) = (path.starts_with("tests/"), path.starts_with("src/"));
        match writable(self.place.state) {
            Writable::Nothing => false,
            Writable::Tests => test,
            Writable::Source => source,
            Writable::SourceAndTests => test || source,
        }
    }

    fn take(&mut self, event: &Event) {
        let world = self.world();
        let before = self.place.clone();
        let Ok((next, _)) = world.with(|facts| step(&self.place, event, facts)) else {
            return;
        };
        self.check(&before, &next, &world);
        if *event == Event::Committed {
            self.writes.clear();
            self.seen.clear();
            self.red = false;
        }
        self.place = next;
    }

    /// What must be so whenever a state is entered.
    fn check(&mut self, before: &Place, next: &Place, world: &World) {
        let fresh = |wanted: &[Proof]| {
            self.tested
                .is_some_and(|(stage, proof)| stage == world.stage && wanted.contains(&proof))
        };
        match next.state {
            Phase::CodeWriting if before.state == Phase::TestWriting => {
                assert!(fresh(&[Proof::Red]), "code without a failing test");
                assert!(world.changed.source.is_empty() && world.changed.other.is_empty());
                self.red = true;
            }
            Phase::Reviewing => {
                assert!(
                    fresh(&[Proof::Green, Proof::NoTests]),
                    "reviewed without a run"
                );
                let strict = next.progress.route == Some(Route::TestFirst);
                assert!(
                    !strict || self.red,
                    "reviewed without a failing test before"
                );
                assert!(!strict || fresh(&[Proof::Green]));
                assert!(next.progress.last.as_ref().unwrap().suspects.is_empty());
                if let Some(Route::Exempt(exemption)) = &next.progress.route {
                    assert!(world.changed.paths().all(|path| exemption.covers(path)));
                }
            }
            Phase::Committing => {
                assert_eq!(before.state, Phase::Reviewing);
                assert_eq!(next.progress.approved, world.stage, "approved is what is");
            }
            Phase::Refactoring | Phase::Exploring if before.state == Phase::Planning => {
                let exploring = before.mode != Mode::Strict;
                assert!(exploring || world.changed.is_empty());
            }
            Phase::Idle
            | Phase::Planning
            | Phase::TestWriting
            | Phase::CodeWriting
            | Phase::Refactoring
            | Phase::Validating
            | Phase::Exploring
            | Phase::RetroactiveTesting => {}
        }
    }

    fn go(&mut self, one: Move) {
        match one {
            Move::Happen(event) => self.take(&event),
            Move::Approve => {
                if let Some(stage) = self.stage() {
                    self.take(&Event::MergeApproved(stage));
                }
            }
            Move::GoOn => self.go_on(),
            Move::Rewrite => {
                self.go(Move::Test(Proof::Green, false));
                self.go(Move::Happen(Event::Refactor(lines())));
            }
            Move::Advance(to) => {
                if let Ok(event) = advance_event(&self.place, to) {
                    assert!(!matches!(event, Event::MergeApproved(_) | Event::Committed));
                    self.take(&event);
                }
            }
            Move::Switch(to) => {
                if let Ok(next) = mode_switch(&self.place, to, Ledger::default()) {
                    self.place = next;
                }
            }
            Move::Write(path) => {
                if self.may_write(path) {
                    let exempt = matches!(self.place.progress.route, Some(Route::Exempt(_)));
                    self.writes.push((path, self.place.state, exempt));
                    *self.seen.entry(path).or_default() += 1;
                }
            }
            Move::Test(proof, suspect) => {
                let mut ran = run(proof);
                ran.stage = self.stage();
                ran.suspects = suspect.then(|| "t".to_owned()).into_iter().collect();
                self.tested = Some((ran.stage, proof));
                self.place.progress.last = Some(ran);
            }
        }
    }

    fn go_on(&mut self) {
        let steps = match self.place.state {
            Phase::Idle | Phase::Planning => vec![Move::Advance(None)],
            Phase::TestWriting => vec![
                Move::Write("tests/a.rs"),
                Move::Test(Proof::Red, false),
                Move::Advance(None),
            ],
            Phase::CodeWriting | Phase::Refactoring | Phase::Exploring => vec![
                Move::Write("src/a.rs"),
                Move::Write("docs/a.md"),
                Move::Advance(None),
            ],
            Phase::RetroactiveTesting => vec![Move::Write("tests/a.rs"), Move::Advance(None)],
            Phase::Validating => vec![
                Move::Test(Proof::Green, false),
                Move::Happen(Event::Validated),
            ],
            Phase::Reviewing => vec![Move::Approve],
            Phase::Committing => vec![Move::Happen(Event::Committed)],
        };
        for one in steps {
            self.go(one);
        }
    }
}

/// What may be written where, said once more and not by the code that decides it.
fn fits(path: &str, state: Phase, exempt: bool) -> bool {
    let (test, source) = (path.starts_with("tests/"), path.starts_with("src/"));
    match state {
        Phase::Exploring if exempt => path == "docs/a.md",
        Phase::TestWriting | Phase::RetroactiveTesting => test && !exempt,
        Phase::CodeWriting | Phase::Refactoring => source && !exempt,
        Phase::Exploring => test || source,
        Phase::Idle
        | Phase::Planning
        | Phase::Validating
        | Phase::Reviewing
        | Phase::Committing => false,
    }
}

#[test]
fn no_walk_reaches_a_state_or_a_write_that_the_table_forbids() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let walks = (
        prop::sample::select(Mode::ALL.to_vec()),
        prop::collection::vec(moves(), 1..80),
    );
    let reached = RefCell::new(BTreeMap::<String, u32>::new());
    let walked = runner.run(&walks, |(mode, walk)| {
        let mut session = Walk {
            place: place(mode, Phase::Idle, Progress::default()),
            writes: Vec::new(),
            seen: BTreeMap::new(),
            tested: None,
            red: false,
        };
        for one in walk {
            session.go(one);
            let state = session.place.state.to_string();
            *reached.borrow_mut().entry(state).or_default() += 1;
            for (path, state, exempt) in &session.writes {
                prop_assert!(fits(path, *state, *exempt), "{path} in {state}");
            }
        }
        Ok(())
    });
    walked.unwrap();
    let reached = reached.into_inner();
    for state in Phase::ALL {
        // A walk that is never there shows nothing about it.
        let times = reached.get(&state.to_string()).copied().unwrap_or(0);
        assert!(times > 20, "{state} only {times} times: {reached:?}");
    }
}
