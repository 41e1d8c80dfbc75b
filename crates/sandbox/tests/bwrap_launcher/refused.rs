//! What bubblewrap denies, what it cannot deny, and what is then refused.

use crate::support::{Place, command, is_root, run, sh, start};
use airlock_sandbox::launch::{Launch, LayersKind, StartError};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::stage::{DiffOptions, Setup, Stage, Stages};
use airlock_sandbox::{Launcher, PlanBuilder, Shortfall, View, Wall, start_with};
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn denied_paths_that_exist_are_hidden_also_from_renames() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("tree/a/private")).unwrap();
    place.write("tree/a/private/key", "secret");
    place.write("tree/a/token", "secret");
    place.write("tree/a/plain", "plain");
    let launch = place.launch(|plan| {
        plan.deny(place.path("tree/a/private"))
            .deny(place.path("tree/a/private/key"))
            .deny(place.path("tree/a/token"))
            .deny_writing(place.path("tree/a/plain"))
    });
    let mut sandbox = start(launch).unwrap();
    let out = sh(
        &mut sandbox,
        "ls -A a a/private; cat a/token || echo denied; cat a/plain; echo; \
         echo x > a/plain || echo kept; echo x > a/token || echo kept; \
         mv a b || echo stays; mv a/token b || echo stays; rm -f a/plain || echo stays; \
         ln a/token b || echo stays; touch a/private/x || echo kept; touch a/new && echo made",
    );
    let want = "a:\nplain\nprivate\ntoken\n\na/private:\ndenied\nplain\nkept\nkept\nstays\nstays\n\
                stays\nstays\nkept\nmade\n";
    assert_eq!(out, want);
    assert!(!out.contains("secret"));
}

#[test]
fn the_policy_of_a_workspace_that_has_none_cannot_be_written() {
    let place = Place::new();
    let mut sandbox = place.start();
    let script = "touch .airlock/policy || echo kept; rmdir .airlock || echo stays; \
                  mv .airlock x || echo stays";
    assert_eq!(sh(&mut sandbox, script), "kept\nstays\nstays\n");
    drop(sandbox);
    // What was there for that only is gone with it.
    assert!(!place.path("stage/copy/.airlock").exists());
    assert!(!place.path("tree/.airlock").exists());
}

/// A copy of the place's tree as a stage, which whoever root makes of a sandbox can find.
fn stage(place: &Place) -> (Stages, Stage) {
    let stages = Stages::open(&place.path("stages")).unwrap();
    let owner = airlock_sandbox::stage_owner();
    let tree = place.path("tree");
    let stage = stages.open_or_create_as("default", &tree, owner, Setup::COPY);
    (stages, stage.unwrap())
}

fn launched(place: &Place, stage: &Stage) -> Launch {
    let git = |name: &str| place.path(&format!("tree/.git/{name}"));
    let mut launch = place.launch(|plan| {
        plan.deny_writing(git("commondir"))
            .deny_writing(git("config.worktree"))
            .deny_writing(git("hooks"))
    });
    launch.layers = Some(stage.layers());
    launch
}

#[test]
fn what_stands_only_to_be_mounted_on_is_no_change_and_goes_also_if_its_maker_does_not() {
    let place = Place::new();
    std::fs::create_dir(place.path("tree/.git")).unwrap();
    let (_stages, mut stage) = stage(&place);
    let made = [
        ".airlock",
        ".git/commondir",
        ".git/config.worktree",
        ".git/hooks",
    ];
    let there = |stage: &Stage| {
        let upper = stage.layers().upper;
        made.map(|name| upper.join(name).exists())
    };
    let untouched = |stage: &Stage| {
        stage.diff(&DiffOptions::default()).unwrap().is_empty()
            && stage.touched(100).unwrap().is_empty()
    };
    let claim = stage.claim().unwrap();
    let mut sandbox = start(launched(&place, &stage)).unwrap();
    let script = "cat .git/commondir; cat .git/config.worktree && echo empty; \
                  for f in .git/commondir .git/config.worktree .git/hooks/x .airlock/x; do \
                  echo x > $f || echo kept; done; rm -f .git/commondir || echo stays";
    assert_eq!(
        sh(&mut sandbox, script),
        ".\nempty\nkept\nkept\nkept\nkept\nstays\n"
    );
    assert!(there(&stage) == [true; 4] && untouched(&stage));
    // What is in one is no part of it.
    let inside = stage.layers().upper.join(".airlock/x");
    std::fs::write(&inside, "").unwrap();
    assert!(!untouched(&stage));
    std::fs::remove_file(inside).unwrap();
    drop(sandbox);
    assert_eq!(there(&stage), [false; 4]);
    // A supervisor that is killed takes nothing down.
    std::mem::forget(start(launched(&place, &stage)).unwrap());
    assert!(there(&stage) == [true; 4] && untouched(&stage));
    drop(claim);
    let _claim = stage.claim().unwrap();
    assert!(there(&stage) == [false; 4] && untouched(&stage));
}

#[test]
fn a_policy_that_is_there_is_the_copys_and_read_only() {
    let place = Place::new();
    std::fs::create_dir(place.path("tree/.airlock")).unwrap();
    place.write("tree/.airlock/policy", "copied");
    place.copy();
    place.write("tree/.airlock/policy", "real");
    let script = "cat .airlock/policy; echo; echo x > .airlock/policy || echo kept";
    assert_eq!(sh(&mut place.start(), script), "copied\nkept\n");
    assert!(place.path("stage/copy/.airlock/policy").exists());
}

fn lacking(error: &StartError) -> Vec<(Wall, String)> {
    let StartError::NotEnforced(lacking) = error else {
        panic!("{error}");
    };
    let walls = lacking.shortfalls().iter().map(|one| match one {
        Shortfall::Wall { wall, reason } => (*wall, reason.clone().unwrap_or_default()),
        other @ (Shortfall::Supervised(_) | Shortfall::Limit { .. }) => panic!("{other}"),
    });
    walls.collect()
}

type Change<'a> = &'a dyn Fn(PlanBuilder) -> PlanBuilder;

#[test]
fn what_mounts_cannot_deny_is_refused_by_name() {
    let place = Place::new();
    place.write("tree/real", "x");
    symlink("real", place.path("tree/link")).unwrap();
    std::fs::create_dir(place.path("data")).unwrap();
    let pattern = |plan: PlanBuilder| plan.deny_pattern("**/.env");
    let link = |plan: PlanBuilder| plan.deny(place.path("tree/link"));
    let later = |plan: PlanBuilder| plan.read(place.path("data")).deny(place.path("data/later"));
    let deep = |plan: PlanBuilder| plan.deny(place.path("tree/no/such"));
    let cases: [(Change<'_>, &str); 4] = [
        (&pattern, "**/.env"),
        (&link, "tree/link"),
        (&later, "data/later"),
        (&deep, "tree/no/such"),
    ];
    for (change, name) in cases {
        let error = start(place.launch(change)).unwrap_err();
        let lacking = lacking(&error);
        let [(Wall::Denials, reason)] = lacking.as_slice() else {
            panic!("{lacking:?}");
        };
        assert!(reason.contains(name), "{reason}");
    }
}

#[test]
fn denials_no_mount_can_meet_need_nothing() {
    let place = Place::new();
    let launch = place.launch(|plan| plan.deny("/elsewhere/x").deny_pattern("/elsewhere/**/.env"));
    assert_eq!(sh(&mut start(launch).unwrap(), "echo fine"), "fine\n");
    let tree = place.path("tree");
    let launch = place.launch(|plan| plan.workspace(&tree, View::ReadOnly));
    assert_eq!(sh(&mut start(launch).unwrap(), "echo fine"), "fine\n");
}

#[test]
fn an_overlay_is_refused_and_a_copy_is_asked_for() {
    let place = Place::new();
    let mut launch = place.launch(|plan| plan);
    launch.layers.as_mut().unwrap().kind = LayersKind::Overlay;
    let error = start(launch).unwrap_err();
    assert!(error.to_string().contains("copy stage"), "{error}");
    let mut launch = place.launch(|plan| plan);
    launch.layers = None;
    assert!(matches!(start(launch), Err(StartError::Step { .. })));
}

#[test]
fn a_minimum_that_asks_for_landlock_is_not_met() {
    let place = Place::new();
    let mut launch = place.launch(|plan| plan);
    launch.minimum.walls.insert(Wall::Landlock);
    let lacking = lacking(&start(launch).unwrap_err());
    assert_eq!(lacking.first().unwrap().0, Wall::Landlock);
}

#[test]
fn a_place_roots_sandbox_cannot_reach_is_an_error_that_names_it() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let closed = place.path("closed");
    std::fs::create_dir_all(closed.join("in")).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let error = start(place.launch(|plan| plan.read(closed.join("in")))).unwrap_err();
    let said = error.to_string();
    let shown = closed.display().to_string();
    assert!(
        said.contains(&shown) && said.contains("1879048192"),
        "{said}"
    );
}

#[test]
fn a_working_directory_that_is_not_there_is_refused_at_the_start() {
    let place = Place::new();
    let launch = place.launch(|plan| plan.directory(place.path("tree/no/such")));
    let error = start(launch).unwrap_err();
    assert!(error.to_string().contains("/no/such"), "{error}");
}

#[test]
fn the_native_launcher_takes_a_copy_too() {
    let place = Place::new();
    place.write("tree/a", "old\n");
    let mut sandbox = start_with(Launcher::Native, place.launch(|plan| plan)).unwrap();
    let ran = run(&mut sandbox, &command(&["sh", "-c", "cat a; echo new > a"]));
    assert_eq!(ran.ended.outcome, Outcome::Exited(0), "{}", ran.errors());
    assert_eq!(ran.text(), "old\n");
    assert_eq!(place.read("tree/a").unwrap(), "old\n");
    assert_eq!(place.read("stage/copy/a").unwrap(), "new\n");
}

#[test]
fn a_socket_is_never_granted() {
    let place = Place::new();
    let socket = place.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for write in [false, true] {
        let launch = place.launch(|plan| {
            if write {
                plan.write(&socket)
            } else {
                plan.read(&socket)
            }
        });
        let refused = start(launch).unwrap_err().to_string();
        assert!(refused.contains("it is a socket"), "{refused}");
    }
}
