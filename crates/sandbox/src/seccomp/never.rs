//! Calls that no profile may ever allow, and why.
//!
//! Absence from the profiles already refuses them. The list says which absences are deliberate, so
//! that a later row cannot undo one unnoticed, and gives the escape suite what to attempt.

/// A call that stays refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Never {
    /// Its name.
    pub syscall: &'static str,
    /// Why.
    pub reason: &'static str,
}

const fn row(syscall: &'static str, reason: &'static str) -> Never {
    Never { syscall, reason }
}

const MEMORY: &str = "reads or steers another process's memory";
const MOUNTS: &str = "changes what is mounted or where the root is";
const NAMESPACES: &str = "makes or enters namespaces";
const IDENTITY: &str = "changes the identity or capabilities of the process";
const KEYS: &str = "reaches keys of the user outside";
const MODULES: &str = "loads code into the kernel";
const HOLES: &str = "has a history of holes in the kernel, and no use in builds";
const HANDLES: &str = "reaches files by handle, past every path check";
const WATCHES: &str = "watches files of the whole machine";
const MACHINE: &str = "changes the machine";
const HARDWARE: &str = "reaches hardware";
const READING: &str = "changes how the kernel reads later calls or lays out memory";
const OBSOLETE: &str = "is obsolete, or belongs to other systems";
const POINTER: &str = "cannot be filtered: its flags lie behind a pointer";

/// Every such call.
pub const NEVER: &[Never] = &[
    row("ptrace", MEMORY),
    row("process_vm_readv", MEMORY),
    row("process_vm_writev", MEMORY),
    row("process_madvise", MEMORY),
    row("process_mrelease", MEMORY),
    row("kcmp", MEMORY),
    row("pidfd_getfd", MEMORY),
    row("mount", MOUNTS),
    row("umount2", MOUNTS),
    row("mount_setattr", MOUNTS),
    row("move_mount", MOUNTS),
    row("open_tree", MOUNTS),
    row("open_tree_attr", MOUNTS),
    row("fsopen", MOUNTS),
    row("fsconfig", MOUNTS),
    row("fsmount", MOUNTS),
    row("fspick", MOUNTS),
    row("pivot_root", MOUNTS),
    row("chroot", MOUNTS),
    row("unshare", NAMESPACES),
    row("setns", NAMESPACES),
    row("setuid", IDENTITY),
    row("setgid", IDENTITY),
    row("setreuid", IDENTITY),
    row("setregid", IDENTITY),
    row("setresuid", IDENTITY),
    row("setresgid", IDENTITY),
    row("setfsuid", IDENTITY),
    row("setfsgid", IDENTITY),
    row("setgroups", IDENTITY),
    row("capset", IDENTITY),
    row("add_key", KEYS),
    row("request_key", KEYS),
    row("keyctl", KEYS),
    row("bpf", MODULES),
    row("init_module", MODULES),
    row("finit_module", MODULES),
    row("delete_module", MODULES),
    row("create_module", MODULES),
    row("kexec_load", MODULES),
    row("kexec_file_load", MODULES),
    row("userfaultfd", HOLES),
    row("io_uring_setup", HOLES),
    row("io_uring_enter", HOLES),
    row("io_uring_register", HOLES),
    row("perf_event_open", HOLES),
    row("modify_ldt", HOLES),
    row("remap_file_pages", HOLES),
    row("vhangup", HOLES),
    row("open_by_handle_at", HANDLES),
    row("name_to_handle_at", HANDLES),
    row("fanotify_init", WATCHES),
    row("fanotify_mark", WATCHES),
    row("lookup_dcookie", WATCHES),
    row("reboot", MACHINE),
    row("swapon", MACHINE),
    row("swapoff", MACHINE),
    row("acct", MACHINE),
    row("quotactl", MACHINE),
    row("quotactl_fd", MACHINE),
    row("sethostname", MACHINE),
    row("setdomainname", MACHINE),
    row("settimeofday", MACHINE),
    row("clock_settime", MACHINE),
    row("clock_adjtime", MACHINE),
    row("adjtimex", MACHINE),
    row("syslog", MACHINE),
    row("sync", MACHINE),
    row("syncfs", MACHINE),
    row("iopl", HARDWARE),
    row("ioperm", HARDWARE),
    row("personality", READING),
    row("seccomp", READING),
    row("nfsservctl", OBSOLETE),
    row("uselib", OBSOLETE),
    row("ustat", OBSOLETE),
    row("sysfs", OBSOLETE),
    row("_sysctl", OBSOLETE),
    row("get_kernel_syms", OBSOLETE),
    row("query_module", OBSOLETE),
    row("afs_syscall", OBSOLETE),
    row("tuxcall", OBSOLETE),
    row("security", OBSOLETE),
    row("getpmsg", OBSOLETE),
    row("putpmsg", OBSOLETE),
    row("vserver", OBSOLETE),
    row("set_thread_area", OBSOLETE),
    row("get_thread_area", OBSOLETE),
    row("epoll_ctl_old", OBSOLETE),
    row("epoll_wait_old", OBSOLETE),
    row("clone3", POINTER),
    row("openat2", POINTER),
];
