//! Random chains of narrowings.

use super::*;

/// A glob from a small world, so that one often covers another, or almost does.
fn any_glob() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "**",
        "src/**",
        "src/**",
        "src/a/**",
        "src/a/*",
        "src/*.rs",
        "*.rs",
        "src",
        "src/a/b.rs",
        "tests/**",
        "!src/a/b.rs",
        "!*.rs",
        "{src,tests}/**",
        "s*/**",
    ])
}

fn any_scope() -> impl Strategy<Value = Scope> {
    (
        prop::collection::vec(any_glob(), 1..4),
        0..30u32,
        1..4u64,
        prop::option::of(0..3u64),
    )
        .prop_map(|(globs, operations, seconds, size)| {
            let mut scope = scope(&globs, operations);
            scope.lifetime = Span::from_secs(seconds);
            scope.constraints.max_file_size = size.map(ByteSize::from_bytes);
            scope
        })
}

fn any_terms() -> impl Strategy<Value = Terms> {
    (any_scope(), prop::option::of(any_scope()))
        .prop_map(|(scope, delegable)| Terms { scope, delegable })
}

/// How a child is asked for: its parent's terms, changed a little, for better or worse.
#[derive(Debug, Clone)]
struct Step {
    from_delegable: bool,
    replaced: Option<(usize, &'static str)>,
    added: Option<&'static str>,
    fewer: u32,
    seconds: u64,
    size: Option<u64>,
}

fn any_step() -> impl Strategy<Value = Step> {
    let rarely = |glob| prop::option::weighted(0.1, glob);
    (
        any::<bool>(),
        prop::option::of((0..3usize, any_glob())),
        rarely(any_glob()),
        0..4u32,
        1..4u64,
        prop::option::of(0..3u64),
    )
        .prop_map(
            |(from_delegable, replaced, added, fewer, seconds, size)| Step {
                from_delegable,
                replaced,
                added,
                fewer,
                seconds,
                size,
            },
        )
}

impl Step {
    fn child_of(&self, parent: &Terms) -> Terms {
        let mut scope = match &parent.delegable {
            Some(delegable) if self.from_delegable => delegable.clone(),
            _ => parent.scope.clone(),
        };
        if let Some((index, glob)) = self.replaced
            && let Some(slot) = scope.paths.get_mut(index)
        {
            *slot = glob.into();
        }
        scope.paths.extend(self.added.map(Arc::from));
        scope.operations = scope.operations.saturating_sub(self.fewer);
        scope.lifetime = Span::from_secs(self.seconds);
        scope.constraints.max_file_size = self.size.map(ByteSize::from_bytes);
        Terms {
            scope,
            delegable: parent.delegable.clone(),
        }
    }
}

const WORLD: [&str; 9] = [
    "src",
    "src/a",
    "src/x.rs",
    "src/a/b.rs",
    "src/a/b",
    "src/a/b/c",
    "tests/t.rs",
    "main.rs",
    "x",
];

/// Whether a fresh token for `scope` alone would let `path` be written at `now`.
fn permitted(scope: &Scope, path: &str, now: Timestamp) -> bool {
    let authority = TokenAuthority::new(SECRET);
    let mut scope = scope.clone();
    scope.operations = scope.operations.max(1);
    authority
        .prepare(scope, bearer(), START)
        .map(airlock_policy::token::Pending::activate)
        .is_ok_and(|token| redeem(&authority, &token, &write(path), now).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_narrowed_token_does_nothing_its_parents_could_not(
        root in any_terms(),
        steps in prop::collection::vec(any_step(), 1..5),
        millis in 0..4_000u64,
    ) {
        let authority = TokenAuthority::new(SECRET);
        let now = after(millis);
        let Ok(pending) = authority.prepare(root.clone(), bearer(), START) else {
            return Ok(());
        };
        let mut token = pending.activate();
        let mut ancestors = vec![root];
        for step in steps {
            let level = u32::try_from(ancestors.len()).unwrap() - 1;
            let child = step.child_of(ancestors.last().unwrap());
            // A step that would widen is refused; the next one is tried from the same parent.
            let Ok(narrowed) = narrow(&authority, level, &token, child.clone()) else {
                continue;
            };
            token = narrowed;
            for path in WORLD {
                let request = request_at(level + 1, "fs.write", &[path]);
                let Ok(used) = authority.redeem(&token, &request, policy(), now) else {
                    continue;
                };
                for ancestor in &ancestors {
                    let scopes = std::iter::once(&ancestor.scope).chain(&ancestor.delegable);
                    let able: Vec<_> = scopes.filter(|scope| permitted(scope, path, now)).collect();
                    prop_assert!(!able.is_empty(), "{path} of {child:?} under {ancestor:?}");
                    let as_strict = |scope: &&Scope| match scope.constraints.max_file_size {
                        Some(most) => used.constraints.max_file_size.is_some_and(|size| size <= most),
                        None => true,
                    };
                    prop_assert!(able.iter().any(as_strict));
                }
            }
            ancestors.push(child);
        }
    }

    #[test]
    fn text_that_is_no_token_never_reads_as_one(text in "(alt1_)?[0-9a-fA-F_]{0,160}") {
        if let Ok(token) = Token::parse(&text) {
            let again = token.reveal();
            prop_assert_eq!(again.as_str(), text.as_str());
        }
    }
}
