//! Children of tokens: never more than their parents.

use super::*;

#[test]
fn a_childs_uses_count_against_all_its_ancestors() {
    let authority = TokenAuthority::new(SECRET);
    let parent = issue(&authority, scope(&["src/**"], 3));
    let first = narrow(&authority, 0, &parent, scope(&["src/**"], 2)).unwrap();
    let second = narrow(&authority, 0, &parent, scope(&["src/**"], 2)).unwrap();
    let by_child = request_at(1, "fs.write", &["src/a"]);
    assert_eq!(redeem(&authority, &first, &by_child, START), Ok(()));
    assert_eq!(redeem(&authority, &first, &by_child, START), Ok(()));
    assert_eq!(
        redeem(&authority, &first, &by_child, START),
        Err(NoToken::UsedUp)
    );
    assert_eq!(redeem(&authority, &second, &by_child, START), Ok(()));
    assert_eq!(
        redeem(&authority, &second, &by_child, START),
        Err(NoToken::UsedUp),
        "the parent's third use was the last"
    );
    assert_eq!(
        redeem(&authority, &parent, &write("src/a"), START),
        Err(NoToken::UsedUp)
    );
}

#[test]
fn narrowing_refuses_everything_that_would_widen() {
    let mut wide = scope(&["src/**", "!src/keys/**"], 3);
    wide.constraints = Constraints {
        require_sandbox: Some(Tier::Container),
        max_file_size: Some(ByteSize::from_bytes(100)),
        ..Constraints::default()
    };
    let authority = TokenAuthority::new(SECRET);
    let parent = issue(&authority, wide);
    let with = |change: fn(&mut Scope)| {
        let mut scope = scope(&["src/a", "!src/keys/**"], 1);
        change(&mut scope);
        scope
    };
    for (case, child, want) in [
        (
            "syscall",
            with(|s| s.syscall = syscall("fs.delete")),
            NarrowError::Syscall(syscall("fs.delete")),
        ),
        (
            "path",
            with(|s| s.paths.push("etc/**".into())),
            NarrowError::Paths("etc/**".into()),
        ),
        (
            "dropped exclusion",
            with(|s| s.paths.truncate(1)),
            NarrowError::Paths("!src/keys/**".into()),
        ),
        (
            "name",
            with(|s| s.names.push("sh".into())),
            NarrowError::Names("sh".into()),
        ),
        (
            "operations",
            with(|s| s.operations = 4),
            NarrowError::Operations { left: 3 },
        ),
        (
            "size",
            with(|s| s.constraints.max_file_size = Some(ByteSize::from_bytes(101))),
            NarrowError::Constraint("max_file_size"),
        ),
        (
            "sandbox",
            with(|s| s.constraints.require_sandbox = Some(Tier::Process)),
            NarrowError::Constraint("require_sandbox"),
        ),
    ] {
        assert_eq!(
            narrow(&authority, 0, &parent, child).map(|token| token.id()),
            Err(want),
            "{case}"
        );
    }
    let child = narrow(&authority, 0, &parent, with(|_| {})).unwrap();
    let used = authority
        .redeem(
            &child,
            &request_at(1, "fs.write", &["src/a"]),
            policy(),
            START,
        )
        .unwrap();
    assert_eq!(used.constraints.require_sandbox, Some(Tier::Container));
    assert_eq!(
        used.constraints.max_file_size,
        Some(ByteSize::from_bytes(100)),
        "what the child leaves open it inherits"
    );
}

#[test]
fn only_the_holder_narrows_and_the_child_never_outlives_the_parent() {
    let authority = TokenAuthority::new(SECRET);
    let parent = issue(&authority, scope(&["src/**"], 3));
    assert_eq!(
        narrow(&authority, 5, &parent, scope(&["src/a"], 1)).map(|token| token.id()),
        Err(NarrowError::NoToken(NoToken::OtherSandbox))
    );
    let late = |now| {
        authority
            .narrow(
                &parent,
                &caller(),
                policy(),
                scope(&["src/a"], 1),
                holder_at(1),
                now,
            )
            .map(airlock_policy::token::Pending::activate)
    };
    let child = late(after(29_000)).unwrap();
    let request = request_at(1, "fs.write", &["src/a"]);
    assert_eq!(
        redeem(&authority, &child, &request, after(30_000)),
        Err(NoToken::Expired)
    );
    assert_eq!(redeem(&authority, &child, &request, after(29_500)), Ok(()));
    assert_eq!(
        late(after(30_000)).map(|token| token.id()),
        Err(NarrowError::NoToken(NoToken::Expired))
    );
}

#[test]
fn chains_of_narrowings_are_short() {
    let authority = TokenAuthority::new(SECRET);
    let mut token = issue(&authority, scope(&["src/**"], 3));
    for level in 0..7 {
        token = narrow(&authority, level, &token, scope(&["src/**"], 3)).unwrap();
    }
    assert_eq!(
        narrow(&authority, 7, &token, scope(&["src/**"], 3)).map(|token| token.id()),
        Err(NarrowError::TooDeep)
    );
}

#[test]
fn a_coordinator_hands_on_what_it_cannot_use() {
    let authority = TokenAuthority::new(SECRET);
    let coordinator = issue(
        &authority,
        Terms {
            scope: scope(&["notes/**"], 0),
            delegable: Some(scope(&["src/**"], 2)),
        },
    );
    for path in ["src/a", "notes/a"] {
        assert!(redeem(&authority, &coordinator, &write(path), START).is_err());
    }
    let worker = narrow(&authority, 0, &coordinator, scope(&["src/a"], 2)).unwrap();
    let request = request_at(1, "fs.write", &["src/a"]);
    assert_eq!(redeem(&authority, &worker, &request, START), Ok(()));
    assert_eq!(redeem(&authority, &worker, &request, START), Ok(()));
    assert_eq!(
        narrow(&authority, 0, &coordinator, scope(&["src/b"], 1)).map(|token| token.id()),
        Err(NarrowError::NoToken(NoToken::UsedUp)),
        "the workers' uses count"
    );
    // What a worker got to use it may not pass off as more to hand on.
    let greedy = Terms {
        scope: scope(&["src/a"], 0),
        delegable: Some(scope(&["**"], 1)),
    };
    let fresh = issue(
        &authority,
        Terms {
            scope: scope(&["notes/**"], 1),
            delegable: Some(scope(&["src/**"], 2)),
        },
    );
    assert_eq!(
        narrow(&authority, 0, &fresh, greedy).map(|token| token.id()),
        Err(NarrowError::Paths("**".into()))
    );
}
