//! What a person reviews is what is merged: no character of a change is kept from them, and none of the
//! changes is left out.

use crate::support::{Ran, Typed, World, answering, at_terminal, fed, finished, program};
use std::os::unix::fs::PermissionsExt as _;

/// Lines that a terminal shows as less than they are: to a shell the first does more than build.
const ODD: &str = "echo build\u{1b}]0; touch pwned # \u{7}\nx\u{1b}[8my\nx\ry\nx\u{202e}y\nx\u{200b}y\nx\u{e0041}y\n";

/// The same as they are shown.
const SHOWN: [&str; 6] = [
    "+echo build\\u{1b}]0; touch pwned # \\u{7}",
    "+x\\u{1b}[8my",
    "+x\\u{d}y",
    "+x\\u{202e}y",
    "+x\\u{200b}y",
    "+x\\u{e0041}y",
];

/// Where the link points, as it is shown.
const TARGET: &str = "+\\u{1b}[2Jtarget";

/// Such lines and such a link, waiting.
fn changed() -> World {
    let world = World::project();
    world.write("build.sh", "echo build\n");
    world.write("next", ODD);
    let script = "cat next >build.sh; ln -s \"$(printf '\\033[2Jtarget')\" link";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world
}

fn assert_shown(ran: &Ran) {
    for want in SHOWN.iter().chain([&TARGET]) {
        assert!(
            ran.stdout.lines().any(|line| line == *want),
            "{want}: {ran:?}"
        );
    }
    let raw = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{200b}\u{e0041}".contains(c);
    assert!(!ran.stdout.contains(raw), "{ran:?}");
}

#[test]
fn a_diff_shows_every_character() {
    let world = changed();
    let ran = at_terminal(&world, "diff", Typed::Nothing);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_shown(&ran);
    assert!(ran.stdout.contains("written out in 7 lines"), "{ran:?}");
}

#[test]
fn who_merges_file_by_file_sees_every_character() {
    let world = changed();
    let ran = answering(&world, "merge --interactive", &["y", "n", "y"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_shown(&ran);
    for told in ["written out in 6 lines", "written out in 1 line\n"] {
        assert!(ran.stdout.contains(told), "{told}: {ran:?}");
    }
    let merged = std::fs::read(world.workspace().join("build.sh")).unwrap();
    assert_eq!(merged, ODD.as_bytes());
}

#[test]
fn an_undo_shows_every_character() {
    let world = changed();
    let ran = at_terminal(&world, "merge", Typed::Line("y"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    world.write("build.sh", "echo mine\n");
    let ran = at_terminal(&world, "undo", Typed::Line("n"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    for want in SHOWN {
        assert!(ran.stdout.contains(want), "{want}: {ran:?}");
    }
}

/// Nobody looks at a file or a pipe: what goes there is the change, to the byte.
#[test]
fn a_diff_that_goes_elsewhere_is_a_patch_that_applies() {
    let world = changed();
    let ran = world.quiet(&["diff"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("are in 7 lines, as they are"),
        "{ran:?}"
    );
    let copy = world.path("away");
    std::fs::write(copy.join("build.sh"), "echo build\n").unwrap();
    let mut apply = program("git");
    apply
        .args(["apply", "-"])
        .current_dir(&copy)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let applied = fed(&mut apply, &ran.stdout);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(
        std::fs::read(copy.join("build.sh")).unwrap(),
        ODD.as_bytes()
    );
    let target = std::fs::read_link(copy.join("link")).unwrap();
    assert_eq!(target.to_str(), Some("\u{1b}[2Jtarget"));

    // Whoever asks for colours on the way to a pager looks.
    let mut command = world.command(&["--color", "always", "diff"]);
    let ran = finished(command.env_remove("NO_COLOR"));
    assert!(ran.stdout.contains("\\u{1b}"), "{ran:?}");
    let raw = [
        "\u{1b}]0;",
        "\u{1b}[8m",
        "\u{1b}[2J",
        "\u{202e}",
        "\u{200b}",
    ];
    assert!(!raw.iter().any(|raw| ran.stdout.contains(raw)), "{ran:?}");
}

#[test]
fn directories_are_shown_and_counted_everywhere_alike() {
    let world = World::project();
    for name in ["dd/sub", "gone"] {
        let path = world.workspace().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = "umask 022; chmod 777 dd/sub; mkdir newdir; rmdir gone";
    let ran = world.quiet(&["exec", "--", "sh", "-c", script]);
    assert!(ran.stderr.contains("3 files changed"), "{ran:?}");
    let ran = world.quiet(&["diff"]);
    let want = "mode of directory dd/sub: 755 -> 777\ndeleted directory gone\nnew directory newdir: mode 755\n";
    assert_eq!(ran.stdout, want);
    assert_eq!(ran.stderr, "3 files changed\n");
    let ran = world.quiet(&["diff", "--stat"]);
    let want = "mode     dd/sub (755 -> 777)\ndeleted  gone\nadded    newdir\n";
    assert_eq!(ran.stdout, want);
    assert_eq!(ran.stderr, "3 files changed\n");
    let ran = world.quiet(&["stage", "list"]);
    assert!(ran.stdout.contains(" 3 files changed, 0 bytes"), "{ran:?}");
}
