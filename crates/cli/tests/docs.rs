//! The documentation is true: its commands give the output it shows, its policies load, and its
//! tables name everything the code knows.
//!
//! A page is one session: its `console` blocks run in order, in one fresh sample project with
//! directories of its own, and see what earlier ones left. A block ```` ```LANG file=NAME ```` is
//! written into the project. In expected output `[..]` stands for any characters of a line, a line
//! `...` for any lines, and a last line `? N` for the exit code.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROJECT: &[(&str, &str)] = &[
    ("Cargo.toml", "[package]\nname = \"hello\"\n"),
    (
        "src/main.rs",
        "fn main() {\n    // TODO: greet by name\n    println!(\"hello\");\n}\n",
    ),
    (".env", "API_TOKEN=not-for-agents\n"),
    // Marks the workspace, wherever temporary directories are.
    (".git/HEAD", "ref: refs/heads/main\n"),
];

/// Pages whose blocks are run: every one a reader would type from.
const PAGES: &[&str] = &[
    "README.md",
    "docs/adapters.md",
    "docs/agent.md",
    "docs/approvals.md",
    "docs/audit.md",
    "docs/bootstrap.md",
    "docs/cli.md",
    "docs/doctor.md",
    "docs/mcp.md",
    "docs/performance.md",
    "docs/phases.md",
    "docs/plugins.md",
    "docs/policy.md",
    "docs/protocol.md",
    "docs/sessions.md",
    "docs/tools.md",
    "docs/troubleshooting.md",
    "docs/workflows.md",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(repository().join(name)).expect(name)
}

/// A fenced block: the line it begins on, its info string, its lines.
struct Block<'a> {
    line: usize,
    info: &'a str,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (at, line) in text.lines().enumerate() {
        match (open.take(), line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block {
                    line: at + 1,
                    info,
                    lines: Vec::new(),
                });
            }
            (Some(block), Some("")) => found.push(block),
            (Some(mut block), _) => {
                block.lines.push(line);
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is never closed");
    found
}

/// A project and directories that nothing else uses.
struct Session {
    directory: tempfile::TempDir,
}

impl Session {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let session = Self { directory };
        for (name, text) in PROJECT {
            session.write(name, text);
        }
        let verifier = fs::read_to_string(repository().join("tests/audit/verify_export.py"));
        fs::write(session.place("verify_export.py"), verifier.unwrap()).unwrap();
        session
    }

    fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.place("hello").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Both streams as a person sees them, and the exit code.
    #[expect(
        clippy::disallowed_methods,
        reason = "runs what the documentation shows, as its reader would"
    )]
    fn run(&self, line: &str) -> (String, i32) {
        let binary = Path::new(env!("CARGO_BIN_EXE_airlock"));
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            binary.parent().unwrap().display()
        );
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{line}")])
            .current_dir(self.place("hello"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.place("home"))
            .env("XDG_STATE_HOME", self.place("state"))
            .env("XDG_CONFIG_HOME", self.place("config"))
            // Whether a page's commands come in quick succession is not for this to decide.
            .env("AIRLOCK_KERNEL_START", "never")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text, output.status.code().unwrap_or(-1))
    }
}

/// Whether `line` is `pattern`, `[..]` standing for any characters.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once("[..]") else {
        return pattern == line;
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    let mut ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    ends.any(|at| line_matches(rest, line.get(at..).unwrap()))
}

/// Whether `lines` are `patterns`, a pattern `...` standing for any lines.
fn lines_match(patterns: &[&str], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => {
            (0..=lines.len()).any(|skipped| lines_match(rest, lines.get(skipped..).unwrap()))
        }
        Some((pattern, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| line_matches(pattern, line) && lines_match(rest, others)),
    }
}

/// The commands of a block, each with the output and the exit code shown for it.
fn commands<'a>(block: &Block<'a>) -> Vec<(&'a str, Vec<&'a str>, i32)> {
    let mut found: Vec<(&str, Vec<&str>, i32)> = Vec::new();
    for line in &block.lines {
        if let Some(command) = line.strip_prefix("$ ") {
            found.push((command, Vec::new(), 0));
        } else {
            let last = found.last_mut().expect("a console block begins with `$ `");
            match line.strip_prefix("? ").map(str::parse) {
                Some(Ok(code)) => last.2 = code,
                _ => last.1.push(line),
            }
        }
    }
    found
}

/// Runs a page; returns how many commands it had, and adds to `wrong` what came out differently.
fn run_page(name: &str, wrong: &mut String) -> usize {
    let text = page(name);
    let session = Session::new();
    let mut count = 0;
    for block in blocks(&text) {
        if let Some((_, file)) = block.info.split_once("file=") {
            session.write(file, &block.text());
        }
        if block.info != "console" {
            continue;
        }
        for (command, expected, code) in commands(&block) {
            count += 1;
            let (output, ended) = session.run(command);
            let lines: Vec<&str> = output.lines().collect();
            if ended != code || !lines_match(&expected, &lines) {
                let _ = writeln!(
                    wrong,
                    "{name}, block at line {}:\n$ {command}\n{output}? {ended}\n",
                    block.line
                );
            }
        }
    }
    count
}

#[test]
fn every_command_shown_gives_the_output_shown() {
    let mut wrong = String::new();
    let count: usize = PAGES.iter().map(|name| run_page(name, &mut wrong)).sum();
    assert!(
        wrong.is_empty(),
        "this is what really comes out:\n\n{wrong}"
    );
    assert!(
        count > 30,
        "only {count} commands were found: is the format still understood?"
    );
}

#[test]
fn the_runner_notices_what_differs() {
    for (patterns, lines, want) in [
        (&["a", "b"][..], &["a", "b"][..], true),
        (&["a"], &["a", "b"], false),
        (&["a", "..."], &["a", "b", "c"], true),
        (&["...", "c"], &["a", "b"], false),
        (&["x [..] z"], &["x y z"], true),
        (&["x [..] z"], &["x y"], false),
        (&["[..]a[..]a"], &["ba"], false),
        (&[], &["a"], false),
    ] {
        assert_eq!(
            lines_match(patterns, lines),
            want,
            "{patterns:?} on {lines:?}"
        );
    }
}

#[test]
fn every_policy_shown_loads_without_a_warning() {
    let mut count = 0;
    for name in PAGES {
        let text = page(name);
        let policies = blocks(&text).into_iter().filter(|block| {
            block.info.starts_with("yaml") && block.lines.first() == Some(&"version: 1")
        });
        for block in policies {
            count += 1;
            // A block that is written to a file may be a bad example; a command then says so.
            if block.info.contains("file=bad") {
                continue;
            }
            let place = format!("{name}, line {}", block.line);
            let loaded = airlock_policy::Policy::load(&place, block.text().as_bytes());
            let warnings = loaded.expect(&place).warnings;
            assert!(warnings.is_empty(), "{place}: {warnings:?}");
        }
    }
    assert!(count >= 5, "only {count} policies were found");
}

/// The rows of every table of `text`, as cells.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter_map(|line| {
        let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(row.split(" | ").collect())
    })
}

/// The code spans of `text`.
fn spans(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Names that no first cell of a table has.
fn without_a_row<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let first: BTreeSet<&str> = rows(text)
        .flat_map(|row| spans(row.first().copied().unwrap_or_default()))
        .collect();
    names
        .into_iter()
        .filter(|name| !first.contains(name))
        .collect()
}

#[test]
fn the_policy_guide_has_a_row_for_every_section_and_field() {
    let text = page("docs/policy.md");
    let schema = airlock_policy::json_schema();
    let keys = |at: &str| -> Vec<String> {
        let properties = schema.pointer(at).and_then(Value::as_object).expect(at);
        assert!(!properties.is_empty(), "{at}");
        properties.keys().cloned().collect()
    };
    for at in [
        "/properties",
        "/$defs/Rule/properties",
        "/$defs/Conditions/properties",
        "/$defs/Constraints/properties",
    ] {
        let keys = keys(at);
        let missing = without_a_row(&text, keys.iter().map(String::as_str));
        assert!(missing.is_empty(), "{at}: {missing:?}");
    }
}

#[test]
fn the_policy_guide_has_the_syscall_table_of_the_code() {
    use airlock_core::CapabilityForm::{Fixed, Host, Path, Secret, Tool};
    let text = page("docs/policy.md");
    for spec in airlock_core::SYSCALLS {
        let (Fixed(capability) | Path(capability) | Host(capability) | Secret(capability)
        | Tool(capability)) = spec.capability;
        let cell = format!("`{}`", spec.name);
        let row = rows(&text).find(|row| row.len() == 4 && row.first() == Some(&cell.as_str()));
        let row = row.unwrap_or_else(|| panic!("no row for {}", spec.name));
        let effects: Vec<&str> = spec
            .effects
            .iter()
            .map(airlock_core::Effect::as_str)
            .collect();
        let [_, shown, effect, about] = row.as_slice() else {
            panic!("{row:?}");
        };
        assert!(shown.starts_with(&format!("`{capability}")), "{row:?}");
        assert_eq!(
            (*effect, *about),
            (effects.join(", ").as_str(), spec.summary)
        );
    }
}

#[test]
fn the_policy_guide_has_every_built_in_rule_and_gate() {
    let text = page("docs/policy.md");
    for rule in airlock_policy::built_in_rules() {
        let cell = format!("`{}`", rule.name);
        let row = rows(&text).find(|row| row.first() == Some(&cell.as_str()));
        let row = row.unwrap_or_else(|| panic!("no row for {}", rule.name));
        let opinion = serde_json::to_value(rule.opinion).unwrap();
        assert_eq!(row.get(1).copied(), opinion.as_str(), "{row:?}");
    }
    let gates: Vec<&str> = airlock_policy::approval::Gate::ALL
        .iter()
        .map(|g| g.as_str())
        .collect();
    assert_eq!(without_a_row(&text, gates), Vec::<&str>::new());
}

/// The codes that functions `code` of the kernel return, or its literals set.
fn failure_codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for path in sources("crates/kernel/src") {
        let text = fs::read_to_string(&path).unwrap();
        let bodies = text.split("fn code(&self)").skip(1).map(|body| {
            let end = body.find("\n    }").expect("a function ends");
            body.get(..end).unwrap()
        });
        codes.extend(
            bodies
                .flat_map(|body| body.split('"').skip(1).step_by(2))
                .map(str::to_owned),
        );
        let literals = text.split("code: \"").skip(1);
        codes.extend(
            literals
                .filter_map(|rest| rest.split('"').next())
                .map(str::to_owned),
        );
    }
    assert!(codes.len() >= 15, "{codes:?}");
    codes
}

#[test]
fn troubleshooting_has_a_row_for_every_code() {
    let text = page("docs/troubleshooting.md");
    let codes = airlock_policy::CODES
        .iter()
        .chain(airlock_policy::COMPILE_CODES);
    assert_eq!(
        without_a_row(&text, codes.map(|(code, _)| *code)),
        Vec::<&str>::new()
    );
    let failures = failure_codes();
    let missing = without_a_row(&text, failures.iter().map(String::as_str));
    assert_eq!(missing, Vec::<&str>::new());
}

/// The lines under `heading` of a help text, up to the next empty one, first words.
fn listed<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    let listed = lines.take_while(|line| !line.is_empty());
    listed
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect()
}

#[test]
fn the_command_reference_has_every_command_and_flag() {
    let text = page("docs/cli.md");
    let session = Session::new();
    let (mut waiting, mut seen) = (vec!["airlock".to_owned()], 0);
    while let Some(command) = waiting.pop() {
        let (help, code) = session.run(&format!("{command} --help"));
        assert_eq!(code, 0, "{command}");
        let flags = help
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("--"));
        for flag in flags.map(|flag| flag.trim_end_matches([',', '.', ':', ';'])) {
            let known = ["help", "version", "", "-"].contains(&flag)
                || !flag.starts_with(char::is_alphabetic);
            assert!(
                known || text.contains(&format!("--{flag}")),
                "{command}: --{flag}"
            );
        }
        let children = listed(&help, "Commands:");
        if children.is_empty() {
            seen += 1;
            assert!(
                text.contains(&format!("`{command}")),
                "{command} is not in docs/cli.md"
            );
        }
        let children = children.into_iter().filter(|child| *child != "help");
        waiting.extend(children.map(|child| format!("{command} {child}")));
    }
    assert!(seen >= 20, "only {seen} commands were found");
}

#[test]
fn json_has_the_keys_the_reference_lists() {
    let text = page("docs/cli.md");
    let session = Session::new();
    session.write("new-policy.yaml", "version: 1\n");
    for line in [
        "airlock init",
        "airlock tool call fs.list",
        "airlock audit checkpoint",
    ] {
        assert_eq!(session.run(line).1, 0, "{line}");
    }
    let mut count = 0;
    for row in rows(&text) {
        let [command, keys, ..] = row.as_slice() else {
            continue;
        };
        let Some(command) = command
            .strip_prefix('`')
            .and_then(|c| c.strip_suffix("--json`"))
        else {
            continue;
        };
        count += 1;
        let (output, _) = session.run(&format!("{command} --json 2>/dev/null"));
        let last = output
            .lines()
            .last()
            .unwrap_or_else(|| panic!("{command} says nothing"));
        let value: Value = serde_json::from_str(last).expect(command);
        let mut object = value.as_object().expect(command);
        if let Some(error) = object.get("error").filter(|_| keys.contains("`error`")) {
            object = error.as_object().expect(command);
        }
        let found: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        let shown: BTreeSet<&str> = spans(keys)
            .into_iter()
            .filter(|key| *key != "error")
            .collect();
        assert_eq!(shown, found, "{command}");
    }
    assert!(count >= 15, "only {count} shapes were found");
}

/// Every Rust file beneath `directory`.
fn sources(directory: &str) -> Vec<PathBuf> {
    let mut waiting = vec![repository().join(directory)];
    let mut found = Vec::new();
    while let Some(place) = waiting.pop() {
        for entry in fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn every_test_and_file_the_papers_name_exists() {
    let code: String = ["crates", "escape", "fuzz", "xtask"]
        .iter()
        .flat_map(|directory| sources(directory))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let mut tests = 0;
    for name in ["ARCHITECTURE.md", "SECURITY.md"] {
        let text = page(name);
        for span in spans(&text) {
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if span.matches('_').count() >= 3 && span.chars().all(word) {
                tests += 1;
                assert!(
                    code.contains(&format!("fn {span}(")),
                    "{name}: no test `{span}`"
                );
            }
            let placed = [
                "crates/", "fuzz/", "xtask/", "tests/", "docs/", "bench/", ".ci/",
            ];
            if placed.iter().any(|start| span.starts_with(start)) && !span.contains(['*', ' ']) {
                assert!(repository().join(span).exists(), "{name}: no file `{span}`");
            }
        }
    }
    assert!(tests >= 15, "only {tests} tests are named");
}

#[test]
fn the_readme_asks_for_the_compiler_the_workspace_needs() {
    let manifest = page("Cargo.toml");
    let needed = manifest.split("rust-version = \"").nth(1).unwrap();
    let needed = needed.split('"').next().unwrap();
    assert!(
        page("README.md").contains(&format!("Rust {needed} ")),
        "{needed}"
    );
}

#[test]
fn every_chore_the_documentation_names_exists() {
    let chores = fs::read_to_string(repository().join("xtask/src/main.rs")).unwrap();
    let papers = ["CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"];
    for name in PAGES.iter().chain(&papers) {
        let text = page(name);
        for chore in text.split("cargo xtask ").skip(1) {
            let chore: String = chore.chars().take_while(char::is_ascii_lowercase).collect();
            let known = chore == "help" || chores.contains(&format!("name: \"{chore}\""));
            assert!(known, "{name}: no chore `{chore}`");
        }
    }
}
