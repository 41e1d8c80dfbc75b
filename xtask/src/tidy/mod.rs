//! `tidy`: rules about the repository that no compiler checks, all findings at once.
//!
//! Each rule is a pure function over the files git knows or would add; only this module reads
//! them. A file that is not UTF-8 exists for links but is not searched.

mod layers;
mod licences;
mod links;
mod lists;
mod manifests;
mod papers;
mod rust;
mod source;
mod text;
mod tree;

use crate::shell::{Failure, cargo, command, output, root, say};
use tree::{Finding, Tree};

/// Every rule over the files alone.
const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    layers::check,
    links::check,
    lists::check,
    manifests::check,
    papers::check,
    rust::check,
    text::check,
];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("`tidy` takes no arguments"));
    }
    let tree = read()?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    findings.extend(licences::check(&tree, &packages()?));
    findings.sort();
    for finding in &findings {
        say(&finding.to_string());
    }
    if findings.is_empty() {
        say(&format!("tidy: {} files, nothing found", tree.files.len()));
        Ok(())
    } else {
        Err(Failure::new(format!(
            "tidy found {} problems",
            findings.len()
        )))
    }
}

fn read() -> Result<Tree, Failure> {
    let root = root();
    let mut git = command("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let mut tree = Tree::new(&root.to_string_lossy());
    for path in output(&mut git)?
        .split('\0')
        .filter(|path| !path.is_empty())
    {
        let place = root.join(path);
        // A file deleted but not yet committed is still listed.
        if place.is_file() {
            let bytes = std::fs::read(&place)
                .map_err(|error| Failure::new(format!("cannot read `{path}`: {error}")))?;
            tree.add(path, String::from_utf8(bytes).ok());
        }
    }
    Ok(tree)
}

/// Every package of the lock file that any target or feature can pull in: `name v1.2.3|licence|`.
fn packages() -> Result<String, Failure> {
    output(&mut cargo(&[
        "tree",
        "--locked",
        "--workspace",
        "--all-features",
        "--target",
        "all",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}|",
    ]))
}
