//! Gaining rights: set-user-id programs, namespaces, capabilities, and calls that need them.

use crate::Entry;
use crate::attempt::{Arguments, Attempt};
use crate::sys::{
    Fault, MINUS_ONE, Try, at, call, fd, in_child, is_root, nothing, old, open, open_call,
    own_namespaces, private_mounts, status_of, text,
};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Entry] = &[
    ("setuid-program", setuid_program),
    ("privileged-file", privileged_file),
    ("effective-user", effective_user),
    ("namespace-unshare", unshare),
    ("namespace-clone", clone),
    ("namespace-enter", enter),
    ("uid-map", uid_map),
    ("capabilities-held", capabilities_held),
    ("capability-set", capability_set),
    ("capability-ambient", ambient),
    ("become-root", become_root),
    ("groups", groups),
    ("change-root", change_root),
    ("pivot-root", pivot_root),
    ("no-new-privileges", no_new_privileges),
    ("seccomp-listener", seccomp_listener),
    ("process-settings", process_settings),
    ("priority", priority),
    ("real-time", real_time),
    ("io-priority", io_priority),
    ("score", score),
    ("cgroup-escape", cgroup_escape),
    ("raise-limits", raise_limits),
    ("steer-process", steer_process),
    ("host-name", host_name),
];

/// The effective user of the programs that are root's, while they run.
fn setuid_program(_: &Arguments, attempt: &mut Attempt) {
    for program in [
        "su",
        "passwd",
        "chsh",
        "sudo",
        "pkexec",
        "newuidmap",
        "mount",
        "ping",
    ] {
        let Some(path) = ["/usr/bin", "/bin", "/usr/sbin"]
            .iter()
            .map(|directory| Path::new(directory).join(program))
            .find(|path| path.exists())
        else {
            continue;
        };
        attempt.route(format!("execve {}", path.display()), || {
            let mut child = Command::new(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            let result = watch_identity(child.id(), program);
            let _ = child.kill();
            let _ = child.wait();
            result
        });
    }
}

fn watch_identity(pid: u32, program: &str) -> Try {
    let file = format!("/proc/{pid}/status");
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        let name = status_of(&file, "Name")?;
        let users = status_of(&file, "Uid")?;
        if name == program && users.split_whitespace().nth(1) == Some("0") {
            return Ok(format!("{program} runs as uid 0"));
        }
        if name == program {
            return nothing("OWN-USER");
        }
        thread::sleep(Duration::from_millis(2));
    }
    nothing("OWN-USER")
}

/// A copy of the probe with the set-user-id bit or with file capabilities.
fn privileged_file(arguments: &Arguments, attempt: &mut Attempt) {
    for path in arguments.list("paths") {
        attempt.route(format!("execve {path}"), || {
            in_child(|| {
                if is_root() {
                    // Only someone who is not root gains by it.
                    for call_number in [libc::SYS_setresgid, libc::SYS_setresuid] {
                        call(call_number, &[65_534, 65_534, 65_534])?;
                    }
                }
                let output = Command::new(&path).arg("effective-user").output()?;
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                if said.contains("\"achieved\":true") {
                    return Ok(said);
                }
                nothing("OWN-USER")
            })
        });
    }
}

fn effective_user(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("geteuid", || {
        if is_root() {
            Ok("uid 0".to_owned())
        } else {
            nothing("OWN-USER")
        }
    });
    attempt.route("effective capabilities", held);
}

fn held() -> Try {
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        let value = status_of("/proc/self/status", set)?;
        if !value.trim_start_matches('0').is_empty() {
            return Ok(format!("{set} {value}"));
        }
    }
    nothing("NONE")
}

fn capabilities_held(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("CapEff, CapPrm, CapInh, CapAmb", held);
    attempt.route("CapBnd", || {
        let value = status_of("/proc/self/status", "CapBnd")?;
        if value.trim_start_matches('0').is_empty() {
            nothing("NONE")
        } else {
            Ok(value)
        }
    });
}

fn unshare(_: &Arguments, attempt: &mut Attempt) {
    for (word, flags) in [
        ("user", libc::CLONE_NEWUSER),
        ("user and mount", libc::CLONE_NEWUSER | libc::CLONE_NEWNS),
        ("user and network", libc::CLONE_NEWUSER | libc::CLONE_NEWNET),
        ("mount", libc::CLONE_NEWNS),
        ("time", 0x80),
    ] {
        for high in [0_usize, 1 << 32] {
            attempt.route(format!("unshare {word} {high:#x}"), || {
                in_child(|| {
                    call(libc::SYS_unshare, &[flags as usize | high])?;
                    Ok(format!("new {word} namespace"))
                })
            });
        }
    }
}

fn clone(_: &Arguments, attempt: &mut Attempt) {
    for (word, flags) in [
        ("user", libc::CLONE_NEWUSER),
        ("user and pid", libc::CLONE_NEWUSER | libc::CLONE_NEWPID),
        ("cgroup", libc::CLONE_NEWUSER | libc::CLONE_NEWCGROUP),
    ] {
        for high in [0_usize, 1 << 32] {
            attempt.route(format!("clone {word} {high:#x}"), || {
                let flags = (flags | libc::SIGCHLD) as usize | high;
                let child = call(libc::SYS_clone, &[flags, 0, 0, 0, 0])? as i32;
                if child == 0 {
                    crate::sys::leave(0);
                }
                crate::sys::wait_for(child);
                Ok(format!("child in a new {word} namespace"))
            });
        }
    }
    attempt.route("clone3 user", || {
        let mut request = [0_u64; 11];
        request[0] = libc::CLONE_NEWUSER as u64;
        request[4] = libc::SIGCHLD as u64;
        let child = call(libc::SYS_clone3, &[at(&request), size_of_val(&request)])? as i32;
        if child == 0 {
            crate::sys::leave(0);
        }
        crate::sys::wait_for(child);
        Ok("child in a new user namespace".to_owned())
    });
}

/// The namespaces of another process, through `/proc` and through a descriptor of the process.
fn enter(arguments: &Arguments, attempt: &mut Attempt) {
    let pid = arguments.number("pid");
    for kind in ["user", "mnt", "net", "ipc", "uts", "pid", "cgroup"] {
        attempt.route(format!("setns {kind}"), || {
            in_child(|| {
                let file = format!("/proc/{pid}/ns/{kind}");
                let namespace = open(Path::new(&file), libc::O_RDONLY)?;
                call(libc::SYS_setns, &[fd(&namespace), 0])?;
                Ok(format!("entered {kind}"))
            })
        });
    }
    attempt.route("setns of a pidfd", || {
        in_child(|| {
            let process = open_call(libc::SYS_pidfd_open, &[pid as usize, 0])?;
            let all = libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWNET;
            call(libc::SYS_setns, &[fd(&process), all as usize])?;
            Ok("entered all".to_owned())
        })
    });
    if arguments.is("own") {
        // An ordinary user can enter only what is its own: the control makes one.
        attempt.route("setns of an own user namespace", || {
            in_child(|| {
                let before = open(Path::new("/proc/self/ns/uts"), libc::O_RDONLY)?;
                own_namespaces(libc::CLONE_NEWUTS)?;
                let own = open(Path::new("/proc/self/ns/uts"), libc::O_RDONLY)?;
                drop(before);
                call(libc::SYS_setns, &[fd(&own), 0])?;
                Ok("entered".to_owned())
            })
        });
    }
}

/// The mapping of users of the namespace that is already there.
fn uid_map(arguments: &Arguments, attempt: &mut Attempt) {
    if arguments.is("own") {
        attempt.route("unshare, uid_map", || {
            in_child(|| {
                own_namespaces(0)?;
                Ok("root of a namespace".to_owned())
            })
        });
    }
    for file in ["uid_map", "gid_map", "setgroups"] {
        attempt.route(format!("write {file}"), || {
            let line = if file == "setgroups" {
                "allow"
            } else {
                "0 0 1\n"
            };
            std::fs::write(format!("/proc/self/{file}"), line)?;
            Ok("changed the mapping".to_owned())
        });
    }
}

fn capability_set(_: &Arguments, attempt: &mut Attempt) {
    for version in [0x2008_0522_u32, 0x2007_1026] {
        attempt.route(format!("capset {version:#x}"), || {
            let header = [version, 0];
            let all = [u32::MAX, u32::MAX, 0, 0x1ff, 0x1ff, 0];
            call(libc::SYS_capset, &[at(&header), at(&all)])?;
            Ok("all capabilities".to_owned())
        });
    }
    attempt.route("unshare, capset", || {
        in_child(|| {
            own_namespaces(0)?;
            let header = [0x2008_0522_u32, 0];
            let some = [1_u32, 1, 0, 0, 0, 0];
            call(libc::SYS_capset, &[at(&header), at(&some)])?;
            Ok("capabilities in a namespace of its own".to_owned())
        })
    });
}

fn ambient(_: &Arguments, attempt: &mut Attempt) {
    const RAISE: usize = 2;
    for capability in [0_usize, 6, 7, 12, 21] {
        attempt.route(format!("prctl PR_CAP_AMBIENT {capability}"), || {
            in_child(|| {
                call(
                    libc::SYS_prctl,
                    &[libc::PR_CAP_AMBIENT as usize, RAISE, capability, 0, 0],
                )?;
                Ok("raised".to_owned())
            })
        });
    }
    attempt.route("prctl PR_SET_KEEPCAPS", || {
        in_child(|| {
            call(libc::SYS_prctl, &[libc::PR_SET_KEEPCAPS as usize, 1])?;
            Ok("keeps capabilities".to_owned())
        })
    });
    attempt.route("prctl PR_SET_SECUREBITS", || {
        in_child(|| {
            call(libc::SYS_prctl, &[libc::PR_SET_SECUREBITS as usize, 0])?;
            Ok("set".to_owned())
        })
    });
}

fn become_root(_: &Arguments, attempt: &mut Attempt) {
    let calls = [
        ("setuid", libc::SYS_setuid, vec![0]),
        ("setreuid", libc::SYS_setreuid, vec![0, 0]),
        ("setresuid", libc::SYS_setresuid, vec![0, 0, 0]),
        ("setgid", libc::SYS_setgid, vec![0]),
        ("setresgid", libc::SYS_setresgid, vec![0, 0, 0]),
    ];
    for (word, number, arguments) in calls {
        attempt.route(word, || {
            in_child(|| {
                call(number, &arguments)?;
                Ok("is 0".to_owned())
            })
        });
        attempt.route(format!("unshare, {word}"), || {
            in_child(|| {
                own_namespaces(0)?;
                call(number, &arguments)?;
                Ok("is 0 in a namespace of its own".to_owned())
            })
        });
    }
    attempt.route("setfsuid", || {
        in_child(|| {
            call(libc::SYS_setfsuid, &[0])?;
            let after = call(libc::SYS_setfsuid, &[MINUS_ONE])?;
            if after == 0 {
                Ok("fsuid 0".to_owned())
            } else {
                Err(Fault::Errno(libc::EPERM))
            }
        })
    });
}

fn groups(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("setgroups", || {
        in_child(|| {
            let list = [0_u32, 4, 27];
            call(libc::SYS_setgroups, &[list.len(), at(&list)])?;
            Ok("in root's groups".to_owned())
        })
    });
    // Groups the host user has must not come along: they open files of others.
    attempt.route("groups held", || {
        let held = status_of("/proc/self/status", "Groups")?;
        let beyond = held
            .split_whitespace()
            .find(|group| !matches!(*group, "1000" | "65534"));
        beyond.map_or_else(|| nothing("NONE"), |group| Ok(format!("in group {group}")))
    });
}

fn change_root(_: &Arguments, attempt: &mut Attempt) {
    for root in ["/", "/usr", "/proc/1/root"] {
        attempt.route(format!("chroot {root}"), || {
            in_child(|| {
                let path = text(root);
                call(libc::SYS_chroot, &[at(path.as_bytes_with_nul())])?;
                Ok("changed the root".to_owned())
            })
        });
    }
    attempt.route("unshare, chroot", || {
        in_child(|| {
            own_namespaces(0)?;
            let path = text("/");
            call(libc::SYS_chroot, &[at(path.as_bytes_with_nul())])?;
            Ok("changed the root in a namespace of its own".to_owned())
        })
    });
}

fn pivot_root(_: &Arguments, attempt: &mut Attempt) {
    for own in [false, true] {
        let word = if own {
            "unshare, pivot_root"
        } else {
            "pivot_root"
        };
        attempt.route(word, || {
            in_child(|| {
                // It moves every process of the mount namespace: never the host's.
                if is_root() {
                    private_mounts()?;
                } else if own {
                    own_namespaces(libc::CLONE_NEWNS)?;
                }
                if own {
                    let (none, tmp, kind) = (text("none"), text("/tmp"), text("tmpfs"));
                    let (none, tmp) = (at(none.as_bytes_with_nul()), at(tmp.as_bytes_with_nul()));
                    call(
                        libc::SYS_mount,
                        &[none, tmp, at(kind.as_bytes_with_nul()), 0, 0],
                    )?;
                }
                let (new, old) = (text("/tmp"), text("/tmp"));
                call(
                    libc::SYS_pivot_root,
                    &[at(new.as_bytes_with_nul()), at(old.as_bytes_with_nul())],
                )?;
                Ok("changed the root".to_owned())
            })
        });
    }
}

fn no_new_privileges(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("prctl PR_SET_NO_NEW_PRIVS 0", || {
        call(
            libc::SYS_prctl,
            &[libc::PR_SET_NO_NEW_PRIVS as usize, 0, 0, 0, 0],
        )?;
        Ok("turned it off".to_owned())
    });
    attempt.route("NoNewPrivs", || {
        match status_of("/proc/self/status", "NoNewPrivs")?.as_str() {
            "0" => Ok("programs can gain rights".to_owned()),
            _ => nothing("SET"),
        }
    });
    attempt.route("Seccomp", || {
        match status_of("/proc/self/status", "Seccomp")?.as_str() {
            "0" => Ok("no filter".to_owned()),
            _ => nothing("SET"),
        }
    });
}

/// `sock_fprog`.
#[repr(C)]
struct Filter {
    length: u16,
    start: usize,
}

/// A filter of the attacker's own with a listener could answer in place of the sandbox's filter.
fn seccomp_listener(_: &Arguments, attempt: &mut Attempt) {
    // One instruction: allow.
    let program = [0x0006_u64 | (0x7fff_0000 << 32)];
    let filter = Filter {
        length: 1,
        start: at(&program),
    };
    for (word, flags) in [
        ("a listener", 8_usize),
        ("allow everything", 0),
        ("and log", 2),
    ] {
        attempt.route(format!("seccomp {word}"), || {
            in_child(|| {
                let _ = call(
                    libc::SYS_prctl,
                    &[libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0],
                );
                call(libc::SYS_seccomp, &[1, flags, at(&filter)])?;
                Ok("installed a filter".to_owned())
            })
        });
    }
    attempt.route("prctl PR_SET_SECCOMP", || {
        in_child(|| {
            let _ = call(
                libc::SYS_prctl,
                &[libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0],
            );
            call(
                libc::SYS_prctl,
                &[libc::PR_SET_SECCOMP as usize, 2, at(&filter)],
            )?;
            Ok("installed a filter".to_owned())
        })
    });
}

/// Settings of the process that reach into its layout, its tracer, its mitigations.
fn process_settings(_: &Arguments, attempt: &mut Attempt) {
    for (word, arguments) in [
        ("PR_SET_DUMPABLE 1", [4_usize, 1, 0, 0]),
        ("PR_SET_PTRACER any", [0x5961_6d61, MINUS_ONE, 0, 0]),
        ("PR_SET_TSC", [26, 2, 0, 0]),
        ("PR_SET_SPECULATION_CTRL", [53, 0, 2, 0]),
        ("PR_SET_MM", [35, 1, 0, 0]),
        ("PR_SET_IO_FLUSHER", [57, 1, 0, 0]),
    ] {
        attempt.route(format!("prctl {word}"), || {
            in_child(|| {
                call(libc::SYS_prctl, &arguments)?;
                Ok("set".to_owned())
            })
        });
    }
    attempt.route("personality ADDR_NO_RANDOMIZE", || {
        in_child(|| {
            call(libc::SYS_personality, &[0x0004_0000])?;
            Ok("set".to_owned())
        })
    });
    attempt.route("arch_prctl ARCH_SET_CPUID", || {
        in_child(|| {
            call(old::ARCH_PRCTL, &[0x1012, 1])?;
            Ok("set".to_owned())
        })
    });
}

fn priority(_: &Arguments, attempt: &mut Attempt) {
    for (word, which, who) in [("itself", 0_usize, 0_usize), ("its user", 2, 0)] {
        attempt.route(format!("setpriority -20 {word}"), || {
            in_child(|| {
                call(libc::SYS_setpriority, &[which, who, -20_isize as usize])?;
                Ok("goes before everyone".to_owned())
            })
        });
    }
}

fn real_time(_: &Arguments, attempt: &mut Attempt) {
    for (word, policy, value) in [("FIFO", 1_usize, 1_i32), ("RR", 2, 1)] {
        attempt.route(format!("sched_setscheduler {word}"), || {
            in_child(|| {
                call(libc::SYS_sched_setscheduler, &[0, policy, at(&value)])?;
                Ok("runs in real time".to_owned())
            })
        });
    }
    attempt.route("sched_setattr DEADLINE", || {
        in_child(|| {
            let request: [u64; 6] = [0x30 | (6 << 32), 0, 0, 1 << 20, 1 << 24, 1 << 24];
            call(libc::SYS_sched_setattr, &[0, at(&request), 0])?;
            Ok("has a deadline".to_owned())
        })
    });
}

fn io_priority(_: &Arguments, attempt: &mut Attempt) {
    attempt.route("ioprio_set real time", || {
        in_child(|| {
            call(libc::SYS_ioprio_set, &[1, 0, 1 << 13])?;
            Ok("reads before everyone".to_owned())
        })
    });
}

/// Being the last that is ended when memory runs out.
fn score(_: &Arguments, attempt: &mut Attempt) {
    for file in ["/proc/self/oom_score_adj", "/proc/1/oom_score_adj"] {
        attempt.route(format!("write {file}"), || {
            in_child(|| {
                std::fs::write(file, "-1000")?;
                Ok("is never ended".to_owned())
            })
        });
    }
}

/// Leaving the cgroup that limits it.
fn cgroup_escape(arguments: &Arguments, attempt: &mut Attempt) {
    let mut places = arguments.list("places");
    places.extend(
        [
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup/pids",
            "/sys/fs/cgroup/memory",
        ]
        .map(str::to_owned),
    );
    for place in places {
        for file in ["cgroup.procs", "tasks"] {
            attempt.route(format!("write {place}/{file}"), || {
                in_child(|| {
                    std::fs::write(Path::new(&place).join(file), "0")?;
                    Ok("moved to the root".to_owned())
                })
            });
        }
    }
    for (kind, data) in [("cgroup2", ""), ("cgroup", "pids"), ("cgroup", "memory")] {
        attempt.route(format!("unshare, mount {kind} {data}"), || {
            in_child(|| {
                own_namespaces(libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP)?;
                let (none, to, kind, data) = (text("none"), text("/tmp"), text(kind), text(data));
                call(
                    libc::SYS_mount,
                    &[
                        at(none.as_bytes_with_nul()),
                        at(to.as_bytes_with_nul()),
                        at(kind.as_bytes_with_nul()),
                        0,
                        at(data.as_bytes_with_nul()),
                    ],
                )?;
                Ok("mounted the hierarchy".to_owned())
            })
        });
    }
}

fn raise_limits(_: &Arguments, attempt: &mut Attempt) {
    for (word, resource) in [
        ("processes", 6_usize),
        ("file size", 1),
        ("files", 7),
        ("core", 4),
        ("locked", 8),
    ] {
        attempt.route(format!("prlimit64 {word}"), || {
            in_child(|| {
                let mut old = [0_u64; 2];
                call(
                    libc::SYS_prlimit64,
                    &[0, resource, 0, old.as_mut_ptr() as usize],
                )?;
                if old[1] == u64::MAX {
                    return Ok("was never limited".to_owned());
                }
                let more = [old[1] + 1, old[1] + 1];
                call(libc::SYS_prlimit64, &[0, resource, at(&more), 0])?;
                Ok("raised".to_owned())
            })
        });
    }
}

/// Limits and scheduling of another process, which all that it starts would have.
fn steer_process(arguments: &Arguments, attempt: &mut Attempt) {
    let pid = arguments.number("pid") as usize;
    // The hard limit stays what it is, so that this only takes.
    attempt.route("prlimit64 files, for a while", || {
        let mut own = [0_u64; 2];
        call(libc::SYS_prlimit64, &[0, 7, 0, own.as_mut_ptr() as usize])?;
        let less = [16, own[1]];
        call(libc::SYS_prlimit64, &[pid, 7, at(&less), 0])?;
        Ok("lowered another's".to_owned())
    });
    let less = [5_u64, 5];
    let usual_but_nice = [0x30_u64, 0, 19, 0, 0, 0];
    let give = [
        (
            "prlimit64 file size",
            libc::SYS_prlimit64,
            [pid, 1, at(&less), 0],
        ),
        ("setpriority", libc::SYS_setpriority, [0, pid, 19, 0]),
        (
            "sched_setscheduler IDLE",
            libc::SYS_sched_setscheduler,
            [pid, 5, at(&0_i32), 0],
        ),
        (
            "sched_setattr",
            libc::SYS_sched_setattr,
            [pid, at(&usual_but_nice), 0, 0],
        ),
        (
            "ioprio_set idle",
            libc::SYS_ioprio_set,
            [1, pid, 3 << 13, 0],
        ),
    ];
    for (word, number, given) in give {
        attempt.route(word, || {
            call(number, &given)?;
            Ok("set another's".to_owned())
        });
    }
    // Unconfined, that would be everybody.
    if arguments.is("confined") {
        attempt.route("setpriority of its user", || {
            call(libc::SYS_setpriority, &[2, 0, 19])?;
            Ok("set everybody's".to_owned())
        });
    }
}

/// In a namespace of its own, so that the control renames nobody. A sandbox that lets any of this
/// through would have let the first step through as well, and the plain call is tried last there.
fn host_name(arguments: &Arguments, attempt: &mut Attempt) {
    let name = b"taken-over".as_slice();
    let confined = arguments.is("confined");
    for (word, number) in [
        ("sethostname", libc::SYS_sethostname),
        ("setdomainname", libc::SYS_setdomainname),
    ] {
        attempt.route(format!("unshare, {word}"), || {
            in_child(|| {
                own_namespaces(libc::CLONE_NEWUTS)?;
                call(number, &[at(name), name.len()])?;
                Ok("renamed".to_owned())
            })
        });
        if confined {
            attempt.route(word, || {
                call(number, &[at(name), name.len()])?;
                Ok("renamed".to_owned())
            });
        }
    }
    if confined {
        attempt.route("write /proc/sys/kernel/hostname", || {
            std::fs::write("/proc/sys/kernel/hostname", name)?;
            Ok("renamed".to_owned())
        });
    }
}
