//! Stages filled by someone who wants the diff to be wrong, or to reach out of the stage.

use super::support::{Bench, bytes, is_root, lines, on_every_overlay};
use airlock_sandbox::stage::{Content, Marks, RefusedReason, StageError};
use rustix::fs::{FileType, Mode, XattrFlags};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn refused(bench: &Bench) -> Vec<(String, RefusedReason)> {
    let diff = bench.diff();
    let path = |path: &Path| bytes(path).escape_ascii().to_string();
    let refused = diff.refused.iter();
    refused
        .map(|r| (path(r.path.as_path()), r.reason))
        .collect()
}

fn mark(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

const ATTRIBUTES: [&str; 5] = ["opaque", "whiteout", "redirect", "metacopy", "origin"];

/// What a process inside does to the files `f` and `d` where it stands.
fn set_every_attribute_here() {
    for name in ATTRIBUTES {
        for path in ["f", "d"] {
            let name = format!("user.overlay.{name}");
            match rustix::fs::setxattr(path, &*name, b"y", XattrFlags::empty()) {
                // Before Linux 6.7 an overlay refuses its own names; since then it writes others.
                Ok(()) | Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::PERM) => {}
                Err(errno) => panic!("{path}: {name}: {errno}"),
            }
        }
    }
    std::fs::write("done", "").unwrap();
}

#[test]
fn marks_set_from_inside_mean_nothing() {
    // This test starts itself again inside.
    if Path::new("set-attributes-here").exists() {
        return set_every_attribute_here();
    }
    let prepare = "echo a >f; : >e; mkdir d; echo b >d/b; echo c >d/c; : >set-attributes-here";
    on_every_overlay(prepare, |bench| {
        let program = std::env::current_exe().unwrap();
        let script = "--exact hostile::marks_set_from_inside_mean_nothing";
        bench.inside(&format!("echo n >d/n\n'{}' {script}", program.display()));
        let diff = bench.diff();
        // The file has the same content as before, the directory still shows what was in it.
        assert_eq!(lines(&diff), ["added d/n", "added done"]);
        assert!(diff.conflicts.is_empty());
        // The next mount sees the same.
        bench.inside("test -s d/b; test -s d/c; test -s f");
    });
}

#[test]
fn marks_of_the_other_kind_mean_nothing() {
    if !is_root() {
        // Only root can have an overlay with trusted marks.
        return;
    }
    let bench = Bench::new("echo a >f; mkdir d; echo b >d/b", Marks::Trusted);
    bench.inside("echo x >f; echo n >d/n");
    for path in ["f", "d"] {
        for name in ATTRIBUTES {
            mark(
                &bench.upper().join(path),
                &format!("user.overlay.{name}"),
                b"y",
            );
        }
    }
    assert_eq!(lines(&bench.diff()), ["added d/n", "modified f"]);
}

#[test]
fn marks_that_no_mount_of_ours_makes_are_an_error() {
    for marks in super::support::every_kind_of_marks() {
        let prefix = match marks {
            Marks::User => "user",
            Marks::Trusted => "trusted",
        };
        for (path, name) in [("d", "redirect"), ("d/b", "metacopy")] {
            let bench = Bench::new("mkdir d; echo b >d/b", marks);
            bench.inside("echo x >d/b");
            let name = format!("{prefix}.overlay.{name}");
            mark(&bench.upper().join(path), &name, b"/elsewhere");
            let error = bench.try_diff().unwrap_err();
            assert!(
                matches!(&error, StageError::ForeignMark { mark, .. } if *mark == name),
                "{error}"
            );
        }
    }
}

#[test]
fn attribute_whiteouts_count_only_where_a_directory_announces_them() {
    for (value, want) in [(b"x", vec!["deleted d/a"]), (b"n", vec!["modified d/a"])] {
        let bench = Bench::new("mkdir d; echo a >d/a; echo b >d/b", Marks::User);
        std::fs::create_dir(bench.upper().join("d")).unwrap();
        std::fs::write(bench.upper().join("d/a"), "").unwrap();
        mark(&bench.upper().join("d/a"), "user.overlay.whiteout", b"y");
        mark(&bench.upper().join("d"), "user.overlay.opaque", value);
        assert_eq!(lines(&bench.diff()), want);
    }
}

#[test]
fn whiteouts_of_nothing_change_nothing() {
    let bench = Bench::new("echo a >a", Marks::User);
    // Anyone may make this one device.
    for name in ["gone", ".wh.a"] {
        let place = bench.upper().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place,
            FileType::CharacterDevice,
            Mode::empty(),
            0,
        )
        .unwrap();
    }
    assert!(bench.diff().is_empty());
    // A name that other tools use for whiteouts is a file like any other.
    bench.inside("echo b >.wh.x; echo c >.wh..wh..opq");
    assert_eq!(lines(&bench.diff()), ["added .wh..wh..opq", "added .wh.x"]);
}

#[test]
fn links_are_never_followed() {
    on_every_overlay("mkdir d; echo a >d/a", |bench| {
        let secret = bench.temp.path().join("secret");
        std::fs::create_dir(&secret).unwrap();
        std::fs::write(secret.join("a"), "secret").unwrap();
        let secret = secret.display();
        bench.inside(&format!(
            "rm -r d; ln -s '{secret}' d; ln -s '{secret}/a' f; ln -s . loop; ln -s /proc/self/fd p"
        ));
        let diff = bench.diff();
        let want = ["type d", "deleted d/a", "added f", "added loop", "added p"];
        assert_eq!(lines(&diff), want);
        assert!(!diff.to_json().unwrap().contains("\"secret"));
        // Nor when something is opened to be merged.
        for path in ["f", "d/a", "loop/f", "../stage.json", "/etc/passwd"] {
            assert!(bench.stage.open_changed(Path::new(path)).is_err(), "{path}");
        }
    });
}

#[test]
fn a_lower_directory_swapped_for_a_link_is_not_entered() {
    on_every_overlay("mkdir d; echo a >d/a", |bench| {
        bench.inside("echo x >>d/a");
        let secret = bench.temp.path().join("secret");
        std::fs::create_dir(&secret).unwrap();
        std::fs::write(secret.join("a"), "secret\n").unwrap();
        std::fs::rename(bench.workspace().join("d"), bench.temp.path().join("old")).unwrap();
        std::os::unix::fs::symlink(&secret, bench.workspace().join("d")).unwrap();
        let diff = bench.diff();
        assert!(!diff.render_unified().contains("secret\n "));
        assert!(!diff.conflicts.is_empty());
        let added = diff
            .changes
            .iter()
            .find(|c| c.path.as_path() == Path::new("d/a"));
        assert!(added.unwrap().old.is_none());
    });
}

#[test]
fn sockets_pipes_and_set_id_files_never_leave() {
    on_every_overlay("echo a >was; echo b >tool; chmod 755 tool", |bench| {
        bench.inside(
            "mkfifo pipe; rm was; mkfifo was; echo s >suid; chmod 4755 suid; echo g >sgid; \
             chmod 2755 sgid; chmod u+s tool; mkdir sticky; chmod 1777 sticky; echo ok >ok",
        );
        std::os::unix::net::UnixListener::bind(bench.upper().join("socket")).unwrap();
        let want = [
            ("pipe", RefusedReason::Fifo),
            ("sgid", RefusedReason::SetId),
            ("socket", RefusedReason::Socket),
            ("suid", RefusedReason::SetId),
            ("tool", RefusedReason::SetId),
            ("was", RefusedReason::Fifo),
        ]
        .map(|(path, reason)| (path.to_owned(), reason));
        assert_eq!(refused(&bench), want);
        let diff = bench.diff();
        assert_eq!(lines(&diff), ["added ok", "added sticky"]);
        assert_eq!(diff.changes[1].new.as_ref().unwrap().mode, 0o777);
        assert_eq!(diff.stripped.len(), 1);
    });
}

#[test]
fn devices_never_leave() {
    if !is_root() {
        // Nobody else can make one.
        return;
    }
    let bench = Bench::new("", Marks::Trusted);
    let null = rustix::fs::makedev(1, 3);
    let place = bench.upper().join("null");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place,
        FileType::CharacterDevice,
        Mode::empty(),
        null,
    )
    .unwrap();
    assert_eq!(
        refused(&bench),
        [("null".to_owned(), RefusedReason::Device)]
    );
}

#[test]
fn names_are_bytes() {
    on_every_overlay("echo a >-rf; echo a >' '", |bench| {
        bench.inside(
            "rm ./-rf; rm ' '; echo b >--; echo c >\"$(printf 'a\\nb')\"; \
             echo d >\"$(printf '\\377\\376')\"; echo e >'\"; $(reboot) `x`'; echo f >\"$(printf '\\033[2J')\"",
        );
        let mut found = lines(&bench.diff());
        found.sort();
        let mut want = [
            "deleted  ",
            "deleted -rf",
            "added --",
            "added \\x1b[2J",
            "added \\\"; $(reboot) `x`",
            "added a\\nb",
            "added \\xff\\xfe",
        ];
        want.sort_unstable();
        assert_eq!(found, want);
    });
}

#[test]
fn depth_and_number_do_not_matter() {
    on_every_overlay("echo a >a", |bench| {
        bench.inside(
            "p=.; i=0; while [ $i -lt 500 ]; do p=$p/d; i=$((i+1)); done; mkdir -p $p; echo x >$p/x; \
             mkdir many; cd many; seq 1 10000 | xargs touch",
        );
        let diff = bench.diff();
        assert_eq!(diff.changes.len(), 500 + 1 + 10_000 + 1);
        assert!(diff.refused.is_empty());
        bench.stages.drop_stage("default").unwrap();
        let left = std::fs::read_dir(bench.temp.path().join("stages")).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), [".making"]);
    });
}

#[test]
fn a_tree_deeper_than_any_path_is_refused_and_can_be_dropped() {
    on_every_overlay("", |bench| {
        // Each level is entered before the next is made: no path is ever too long.
        bench.inside(
            "n=$(printf '%0200d' 0); i=0; \
             while [ $i -lt 40 ]; do mkdir $n; cd -P ./$n 2>/dev/null || cd ./$n; i=$((i+1)); done; echo x >x",
        );
        let reasons = refused(&bench);
        assert_eq!(reasons.len(), 1);
        assert_eq!(reasons[0].1, RefusedReason::PathTooLong);
        bench.stages.drop_stage("default").unwrap();
        assert!(!bench.upper().exists());
    });
}

#[test]
fn many_equal_lines_do_not_stall_the_diff() {
    on_every_overlay("seq 1 60000 >a", |bench| {
        bench.inside("seq 60000 -1 1 >a");
        let begun = std::time::Instant::now();
        let diff = bench.diff();
        assert!(matches!(diff.changes[0].content, Content::Text { .. }));
        assert!(begun.elapsed().as_secs() < 20);
    });
}

#[test]
fn a_directory_nobody_may_enter_can_be_dropped() {
    on_every_overlay("mkdir -p d/e; echo a >d/e/a", |bench| {
        bench.inside(
            "rm -r d; mkdir -p x/y/z; echo a >x/y/z/a; chmod 0 x/y/z/a x/y/z; chmod 0 x/y; chmod 0 x; \
             mkdir r; echo a >r/a; chmod 500 r",
        );
        let outside = bench.temp.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "kept").unwrap();
        std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o711)).unwrap();
        std::os::unix::fs::symlink(&outside, bench.upper().join("out")).unwrap();
        bench.stages.drop_stage("default").unwrap();
        assert!(!bench.upper().exists());
        assert!(outside.join("kept").exists());
        let mode = outside.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o711);
    });
}
