//! A workspace's own files count only while a person's approval of exactly them holds.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use airlock_audit::EventType;
use airlock_core::limits;
use airlock_kernel::{
    Call, Errand, Front, Kernel, PolicyOrigin, StartError, StateError, TrustChange, TrustError,
    Workspace, WorkspaceError,
};
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use support::{
    NOTHING, Place, READS, approved, denied, done, failed, maybe_approved, records, review, shape,
    state, submit, trust, update, word,
};

const PLUGIN: &str = ".airlock/plugins/tool/plugin.yaml";

/// A workspace with a policy that allows nothing, a configuration and a plugin, all approved.
fn approved_place() -> Place {
    let place = Place::new(&[
        (".airlock/policy.yaml", NOTHING),
        (".airlock/config.yaml", "version: 1\n"),
        (PLUGIN, "name: tool\n"),
        ("a.txt", "a\n"),
    ]);
    trust(&place.open());
    place
}

/// Which policy holds, and that it is the one that decides.
fn origin(kernel: &Kernel) -> PolicyOrigin {
    let origin = kernel.policy().origin();
    let answer = submit(kernel, Front::Agent, "fs.read", json!({ "path": "a.txt" }));
    let want = if origin == PolicyOrigin::Workspace {
        "denied"
    } else {
        "done"
    };
    assert_eq!(word(&answer), want, "{origin}");
    origin
}

#[test]
fn files_that_nobody_approved_count_for_nothing_and_approved_ones_do() {
    let place = Place::new(&[("a.txt", "a\n")]);
    assert_eq!(origin(&place.open()), PolicyOrigin::Default);
    place.write(".airlock/policy.yaml", NOTHING);
    let kernel = place.open();
    assert_eq!(origin(&kernel), PolicyOrigin::Untrusted);
    assert!(kernel.workspace().trust().unwrap().policy().is_none());
    let result = trust(&kernel);
    assert_eq!(origin(&kernel), PolicyOrigin::Workspace);
    assert_eq!(
        shape(&kernel, &result.action),
        [
            "capability_check note allowed",
            "syscall attempt allow",
            "trust_change outcome"
        ]
    );
    drop(kernel);
    assert_eq!(
        origin(&place.open()),
        PolicyOrigin::Workspace,
        "the record survives"
    );
}

#[test]
fn an_untrusted_policy_that_does_not_load_does_not_stop_the_start() {
    let place = Place::new(&[(".airlock/policy.yaml", "rules: [[[\n"), ("a.txt", "a\n")]);
    let kernel = place.open();
    assert_eq!(origin(&kernel), PolicyOrigin::Untrusted);
    let digest = kernel.workspace().trust().unwrap().digest();
    let answer = approved(&kernel, "trust.approve", json!({ "digest": digest }));
    assert_eq!(failed(answer).code, "control_failed");
    assert_eq!(origin(&place.open()), PolicyOrigin::Untrusted);
}

type Change = fn(&Place);

const CHANGES: &[(&str, Change)] = &[
    ("the policy", |p| {
        p.write(".airlock/policy.yaml", format!("{NOTHING}# x\n"));
    }),
    ("the policy, by whitespace", |p| {
        p.write(".airlock/policy.yaml", format!("{NOTHING}\n"));
    }),
    ("the configuration", |p| {
        p.write(".airlock/config.yaml", "version: 1\n#\n");
    }),
    ("a plugin file", |p| p.write(PLUGIN, "name: other\n")),
    ("a plugin file that can be run", |p| {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(p.path(PLUGIN), mode).unwrap();
    }),
    ("a new plugin file", |p| {
        p.write(".airlock/plugins/new.yaml", "x\n");
    }),
    ("a new hidden plugin file", |p| {
        p.write(".airlock/plugins/.x/.y", "x\n");
    }),
    ("a plugin file gone", |p| {
        fs::remove_file(p.path(PLUGIN)).unwrap();
    }),
    ("the policy gone", |p| {
        fs::remove_file(p.path(".airlock/policy.yaml")).unwrap();
    }),
    ("the configuration gone", |p| {
        fs::remove_file(p.path(".airlock/config.yaml")).unwrap();
    }),
    ("a plugin file renamed", |p| {
        fs::rename(p.path(PLUGIN), p.path(".airlock/plugins/tool/other.yaml")).unwrap();
    }),
    ("the policy behind a symlink", |p| {
        fs::rename(p.path(".airlock/policy.yaml"), p.path("kept.yaml")).unwrap();
        symlink("../kept.yaml", p.path(".airlock/policy.yaml")).unwrap();
    }),
    ("the configuration behind a symlink", |p| {
        fs::rename(p.path(".airlock/config.yaml"), p.beside("kept.yaml")).unwrap();
        symlink(p.beside("kept.yaml"), p.path(".airlock/config.yaml")).unwrap();
    }),
    ("the whole directory behind a symlink", |p| {
        fs::rename(p.path(".airlock"), p.beside("moved")).unwrap();
        symlink(p.beside("moved"), p.path(".airlock")).unwrap();
    }),
    ("a symlink among the plugins", |p| {
        symlink("plugin.yaml", p.path(".airlock/plugins/tool/link")).unwrap();
    }),
    ("the plugin directory behind a symlink", |p| {
        fs::rename(p.path(".airlock/plugins"), p.path("plugins")).unwrap();
        symlink("../plugins", p.path(".airlock/plugins")).unwrap();
    }),
    ("a FIFO for the policy", |p| {
        fs::remove_file(p.path(".airlock/policy.yaml")).unwrap();
        fifo(&p.path(".airlock/policy.yaml"));
    }),
    ("a FIFO among the plugins", |p| {
        fifo(&p.path(".airlock/plugins/pipe"));
    }),
    ("a directory for the policy", |p| {
        fs::remove_file(p.path(".airlock/policy.yaml")).unwrap();
        fs::create_dir(p.path(".airlock/policy.yaml")).unwrap();
    }),
    ("a file for the plugin directory", |p| {
        fs::remove_dir_all(p.path(".airlock/plugins")).unwrap();
        p.write(".airlock/plugins", "x");
    }),
    ("a file for everything", |p| {
        fs::remove_dir_all(p.path(".airlock")).unwrap();
        p.write(".airlock", "x");
    }),
    ("an oversized policy", |p| {
        let long = format!("{NOTHING}#{}", "x".repeat(limits::POLICY_BYTES));
        p.write(".airlock/policy.yaml", long);
    }),
    ("a plugin name that is not UTF-8", |p| {
        fs::write(
            p.path(".airlock/plugins").join(OsStr::from_bytes(b"\xff")),
            "x",
        )
        .unwrap();
    }),
];

#[test]
fn any_change_to_approved_files_and_none_of_them_counts() {
    for (case, change) in CHANGES {
        let place = approved_place();
        let running = place.open();
        assert_eq!(origin(&running), PolicyOrigin::Workspace, "{case}");
        change(&place);
        let told = "by a kernel that runs";
        assert_eq!(origin(&running), PolicyOrigin::Untrusted, "{case}, {told}");
        let kernel = place.open();
        assert_eq!(origin(&kernel), PolicyOrigin::Untrusted, "{case}");
        let judged = kernel.workspace().trust().unwrap();
        assert!(!judged.holds() && judged.policy().is_none() && judged.config().is_none());
        assert!(
            judged
                .report()
                .iter()
                .any(|file| file.change != TrustChange::Same),
            "{case}: the report names what differs"
        );
    }
}

fn fifo(path: &std::path::Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
}

#[test]
fn what_cannot_be_judged_cannot_be_approved() {
    let place = approved_place();
    symlink("plugin.yaml", place.path(".airlock/plugins/tool/link")).unwrap();
    let kernel = place.open();
    let judged = kernel.workspace().trust().unwrap();
    assert!(matches!(
        judged.problems().next(),
        Some(TrustError::Odd { .. })
    ));
    let answer = approved(
        &kernel,
        "trust.approve",
        json!({ "digest": judged.digest() }),
    );
    let refusal = failed(answer);
    assert!(refusal.what.contains("symlink"), "{}", refusal.what);
    assert!(refusal.fix.is_some());
    assert_eq!(origin(&place.open()), PolicyOrigin::Untrusted);
    fs::remove_file(place.path(".airlock/plugins/tool/link")).unwrap();
    assert_eq!(origin(&place.open()), PolicyOrigin::Workspace);
}

#[test]
fn only_the_files_that_were_shown_can_be_approved() {
    let place = Place::new(&[(".airlock/policy.yaml", NOTHING), ("a.txt", "a\n")]);
    let kernel = place.open();
    let shown = kernel.workspace().trust().unwrap().digest();
    place.write(PLUGIN, "name: swapped-in\n");
    let answer = approved(&kernel, "trust.approve", json!({ "digest": shown }));
    let refusal = failed(answer);
    assert!(refusal.what.contains("changed"), "{}", refusal.what);
    assert_eq!(origin(&kernel), PolicyOrigin::Untrusted);
    // Swapped in between the yes and its use: the same.
    let shown = kernel.workspace().trust().unwrap().digest();
    let call = Call::new("trust.approve", json!({ "digest": shown }));
    let mut asked = review(kernel.submit(Front::Cli, &call));
    support::answer(&kernel, &mut asked, true).unwrap();
    place.write(PLUGIN, "name: swapped-again\n");
    assert_eq!(word(&kernel.submit(Front::Cli, &call)), "control_failed");
    assert_eq!(origin(&place.open()), PolicyOrigin::Untrusted);
}

#[test]
fn a_no_leaves_everything_as_it_was() {
    let place = Place::new(&[(".airlock/policy.yaml", NOTHING), ("a.txt", "a\n")]);
    let kernel = place.open();
    let digest = kernel.workspace().trust().unwrap().digest();
    let call = Call::new("trust.approve", json!({ "digest": digest }));
    let mut asked = review(kernel.submit(Front::Cli, &call));
    support::answer(&kernel, &mut asked, false).unwrap();
    assert!(
        support::answer(&kernel, &mut asked, true).is_err(),
        "a no is final"
    );
    review(kernel.submit(Front::Cli, &call));
    assert_eq!(origin(&kernel), PolicyOrigin::Untrusted);
    let answers: Vec<_> = records(&kernel)
        .into_iter()
        .filter(|entry| entry.event == EventType::ApprovalDecided)
        .collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].metadata["answer"], "deny");
    assert_eq!(answers[0].action.as_ref(), Some(&asked.action));
    assert!(!answers[0].metadata["answered_by"].is_empty());
}

#[test]
fn approval_needs_a_person_and_the_command_line() {
    let place = Place::new(&[(".airlock/policy.yaml", NOTHING)]);
    let kernel = place.open();
    let digest = kernel.workspace().trust().unwrap().digest();
    for front in [Front::Agent, Front::Mcp, Front::Server] {
        for (name, arguments) in [
            ("trust.approve", json!({ "digest": digest })),
            ("trust.revoke", json!({})),
        ] {
            let refusal = denied(submit(&kernel, front, name, arguments));
            let layer = refusal.decision.contributions[0].layer;
            assert_eq!(layer.as_str(), "capability", "{front} {name}");
        }
    }
    review(submit(
        &kernel,
        Front::Cli,
        "trust.approve",
        json!({ "digest": digest }),
    ));
}

#[test]
fn trust_can_be_taken_back() {
    let place = approved_place();
    let kernel = place.open();
    let result = done(submit(&kernel, Front::Cli, "trust.revoke", json!({})));
    assert_eq!(origin(&kernel), PolicyOrigin::Untrusted);
    assert!(shape(&kernel, &result.action).contains(&"trust_change outcome".to_owned()));
    drop(kernel);
    assert_eq!(origin(&place.open()), PolicyOrigin::Untrusted);
}

#[test]
fn a_record_that_cannot_be_understood_is_an_error_and_never_trust() {
    let place = approved_place();
    let path = state(&place.open()).join("trust.json");
    let good = fs::read_to_string(&path).unwrap();
    for (case, bytes) in [
        ("empty", String::new()),
        ("garbage", "\u{0}\u{1}garbage".to_owned()),
        ("cut short", good.get(..good.len() / 2).unwrap().to_owned()),
        (
            "another version",
            good.replace("\"version\": 1", "\"version\": 2"),
        ),
        ("an unknown field", good.replacen('{', "{\"all\": true,", 1)),
        ("no digest", good.replacen("\": \"", "\": \"zz", 1)),
        ("a list", "[]".to_owned()),
    ] {
        fs::write(&path, bytes).unwrap();
        match place.try_open() {
            Err(StartError::Trust(error @ TrustError::Store { .. })) => {
                assert!(error.to_string().contains("trust.json"), "{case}: {error}");
                assert!(error.hint().contains("deleted"), "{case}");
            }
            Err(other) => panic!("{case}: {other:?}"),
            Ok(kernel) => panic!("{case}: {:?}", kernel.policy()),
        }
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(place.try_open(), Err(StartError::Trust(_))));
    fs::remove_dir(&path).unwrap();
    assert_eq!(origin(&place.open()), PolicyOrigin::Untrusted);
    fs::write(&path, good).unwrap();
    assert_eq!(origin(&place.open()), PolicyOrigin::Workspace);
}

#[test]
fn writing_a_policy_approves_nothing_that_came_along() {
    // A clone brings a plugin and a configuration; the person only writes a policy.
    for (case, write) in [
        (
            "init",
            (|kernel: &Kernel| drop(done(submit(kernel, Front::Cli, "policy.init", json!({})))))
                as fn(&Kernel),
        ),
        ("update", |kernel| {
            assert_eq!(update(kernel, NOTHING).value["in_force"], false);
        }),
    ] {
        let place = Place::new(&[
            (".airlock/config.yaml", "version: 1\n"),
            (PLUGIN, "name: evil\n"),
            ("a.txt", "a\n"),
        ]);
        let kernel = place.open();
        write(&kernel);
        assert_eq!(origin(&kernel), PolicyOrigin::Untrusted, "{case}");
        let judged = kernel.workspace().trust().unwrap();
        for file in judged.report() {
            let want = if file.path == ".airlock/policy.yaml" {
                TrustChange::Same
            } else {
                TrustChange::New
            };
            assert_eq!(file.change, want, "{case}: {}", file.path);
        }
        trust(&kernel);
        assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace, "{case}");
    }
}

#[test]
fn two_kernels_at_once_approve_and_revoke_without_harm() {
    let place = approved_place();
    let (one, two) = (place.open(), place.open());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..10 {
                let digest = one.workspace().trust().unwrap().digest();
                // The other one may have changed the policy between question and answer.
                let _ = maybe_approved(&one, "trust.approve", json!({ "digest": digest }));
            }
        });
        scope.spawn(|| {
            for _ in 0..10 {
                done(submit(&two, Front::Cli, "trust.revoke", json!({})));
            }
        });
        scope.spawn(|| {
            for _ in 0..20 {
                place.open();
            }
        });
    });
    trust(&one);
    assert_eq!(origin(&place.open()), PolicyOrigin::Workspace);
    support::verifies(&two);
}

#[test]
fn a_running_kernel_minds_what_another_process_approves_and_revokes() {
    let place = approved_place();
    let (one, two) = (place.open(), place.open());
    let old = one.policy().generation();
    let text = format!("{NOTHING}# newer\n");
    update(&two, &text);
    assert_eq!(one.policy().source(), text.as_bytes());
    assert_ne!(one.policy().generation(), old);
    done(submit(&two, Front::Cli, "trust.revoke", json!({})));
    assert_eq!(origin(&one), PolicyOrigin::Untrusted);
    trust(&two);
    assert_eq!(origin(&one), PolicyOrigin::Workspace);
    // A record that nobody can read is no trust either, and mending it brings trust back.
    let path = state(&one).join("trust.json");
    let good = fs::read(&path).unwrap();
    fs::write(&path, "garbage").unwrap();
    assert_eq!(origin(&one), PolicyOrigin::Untrusted);
    fs::remove_file(&path).unwrap();
    assert_eq!(origin(&one), PolicyOrigin::Untrusted);
    fs::write(&path, good).unwrap();
    assert_eq!(origin(&one), PolicyOrigin::Workspace);
}

#[test]
fn a_policy_that_changes_under_a_running_kernel_counts_again_when_it_is_approved_or_put_back() {
    let place = approved_place();
    let kernel = place.open();
    // As long as it was, and in the same file.
    let other = NOTHING.replace("version: 1", "version:  1");
    let other = other.strip_suffix('\n').unwrap();
    assert_eq!((other.len(), other == NOTHING), (NOTHING.len(), false));
    for text in [other, "no policy", ""] {
        place.write(".airlock/policy.yaml", text);
        assert_eq!(origin(&kernel), PolicyOrigin::Untrusted, "{text:?}");
        place.write(".airlock/policy.yaml", NOTHING);
        assert_eq!(origin(&kernel), PolicyOrigin::Workspace, "put back");
    }
    place.write(".airlock/policy.yaml", READS);
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Untrusted);
    trust(&kernel);
    assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    assert_eq!(kernel.policy().source(), READS.as_bytes());
    // Its own updates are approved when anybody can see them.
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let origins = (0..2_000).map(|_| kernel.policy().origin());
            origins
                .filter(|one| *one != PolicyOrigin::Workspace)
                .count()
        });
        for number in 0..5 {
            update(&kernel, &format!("{READS}# {number}\n"));
        }
        assert_eq!(watching.join().unwrap(), 0);
    });
}

#[test]
fn state_in_the_workspace_is_refused_however_it_is_reached() {
    let place = Place::new(&[]);
    symlink(place.root(), place.beside("alias")).unwrap();
    fs::create_dir(place.beside("home")).unwrap();
    fs::create_dir(place.path("inside")).unwrap();
    symlink(place.path("inside"), place.beside("home/airlock")).unwrap();
    for home in [
        place.root(),
        place.path("state"),
        place.path("a/b/c"),
        place.beside("alias"),
        place.beside("alias/new/state"),
        place.beside("state/../w/new"),
        place.beside("home"),
    ] {
        let error = Workspace::open(&place.root(), &home).unwrap_err();
        assert!(
            matches!(error, WorkspaceError::StateInside { .. }),
            "{}: {error}",
            home.display()
        );
        assert!(error.hint().contains("XDG_STATE_HOME"));
    }
    let left: Vec<_> = fs::read_dir(place.root()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing was made: {left:?}");
    assert_eq!(fs::read_dir(place.path("inside")).unwrap().count(), 0);
}

#[test]
fn a_workspace_reached_by_a_symlink_is_the_workspace_itself() {
    let place = Place::new(&[("a.txt", "a\n")]);
    symlink(place.root(), place.beside("alias")).unwrap();
    let direct = place.open();
    let mut config = place.config();
    config.workspace = place.beside("alias");
    let aliased = Kernel::open(config).unwrap();
    assert_eq!(aliased.workspace().id(), direct.workspace().id());
    assert_eq!(state(&aliased), state(&direct));
    done(submit(
        &aliased,
        Front::Agent,
        "fs.read",
        json!({ "path": "a.txt" }),
    ));
}

#[test]
fn workspaces_may_have_odd_names() {
    for name in [
        "with space",
        "new\nline",
        "-rf",
        "日本語",
        "a'b\"c`d",
        "$(x)",
        "star*?[x]",
        "{brace}",
        "gone (deleted)",
        "dot.",
        "\u{1b}[31m",
    ] {
        let place = Place::new(&[]);
        let root = place.beside(name);
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a.txt"), "hello\n").unwrap();
        fs::create_dir(root.join("private")).unwrap();
        fs::write(root.join("private/b.txt"), "hello\n").unwrap();
        let mut config = place.config();
        config.workspace = root;
        let kernel = Kernel::open(config.clone()).unwrap_or_else(|e| panic!("{name:?}: {e:?}"));
        update(&kernel, READS);
        let answer = submit(&kernel, Front::Agent, "fs.read", json!({ "path": "a.txt" }));
        assert_eq!(word(&answer), "done", "{name:?}: {answer:?}");
        let found = done(submit(
            &kernel,
            Front::Agent,
            "search.grep",
            json!({ "pattern": "hello" }),
        ));
        let text = found.value.to_string();
        assert!(
            text.contains("a.txt") && !text.contains("b.txt"),
            "{name:?}: {text}"
        );
        drop(kernel);
        let again = Kernel::open(config).unwrap();
        assert_eq!(again.policy().origin(), PolicyOrigin::Workspace, "{name:?}");
    }
}

#[test]
fn places_that_cannot_be_used_are_typed_errors_with_a_way_out() {
    let place = Place::new(&[("file", "x")]);
    for root in ["file", "absent"] {
        let error = Workspace::open(&place.path(root), &place.beside("state")).unwrap_err();
        assert!(
            matches!(error, WorkspaceError::Root { .. }),
            "{root}: {error}"
        );
        assert!(error.hint().contains("--workspace"));
    }
    let not_utf8 = place.outer.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&not_utf8).unwrap();
    let error = Workspace::open(&not_utf8, &place.beside("state")).unwrap_err();
    assert!(matches!(error, WorkspaceError::Root { .. }), "{error}");

    fs::write(place.beside("not-a-directory"), "x").unwrap();
    // Nobody, not even root, can make a directory in these.
    for home in [
        place.beside("not-a-directory"),
        "/proc/self".into(),
        "/dev/null".into(),
    ] {
        let error = Workspace::open(&place.root(), &home).unwrap_err();
        assert!(
            matches!(error, WorkspaceError::State(StateError::Io { .. })),
            "{}: {error}",
            home.display()
        );
        assert!(error.hint().contains("XDG_STATE_HOME"));
    }
}

fn archives(kernel: &Kernel) -> usize {
    fs::read_dir(state(kernel).join("segments")).map_or(0, Iterator::count)
}

const DAY: i64 = 24 * 60 * 60;

/// A kernel after 200 days and one: on the day of such a jump the clock is not believed.
fn much_later(place: &Place) -> Kernel {
    place.pass(200 * DAY);
    drop(place.open());
    place.pass(DAY);
    place.open()
}

fn deletions(kernel: &Kernel) -> usize {
    let filter = airlock_audit::Filter {
        event: Some(EventType::AuditArchiveDeleted),
        ..airlock_audit::Filter::default()
    };
    kernel.log().read(filter).unwrap().count()
}

#[test]
fn what_nobody_approved_deletes_no_records() {
    let keeping = format!("{READS}audit: {{ retention_days: 3650, max_size: 20GiB }}\n");
    for (case, change) in CHANGES {
        let place = Place::new(&[
            (".airlock/policy.yaml", keeping.as_str()),
            (".airlock/config.yaml", "version: 1\n"),
            (PLUGIN, "name: tool\n"),
            ("a.txt", "a\n"),
        ]);
        trust(&place.open());
        place.pass(2 * DAY);
        assert_eq!(archives(&place.open()), 1, "{case}");
        change(&place);
        let kernel = much_later(&place);
        assert_ne!(kernel.policy().origin(), PolicyOrigin::Workspace, "{case}");
        assert_eq!(deletions(&kernel), 0, "{case}: by a change");
        done(submit(&kernel, Front::Cli, "trust.revoke", json!({})));
        drop(kernel);
        let kernel = much_later(&place);
        assert_eq!(deletions(&kernel), 0, "{case}: by a withdrawal");
    }
    // The built-in limits hold where nobody ever said otherwise.
    let place = Place::new(&[("a.txt", "a\n")]);
    done(submit(
        &place.open(),
        Front::Cli,
        "fs.read",
        json!({ "path": "a.txt" }),
    ));
    place.pass(2 * DAY);
    assert_eq!(archives(&place.open()), 1);
    assert_ne!(deletions(&much_later(&place)), 0, "ninety days are over");
}

#[test]
fn a_broken_log_stops_the_start_as_long_as_the_last_approved_policy_says_so() {
    let stopping = format!("{READS}audit: {{ stop_on_break: true }}\n");
    let place = Place::governed(&stopping, &[("a.txt", "a\n")]);
    let kernel = place.open();
    let directory = state(&kernel);
    drop(kernel);
    let break_it = "UPDATE records SET stored = zeroblob(40) WHERE seq = 1";
    support::connect(&directory).execute(break_it, []).unwrap();
    assert!(matches!(place.try_open(), Err(StartError::Broken(_))));
    place.write(".airlock/policy.yaml", format!("{stopping}# pulled\n"));
    assert!(matches!(place.try_open(), Err(StartError::Broken(_))));
}

#[test]
fn a_log_that_stops_everything_leaves_the_way_out_open() {
    let stopping = format!("{READS}audit: {{ stop_on_break: true }}\n");
    let place = Place::governed(&stopping, &[("a.txt", "a\n")]);
    let way_out = || {
        let config = place.config();
        let workspace = Workspace::open(&config.workspace, &config.state_home).unwrap();
        Kernel::open_for(Errand::WayOut, workspace, config).unwrap()
    };
    let kernel = way_out();
    assert_eq!(kernel.stopped(), None, "nothing is broken yet");
    let directory = state(&kernel);
    drop(kernel);
    let break_it = "UPDATE records SET stored = zeroblob(40) WHERE seq = 1";
    support::connect(&directory).execute(break_it, []).unwrap();
    let kernel = way_out();
    assert!(kernel.stopped().is_some());
    let read = || json!({ "path": "a.txt" });
    for (name, arguments) in [
        ("fs.read", read()),
        ("policy.init", json!({})),
        ("session.create", json!({})),
    ] {
        let refused = failed(submit(&kernel, Front::Cli, name, arguments));
        assert_eq!(refused.code, "audit_broken", "{name}");
        assert!(refused.fix.is_some_and(|fix| fix.contains("policy update")));
    }
    let purpose = json!({ "purpose": "log" });
    done(submit(&kernel, Front::Cli, "audit.read", purpose));
    done(submit(&kernel, Front::Cli, "trust.revoke", json!({})));
    drop(kernel);
    let refused = place.try_open();
    assert!(
        matches!(refused, Err(StartError::Broken(_))),
        "what was approved last goes on to hold"
    );
    update(&way_out(), READS);
    let kernel = place.open();
    assert_eq!(kernel.stopped(), None);
    done(submit(&kernel, Front::Cli, "fs.read", read()));
}

#[test]
fn a_log_cut_below_what_was_signed_stops_every_start() {
    use airlock_kernel::Lifetime;
    let stopping = format!("{READS}audit: {{ stop_on_break: true }}\n");
    let place = Place::governed(&stopping, &[("a.txt", "a\n")]);
    let kernel = place.open();
    let directory = state(&kernel);
    for _ in 0..3 {
        let read = json!({ "path": "a.txt" });
        done(submit(&kernel, Front::Cli, "fs.read", read));
    }
    kernel.log().checkpoint().unwrap();
    kernel.close().unwrap();
    let cut = "DELETE FROM records WHERE seq > 2";
    support::connect(&directory).execute(cut, []).unwrap();
    for lifetime in [Lifetime::Long, Lifetime::Command, Lifetime::Command] {
        let mut config = place.config();
        config.lifetime = lifetime;
        let Err(StartError::Broken(detail)) = Kernel::open(config) else {
            panic!("{lifetime:?} started");
        };
        assert!(detail.contains("the chain ends at record 2"), "{detail}");
    }
}

#[test]
fn a_policy_that_is_gone_makes_no_room_for_another_that_nobody_reviewed() {
    for revoked in [false, true] {
        let place = Place::governed(NOTHING, &[("a.txt", "a\n")]);
        let kernel = place.open();
        if revoked {
            done(submit(&kernel, Front::Cli, "trust.revoke", json!({})));
        }
        fs::remove_dir_all(place.path(".airlock")).unwrap();
        let refusal = failed(submit(&kernel, Front::Cli, "policy.init", json!({})));
        assert!(refusal.what.contains("gone"), "{refusal:?}");
        assert!(!place.path(".airlock/policy.yaml").exists());
        // With a review a person can have any.
        update(&kernel, READS);
        assert_eq!(kernel.policy().origin(), PolicyOrigin::Workspace);
    }
}
