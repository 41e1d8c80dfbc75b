//! `airlock audit verify` on logs that are not what they were.

use super::audit::logged;
use crate::support::{Typed, World, at_terminal, fed, program};

const READS: &str = "version: 1
approvals: { automatic: [AG-01] }
rules:
  - name: read-everything
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: reading is harmless
    examples:
      match: [{ syscall: fs.read, path: README.md }]
      not_match: [{ syscall: fs.write, path: README.md }]
";

/// A workspace under `policy` whose log was put back to where it stood before it was signed.
fn put_back(policy: &str) -> World {
    let world = World::project();
    world.alone();
    world.write(".airlock/policy.yaml", policy);
    let ran = at_terminal(&world, "trust", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let state = world.state();
    let files = ["audit.db", "audit.db-wal"].map(|name| state.join(name));
    let old = files.each_ref().map(|path| std::fs::read(path).ok());
    let signed = world.quiet(&["audit", "checkpoint"]);
    assert_eq!(signed.code, Some(0), "{signed:?}");
    for (path, old) in files.iter().zip(old) {
        let _ = std::fs::remove_file(path);
        if let Some(old) = old {
            std::fs::write(path, old).unwrap();
        }
    }
    let _ = std::fs::remove_file(state.join("audit.db-shm"));
    world
}

#[test]
fn what_is_printed_as_the_way_out_of_a_broken_log_is_one() {
    let world = put_back(&format!("{READS}audit: {{ stop_on_break: true }}\n"));
    let call = ["tool", "call", "fs.read", "path=README.md"];
    for refused in [
        &call[..],
        &["policy", "show"],
        &["audit", "checkpoint"],
        &call[..],
    ] {
        let ran = world.quiet(refused);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let stderr = &ran.stderr;
        assert!(stderr.contains("the audit log is broken"), "{ran:?}");
        assert!(stderr.contains("a checkpoint vouches for"), "{ran:?}");
        assert!(stderr.contains("`airlock policy update FILE`"), "{ran:?}");
    }
    for read in [
        &["audit", "log"][..],
        &["audit", "show", "1"],
        &["audit", "export"],
    ] {
        let ran = world.quiet(read);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let warned = ran.stderr.contains("warning: the audit log is broken");
        assert!(warned, "{ran:?}");
    }
    world.write("FILE", READS);
    let ran = at_terminal(&world, "policy update FILE", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = world.quiet(&call);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn a_new_key_is_said_out_loud_and_called_no_damage() {
    let world = logged();
    let first = world.quiet(&["audit", "checkpoint"]);
    assert!(!first.stderr.contains("warning"), "{first:?}");
    std::fs::remove_file(world.state().join("keys/audit.key")).unwrap();
    let second = world.quiet(&["audit", "checkpoint"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    let old = first.json()["key"].as_str().unwrap().to_owned();
    assert!(second.stderr.contains("warning"), "{second:?}");
    assert!(second.stderr.contains(&old), "{second:?}");
    let verified = world.quiet(&["audit", "verify"]);
    assert_eq!(verified.code, Some(1), "{verified:?}");
    let said = "is signed by another key than the one here";
    assert!(verified.stderr.contains(said), "{verified:?}");
    assert!(!verified.stderr.contains("not intact"), "{verified:?}");
    let (_, fix) = verified.stderr.split_once("name both: airlock ").unwrap();
    let (fix, _) = fix.split_once(';').unwrap();
    let named: Vec<&str> = fix.split_whitespace().collect();
    let ran = world.quiet(&named);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn edited_and_truncated_exports_are_caught() {
    let mut world = logged();
    let export = world.quiet(&["audit", "export"]).stdout;
    world.write("whole.jsonl", &export);
    world.write("edited.jsonl", export.replace(".env", ".txt"));
    let lines: Vec<&str> = export.lines().collect();
    let without = |gone: usize| -> String {
        let mut kept = lines.clone();
        kept.remove(gone);
        kept.join("\n") + "\n"
    };
    world.write("gap.jsonl", without(4));
    world.write("garbage.jsonl", "hello\n");
    world.write("empty.jsonl", "");
    world.run_all(&[
        "audit verify whole.jsonl",
        "audit verify whole.jsonl --json",
        "audit verify edited.jsonl",
        "audit verify edited.jsonl --json",
        "audit verify gap.jsonl",
        "audit verify garbage.jsonl",
        "audit verify empty.jsonl",
        "audit verify missing.jsonl",
        "audit verify src",
    ]);
    world.compare("verify_export");
}

#[test]
fn a_truncated_export_is_caught_by_a_checkpoint_kept_elsewhere() {
    let mut world = logged();
    let early = world.quiet(&["audit", "export"]).stdout;
    let pin = world.quiet(&["audit", "checkpoint"]).stdout;
    world.write("early.jsonl", early);
    world.write("pinned.jsonl", &pin);
    world.write("forged.jsonl", pin.replace("\"seq\":", "\"seq\":1"));
    world.write("blank.jsonl", "\n\n");
    world.run_all(&[
        "audit verify early.jsonl",
        "audit verify early.jsonl --checkpoint pinned.jsonl",
        "audit verify early.jsonl --checkpoint pinned.jsonl --json",
        "audit verify --checkpoint forged.jsonl",
        "audit verify --checkpoint blank.jsonl",
        "audit verify --checkpoint README.md",
        "audit verify --checkpoint missing.jsonl",
    ]);
    world.compare("verify_pinned");
}

#[test]
fn pins_come_through_a_pipe_from_wherever_they_are_kept() {
    let world = logged();
    let pin = world.quiet(&["audit", "checkpoint"]).stdout;
    let verify = |input: &str| {
        fed(
            &mut world.command(&["audit", "verify", "--checkpoint", "-"]),
            input,
        )
    };
    let held = verify(&pin);
    assert_eq!(held.code, Some(0), "{held:?}");
    assert!(held.stdout.contains("agree up to record"), "{held:?}");
    let forged = verify(&pin.replace("\"seq\":", "\"seq\":1"));
    assert_eq!(forged.code, Some(2), "{forged:?}");
    let nothing = verify("");
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    assert!(
        nothing.stderr.contains("- holds no checkpoint"),
        "{nothing:?}"
    );
}

#[test]
fn a_log_or_an_export_by_another_key_than_demanded_is_refused() {
    let mut world = logged();
    let unsigned = world.quiet(&["audit", "export"]).stdout;
    let pin = world.quiet(&["audit", "checkpoint"]).stdout;
    let export = world.quiet(&["audit", "export"]).stdout;
    let pin: serde_json::Value = serde_json::from_str(&pin).unwrap();
    let own = pin["key"].as_str().unwrap();
    // The key of the first test vector of RFC 8032.
    let other = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    world.write("unsigned.jsonl", unsigned);
    world.write("export.jsonl", export);
    for target in [
        &["audit", "verify"][..],
        &["audit", "verify", "export.jsonl"],
    ] {
        for keys in [&[own][..], &[other], &[other, own], &["abc"]] {
            let mut arguments = target.to_vec();
            for key in keys {
                arguments.extend(["--key", key]);
            }
            world.run(&arguments);
        }
    }
    world.run(&["audit", "verify", "unsigned.jsonl", "--key", own]);
    world.run(&["audit", "verify", "unsigned.jsonl", "--key", own, "--json"]);
    world.run(&["audit", "verify", "export.jsonl", "--key", own, "--json"]);
    world.compare("verify_key");
}

#[test]
fn an_export_that_begins_after_the_pin_is_refused() {
    // A log whose first records were deleted is exported from where it begins; the pin is older.
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../audit/tests/vectors");
    let mut world = World::new();
    let part = std::fs::read_to_string(format!("{vectors}/good-part.jsonl")).unwrap();
    let key = airlock_audit::SigningKey::from_secret(&[7; 32]);
    let header: serde_json::Value = serde_json::from_str(part.lines().next().unwrap()).unwrap();
    let log = header["log"].as_str().unwrap().parse().unwrap();
    let head = airlock_audit::Head::genesis(&log);
    let time = airlock_core::Timestamp::from_micros(1_769_860_800_000_000);
    let pin = key.sign(log, head, time).unwrap();
    world.write("part.jsonl", part);
    world.write("pinned.jsonl", format!("{pin}\n"));
    world.run_all(&[
        "audit verify part.jsonl",
        "audit verify part.jsonl --checkpoint pinned.jsonl",
        "audit verify part.jsonl --checkpoint pinned.jsonl --json",
    ]);
    world.compare("verify_unmet");
}

#[test]
fn a_workspace_without_a_log_says_so() {
    let mut world = World::new();
    world.run_all(&["audit verify", "audit verify --json"]);
    assert!(
        !world.path("state/airlock").exists(),
        "verifying writes nothing"
    );
    world.compare("verify_none");
}

#[test]
fn a_database_of_a_newer_format_is_left_alone() {
    let mut world = logged();
    // Without its write-ahead log the file is what its header says.
    for name in ["audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(world.state().join(name));
    }
    let database = world.state().join("audit.db");
    let mut bytes = std::fs::read(&database).unwrap();
    // In an SQLite file, `user_version` is at 60 and `application_id` at 68.
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    bytes[68..72].copy_from_slice(b"ALog");
    std::fs::write(&database, &bytes).unwrap();
    let before = std::fs::read(&database).unwrap();
    world.run_all(&[
        "tool call fs.read path=README.md",
        "tool call fs.read path=README.md --json",
        "audit log",
        "audit verify",
    ]);
    assert_eq!(before, std::fs::read(&database).unwrap());
    world.compare("verify_newer");
}

#[test]
fn a_file_that_is_no_database_is_put_aside_and_said_so() {
    let mut world = logged();
    let database = world.state().join("audit.db");
    for name in ["audit.db", "audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(world.state().join(name));
    }
    std::fs::write(&database, "this is no database\n".repeat(300)).unwrap();
    world.run_all(&["tool call fs.read path=README.md", "audit verify"]);
    world.compare("verify_no_database");
}

#[test]
fn a_log_that_is_gone_is_not_one_that_never_was() {
    let world = logged();
    world.alone();
    let never = World::project().quiet(&["audit", "verify"]);
    assert!(never.stderr.contains("no audit log yet"), "{never:?}");
    let line = world.quiet(&["audit", "checkpoint"]).stdout;
    for name in ["audit.db", "audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(world.state().join(name));
    }
    let ran = world.quiet(&["audit", "verify"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("a checkpoint vouches for record"),
        "{ran:?}"
    );
    // What was kept elsewhere vouches for it as well.
    std::fs::remove_file(world.state().join("keys/checkpoints.jsonl")).unwrap();
    world.write("pinned.jsonl", line);
    let ran = world.quiet(&["audit", "verify", "--checkpoint", "pinned.jsonl"]);
    assert!(
        ran.stderr.contains("a checkpoint vouches for record"),
        "{ran:?}"
    );
}

#[test]
fn one_damaged_record_stops_neither_reading_nor_another_policy() {
    let world = logged();
    world.alone();
    let damaged = damage(&world);
    let seen = world.quiet(&["audit", "log", "-n", "1000"]);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(
        seen.stderr
            .contains(&format!("record {damaged} cannot be read")),
        "{seen:?}"
    );
    assert!(seen.stdout.lines().count() > 3, "{seen:?}");
    let stats = world.quiet(&["audit", "stats", "--json"]);
    assert_eq!(stats.code, Some(0), "{stats:?}");
    assert_eq!(stats.json()["unreadable"], 1, "{stats:?}");
    let exported = world.quiet(&["audit", "export", "--output", "log.jsonl"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let verified = world.quiet(&["audit", "verify", "log.jsonl"]);
    assert!(
        verified.stderr.contains(&format!("record {damaged} ")),
        "{verified:?}"
    );
    world.write("FILE", READS);
    let ran = world.quiet(&["policy", "diff", "FILE"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("1 record of the log cannot be read"),
        "{ran:?}"
    );
    let ran = at_terminal(&world, "policy update FILE", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Changes a byte of a record in the middle of the log; gives back its number.
fn damage(world: &World) -> u64 {
    let ran = world.quiet(&["audit", "log", "--json", "--path", "README.md", "-n", "1"]);
    let number = ran.json()["seq"].as_u64().unwrap();
    let script = format!(
        "import sqlite3, sys\n\
         db = sqlite3.connect(sys.argv[1])\n\
         stored = bytearray(db.execute('SELECT stored FROM records WHERE seq = {number}').fetchone()[0])\n\
         stored = stored.replace(b'README.md', b'READme.md')\n\
         db.execute('UPDATE records SET stored = ? WHERE seq = {number}', (bytes(stored),))\n\
         db.commit()\n"
    );
    let mut python = program("python3");
    python
        .args(["-c", &script])
        .arg(world.state().join("audit.db"));
    let ran = fed(&mut python, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    number
}
