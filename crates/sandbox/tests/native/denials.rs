//! What is denied inside what is granted.

use crate::support::{Place, command, run, sh};
use airlock_sandbox::launch::Refusal;
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::{Sandbox, start};
use std::os::unix::fs::symlink;

fn denying(place: &Place, patterns: &[&str]) -> Sandbox {
    let launch = place.launch(|plan| {
        patterns
            .iter()
            .fold(plan, |plan, pattern| plan.deny_pattern(pattern))
    });
    start(launch).unwrap()
}

#[test]
fn a_denied_pattern_is_denied_by_every_way_to_it() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("tree/deep/er")).unwrap();
    for name in [".env", "deep/.env", "deep/er/.env"] {
        place.write(&format!("tree/{name}"), "SECRET");
    }
    symlink(".env", place.path("tree/link")).unwrap();
    symlink("deep", place.path("tree/linked")).unwrap();
    let mut sandbox = denying(&place, &["**/.env"]);
    let tree = place.path("tree");
    let tree = tree.display();
    for script in [
        "cat .env".to_owned(),
        "cat deep/.env".to_owned(),
        "cat link".to_owned(),
        "cat linked/er/.env".to_owned(),
        "cat deep/../.env".to_owned(),
        format!("cat {tree}/.env"),
        format!("cat /proc/self/root{tree}/.env"),
        "cat /proc/self/cwd/.env".to_owned(),
        "cd deep/er && cat .env".to_owned(),
        "mv .env plain && cat plain".to_owned(),
        "ln .env plain && cat plain".to_owned(),
        "cp .env plain".to_owned(),
        "ln -s .env other && cat other".to_owned(),
        "exec 3< .env && cat <&3".to_owned(),
        "sh .env".to_owned(),
        "/usr/bin/python3 -c 'import mmap; print(open(\".env\").read())'".to_owned(),
        "tar cf - .env | cat".to_owned(),
        "mkdir new && echo x > new/.env".to_owned(),
    ] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", &script]));
        assert!(!ran.text().contains("SECRET"), "{script}: {}", ran.text());
        assert!(
            !ran.errors().contains("SECRET"),
            "{script}: {}",
            ran.errors()
        );
        let refused = ran.errors().contains("Permission denied");
        assert!(
            refused,
            "{script}: {:?} {}",
            ran.ended.outcome,
            ran.errors()
        );
        assert!(!ran.ended.refusals.is_empty(), "{script}");
    }
    assert_eq!(
        sh(&mut sandbox, "echo x > env; cat env; ls -A deep"),
        "x\n.env\ner\n"
    );
}

#[test]
fn what_a_denied_name_leads_to_is_denied_under_every_name() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("tree/real")).unwrap();
    place.write("tree/real/key", "SECRET");
    for (target, name) in [
        ("real/key", "link"),
        ("link", "second"),
        ("real", "linked"),
        ("nowhere", "dangling"),
        ("..", "up"),
    ] {
        symlink(target, place.path("tree").join(name)).unwrap();
    }
    let tree = place.path("tree").display().to_string();
    for denied in ["link", "second", "linked", "linked/key", "linked/**/k*"] {
        let pattern = format!("{tree}/{denied}");
        let mut sandboxes = vec![denying(&place, &[&pattern])];
        if !denied.contains('*') {
            sandboxes.push(start(place.launch(|plan| plan.deny(&pattern))).unwrap());
        }
        for sandbox in &mut sandboxes {
            for script in [
                "cat link",
                "cat second",
                "cat real/key",
                "cat linked/key",
                "mv real r && cat r/key",
            ] {
                let ran = run(sandbox, &command(&["sh", "-c", script]));
                assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{denied}: {script}");
                assert!(!ran.text().contains("SECRET"), "{denied}: {script}");
            }
        }
    }
    let mut sandbox = denying(&place, &[&format!("{tree}/dangling")]);
    let ran = run(&mut sandbox, &command(&["sh", "-c", "echo x > nowhere"]));
    assert_ne!(ran.ended.outcome, Outcome::Exited(0));
    assert_eq!(sh(&mut sandbox, "cat real/key"), "SECRET");
    // Nothing could be run in what is left.
    let error = start(place.launch(|plan| plan.deny(place.path("tree/up")))).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("tree/up") && said.contains("which holds it"),
        "{said}"
    );
}

#[test]
fn what_a_denied_name_leads_to_in_the_stage_is_denied_as_well() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("tree/real")).unwrap();
    place.write("tree/real/key", "SECRET");
    place.write("tree/plain", "plain");
    symlink("plain", place.path("tree/turned")).unwrap();
    let made = "ln -s real/key made; ln -sfn real/key turned; ln -s real beyond; cat made";
    assert_eq!(sh(&mut place.start(), made), "SECRET");
    let tree = place.path("tree").display().to_string();
    for denied in ["made", "turned", "beyond/key"] {
        let mut sandbox = denying(&place, &[&format!("{tree}/{denied}")]);
        for script in ["cat made", "cat turned", "cat beyond/key", "cat real/key"] {
            let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
            assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{denied}: {script}");
            assert!(!ran.text().contains("SECRET"), "{denied}: {script}");
        }
    }
}

#[test]
fn one_whose_denied_names_lead_elsewhere_by_now_is_not_used_again() {
    let place = Place::new();
    place.write("tree/key", "SECRET");
    place.write("tree/plain", "plain");
    symlink("plain", place.path("tree/link")).unwrap();
    let tree = place.path("tree").display().to_string();
    for (denied, change) in [("link", "link"), ("new", "new")] {
        let mut sandbox = denying(&place, &[&format!("{tree}/{denied}")]);
        assert_eq!(sh(&mut sandbox, "cat key"), "SECRET");
        assert!(sandbox.shows_now());
        let changed = place.path("tree").join(change);
        let _old = std::fs::remove_file(&changed);
        symlink("key", &changed).unwrap();
        assert!(!sandbox.shows_now(), "{denied}");
    }
}

#[test]
fn a_link_on_the_way_to_what_is_denied_stays_where_changes_last() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/real")).unwrap();
    place.write("data/real/key", "SECRET");
    for (target, name) in [
        ("real", "first"),
        ("second", "chain"),
        ("real/key", "second"),
    ] {
        symlink(target, place.path("data").join(name)).unwrap();
    }
    let data = place.path("data").display().to_string();
    let launch = place.launch(|plan| {
        plan.write(&data)
            .deny_pattern(&format!("{data}/first/key"))
            .deny_pattern(&format!("{data}/chain"))
    });
    let mut sandbox = start(launch).unwrap();
    for script in [
        "rm first",
        "rm second",
        "mv second third",
        "ln -sfn /tmp first",
        "mv first/ elsewhere",
        "cat real/key",
    ] {
        let script = format!("cd {data} && {script}");
        let ran = run(&mut sandbox, &command(&["sh", "-c", &script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
        assert!(!ran.text().contains("SECRET"), "{script}");
    }
    for name in ["first", "second", "chain"] {
        assert!(place.path("data").join(name).is_symlink(), "{name}");
    }
    assert_eq!(
        sh(&mut sandbox, &format!("cd {data}; echo x > new; cat new")),
        "x\n"
    );
}

#[test]
fn a_refusal_names_the_path_and_the_denial() {
    let place = Place::new();
    place.write("tree/.env", "SECRET");
    let mut sandbox = denying(&place, &["**/.env"]);
    let ran = run(
        &mut sandbox,
        &command(&["sh", "-c", "cat .env; cat .env; exit 5"]),
    );
    assert_eq!(ran.ended.outcome, Outcome::Exited(5));
    let want = Refusal {
        path: place.path("tree/.env"),
        denial: "/**/.env".to_owned(),
    };
    let found: Vec<&Refusal> = ran.ended.refusals.iter().collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path, want.path);
    assert!(found[0].denial.contains(".env"), "{found:?}");
    // Each command has its own.
    assert!(
        run(&mut sandbox, &command(&["true"]))
            .ended
            .refusals
            .is_empty()
    );
}

#[test]
fn an_exact_denial_holds_whether_the_path_is_there_or_not() {
    let place = Place::new();
    std::fs::create_dir(place.path("tree/keys")).unwrap();
    place.write("tree/keys/one", "SECRET");
    place.write("tree/token", "SECRET");
    let launch = place.launch(|plan| {
        plan.deny(place.path("tree/keys"))
            .deny(place.path("tree/token"))
            .deny(place.path("tree/later"))
    });
    let mut sandbox = start(launch).unwrap();
    for script in [
        "cat keys/one",
        "cat token",
        "echo x > later",
        "rm token",
        "rmdir keys",
        "mv keys k",
    ] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
        assert!(!ran.text().contains("SECRET"), "{script}");
    }
    assert_eq!(sh(&mut sandbox, "ls"), "keys\ntoken\n");
}

#[test]
fn a_denial_of_what_every_sandbox_sees_of_the_system_holds() {
    let place = Place::new();
    let release = [
        "cat /usr/lib/os-release",
        "cat /etc/os-release",
        "cat /lib/os-release",
    ];
    let mut sandbox = place.start();
    for script in &release[..2] {
        assert!(sh(&mut sandbox, script).contains("VERSION"), "{script}");
    }
    for denied in [
        "/usr/lib/os-release",
        "/usr/lib/os-*",
        "/lib/os-release",
        "/lib/os-*",
        "/usr/lib/**/os-release",
        "/l*b/os-release",
        "/etc/os-release",
    ] {
        let mut sandbox = denying(&place, &[denied]);
        for script in release {
            let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
            assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{denied}: {script}");
            assert!(!ran.text().contains("VERSION"), "{denied}: {script}");
        }
    }
    let launch = place.launch(|plan| plan.deny("/usr/share").deny("/etc/ld.so.conf.d"));
    let mut sandbox = start(launch).unwrap();
    for script in ["ls /usr/share", "ls /usr/share/doc"] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
    }
    // Laid over the system, a grant shows no more of it than the plan lets it.
    let launch = place.launch(|plan| {
        plan.read("/etc")
            .deny("/etc/shadow")
            .deny("/etc/ssl/private")
            .deny("/etc/debian_version")
    });
    let mut sandbox = start(launch).unwrap();
    assert!(sh(&mut sandbox, "cat /etc/os-release").contains("VERSION"));
    for script in [
        "cat /etc/shadow",
        "cat /etc/debian_version",
        "ls /etc/ssl/private",
    ] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
        assert_eq!(ran.text(), "", "{script}");
    }
    // What nobody sees anyway stays so.
    let launch = place.launch(|plan| plan.deny("/etc/shadow").deny("/root").deny("/usr/no/such"));
    assert_eq!(sh(&mut start(launch).unwrap(), "echo there"), "there\n");
}

#[test]
fn a_denial_inside_another_is_no_hindrance() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("tree/keys/old")).unwrap();
    place.write("tree/keys/old/one", "SECRET");
    place.write("tree/keys/two", "SECRET");
    let launch = place.launch(|plan| {
        plan.deny(place.path("tree/keys"))
            .deny(place.path("tree/keys/old"))
            .deny(place.path("tree/keys/two"))
    });
    let mut sandbox = start(launch).unwrap();
    for script in ["cat keys/old/one", "cat keys/two", "ls keys/old"] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
        assert!(!ran.text().contains("SECRET"), "{script}");
    }
    assert_eq!(sh(&mut sandbox, "ls"), "keys\n");
}

#[test]
fn what_may_not_be_written_can_be_read() {
    let place = Place::new();
    std::fs::create_dir(place.path("tree/.airlock")).unwrap();
    place.write("tree/.airlock/policy.yaml", "version: 1\n");
    let mut sandbox = place.start();
    assert_eq!(sh(&mut sandbox, "cat .airlock/policy.yaml"), "version: 1\n");
    for script in [
        "echo x > .airlock/policy.yaml",
        "touch .airlock/new",
        "rm -r .airlock",
        "mv .airlock elsewhere",
    ] {
        let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
        assert_ne!(ran.ended.outcome, Outcome::Exited(0), "{script}");
    }
    let place = Place::new();
    let mut sandbox = place.start();
    let ran = run(&mut sandbox, &command(&["mkdir", ".airlock"]));
    assert_ne!(
        ran.ended.outcome,
        Outcome::Exited(0),
        "it must not be made either"
    );
}

#[test]
fn ordinary_work_goes_on_beside_a_denial() {
    let place = Place::new();
    place.write("tree/.env", "SECRET");
    let mut sandbox = denying(&place, &["**/.env", "**/*.pem"]);
    let script = "git init -q . && git config user.email a@b && git config user.name n && \
                  echo one > f && git add f && git commit -qm first && git log --oneline | wc -l && \
                  /usr/bin/python3 -c 'import json, ssl, sqlite3; print(json.dumps([1]))' && \
                  mkfifo p && (echo through > p & cat p) && find . -name f | head -1 && \
                  seq 200 | while read i; do echo $i > n$i; done; cat n* | wc -l";
    let ran = run(&mut sandbox, &command(&["sh", "-c", script]));
    let want = "1\n[1]\nthrough\n./f\n200\n";
    assert_eq!(ran.text(), want, "{}", ran.errors());
    let script =
        "echo x > /dev/null && cat < /dev/null && echo y > /dev/stdout && test -r /dev/urandom";
    assert_eq!(sh(&mut sandbox, script), "y\n");
}

#[test]
fn what_is_denied_deep_in_a_writable_directory_does_not_get_another_name() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("notes/a/private")).unwrap();
    place.write("notes/a/private/key", "SECRET");
    std::fs::create_dir_all(place.path("notes/c")).unwrap();
    let notes = place.path("notes");
    let start = || {
        let private = notes.join("a/private");
        let launch = place.launch(|plan| plan.write(&notes).deny(private));
        start(launch).unwrap()
    };
    let renamed = |from: &str, to: &str| {
        let script = "import os, sys; os.chdir(sys.argv[1]); os.rename(*sys.argv[2:])";
        let python = ["/usr/bin/python3", "-c", script, notes.to_str().unwrap()];
        let line = [&python[..], &[from, to]].concat();
        run(&mut start(), &command(&line)).ended.outcome
    };
    // The control: a directory in which nothing is denied.
    assert_eq!(renamed("c", "d"), Outcome::Exited(0));
    assert_ne!(renamed("a", "b"), Outcome::Exited(0));
    // Whatever a sandbox did, the next one sees nothing.
    let ran = run(
        &mut start(),
        &command(&[
            "sh",
            "-c",
            &format!("cat {0}/b/private/key {0}/a/private/key", notes.display()),
        ]),
    );
    assert!(!ran.text().contains("SECRET"));
    assert!(notes.join("a/private/key").exists());
}
