//! The sandbox templates and how a policy makes them narrower.

use crate::load::{
    boolean, choice, fields, many, name, number, schema, size, some, span, thousandths, word,
};
use airlock_core::{ByteSize, Span, Tier};
use std::sync::Arc;

choice! {
    /// What a sandbox can reach.
    pub enum Reach, "network" {
        /// Nothing: an empty network namespace.
        None = "none",
        /// Only the proxy, and through it what rules and `network.whitelist` allow.
        Restricted = "restricted",
    }
}

choice! {
    /// A limit of a sandbox.
    pub enum Limit, "limit" {
        /// Memory of the whole tree of processes.
        Memory = "memory",
        /// Processors.
        Cpus = "cpus",
        /// Processes and threads.
        Pids = "pids",
        /// Wall time.
        Duration = "duration",
        /// Output.
        Output = "output",
    }
}

/// A tier that isolates foreign code: the only ones a policy can ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeastTier(Tier);

impl crate::load::Word for LeastTier {
    const KIND: &'static str = "sandbox tier";
    const WORDS: &'static [&'static str] = &["process", "container"];

    fn find(word: &str) -> Option<Self> {
        Self::WORDS
            .contains(&word)
            .then(|| word.parse().ok().map(Self))
            .flatten()
    }
}

impl From<LeastTier> for Tier {
    fn from(tier: LeastTier) -> Self {
        tier.0
    }
}

/// A built-in sandbox template: the most a sandbox of that kind can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Name.
    pub name: &'static str,
    /// What it can reach.
    pub network: Reach,
    /// Most memory.
    pub memory: ByteSize,
    /// Most processors, in thousandths.
    pub cpus: u32,
    /// Most processes and threads.
    pub pids: u32,
    /// Longest run, or longest call of a worker.
    pub duration: Span,
}

const fn row(
    name: &'static str,
    network: Reach,
    mebibytes: u64,
    cpus: u32,
    pids: u32,
    millis: u64,
) -> Template {
    Template {
        name,
        network,
        memory: ByteSize::from_bytes(mebibytes << 20),
        cpus,
        pids,
        duration: Span::from_millis(millis),
    }
}

/// Every sandbox template.
pub const TEMPLATES: &[Template] = &[
    row("ai-provider", Reach::Restricted, 256, 500, 10, 120_000),
    row("code-executor", Reach::None, 1024, 1_000, 100, 300_000),
    row("policy-sandbox", Reach::None, 128, 250, 5, 100),
    row(
        "integration-test",
        Reach::Restricted,
        1024,
        1_000,
        100,
        300_000,
    ),
];

impl Template {
    /// The template of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TEMPLATES.iter().find(|template| template.name == name)
    }
}

impl crate::load::Word for Template {
    const KIND: &'static str = "sandbox template";
    const WORDS: &'static [&'static str] = &[
        "ai-provider",
        "code-executor",
        "policy-sandbox",
        "integration-test",
    ];

    fn find(word: &str) -> Option<Self> {
        Self::find(word).copied()
    }
}

fields! {
    /// A sandbox template made narrower. A value above the template's own is an error.
    pub struct Narrowing in "a template" requires [] {
        /// What it can reach; `none` takes the network away.
        network: Option<Reach> = None => some(word::<Reach>);
        /// Groups of `network.whitelist` it can reach. Absent: all of them.
        #[schemars(with = "Option<Vec<schema::Name>>")]
        whitelist: Option<Vec<Arc<str>>> = None => some(many(name));
        /// Most memory.
        #[schemars(with = "Option<schema::Size>")]
        memory: Option<ByteSize> = None => some(size);
        /// Most processors, in thousandths; written as a number such as `0.5`.
        #[schemars(with = "Option<schema::Cpus>")]
        cpus: Option<u32> = None => some(thousandths);
        /// Most processes and threads.
        pids: Option<u32> = None => some(number(1, 100_000));
        /// Longest run.
        #[schemars(with = "Option<schema::Time>")]
        duration: Option<Span> = None => some(span);
        /// Most output.
        #[schemars(with = "Option<schema::Size>")]
        output: Option<ByteSize> = None => some(size);
        /// Whether what runs in it can ask the kernel, by a socket of its own.
        socket: bool = true => boolean;
        /// Limits the operating system must enforce; where it cannot, nothing runs. Others may be
        /// supervised instead.
        must_enforce: Vec<Limit> = vec![Limit::Duration, Limit::Output] => many(word::<Limit>);
    }
}

impl Narrowing {
    /// The fields whose value lies above what `template` gives.
    pub(crate) fn wider_than(&self, template: &Template) -> Vec<&'static str> {
        [
            ("network", self.network > Some(template.network)),
            ("memory", self.memory > Some(template.memory)),
            ("cpus", self.cpus > Some(template.cpus)),
            ("pids", self.pids > Some(template.pids)),
            ("duration", self.duration > Some(template.duration)),
        ]
        .into_iter()
        .filter_map(|(field, wider)| wider.then_some(field))
        .collect()
    }
}
