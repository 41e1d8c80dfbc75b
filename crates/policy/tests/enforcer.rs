//! The enforcer's gates, its records, and its behaviour when everybody registers at once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_core::{PluginName, UserId, WorkspaceId};
use airlock_policy::capability::CapabilitySet;
use airlock_policy::{
    CapabilityCheck, CapabilityGate, CapabilityGrants, CheckQuery, CheckResult, CheckSink,
    Enforcer, EnforcerSnapshot,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn set(patterns: &[&str]) -> CapabilitySet {
    CapabilitySet::parse(patterns).unwrap()
}

fn grants(allow: &[&str], deny: &[&str]) -> CapabilityGrants {
    CapabilityGrants {
        allow: set(allow),
        deny: set(deny),
    }
}

fn plugin(name: &str) -> PluginName {
    PluginName::new(name).unwrap()
}

/// Everything a check needs besides plugin and capability.
struct Scene {
    workspace: CapabilitySet,
    user: CapabilitySet,
    workspace_id: WorkspaceId,
    user_id: UserId,
}

impl Scene {
    fn new(workspace: &[&str], user: &[&str]) -> Self {
        Self {
            workspace: set(workspace),
            user: set(user),
            workspace_id: WorkspaceId::new("site").unwrap(),
            user_id: UserId::new("ann").unwrap(),
        }
    }

    fn query<'a>(&'a self, plugin: &'a PluginName, capability: &'a str) -> CheckQuery<'a> {
        CheckQuery {
            plugin,
            capability,
            workspace: &self.workspace,
            user: &self.user,
            workspace_id: &self.workspace_id,
            user_id: &self.user_id,
        }
    }
}

/// Keeps every record as the words the log would hold.
#[derive(Default)]
struct Records(Vec<[String; 5]>);

impl CheckSink for Records {
    fn record(&mut self, check: &CapabilityCheck<'_>) {
        self.0.push([
            check.plugin.to_string(),
            check.capability.to_owned(),
            check.workspace.to_string(),
            check.user.to_string(),
            words(check.result),
        ]);
    }
}

fn words(result: CheckResult) -> String {
    match result {
        CheckResult::Allowed => "allowed".to_owned(),
        CheckResult::Denied(gate) => format!("denied: {gate}"),
    }
}

/// Checks by the enforcer and by its snapshot, and that each left exactly one true record.
fn check(enforcer: &Enforcer, scene: &Scene, name: &str, capability: &str) -> String {
    let plugin = plugin(name);
    let query = scene.query(&plugin, capability);
    let mut records = Records::default();
    let direct = enforcer.check(&query, &mut records);
    let sink: &mut dyn CheckSink = &mut records;
    let by_snapshot = enforcer.snapshot().check(&query, sink);
    assert_eq!(direct, by_snapshot);
    assert_eq!(enforcer.snapshot().would_grant(&query), direct.is_allowed());
    assert_eq!(direct.failed_gate().is_none(), direct.is_allowed());
    let record = [name, capability, "site", "ann", &words(direct)].map(str::to_owned);
    assert_eq!(records.0, [record.clone(), record], "one record a check");
    words(direct)
}

/// One row: what it shows, the plugin's allow and deny sets (unregistered without), the
/// workspace's set, the user's set, the capability asked for, the answer.
type Row<'a> = (
    &'a str,
    Option<[&'a [&'a str]; 2]>,
    &'a [&'a str],
    &'a [&'a str],
    &'a str,
    &'a str,
);

const ALL: &[&str] = &["*"];
const NONE: &[&str] = &[];
const X: &[&str] = &["kv.x"];
const Y: &[&str] = &["kv.y"];

#[rustfmt::skip]
const ROWS: &[Row<'_>] = &[
    ("all grant it", Some([X, NONE]), ALL, ALL, "kv.x", "allowed"),
    ("allow lacks it", Some([Y, NONE]), ALL, ALL, "kv.x", "denied: plugin"),
    ("allow is empty", Some([NONE, NONE]), ALL, ALL, "kv.x", "denied: plugin"),
    ("allow and deny have it", Some([X, X]), ALL, ALL, "kv.x", "denied: plugin deny"),
    ("deny has it by wildcard", Some([ALL, &["kv.*"]]), ALL, ALL, "kv.x", "denied: plugin deny"),
    ("workspace lacks it", Some([X, NONE]), Y, ALL, "kv.x", "denied: workspace"),
    ("workspace is empty", Some([X, NONE]), NONE, ALL, "kv.x", "denied: workspace"),
    ("user lacks it", Some([X, NONE]), ALL, Y, "kv.x", "denied: user"),
    ("user is empty", Some([X, NONE]), ALL, NONE, "kv.x", "denied: user"),
    ("three sets, all", Some([&["a.*"], NONE]), &["*.k", "*.w"], &["a.k", "a.u"], "a.k", "allowed"),
    ("not the plugin", Some([&["a.*"], NONE]), &["*.k"], &["b.k"], "b.k", "denied: plugin"),
    ("not the workspace", Some([&["a.*"], NONE]), &["*.k"], &["a.u"], "a.u", "denied: workspace"),
    ("not the user", Some([&["a.*"], NONE]), &["*.w"], &["a.u"], "a.w", "denied: user"),
    ("nobody registered", None, ALL, ALL, "kv.x", "denied: unknown plugin"),
    ("unknown plugin comes first", None, NONE, NONE, "", "denied: unknown plugin"),
    ("then the plugin", Some([NONE, ALL]), NONE, NONE, "kv.x", "denied: plugin"),
    ("then its deny", Some([X, X]), NONE, NONE, "kv.x", "denied: plugin deny"),
    ("then the workspace", Some([X, NONE]), NONE, NONE, "kv.x", "denied: workspace"),
];

#[test]
fn a_capability_is_granted_only_if_every_gate_lets_it_through() {
    for (case, registered, workspace, user, capability, want) in ROWS {
        let enforcer = Enforcer::new();
        if let Some([allow, deny]) = registered {
            enforcer
                .register(plugin("tickets"), grants(allow, deny))
                .unwrap();
        }
        let scene = Scene::new(workspace, user);
        assert_eq!(
            check(&enforcer, &scene, "tickets", capability),
            *want,
            "{case}"
        );
    }
}

#[test]
fn a_malformed_capability_is_denied_to_everybody_and_recorded() {
    let enforcer = Enforcer::new();
    enforcer
        .register(plugin("cli"), grants(&["*", "f./**"], &[]))
        .unwrap();
    let scene = Scene::new(&["*", "f./**"], &["*", "f./**"]);
    assert_eq!(check(&enforcer, &scene, "cli", "f./a/b"), "allowed");
    let long = "x".repeat(100_000);
    for bad in [
        "",
        ".",
        "a..b",
        "f./a/../etc/shadow",
        "f.//",
        "f./a\0",
        "f.~root/x",
        &long,
    ] {
        assert_eq!(
            check(&enforcer, &scene, "cli", bad),
            "denied: plugin",
            "{bad:.40?}"
        );
    }
}

#[test]
fn registering_and_forgetting_take_effect_at_once() {
    let enforcer = Enforcer::new();
    let scene = Scene::new(&["*"], &["*"]);
    let name = plugin("tickets");
    assert!(enforcer.unregister(&name).is_err());
    assert_eq!(
        enforcer
            .replace(&name, grants(&["*"], &[]))
            .unwrap_err()
            .to_string(),
        "plugin `tickets` is not registered"
    );
    assert_eq!(
        check(&enforcer, &scene, "tickets", "kv.x"),
        "denied: unknown plugin"
    );

    enforcer
        .register(name.clone(), grants(&["kv.*"], &[]))
        .unwrap();
    assert_eq!(check(&enforcer, &scene, "tickets", "kv.x"), "allowed");
    let again = enforcer
        .register(name.clone(), grants(&["*"], &[]))
        .unwrap_err();
    assert_eq!(again.to_string(), "plugin `tickets` is already registered");
    assert_eq!(
        check(&enforcer, &scene, "tickets", "exec.run"),
        "denied: plugin"
    );

    enforcer
        .replace(&name, grants(&["kv.*"], &["kv.x"]))
        .unwrap();
    assert_eq!(
        check(&enforcer, &scene, "tickets", "kv.x"),
        "denied: plugin deny"
    );
    assert_eq!(check(&enforcer, &scene, "tickets", "kv.y"), "allowed");
    assert_eq!(
        check(&enforcer, &scene, "other", "kv.y"),
        "denied: unknown plugin"
    );

    let before = enforcer.snapshot();
    enforcer.unregister(&name).unwrap();
    assert_eq!(
        check(&enforcer, &scene, "tickets", "kv.y"),
        "denied: unknown plugin"
    );
    assert!(
        enforcer.replace(&name, grants(&["*"], &[])).is_err(),
        "forgotten stays forgotten"
    );
    assert!(
        before.would_grant(&scene.query(&name, "kv.y")),
        "a snapshot stays as it was"
    );
    assert_eq!(before.plugins(), [&name]);
    assert_eq!(before.grants(&name), Some(&grants(&["kv.*"], &["kv.x"])));
    assert!(enforcer.snapshot().plugins().is_empty());
}

#[test]
fn gates_have_the_words_of_the_log() {
    let gates = [
        CapabilityGate::UnknownPlugin,
        CapabilityGate::Plugin,
        CapabilityGate::PluginDeny,
        CapabilityGate::Workspace,
        CapabilityGate::User,
    ];
    let words = [
        "unknown plugin",
        "plugin",
        "plugin deny",
        "workspace",
        "user",
    ];
    assert_eq!(gates.map(CapabilityGate::as_str), words);
}

/// The two registrations the race flips between. Allow of one with deny of the other would grant
/// `kv.probe`, or stop `kv.other` at the deny set: neither registration does either.
fn halves() -> [CapabilityGrants; 2] {
    [
        grants(&["kv.probe"], &["kv.probe", "kv.other"]),
        grants(&["kv.other"], &[]),
    ]
}

/// What the two probes answer in one snapshot.
fn probe(snapshot: &EnforcerSnapshot, scene: &Scene, name: &PluginName) -> [CheckResult; 2] {
    ["kv.probe", "kv.other"].map(|capability| {
        let mut records = 0;
        let mut sink = |_: &CapabilityCheck<'_>| records += 1;
        let result = snapshot.check(&scene.query(name, capability), &mut sink);
        assert_eq!(records, 1);
        result
    })
}

#[test]
fn no_check_ever_sees_half_an_update() {
    use CheckResult::{Allowed, Denied};
    const ROUNDS: usize = 3_000;
    const PATIENCE: Duration = Duration::from_secs(30);
    let whole = [
        [Denied(CapabilityGate::UnknownPlugin); 2],
        [
            Denied(CapabilityGate::PluginDeny),
            Denied(CapabilityGate::Plugin),
        ],
        [Denied(CapabilityGate::Plugin), Allowed],
    ];
    let seen = [const { AtomicUsize::new(0) }; 3];
    let (enforcer, scene, done) = (
        Enforcer::new(),
        Scene::new(&["*"], &["*"]),
        AtomicBool::new(false),
    );
    let names = [plugin("first"), plugin("second")];
    let [closed, open] = halves();

    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (enforcer, names, closed, open) = (&enforcer, &names, &closed, &open);
                let seen = &seen;
                scope.spawn(move || {
                    let began = Instant::now();
                    for round in 0.. {
                        // A busy machine may not run the readers for a while: go on until they saw
                        // what they are here to see.
                        let unseen = seen.iter().any(|times| times.load(Ordering::Relaxed) == 0);
                        if round > ROUNDS && !(unseen && began.elapsed() < PATIENCE) {
                            break;
                        }
                        let name = names.get(round % 2).unwrap();
                        let grants = if (round / 2 + writer) % 2 == 0 {
                            closed
                        } else {
                            open
                        };
                        // Each may lose to another writer; what matters is what readers see.
                        match round % 5 {
                            0 | 3 => drop(enforcer.register(name.clone(), grants.clone())),
                            1 | 2 => drop(enforcer.replace(name, grants.clone())),
                            _ => drop(enforcer.unregister(name)),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let snapshot = enforcer.snapshot();
                    for name in &names {
                        let results = probe(&snapshot, &scene, name);
                        let state = whole.iter().position(|whole| *whole == results);
                        assert!(state.is_some(), "half an update: {results:?}");
                        seen.get(state.unwrap())
                            .unwrap()
                            .fetch_add(1, Ordering::Relaxed);
                        let mut sink = |_: &CapabilityCheck<'_>| ();
                        let direct = enforcer.check(&scene.query(name, "kv.probe"), &mut sink);
                        assert_ne!(direct, Allowed, "half an update");
                    }
                }
            });
        }
        let ended: Vec<_> = writers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    let seen = seen.map(AtomicUsize::into_inner);
    assert!(
        seen.iter().all(|times| *times > 0),
        "a state was never seen: {seen:?}"
    );
}

#[test]
fn no_registration_is_lost_or_won_twice_in_a_race() {
    const THREADS: usize = 4;
    const PLUGINS: usize = 200;
    let enforcer = Enforcer::new();
    let won = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (enforcer, won) = (&enforcer, &won);
            scope.spawn(move || {
                for number in 0..PLUGINS {
                    let own = plugin(&format!("own-{thread}-{number}"));
                    enforcer.register(own, grants(&["a"], &[])).unwrap();
                    let shared = plugin(&format!("shared-{number}"));
                    if enforcer.register(shared, grants(&["a"], &[])).is_ok() {
                        won.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(won.into_inner(), PLUGINS);
    assert_eq!(
        enforcer.snapshot().plugins().len(),
        PLUGINS * THREADS + PLUGINS
    );
    let forgotten = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..PLUGINS {
                    if enforcer
                        .unregister(&plugin(&format!("shared-{number}")))
                        .is_ok()
                    {
                        forgotten.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(forgotten.into_inner(), PLUGINS);
    assert_eq!(enforcer.snapshot().plugins().len(), PLUGINS * THREADS);
}
