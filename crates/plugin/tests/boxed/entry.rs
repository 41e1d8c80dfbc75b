//! What runs is what was approved.

use crate::support::{Fixture, PATIENCE};
use crate::watch::names;
use airlock_core::Digest;
use airlock_plugin::StartError;
use airlock_plugin::boxed::End;
use airlock_sandbox::lifecycle::Outcome;
use std::fs;
use std::os::unix::fs::symlink;

fn why(result: Result<airlock_plugin::boxed::Running, StartError>) -> String {
    match result {
        Err(StartError::Entry { entry, why }) => format!("{entry}: {why}"),
        Err(other) => other.to_string(),
        Ok(_) => "it runs".to_owned(),
    }
}

#[test]
fn an_entry_with_another_digest_does_not_run() {
    let fixture = Fixture::new("#!/bin/sh\necho ran > \"$AIRLOCK_SOCKET.mark\"\n");
    let refused = why(fixture.start_as(Digest::of(b"something else")));
    assert!(refused.contains("was approved"), "{refused}");
    assert_eq!(names(&fixture.path("own/reach")), Vec::<String>::new());
    assert_eq!(
        names(&fixture.path("own/place/programs")),
        Vec::<String>::new()
    );
}

#[test]
fn entries_that_are_no_files_of_the_plugin_are_refused() {
    let fixture = Fixture::new("#!/bin/sh\n");
    fs::write(fixture.path("outside/evil"), "#!/bin/sh\n").unwrap();
    symlink("../../outside/evil", fixture.path("plugin/bin/out")).unwrap();
    symlink(
        fixture.path("outside/evil"),
        fixture.path("plugin/bin/absolute"),
    )
    .unwrap();
    symlink("/proc/self/exe", fixture.path("plugin/bin/magic")).unwrap();
    let fifo = fixture.path("plugin/bin/fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    for (entry, want) in [
        ("bin/out", "bin/out: "),
        ("bin/absolute", "bin/absolute: "),
        ("bin/magic", "bin/magic: "),
        ("../outside/evil", "../outside/evil: "),
        ("bin/none", "No such file"),
        ("bin", "it is no file"),
        (".", ".: "),
        ("bin/fifo", "it is no file"),
    ] {
        let mut manifest = fixture.manifest.clone();
        manifest.execution.entry = entry.to_owned();
        let refused = why(fixture.start_with(&manifest, Digest::of(b"#!/bin/sh\n")));
        assert!(refused.contains(want), "{entry}: {refused}");
    }
}

#[test]
fn a_file_that_changes_after_it_was_looked_at_changes_nothing() {
    let fixture = Fixture::new("#!/bin/sh\nread line\necho \"first $line\"\nread line\n. \"$0\"\n");
    let running = fixture.start().unwrap();
    // Whatever happens to the file, the shell goes on reading the bytes that were approved.
    fixture.write("plugin/bin/run", "#!/bin/sh\necho second\n");
    let mut stdin = running.take_stdin().unwrap();
    std::io::Write::write_all(&mut stdin, b"one\ntwo\nthree\n").unwrap();
    drop(stdin);
    let mut said = String::new();
    let mut stdout = running.take_stdout().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut said).unwrap();
    assert!(
        said.contains("first one") && !said.contains("second"),
        "{said}"
    );
}

#[test]
fn a_running_program_cannot_change_what_runs_next() {
    let script = "#!/bin/sh\necho x >> \"$0\"; rm -f \"$0\"; mv \"$0\" /tmp/x; ln -s / \"$0.link\"\nexit 7\n";
    let fixture = Fixture::new(script);
    let running = fixture.start().unwrap();
    let end = running.wait(PATIENCE).unwrap();
    assert_eq!(end, End::Ran(Outcome::Exited(7)));
    assert_eq!(
        running.said().matches("Read-only").count() + running.said().matches("read-only").count(),
        4,
        "{}",
        running.said()
    );
    drop(running);
    assert_eq!(
        names(&fixture.path("own/place/programs")),
        Vec::<String>::new()
    );
}

#[test]
fn scripts_find_their_neighbours_wherever_they_look_for_them() {
    let mut fixture = Fixture::new(
        "#!/usr/bin/env python3\nimport beside, os\nhere = os.path.dirname(os.path.abspath(__file__))\nprint(beside.WORD, open(os.path.join(here, '..', 'lib', 'text')).read())\n",
    );
    fs::write(fixture.path("plugin/bin/beside.py"), "WORD = 'found'\n").unwrap();
    fs::create_dir(fixture.path("plugin/lib")).unwrap();
    fs::write(fixture.path("plugin/lib/text"), "as well").unwrap();
    assert!(
        fixture.says().contains("found as well"),
        "{}",
        fixture.says()
    );
    // Links within the plugin are followed, as package managers make them.
    symlink("../bin/run", fixture.path("plugin/lib/start")).unwrap();
    fixture.manifest.execution.entry = "lib/start".to_owned();
    assert!(
        fixture.says().contains("found as well"),
        "{}",
        fixture.says()
    );
}

#[test]
fn leftovers_of_killed_kernels_are_swept_and_what_runs_is_not() {
    let fixture = Fixture::new("#!/bin/sh\nread line\n");
    let programs = fixture.path("own/place/programs");
    let running = fixture.start().unwrap();
    let dead = programs.join("tried-1-0");
    fs::create_dir(&dead).unwrap();
    assert_eq!(names(&programs).len(), 2);
    drop(fixture.boxes());
    assert_eq!(names(&programs).len(), 1);
    assert!(!running.has_ended());
}
