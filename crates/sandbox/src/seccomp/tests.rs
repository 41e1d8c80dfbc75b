//! The tables against themselves and against libc; programs are run in `tests/seccomp.rs`.

use super::*;
use std::collections::BTreeSet;

#[test]
fn every_row_names_a_known_call_and_gives_a_reason() {
    for row in Profile::StandardNet.rows() {
        assert!(Syscall::find(row.syscall).is_some(), "{}", row.syscall);
        assert!(!row.reason.is_empty(), "{}", row.syscall);
    }
    for never in NEVER {
        assert!(Syscall::find(never.syscall).is_some(), "{}", never.syscall);
        assert!(!never.reason.is_empty(), "{}", never.syscall);
    }
}

#[test]
fn no_profile_allows_what_must_never_be() {
    for never in NEVER {
        let allowed = Profile::StandardNet
            .rows()
            .any(|row| row.syscall == never.syscall);
        assert!(!allowed, "{}: {}", never.syscall, never.reason);
    }
}

#[test]
fn a_check_can_hold_and_a_row_looks_at_an_argument_once() {
    for row in Profile::StandardNet.rows() {
        let arguments: BTreeSet<u8> = row.when.iter().map(|check| check.argument).collect();
        assert_eq!(arguments.len(), row.when.len(), "{row:?}");
        for check in row.when {
            assert!(check.argument < 6, "{row:?}");
            assert_eq!(check.value & !check.mask, 0, "never true: {row:?}");
            assert_ne!(check.mask, 0, "always true: {row:?}");
        }
    }
}

#[test]
fn no_row_is_written_twice() {
    let rows: Vec<&Row> = Profile::StandardNet.rows().collect();
    for (position, row) in rows.iter().enumerate() {
        let again = rows
            .iter()
            .skip(position + 1)
            .any(|other| other.syscall == row.syscall && other.when == row.when);
        assert!(!again, "{row:?}");
    }
}

#[test]
fn numbers_are_unique_and_agree_where_architectures_share_them() {
    for architecture in Architecture::ALL {
        let numbers: Vec<u32> = SYSCALLS
            .iter()
            .filter_map(|c| c.number(*architecture))
            .collect();
        let unique: BTreeSet<u32> = numbers.iter().copied().collect();
        assert_eq!(unique.len(), numbers.len(), "{architecture:?}");
        assert_eq!(unique.last(), Some(&numbers::NEWEST), "{architecture:?}");
    }
    for call in SYSCALLS.iter().filter(|call| call.x86_64 >= Some(424)) {
        assert_eq!(call.x86_64, call.aarch64, "{}", call.name);
    }
}

/// Calls of every kind, old and new, against the numbers libc has for this machine.
#[cfg(target_os = "linux")]
#[test]
fn numbers_are_those_of_libc() {
    macro_rules! numbers {
        ($($name:ident = $constant:ident),* $(,)?) => { [$((stringify!($name), libc::$constant)),*] };
    }
    let here = Architecture::find(std::env::consts::ARCH).unwrap();
    for (name, number) in numbers![
        read = SYS_read,
        write = SYS_write,
        close = SYS_close,
        fstat = SYS_fstat,
        lseek = SYS_lseek,
        mmap = SYS_mmap,
        mprotect = SYS_mprotect,
        munmap = SYS_munmap,
        brk = SYS_brk,
        rt_sigaction = SYS_rt_sigaction,
        ioctl = SYS_ioctl,
        socket = SYS_socket,
        connect = SYS_connect,
        accept4 = SYS_accept4,
        sendto = SYS_sendto,
        clone = SYS_clone,
        execve = SYS_execve,
        execveat = SYS_execveat,
        exit_group = SYS_exit_group,
        wait4 = SYS_wait4,
        kill = SYS_kill,
        fcntl = SYS_fcntl,
        flock = SYS_flock,
        openat = SYS_openat,
        openat2 = SYS_openat2,
        newfstatat = SYS_newfstatat,
        statx = SYS_statx,
        faccessat2 = SYS_faccessat2,
        renameat2 = SYS_renameat2,
        mknodat = SYS_mknodat,
        ptrace = SYS_ptrace,
        prctl = SYS_prctl,
        setuid = SYS_setuid,
        mount = SYS_mount,
        umount2 = SYS_umount2,
        pivot_root = SYS_pivot_root,
        chroot = SYS_chroot,
        unshare = SYS_unshare,
        setns = SYS_setns,
        bpf = SYS_bpf,
        keyctl = SYS_keyctl,
        add_key = SYS_add_key,
        perf_event_open = SYS_perf_event_open,
        userfaultfd = SYS_userfaultfd,
        io_uring_setup = SYS_io_uring_setup,
        io_uring_enter = SYS_io_uring_enter,
        io_uring_register = SYS_io_uring_register,
        kexec_load = SYS_kexec_load,
        finit_module = SYS_finit_module,
        reboot = SYS_reboot,
        open_by_handle_at = SYS_open_by_handle_at,
        process_vm_writev = SYS_process_vm_writev,
        pidfd_getfd = SYS_pidfd_getfd,
        pidfd_open = SYS_pidfd_open,
        clone3 = SYS_clone3,
        close_range = SYS_close_range,
        rseq = SYS_rseq,
        getrandom = SYS_getrandom,
        memfd_create = SYS_memfd_create,
        copy_file_range = SYS_copy_file_range,
        seccomp = SYS_seccomp,
        personality = SYS_personality,
        futex = SYS_futex,
        futex_waitv = SYS_futex_waitv,
        landlock_restrict_self = SYS_landlock_restrict_self,
        fsopen = SYS_fsopen,
        mount_setattr = SYS_mount_setattr,
        mseal = SYS_mseal,
        epoll_pwait2 = SYS_epoll_pwait2,
        prlimit64 = SYS_prlimit64,
        getdents64 = SYS_getdents64,
    ] {
        let ours = Syscall::find(name).unwrap().number(here);
        assert_eq!(ours.map(i64::from), Some(number), "{name}");
    }
}
