//! What an approval leaves: as far as its conditions go, and no further.

use super::*;

#[test]
fn an_approval_without_conditions_is_for_this_action_once() {
    let original = request("fs.write", &["src/a"]);
    let grant = give(&original, &[]).unwrap();
    assert!(grant.covers(&query(&original)));
    for (case, change) in CHANGES {
        let mut changed = original.clone();
        change(&mut changed);
        assert!(!grant.covers(&query(&changed)), "{case}");
    }
    let diff = Digest::of(b"diff");
    for (case, other) in [
        (
            "generation",
            Query {
                generation: generation("new"),
                ..query(&original)
            },
        ),
        (
            "stage",
            Query {
                stage: None,
                ..query(&original)
            },
        ),
        (
            "diff",
            Query {
                diff: Some(&diff),
                ..query(&original)
            },
        ),
        (
            "gate",
            Query {
                gate: Gate::FirstUse,
                ..query(&original)
            },
        ),
        (
            "late",
            Query {
                now: after(600),
                ..query(&original)
            },
        ),
        (
            "before it was given",
            Query {
                now: Timestamp::from_micros(0),
                ..query(&original)
            },
        ),
    ] {
        assert!(!grant.covers(&other), "{case}");
    }
    let mut grants = Grants::default();
    assert!(grants.insert(grant.clone()));
    let id = grants.matching(&query(&original)).unwrap().clone();
    assert!(grants.use_up(&id, after(1)));
    assert!(!grants.use_up(&id, after(1)));
    assert_eq!(grants.matching(&query(&original)), None);
    assert!(
        !grants.insert(grant),
        "inserting again must not renew its uses"
    );
}

#[test]
fn conditions_must_hold_for_the_action_that_was_shown() {
    let write = request("fs.write", &["src/a", "src/b"]);
    let verb = |name| Condition::Verb(Syscall::parse(name).unwrap());
    for (conditions, want) in [
        (vec![Condition::Directory(path_of("src"))], true),
        (vec![Condition::Directory(path_of("."))], true),
        (vec![Condition::Directory(path_of("src/a"))], false),
        (vec![Condition::Directory(path_of("sr"))], false),
        (vec![Condition::Directory(path_of("/src"))], false),
        (vec![Condition::Host("a.example".into())], false),
        (vec![verb("fs.write")], true),
        (vec![verb("fs.delete")], false),
        (vec![Condition::Uses(0)], false),
        (vec![Condition::Until(START)], false),
        (vec![Condition::Until(after(1))], true),
        (vec![Condition::Once; 17], false),
    ] {
        assert_eq!(give(&write, &conditions).is_ok(), want, "{conditions:?}");
    }
    let update = request("policy.update", &[]);
    assert!(give(&update, &[Condition::Once]).is_ok());
    for condition in [
        Condition::Uses(2),
        Condition::Until(after(9)),
        verb("policy.update"),
    ] {
        assert!(
            give(&update, &[condition]).is_err(),
            "elevated: one action, once"
        );
    }
}

#[test]
fn a_grant_stretches_only_the_way_it_says() {
    let write = request("fs.write", &["src/a"]);
    let in_src = Condition::Directory(path_of("src"));
    let grant = give(&write, &[in_src, Condition::Until(after(60))]).unwrap();
    for (case, paths, want) in [
        ("below", vec!["src/deep/x"], true),
        ("the directory itself", vec!["src"], true),
        ("two below", vec!["src/x", "src/y"], true),
        ("one elsewhere", vec!["src/x", "etc/y"], false),
        ("a namesake", vec!["src2/x"], false),
        ("climbing out", vec!["src/../etc"], false),
        ("outside", vec!["/src/x"], false),
        ("none", vec![], false),
    ] {
        assert_eq!(
            grant.covers(&query(&request("fs.write", &paths))),
            want,
            "{case}"
        );
    }
    assert!(!grant.covers(&query(&request("fs.delete", &["src/x"]))));

    let mut reach = connect("a.example");
    let grant = give(&reach, &[Condition::Host("a.example".into())]).unwrap();
    assert!(grant.covers(&query(&reach)));
    reach.arguments = serde_json::json!({ "note": "again" });
    assert!(grant.covers(&query(&reach)));
    reach.port = Some(22);
    assert!(
        !grant.covers(&query(&reach)),
        "another port is another service"
    );
    assert!(!grant.covers(&query(&connect("b.a.example"))));

    let any_write = give(&write, &[Condition::Verb(write.syscall)]).unwrap();
    assert!(any_write.covers(&query(&request("fs.write", &["docs/x"]))));
    assert!(!any_write.covers(&query(&request("fs.write", &["/etc/passwd"]))));
    let elsewhere = Query {
        generation: generation("new"),
        ..query(&write)
    };
    assert!(!any_write.covers(&elsewhere));
}

#[test]
fn a_stretched_grant_still_holds_everything_else_fixed() {
    let mut original = request("fs.write", &["src/a"]);
    original.host = Some("a.example".into());
    for (case, condition, tolerated) in [
        (
            "directory",
            Condition::Directory(path_of("src")),
            vec!["path", "one path more", "tier", "file size", "arguments"],
        ),
        (
            "host",
            Condition::Host("a.example".into()),
            vec!["tier", "file size", "arguments"],
        ),
        (
            "verb",
            Condition::Verb(original.syscall),
            vec![
                "path",
                "one path more",
                "host",
                "port",
                "command",
                "tier",
                "file size",
                "arguments",
            ],
        ),
    ] {
        let grant = give(&original, &[condition]).unwrap();
        let covered: Vec<&str> = CHANGES
            .into_iter()
            .filter(|(_, change)| {
                let mut changed = original.clone();
                change(&mut changed);
                grant.covers(&Query {
                    gate: grant.gate,
                    ..query(&changed)
                })
            })
            .map(|(name, _)| name)
            .collect();
        assert_eq!(covered, tolerated, "{case}");
    }
    // A stronger tier than the one shown is fine, a weaker one is not.
    let verb = Condition::Verb(original.syscall);
    original.tier = Tier::Container;
    let grant = give(&original, &[verb]).unwrap();
    original.tier = Tier::Process;
    assert!(!grant.covers(&query(&original)));
}

#[test]
fn uses_are_exact_and_the_smallest_count_and_time_hold() {
    let write = request("fs.write", &["src/a"]);
    for (conditions, want) in [
        (vec![Condition::Uses(3)], 3),
        (vec![Condition::Uses(3), Condition::Once], 1),
        (
            vec![
                Condition::Uses(2),
                Condition::Uses(5),
                Condition::Until(after(9)),
            ],
            2,
        ),
    ] {
        let mut grants = Grants::default();
        assert!(grants.insert(give(&write, &conditions).unwrap()));
        let mut used = 0;
        while let Some(id) = grants.matching(&query(&write)).cloned() {
            assert!(grants.use_up(&id, after(1)));
            used += 1;
        }
        assert_eq!(used, want, "{conditions:?}");
    }
    let both = [Condition::Until(after(9)), Condition::Until(after(5))];
    assert_eq!(give(&write, &both).unwrap().expires, after(5));
}

#[test]
fn revoked_grants_grant_nothing_and_finished_ones_can_be_forgotten() {
    let write = request("fs.write", &["src/a"]);
    let mut grants = Grants::default();
    assert!(grants.insert(give(&write, &[Condition::Uses(9)]).unwrap()));
    let id = ApprovalId::new("approval-1").unwrap();
    grants.prune(after(1));
    assert_eq!(grants.iter().count(), 1);
    assert!(grants.revoke(&id));
    assert!(!grants.revoke(&id));
    assert_eq!(grants.matching(&query(&write)), None);
    assert!(!grants.use_up(&id, after(1)));
    assert!(grants.get(&id).unwrap().revoked, "still visible");
    grants.prune(after(1));
    assert_eq!(grants.iter().count(), 0);
}
