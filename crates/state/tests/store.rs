//! Sessions, observations and runs; and the store itself in a bad way.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_core::{Digest, SessionId, Span};
use airlock_state::{NewRun, RunStatus, SessionState, Spent, State, StateBreak, StateError};
use serde_json::json;
use std::fs;
use support::{
    answer, asked, asked_nothing, at, open, owner, place, query, request, session, tamper, yes,
};

const CALL: Spent = Spent {
    calls: 1,
    turns: 0,
    tokens: 0,
    cost_micros: 0,
    by_child: false,
};

#[test]
fn another_users_session_does_not_exist() {
    let place = place();
    let state = open(place.path());
    let mine = session(&state, "ada", "s1");
    let (ada, eve) = (owner("ada"), owner("eve"));
    assert_eq!(state.session(&ada, &mine.id).unwrap().as_ref(), Some(&mine));
    assert_eq!(state.session(&eve, &mine.id).unwrap(), None);
    assert!(state.sessions(&eve, true).unwrap().is_empty());
    let id = &mine.id;
    assert_eq!(
        state
            .set_session_state(&eve, id, SessionState::Cancelled, at(1))
            .unwrap(),
        None
    );
    assert_eq!(state.charge(&eve, id, CALL, None, at(1)).unwrap(), None);
    assert_eq!(
        state.observe(&eve, id, "hello", "user", at(1)).unwrap(),
        None
    );
    assert_eq!(state.recall(&eve, id, "", 9).unwrap(), None);
    assert_eq!(state.session(&ada, id).unwrap(), Some(mine));
}

#[test]
fn a_step_is_kept_and_taken_only_from_where_the_session_stands() {
    use airlock_core::{Mode, Phase};
    use airlock_phases::{Coverage, Ledger, Progress};
    let place = place();
    let ada = owner("ada");
    let workspace = "work".parse().unwrap();
    let ledger = Ledger {
        baseline: Some(Coverage { found: 10, hit: 9 }),
        locked: None,
        framework: None,
    };
    let progress = Progress {
        commit: Some("abc".to_owned()),
        ..Progress::default()
    };
    let id = {
        let state = open(place.path());
        let mine = session(&state, "ada", "s1");
        assert_eq!(mine.progress.as_deref(), Some(&Progress::default()));
        let step = |from: Phase, at_second: i64| {
            let to = (Mode::Explore, Phase::Planning, progress.clone());
            state.step_session(&ada, &mine.id, (Mode::Explore, from), to, at(at_second))
        };
        assert!(matches!(
            step(Phase::Validating, 1),
            Err(StateError::Unfit(_))
        ));
        let stepped = step(Phase::Idle, 2).unwrap().unwrap();
        assert_eq!(stepped.phase, Phase::Planning);
        assert!(matches!(step(Phase::Idle, 3), Err(StateError::Unfit(_))));
        assert_eq!(state.ledger(&workspace).unwrap(), Ledger::default());
        let commit = |from: Phase, was: Ledger| {
            let to = (Mode::Explore, Phase::Idle, progress.clone());
            let from = (Mode::Explore, from);
            state.step_session_and_ledger(&ada, &mine.id, from, to, (was, ledger), at(4))
        };
        let outdated = Ledger {
            locked: Some(1),
            ..ledger
        };
        for refused in [
            commit(Phase::Validating, Ledger::default()),
            commit(Phase::Planning, outdated),
        ] {
            assert!(matches!(refused, Err(StateError::Unfit(_))), "{refused:?}");
            assert_eq!(state.ledger(&workspace).unwrap(), Ledger::default());
            let found = state.session(&ada, &mine.id).unwrap().unwrap();
            assert_eq!(found.phase, Phase::Planning, "both or neither");
        }
        let committed = commit(Phase::Planning, Ledger::default());
        assert_eq!(committed.unwrap().unwrap().phase, Phase::Idle);
        mine.id
    };
    let state = open(place.path());
    let found = state.session(&ada, &id).unwrap().unwrap();
    assert_eq!(
        (found.phase, found.progress.as_deref()),
        (Phase::Idle, Some(&progress))
    );
    assert_eq!(state.ledger(&workspace).unwrap(), ledger);
    assert_eq!(
        state.ledger(&"other".parse().unwrap()).unwrap(),
        Ledger::default()
    );
}

#[test]
fn budgets_are_counted_and_each_can_be_used_up() {
    let place = place();
    let ada = owner("ada");
    let spend = |spent: &[(Spent, i64)]| {
        let state = open(place.path());
        let id = SessionId::new(&uuid::Uuid::new_v4().to_string()).unwrap();
        session(&state, "ada", id.as_str());
        let mut last = None;
        for (spent, seconds) in spent {
            last = state
                .charge(&ada, &id, *spent, Some("fs.read"), at(*seconds))
                .unwrap();
        }
        last.unwrap()
    };
    let turn = Spent {
        turns: 1,
        ..Spent::default()
    };
    let tokens = Spent {
        tokens: 100,
        ..Spent::default()
    };
    for (case, spent, want) in [
        ("within", vec![(CALL, 1), (CALL, 2)], None),
        ("calls", vec![(CALL, 1); 3], Some("tool calls")),
        (
            "a turn begins the calls anew",
            vec![(CALL, 1), (CALL, 1), (CALL, 1), (turn, 2)],
            None,
        ),
        (
            "the last turn may be worked in",
            vec![(turn, 1), (turn, 2)],
            None,
        ),
        ("turns", vec![(turn, 1); 3], Some("turns")),
        ("tokens", vec![(tokens, 1)], Some("tokens")),
        ("pauses count ten minutes", vec![(CALL, 100_000)], None),
        (
            "time",
            (1..=6).map(|n| (turn, n * 600)).collect(),
            Some("turns"),
        ),
    ] {
        let session = spend(&spent);
        match want {
            None => assert_eq!(session.exceeded(), None, "{case}"),
            Some(word) => assert!(session.exceeded().unwrap().contains(word), "{case}"),
        }
        assert!(session.tools.contains("fs.read"), "{case}");
    }
    let long = spend(&[(CALL, 600), (CALL, 1_200)]);
    assert_eq!(long.left().time, Some(Span::from_secs(2_400)));
}

#[test]
fn a_cancelled_session_stays_cancelled_and_an_archived_one_comes_back() {
    let place = place();
    let state = open(place.path());
    let ada = owner("ada");
    for (id, first, back) in [
        ("s1", SessionState::Cancelled, false),
        ("s2", SessionState::Archived, true),
    ] {
        let id = session(&state, "ada", id).id;
        state
            .set_session_state(&ada, &id, first, at(1))
            .unwrap()
            .unwrap();
        // Not by the detour of putting it away either, by whomever.
        let archived = state.set_session_state(&ada, &id, SessionState::Archived, at(2));
        assert_eq!(archived.is_ok(), back);
        let left = state.leave_session(&ada, &id, at(2)).unwrap().unwrap();
        assert_eq!(left.state == SessionState::Archived, back);
        let long_after = at(60 * 24 * 3_600);
        assert_eq!(state.archive_stale(long_after).unwrap(), 0);
        let resumed = state.set_session_state(&ada, &id, SessionState::Active, long_after);
        assert_eq!(resumed.is_ok(), back);
    }
}

#[test]
fn sessions_nobody_touched_for_thirty_days_are_archived() {
    let place = place();
    let state = open(place.path());
    let ada = owner("ada");
    session(&state, "ada", "old");
    session(&state, "ada", "used");
    let day = 24 * 3_600;
    state
        .charge(&ada, &"used".parse().unwrap(), CALL, None, at(20 * day))
        .unwrap();
    assert_eq!(state.archive_stale(at(30 * day - 1)).unwrap(), 0);
    assert_eq!(state.archive_stale(at(30 * day)).unwrap(), 1);
    let names = |archived| -> Vec<String> {
        let found = state.sessions(&ada, archived).unwrap();
        found
            .into_iter()
            .map(|session| session.id.to_string())
            .collect()
    };
    assert_eq!(names(false), ["used"]);
    assert_eq!(names(true), ["old", "used"]);
}

#[test]
fn observations_are_found_by_all_their_words_newest_first() {
    let place = place();
    let state = open(place.path());
    let ada = owner("ada");
    let id = session(&state, "ada", "s1").id;
    for (number, text) in ["The parser is slow", "the Parser is tested", "nothing else"]
        .iter()
        .enumerate()
    {
        state
            .observe(&ada, &id, text, "user", at(number.try_into().unwrap()))
            .unwrap()
            .unwrap();
    }
    let found = |words: &str| -> Vec<String> {
        let found = state.recall(&ada, &id, words, 10).unwrap().unwrap();
        found
            .into_iter()
            .map(|observation| observation.text)
            .collect()
    };
    assert_eq!(
        found("PARSER is"),
        ["the Parser is tested", "The parser is slow"]
    );
    assert_eq!(found("parser slow"), ["The parser is slow"]);
    assert_eq!(found("%"), Vec::<String>::new());
    assert_eq!(found("").len(), 3);
    let long = "x".repeat(8 * 1024 + 1);
    assert!(matches!(
        state.observe(&ada, &id, &long, "user", at(9)),
        Err(StateError::Limit { .. })
    ));
}

#[test]
fn a_run_keeps_its_steps_over_a_restart_and_ends_once() {
    let place = place();
    let state = open(place.path());
    let (ada, eve) = (owner("ada"), owner("eve"));
    let new = NewRun {
        id: "run-1".to_owned(),
        owner: ada.clone(),
        session: None,
        name: "release".to_owned(),
        definition: Digest::of(b"steps"),
        input: json!({ "version": 0.1 }),
    };
    let run = state.create_run(new.clone(), at(0)).unwrap();
    for id in ["run-1", "", &"x".repeat(129)] {
        let mut other = new.clone();
        other.id = id.to_owned();
        let refused = state.create_run(other, at(0));
        assert!(matches!(refused, Err(StateError::Unfit(_))), "{id}");
    }
    for number in 1..=3 {
        let step = state
            .append_step(&ada, &run.id, json!({ "n": number }), at(number))
            .unwrap();
        assert_eq!(step.unwrap().number, number.unsigned_abs());
    }
    assert_eq!(
        state.append_step(&eve, &run.id, json!({}), at(9)).unwrap(),
        None
    );
    assert!(state.run(&eve, &run.id).unwrap().is_none());
    drop(state);
    let state = open(place.path());
    let (found, steps) = state.run(&ada, &run.id).unwrap().unwrap();
    assert_eq!((found.steps, found.status), (3, RunStatus::Running));
    assert_eq!(steps[2].record, json!({ "n": 3 }));
    let output = Some(json!({ "ok": true }));
    state
        .finish_run(&ada, &run.id, RunStatus::Done, output, at(5))
        .unwrap()
        .unwrap();
    assert!(state.append_step(&ada, &run.id, json!({}), at(6)).is_err());
    assert!(
        state
            .finish_run(&ada, &run.id, RunStatus::Failed, None, at(6))
            .is_err()
    );
    assert_eq!(state.runs(&ada).unwrap().len(), 1);
    state.verify().unwrap();
}

/// A store with a session, something remembered, an open question and a grant.
fn full(directory: &std::path::Path) -> State {
    let state = open(directory);
    session(&state, "ada", "s1");
    state
        .observe(
            &owner("ada"),
            &"s1".parse().unwrap(),
            "keep me",
            "user",
            at(1),
        )
        .unwrap();
    asked(&state, "q1", "src/a.rs");
    let id = asked(&state, "q2", "src/b.rs");
    answer(&state, &id, yes(&[]), 1).unwrap();
    state
}

#[test]
fn every_flipped_byte_of_an_event_is_noticed_and_what_is_whole_is_rescued() {
    let place = place();
    drop(full(place.path()));
    // The second event: what is remembered. Its number and digest stay, its text changes.
    let sql = "UPDATE events SET stored = CAST(replace(CAST(stored AS TEXT), 'keep me', 'keep it') AS BLOB) WHERE seq = 2";
    // A blob with NULs does not survive the cast, which is damage enough.
    assert_eq!(tamper(place.path(), sql), 1);
    let state = open(place.path());
    let report = state.recovered().unwrap();
    assert!(
        report
            .message()
            .contains("every approval has to be asked for again")
    );
    assert!(report.set_aside.as_ref().unwrap().exists());
    let ada = owner("ada");
    assert!(
        state
            .session(&ada, &"s1".parse().unwrap())
            .unwrap()
            .is_some()
    );
    assert_eq!(
        state
            .recall(&ada, &"s1".parse().unwrap(), "", 9)
            .unwrap()
            .unwrap(),
        []
    );
    assert!(asked_nothing(&state, "ada"));
    assert_eq!(
        state.use_grant(&query(&request("src/b.rs"), 2)).unwrap(),
        None
    );
    state.verify().unwrap();
}

#[test]
fn random_damage_never_panics_never_grants_and_always_leaves_a_store() {
    for seed in 0..40u64 {
        let place = place();
        let state = full(place.path());
        state
            .use_grant(&query(&request("src/b.rs"), 2))
            .unwrap()
            .unwrap();
        drop(state);
        let path = place.path().join("state.db");
        let mut bytes = fs::read(&path).unwrap();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for _ in 0..64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let place = usize::try_from(random).unwrap() % bytes.len();
            bytes[place] ^= u8::try_from(random >> 56).unwrap() | 1;
        }
        fs::write(&path, &bytes).unwrap();
        match State::open(place.path(), at(3)) {
            Ok(state) => {
                state.verify().unwrap();
                assert_eq!(
                    state.use_grant(&query(&request("src/b.rs"), 3)).unwrap(),
                    None
                );
            }
            // The mark or the version may be what was hit: then nothing is guessed.
            Err(StateError::Foreign(_) | StateError::Newer { .. }) => {}
            Err(other) => panic!("seed {seed}: {other:?}"),
        }
    }
}

#[test]
fn a_store_that_is_gone_comes_back_from_its_newest_copy() {
    let place = place();
    let state = full(place.path());
    for number in 0..7 {
        state.snapshot(at(10 + number)).unwrap();
    }
    let copies = fs::read_dir(place.path().join("backups/state"))
        .unwrap()
        .count();
    assert_eq!(copies, 5);
    drop(state);
    fs::write(place.path().join("state.db"), vec![0; 8192]).unwrap();
    let state = open(place.path());
    let report = state.recovered().unwrap();
    assert!(report.from_copy > 0 && report.rescued == 0, "{report:?}");
    let found = state
        .recall(&owner("ada"), &"s1".parse().unwrap(), "keep", 9)
        .unwrap();
    assert_eq!(found.unwrap().len(), 1);
    // What the copy granted is asked again: nobody knows what was used since.
    assert_eq!(
        state.use_grant(&query(&request("src/b.rs"), 20)).unwrap(),
        None
    );
}

#[test]
fn without_file_or_copy_the_store_begins_empty_and_says_so() {
    let place = place();
    drop(full(place.path()));
    fs::write(place.path().join("state.db"), b"not a database, not at all").unwrap();
    let state = open(place.path());
    assert_eq!(state.recovered().unwrap().rescued, 0);
    assert!(state.sessions(&owner("ada"), true).unwrap().is_empty());
}

#[test]
fn a_log_left_without_its_file_is_rescued_and_not_taken_for_the_new_files() {
    let place = place();
    let state = full(place.path());
    let wal = fs::read(place.path().join("state.db-wal")).unwrap();
    drop(state);
    fs::remove_file(place.path().join("state.db")).unwrap();
    fs::write(place.path().join("state.db-wal"), wal).unwrap();
    let state = open(place.path());
    assert!(state.recovered().unwrap().rescued > 0);
    let found = state
        .recall(&owner("ada"), &"s1".parse().unwrap(), "keep", 9)
        .unwrap();
    assert_eq!(found.unwrap().len(), 1);
    assert!(asked_nothing(&state, "ada"));
    state.verify().unwrap();
}

#[test]
fn a_store_in_use_is_not_recovered_under_its_users() {
    let place = place();
    let state = full(place.path());
    fs::write(place.path().join("state.db"), vec![0; 8192]).unwrap();
    assert!(matches!(
        State::open(place.path(), at(1)),
        Err(StateError::InUse(_))
    ));
    drop(state);
    open(place.path());
}

#[test]
fn rows_changed_by_hand_are_made_anew_from_the_events() {
    let place = place();
    drop(full(place.path()));
    let sql =
        "UPDATE facts SET body = replace(body, '\"explore\"', '\"debug\"') WHERE kind = 'session'";
    assert_eq!(tamper(place.path(), sql), 1);
    let state = open(place.path());
    assert!(state.recovered().is_none());
    let found = state
        .session(&owner("ada"), &"s1".parse().unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(found.mode, airlock_core::Mode::Explore);
}

#[test]
fn missing_last_events_are_noticed() {
    let place = place();
    let state = full(place.path());
    assert_eq!(tamper(place.path(), "DELETE FROM events WHERE seq = 5"), 1);
    assert!(matches!(
        state.verify(),
        Err(StateBreak::Store(StateError::Damaged { .. }))
    ));
    let ada = owner("ada");
    let refused = state.charge(&ada, &"s1".parse().unwrap(), CALL, None, at(2));
    assert!(matches!(refused, Err(StateError::Damaged { .. })));
}

#[test]
fn a_newer_format_a_foreign_file_and_a_link_are_refused() {
    let place = place();
    drop(full(place.path()));
    tamper(place.path(), "PRAGMA user_version = 2");
    let error = State::open(place.path(), at(0)).unwrap_err();
    assert!(
        matches!(error, StateError::Newer { found: 2, .. }),
        "{error:?}"
    );
    tamper(place.path(), "PRAGMA application_id = 7");
    let error = State::open(place.path(), at(0)).unwrap_err();
    assert!(matches!(error, StateError::Foreign(_)), "{error:?}");
    let other = support::place();
    fs::rename(place.path().join("state.db"), other.path().join("real.db")).unwrap();
    std::os::unix::fs::symlink(other.path().join("real.db"), place.path().join("state.db"))
        .unwrap();
    let error = State::open(place.path(), at(0)).unwrap_err();
    assert!(matches!(error, StateError::NotRegular(_)), "{error:?}");
}

#[test]
fn many_openers_of_a_store_that_is_only_just_made_all_find_it_whole() {
    for _ in 0..10 {
        let place = place();
        let together = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (place, together) = (&place, &together);
                scope.spawn(move || {
                    together.wait();
                    session(&open(place.path()), "ada", &format!("s{number}"));
                });
            }
        });
        let state = open(place.path());
        assert_eq!(state.sessions(&owner("ada"), false).unwrap().len(), 8);
        state.verify().unwrap();
        let left = fs::read_dir(place.path()).unwrap();
        let drafts = left.filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains(".new-")
        });
        assert_eq!(drafts.count(), 0);
    }
}

/// A store that is too large to be looked at whole when it is opened: one session, much used.
fn large(directory: &std::path::Path) -> State {
    let state = full(directory);
    let (ada, id) = (owner("ada"), "s1".parse().unwrap());
    for number in 0..2_100 {
        state.charge(&ada, &id, CALL, None, at(2 + number)).unwrap();
    }
    state
}

#[test]
fn a_session_is_what_its_events_say_whatever_was_written_into_its_row() {
    let place = place();
    drop(large(place.path()));
    let forged = "UPDATE facts SET body = replace(replace(body, '\"explore\"', '\"debug\"'), \
                  '\"calls\":100', '\"calls\":null') WHERE kind = 'session'";
    assert_eq!(tamper(place.path(), forged), 1);
    let state = open(place.path());
    assert!(!state.is_verified(), "it is too large for that");
    let (ada, id): (_, SessionId) = (owner("ada"), "s1".parse().unwrap());
    let found = || state.session(&ada, &id).unwrap().unwrap();
    let first = found();
    assert_eq!(first.mode, airlock_core::Mode::Explore);
    assert_eq!(first.used.total_calls, 2_100);
    assert!(state.take_mended().unwrap().contains("s1"));
    assert!(state.take_mended().is_none(), "it is told once");
    // The same while it is open, and after what was known of it was built on.
    state.charge(&ada, &id, CALL, None, at(9_000)).unwrap();
    assert_eq!(tamper(place.path(), forged), 1);
    state.charge(&ada, &id, CALL, None, at(9_001)).unwrap();
    let found = found();
    assert_eq!(found.mode, airlock_core::Mode::Explore);
    assert_eq!(found.budget, first.budget);
    assert_eq!(found.used.total_calls, 2_102);
    // A row that is gone is there again; one that no event tells of is not.
    tamper(place.path(), "DELETE FROM facts WHERE kind = 'session'");
    assert!(state.session(&ada, &id).unwrap().is_some());
    let copy = "INSERT INTO facts SELECT kind, 's2', owner, parent, status, due, mark, seq, \
                replace(body, '\"s1\"', '\"s2\"') FROM facts WHERE kind = 'session'";
    assert_eq!(tamper(place.path(), copy), 1);
    assert_eq!(state.session(&ada, &"s2".parse().unwrap()).unwrap(), None);
    state.verify().unwrap();
}

#[test]
fn what_is_broken_in_a_large_store_is_found_beside_its_use_and_mended_when_it_is_opened() {
    let place = place();
    let state = large(place.path());
    State::check_apart(place.path()).unwrap();
    let sql = "UPDATE events SET stored = zeroblob(length(stored)) WHERE seq = 2";
    assert_eq!(tamper(place.path(), sql), 1);
    let broken = State::check_apart(place.path()).unwrap_err();
    assert!(broken.is_damage(), "{broken}");
    drop(state);
    assert!(!open(place.path()).is_verified());
    State::suspect(place.path()).unwrap();
    let state = open(place.path());
    assert!(state.is_verified() && state.recovered().is_some());
    let session = state.session(&owner("ada"), &"s1".parse().unwrap());
    assert_eq!(session.unwrap().unwrap().used.total_calls, 2_100);
    drop(state);
    assert!(!open(place.path()).is_verified(), "it is trusted again");
    State::check_apart(place.path()).unwrap();
}

#[test]
fn a_copy_that_does_not_hold_is_passed_over_for_an_older_one() {
    let place = place();
    let state = full(place.path());
    state.snapshot(at(10)).unwrap();
    let (ada, id): (_, SessionId) = (owner("ada"), "s1".parse().unwrap());
    state.observe(&ada, &id, "later", "user", at(11)).unwrap();
    let newest = state.snapshot(at(12)).unwrap();
    drop(state);
    // Each event that is left is intact, but one is missing.
    let aside = tempfile::tempdir().unwrap();
    fs::copy(&newest, aside.path().join("state.db")).unwrap();
    assert_eq!(tamper(aside.path(), "DELETE FROM events WHERE seq = 2"), 1);
    fs::copy(aside.path().join("state.db"), &newest).unwrap();
    fs::write(place.path().join("state.db"), vec![0; 8192]).unwrap();
    let state = open(place.path());
    assert!(state.recovered().unwrap().from_copy > 0);
    let found = |words: &str| state.recall(&ada, &id, words, 9).unwrap().unwrap().len();
    assert_eq!((found("keep"), found("later")), (1, 0));
}
