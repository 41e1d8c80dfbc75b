//! Reading tools show the stage: what programs see there is what they see.

use super::support::{Place, done, failed};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const POLICY: &str = "\
version: 1
commands:
  - executable: cat
  - executable: sh
rules:
  - name: read
    match: { effect: read, path_glob: \"**\" }
    action: allow
  - name: run
    match: { syscall: exec.run }
    action: allow
  - name: change
    match: { effect: [write, delete], path_glob: \"**\" }
    action: allow
";

fn place() -> Place {
    Place::new(
        POLICY,
        &[
            ("a", "a needle\n"),
            ("d/b", "b needle\n"),
            ("d/c", "c\n"),
            ("d/sub/e", "e needle\n"),
            ("d/sub/deep/f", "f\n"),
            ("x/y/z", "z needle\n"),
        ],
    )
}

/// Every file with its content as a program sees it.
fn by_program(place: &Place) -> BTreeMap<String, String> {
    let told = place.script(
        "find . -type f ! -path './.airlock/*' ! -name script | sed 's,^./,,' | sort | \
         while read -r f; do printf '%s\\t' \"$f\"; tr '\\n' ' ' <\"$f\"; echo; done",
    );
    let text = told.value["stdout"].as_str().unwrap().to_owned();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(path, text)| (path.to_owned(), text.trim().to_owned()))
        .collect()
}

fn strings(value: &Value) -> Vec<String> {
    let values = value.as_array().unwrap().iter();
    values
        .map(|one| {
            one.as_str()
                .unwrap_or_else(|| one["path"].as_str().unwrap())
                .to_owned()
        })
        .collect()
}

/// The same by the tools.
fn by_tools(place: &Place) -> BTreeMap<String, String> {
    let ours = |path: &String| !path.starts_with(".airlock") && path != "script";
    let glob = done(place.call("search.glob", json!({ "pattern": "**", "all": true }))).value;
    let mut paths = strings(&glob["paths"]);
    paths.retain(ours);
    let list = done(place.call("fs.list", json!({ "depth": 20, "all": true }))).value;
    let files = list["entries"].as_array().unwrap().iter();
    let files = files.filter(|entry| entry["kind"] == "file");
    let mut listed: Vec<String> = files
        .map(|entry| entry["path"].as_str().unwrap().to_owned())
        .collect();
    listed.retain(ours);
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(paths, sorted, "glob and list differ");
    let read = |path: &String| {
        let exists = done(place.call("fs.exists", json!({ "path": path }))).value;
        assert_eq!(exists["exists"], true, "{path}");
        let read = done(place.call("fs.read", json!({ "path": path }))).value;
        read["text"]
            .as_str()
            .unwrap()
            .replace('\n', " ")
            .trim()
            .to_owned()
    };
    paths
        .iter()
        .map(|path| (path.clone(), read(path)))
        .collect()
}

fn matching(place: &Place) -> Vec<String> {
    let found = done(place.call("search.grep", json!({ "pattern": "needle", "all": true }))).value;
    let mut paths = strings(&found["files"]);
    paths.retain(|path| path != "script");
    paths
}

#[test]
fn tools_and_programs_see_the_same_stage() {
    for script in [
        "true",
        "echo new needle >new; echo changed >a",
        "rm a d/b",
        "rm -r d",
        "rm -r d; mkdir d; echo again >d/again",
        "rm -r d; mkdir -p d/sub; echo again needle >d/sub/e",
        "rm -r d; echo file >d",
        "rm a; mkdir a; echo in needle >a/in",
        "mv d/b moved; mv x/y x/w || cp -r x/y x/w",
        "mv d/sub/e d/b",
        "mkdir -p n/m/o; echo n >n/m/o/p; rm -r x",
        "rm -r d/sub/deep; mkdir d/sub/deep; chmod 700 d",
        "echo one >d/one; rm d/one; echo two >d/two; rm -r d/sub; mkdir d/sub",
        "ln d/b d/linked; echo more >>d/linked",
    ] {
        let place = place();
        place.script(script);
        let (programs, tools) = (by_program(&place), by_tools(&place));
        assert_eq!(tools, programs, "{script}");
        let found: Vec<String> = programs
            .iter()
            .filter(|(_, text)| text.contains("needle"))
            .map(|(path, _)| path.clone())
            .collect();
        assert_eq!(matching(&place), found, "{script}");
    }
}

#[test]
fn what_is_gone_in_the_stage_is_gone_for_tools() {
    let place = place();
    place.script("rm -r d; ln -s /etc/passwd out; ln -s a in; ln -s ../.. up; mkfifo pipe");
    for path in ["d/b", "d/sub/e", "d"] {
        assert_eq!(
            failed(place.call("fs.read", json!({ "path": path }))).code,
            "not_found"
        );
        let exists = done(place.call("fs.exists", json!({ "path": path }))).value;
        assert_eq!(exists["exists"], false, "{path}");
    }
    assert_eq!(
        failed(place.call("fs.list", json!({ "path": "d" }))).code,
        "not_found"
    );
    for (path, code) in [
        ("out", "escapes"),
        ("up/x", "escapes"),
        ("pipe", "not_a_file"),
    ] {
        let failure = failed(place.call("fs.read", json!({ "path": path })));
        assert_eq!(failure.code, code, "{path}");
    }
    let read = done(place.call("fs.read", json!({ "path": "in" }))).value;
    assert_eq!(read["text"], "a needle\n");
}

#[test]
fn what_was_written_can_be_read_and_changed_again() {
    let place = place();
    let write = json!({ "path": "d/new", "text": "fresh\n" });
    done(place.call("fs.write", write));
    let read = done(place.call("fs.read", json!({ "path": "d/new", "digest": true }))).value;
    assert_eq!(read["text"], "fresh\n");
    let again = json!({ "path": "d/new", "text": "again\n", "expect_digest": read["digest"] });
    done(place.call("fs.write", again.clone()));
    assert_eq!(failed(place.call("fs.write", again)).code, "digest_differs");
    let moved = json!({ "from": "d/new", "to": "d/newer" });
    done(place.call("fs.move", moved));
    assert_eq!(
        failed(place.call("fs.read", json!({ "path": "d/new" }))).code,
        "not_found"
    );
    assert!(!place.real("d/new").exists() && !place.real("d/newer").exists());
}

#[test]
fn a_damaged_stage_is_said_and_not_passed_over() {
    let place = place();
    place.script("echo x >a");
    let stage = place
        .kernel()
        .workspace()
        .state()
        .path()
        .join("stages/default");
    std::fs::write(stage.join("stage.json"), "{").unwrap();
    let failure = failed(place.call("fs.read", json!({ "path": "a" })));
    assert_eq!(failure.code, "stage_failed", "{}", failure.what);
}
