//! A fixed sample log that uses every field, for tests that need whole exports.

use airlock_audit::{
    CHECKPOINT_METADATA, DecisionSummary, Entry, EventType, ExportFormat, ExportHeader, Exporter,
    Head, LogId, Sealed, SignedCheckpoint, SigningKey, Stage, seal,
};
use airlock_core::{
    Caller, Effect, EffectSet, Mode, Peer, Phase, Request, RequestPath, Syscall, Tier, Timestamp,
};

pub(crate) const LOG: LogId = LogId::from_bytes(*b"sample log, v1..");

/// 2026-01-31T12:00:00Z, in microseconds.
pub(crate) const NOON: i64 = 1_769_860_800_000_000;

pub(crate) fn key() -> SigningKey {
    SigningKey::from_secret(&[7; 32])
}

pub(crate) fn other_key() -> SigningKey {
    SigningKey::from_secret(&[8; 32])
}

pub(crate) fn at(seq: u64) -> Timestamp {
    Timestamp::from_micros(NOON + i64::try_from(seq).unwrap() * 1_000_003)
}

fn caller(number: u64) -> Caller {
    let odd = number % 2 == 1;
    Caller {
        tenant: "local".parse().unwrap(),
        user: "ada@example.org".parse().unwrap(),
        workspace: "ws-1".parse().unwrap(),
        session: odd.then(|| format!("s-{number}").parse().unwrap()),
        plugin: "agent".parse().unwrap(),
        tags: if odd {
            vec!["third_party".parse().unwrap(), "beta".parse().unwrap()]
        } else {
            Vec::new()
        },
        peer: odd.then_some(Peer {
            pid: 4_321,
            uid: 1_000,
            started: u64::MAX - number,
        }),
        sandbox: odd.then(|| "box-9".parse().unwrap()),
        mode: odd.then_some(Mode::Strict),
        phase: odd.then_some(Phase::TestWriting),
    }
}

fn request(number: u64) -> Request {
    let mut request = Request::new(
        Syscall::parse("exec.run").unwrap(),
        Tier::Process,
        caller(number),
    );
    request.effects = EffectSet::of(&[Effect::Read, Effect::Execute]);
    request.paths = vec![
        RequestPath::parse("src/main.rs", "/work").unwrap(),
        RequestPath::parse("/etc/hosts", "/work").unwrap(),
        RequestPath::parse("/", "/work").unwrap(),
    ];
    request.host = Some("example.org".into());
    request.port = Some(443);
    request.command = vec!["cargo".into(), "test".into(), "".into(), "-q \"ü\"".into()];
    request.tool = Some("tickets.search".into());
    request.secret = Some("api-token".into());
    request.template = Some("rust".into());
    request.file_size = Some(1 << 60);
    request
}

/// Kinds of events that the vectors were written with. What came later stands behind them.
const KINDS: usize = 27;

/// An entry of the kind `number` stands for; together they use every field and odd text.
pub(crate) fn entry(number: u64) -> Entry {
    let mut events = EventType::ALL
        .iter()
        .filter(|event| **event != EventType::Checkpoint);
    let kind = usize::try_from(number).unwrap() % KINDS;
    let event = *events.nth(kind).unwrap();
    let stage = [Stage::Attempt, Stage::Outcome, Stage::Note][usize::try_from(number).unwrap() % 3];
    let mut entry = Entry::new(at(number), event, stage);
    if number.is_multiple_of(3) {
        return entry;
    }
    entry.action = Some(format!("act-{number}").parse().unwrap());
    entry.syscall = Some("exec.run".to_owned());
    entry.tool = Some("exec".to_owned());
    entry.caller = Some(caller(number));
    entry.decision = Some(DecisionSummary {
        verdict: "allow".to_owned(),
        rules: vec!["workspace/tests-may-run".to_owned(), String::new()],
        generation: "9f".repeat(32),
    });
    entry.token = Some("tok-1".to_owned());
    entry.reason = Some("quote \" backslash \\ slash / tab \t nul \0 escape \u{1b}[2J".to_owned());
    entry.input = Some(
        "line one\nline two\r\u{8}\u{c} délétère \u{2028} 🔒 \u{7f} \u{9b}2J \u{202e}".to_owned(),
    );
    entry.output = Some(String::new());
    entry.duration = Some(u64::MAX);
    entry.sandbox = Some("box-1".parse().unwrap());
    if number % 2 == 1 {
        entry.request = Some(Box::new(request(number)));
    }
    entry.metadata = [("b", "2"), ("a", "1"), ("", ""), ("ä", "\u{1}")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    entry
}

/// A checkpoint record about `head`, as a kernel writes it.
pub(crate) fn checkpoint_entry(signed: &SignedCheckpoint) -> Entry {
    let time = signed.checkpoint().time;
    let mut entry = Entry::new(time, EventType::Checkpoint, Stage::Note);
    entry
        .metadata
        .insert(CHECKPOINT_METADATA.to_owned(), signed.to_string());
    entry
}

pub(crate) fn sign(head: Head) -> SignedCheckpoint {
    key().sign(LOG, head, at(head.seq)).unwrap()
}

/// A log of `count` records; record 11 is a checkpoint over record 10, if there are that many.
pub(crate) fn log(count: u64) -> Vec<Sealed> {
    let mut head = Head::genesis(&LOG);
    (1..=count)
        .map(|seq| {
            let entry = match seq {
                11 => checkpoint_entry(&sign(head)),
                _ => entry(seq),
            };
            let sealed = seal(&head, &entry).unwrap();
            head = sealed.head();
            sealed
        })
        .collect()
}

pub(crate) fn header(start: Head, last: u64) -> ExportHeader {
    ExportHeader {
        log: LOG,
        start,
        last,
        key: Some(key().public()),
    }
}

/// The export of `records` after `start`, with a checkpoint at the end if `signed`.
pub(crate) fn export(
    start: Head,
    records: &[Sealed],
    signed: Option<&SignedCheckpoint>,
) -> Vec<u8> {
    let last = records.last().map_or(start, Sealed::head);
    let header = header(start, last.seq);
    let mut exporter = Exporter::new(Vec::new(), ExportFormat::Jsonl, header).unwrap();
    for record in records {
        exporter.record(record.stored()).unwrap();
    }
    if let Some(signed) = signed {
        exporter.checkpoint(signed).unwrap();
    }
    exporter.finish().unwrap()
}
