//! Plans: what is refused, and that narrowing never widens.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_core::{ByteSize, Span};
use airlock_sandbox::plan::{Class, Destination, Host, Limit, Limits, Network, OwnVariable};
use airlock_sandbox::seccomp::Profile;
use airlock_sandbox::{HostPath, Plan, PlanBuilder, Problem, Surroundings, Template, View};
use proptest::prelude::*;
use std::ffi::OsStr;

fn path(text: &str) -> HostPath {
    HostPath::new(text).unwrap()
}

fn surroundings() -> Surroundings {
    Surroundings {
        own: vec![
            path("/home/u/.local/state/airlock"),
            path("/home/u/.config/airlock"),
        ],
        home: Some(path("/home/u")),
    }
}

fn begin(template: &str) -> PlanBuilder {
    Plan::builder(Template::find(template).unwrap(), &surroundings())
}

fn problems(builder: PlanBuilder) -> Vec<Problem> {
    builder.build().unwrap_err().problems().to_vec()
}

#[test]
fn an_empty_plan_grants_nothing() {
    let plan = begin("code-executor").build().unwrap();
    assert!(plan.mounts().is_empty());
    assert!(!plan.can_read(&path("/home/u/x")));
    assert_eq!(plan.network(), &Network::None);
    assert!(
        plan.environment()
            .resolve([("HOME".into(), "/home/u".into())])
            .is_empty()
    );
    assert_eq!(plan.limits(), &plan.template().limits);
}

#[test]
fn places_that_lead_out_are_refused_in_every_kind_of_grant() {
    for place in [
        "/",
        "/proc",
        "/proc/1/root",
        "/sys",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/shm",
        "/dev/../dev",
        "/run",
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/user/1000/podman/podman.sock",
        "/run/user/1000/bus",
        "/var/lib/docker",
        "/home/u/.docker/run/docker.sock",
        "/home/u/.local/state/airlock",
        "/home/u/.local/state/airlock/w/audit.db",
        "/home/u/.config/airlock",
        "//proc/",
        "relative",
        "",
        "/a\0",
    ] {
        for (kind, builder) in [
            ("read", begin("code-executor").read(place)),
            ("write", begin("code-executor").write(place)),
            (
                "workspace",
                begin("code-executor").workspace(place, View::ReadOnly),
            ),
        ] {
            let found = problems(builder);
            assert!(!found.is_empty(), "{kind} {place}");
            assert!(found.iter().all(|problem| !problem.hint().is_empty()));
        }
    }
}

#[test]
fn what_a_wide_grant_holds_of_them_is_denied() {
    let plan = begin("code-executor")
        .read("/home/u")
        .read("/var")
        .read("/etc")
        .build()
        .unwrap();
    for (place, want) in [
        ("/home/u/x", true),
        ("/var/cache", true),
        ("/home/u/.local/state/airlock", false),
        ("/home/u/.local/state/airlock/keys/a", false),
        ("/home/u/.docker/config.json", false),
        ("/var/run/docker.sock", false),
        ("/etc/passwd", true),
        ("/etc/shadow", false),
    ] {
        assert_eq!(plan.can_read(&path(place)), want, "{place}");
    }
}

#[test]
fn every_problem_is_reported_at_once() {
    let template = Template::find("code-executor").unwrap();
    let limits = Limits {
        memory: ByteSize::from_bytes(8 << 30),
        duration: Span::from_millis(1),
        ..template.limits
    };
    let found = problems(
        begin("code-executor")
            .workspace("/w", View::Staged)
            .read("relative")
            .read("/w/secret/a")
            .write("/w/target")
            .deny("/w/secret")
            .deny_pattern("*.{a,b}")
            .inherit("LD_PRELOAD")
            .set("A", "x\0")
            .reach("*", 443)
            .reach("example.org", 0)
            .reach("example.org", 443)
            .limits(limits)
            .profile(Profile::StandardNet)
            .directory("/elsewhere"),
    );
    let has = |want: &dyn Fn(&Problem) -> bool, name: &str| {
        assert!(found.iter().any(want), "no {name} in {found:#?}");
    };
    has(
        &|p| matches!(p, Problem::Path { field: "read", .. }),
        "path",
    );
    has(
        &|p| matches!(p, Problem::GrantInsideDenial { field: "read", .. }),
        "denial",
    );
    has(
        &|p| matches!(p, Problem::WriteMeetsWorkspace { .. }),
        "write",
    );
    has(&|p| matches!(p, Problem::Pattern(_)), "pattern");
    has(&|p| matches!(p, Problem::Host(_)), "host");
    has(&|p| matches!(p, Problem::Port(_)), "port");
    has(&|p| matches!(p, Problem::NoNetwork { .. }), "network");
    has(&|p| matches!(p, Problem::Limit(_)), "limit");
    has(
        &|p| {
            matches!(
                p,
                Problem::AboveTemplate {
                    limit: "memory",
                    ..
                }
            )
        },
        "template",
    );
    has(&|p| matches!(p, Problem::Profile { .. }), "profile");
    has(
        &|p| matches!(p, Problem::DirectoryNotVisible(_)),
        "directory",
    );
    let variables = found.iter().filter(|p| matches!(p, Problem::Variable(_)));
    assert_eq!(variables.count(), 2);
}

#[test]
fn the_workspace_is_written_only_through_its_stage_and_its_policy_never() {
    for (view, place, want) in [
        (View::ReadOnly, "/w/a", false),
        (View::Staged, "/w/a", true),
        (View::Staged, "/w/.airlock/policy.yaml", false),
        (View::Staged, "/w/.airlock", false),
        (View::Staged, "/x", false),
    ] {
        let plan = begin("code-executor")
            .workspace("/w", view)
            .build()
            .unwrap();
        assert_eq!(plan.can_write(&path(place)), want, "{view:?} {place}");
    }
    for grant in ["/w", "/w/target", "/"] {
        let builder = begin("code-executor")
            .workspace("/w", View::Staged)
            .write(grant);
        let meets = |problem: &Problem| matches!(problem, Problem::WriteMeetsWorkspace { .. });
        assert!(problems(builder).iter().any(meets), "{grant}");
    }
}

#[test]
fn denials_hold_inside_grants() {
    let plan = begin("code-executor")
        .workspace("/w", View::Staged)
        .read("/home/u")
        .deny_pattern("**/.env")
        .deny_pattern("~/.ssh/**")
        .deny("/w/private")
        .deny_writing("/w/vendor")
        .build()
        .unwrap();
    for (place, read, write) in [
        ("/w/a", true, true),
        ("/w/.env", false, false),
        ("/w/deep/er/.env", false, false),
        ("/w/private/x", false, false),
        ("/w/vendor/x", true, false),
        ("/home/u/.ssh/id_ed25519", false, false),
        ("/home/u/notes", true, false),
    ] {
        assert_eq!(plan.can_read(&path(place)), read, "{place}");
        assert_eq!(plan.can_write(&path(place)), write, "{place}");
    }
}

#[cfg(unix)]
#[test]
fn names_that_are_not_utf_8_can_be_granted() {
    use std::os::unix::ffi::OsStrExt;
    let name = OsStr::from_bytes(b"/data/\xff");
    let plan = begin("code-executor").read(name).build().unwrap();
    assert!(plan.can_read(&HostPath::new(name).unwrap()));
    assert!(!plan.can_read(&path("/data")));
}

/// A plan from small parts, so that two of them often meet.
fn plans() -> impl Strategy<Value = Plan> {
    let place = || "(/[ab]){1,3}";
    let list = || proptest::collection::vec(place(), 0..3);
    let pattern = "(/|\\*\\*/)[ab*?]{1,2}(/\\*\\*)?";
    let grants = (
        proptest::option::of((place(), any::<bool>())),
        list(),
        list(),
        list(),
        proptest::collection::vec(pattern, 0..2),
    );
    let rest = (
        proptest::collection::vec("[XY]", 0..3),
        proptest::collection::vec(("[XY]", "[12]"), 0..3),
        proptest::collection::vec("(\\*\\.)?[pq](\\.[pq])?", 0..3),
        64_u64..200,
        1_u32..100,
        any::<bool>(),
        proptest::option::of("[12]"),
    );
    (grants, rest).prop_filter_map("not a plan", |(grants, rest)| {
        let (workspace, reads, writes, denials, patterns) = grants;
        let (inherited, set, hosts, mebibytes, pids, strict, own) = rest;
        let template = Template::find("integration-test").unwrap();
        let mut builder = Plan::builder(template, &Surroundings::default()).limits(Limits {
            memory: ByteSize::from_bytes(mebibytes << 20),
            pids,
            ..template.limits
        });
        if let Some((path, staged)) = workspace {
            let view = if staged { View::Staged } else { View::ReadOnly };
            builder = builder.workspace(path, view);
        }
        builder = reads.iter().fold(builder, PlanBuilder::read);
        builder = writes.iter().fold(builder, PlanBuilder::write);
        builder = denials.iter().fold(builder, PlanBuilder::deny);
        builder = patterns
            .iter()
            .fold(builder, |b, text| b.deny_pattern(text));
        builder = inherited.iter().fold(builder, PlanBuilder::inherit);
        builder = set
            .iter()
            .fold(builder, |b, (name, value)| b.set(name, value));
        builder = hosts.iter().fold(builder, |b, host| b.reach(host, 443));
        if strict {
            builder = builder
                .profile(Profile::Strict)
                .require(Limit::Memory, Class::Enforced);
        }
        if let Some(home) = own {
            builder = builder.own(OwnVariable::Home, home);
        }
        builder.build().ok()
    })
}

fn places() -> Vec<HostPath> {
    let mut places = vec![String::new()];
    let mut whole = Vec::new();
    for _ in 0..4 {
        places = places
            .iter()
            .flat_map(|place| ["a", "b"].map(|name| format!("{place}/{name}")))
            .collect();
        whole.extend(places.iter().map(|place| path(place)));
    }
    whole
}

fn destination(host: &str) -> Destination {
    Destination {
        host: Host::new(host).unwrap(),
        port: 443.try_into().unwrap(),
    }
}

/// Panics where `child` has something `parent` has not.
fn assert_no_more(child: &Plan, parent: &Plan) {
    for place in places() {
        assert!(
            !child.can_read(&place) || parent.can_read(&place),
            "reads {place}"
        );
        assert!(
            !child.can_write(&place) || parent.can_write(&place),
            "writes {place}"
        );
    }
    for host in ["p", "q", "p.q", "q.q", "p.p.q"] {
        let destination = destination(host);
        let (own, theirs) = (child.network(), parent.network());
        assert!(
            !own.allows(&destination) || theirs.allows(&destination),
            "reaches {host}"
        );
    }
    assert_eq!(child.limits().above(parent.limits()), Vec::<&str>::new());
    assert!(child.profile() <= parent.profile());
    for limit in Limit::ALL {
        assert!(
            child.classes().of(*limit) >= parent.classes().of(*limit),
            "{limit}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_child_never_has_more_than_either(parent in plans(), asked in plans()) {
        let child = parent.narrow(&asked);
        assert_no_more(&child, &parent);
        assert_no_more(&child, &asked);
        for name in ["X", "Y", "HOME"] {
            for value in ["1", "2", "3"] {
                let (name, value) = (OsStr::new(name), OsStr::new(value));
                let allowed = child.environment().allows(name, value);
                prop_assert!(!allowed || parent.environment().allows(name, value));
            }
        }
        let caller = [("X".into(), "3".into()), ("Y".into(), "3".into())];
        for (name, value) in child.environment().resolve(caller) {
            prop_assert!(parent.environment().allows(&name, &value));
        }
    }

    #[test]
    fn narrowing_again_changes_nothing(parent in plans(), asked in plans()) {
        let once = parent.narrow(&asked);
        let again = once.narrow(&asked);
        for place in places() {
            prop_assert_eq!(once.can_read(&place), again.can_read(&place));
            prop_assert_eq!(once.can_write(&place), again.can_write(&place));
        }
        prop_assert_eq!(once.limits(), again.limits());
        prop_assert_eq!(once.network(), again.network());
    }

    #[test]
    fn what_both_grant_stays_granted(plan in plans()) {
        let same = plan.narrow(&plan);
        for place in places() {
            prop_assert_eq!(plan.can_read(&place), same.can_read(&place));
            prop_assert_eq!(plan.can_write(&place), same.can_write(&place));
        }
        let caller = || [("X".into(), "3".into()), ("Y".into(), "3".into())];
        let (own, again) = (plan.environment(), same.environment());
        prop_assert_eq!(own.resolve(caller()), again.resolve(caller()));
    }
}
