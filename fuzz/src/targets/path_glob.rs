//! Path globs, through rules: an allow never reaches an excluded path or one outside the
//! workspace, a denial reaches at least as far as an allow would, and order never matters.
//!
//! The input is lines: the path of a request, then globs.

use super::request::{NOW, ROOT, request};
use super::{Target, text};
use airlock_core::{Digest, Request, RequestPath};
use airlock_policy::{
    Action, BuiltIns, Conditions, Constraints, Document, Engine, ExtensionHost, Generation, Layer,
    Opinion, Place, Policy, Rule,
};
use std::sync::Arc;

pub(super) const TARGET: Target = Target {
    name: "path_glob",
    run,
    seeds: &[
        b"src/main.rs\nsrc/**",
        b"src/generated/x.rs\nsrc/**\n!src/generated/**",
        b"a/b/c.rs\n*.rs\n!b/",
        b".\n**\n!.",
        b"a\na/\n!a/",
        b"target/debug/x\n/target\n!**/debug",
        b"a/b/c/d/e\na/**/c/**/e\n**/d",
        b"/etc/shadow\n**\n/etc\n*",
        b"../work2/a\n**",
        b"a-b\n[!a]*\n[]-a]*\n[a-c]-b",
        b"a*b\na\\*b\n\\!x\n\\#",
        b"a\n!**\n**",
        b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n*a*a*a*a*a*a*a*a*b",
        b"caf\xc3\xa9/x\ncaf?/*\n[\xc3\xa9]",
    ],
    dictionary: &[
        "**",
        "*",
        "?",
        "[",
        "]",
        "[!",
        "[^",
        "a-z",
        "[[:alpha:]]",
        "!",
        "\\",
        "/",
        "/**",
        "**/",
        "..",
        ".",
        "~",
        "{a,b}",
        "\n",
        "\n!",
        "\n**",
        "/etc/",
        ".git",
        "C:",
        " ",
    ],
    iterations: 900,
};

/// More would only make each run slower.
const GLOBS: usize = 8;

fn run(input: &[u8]) {
    let input = text(input);
    let mut lines = input.split('\n');
    let Some(request) = lines
        .next()
        .and_then(|path| request("agent", "fs.write", &[path]))
    else {
        return;
    };
    let globs: Vec<&str> = lines.take(GLOBS).collect();
    let sound: Vec<&str> = globs.into_iter().filter(|glob| compiles(glob)).collect();
    let includes: Vec<&str> = select(&sound, false);
    let excludes: Vec<&str> = select(&sound, true);
    let seen = Seen { request: &request };
    let (allow, deny) = (seen.allowed(&sound), seen.denied(&sound));
    seen.agrees_with_the_file(&sound, allow);
    seen.sides(&sound, allow, deny);
    seen.order(&sound, allow, deny);
    seen.exclusions(&includes, &excludes, allow, deny);
    seen.inclusions(&includes);
}

/// The globs that exclude, without their `!`, or those that do not.
fn select<'a>(globs: &[&'a str], excluding: bool) -> Vec<&'a str> {
    globs
        .iter()
        .filter(|glob| glob.starts_with('!') == excluding)
        .map(|glob| {
            if excluding {
                glob.get(1..).unwrap_or_default()
            } else {
                glob
            }
        })
        .collect()
}

/// Whether `glob` is one. Asked together with another, because a list that only excludes is refused.
fn compiles(glob: &str) -> bool {
    engine(&[glob, "**"], Action::Allow).is_some()
}

fn engine(globs: &[&str], action: Action) -> Option<Engine> {
    let when = Conditions {
        path_glob: Some(globs.iter().map(|glob| Arc::from(*glob)).collect()),
        ..Conditions::default()
    };
    let rule = Rule {
        name: "rule".into(),
        place: Place::default(),
        when,
        action,
        reason: None,
        except: Vec::new(),
        constraints: Constraints::default(),
        examples: Vec::new(),
    };
    let document = Document {
        rules: vec![rule],
        ..Document::default()
    };
    let policy = Policy::compile(document, Generation::new(Digest::of(b"fuzz"))).ok()?;
    Some(alone(policy.policy))
}

fn alone(policy: Policy) -> Engine {
    Engine::new(policy, BuiltIns::none(), ExtensionHost::default())
}

fn spoke(engine: &Engine, request: &Request, opinion: Opinion) -> bool {
    let decision = engine.decide(request, None, NOW);
    decision
        .contributions
        .iter()
        .any(|one| one.layer == Layer::Rules && one.opinion == opinion)
}

struct Seen<'a> {
    request: &'a Request,
}

impl Seen<'_> {
    fn allowed(&self, globs: &[&str]) -> bool {
        engine(globs, Action::Allow)
            .is_some_and(|engine| spoke(&engine, self.request, Opinion::Allow))
    }

    fn denied(&self, globs: &[&str]) -> bool {
        engine(globs, Action::Deny)
            .is_some_and(|engine| spoke(&engine, self.request, Opinion::Deny))
    }

    fn path(&self) -> &str {
        self.request.paths.first().map_or("", RequestPath::as_str)
    }

    fn inside(&self) -> bool {
        self.request
            .paths
            .iter()
            .all(|path| path.inside().is_some())
    }

    /// A file with these globs, if it loads, means the same.
    fn agrees_with_the_file(&self, globs: &[&str], allow: bool) {
        let Ok(list) = serde_json::to_string(globs) else {
            return;
        };
        let file = format!(
            "version: 1\nrules:\n  - name: r\n    match: {{ path_glob: {list} }}\n    action: allow\n"
        );
        if let Ok(loaded) = Policy::load("fuzz", file.as_bytes()) {
            let spoke = spoke(&alone(loaded.policy), self.request, Opinion::Allow);
            assert_eq!(spoke, allow, "{file} about {:?}", self.path());
        }
    }

    fn sides(&self, globs: &[&str], allow: bool, deny: bool) {
        let path = self.path();
        assert!(
            !allow || self.inside(),
            "an allow of {globs:?} reaches out to {path:?}"
        );
        assert!(
            !allow || deny,
            "{globs:?} allows {path:?} and does not deny it"
        );
    }

    fn order(&self, globs: &[&str], allow: bool, deny: bool) {
        let reversed: Vec<&str> = globs.iter().rev().copied().collect();
        let path = self.path();
        assert_eq!(self.allowed(&reversed), allow, "{globs:?} {path:?}");
        assert_eq!(self.denied(&reversed), deny, "{globs:?} {path:?}");
    }

    /// What is excluded is never allowed, even if it only might be; what surely is, not denied.
    fn exclusions(&self, includes: &[&str], excludes: &[&str], allow: bool, deny: bool) {
        let path = self.path();
        for glob in excludes {
            assert!(
                !allow || !self.denied(&[glob]),
                "!{glob} does not exclude {path:?}"
            );
            assert!(
                !deny || !self.allowed(&[glob]),
                "!{glob} does not spare {path:?}"
            );
        }
        assert!(
            !allow || self.allowed(includes),
            "excluding {excludes:?} added {path:?} to {includes:?}"
        );
    }

    /// Without exclusions a list is its globs together, and a match reaches all that is below.
    fn inclusions(&self, includes: &[&str]) {
        let path = self.path();
        let together = self.allowed(includes);
        let apart = includes.iter().any(|glob| self.allowed(&[glob]));
        assert_eq!(together, apart, "{includes:?} {path:?}");
        let plain = |c: char| c.is_ascii_alphanumeric() || "/_-".contains(c);
        if self.inside() && path.chars().all(plain) && compiles(path) {
            assert!(self.allowed(&[path]), "{path:?} does not match itself");
        }
        let below = format!("{path}/below");
        let child = request("agent", "fs.write", &[&below]);
        if let (true, Some(child)) = (together, child.as_ref()) {
            assert_eq!(
                RequestPath::parse(&below, ROOT).as_ref().ok(),
                child.paths.first()
            );
            let child = Seen { request: child };
            assert!(child.allowed(includes), "{includes:?} stops at {path:?}");
        }
    }
}
