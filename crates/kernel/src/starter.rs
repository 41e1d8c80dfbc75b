//! The starter policy that `airlock init` writes: fitted to the project, deny by default.

use crate::beneath::Root;
use crate::workspace::Workspace;
use std::fmt::Write as _;

/// A language the starter policy knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// Rust.
    Rust,
    /// JavaScript and TypeScript.
    Node,
    /// Python.
    Python,
    /// Go.
    Go,
}

/// What one language's projects look like.
struct Profile {
    language: Language,
    name: &'static str,
    /// Files that give it away, in the workspace root.
    marks: &'static [&'static str],
    /// Where source lives.
    source: &'static [&'static str],
    /// Where tests live.
    tests: &'static [&'static str],
    /// What decides what gets built.
    build: &'static [&'static str],
    /// A source file and a build file, for the examples.
    samples: (&'static str, &'static str),
    /// Executables and the subcommands an agent needs.
    commands: &'static [(&'static str, &'static [&'static str])],
}

const PROFILES: &[Profile] = &[
    Profile {
        language: Language::Rust,
        name: "Rust",
        marks: &["Cargo.toml"],
        source: &[
            "*.rs",
            "src/**",
            "crates/*/src/**",
            "benches/**",
            "examples/**",
        ],
        tests: &["**/tests/**"],
        build: &[
            "Cargo.toml",
            "Cargo.lock",
            "build.rs",
            ".cargo/**",
            "rust-toolchain*",
        ],
        samples: ("src/main.rs", "Cargo.toml"),
        commands: &[
            ("cargo", &["build", "check", "test", "clippy", "fmt", "doc"]),
            ("rustc", &[]),
        ],
    },
    Profile {
        language: Language::Node,
        name: "Node",
        marks: &["package.json"],
        source: &[
            "*.js",
            "*.jsx",
            "*.mjs",
            "*.cjs",
            "*.ts",
            "*.tsx",
            "src/**",
            "lib/**",
            "app/**",
            "pages/**",
            "components/**",
            "packages/*/src/**",
        ],
        tests: &[
            "test/**",
            "tests/**",
            "__tests__/**",
            "*.test.*",
            "*.spec.*",
        ],
        build: &[
            "package.json",
            "package-lock.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "tsconfig*.json",
            "*.config.js",
            "*.config.ts",
        ],
        samples: ("src/index.js", "package.json"),
        commands: &[("node", &[]), ("npm", &["test", "run"])],
    },
    Profile {
        language: Language::Python,
        name: "Python",
        marks: &[
            "pyproject.toml",
            "setup.py",
            "requirements.txt",
            "setup.cfg",
        ],
        source: &["src/**", "*.py"],
        tests: &["tests/**", "test/**", "test_*.py", "*_test.py"],
        build: &[
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "requirements*.txt",
            "tox.ini",
            "conftest.py",
        ],
        samples: ("src/app.py", "pyproject.toml"),
        commands: &[("python3", &[]), ("pytest", &[])],
    },
    Profile {
        language: Language::Go,
        name: "Go",
        marks: &["go.mod"],
        source: &["*.go", "cmd/**", "internal/**", "pkg/**"],
        tests: &["*_test.go", "testdata/**"],
        build: &["go.mod", "go.sum", "go.work", "vendor/**"],
        samples: ("cmd/main.go", "go.mod"),
        commands: &[("go", &["build", "test", "vet", "fmt", "list"])],
    },
];

/// A starter policy in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    languages: Vec<Language>,
}

impl Starter {
    /// Looks at the workspace's root for what gives a language away.
    pub(crate) fn detect(root: &Root) -> Self {
        let has = |mark: &str| root.open_file(mark).is_ok();
        let found = PROFILES
            .iter()
            .filter(|profile| profile.marks.iter().any(|mark| has(mark)));
        Self {
            languages: found.map(|profile| profile.language).collect(),
        }
    }

    /// The starter that fits `workspace`.
    pub fn of(workspace: &Workspace) -> Self {
        Self::detect(workspace.root())
    }

    /// A starter for these languages.
    pub fn for_languages(languages: &[Language]) -> Self {
        Self {
            languages: languages.to_vec(),
        }
    }

    /// The names of the languages found.
    pub fn names(&self) -> Vec<&'static str> {
        self.profiles().map(|profile| profile.name).collect()
    }

    fn profiles(&self) -> impl Iterator<Item = &'static Profile> {
        PROFILES
            .iter()
            .filter(|profile| self.languages.contains(&profile.language))
    }

    fn gather(&self, of: fn(&Profile) -> &'static [&'static str]) -> Vec<&'static str> {
        let mut all: Vec<&str> = Vec::new();
        for glob in self.profiles().flat_map(of) {
            if !all.contains(glob) {
                all.push(glob);
            }
        }
        all
    }

    /// The policy file.
    pub fn policy(&self) -> String {
        let names = self.names();
        let fitted = if names.is_empty() {
            "no language was recognised: add the globs of your own".to_owned()
        } else {
            format!("fitted to {}", names.join(", "))
        };
        let mut text = HEAD.replace("{fitted}", &fitted);
        text.push_str(READS);
        denials(&mut text);
        self.writes(&mut text);
        self.build_files(&mut text);
        text.push_str(TAIL);
        text.push_str(APPROVALS);
        self.commands(&mut text);
        self.phases(&mut text);
        text
    }

    /// A file that the policy lets an agent write.
    pub fn sample(&self) -> &'static str {
        let mut profiles = self.profiles();
        profiles
            .next()
            .map_or("docs/guide.md", |profile| profile.samples.0)
    }

    fn writes(&self, text: &mut String) {
        let mut globs = self.gather(|profile| profile.source);
        globs.extend(self.gather(|profile| profile.tests));
        globs.extend(["docs/**", "README.md"]);
        let sample = self.sample();
        let build = self
            .profiles()
            .next()
            .map_or("LICENSE", |profile| profile.samples.1);
        let _ = write!(
            text,
            "
  - name: write-project-files
    match: {{ effect: [write, delete], path_glob: {} }}
    except: [{{ syscall: [merge.apply, merge.undo] }}]
    action: allow
    reason: source, tests and documentation are what an agent is here for
    constraints: {{ require_sandbox: process, max_file_size: 1MiB }}
    examples:
      match: [{{ syscall: fs.write, path: {sample} }}]
      not_match: [{{ syscall: fs.write, path: {build} }}]
",
            list(&globs)
        );
    }

    fn build_files(&self, text: &mut String) {
        let mut globs = self.gather(|profile| profile.build);
        globs.extend([
            "Dockerfile",
            "docker-compose*.yml",
            "Makefile",
            "justfile",
            ".github/**",
            ".gitlab-ci.yml",
            ".ci/**",
        ]);
        let _ = write!(
            text,
            "
  - name: build-and-ship-files
    match: {{ effect: [write, delete], path_glob: {} }}
    except: [{{ plugin: cli }}]
    action: require_review
    reason: changes what gets built or shipped
    examples:
      match: [{{ syscall: fs.write, plugin: agent, path: .github/workflows/ci.yml }}]
      not_match: [{{ syscall: fs.write, path: docs/guide.md }}]
",
            list(&globs)
        );
    }

    fn commands(&self, text: &mut String) {
        if self.languages.is_empty() {
            return;
        }
        text.push_str("\n# The programs tools may run; anything else is refused.\ncommands:\n");
        for (executable, subcommands) in self.profiles().flat_map(|profile| profile.commands) {
            let _ = writeln!(text, "  - executable: {executable}");
            if !subcommands.is_empty() {
                let _ = writeln!(text, "    subcommands: {}", list(subcommands));
            }
        }
    }

    fn phases(&self, text: &mut String) {
        if self.languages.is_empty() {
            return;
        }
        let _ = write!(
            text,
            "
# What counts as a test and what as source, for the test-first discipline.
phases:
  test_paths: {}
  source_paths: {}
",
            list(&self.gather(|profile| profile.tests)),
            list(&self.gather(|profile| profile.source)),
        );
    }
}

/// The denials of the built-in policy, under names of the starter's own: what an agent may not read
/// where there is no policy it may not read under this one either.
fn denials(text: &mut String) {
    let rules = airlock_policy::DEFAULT_POLICY.split("\n\n");
    for rule in rules.filter(|rule| rule.contains("\n    action: deny\n")) {
        let lines = rule.lines();
        text.push('\n');
        for line in lines.skip_while(|line| !line.starts_with("  - name: ")) {
            let _ = writeln!(
                text,
                "{}",
                line.replacen("name: default/", "name: keep-", 1)
            );
        }
    }
}

/// A YAML flow list of quoted strings.
fn list(items: &[&str]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("\"{item}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

const HEAD: &str = "\
# Airlock policy: what agents may do in this workspace ({fitted}).
# Whatever no rule allows is denied; any deny wins; the order of rules never matters.
#   airlock policy check            find mistakes
#   airlock policy explain ...      see what would be decided, and why
#   airlock policy update FILE      replace this file, after review
version: 1

rules:
";

const READS: &str = "  - name: read-the-workspace
    match: { effect: read, path_glob: \"**\" }
    action: allow
    reason: an agent works with what it can see
    examples:
      match: [{ syscall: fs.read, path: README.md }]
      not_match: [{ syscall: fs.read, path: /etc/shadow }]
";

const TAIL: &str = "
  - name: run-the-toolchain
    match: { syscall: [exec.run, test.run, git.status, git.diff, git.log], tier: [process, container] }
    action: allow
    reason: building and testing, in a sandbox and on a staged copy
    constraints: { require_sandbox: process, max_duration: 10m }
    examples:
      match: [{ syscall: test.run, tier: process }]
      not_match: [{ syscall: shell.run, tier: process }]

  - name: own-changes
    match: { plugin: cli, syscall: [fs.write, fs.patch, fs.move, fs.delete], path_glob: \"**\" }
    action: allow
    reason: what the person's own commands change lies in a stage until it is merged
    constraints: { require_sandbox: process }

  - name: commit-in-the-stage
    match: { syscall: git.commit }
    action: allow
    reason: a commit of what was approved waits in the stage until it is merged, which a person decides

  - name: ask-own-models
    match: { plugin: cli, syscall: model.chat }
    action: allow
    reason: the person configured whom to ask

  - name: steer-own-session
    match: { syscall: [\"session.*\", \"plan.*\", \"phase.*\"] }
    action: allow
    reason: a session may move through its own phases
";

const APPROVALS: &str = "
# A tool that a rule allows needs no second yes when a session first uses it (AG-01).
approvals:
  automatic: [AG-01]
";

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_policy::{Action, Policy, Rule};

    /// Every combination of languages.
    fn combinations() -> impl Iterator<Item = Vec<Language>> {
        let all = PROFILES.iter().map(|profile| profile.language);
        let all: Vec<Language> = all.collect();
        (0..1 << all.len()).map(move |bits: usize| {
            let chosen = all.iter().enumerate();
            let chosen = chosen.filter(|(i, _)| bits >> i & 1 == 1);
            chosen.map(|(_, language)| *language).collect()
        })
    }

    #[test]
    fn what_the_built_in_policy_denies_every_starter_denies() {
        let default = airlock_policy::DEFAULT_POLICY.as_bytes();
        let default = Policy::load("default", default).unwrap().policy;
        let denials = default.document().rules.iter();
        let denials: Vec<_> = denials.filter(|rule| rule.action == Action::Deny).collect();
        assert!(!denials.is_empty());
        for chosen in combinations() {
            let text = Starter::for_languages(&chosen).policy();
            let starter = Policy::load("starter", text.as_bytes()).unwrap().policy;
            for denial in &denials {
                let mut rules = starter.document().rules.iter();
                let same = |rule: &Rule| rule.action == denial.action && rule.when == denial.when;
                assert!(rules.any(same), "{chosen:?}: {}", denial.name);
            }
        }
    }

    #[test]
    fn every_combination_loads_without_warnings() {
        for chosen in combinations() {
            let text = Starter::for_languages(&chosen).policy();
            let loaded = Policy::load("starter", text.as_bytes())
                .unwrap_or_else(|error| panic!("{chosen:?}: {error}\n{text}"));
            assert!(
                loaded.warnings.is_empty(),
                "{chosen:?}: {:?}\n{text}",
                loaded.warnings
            );
        }
    }
}
