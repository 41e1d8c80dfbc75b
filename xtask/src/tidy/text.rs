//! What holds for every text file: whitespace, marks of unfinished work, names of machines.

use super::source::has_word;
use super::tree::{File, Finding, Tree, numbered};

/// Recorded output is kept byte for byte, as are the inputs in [`DATA`].
const RECORDED: &[&str] = &["snap", "stdout", "stderr", "trycmd"];

/// Directories of files that tests read, some of them malformed on purpose.
const DATA: &[&str] = &["fixtures", "vectors"];

/// Names that examples may use for a person's home.
const EXAMPLE_PEOPLE: &[&str] = &["agent", "alice", "bob", "user", "you"];

/// The registry as lock files and configuration may name it.
const REGISTRIES: &[&str] = &[
    "registry+https://github.com/rust-lang/crates.io-index",
    "sparse+https://index.crates.io/",
];

/// Parts of host names of private registries; the bar keeps this list from finding itself.
const PRIVATE_HOSTS: &[&str] = &["arti|factory", "jf|rog", "code|artifact", "pkgs.dev.|azure"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !is_recorded(file) {
            findings.extend(whitespace(file));
            findings.extend(unfinished(file));
        }
        findings.extend(machine(file, &tree.place));
        findings.extend(registry(file));
    }
    findings
}

fn is_recorded(file: &File) -> bool {
    RECORDED
        .iter()
        .any(|extension| file.has_extension(extension))
        || file.path.split('/').any(|part| DATA.contains(&part))
}

fn whitespace(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in file.text.split_terminator('\n').enumerate() {
        if line.ends_with('\r') {
            findings.push(file.finding(at + 1, "CRLF line ending", "use LF"));
        } else if line.ends_with([' ', '\t']) {
            findings.push(file.finding(at + 1, "trailing whitespace", "remove it"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        let last = file.text.lines().count();
        findings.push(file.finding(last, "no newline at the end", "add one"));
    }
    findings
}

/// Marks of unfinished work: only in prose and comments, so that code may search for them.
fn unfinished(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in numbered(&prose(file)) {
        for mark in ["FIXME", "XXX"] {
            if has_word(line, mark) {
                findings.push(file.finding(number, mark, "mend it, or open an issue"));
            }
        }
        if has_word(line, "TODO") && !has_owner(line) {
            findings.push(file.finding(number, "TODO without an owner", "write `TODO(name): ...`"));
        }
    }
    findings
}

fn has_owner(line: &str) -> bool {
    line.split("TODO").skip(1).all(|after| {
        after
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .is_some_and(|(owner, _)| !owner.trim().is_empty())
    })
}

/// The comments of a file, or its prose without code; line by line as in the file.
fn prose(file: &File) -> String {
    if let Some(rust) = &file.rust {
        return rust.comments.clone();
    }
    if file.has_extension("md") {
        return without_code(&file.text);
    }
    let comment = |line: &str| {
        line.split_once('#')
            .map_or(String::new(), |(_, c)| c.to_owned())
    };
    file.text.lines().map(|line| comment(line) + "\n").collect()
}

/// Markdown with fenced blocks and code spans blanked.
pub(super) fn without_code(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut out = String::new();
    for line in text.lines() {
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => out.push_str(&without_spans(line)),
        }
        out.push('\n');
    }
    out
}

fn without_spans(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    // An odd backtick opens nothing: its text stays.
    let closed = parts.len() - usize::from(parts.len().is_multiple_of(2));
    let kept = parts.iter().enumerate().map(|(at, part)| {
        if at % 2 == 1 && at < closed {
            ""
        } else {
            *part
        }
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// Paths of somebody's machine. Tests may use such paths as data, but never where this lies.
fn machine(file: &File, place: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A place directly beneath `/`, as in a container, is too common a word to search for.
    if place.matches('/').count() > 1 {
        for (number, line) in numbered(&file.text).filter(|(_, line)| line.contains(place)) {
            let what = format!("the place of this checkout in `{}`", line.trim());
            findings.push(file.finding(number, what, "use a relative path"));
        }
    }
    for (number, line) in file.shipped_lines() {
        if let Some(path) = machine_path(line) {
            let what = format!("machine path `{path}`");
            findings.push(file.finding(number, what, "use a relative path, or an example name"));
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<String> {
    let starts = |at: usize| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || "_-./}*~".contains(c))
    };
    let direct = ["work", "root"].map(|name| format!("/{name}/"));
    for path in direct {
        if line.match_indices(&path).any(|(at, _)| starts(at)) {
            return Some(path);
        }
    }
    line.match_indices("/home/")
        .filter(|(at, _)| starts(*at))
        .find_map(|(at, home)| {
            let name: String = line
                .get(at + home.len()..)?
                .chars()
                .take_while(|c| c.is_alphanumeric() || "_-.".contains(*c))
                .collect();
            let stranger = !name.is_empty() && !EXAMPLE_PEOPLE.contains(&name.as_str());
            stranger.then(|| format!("{home}{name}"))
        })
}

fn names_registry(word: &str) -> bool {
    ["registry", "sparse"]
        .iter()
        .any(|kind| word.contains(&format!("{kind}+http")))
}

fn registry(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let configures = file.path.ends_with(".cargo/config.toml");
    for (number, line) in file.shipped_lines() {
        let foreign = line
            .split(['"', '\'', ' ', '`'])
            .filter(|word| names_registry(word))
            .any(|word| !REGISTRIES.contains(&word));
        let lower = line.to_lowercase();
        let private = PRIVATE_HOSTS
            .iter()
            .any(|host| lower.contains(&host.replace('|', "")));
        let replaced = configures
            && ["[source", "[registries", "[registry"]
                .iter()
                .any(|s| line.starts_with(s));
        if foreign || private || replaced {
            let what = "a registry other than crates.io";
            findings.push(file.finding(number, what, "keep it in your own Cargo configuration"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::assert_finds;
    use super::*;

    #[test]
    fn lines_end_in_one_newline_and_nothing_else() {
        assert_finds(check, &[("a.md", "one\n\ntwo\n"), ("empty.md", "")], &[]);
        assert_finds(
            check,
            &[("a.md", "one \ntwo\t\nthree\r\nfour")],
            &[
                "a.md:1: trailing",
                "a.md:2: trailing",
                "a.md:3: CRLF",
                "a.md:4: no newline",
            ],
        );
        assert_finds(check, &[("tests/a.stdout", "recorded \nwithout end")], &[]);
        assert_finds(check, &[("crates/x/tests/fixtures/a.yaml", "a: \r\n")], &[]);
    }

    #[test]
    fn unfinished_work_has_an_owner_and_is_searched_for_in_prose_only() {
        let good = "// TODO(ada): measure\nconst A: &str = \"TODO FIXME XXX\";\n";
        assert_finds(check, &[("a.rs", good)], &[]);
        assert_finds(
            check,
            &[("a.md", "`TODO`\n\n```sh\nrg FIXME\n```\n\nXXXXXX\n")],
            &[],
        );
        assert_finds(check, &[("a.toml", "a = \"TODO\"\n")], &[]);
        assert_finds(check, &[("tests/fixtures/a.py", "# TODO x\n")], &[]);
        let bad = "// TODO measure\n// FIXME\n/* XXX */\n// TODO(): x\n";
        assert_finds(
            check,
            &[("a.rs", bad)],
            &[
                "a.rs:1: TODO",
                "a.rs:2: FIXME",
                "a.rs:3: XXX",
                "a.rs:4: TODO",
            ],
        );
        assert_finds(check, &[("a.md", "TODO\n")], &["a.md:1: TODO"]);
        assert_finds(
            check,
            &[("a.toml", "a = 1 # FIXME\n")],
            &["a.toml:1: FIXME"],
        );
    }

    #[test]
    fn machine_paths_are_found_but_examples_and_data_of_tests_are_not() {
        let good = "see /home/alice/x, /home/, `$HOME/work/x`, a/root/b and ~/root/x\n";
        assert_finds(check, &[("a.md", good)], &[]);
        let tested = "fn a() {}\n#[cfg(test)]\nmod tests {\n    // /root/.ssh\n}\n";
        assert_finds(
            check,
            &[("a.rs", tested), ("tests/b.rs", "// /work/x\n")],
            &[],
        );
        assert_finds(
            check,
            &[("a.md", "in /work/x\n(/root/.ssh)\n\"/home/jan/x\"\n")],
            &[
                "a.md:1: machine",
                "a.md:2: machine",
                "a.md:3: machine path `/home/jan`",
            ],
        );
        let here = "// /srv/checkouts/airlock/x\n";
        assert_finds(check, &[("tests/b.rs", here)], &["tests/b.rs:1: the place"]);
    }

    #[test]
    fn only_the_public_registry_is_named() {
        let lock = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        assert_finds(check, &[("Cargo.lock", lock)], &[]);
        let mirror = "source = \"registry+https://mirror.example/index\"\n";
        assert_finds(
            check,
            &[("Cargo.lock", mirror)],
            &["Cargo.lock:1: a registry"],
        );
        assert_finds(
            check,
            &[("a.md", "from Artifactory\n")],
            &["a.md:1: a registry"],
        );
        let config = [(".cargo/config.toml", "[source.crates-io]\n")];
        assert_finds(check, &config, &[".cargo/config.toml:1: a registry"]);
    }
}
