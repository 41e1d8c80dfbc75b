//! Questions, answers and grants as they are stored: bounded, proven, counted exactly once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and this one starts itself as a child process"
)]

mod support;

use airlock_core::WorkspacePath;
use airlock_policy::approval::{AnswerError, ApprovalId, Condition, Reply};
use airlock_state::{AnswerStateError, ApprovalStanding, ApprovalStatus, Asked, Share, State};
use std::process::{Command, Stdio};
use support::{
    OPEN, answer, asked, asked_nothing, at, generation, listed, no, open, owner, place, query,
    question, question_under, request, tamper, yes,
};

/// Questions of every standing at second 10: two that wait, two that grant, two that are over.
fn of_every_standing(state: &State) {
    for (name, reply) in [
        ("q1", None),
        ("q2", Some(yes(&[]))),
        ("q3", Some(no())),
        ("q4", None),
        ("q5", Some(yes(&[]))),
        ("q6", Some(no())),
    ] {
        let id = asked(state, name, &format!("src/{name}.rs"));
        if let Some(reply) = reply {
            answer(state, &id, reply, 1).unwrap();
        }
    }
}

#[test]
fn questions_are_listed_in_pages_with_those_that_wait_first() {
    let place = place();
    let state = open(place.path());
    of_every_standing(&state);
    let all = ["q4", "q1", "q5", "q2", "q6", "q3"];
    for most in 1..=7 {
        let mut found: Vec<String> = Vec::new();
        loop {
            let after = found.last().cloned();
            let page = listed(&state, "ada", None, after.as_deref(), 10, most);
            let (names, more) = page.unwrap();
            assert!(names.len() <= most);
            let left = u64::try_from(all.len() - found.len() - names.len()).unwrap();
            assert_eq!(more, left, "{most}: {names:?}");
            found.extend(names);
            if more == 0 {
                break;
            }
        }
        assert_eq!(found, all, "{most}");
    }
    for (standing, names) in [
        (ApprovalStanding::Open, ["q4", "q1"]),
        (ApprovalStanding::Granted, ["q5", "q2"]),
        (ApprovalStanding::Closed, ["q6", "q3"]),
    ] {
        let page = listed(&state, "ada", Some(standing), None, 10, 9).unwrap();
        assert_eq!(page.0, names, "{standing:?}");
    }
    // Time alone closes what nobody answered, and what was granted.
    let closed = listed(
        &state,
        "ada",
        Some(ApprovalStanding::Closed),
        None,
        10 * OPEN,
        9,
    );
    assert_eq!(closed.unwrap().0.len(), 6);
}

#[test]
fn a_page_goes_on_after_a_question_that_was_answered_meanwhile() {
    let place = place();
    let state = open(place.path());
    for name in ["q1", "q2", "q3"] {
        asked(&state, name, &format!("src/{name}.rs"));
    }
    let waits = Some(ApprovalStanding::Open);
    let first = listed(&state, "ada", waits, None, 2, 2).unwrap();
    assert_eq!(first, (vec!["q3".to_owned(), "q2".to_owned()], 1));
    answer(&state, &ApprovalId::new("q2").unwrap(), no(), 3).unwrap();
    let second = listed(&state, "ada", waits, Some("q2"), 4, 2).unwrap();
    assert_eq!(second, (vec!["q1".to_owned()], 0));
    // Nobody goes on after what is not theirs, or not there.
    assert_eq!(listed(&state, "ada", waits, Some("q9"), 4, 2), None);
    assert_eq!(listed(&state, "eve", waits, Some("q2"), 4, 2), None);
}

#[test]
fn a_question_is_found_by_the_end_of_its_name() {
    let place = place();
    let state = open(place.path());
    for name in ["a-1234", "b-1234", "c-5678", "1234"] {
        asked(&state, name, &format!("src/{name}.rs"));
    }
    let found = |name: &str| -> Vec<String> {
        let names = state.approval_names(&owner("ada"), name).unwrap();
        names.iter().map(ToString::to_string).collect()
    };
    assert_eq!(found("5678"), ["c-5678"]);
    assert_eq!(found("1234"), ["1234", "a-1234", "b-1234"]);
    assert_eq!(found("a-1234"), ["a-1234"]);
    for name in ["678", "", "%", "%5678", "_5678", "cc-5678", "c-567"] {
        assert!(found(name).is_empty(), "{name}");
    }
    assert!(
        state
            .approval_names(&owner("eve"), "5678")
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_same_question_is_asked_once_while_it_is_open() {
    let place = place();
    let state = open(place.path());
    let first = asked(&state, "q1", "src/a.rs");
    for seconds in [0, 10, OPEN - 1] {
        let again = state.ask(question("q2", &request("src/a.rs")), false, at(seconds));
        let Asked::Again(same) = again.unwrap() else {
            panic!("asked twice");
        };
        assert_eq!(same.request.id, first);
    }
    // Once it is over, it is a new question; and so is another action, or another session's.
    let later = question("q3", &request("src/a.rs"));
    assert!(matches!(
        state.ask(later, false, at(OPEN)).unwrap(),
        Asked::New(_)
    ));
    asked(&state, "q4", "src/b.rs");
    let mut elsewhere = request("src/a.rs");
    elsewhere.caller.session = Some("s2".parse().unwrap());
    let other = state.ask(question("q5", &elsewhere), false, at(0)).unwrap();
    assert!(matches!(other, Asked::New(_)));
}

#[test]
fn an_asker_has_a_bounded_number_of_open_questions() {
    let place = place();
    let state = open(place.path());
    for number in 0..20 {
        asked(&state, &format!("q{number}"), &format!("src/{number}.rs"));
    }
    let flood = state
        .ask(question("q20", &request("src/20.rs")), false, at(1))
        .unwrap();
    assert_eq!(flood, Asked::TooMany { open: 20 });
    // Answering makes room, and so does time; another session is not held up.
    answer(&state, &ApprovalId::new("q3").unwrap(), no(), 2).unwrap();
    asked(&state, "q21", "src/20.rs");
    let mut elsewhere = request("src/99.rs");
    elsewhere.caller.session = Some("s2".parse().unwrap());
    let other = state
        .ask(question("q22", &elsewhere), false, at(3))
        .unwrap();
    assert!(matches!(other, Asked::New(_)));
    let late = state
        .ask(question("q23", &request("src/23.rs")), false, at(OPEN))
        .unwrap();
    assert!(matches!(late, Asked::New(_)));
}

#[test]
fn what_asks_as_one_has_a_smaller_bound_of_its_own_whoever_asks_in_it() {
    let place = place();
    let state = open(place.path());
    asked(&state, "other", "src/other.rs");
    let mut held = Vec::new();
    let mut ask = |name: &str, session: &str, seconds: i64| {
        let mut request = request(&format!("src/{name}.rs"));
        request.caller.session = Some(session.parse().unwrap());
        let share = Share {
            asked: &mut held,
            most: 3,
        };
        let asked = state.ask_in(share, question(name, &request), false, at(seconds));
        asked.unwrap()
    };
    assert!(matches!(ask("q1", "s1", 1), Asked::New(_)));
    assert!(matches!(ask("q2", "s2", 1), Asked::New(_)));
    assert!(matches!(ask("q3", "s3", 1), Asked::New(_)));
    for session in ["s1", "s4"] {
        let more = ask("q4", session, 1);
        assert_eq!(more, Asked::TooManyOfOne { open: 3 }, "{session}");
    }
    // What is asked already is no more; an answer makes room for one, and so does time for all.
    assert!(matches!(ask("q2", "s2", 1), Asked::Again(_)));
    answer(&state, &ApprovalId::new("q2").unwrap(), no(), 2).unwrap();
    assert!(matches!(ask("q5", "s2", 3), Asked::New(_)));
    assert_eq!(ask("q6", "s2", 3), Asked::TooManyOfOne { open: 3 });
    assert!(matches!(ask("q7", "s1", OPEN + 3), Asked::New(_)));
    // Nobody else is held up.
    asked(&state, "another", "src/another.rs");
}

#[test]
fn what_was_asked_under_another_policy_takes_no_room() {
    let place = place();
    let state = open(place.path());
    let mut held = Vec::new();
    let mut ask = |policy: &str, name: &str| {
        let request = request(&format!("src/{name}.rs"));
        let share = Share {
            asked: &mut held,
            most: 20,
        };
        let asked = state.ask_in(share, question_under(policy, name, &request), false, at(1));
        asked.unwrap()
    };
    for policy in ["policy", "another"] {
        for number in 0..20 {
            let new = ask(policy, &format!("{policy}-{number}"));
            assert!(matches!(new, Asked::New(_)), "{policy} {number}: {new:?}");
        }
        let flood = ask(policy, &format!("{policy}-more"));
        assert_eq!(flood, Asked::TooMany { open: 20 }, "{policy}");
    }
    // A policy that is put in force again finds its questions as they were.
    assert!(matches!(ask("policy", "policy-3"), Asked::Again(_)));
    assert_eq!(ask("policy", "back"), Asked::TooMany { open: 20 });
}

#[test]
fn a_denial_holds_for_whoever_asks_again_unless_a_person_insists() {
    let place = place();
    let state = open(place.path());
    let id = asked(&state, "q1", "src/a.rs");
    answer(&state, &id, no(), 1).unwrap();
    let again = question("q2", &request("src/a.rs"));
    let Asked::Denied(denied) = state.ask(again.clone(), false, at(2)).unwrap() else {
        panic!("asked again");
    };
    assert_eq!(denied.request.id, id);
    assert!(matches!(
        state.ask(again.clone(), true, at(3)).unwrap(),
        Asked::New(_)
    ));
    let over = question("q3", &request("src/a.rs"));
    assert!(matches!(
        state.ask(over, false, at(OPEN)).unwrap(),
        Asked::New(_)
    ));
}

#[test]
fn an_answer_counts_once_in_time_and_for_its_owner_alone() {
    let place = place();
    let state = open(place.path());
    let id = asked(&state, "q1", "src/a.rs");
    let refuse = |error: AnswerStateError| match error {
        AnswerStateError::Answer(error) => error,
        other @ (AnswerStateError::Unknown(_)
        | AnswerStateError::Unproven(_)
        | AnswerStateError::Ended(_)
        | AnswerStateError::State(_)) => panic!("{other:?}"),
    };
    assert_eq!(
        refuse(answer(&state, &id, yes(&[]), OPEN).unwrap_err()),
        AnswerError::Expired
    );
    let unknown = ApprovalId::new("nothing").unwrap();
    assert!(matches!(
        answer(&state, &unknown, yes(&[]), 1),
        Err(AnswerStateError::Unknown(_))
    ));
    // To another user it is not there.
    let foreign = state.answer(&owner("eve"), &id, at(1), |_| panic!("asked"));
    assert!(matches!(foreign, Err(AnswerStateError::Unknown(_))));
    assert_eq!(state.approval(&owner("eve"), &id).unwrap(), None);
    assert!(asked_nothing(&state, "eve"));
    assert!(!state.revoke(&owner("eve"), &id, at(1)).unwrap());
    let approval = answer(&state, &id, yes(&[]), 1).unwrap();
    assert_eq!(approval.status(at(1)), ApprovalStatus::Granted);
    // A replayed answer, of either kind.
    for replayed in [yes(&[]), no(), yes(&[Condition::Uses(99)])] {
        let error = refuse(answer(&state, &id, replayed, 2).unwrap_err());
        assert_eq!(error, AnswerError::Settled);
    }
}

#[test]
fn a_deferral_leaves_the_question_open() {
    let place = place();
    let state = open(place.path());
    let id = asked(&state, "q1", "src/a.rs");
    let mut later = yes(&[]);
    later.reply = Reply::Defer;
    let approval = answer(&state, &id, later, 1).unwrap();
    assert_eq!(approval.status(at(2)), ApprovalStatus::Open);
    answer(&state, &id, yes(&[]), 2).unwrap();
}

#[test]
fn a_grant_covers_its_action_policy_and_time_and_its_uses_are_counted() {
    let place = place();
    let state = open(place.path());
    let id = asked(&state, "q1", "src/a.rs");
    let src = WorkspacePath::new("src").unwrap();
    let conditions = [Condition::Directory(src.into()), Condition::Uses(2)];
    answer(&state, &id, yes(&conditions), 1).unwrap();
    let (inside, outside) = (request("src/deep/b.rs"), request("tests/b.rs"));
    assert_eq!(state.use_grant(&query(&outside, 2)).unwrap(), None);
    let mut other = query(&inside, 2);
    other.generation = generation("another policy");
    assert_eq!(state.use_grant(&other).unwrap(), None);
    for left in [1, 0] {
        let granted = state.use_grant(&query(&inside, 2)).unwrap().unwrap();
        assert_eq!(
            (granted.id, granted.grant.uses_left),
            (id.clone(), Some(left))
        );
    }
    assert_eq!(state.use_grant(&query(&inside, 2)).unwrap(), None);
}

#[test]
fn a_revoked_or_outlived_grant_grants_nothing() {
    let place = place();
    let state = open(place.path());
    let until = [Condition::Until(at(100))];
    let id = asked(&state, "q1", "src/a.rs");
    answer(&state, &id, yes(&until), 1).unwrap();
    let request = request("src/a.rs");
    assert!(state.use_grant(&query(&request, 99)).unwrap().is_some());
    assert_eq!(state.use_grant(&query(&request, 100)).unwrap(), None);
    assert!(state.revoke(&owner("ada"), &id, at(2)).unwrap());
    assert_eq!(state.use_grant(&query(&request, 3)).unwrap(), None);
    assert!(!state.revoke(&owner("ada"), &id, at(3)).unwrap());
}

#[test]
fn a_row_without_its_events_is_not_honoured() {
    let forgeries = [
        // A grant for another name, copied from one that is used up.
        "INSERT INTO facts SELECT kind, 'q9', owner, parent, 'granted', due, mark, seq, replace(replace(body, '\"uses_left\":0', '\"uses_left\":9'), '\"id\":\"q1\"', '\"id\":\"q9\"') FROM facts WHERE id = 'q1'",
        // The same grant with its uses put back.
        "UPDATE facts SET status = 'granted', body = replace(body, '\"uses_left\":0', '\"uses_left\":9') WHERE id = 'q1'",
        // The event that used it up taken away from it.
        "UPDATE events SET subject = 'approval:other' WHERE seq = 3",
        // The same, and the row brought back to what it was.
        "UPDATE facts SET status = 'granted', body = replace(body, '\"uses_left\":0', '\"uses_left\":1'), seq = 2 WHERE id = 'q1'",
    ];
    for sql in forgeries {
        let place = place();
        let state = open(place.path());
        let id = asked(&state, "q1", "src/a.rs");
        answer(&state, &id, yes(&[]), 1).unwrap();
        let request = request("src/a.rs");
        assert!(state.use_grant(&query(&request, 2)).unwrap().is_some());
        assert_eq!(tamper(place.path(), sql), 1, "{sql}");
        assert_eq!(state.use_grant(&query(&request, 3)).unwrap(), None, "{sql}");
        assert!(state.verify().is_err(), "{sql}");
        // Opening it anew puts the rows right, or sets the whole file aside; neither grants.
        drop(state);
        let state = open(place.path());
        assert_eq!(state.use_grant(&query(&request, 3)).unwrap(), None, "{sql}");
        state.verify().unwrap();
    }
}

#[test]
fn a_changed_question_cannot_be_answered() {
    let place = place();
    let state = open(place.path());
    let id = asked(&state, "q1", "src/a.rs");
    let sql = "UPDATE facts SET body = replace(body, 'src/a.rs', 'src/b.rs')";
    assert_eq!(tamper(place.path(), sql), 1);
    assert!(matches!(
        answer(&state, &id, yes(&[]), 1),
        Err(AnswerStateError::Unproven(_))
    ));
    assert_eq!(state.approval(&owner("ada"), &id).unwrap(), None);
}

const RACE: &str = "AIRLOCK_STATE_RACE";
const ROUNDS: usize = 1_000;

/// What is raced for in that round; many sessions take part.
fn of_round(round: usize) -> airlock_core::Request {
    let mut request = request(&format!("src/{round}.rs"));
    request.caller.session = Some(format!("s{}", round % 100).parse().unwrap());
    request
}

/// Not a test of its own: the child of the race below. Takes what it can get, and says how much.
#[test]
fn racer() {
    let Ok(directory) = std::env::var(RACE) else {
        return;
    };
    let state = State::open(directory.as_ref(), at(0)).unwrap();
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let won: Vec<String> = (0..ROUNDS)
        .filter(|round| {
            let request = of_round(*round);
            state.use_grant(&query(&request, 2)).unwrap().is_some()
        })
        .map(|round| round.to_string())
        .collect();
    println!("won {}", won.join(","));
}

#[test]
fn of_two_processes_racing_for_the_last_use_exactly_one_wins_a_thousand_times() {
    use std::io::{BufRead, BufReader, Write};
    let place = place();
    let state = open(place.path());
    for round in 0..ROUNDS {
        let asked = question(&format!("q{round}"), &of_round(round));
        let id = asked.request.id.clone();
        state.ask(asked, false, at(0)).unwrap();
        answer(&state, &id, yes(&[]), 1).unwrap();
    }
    let exe = std::env::current_exe().unwrap();
    let mut racers: Vec<_> = (0..2)
        .map(|_| {
            Command::new(&exe)
                .args(["--exact", "racer", "--nocapture"])
                .env(RACE, place.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut outputs: Vec<_> = racers
        .iter_mut()
        .map(|racer| BufReader::new(racer.stdout.take().unwrap()).lines())
        .collect();
    for output in &mut outputs {
        assert!(output.any(|line| line.unwrap().contains("ready")));
    }
    for racer in &mut racers {
        writeln!(racer.stdin.take().unwrap(), "go").unwrap();
    }
    let mut won: Vec<usize> = Vec::new();
    for output in outputs {
        for line in output.map(Result::unwrap) {
            if let Some((_, rounds)) = line.split_once("won ") {
                won.extend(
                    rounds
                        .split(',')
                        .filter_map(|round| round.parse::<usize>().ok()),
                );
            }
        }
    }
    for racer in &mut racers {
        assert!(racer.wait().unwrap().success());
    }
    won.sort_unstable();
    assert_eq!(won, (0..ROUNDS).collect::<Vec<_>>());
    state.verify().unwrap();
}
