//! What is written is what is read, and what nobody wrote is read as nothing.

use super::*;
use proptest::prelude::*;
use std::ffi::CString;

fn some_text() -> impl Strategy<Value = CString> {
    proptest::collection::vec(1..=255_u8, 0..40).prop_map(|bytes| CString::new(bytes).unwrap())
}

/// One step of each kind, made from what is given.
fn every_kind<'a>(
    texts: &'a [CString; 3],
    block: &'a [u8],
    rules: &'a RuleList,
    (word, long, some): (u32, u64, bool),
) -> Vec<Op<'a>> {
    let [first, second, third] = texts.each_ref().map(CString::as_c_str);
    let owner = some.then_some((word, word / 2));
    let map = some.then_some(word);
    let entry = Entry {
        parent: first,
        name: second,
        owner,
    };
    let bind = |source| Op::Bind {
        source,
        place: second,
        attributes: long,
        map,
    };
    let ruleset = Ruleset {
        files: long,
        network: 1,
        scoped: 2,
    };
    vec![
        Op::Hostname,
        Op::Private,
        Op::Base { on: first },
        Op::NewRoot { options: first },
        Op::Scratch {
            options: first,
            owner,
        },
        Op::Directory { entry },
        Op::File { entry, text: block },
        Op::Link {
            entry,
            target: third,
        },
        Op::Text {
            name: first,
            text: block,
        },
        Op::Ghost { name: first, owner },
        Op::Listen { entry },
        bind(Source::Host(first)),
        bind(Source::Base(first)),
        bind(Source::New(first)),
        Op::Keep {
            source: first,
            at: second,
            attributes: long,
            map,
        },
        Op::Mount {
            kind: first,
            place: second,
            flags: word,
            options: some.then_some(third),
        },
        Op::Pick {
            place: first,
            read_only: some,
        },
        Op::Join { tasks: first },
        Op::Enter,
        Op::Become,
        Op::Limit {
            resource: word,
            soft: long,
            hard: u64::MAX,
        },
        Op::Powerless,
        Op::Landlock {
            ruleset,
            known: word,
            rules: rules.rules(),
        },
        Op::Filter { program: block },
        Op::Ask {
            program: block,
            flags: word,
        },
        Op::Serve,
    ]
}

proptest! {
    #[test]
    fn every_step_is_read_as_it_was_written(
        texts in [some_text(), some_text(), some_text()],
        block in proptest::collection::vec(any::<u8>(), 0..64),
        numbers in any::<(u32, u64, bool)>(),
        paths in proptest::collection::vec((some_text(), any::<u64>()), 0..5),
    ) {
        let mut list = RuleList::default();
        for (path, access) in &paths {
            list.allow(path, *access);
        }
        let ops = every_kind(&texts, &block, &list, numbers);
        let mut writer = Writer::default();
        for op in &ops {
            writer.add(*op);
        }
        let mut reader = Reader::new(writer.bytes());
        for op in &ops {
            prop_assert_eq!(reader.next(), Ok(*op));
        }
        prop_assert!(reader.is_empty());
        let mut rules = list.rules();
        for (path, access) in &paths {
            prop_assert_eq!(rules.next(), Ok((path.as_c_str(), *access)));
        }
        prop_assert!(rules.is_empty());
        // Whatever is missing at the end is missed.
        for end in 0..writer.bytes().len() {
            let mut reader = Reader::new(&writer.bytes()[..end]);
            let read = std::iter::from_fn(|| reader.next().ok()).count();
            prop_assert!(read < ops.len());
        }
    }

    #[test]
    fn bytes_that_nobody_wrote_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new(&bytes);
        while let Ok(op) = reader.next() {
            if let Op::Landlock { mut rules, .. } = op {
                while rules.next().is_ok() {}
            }
        }
    }
}
