use super::*;
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

/// The processes that belong to the calling thread.
fn children() -> String {
    fs::read_to_string("/proc/thread-self/children").unwrap()
}

impl Nursery {
    fn pid(&self) -> i32 {
        let line = self.line.lock().unwrap();
        line.as_ref().unwrap().process.pid()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    fn is_given_up(&self) -> bool {
        self.line.lock().unwrap().is_none()
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
    assert!(nursery.is_given_up());
    drop(nursery.prepare().unwrap());
    assert_eq!(children(), "");
}

#[test]
fn one_that_does_not_answer_is_given_up_and_ended() {
    let mut nursery = Nursery::open().unwrap();
    nursery.patience = Duration::from_millis(50);
    nursery.signal(Signal::STOP);
    let made = nursery.prepare().unwrap();
    assert!(nursery.is_given_up());
    // Nobody waits for it again.
    drop(nursery.prepare().unwrap());
    assert_eq!(children().split_whitespace().count(), 1, "what was made");
    drop(made);
    assert_eq!(children(), "");
}

#[test]
fn what_is_born_too_late_is_ended_and_takes_no_order_from_what_is_made_instead() {
    for _ in 0..20 {
        let mut nursery = Nursery::open().unwrap();
        nursery.patience = Duration::ZERO;
        let made = nursery.prepare().unwrap();
        let others = usize::from(!nursery.is_given_up());
        assert_eq!(children().split_whitespace().count(), 1 + others);
        drop((made, nursery));
        assert_eq!(children(), "");
    }
}

#[test]
fn a_child_whose_descriptor_was_lost_is_ended() {
    let nursery = Nursery::open().unwrap();
    let (_ours, theirs) = sockets().unwrap();
    let ClonedChild { pid, pidfd } = nursery.bear(0, &theirs).unwrap();
    drop(pidfd);
    let error = born(pid, Vec::new()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    assert_eq!(children().trim(), nursery.pid().to_string());
    // What is no process at all is nobody's end.
    for nobody in [0, -1] {
        assert!(born(nobody, Vec::new()).is_err());
    }
    assert!(!nursery.is_given_up());
}

#[test]
fn a_child_that_cannot_be_made_is_told_by_its_error() {
    let nursery = Nursery::open().unwrap();
    let (_ours, theirs) = sockets().unwrap();
    // A thread needs the memory of its maker, which nothing here shares.
    let error = nursery.bear(libc::CLONE_THREAD, &theirs).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    assert!(!nursery.is_given_up());
    let (_ours, theirs) = sockets().unwrap();
    drop(Init(nursery.bear(0, &theirs).unwrap()));
}

#[test]
fn no_signal_stays_ignored_in_it_or_what_it_bears() {
    let nursery = Nursery::open().unwrap();
    let (_ours, theirs) = sockets().unwrap();
    let child = Init(nursery.bear(0, &theirs).unwrap());
    // Whoever bears children has forgotten them.
    let status = told_of(nursery.pid(), "status");
    assert!(status.contains("\nSigIgn:\t0000000000000000\n"), "{status}");
    drop(child);
}
