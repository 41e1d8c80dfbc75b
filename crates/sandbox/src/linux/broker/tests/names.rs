//! Changing: neither a denied file nor the names around it.

use super::{Scenario, denied, fails, run};
use rustix::fs::{
    AtFlags, CWD, Mode, RenameFlags, Timespec, Timestamps, XattrFlags, chmodat, chownat, linkat,
    removexattr, renameat_with, setxattr, utimensat,
};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("renaming", renaming),
    ("moving", moving),
    ("linking", linking),
    ("removing", removing),
    ("attributes", attributes),
];

fn renaming(directory: &Path) {
    let at = |name: &str| directory.join(name);
    for (from, to) in [
        ("secret.txt", "found"),
        ("plain.txt", "secret.txt"),
        ("plain.txt", "later.txt"),
        ("plain.txt", "open/.env"),
        ("project/.env", "project/env"),
        ("vault", "found"),
        ("vault/key", "found"),
        ("fixed.txt", "found"),
        ("plain.txt", "fixed.txt"),
    ] {
        denied(fs::rename(at(from), at(to)));
    }
    let exchange =
        |one: &str, other: &str| renameat_with(CWD, at(one), CWD, at(other), RenameFlags::EXCHANGE);
    assert_eq!(exchange("plain.txt", "secret.txt"), Err(Errno::ACCESS));
    assert_eq!(exchange("secret.txt", "plain.txt"), Err(Errno::ACCESS));
    assert_eq!(exchange("plain.txt", "open/other.txt"), Ok(()));
    assert_eq!(fs::read_to_string(at("plain.txt")).unwrap(), "other");
    fails(fs::rename(at("missing"), at("x")), Errno::NOENT);
    let keep = RenameFlags::NOREPLACE;
    let onto = renameat_with(CWD, at("plain.txt"), CWD, at("open/other.txt"), keep);
    assert_eq!(onto, Err(Errno::EXIST));
    fs::rename(at("plain.txt"), at("renamed")).unwrap();
    assert_eq!(fs::read_to_string(at("renamed")).unwrap(), "other");
    // A link is renamed itself, wherever it leads.
    fs::rename(at("to-secret"), at("still-to-secret")).unwrap();
    denied(fs::read(at("still-to-secret")));
}

fn moving(directory: &Path) {
    let at = |name: &str| directory.join(name);
    // What is denied anywhere stays so, so such a directory can be moved.
    fs::rename(at("project"), at("open/project")).unwrap();
    denied(fs::read(at("open/project/.env")));
    // Its name is what makes something beneath it denied, here or there.
    fails(fs::rename(at("deep"), at("shallow")), Errno::XDEV);
    fails(fs::rename(at("deep/a"), at("a")), Errno::XDEV);
    fails(fs::rename(at("moving/a"), at("moving/b")), Errno::XDEV);
    fails(fs::rename(at("open"), at("deep/b")), Errno::XDEV);
    fails(fs::rename(at("moving"), at("moved")), Errno::XDEV);
    let exchange = renameat_with(CWD, at("plain.txt"), CWD, at("deep"), RenameFlags::EXCHANGE);
    assert_eq!(exchange, Err(Errno::XDEV));
    fs::rename(at("deep/a"), at("deep/b")).unwrap();
    denied(fs::read(at("deep/b/key")));
    fs::rename(at("moving/c"), at("moving/d")).unwrap();
    assert_eq!(fs::read_to_string(at("moving/a/key")).unwrap(), "moved");
}

fn linking(directory: &Path) {
    let at = |name: &str| directory.join(name);
    for (from, to) in [
        ("secret.txt", "found"),
        ("vault/key", "found"),
        ("project/.env", "found"),
        ("fixed.txt", "found"),
        ("plain.txt", "later.txt"),
        ("plain.txt", "open/.env"),
        ("chain-1/key", "found"),
    ] {
        denied(fs::hard_link(at(from), at(to)));
    }
    let follow = |from: &str| linkat(CWD, at(from), CWD, at("found"), AtFlags::SYMLINK_FOLLOW);
    assert_eq!(follow("to-secret"), Err(Errno::ACCESS));
    // A name for the link, which leads where it led.
    fs::hard_link(at("to-secret"), at("link")).unwrap();
    assert!(at("link").is_symlink());
    denied(fs::read(at("link")));
    fs::hard_link(at("plain.txt"), at("second")).unwrap();
    assert_eq!(fs::metadata(at("second")).unwrap().nlink(), 2);
    symlink("vault", at("to-vault")).unwrap();
    denied(fs::read(at("to-vault/key")));
}

fn removing(directory: &Path) {
    let at = |name: &str| directory.join(name);
    for name in ["secret.txt", "vault/key", "project/.env", "fixed.txt"] {
        denied(fs::remove_file(at(name)));
    }
    denied(fs::remove_dir(at("vault")));
    denied(fs::create_dir(at("vault/inner")));
    fs::remove_file(at("to-secret")).unwrap();
    fs::remove_file(at("plain.txt")).unwrap();
    fails(fs::remove_file(at("plain.txt")), Errno::NOENT);
    fails(fs::remove_file(at("open")), Errno::ISDIR);
    fails(fs::remove_dir(at("open")), Errno::NOTEMPTY);
    fails(fs::remove_dir(at("chain-1")), Errno::NOTDIR);
    fs::remove_dir_all(at("open")).unwrap();
    fs::create_dir(at("open/")).unwrap();
    fails(fs::create_dir(at("open")), Errno::EXIST);
    fails(fs::create_dir("/"), Errno::EXIST);
}

fn attributes(directory: &Path) {
    let at = |name: &str| directory.join(name);
    let mode = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode));
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 5,
            tv_nsec: 0,
        },
        last_modification: Timespec {
            tv_sec: 7,
            tv_nsec: 9,
        },
    };
    let touch = |name: &str| utimensat(CWD, at(name), &times, AtFlags::empty());
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let own = |name: &str| chownat(CWD, at(name), Some(user), Some(group), AtFlags::empty());
    let set = |name: &str| setxattr(at(name), "user.x", b"value", XattrFlags::empty());
    for name in ["secret.txt", "to-secret", "fixed.txt", "chain-1/key"] {
        denied(mode(name, 0o644));
        denied(truncate(&at(name)));
        assert_eq!(touch(name), Err(Errno::ACCESS), "{name}");
        assert_eq!(own(name), Err(Errno::ACCESS), "{name}");
        assert_eq!(set(name), Err(Errno::ACCESS), "{name}");
        assert_eq!(removexattr(at(name), "user.x"), Err(Errno::ACCESS));
    }
    mode("plain.txt", 0o600).unwrap();
    touch("plain.txt").unwrap();
    own("plain.txt").unwrap();
    let stat = fs::metadata(at("plain.txt")).unwrap();
    assert_eq!(
        (stat.mode() & 0o7777, stat.mtime(), stat.mtime_nsec()),
        (0o600, 7, 9)
    );
    truncate(&at("plain.txt")).unwrap();
    assert_eq!(fs::read_to_string(at("plain.txt")).unwrap(), "pl");
    fails(truncate(&at("open")), Errno::ISDIR);
    let file = fs::File::open(at("plain.txt")).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o640))
        .unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o640);
    let kept = chmodat(CWD, at("to-plain"), Mode::RUSR, AtFlags::SYMLINK_NOFOLLOW);
    assert_eq!(kept, Err(Errno::OPNOTSUPP));
    // Where the file system has none, that is the kernel's answer too.
    match set("plain.txt") {
        Ok(()) => {
            let mut value = [0; 8];
            let by_path = rustix::fs::getxattr(at("plain.txt"), "user.x", &mut value);
            assert_eq!(by_path, Err(Errno::OPNOTSUPP));
            let open = fs::File::open(at("plain.txt")).unwrap();
            let length = rustix::fs::fgetxattr(&open, "user.x", &mut value).unwrap();
            assert_eq!(&value[..length], b"value");
            removexattr(at("plain.txt"), "user.x").unwrap();
        }
        Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
    }
}

/// By the path, as no function of the library does.
fn truncate(path: &Path) -> std::io::Result<()> {
    crate::linux::sys::notify::truncate_path(path, 2)
}

#[test]
fn no_rename_takes_a_denial_off_or_puts_a_file_under_one() {
    run("renaming");
}

#[test]
fn a_directory_moves_unless_its_name_is_what_denies() {
    run("moving");
}

#[test]
fn no_second_name_is_given_to_what_is_denied() {
    run("linking");
}

#[test]
fn what_is_denied_cannot_be_removed() {
    run("removing");
}

#[test]
fn what_is_denied_keeps_its_mode_size_times_and_attributes() {
    run("attributes");
}
