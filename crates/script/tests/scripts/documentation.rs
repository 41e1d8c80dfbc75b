//! Every script of `docs/extensions.md` answers what the page says, and the page names everything.

use crate::support::{confined, request, script};
use airlock_core::{RequestPath, TagName};
use airlock_policy::{Extension, Opinion};
use airlock_script::ScriptExtension;
use serde::Deserialize;
use std::sync::Arc;

const PAGE: &str = include_str!("../../../../docs/extensions.md");

/// A request as the page writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    syscall: String,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    command: Vec<Arc<str>>,
    host: Option<Arc<str>>,
    port: Option<u16>,
    #[serde(default)]
    tags: Vec<String>,
}

fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut fences = PAGE.split("\n```");
    fences.next();
    let mut found = Vec::new();
    while let Some(block) = fences.next() {
        found.push(block.split_once('\n').expect("a block has lines"));
        fences.next();
    }
    found
}

fn answer(extension: &ScriptExtension, asked: &str) -> String {
    let asked: Asked = serde_json::from_str(asked).expect(asked);
    let mut request = request(&asked.syscall, &[]);
    let parse = |path: &String| RequestPath::parse(path, "/w").unwrap();
    request.paths = asked.paths.iter().map(parse).collect();
    request.command = asked.command;
    request.host = asked.host;
    request.port = asked.port;
    request.caller.tags = asked
        .tags
        .iter()
        .map(|tag| TagName::new(tag).unwrap())
        .collect();
    let answer = extension.evaluate(&request).unwrap();
    let word = match answer.opinion {
        Opinion::Allow => "allow",
        Opinion::Deny => "deny",
        Opinion::RequireReview => "require_review",
        Opinion::Pass => "pass",
    };
    if answer.reason.starts_with("the extension `docs` ") && !answer.reason.contains("threw") {
        return word.to_owned();
    }
    format!("{word}: {}", answer.reason)
}

#[test]
fn every_script_of_the_page_answers_what_the_page_says() {
    let mut last = None;
    let mut checked = 0;
    for (language, text) in blocks() {
        match language {
            "ts" | "js" => {
                assert!(last.is_none(), "a script without answers before {text}");
                let mut script = script(&format!("docs.{language}"), text);
                script.name = "docs".into();
                let (extension, _) = confined(script, "strict");
                extension
                    .start()
                    .unwrap_or_else(|error| panic!("{error}\n{text}"));
                last = Some(extension);
            }
            "answers" => {
                let extension = last.take().expect("a script before its answers");
                for line in text.lines() {
                    let (asked, want) = line.split_once(" -> ").expect(line);
                    assert_eq!(answer(&extension, asked), want, "{line}");
                    checked += 1;
                }
            }
            "yaml" => {
                let policy = format!("version: 1\n{text}\n");
                airlock_policy::Policy::load("policy.yaml", policy.as_bytes()).expect(text);
            }
            other => panic!("a block of `{other}`"),
        }
    }
    assert!(last.is_none() && checked > 10, "{checked}");
}

#[test]
fn the_page_and_the_types_name_every_property() {
    let source = "const names = (o) => Object.keys(o).join(' ');
        export default (r) => ({ decision: 'pass', reason: `${names(r)} ${names(r.caller)}` })";
    let (extension, _) = confined(script("guard.js", source), "strict");
    let names = extension.evaluate(&request("fs.read", &[])).unwrap().reason;
    assert!(names.split(' ').count() > 15, "{names}");
    for name in names.split(' ') {
        assert!(
            airlock_script::TYPES.contains(&format!("\n  {name}: ")),
            "{name} in the types"
        );
        let documented = [format!("`{name}`"), format!("`caller.{name}`")];
        let somewhere = name == "caller" || documented.iter().any(|name| PAGE.contains(name));
        assert!(somewhere, "{name} on the page");
    }
}
