use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::thread;

fn told_of(pid: i32, what: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap()
}

/// The process a child belongs to.
fn parent(child: &ClonedChild) -> u32 {
    let status = told_of(child.pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.unwrap().trim().parse().unwrap()
}

impl Nursery {
    fn pid(&self) -> i32 {
        let Self {
            _process: process, ..
        } = self;
        process.pid()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }
}

#[test]
fn what_is_born_belongs_to_whom_the_nursery_does() {
    // The thread that made it is gone.
    let nursery = thread::spawn(Nursery::open).join().unwrap().unwrap();
    let (_ours, theirs) = sockets().unwrap();
    let child = Init(nursery.bear(0, &theirs).unwrap());
    assert_eq!(parent(&child.0), std::process::id());
    drop(nursery);
    assert_eq!(parent(&child.0), std::process::id());
}

#[test]
fn it_tells_nobody_what_its_maker_was_started_with() {
    let nursery = Nursery::open().unwrap();
    let (_ours, theirs) = sockets().unwrap();
    // Whoever bears children has forgotten it.
    let child = Init(nursery.bear(0, &theirs).unwrap());
    for pid in [nursery.pid(), child.pid()] {
        let said = told_of(pid, "cmdline");
        assert!(said.bytes().all(|byte| byte == 0), "{said:?}");
    }
    assert!(told_of(std::process::id().cast_signed(), "cmdline").len() > 1);
}

#[test]
fn one_that_is_gone_is_no_hindrance() {
    let nursery = Nursery::open().unwrap();
    drop(nursery.prepare().unwrap());
    nursery.signal(Signal::KILL);
    let (_ours, theirs) = sockets().unwrap();
    assert!(nursery.bear(0, &theirs).is_err());
    drop(nursery.prepare().unwrap());
}

#[test]
fn one_that_does_not_answer_is_given_up() {
    let mut nursery = Nursery::open().unwrap();
    nursery.patience = Duration::from_millis(50);
    nursery.signal(Signal::STOP);
    drop(nursery.prepare().unwrap());
    // What it bears all the same when it goes on is of no order any more, and gone.
    nursery.patience = PATIENCE;
    nursery.signal(Signal::CONT);
    let (_ours, theirs) = sockets().unwrap();
    let child = nursery.bear(0, &theirs).unwrap();
    assert_eq!(parent(&child), std::process::id());
    drop(Init(child));
}

#[test]
fn a_child_that_cannot_be_made_is_told_by_its_error() {
    let nursery = Nursery::open().unwrap();
    let (_ours, theirs) = sockets().unwrap();
    // A thread needs the memory of its maker, which nothing here shares.
    let error = nursery.bear(libc::CLONE_THREAD, &theirs).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    let (_ours, theirs) = sockets().unwrap();
    drop(Init(nursery.bear(0, &theirs).unwrap()));
}
