//! Which framework a project uses, and the command that runs it.

use super::{Framework, python};
use crate::beneath::Root;
use std::io::Read as _;

/// What gives a framework away, in the workspace's root; the first found is the usual one.
const MARKS: &[(&str, Framework)] = &[
    ("Cargo.toml", Framework::Cargo),
    ("go.mod", Framework::Go),
    ("pytest.ini", Framework::Pytest),
    ("conftest.py", Framework::Pytest),
    ("pyproject.toml", Framework::Pytest),
    ("setup.py", Framework::Pytest),
    ("setup.cfg", Framework::Pytest),
    ("tox.ini", Framework::Pytest),
    ("requirements.txt", Framework::Pytest),
    ("package.json", Framework::Node),
];

/// Longest `package.json` that is looked into.
const MANIFEST_BYTES: u64 = 1024 * 1024;

/// Every framework that `root` gives away, the usual one first.
pub(super) fn frameworks(root: &Root) -> Vec<Framework> {
    let mut found = Vec::new();
    for (mark, framework) in MARKS {
        if !found.contains(framework) && root.open_file(mark).is_ok() {
            found.push(*framework);
        }
    }
    found
}

pub(super) fn command(framework: Framework, filter: Option<&str>, root: &Root) -> Vec<String> {
    let mut words: Vec<&str> = match framework {
        // Every package, though the one in the root may be the only one that is tested by default.
        Framework::Cargo => vec![
            "cargo",
            "test",
            "--workspace",
            "--no-fail-fast",
            "--color=never",
        ],
        // Without vet, for which the whole standard library is read anew where nothing is kept.
        Framework::Go => vec!["go", "test", "-v", "-vet=off"],
        // All of them and each by its name, though the project's own settings may say to stop at the
        // first that fails, or to be quiet. Said more loudly a name would have its file behind it.
        Framework::Pytest => {
            let own = ["--verbosity=1", "--color=no", "--maxfail=0"];
            [python::COMMAND, &own].concat()
        }
        Framework::Node if has_test_script(root) => vec!["npm", "test", "--silent"],
        Framework::Node => vec!["node", "--test", "--test-reporter=tap"],
    };
    match (framework, filter) {
        (Framework::Cargo, Some(filter)) => words.extend(["--", filter]),
        (Framework::Go, filter) => {
            words.extend(filter.into_iter().flat_map(|filter| ["-run", filter]));
            words.push("./...");
        }
        (Framework::Pytest, Some(filter)) => words.extend(["-k", filter]),
        (Framework::Node, Some(filter)) if words.contains(&"npm") => words.extend(["--", filter]),
        (Framework::Node, Some(filter)) => words.extend(["--test-name-pattern", filter]),
        (Framework::Cargo | Framework::Pytest | Framework::Node, None) => {}
    }
    words.into_iter().map(str::to_owned).collect()
}

/// `plain` for nothing but the tests that the framework calls `only`; none if it takes no names.
pub(super) fn narrowed(
    framework: Framework,
    plain: &[String],
    only: &[String],
) -> Option<Vec<String>> {
    let mut names: Vec<&str> = only.iter().map(|name| base(framework, name)).collect();
    // A name is never an option.
    names.retain(|name| !name.is_empty() && !name.starts_with('-') && !name.contains('\0'));
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let mut words = plain.to_vec();
    let owned = |name: &&str| (*name).to_owned();
    match framework {
        Framework::Cargo => {
            words.extend(["--", "--exact"].map(str::to_owned));
            words.extend(names.iter().map(owned));
        }
        Framework::Pytest => words.extend(names.iter().map(owned)),
        Framework::Go => {
            let all: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
            let place = words.iter().position(|word| word == "./...")?;
            let pattern = format!("^({})$", all.join("|"));
            words.splice(place..place, ["-run".to_owned(), pattern]);
        }
        // A script of the project's own: what it hands on, and to whom, is not known.
        Framework::Node if words.first().is_none_or(|program| program != "node") => return None,
        Framework::Node => words.extend(names.iter().map(|name| {
            let pattern = regex::escape(name).replace('/', "\\/");
            format!("--test-name-pattern=/^{pattern}$/")
        })),
    }
    Some(words)
}

/// `plain` without running what it builds; none where nothing is kept of what is built. What Python
/// compiles is not, and Go keeps it where every run has a directory of its own.
pub(super) fn built(framework: Framework, plain: &[String]) -> Option<Vec<String>> {
    match framework {
        Framework::Cargo => {
            let place = plain.iter().position(|word| word == "test")? + 1;
            let mut words = plain.to_vec();
            words.insert(place, "--no-run".to_owned());
            Some(words)
        }
        Framework::Go | Framework::Pytest | Framework::Node => None,
    }
}

/// A name without the parameters of one case.
fn base(framework: Framework, name: &str) -> &str {
    match framework {
        Framework::Pytest => name.split('[').next().unwrap_or(name),
        Framework::Go => name.split('/').next().unwrap_or(name),
        Framework::Cargo | Framework::Node => name,
    }
}

/// Whether `package.json` says how to test.
fn has_test_script(root: &Root) -> bool {
    let Ok(file) = root.open_file("package.json") else {
        return false;
    };
    let mut text = String::new();
    if file.take(MANIFEST_BYTES).read_to_string(&mut text).is_err() {
        return false;
    }
    serde_json::from_str::<serde_json::Value>(&text)
        .is_ok_and(|manifest| manifest.pointer("/scripts/test").is_some())
}
