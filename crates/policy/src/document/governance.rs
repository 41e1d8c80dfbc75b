//! Sections about people, proof and memory: phases, approvals, merge, secrets, audit.

use crate::approval::Gate;
use crate::load::{
    any_line, boolean, choice, fields, glob, many, mcp_gate, name, number, policy_gate, schema,
    secret_pattern, size, span, span_within, table, word,
};
use airlock_core::{ByteSize, Mode, Span};
use std::sync::Arc;

fn texts(words: &[&str]) -> Vec<Arc<str>> {
    words.iter().map(|word| Arc::from(*word)).collect()
}

fields! {
    /// The test-first discipline.
    pub struct Phases in "`phases`" requires [] {
        /// Mode a session begins in.
        #[schemars(with = "schema::OneOf<Mode>")]
        mode: Mode = Mode::Strict => word::<Mode>;
        /// What counts as a test.
        #[schemars(with = "Vec<schema::Glob>")]
        test_paths: Vec<Arc<str>> = texts(&[
            "tests/**", "test/**", "**/tests/**", "**/__tests__/**", "**/*_test.*", "**/test_*.py",
            "**/*.test.*", "**/*.spec.*", "**/conftest.py",
        ]) => many(glob);
        /// What counts as source. A path that is also a test is a test.
        #[schemars(with = "Vec<schema::Glob>")]
        source_paths: Vec<Arc<str>> = texts(&[
            "src/**", "lib/**", "crates/**", "app/**", "pkg/**", "**/*.rs", "**/*.go", "**/*.py",
            "**/*.js", "**/*.mjs", "**/*.cjs", "**/*.jsx", "**/*.ts", "**/*.tsx",
        ]) => many(glob);
        /// Whether a session that names no mode is held to it as well, as MCP clients' are.
        every_session: bool = false => boolean;
        /// The command `test.run` runs, as words. Absent: what the project's files give away.
        test_command: Vec<Arc<str>> = Vec::new() => many(any_line);
        /// Which paths each kind of exemption may cover. Exemptions are always asked for.
        exemptions: Exemptions = Exemptions::default() => table;
        /// How far exploring may lower line coverage.
        coverage: Coverage = Coverage::default() => crate::load::coverage;
    }
}

fields! {
    /// Paths that each kind of exemption may cover.
    pub struct Exemptions in "`exemptions`" requires [] {
        /// Configuration of tools.
        #[schemars(with = "Vec<schema::Glob>")]
        config_change: Vec<Arc<str>> =
            texts(&["*.toml", "*.yaml", "*.yml", "*.json", "*.ini", "*.cfg"]) => many(glob);
        /// Types moved or renamed; the existing tests must pass unchanged.
        #[schemars(with = "Vec<schema::Glob>")]
        type_refactor: Vec<Arc<str>> = texts(&["**/types/**", "**/*.d.ts"]) => many(glob);
        /// Documentation.
        #[schemars(with = "Vec<schema::Glob>")]
        documentation: Vec<Arc<str>> = texts(&["docs/**", "**/*.md", "**/*.rst"]) => many(glob);
        /// Images, fonts and the like.
        #[schemars(with = "Vec<schema::Glob>")]
        asset_update: Vec<Arc<str>> = texts(&["assets/**", "static/**", "public/**"]) => many(glob);
    }
}

fields! {
    /// The coverage budget, in percentage points of line coverage.
    #[derive(Copy, Eq)]
    pub struct Coverage in "`coverage`" requires [] {
        /// A loss above this warns.
        warn_points: u32 = 2 => number(0, 100);
        /// A loss above this locks explore mode until a strict session regains it.
        lock_points: u32 = 5 => number(0, 100);
    }
}

choice! {
    /// What happens to a review when no person is there. Never an allow.
    #[derive(Default, serde::Deserialize)]
    pub enum Headless, "headless behaviour" {
        /// Wait: the question is a record that whoever follows the log is told of.
        Wait = "wait",
        /// Deny at once.
        #[default]
        Deny = "deny",
    }
}

fields! {
    /// Who answers a review, and how.
    pub struct Approvals in "`approvals`" requires [] {
        /// Gates policy may answer by itself: of AG-01, AG-03 and AG-04.
        automatic: Vec<Gate> = Vec::new() => many(policy_gate);
        /// Channels that are a person's, beside the terminal and the dashboard. Never the agent's own.
        #[schemars(with = "Vec<schema::Name>")]
        channels: Vec<Arc<str>> = Vec::new() => many(name);
        /// Gates that may be answered through an MCP client: of AG-01 and AG-03.
        mcp_gates: Vec<Gate> = Vec::new() => many(mcp_gate);
        /// What happens when no person is there.
        headless: Headless = Headless::Deny => word::<Headless>;
        /// Writes to these need a person (AG-04), beyond the built-in ones.
        #[schemars(with = "Vec<schema::Glob>")]
        sensitive_paths: Vec<Arc<str>> = Vec::new() => many(glob);
        /// An answer older than this is asked again.
        #[schemars(with = "schema::Time")]
        expires_after: Span = Span::from_secs(3_600) => span;
        /// Whether approving needs a passphrase.
        require_passphrase: bool = false => boolean;
    }
}

fields! {
    /// When a stage may be merged without a person.
    #[derive(Copy, Eq)]
    pub struct Merge in "`merge`" requires [] {
        /// Whether a merge may go unreviewed at all. It then still needs passing tests, no
        /// sensitive path, no conflict and no flagged content.
        automatic: bool = false => boolean;
        /// Most changed lines of an unreviewed merge.
        max_lines: u32 = 500 => number(0, 1_000_000);
        /// How long what is needed for an undo is kept.
        #[schemars(with = "schema::Time")]
        keep_undo: Span = Span::from_secs(30 * 24 * 3_600) => span;
    }
}

fields! {
    /// What else counts as a secret, beyond the built-in rules and the stored values.
    pub struct Secrets in "`secrets`" requires [] {
        /// The project's own patterns.
        patterns: Vec<SecretPattern> = Vec::new() => many(table);
    }
}

fields! {
    /// A pattern for a kind of secret.
    pub struct SecretPattern in "a secret pattern" requires ["name", "pattern"] {
        /// Name, shown in the placeholder that replaces the secret.
        #[schemars(with = "schema::Name")]
        name: Arc<str> = Arc::from("") => name;
        /// Regular expression for the secret itself.
        #[schemars(with = "schema::Regex")]
        pattern: Arc<str> = Arc::from("") => secret_pattern;
    }
}

choice! {
    /// What happens to a result that holds what may be instructions.
    #[derive(Default, serde::Deserialize)]
    pub enum OnFlag, "treatment of flagged results" {
        /// It is given out, wrapped as data with its origin, and its flags with it.
        #[default]
        Mark = "mark",
        /// It is withheld until a person has seen it.
        Review = "review",
        /// It is withheld.
        Block = "block",
    }
}

fields! {
    /// How results are sanitised.
    #[derive(Copy, Eq)]
    pub struct Sanitise in "`sanitise`" requires [] {
        /// What happens to a result that holds what may be instructions.
        flagged: OnFlag = OnFlag::Mark => word::<OnFlag>;
    }
}

fields! {
    /// How the audit log is kept.
    #[derive(Copy, Eq)]
    pub struct Audit in "`audit`" requires [] {
        /// Days an archive is kept.
        retention_days: u32 = 90 => number(1, 36_500);
        /// Most space; above it the oldest archive goes.
        #[schemars(with = "schema::Size")]
        max_size: ByteSize = ByteSize::from_bytes(1 << 30) => size;
        /// How much time one archive covers: 1h to 8784h.
        #[schemars(with = "schema::Time")]
        segment: Span = Span::from_secs(24 * 3_600)
            => span_within(Span::from_secs(3_600), Span::from_secs(8_784 * 3_600));
        /// Records between signed checkpoints.
        checkpoint_every: u32 = 1_000 => number(1, 1_000_000);
        /// Whether a broken chain stops the start.
        stop_on_break: bool = false => boolean;
        /// Whether full contents are kept, by reference, beside the summaries.
        keep_content: bool = false => boolean;
        /// Recent syscalls a policy update is tried on.
        replay: u32 = 100 => number(0, 100_000);
    }
}
