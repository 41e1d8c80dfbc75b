//! Random grants and requests.

use super::*;

fn any_path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "src/a", "src/b", "src/d/x", "docs/a", ".", "src", "/etc/a",
    ])
}

fn any_request() -> impl Strategy<Value = Request> {
    (
        prop::sample::select(vec!["fs.write", "fs.delete", "net.connect", "exec.run"]),
        prop::collection::vec(any_path(), 0..3),
        prop::option::of(prop::sample::select(vec!["a.example", "b.example"])),
        prop::option::of(prop::sample::select(vec!["cargo", "rm"])),
        prop::option::of(0..2u16),
    )
        .prop_map(|(name, paths, host, program, port)| {
            let mut request = request(name, &paths);
            request.host = host.map(Into::into);
            request.command = program.map(Into::into).into_iter().collect();
            request.port = port;
            request
        })
}

fn any_condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        Just(Condition::Once),
        (1..4u32).prop_map(Condition::Uses),
        (1..5u64).prop_map(|secs| Condition::Until(after(secs))),
        any_path().prop_map(|path| Condition::Directory(path_of(path))),
        prop::sample::select(vec!["fs.write", "net.connect", "exec.run"])
            .prop_map(|name| Condition::Verb(Syscall::parse(name).unwrap())),
        prop::sample::select(vec!["a.example", "b.example"])
            .prop_map(|host| Condition::Host(host.into())),
    ]
}

/// What one condition, read by itself, says about a request.
fn holds(condition: &Condition, request: &Request, used: u32, now: Timestamp) -> bool {
    match condition {
        Condition::Once => used == 0,
        Condition::Uses(most) => used < *most,
        Condition::Until(time) => now < *time,
        Condition::Directory(directory) => {
            let inside = |path: &RequestPath| {
                path.inside().is_some()
                    && (directory.as_str() == "."
                        || path == directory
                        || path.as_str().starts_with(&format!("{directory}/")))
            };
            !request.paths.is_empty() && request.paths.iter().all(inside)
        }
        Condition::Verb(syscall) => request.syscall == *syscall,
        Condition::Host(host) => request.host.as_ref() == Some(host),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_grant_never_matches_outside_its_conditions(
        original in any_request(),
        conditions in prop::collection::vec(any_condition(), 0..4),
        later in prop::collection::vec((any_request(), 0..6u64), 1..6),
    ) {
        let Ok(grant) = give(&original, &conditions) else {
            return Ok(());
        };
        let mut grants = Grants::default();
        prop_assert!(grants.insert(grant));
        let mut used = 0;
        // The original among them, so that some uses are granted.
        for (request, secs) in later.into_iter().chain([(original.clone(), 0)]) {
            let now = after(secs);
            let asked = Query { now, gate: gate_for(&original, &NOTHING), ..query(&request) };
            let Some(id) = grants.matching(&asked).cloned() else {
                continue;
            };
            for condition in &conditions {
                prop_assert!(holds(condition, &request, used, now), "{condition:?} on {request:?}");
            }
            prop_assert_eq!(request.syscall, original.syscall);
            let stretched = conditions.iter().any(|condition| {
                matches!(condition, Condition::Directory(_) | Condition::Verb(_) | Condition::Host(_))
            });
            prop_assert!(stretched || request == original);
            prop_assert!(grants.use_up(&id, now));
            used += 1;
        }
    }
}
