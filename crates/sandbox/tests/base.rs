//! What every sandbox sees, on trees shaped like each kind of distribution.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_sandbox::HostPath;
use airlock_sandbox::base::{SECRETS, detect, identity_files};
use airlock_sandbox::generate::{Mask, SystemEntry};
use airlock_sandbox::launch::Base;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

fn path(text: &str) -> HostPath {
    HostPath::new(text).unwrap()
}

/// A tree: a name that ends in `/` is a directory, `a -> b` a link, all else a file.
fn tree(entries: &[&str]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for entry in entries {
        let (name, target) = match entry.split_once(" -> ") {
            Some((name, target)) => (name, Some(target)),
            None => (*entry, None),
        };
        let place = root.path().join(name.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        match target {
            Some(target) => symlink(target, place).unwrap(),
            None if name.ends_with('/') => fs::create_dir_all(place).unwrap(),
            None => fs::write(place, "x").unwrap(),
        }
    }
    root
}

fn base(root: &Path) -> Base {
    detect(root, &path("/home/airlock"))
}

fn shown(base: &Base) -> Vec<String> {
    let entry = |entry: &SystemEntry| match entry {
        SystemEntry::Existing(path) => path.to_string(),
        SystemEntry::Link { path, target } => format!("{path} -> {}", target.to_str().unwrap()),
    };
    base.system.iter().map(entry).collect()
}

fn hidden(base: &Base) -> BTreeSet<String> {
    let mask = |mask: &Mask| match mask {
        Mask::Directory(path) => format!("{path}/"),
        Mask::File(path) => path.to_string(),
    };
    base.masks.iter().map(mask).collect()
}

/// A distribution, its tree, and what is shown of it.
const DISTRIBUTIONS: &[(&str, &[&str], &[&str])] = &[
    (
        "merged /usr",
        &[
            "/usr/",
            "/bin -> usr/bin",
            "/sbin -> usr/sbin",
            "/lib -> usr/lib",
            "/lib64 -> usr/lib64",
            "/etc/",
            "/opt/",
            "/home/u/",
            "/root/",
            "/var/lib/x/",
            "/run/x/",
        ],
        &[
            "/usr",
            "/bin -> usr/bin",
            "/sbin -> usr/sbin",
            "/lib -> usr/lib",
            "/lib64 -> usr/lib64",
            "/etc",
            "/opt",
        ],
    ),
    (
        "separate directories, no /lib64, no /opt",
        &["/usr/local/", "/bin/", "/sbin/", "/lib/", "/etc/"],
        &["/usr", "/bin", "/sbin", "/lib", "/etc"],
    ),
    (
        "more than one word size",
        &[
            "/usr/",
            "/lib/",
            "/lib32/",
            "/lib64/",
            "/libx32 -> usr/libx32",
        ],
        &["/usr", "/lib", "/lib32", "/lib64", "/libx32 -> usr/libx32"],
    ),
    (
        "NixOS",
        &[
            "/nix/store/abc-system/sw/bin/",
            "/nix/var/nix/db/",
            "/bin/",
            "/usr/bin/",
            "/etc/static -> /nix/store/abc-etc",
            "/run/current-system -> /nix/store/abc-system",
        ],
        &[
            "/usr",
            "/bin",
            "/etc",
            "/nix/store",
            "/run/current-system -> /nix/store/abc-system",
        ],
    ),
    (
        "Guix, whose system is reached over a profile",
        &[
            "/gnu/store/abc-system/",
            "/bin/",
            "/etc/",
            "/run/current-system -> /var/guix/profiles/system",
            "/var/guix/profiles/system -> system-1-link",
            "/var/guix/profiles/system-1-link -> /gnu/store/abc-system",
        ],
        &[
            "/bin",
            "/etc",
            "/gnu/store",
            "/run/current-system -> /gnu/store/abc-system",
        ],
    ),
    (
        "ostree, whose /opt and /usr/local lie in /var",
        &[
            "/usr/bin/",
            "/usr/local -> ../var/usrlocal",
            "/var/usrlocal/bin/",
            "/opt -> var/opt",
            "/var/opt/",
            "/etc/",
        ],
        &[
            "/usr",
            "/var/usrlocal",
            "/etc",
            "/opt -> var/opt",
            "/var/opt",
        ],
    ),
    (
        "openSUSE's certificates",
        &["/usr/", "/var/lib/ca-certificates/pem/", "/var/lib/other/"],
        &["/usr", "/var/lib/ca-certificates"],
    ),
    ("nothing", &[], &[]),
];

#[test]
fn every_kind_of_distribution_is_shown_as_it_is() {
    for (case, entries, want) in DISTRIBUTIONS {
        let root = tree(entries);
        assert_eq!(shown(&base(root.path())), *want, "{case}");
    }
}

#[test]
fn links_lead_nowhere_but_to_system_directories() {
    let root = tree(&[
        "/home/u/secret",
        "/opt -> home/u",
        "/usr/local -> /home/u",
        "/run/current-system -> /home/u",
        "/run/x/",
        "/lib -> lib",
    ]);
    let base = base(root.path());
    assert!(
        base.system
            .iter()
            .all(|entry| !matches!(entry, SystemEntry::Existing(path) if path.as_path().starts_with("/home"))),
        "{base:?}"
    );
    assert!(
        !shown(&base)
            .iter()
            .any(|entry| entry.contains("current-system"))
    );
}

#[test]
fn every_row_of_the_table_is_hidden_where_it_is_there() {
    for secret in SECRETS {
        let name = secret.path.replace('*', "x");
        let root = tree(&[&name, "/etc/hosts", "/usr/bin/"]);
        fs::write(root.path().join(name.trim_start_matches('/')), "token = x").unwrap();
        assert_eq!(
            hidden(&base(root.path())),
            BTreeSet::from([name]),
            "{}",
            secret.path
        );
        assert!(!secret.reason.is_empty());
    }
}

#[test]
fn rows_are_unique_and_within_what_is_shown() {
    let paths: BTreeSet<&str> = SECRETS.iter().map(|secret| secret.path).collect();
    assert_eq!(paths.len(), SECRETS.len());
    for path in paths {
        assert!(
            path.starts_with("/etc/") || path.starts_with("/usr/"),
            "{path}"
        );
        assert!(HostPath::new(path).is_ok(), "{path}");
    }
}

#[test]
fn what_is_in_a_hidden_directory_is_not_hidden_again() {
    let root = tree(&[
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/NetworkManager/system-connections/home",
        "/etc/ppp/chap-secrets",
        "/etc/ppp/pap-secrets",
        "/etc/ppp/options",
        "/etc/shadow",
        "/etc/passwd",
        "/etc/hosts",
        "/etc/alternatives/java -> /usr/lib/jvm/java",
    ]);
    let want = [
        "/etc/NetworkManager/",
        "/etc/ppp/chap-secrets",
        "/etc/ppp/pap-secrets",
        "/etc/shadow",
        "/etc/ssh/",
    ];
    assert_eq!(hidden(&base(root.path())), want.map(str::to_owned).into());
}

#[test]
fn settings_are_hidden_only_if_they_mention_a_secret() {
    let root = tree(&["/etc/npmrc", "/etc/pip.conf", "/etc/maven/settings.xml"]);
    let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
    write("etc/npmrc", "cafile=/etc/ssl/certs/ca.crt");
    write(
        "etc/pip.conf",
        "[global]\nindex-url = https://u:p@host/simple",
    );
    write(
        "etc/maven/settings.xml",
        "<settings><!-- <password/> --></settings>",
    );
    assert_eq!(
        hidden(&base(root.path())),
        BTreeSet::from(["/etc/pip.conf".to_owned()])
    );
}

#[test]
fn a_linked_secret_is_hidden_where_it_really_lies() {
    let root = tree(&[
        "/etc/shadow -> real/shadow",
        "/etc/real/shadow",
        "/etc/sudoers -> /run/secrets/sudoers",
        "/run/secrets/sudoers",
        "/etc/crypttab -> /nowhere",
        "/etc/ssh -> ssh",
        "/etc/docker -> ../../../../../../etc/kubernetes",
        "/etc/kubernetes/admin.conf",
        "/etc/resolv.conf -> ../run/systemd/resolve/stub-resolv.conf",
        "/etc/localtime -> /usr/share/zoneinfo/UTC",
    ]);
    let want = ["/etc/kubernetes/", "/etc/real/shadow"];
    assert_eq!(hidden(&base(root.path())), want.map(str::to_owned).into());
}

#[test]
fn this_machine_has_a_base() {
    let base = base(Path::new("/"));
    assert!(shown(&base).contains(&"/usr".to_owned()));
    assert!(shown(&base).contains(&"/etc".to_owned()));
    if Path::new("/etc/shadow").is_file() {
        assert!(hidden(&base).contains("/etc/shadow"));
    }
    assert_eq!(base.home, path("/home/airlock"));
}

#[test]
fn the_user_inside_has_a_name_and_a_home() {
    let files = identity_files(&path("/home/airlock"));
    let lines: Vec<Vec<&str>> = files
        .passwd
        .lines()
        .map(|line| line.split(':').collect())
        .collect();
    assert!(lines.iter().all(|fields| fields.len() == 7), "{lines:?}");
    let user = lines.iter().find(|fields| fields[2] == "1000").unwrap();
    assert_eq!(
        user[..],
        [
            "airlock",
            "x",
            "1000",
            "1000",
            "airlock",
            "/home/airlock",
            "/bin/sh"
        ]
    );
    for id in [":0:", ":1000:", ":65534:"] {
        assert!(
            files.passwd.contains(id) && files.group.contains(id),
            "{id}"
        );
    }
    assert!(files.nsswitch.contains("passwd: files\n"));
}

#[test]
fn a_home_cannot_add_a_line_or_a_field() {
    for home in ["/a:0:0", "/a\nroot2:x:0:0::/:/bin/sh", "/a\r"] {
        let files = identity_files(&path(home));
        assert_eq!(files.passwd.lines().count(), 3, "{home:?}");
        assert!(
            files.passwd.contains(":1000:1000:airlock:/:/bin/sh"),
            "{home:?}"
        );
    }
}
