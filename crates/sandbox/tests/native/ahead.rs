//! Sandboxes made ahead of their plans: the same as others, and nothing of their maker's.

use crate::support::{Place, command, run, sh};
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{HostPath, Nursery, Prepared, prepare, start};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

fn made_elsewhere() -> Prepared {
    std::thread::spawn(prepare).join().unwrap().unwrap()
}

/// By a nursery that is gone by now.
fn born() -> Prepared {
    let nursery = std::thread::spawn(Nursery::open).join().unwrap().unwrap();
    nursery.prepare().unwrap()
}

#[test]
fn it_has_the_walls_and_the_view_of_any_other() {
    for made in [made_elsewhere, born] {
        let place = Place::new();
        place.write("tree/a", "here\n");
        let mut other = start(place.launch(|plan| plan)).unwrap();
        let report = serde_json::to_value(other.report()).unwrap();
        let status =
            "id -u; grep -e CapBnd -e NoNewPrivs -e Seccomp: -e SigIgn -e SigBlk /proc/self/status";
        let want = sh(&mut other, status);
        assert!(want.starts_with("1000\n") && want.contains("CapBnd:\t0000000000000000\n"));
        assert!(want.ends_with("NoNewPrivs:\t1\nSeccomp:\t2\n"), "{want}");
        drop(other);
        let mut sandbox = made().start(place.launch(|plan| plan)).unwrap();
        assert_eq!(serde_json::to_value(sandbox.report()).unwrap(), report);
        assert_eq!(sh(&mut sandbox, "cat a; echo new > b"), "here\n");
        assert_eq!(sh(&mut sandbox, status), want);
        assert_eq!(place.read("stage/upper/b").as_deref(), Some("new\n"));
    }
}

#[test]
fn those_of_one_nursery_are_born_at_once_and_know_nothing_of_each_other() {
    let nursery = Nursery::open().unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let nursery = &nursery;
            scope.spawn(move || {
                let place = Place::new();
                place.write("tree/number", &number.to_string());
                let prepared = nursery.prepare().unwrap();
                let mut sandbox = prepared.start(place.launch(|plan| plan)).unwrap();
                let said = sh(&mut sandbox, "cat number; echo; ls; echo $$");
                assert_eq!(said, format!("{number}\nnumber\n2\n"));
            });
        }
    });
}

#[test]
fn it_sees_what_its_launch_says_whatever_it_was_shown_before() {
    let place = Place::new();
    let mut prepared = made_elsewhere();
    let mut other = place.launch(|plan| plan).base;
    other.home = HostPath::new("/home/somebody-else").unwrap();
    prepared.show(&other).unwrap();
    let mut sandbox = prepared.start(place.launch(|plan| plan)).unwrap();
    let said = sh(&mut sandbox, "ls /home; cut -d: -f6 /etc/passwd | tail -1");
    assert!(!said.contains("somebody-else"), "{said}");
    // The control: shown the same, it is the same.
    let mut prepared = made_elsewhere();
    let launch = place.launch(|plan| plan);
    prepared.show(&launch.base).unwrap();
    drop(sandbox);
    let mut sandbox = prepared.start(launch).unwrap();
    assert_eq!(sh(&mut sandbox, "ls /home"), "airlock\n");
}

#[test]
fn one_of_several_knows_nothing_of_the_others() {
    let (first, second) = (Place::new(), Place::new());
    first.write("tree/a", "first\n");
    second.write("tree/a", "second\n");
    let made = [made_elsewhere(), made_elsewhere()];
    let [early, late] = made;
    let mut late = late.start(first.launch(|plan| plan)).unwrap();
    let mut early = early.start(second.launch(|plan| plan)).unwrap();
    assert_eq!(sh(&mut late, "cat a"), "first\n");
    assert_eq!(sh(&mut early, "cat a"), "second\n");
    drop(late);
    assert_eq!(
        sh(&mut early, "ls /proc/self/fd | wc -l; echo on"),
        "4\non\n"
    );
}

#[test]
fn what_its_maker_has_open_is_closed_in_it() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    // Inherited by everything that does not see to it.
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let place = Place::new();
    let nursery = Nursery::open().unwrap();
    let prepared = [made_elsewhere(), nursery.prepare().unwrap()];
    let mut sandbox = nursery
        .prepare()
        .unwrap()
        .start(place.launch(|plan| plan))
        .unwrap();
    assert_eq!(sh(&mut sandbox, "true"), "");
    let mut writer = File::from(OwnedFd::from(writer));
    writer.write_all(b"x").unwrap();
    drop(writer);
    let mut said = Vec::new();
    // Waits for good if anybody else still holds the other end.
    reader.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"x");
    drop((nursery, prepared, sandbox));
}

#[test]
fn one_that_is_not_used_is_gone_at_once() {
    let before = Instant::now();
    let nursery = Nursery::open().unwrap();
    for _ in 0..20 {
        drop(prepare().unwrap());
        drop(nursery.prepare().unwrap());
    }
    assert!(before.elapsed() < Duration::from_secs(30));
    let place = Place::new();
    let ran = run(&mut place.start(), &command(&["true"]));
    assert_eq!(ran.ended.outcome, Outcome::Exited(0));
}

#[test]
fn a_plan_that_cannot_be_had_is_refused_by_name_however_early_it_began() {
    let place = Place::new();
    let launch = place.launch(|plan| plan.read("/no/such/place"));
    let error = made_elsewhere().start(launch).unwrap_err().to_string();
    assert!(error.contains("/no/such/place"), "{error}");
    let mut launch = place.launch(|plan| plan);
    let layers = launch.layers.as_mut().unwrap();
    layers.upper = place.path("stage/gone");
    let error = made_elsewhere().start(launch).unwrap_err().to_string();
    assert!(error.contains("mount overlay at"), "{error}");
}
