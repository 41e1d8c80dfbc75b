//! Help, version, completions and manual pages.

use crate::support::{World, finished};

#[test]
fn help_of_the_command_and_of_one_below_it() {
    let mut world = World::new();
    world.run_all(&[
        "--help",
        "policy explain --help",
        "tool call -h",
        "help audit verify",
    ]);
    world.compare("help");
}

#[test]
fn help_is_readable_in_sixty_columns() {
    let mut world = World::new();
    for line in ["--help", "policy explain --help", "audit log --help"] {
        let args: Vec<&str> = line.split_whitespace().collect();
        let mut command = world.command(&args);
        command.env("COLUMNS", "60");
        let ran = world.record(&format!("{line} (60 columns)"), &mut command);
        assert!(!ran.stdout.is_empty());
        for shown in ran.stdout.lines() {
            assert!(shown.chars().count() <= 60, "{line}: {shown}");
        }
    }
    world.compare("help_narrow");
}

#[test]
fn the_demo_goes_as_told_and_leaves_nothing_behind() {
    let world = World::new();
    for json in [false, true] {
        let mut command = world.command(if json {
            &["demo", "--json"][..]
        } else {
            &["demo"]
        });
        command.env("TMPDIR", world.path("away"));
        let ran = finished(&mut command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        if json {
            assert_eq!(ran.json()["surprises"], 0);
        } else {
            assert!(ran.stdout.contains("That is the road"), "{ran:?}");
            assert_eq!(ran.stderr, "");
        }
        assert_eq!(std::fs::read_dir(world.path("away")).unwrap().count(), 0);
        assert!(!world.path("state/airlock").exists());
    }
}

#[test]
fn versions() {
    let mut world = World::new();
    world.run_all(&["version", "version --json", "--version"]);
    world.compare("version");
}

#[test]
fn completions_cover_every_shell_and_name_every_command() {
    let mut world = World::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = world.quiet(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["explain", "checkpoint", "revoke", "completions"] {
            assert!(ran.stdout.contains(word), "{shell} lacks {word}");
        }
    }
    let ran = world.quiet(&["completions", "bash"]).first(4);
    world.note("completions bash", &ran);
    world.compare("completions");
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let mut world = World::new();
    let directory = world.path("away");
    let shown = directory.to_str().unwrap().to_owned();
    world.run(&["man", &shown]);
    world.run(&["man", &shown, "--json"]);
    world.run(&["man", &format!("{shown}/missing")]);
    world.run(&["man", "/dev/null"]);
    for page in [
        "airlock.1",
        "airlock-policy-explain.1",
        "airlock-audit-verify.1",
    ] {
        let text = std::fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    world.compare("man");
}

#[test]
fn help_and_version_need_no_home_and_no_directory() {
    let world = World::new();
    for args in [
        &["--help"][..],
        &["--version"],
        &["version"],
        &["tool", "list"],
    ] {
        let mut command = world.command(args);
        command.env_clear().current_dir("/");
        assert_eq!(finished(&mut command).code, Some(0), "{args:?}");
    }
}
