//! What a session says fits the terminal it is said on, whatever names and texts it is about.

use crate::support::{Conversation, World, assert_fits};
use serde_json::{Value, json};

/// Of characters that take two columns, one and none.
const NAME: &str = "docs/資料資料資料/メモ🦀👨‍👩‍👧e\u{301}\u{302}-größe.md";

fn script() -> String {
    let text = format!(
        "{} 漢 字 🦀 ❤\u{fe0f} e\u{301}\u{302} {} and words, as many as it takes to fill more than a line.",
        "漢字".repeat(120),
        "x".repeat(230),
    );
    let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments });
    let calls = [
        call("fs.write", json!({ "path": NAME, "text": "short\n" })),
        call("fs.read", json!({ "path": ".env" })),
        call("fs.read", json!({ "path": "資料/".repeat(60) + "x" })),
        call("fs.raed", json!({ "path": NAME })),
        call(
            "exec.run",
            json!({ "command": ["cargo", "--not-a-listed-flag", NAME] }),
        ),
        call(
            "fs.write",
            json!({ "path": "Cargo.toml", "text": "[package]\n" }),
        ),
    ];
    let turns = json!([{ "text": text, "calls": calls }, { "text": "Done." }]);
    json!({ "version": 1, "turns": turns }).to_string()
}

#[test]
fn every_line_of_a_session_fits_the_terminal() {
    for (columns, term) in [(60, "dumb"), (60, "xterm"), (200, "dumb")] {
        let world = World::governed();
        std::fs::write(world.path("script.yaml"), script()).unwrap();
        let model = format!("script:{}", world.path("script.yaml").display());
        let mut talk = Conversation::begin(&world, columns, term, &format!("run --model {model}"));
        let mut say = |words: &str, answers: &[&str], until: &str| {
            talk.until("> ");
            talk.key(format!("{words}\r").as_bytes());
            for answer in answers {
                talk.until("[y/N] ");
                talk.key(format!("{answer}\r").as_bytes());
            }
            talk.until(until);
        };
        say("/help", &[], "twice leaves");
        say("/hlep", &[], "did you mean /help?");
        say("/strict now", &[], "takes nothing");
        say("/undo", &[], "no merge");
        say("/model nope", &[], "no model");
        say(
            "/pin keep 漢字 and 🦀 in mind, and be brief about it",
            &[],
            "pinned",
        );
        say("/pin", &[], "- keep");
        say("do it", &["y"], "Done.");
        say("/status", &[], "pinned");
        say("/budget", &[], "questions");
        say("/merge", &["n"], "did not say yes");
        say("/merge nonesuch", &[], "lists what is");
        say("/merge docs", &["y"], "airlock undo");
        say("/undo", &["y"], "airlock undo");
        say("/reject", &["n"], "did not say yes");
        say("/debug", &["n"], "was not approved");
        say("/plan", &[], "fix");
        say("/quit", &[], "");
        let ran = talk.finish();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        for whole in [NAME, "did you mean `fs.read`?", "Cargo.toml"] {
            let shown = ran.stdout.replace('\n', " ");
            let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(shown.contains(whole), "`{whole}` is cut: {ran:?}");
        }
        assert_fits(&ran.stdout, usize::from(columns));
        assert_fits(&undo_of(&world, columns), usize::from(columns));
    }
}

/// Other commands that a session points to.
fn undo_of(world: &World, columns: u16) -> String {
    let mut shown = String::new();
    for words in ["undo --list", "session list", "merge --files nonesuch"] {
        let talk = Conversation::begin(world, columns, "dumb", words);
        shown.push_str(&talk.finish().stdout);
    }
    assert!(
        shown.contains("undid") && shown.contains("not held"),
        "{shown}"
    );
    shown
}
