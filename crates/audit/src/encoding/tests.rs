use super::*;
use crate::{
    Depth, EventType, ExportFormat, ExportHeader, Exporter, Head, LogId, Stage, Trust, Verifier,
    seal, verify_export,
};
use airlock_core::{Effect, EffectSet, Mode, Peer, Phase, Syscall, Tier, Timestamp};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::sync::Arc;

/// Any text, with the characters that escapes and spellings trip over more often than chance.
///
/// Boxed, as the others below: unboxed strategies of this size overflow a test thread's stack.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        Just(String::new()),
        "[\\x00-\\x1f\"\\\\/\\x7f\u{80}\u{2028}\u{10ffff}a]{1,6}",
        any::<String>(),
    ]
    .boxed()
}

fn shared() -> BoxedStrategy<Arc<str>> {
    text().prop_map(Arc::from).boxed()
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    "[a-z0-9]{1,8}".prop_map(|text| text.parse().unwrap())
}

fn path() -> impl Strategy<Value = RequestPath> {
    prop_oneof![
        Just("."),
        Just("/"),
        Just("a/b"),
        Just("/etc/shadow"),
        Just("\u{1b}[2J"),
        Just("ü \"q\"/x"),
    ]
    .prop_map(|text| parse_path(text).unwrap())
}

prop_compose! {
    fn caller()(
        (tenant, user, workspace, session, plugin) in (id(), id(), id(), of(id()), id()),
        tags in vec(id(), 0..3),
        peer in of(any::<(u32, u32, u64)>()),
        sandbox in of(id()),
        mode in of(select(Mode::ALL)),
        phase in of(select(Phase::ALL)),
    ) -> Caller {
        let peer = peer.map(|(pid, uid, started)| Peer { pid, uid, started });
        Caller { tenant, user, workspace, session, plugin, tags, peer, sandbox, mode, phase }
    }
}

prop_compose! {
    fn request()(
        syscall in select(Syscall::all().collect::<Vec<_>>()),
        effects in vec(select(Effect::ALL), 0..4),
        paths in vec(path(), 0..3),
        (host, port) in (of(shared()), of(any::<u16>())),
        command in vec(shared(), 0..3),
        (tool, secret, template) in (of(shared()), of(shared()), of(shared())),
        tier in select(Tier::ALL),
        file_size in of(any::<u64>()),
        caller in caller().boxed(),
    ) -> Request {
        let effects = EffectSet::of(&effects);
        let arguments = serde_json::Value::Null;
        Request {
            syscall, effects, paths, host, port, command, tool, secret, tier, template,
            file_size, arguments, caller,
        }
    }
}

prop_compose! {
    fn decision()(
        verdict in text(),
        rules in vec(text(), 0..3),
        generation in text(),
    ) -> DecisionSummary {
        DecisionSummary { verdict, rules, generation }
    }
}

fn events() -> Vec<EventType> {
    let all = EventType::ALL.iter().copied();
    all.filter(|event| *event != EventType::Checkpoint)
        .collect()
}

prop_compose! {
    fn entry()(
        time in 0..253_370_764_800_000_000_i64,
        event in select(events()),
        stage in select(vec![Stage::Attempt, Stage::Outcome, Stage::Note]),
        (action, syscall, tool) in (of(id()), of(text()), of(text())),
        caller in of(caller().boxed()),
        decision in of(decision().boxed()),
        (token, reason, input, output) in (of(text()), of(text()), of(text()), of(text())),
        duration in of(any::<u64>()),
        sandbox in of(id()),
        request in of(request().prop_map(Box::new).boxed()),
        metadata in btree_map(text(), text(), 0..4),
    ) -> Entry {
        let time = Timestamp::from_micros(time);
        Entry {
            time, event, stage, action, syscall, tool, caller, decision, token, reason, input,
            output, duration, sandbox, request, metadata,
        }
    }
}

prop_compose! {
    fn alike()(
        fields in vec(of(select(vec!["", "a", "aa"])), 4),
        metadata in btree_map(select(vec!["", "a", "aa"]), select(vec!["", "a", "aa"]), 0..3),
    ) -> Entry {
        let mut fields = fields.into_iter().map(|text| text.map(str::to_owned));
        let mut entry = small();
        entry.syscall = fields.next().unwrap();
        entry.tool = fields.next().unwrap();
        entry.token = fields.next().unwrap();
        entry.reason = fields.next().unwrap();
        let metadata = metadata.into_iter();
        entry.metadata = metadata.map(|(name, value)| (name.into(), value.into())).collect();
        entry
    }
}

proptest! {
    #[test]
    fn an_entry_reads_back_as_it_was_written(entry in entry().boxed()) {
        let body = encode(&entry).unwrap();
        prop_assert_eq!(event_of(&body), Some(entry.event));
        prop_assert_eq!(decode(&body), Ok(entry));
    }

    #[test]
    fn different_entries_never_share_an_encoding(first in entry().boxed(), second in entry().boxed()) {
        prop_assert_eq!(first == second, encode(&first) == encode(&second));
    }

    /// Texts made of one letter, so that a boundary between fields that moved would show.
    #[test]
    fn text_never_slips_from_one_field_into_the_next(first in alike(), second in alike()) {
        prop_assert_eq!(first == second, encode(&first) == encode(&second));
    }

    #[test]
    fn what_decodes_is_the_one_encoding_of_its_entry(
        entry in entry().boxed(),
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in of(any::<prop::sample::Index>()),
    ) {
        let mut body = encode(&entry).unwrap();
        for (at, value) in edits {
            let at = at.index(body.len());
            body[at] = value;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        match decode(&body) {
            Ok(entry) => prop_assert_eq!(encode(&entry).unwrap(), body),
            Err(error) => prop_assert!(error.offset <= body.len()),
        }
    }

    #[test]
    fn the_checker_says_what_the_decoder_says(
        entry in entry().boxed(),
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in of(any::<prop::sample::Index>()),
    ) {
        let mut body = encode(&entry).unwrap();
        // It knows the callers already: what it remembers must not hide an edit.
        let mut checker = Checker::default();
        prop_assert_eq!(checker.check(&body), Ok(()));
        for (at, value) in edits {
            let at = at.index(body.len());
            body[at] = value;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        let decoded = decode(&body).map(drop);
        prop_assert_eq!(checker.check(&body), decoded);
        prop_assert_eq!(Checker::default().check(&body), decoded);
    }

    #[test]
    fn no_bytes_panic_the_decoder(body in vec(any::<u8>(), 0..256)) {
        if let Ok(entry) = decode(&body) {
            prop_assert_eq!(encode(&entry).unwrap(), body);
        }
    }

    #[test]
    fn an_entry_survives_json_in_one_spelling(entry in entry().boxed()) {
        let json = serde_json::to_string(&entry).unwrap();
        let again: Entry = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(serde_json::to_string(&again).unwrap(), json);
        prop_assert_eq!(again, entry);
    }
}

#[test]
fn two_thousand_random_records_survive_sealing_exporting_and_verifying() {
    let mut runner = TestRunner::deterministic();
    let strategy = entry().boxed();
    let log = LogId::from_bytes([3; 16]);
    let start = Head::genesis(&log);
    let mut head = start;
    let mut verifier = Verifier::new(log, start, Depth::Entries, Trust::default()).unwrap();
    let (last, key) = (2_000, None);
    let header = ExportHeader {
        log,
        start,
        last,
        key,
    };
    let mut exporter = Exporter::new(Vec::new(), ExportFormat::Jsonl, header).unwrap();
    for _ in 0..2_000 {
        let entry = strategy.new_tree(&mut runner).unwrap().current();
        let sealed = seal(&head, &entry).unwrap();
        assert_eq!(sealed.entry().unwrap(), entry);
        head = sealed.head();
        verifier.push(sealed.stored()).unwrap();
        exporter.record(sealed.stored()).unwrap();
    }
    let export = exporter.finish().unwrap();
    let (_, whole) = verify_export(export.as_slice(), Trust::default()).unwrap();
    assert_eq!(whole, verifier.finish().unwrap());
    assert_eq!((whole.records, whole.head), (2_000, head));
}

fn small() -> Entry {
    Entry::new(Timestamp::from_micros(0), EventType::Syscall, Stage::Note)
}

/// Offsets in the encoding of [`small`]: time 0..8, event 8..10, stage 10, then twelve presence
/// bytes, then the number of metadata items.
#[test]
fn every_kind_of_damage_is_refused_where_it_is() {
    use DecodeProblem as P;
    let body = encode(&small()).unwrap();
    assert_eq!(body.len(), 8 + 2 + 1 + 12 + 4);
    let edited = |at: usize, bytes: &[u8]| {
        let mut body = body.clone();
        body.splice(
            at..(at + bytes.len()).min(body.len()),
            bytes.iter().copied(),
        );
        body
    };
    let text = |text: &[u8]| [&[1, 0, 0, 0, u8::try_from(text.len()).unwrap()], text].concat();
    for (case, body, offset, problem) in [
        ("nothing", Vec::new(), 0, P::Short),
        ("cut off", body[..20].to_vec(), 20, P::Short),
        ("one byte more", [&body[..], &[0]].concat(), 27, P::Trailing),
        ("time before 1970", edited(0, &[0xff]), 0, P::Invalid),
        ("unknown event", edited(8, &[0xff, 0xff]), 8, P::Unknown),
        ("stage 0", edited(10, &[0]), 10, P::Unknown),
        ("presence 2", edited(11, &[2]), 11, P::Presence),
        ("an empty id", edited(11, &text(b"")), 12, P::Invalid),
        (
            "a huge length",
            edited(12, &[1, 0xff, 0xff, 0xff, 0xff]),
            17,
            P::Short,
        ),
        ("not UTF-8", edited(12, &text(&[0xff])), 17, P::NotText),
        ("a huge count", edited(23, &[0xff; 4]), 27, P::Short),
    ] {
        assert_eq!(
            decode(&body),
            Err(DecodeError { offset, problem }),
            "{case}"
        );
    }
}

#[test]
fn the_checker_forgets_callers_and_finds_bytes_behind_one() {
    let mut checker = Checker::default();
    let mut runner = TestRunner::deterministic();
    let strategy = entry().boxed();
    for _ in 0..200 {
        let body = encode(&strategy.new_tree(&mut runner).unwrap().current()).unwrap();
        assert_eq!(checker.check(&body), Ok(()));
        // One more byte in each block that could be a caller's, and at the end.
        for at in 0..body.len() {
            let mut longer = body.clone();
            longer.insert(at, 1);
            assert_eq!(checker.check(&longer), decode(&longer).map(drop), "{at}");
        }
    }
}

#[test]
fn metadata_out_of_order_or_repeated_is_refused() {
    let mut entry = small();
    entry.metadata = [("a".into(), String::new()), ("b".into(), String::new())].into();
    let body = encode(&entry).unwrap();
    for (first, second) in [(b'b', b'a'), (b'a', b'a')] {
        let mut body = body.clone();
        body[31] = first;
        body[40] = second;
        let problem = DecodeProblem::Order;
        assert_eq!(
            decode(&body),
            Err(DecodeError {
                offset: 36,
                problem
            })
        );
    }
}

#[test]
fn a_block_must_use_exactly_the_bytes_it_claims() {
    let mut entry = small();
    entry.decision = Some(DecisionSummary {
        verdict: "deny".to_owned(),
        rules: Vec::new(),
        generation: String::new(),
    });
    let body = encode(&entry).unwrap();
    let length = 11 + 4 + 1 + 3;
    assert_eq!(body[length], 16);
    for (claimed, problem) in [(15, DecodeProblem::Short), (17, DecodeProblem::Trailing)] {
        let mut body = body.clone();
        body[length] = claimed;
        assert_eq!(decode(&body).unwrap_err().problem, problem, "{claimed}");
    }
}

#[test]
fn a_record_no_reader_would_take_is_not_sealed() {
    let head = Head::genesis(&LogId::from_bytes([0; 16]));
    let mut large = small();
    large.input = Some("x".repeat(MAX_BODY));
    assert!(matches!(
        seal(&head, &large),
        Err(SealError::TooLarge { .. })
    ));
    let mut early = small();
    early.time = Timestamp::from_micros(-1);
    assert_eq!(seal(&head, &early), Err(SealError::Time { micros: -1 }));
    let last = Head {
        seq: i64::MAX as u64,
        ..head
    };
    assert_eq!(seal(&last, &small()), Err(SealError::Exhausted));
}

/// Such a value can be built by hand; its text would read back as another path.
#[test]
fn a_path_that_would_read_back_as_another_is_not_sealed() {
    let caller = Caller {
        tenant: "t".parse().unwrap(),
        user: "u".parse().unwrap(),
        workspace: "w".parse().unwrap(),
        session: None,
        plugin: "cli".parse().unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    };
    let mut entry = small();
    let mut request = Request::new(Syscall::parse("fs.read").unwrap(), Tier::Kernel, caller);
    for path in ["src/a", "/a/../b", "/a/", "//a", "/.", ""] {
        request.paths = vec![RequestPath::Outside(path.into())];
        entry.request = Some(Box::new(request.clone()));
        let path = path.to_owned();
        assert_eq!(encode(&entry), Err(SealError::Path { path }));
    }
}

#[test]
fn event_and_stage_codes_stand_for_one_thing_each() {
    for event in EventType::ALL {
        assert_eq!(EventType::from_code(event.code()), Some(*event));
    }
    for stage in [Stage::Attempt, Stage::Outcome, Stage::Note] {
        assert_eq!(Stage::from_code(stage.code()), Some(stage));
    }
}
