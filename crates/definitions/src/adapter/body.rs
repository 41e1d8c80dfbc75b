//! L2: everything that is needed to run an adapter.

use super::arguments::Interface;
use super::how::How;
use super::output::Output;
use super::{Header, Kind, Summary};
use airlock_core::{ByteSize, Span};
use airlock_yaml::{Mapping, Names, Node, Problems, code, shown};

/// An adapter that can be run.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// L0.
    pub header: Header,
    /// L1.
    pub summary: Summary,
    /// What callers give.
    pub interface: Interface,
    /// How it runs.
    pub how: How,
    /// How output becomes a value.
    pub output: Output,
    /// What ends mean.
    pub errors: Vec<ErrorCase>,
    /// What it needs less of than a program is given.
    pub sandbox: Sandbox,
    /// When it is tried again.
    pub retry: Option<Retry>,
    /// The adapter to use when this one fails.
    pub fallback: Option<String>,
}

/// What an end means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCase {
    /// The exit code of a program, or the status of an answer.
    pub end: u16,
    /// A word for it.
    pub code: String,
    /// One line on it.
    pub summary: String,
    /// Whether it is no error: the output counts.
    pub ok: bool,
}

/// Limits; what is absent is the contract's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Longest run.
    pub timeout: Option<Span>,
    /// Most memory.
    pub memory: Option<ByteSize>,
    /// Most processors.
    pub cpus: Option<u32>,
    /// Most processes besides itself.
    pub child_processes: Option<u32>,
}

/// When an adapter is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The codes after which it is.
    pub on: Vec<String>,
    /// How often it is tried in all.
    pub attempts: u32,
    /// How long to wait before the second time; twice that before the third, and so on.
    pub backoff: Span,
}

/// Codes the kernel itself gives to failures that may pass.
const PASSING: &[&str] = &[
    "timed_out",
    "out_of_memory",
    "too_many_processes",
    "too_much_output",
    "stage_busy",
    "output_invalid",
    "tool_unavailable",
    "unreachable",
    "no_answer",
];
/// The most of each limit in the execution contract.
const LONGEST: Span = Span::from_secs(600);
const LARGEST: ByteSize = ByteSize::from_bytes(4 << 30);

pub(super) fn parse(
    header: Header,
    summary: Summary,
    node: &Node,
    problems: &mut Problems,
) -> Option<Adapter> {
    let mut fields = Mapping::of(node, "an adapter's third document", problems)?;
    let interface = fields
        .need("interface", problems)
        .and_then(|node| Interface::parse(node, problems));
    let how = fields.need(header.kind.as_str(), problems);
    let how = how
        .zip(interface.as_ref())
        .and_then(|(node, interface)| How::parse(header.kind, node, interface, problems));
    let output = fields.get("output").map_or_else(
        || Some(Output::default()),
        |node| Output::parse(node, problems),
    );
    let errors = fields.get("errors").map_or_else(
        || Some(Vec::new()),
        |node| errors(header.kind, node, problems),
    );
    let sandbox = fields.get("sandbox").map_or_else(
        || Some(Sandbox::default()),
        |node| Sandbox::parse(node, problems),
    );
    let retry = fields.get("retry");
    let fallback = fields
        .get("fallback")
        .and_then(|node| fallback(node, &header.id, problems));
    fields.close(problems);
    let (interface, errors) = (interface?, errors?);
    Some(Adapter {
        retry: retry
            .and_then(|node| Retry::parse(header.kind, node, (&interface, &errors), problems)),
        how: how?,
        output: output?,
        sandbox: sandbox?,
        header,
        summary,
        interface,
        errors,
        fallback,
    })
}

fn fallback(node: &Node, own: &str, problems: &mut Problems) -> Option<String> {
    let id = node.name(Names::Id, problems)?;
    if id == own {
        let what = "an adapter cannot be its own fallback";
        problems.error(code::REFERENCE, node.spot, what, "name another adapter");
        return None;
    }
    Some(id)
}

/// How ends are told apart: the field, what can stand there, the word for one without a case.
fn ends(kind: Kind) -> (&'static str, std::ops::RangeInclusive<i64>, &'static str) {
    match kind {
        Kind::Cli | Kind::Mcp => ("exit", 1..=255, "exit_"),
        Kind::Api => ("status", 300..=599, "http_"),
    }
}

fn errors(kind: Kind, node: &Node, problems: &mut Problems) -> Option<Vec<ErrorCase>> {
    let mut cases: Vec<ErrorCase> = Vec::new();
    for node in node.list(64, problems)? {
        let Some(case) = ErrorCase::parse(kind, node, problems) else {
            continue;
        };
        if cases.iter().any(|known| known.end == case.end) {
            let what = format!("{} {} is there twice", ends(kind).0, case.end);
            problems.error(code::DUPLICATE, node.spot, what, "keep one of them");
        }
        cases.push(case);
    }
    Some(cases)
}

impl ErrorCase {
    fn parse(kind: Kind, node: &Node, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "an error", problems)?;
        let (name, range, _) = ends(kind);
        let end = fields
            .need(name, problems)
            .and_then(|node| node.number(range, problems));
        let code = fields
            .need("code", problems)
            .and_then(|node| node.name(Names::Code, problems));
        let summary = fields
            .need("summary", problems)
            .and_then(|node| node.line(problems));
        let ok = fields
            .get("ok")
            .map_or(Some(false), |node| node.truth(problems));
        fields.close(problems);
        Some(Self {
            end: u16::try_from(end?).ok()?,
            code: code?,
            summary: summary?,
            ok: ok?,
        })
    }
}

impl Sandbox {
    fn parse(node: &Node, problems: &mut Problems) -> Option<Self> {
        let mut fields = Mapping::of(node, "`sandbox`", problems)?;
        let (second, least) = (Span::from_secs(1), ByteSize::from_bytes(64 << 20));
        let timeout = fields
            .get("timeout")
            .and_then(|node| node.unit(&second, &LONGEST, problems));
        let memory = fields
            .get("memory")
            .and_then(|node| node.unit(&least, &LARGEST, problems));
        let mut count = |key, range, problems: &mut Problems| {
            let number = fields
                .get(key)
                .and_then(|node| node.number(range, problems));
            number.and_then(|number| u32::try_from(number).ok())
        };
        let cpus = count("cpus", 1..=4, problems);
        let child_processes = count("child_processes", 0..=100, problems);
        fields.close_with(problems, |key| {
            let widens = ["network", "template", "allow_read", "allow_write", "writes", "reads", "inherit", "tier", "privileged", "secrets", "capabilities"];
            widens.contains(&key).then_some((
                "an adapter cannot widen its sandbox",
                "policy alone grants more; an adapter has `timeout`, `memory`, `cpus` and `child_processes`",
            ))
        });
        Some(Self {
            timeout,
            memory,
            cpus,
            child_processes,
        })
    }
}

impl Retry {
    fn parse(
        kind: Kind,
        node: &Node,
        (interface, errors): (&Interface, &[ErrorCase]),
        problems: &mut Problems,
    ) -> Option<Self> {
        let mut fields = Mapping::of(node, "`retry`", problems)?;
        let (_, range, prefix) = ends(kind);
        let nodes = fields
            .need("on", problems)
            .and_then(|node| node.list(32, problems));
        let mut on = Vec::new();
        for node in nodes.unwrap_or_default() {
            let Some(word) = node.text(problems) else {
                continue;
            };
            let end = word
                .strip_prefix(prefix)
                .is_some_and(|code| code.parse().is_ok_and(|code| range.contains(&code)));
            let mut known: Vec<&str> = errors
                .iter()
                .filter(|case| !case.ok)
                .map(|case| case.code.as_str())
                .collect();
            known.extend(PASSING);
            if end || known.contains(&word) {
                on.push(word.to_owned());
            } else {
                problems.unknown(code::REFERENCE, node.spot, ("code", word), &known);
            }
        }
        let attempts = fields
            .get("attempts")
            .map_or(Some(2), |node| node.number(2..=5, problems));
        let (least, most) = (Span::from_millis(10), Span::from_secs(30));
        let backoff = fields
            .get("backoff")
            .map_or(Some(Span::from_millis(200)), |node| {
                node.unit(&least, &most, problems)
            });
        fields.close(problems);
        if !interface.idempotent {
            let what = "what may change something twice is not tried again";
            let fix =
                "say `interface: { idempotent: true }` if running it twice is the same as once";
            problems.error(code::VALUE, node.spot, what, fix);
        }
        Some(Self {
            on,
            attempts: u32::try_from(attempts?).ok()?,
            backoff: backoff?,
        })
    }
}

impl Adapter {
    /// What exit code `exit` means: a word and a line for an error, nothing if the output counts.
    pub fn ended(&self, exit: u8) -> Option<(String, String)> {
        let name = shown(&self.header.name);
        self.end(exit == 0, exit.into(), || {
            format!("{name} ended with code {exit}")
        })
    }

    /// The same for the status of an answer.
    pub fn answered(&self, status: u16) -> Option<(String, String)> {
        let name = shown(&self.header.name);
        let good = (200..300).contains(&status);
        self.end(good, status, || {
            format!("{name} answered with status {status}")
        })
    }

    fn end(
        &self,
        good: bool,
        end: u16,
        unnamed: impl FnOnce() -> String,
    ) -> Option<(String, String)> {
        let case = self.errors.iter().find(|case| case.end == end);
        match case {
            _ if good => None,
            Some(case) => (!case.ok).then(|| (case.code.clone(), case.summary.clone())),
            None => {
                let (_, _, prefix) = ends(self.header.kind);
                Some((format!("{prefix}{end}"), unnamed()))
            }
        }
    }
}
