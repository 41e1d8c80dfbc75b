//! What a boxed plugin sees and has.

use crate::support::Fixture;
use airlock_core::ByteSize;
use airlock_plugin::{Grants, StartError};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

#[test]
fn it_sees_its_own_directories_its_variables_and_no_more() {
    let fixture = Fixture::new("");
    fs::write(fixture.path("outside/secret"), "s").unwrap();
    fs::write(fixture.path("own/secret"), "s").unwrap();
    fs::write(fixture.path("plugin/text"), "text").unwrap();
    let outside = fixture.path("outside/secret");
    let own = fixture.path("own");
    let plugin = fixture.path("plugin");
    fixture.write(
        "plugin/bin/run",
        &format!(
            "#!/bin/sh\n\
             echo \"cwd $PWD\"; echo \"$GREETING $AIRLOCK_SOCKET\"; env | cut -d= -f1 | sort | tr '\\n' ' '; echo\n\
             cat {outside} 2>/dev/null && echo LEAK\n\
             ls {own} | sort | tr '\\n' ' '; echo\n\
             cat {plugin}/text; echo\n\
             echo x > {plugin}/new 2>/dev/null && echo WROTE\n\
             echo kept > {own}/data/kept && echo also > {own}/reach/also && echo stored\n\
             id -u\n\
             grep -c : /proc/net/dev\n",
            outside = outside.display(),
            own = own.display(),
            plugin = plugin.display(),
        ),
    );
    let said = fixture.says();
    for want in [
        format!("cwd {}", fixture.path("own/data").display()),
        format!("hello {}", fixture.path("own/reach/kernel.sock").display()),
        "data place reach ".to_owned(),
        "text".to_owned(),
        "stored".to_owned(),
        "1000\n1\n".to_owned(),
        "it exited with code 0".to_owned(),
    ] {
        assert!(said.contains(&want), "{want}\n{said}");
    }
    for bad in ["LEAK", "WROTE", "secret"] {
        assert!(!said.contains(bad), "{said}");
    }
    assert_eq!(
        fs::read_to_string(fixture.path("own/data/kept")).unwrap(),
        "kept\n"
    );
}

#[test]
fn it_speaks_both_ways_and_reaches_the_socket_in_its_reach_directory() {
    let fixture = Fixture::new(
        "#!/usr/bin/env python3\nimport os, socket, sys\nline = sys.stdin.readline()\n\
         s = socket.socket(socket.AF_UNIX)\ns.connect(os.environ['AIRLOCK_SOCKET'])\ns.sendall(('heard ' + line).encode())\n\
         print(s.makefile().readline(), end='', flush=True)\nsys.stdin.readline()\n",
    );
    let listener = UnixListener::bind(fixture.path("own/reach/kernel.sock")).unwrap();
    let running = fixture.start().unwrap();
    let mut stdin = running.take_stdin().unwrap();
    stdin.write_all(b"hello\n").unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let mut line = String::new();
    BufReader::new(connection.try_clone().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "heard hello\n");
    connection.write_all(b"well\n").unwrap();
    let mut answer = String::new();
    BufReader::new(running.take_stdout().unwrap())
        .read_line(&mut answer)
        .unwrap();
    assert_eq!(answer, "well\n");
    assert!(!running.has_ended() && running.end().is_none());
    assert!(
        running.report()["walls"]["network_namespace"].is_object(),
        "{}",
        running.report()
    );
}

#[test]
fn what_a_manifest_asks_for_is_granted_and_what_it_gives_up_is_not() {
    let mut fixture = Fixture::new("");
    fs::create_dir_all(fixture.path("outside/in/sub")).unwrap();
    fs::create_dir_all(fixture.path("home/notes")).unwrap();
    fs::write(fixture.path("outside/in/open"), "open").unwrap();
    fs::write(fixture.path("outside/in/.env"), "withheld").unwrap();
    fs::write(fixture.path("home/notes/n"), "noted").unwrap();
    let inside = fixture.path("outside/in").display().to_string();
    let ask = &mut fixture.manifest.execution.sandbox;
    ask.read_allow = vec![
        format!("{inside}/*"),
        "~/notes".to_owned(),
        "self/cache/*".to_owned(),
    ];
    ask.write_allow = vec![format!("{inside}/sub"), "self/other".to_owned()];
    ask.read_deny = vec![format!("{inside}/.env")];
    ask.memory_limit = Some(ByteSize::from_bytes(128 << 20));
    let home = fixture.path("home").display().to_string();
    fixture.write(
        "plugin/bin/run",
        &format!("#!/bin/sh\ncat {inside}/open {home}/notes/n; echo x > {inside}/sub/new && echo WROTE\ncat {inside}/.env\n"),
    );
    let said = fixture.says();
    assert!(
        said.contains("opennoted") && said.contains("WROTE"),
        "{said}"
    );
    assert!(!said.contains("withheld"), "{said}");
}

#[test]
fn a_link_that_is_put_on_the_way_after_a_path_was_judged_is_not_followed() {
    for kind in ["read", "write"] {
        let mut fixture = Fixture::new("");
        for name in ["outside/notes/conf/rules", "outside/vault"] {
            fs::create_dir_all(fixture.path(name)).unwrap();
        }
        fs::write(fixture.path("outside/vault/key"), "KEY").unwrap();
        let rules = fixture.path("outside/notes/conf/rules");
        let ask = &mut fixture.manifest.execution.sandbox;
        let list = match kind {
            "read" => &mut ask.read_allow,
            _ => &mut ask.write_allow,
        };
        list.push(rules.display().to_string());
        let script = format!("#!/bin/sh\ncat {}/key; echo done\n", rules.display());
        fixture.write("plugin/bin/run", &script);
        let (manifest, home) = (&fixture.manifest, fixture.path("home"));
        let found = Grants::find(&manifest.execution.sandbox, Some(&home)).unwrap();
        // As long as nothing changes, what was found is what is seen.
        let running = fixture.start_granted(manifest, fixture.digest(), &found);
        drop(running.unwrap());
        let conf = fixture.path("outside/notes/conf");
        fs::rename(&conf, fixture.path("outside/notes/conf.old")).unwrap();
        fs::create_dir(&conf).unwrap();
        symlink(fixture.path("outside/vault"), &rules).unwrap();
        match fixture.start_granted(manifest, fixture.digest(), &found) {
            Err(StartError::Confinement(why)) => {
                assert!(why.contains("which is not granted"), "{kind}: {why}");
            }
            other => panic!("{kind}: {other:?}"),
        }
    }
}

#[test]
fn what_nobody_looked_up_is_not_granted() {
    let mut fixture = Fixture::new("#!/bin/sh\n");
    let outside = fixture.path("outside").display().to_string();
    fixture.manifest.execution.sandbox.read_allow = vec![outside];
    let nothing = Grants::default();
    match fixture.start_granted(&fixture.manifest, fixture.digest(), &nothing) {
        Err(StartError::Confinement(why)) => assert!(why.contains("nobody granted"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn in_a_linked_home_what_is_granted_is_seen_and_what_is_given_up_is_not() {
    let mut fixture = Fixture::new("");
    for name in ["disk/me/notes/deep", "disk/me/notes/closed"] {
        fs::create_dir_all(fixture.path(name)).unwrap();
    }
    for (name, text) in [
        ("open", "open"),
        ("closed/key", "withheld"),
        ("deep/.env", "withheld"),
    ] {
        fs::write(fixture.path("disk/me/notes").join(name), text).unwrap();
    }
    symlink(fixture.path("disk/me"), fixture.path("home")).unwrap();
    let ask = &mut fixture.manifest.execution.sandbox;
    ask.read_allow = vec!["~/notes/*".to_owned()];
    ask.read_deny = vec!["~/notes/closed".to_owned(), "~/notes/**/.env".to_owned()];
    let notes = fixture.path("disk/me/notes").canonicalize().unwrap();
    let notes = notes.display();
    fixture.write(
        "plugin/bin/run",
        &format!("#!/bin/sh\ncat {notes}/open {notes}/closed/key {notes}/deep/.env\n"),
    );
    let said = fixture.says();
    assert!(said.contains("open"), "{said}");
    assert!(!said.contains("withheld"), "{said}");
    // What no sandbox is shown of a home is not shown by its other name either.
    let engine = fixture.path("disk/me/.docker");
    fs::create_dir(&engine).unwrap();
    let ask = &mut fixture.manifest.execution.sandbox;
    ask.read_allow = vec![engine.display().to_string()];
    let error = fixture.start().err().unwrap().to_string();
    assert!(error.contains("container engine"), "{error}");
}

type Change = Box<dyn Fn(&mut airlock_plugin::SandboxAsk)>;

#[test]
fn what_cannot_be_granted_keeps_a_plugin_from_starting() {
    let fixture = Fixture::new("#!/bin/sh\n");
    symlink(fixture.path("own"), fixture.path("outside/alias")).unwrap();
    let own = fixture.path("own").display().to_string();
    let alias = fixture.path("outside/alias").display().to_string();
    let top = fixture.top.path().display().to_string();
    let large = ByteSize::from_bytes(8 << 30);
    let cases: Vec<(&str, Change, &str)> = vec![
        (
            "own",
            {
                let own = own.clone();
                Box::new(move |ask| ask.read_allow = vec![own.clone()])
            },
            "not for plugins",
        ),
        (
            "in own",
            {
                let own = own.clone();
                Box::new(move |ask| ask.write_allow = vec![format!("{own}/reach")])
            },
            "not for plugins",
        ),
        (
            "a link to own",
            Box::new(move |ask| ask.read_allow = vec![alias.clone()]),
            "not for plugins",
        ),
        (
            "above own",
            Box::new(move |ask| ask.read_allow = vec![top.clone()]),
            "not for plugins",
        ),
        (
            "everything",
            Box::new(|ask| ask.read_allow = vec!["/".to_owned()]),
            "not for plugins",
        ),
        (
            "engine socket",
            Box::new(|ask| ask.write_allow = vec!["/run".to_owned()]),
            "/run",
        ),
        (
            "processes",
            Box::new(|ask| ask.read_allow = vec!["/proc/1".to_owned()]),
            "/proc",
        ),
        (
            "climbing out of data",
            Box::new(|ask| ask.write_allow = vec!["self/../reach".to_owned()]),
            "..",
        ),
        (
            "pattern",
            Box::new(|ask| ask.read_allow = vec!["/usr/*/x".to_owned()]),
            "pattern",
        ),
        (
            "not there",
            Box::new(|ask| ask.read_allow = vec!["/none/such".to_owned()]),
            "/none/such",
        ),
        (
            "network",
            Box::new(|ask| ask.network = vec!["a.org:443".to_owned()]),
            "network",
        ),
        (
            "template with a network",
            Box::new(|ask| ask.template = Some("integration-test".to_owned())),
            "network",
        ),
        (
            "template of workers",
            Box::new(|ask| ask.template = Some("policy-sandbox".to_owned())),
            "workers",
        ),
        (
            "unknown template",
            Box::new(|ask| ask.template = Some("free".to_owned())),
            "no template",
        ),
        (
            "memory over the template's",
            Box::new(move |ask| ask.memory_limit = Some(large)),
            "memory",
        ),
    ];
    for (case, change, want) in cases {
        let mut manifest = fixture.manifest.clone();
        change(&mut manifest.execution.sandbox);
        match fixture.start_with(&manifest, fixture.digest()) {
            Err(StartError::Confinement(why)) => assert!(why.contains(want), "{case}: {why}"),
            other => panic!("{case}: {other:?}"),
        }
    }
}
