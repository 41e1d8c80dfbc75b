//! Living on after the command, the sandbox or the supervisor has ended.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{
    Fault, Try, at, call, fork, in_child, leave, nothing, open, open_call, status_of, text,
    wait_for,
};
use std::path::Path;
use std::thread;
use std::time::Duration;

pub(crate) const ATTACKS: &[Entry] = &[
    ("outlive", outlive),
    ("linger", linger),
    ("hold-up", hold_up),
    ("kill-process", kill_process),
    ("kill-everyone", kill_everyone),
    ("signal-process", signal_process),
];

/// Starts processes that try to outlive everything, each in its own way, and leaves.
fn outlive(arguments: &Arguments, attempt: &mut Attempt) {
    let ways = arguments.list("ways");
    let has = |way: &str| ways.iter().any(|known| known == way);
    let token = arguments.text("token");
    attempt.route(ways.join(", "), || {
        if has("subreaper") {
            call(
                libc::SYS_prctl,
                &[libc::PR_SET_CHILD_SUBREAPER as usize, 1, 0, 0, 0],
            )?;
        }
        let child = fork()?;
        if child == 0 {
            let _ = call(libc::SYS_setsid, &[]);
            if has("double fork") && fork().unwrap_or(0) != 0 {
                leave(0);
            }
            if has("own group") {
                let _ = call(libc::SYS_setpgid, &[0, 0]);
            }
            if has("no death signal") {
                let _ = call(
                    libc::SYS_prctl,
                    &[libc::PR_SET_PDEATHSIG as usize, 0, 0, 0, 0],
                );
            }
            if !has("holding pipes") {
                silence();
            }
            if has("many") {
                for _ in 0..3 {
                    let _ = fork();
                }
            }
            become_lingerer(&token, &has);
        }
        if has("double fork") {
            wait_for(child);
        }
        // Long enough for the new program to be there when the suite looks.
        thread::sleep(Duration::from_millis(150));
        Ok("left someone behind".to_owned())
    });
    if has("waiting") {
        thread::sleep(Duration::from_secs(30));
    }
}

/// Gives up the pipes, so that nobody notices by them.
fn silence() {
    for number in 0..3_usize {
        let _ = call(libc::SYS_close, &[number]);
    }
    let null = text("/dev/null");
    for _ in 0..3 {
        let given = [
            libc::AT_FDCWD as usize,
            at(null.as_bytes_with_nul()),
            libc::O_RDWR as usize,
        ];
        let _ = call(libc::SYS_openat, &given);
    }
}

/// Becomes a program whose arguments have the token, for the suite to find.
fn become_lingerer(token: &str, has: &dyn Fn(&str) -> bool) -> ! {
    let given = serde_json::json!({
        "token": token,
        "ignoring": has("ignoring signals"),
        "stopped": has("stopped"),
        "blocked": has("blocked on a pipe"),
    })
    .to_string();
    let program = std::env::current_exe().unwrap_or_default();
    let error = std::os::unix::process::CommandExt::exec(
        std::process::Command::new(program).arg("linger").arg(given),
    );
    leave(error.raw_os_error().unwrap_or(1));
}

fn linger(arguments: &Arguments, attempt: &mut Attempt) {
    if arguments.is("ignoring") {
        for signal in 1..65 {
            // SAFETY: ignoring a signal touches no memory.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    if arguments.is("stopped") {
        let own = std::process::id() as usize;
        let _ = call(libc::SYS_kill, &[own, libc::SIGSTOP as usize]);
    }
    if arguments.is("blocked") {
        // Whoever opens it in this process's place waits in its place as well.
        let name = text("blocking-pipe");
        let mode = (libc::S_IFIFO | 0o666) as usize;
        let here = libc::AT_FDCWD as usize;
        let _ = call(
            libc::SYS_mknodat,
            &[here, at(name.as_bytes_with_nul()), mode, 0],
        );
        let _ = call(libc::SYS_openat, &[here, at(name.as_bytes_with_nul()), 0]);
    }
    thread::sleep(Duration::from_secs(40));
    attempt.route("wait", || Ok("lingered".to_owned()));
}

/// Stops what another process starts before it has become a program. Where that borrows the memory
/// of whoever starts it until then, that one waits for it, and does nothing else any more.
fn hold_up(arguments: &Arguments, attempt: &mut Attempt) {
    attempt.route("stop before exec", || {
        if arguments.is("own") {
            return hold_up_starter();
        }
        hold_up_next()
    });
}

/// The next number is tried until it is somebody's. One that is a program already goes on; one whose
/// environment nobody may look at is none yet, and the probe rests its case.
fn hold_up_next() -> ! {
    let mut next = std::process::id() as usize + 1;
    loop {
        if call(libc::SYS_kill, &[next, libc::SIGSTOP as usize]).is_err() {
            continue;
        }
        // By then it stands still, or has become a program.
        thread::sleep(Duration::from_millis(10));
        let environment = format!("/proc/{next}/environ");
        while matches!(
            open(Path::new(&environment), libc::O_RDONLY),
            Err(Fault::Errno(libc::EACCES | libc::EPERM))
        ) {
            thread::sleep(Duration::from_secs(1));
        }
        while call(libc::SYS_kill, &[next, libc::SIGCONT as usize]).is_ok() {}
        next += 1;
    }
}

/// Stops a process that `starter` started, if there is one now.
fn stop_child_of(starter: i32) -> Option<usize> {
    let mut processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.find_map(|entry| {
        let process: usize = entry.file_name().to_str()?.parse().ok()?;
        let parent = status_of(&format!("/proc/{process}/status"), "PPid").ok()?;
        let own = parent == starter.to_string();
        let stop = || call(libc::SYS_kill, &[process, libc::SIGSTOP as usize]).ok();
        own.then(stop)?.map(|_| process)
    })
}

/// The same with a process of the probe's own in the place of the first one.
fn hold_up_starter() -> Try {
    let starter = fork()?;
    if starter == 0 {
        start_for_ever();
    }
    // Between two of them there is none, so it is looked for more than once.
    let stopped = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        stop_child_of(starter)
    });
    // Far longer than any of them takes.
    thread::sleep(STARTING * 3);
    let state = status_of(&format!("/proc/{starter}/status"), "State");
    for process in stopped.into_iter().chain([starter as usize]) {
        let _ = call(libc::SYS_kill, &[process, libc::SIGKILL as usize]);
    }
    wait_for(starter);
    match (stopped, state) {
        (Some(_), Ok(state)) if state.starts_with('D') => Ok("it waits for ever".to_owned()),
        (_, Ok(state)) => nothing(&state),
        (_, Err(fault)) => Err(fault),
    }
}

/// How long something takes to become a program where it borrows memory.
const STARTING: Duration = Duration::from_millis(500);

/// Lends its memory to one process after the other.
fn start_for_ever() -> ! {
    extern "C" fn borrow(_: *mut libc::c_void) -> libc::c_int {
        thread::sleep(STARTING);
        leave(0)
    }
    let mut stack = vec![0_u8; 64 << 10];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    loop {
        let top = stack.as_mut_ptr_range().end.cast();
        // SAFETY: nobody else has the stack: the call returns only once it is used no more.
        let child = unsafe { libc::clone(borrow, top, flags, std::ptr::null_mut()) };
        if child < 0 {
            leave(1);
        }
        wait_for(child);
    }
}

fn kill_process(arguments: &Arguments, attempt: &mut Attempt) {
    let pid = arguments.number("pid") as usize;
    for signal in [libc::SIGSTOP, libc::SIGTERM, libc::SIGSEGV, libc::SIGKILL] {
        attempt.route(format!("kill {signal}"), || {
            call(libc::SYS_kill, &[pid, signal as usize])?;
            thread::sleep(Duration::from_millis(150));
            match status_of(&format!("/proc/{pid}/status"), "State") {
                Ok(state) if state.starts_with(['T', 'Z', 'X']) => Ok(format!("it is {state}")),
                Ok(_) => nothing("IGNORED"),
                Err(_) => gone(pid),
            }
        });
    }
    attempt.route("pidfd_send_signal", || {
        let process = open_call(libc::SYS_pidfd_open, &[pid, 0])?;
        call(
            libc::SYS_pidfd_send_signal,
            &[crate::sys::fd(&process), libc::SIGKILL as usize, 0, 0],
        )?;
        thread::sleep(Duration::from_millis(150));
        match status_of(&format!("/proc/{pid}/status"), "State") {
            Ok(state) if !state.starts_with(['Z', 'X']) => nothing("IGNORED"),
            Ok(_) => Ok("it is gone".to_owned()),
            Err(_) => gone(pid),
        }
    });
}

/// Of a process whose files cannot be read: whether it can still be signalled.
fn gone(pid: usize) -> Try {
    match call(libc::SYS_kill, &[pid, 0]) {
        Ok(_) => nothing("IGNORED"),
        Err(_) => Ok("it is gone".to_owned()),
    }
}

/// A signal to every process that can be signalled. Whether the suite lives on is the answer.
fn kill_everyone(arguments: &Arguments, attempt: &mut Attempt) {
    if arguments.is("harmless") {
        attempt.route("kill -1 with 0", || {
            in_child(|| {
                call(libc::SYS_kill, &[usize::MAX, 0])?;
                Ok("could signal others".to_owned())
            })
        });
        return;
    }
    attempt.route("kill -1 with SIGKILL", || {
        match call(libc::SYS_kill, &[usize::MAX, libc::SIGKILL as usize]) {
            Ok(_) => nothing("OWN-NAMESPACE"),
            Err(fault) => Err(fault),
        }
    });
}

/// A process outside, by its number there.
fn signal_process(arguments: &Arguments, attempt: &mut Attempt) {
    let pid = arguments.number("pid") as usize;
    let own = std::process::id() as usize;
    // The number can be some process of the sandbox's own; the suite gives one far above those.
    if pid == own {
        return attempt.route("kill", || Err(Fault::Errno(libc::ESRCH)));
    }
    // As `sigqueue` fills it: the signal, no error, a code of the sender's own.
    let mut information = [0_i32; 32];
    information[0] = libc::SIGCONT;
    information[2] = -1;
    let give = [
        ("kill", libc::SYS_kill, vec![pid, libc::SIGCONT as usize]),
        ("tkill", libc::SYS_tkill, vec![pid, libc::SIGCONT as usize]),
        (
            "rt_sigqueueinfo",
            libc::SYS_rt_sigqueueinfo,
            vec![pid, libc::SIGCONT as usize, at(&information)],
        ),
        ("pidfd_open", libc::SYS_pidfd_open, vec![pid, 0]),
        (
            "sched_setaffinity",
            libc::SYS_sched_setaffinity,
            vec![pid, 8, at(&1_u64)],
        ),
        ("setpriority", libc::SYS_setpriority, vec![0, pid, 19]),
        (
            "prlimit64",
            libc::SYS_prlimit64,
            vec![pid, 7, at(&[16_u64, 16]), 0],
        ),
    ];
    for (word, number, arguments) in give {
        attempt.route(word, || {
            call(number, &arguments)?;
            Ok(format!("{word} reached it"))
        });
    }
}
