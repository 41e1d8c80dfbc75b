//! A person who types: the line on a terminal that can be drawn on, key by key.

use crate::support::{Conversation, World};

const SCRIPT: &str = r#"
version: 1
turns:
  - expect: { user: "first line\nsecond line\n\nlast line" }
    text: All four.
"#;

const REVIEWED: &str = r#"
version: 1
turns:
  - text: I change the build.
    calls:
      - { tool: fs.write, arguments: { path: Cargo.toml, text: "[package]\n" } }
  - text: Asked.
"#;

fn world(script: &str) -> World {
    let world = World::governed();
    std::fs::write(world.path("script.yaml"), script).unwrap();
    world
}

fn begin(world: &World, columns: u16, term: &str) -> Conversation {
    let script = world.path("script.yaml");
    let words = format!("run --model script:{}", script.display());
    let mut talk = Conversation::begin(world, columns, term, &words);
    talk.until("/quit leaves");
    talk.until("> ");
    talk
}

/// Has the session say what it was told to pin.
fn pinned(talk: &mut Conversation, want: &str) {
    talk.until("> ");
    talk.key(b"/pin\r");
    talk.until(&format!("- {want}\r\n"));
    talk.until("> ");
}

#[test]
fn keys_edit_the_line_in_place() {
    let world = world(SCRIPT);
    let mut talk = begin(&world, 80, "xterm");
    talk.key(b"/pin wrld");
    assert_eq!(talk.row(80, "wrld"), ("> /pin wrld".to_owned(), 11));
    // Left three times, a letter, home, and to the end again.
    talk.key(b"\x1b[D\x1b[D\x1b[Do");
    assert_eq!(talk.row(80, "world"), ("> /pin world".to_owned(), 9));
    talk.key(b"\x1b[H\x1b[C\x1b[C\x1b[C\x1b[C\x1b[Chello \x1b[F!!\x7f");
    assert_eq!(
        talk.row(80, "world!"),
        ("> /pin hello world!".to_owned(), 19)
    );
    // Delete at the end does nothing, a function key neither.
    talk.key(b"\x1b[3~\x1b[15~\x1b[D\x1b[3~.");
    assert_eq!(
        talk.row(80, "world."),
        ("> /pin hello world.".to_owned(), 19)
    );
    talk.key(b"\r");
    pinned(&mut talk, "hello world.");
    // The line before last comes back, what was begun is kept.
    talk.key(b"begun\x1b[A\x1b[A");
    assert_eq!(talk.row(80, "."), ("> /pin hello world.".to_owned(), 19));
    talk.key(b"\x1b[B\x1b[B");
    assert_eq!(talk.row(80, "begun"), ("> begun".to_owned(), 7));
    talk.key(b"\x15\x04");
    let ran = talk.finish();
    assert_eq!(ran.code, Some(0), "Ctrl-D on an empty line leaves: {ran:?}");
    let last = |what: &str| ran.stdout.rfind(what);
    let (marks, plain) = (last("\u{1b}[?2004h"), last("\u{1b}[?2004l"));
    assert!(
        marks.is_some() && marks < plain,
        "the terminal is left as it was: {ran:?}"
    );
}

#[test]
fn characters_of_several_bytes_and_of_two_columns_are_one_key_each() {
    let world = world(SCRIPT);
    let mut talk = begin(&world, 80, "xterm");
    talk.key("/pin größe 漢字".as_bytes());
    assert_eq!(talk.row(80, "漢字").1, 2 + 11 + 4);
    talk.key(b"\x1b[D");
    talk.key("é".as_bytes());
    assert_eq!(talk.row(80, "漢é字").1, 2 + 11 + 3);
    // Backspace takes the letter, and once more the wide one before it.
    talk.key(b"\x7f\x7f");
    assert_eq!(talk.row(80, "größe 字").1, 2 + 11);
    // One byte at a time, and half a character that never becomes whole.
    for byte in "漢\u{1f980}".bytes() {
        talk.key(&[byte]);
    }
    talk.key(b"\xc3\r");
    pinned(&mut talk, "größe 漢🦀字");
    talk.key(b"/quit\r");
    assert_eq!(talk.finish().code, Some(0));
}

#[test]
fn what_is_pasted_is_one_message_however_many_lines_it_has() {
    let world = world(SCRIPT);
    let mut talk = begin(&world, 80, "xterm");
    talk.key(b"\x1b[200~first line\rsecond line\r\n\nlast line\x1b[201~");
    let shown = "first line⏎second line⏎⏎last line";
    assert_eq!(talk.row(80, "last line").0, format!("> {shown}"));
    talk.key(b"\r");
    talk.until("All four.");
    talk.until("> ");
    talk.key(b"/quit\r");
    let ran = talk.finish();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.stdout.contains("out of step"), "{ran:?}");
}

#[test]
fn a_long_line_fits_whatever_the_window_becomes() {
    let world = world(SCRIPT);
    let mut talk = begin(&world, 200, "xterm");
    let long = "abcdefghij".repeat(15);
    talk.key(format!("/pin {long}").as_bytes());
    assert_eq!(talk.row(200, &long).1, 2 + 5 + 150);
    talk.resize(60);
    talk.key(b"X");
    let (row, column) = talk.row(60, "hijX");
    assert!(row.chars().count() < 60 && column < 60, "{column}: {row}");
    talk.key(b"\x01");
    let (row, column) = talk.row(60, long.get(..52).unwrap());
    assert_eq!(column, 2, "{row}");
    talk.resize(200);
    talk.key(b"\x05\x7f");
    assert_eq!(talk.row(200, &format!("/pin {long}")).1, 2 + 5 + 150);
    talk.key(b"\r");
    pinned(&mut talk, &long);
    talk.key(b"/quit\r");
    assert_eq!(talk.finish().code, Some(0));
}

#[test]
fn ctrl_c_gives_up_the_line_and_twice_the_session() {
    let world = world(SCRIPT);
    let mut talk = begin(&world, 80, "xterm");
    talk.key(b"never said\x03");
    talk.until("Ctrl-C again");
    talk.until("> ");
    // Something said in between: the next one is the first again.
    talk.key(b"/pin kept\r");
    pinned(&mut talk, "kept");
    talk.key(b"\x03");
    talk.until("Ctrl-C again");
    talk.until("> ");
    talk.key(b"\x03");
    let ran = talk.finish();
    assert_eq!(ran.code, Some(130), "{ran:?}");
}

#[test]
fn a_dumb_terminal_is_never_drawn_on() {
    let world = world(SCRIPT);
    let mut talk = begin(&world, 60, "dumb");
    talk.say("/pin größe 漢字");
    pinned(&mut talk, "größe 漢字");
    talk.key(&[4]);
    let ran = talk.finish();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.stdout.contains('\u{1b}'), "{ran:?}");
}

#[test]
fn a_question_is_asked_in_place_and_pasted_lines_do_not_answer_it() {
    for columns in [60, 200] {
        let world = world(REVIEWED);
        let mut talk = begin(&world, columns, "xterm");
        // Without marks: what follows the first line was typed before anybody was asked.
        talk.key(b"change it\ry\ry\r");
        talk.until("Cargo.toml: approve? [y/N] ");
        talk.key(b"n\r");
        talk.until("denied");
        talk.until("Asked.");
        talk.until("> ");
        talk.key(b"\x15/quit\r");
        let ran = talk.finish();
        let stage = world.quiet(&["diff", "--stat"]);
        assert!(!stage.stdout.contains("Cargo.toml"), "{ran:?} {stage:?}");
    }
}
