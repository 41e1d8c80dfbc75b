//! The filters that look at caller and request.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use airlock_audit::{Durability, Entry, Filter, read_log};
use airlock_core::{Caller, Request, RequestPath, Syscall, Tier};
use support::{Place, note};

fn caller(session: Option<&str>, plugin: &str) -> Caller {
    Caller {
        tenant: "local".parse().expect("a tenant"),
        user: "ada".parse().expect("a user"),
        workspace: "ws".parse().expect("a workspace"),
        session: session.map(|session| session.parse().expect("a session")),
        plugin: plugin.parse().expect("a plugin"),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    }
}

fn record(session: Option<&str>, plugin: &str, paths: &[&str], host: Option<&str>) -> Entry {
    let mut entry = note("text");
    let caller = caller(session, plugin);
    let syscall = Syscall::parse("fs.read").expect("a syscall");
    let mut request = Request::new(syscall, Tier::Kernel, caller.clone());
    let path = |text: &&str| RequestPath::parse(text, "/work").expect("a path");
    request.paths = paths.iter().map(path).collect();
    request.host = host.map(Into::into);
    entry.caller = Some(caller);
    entry.request = Some(Box::new(request));
    entry
}

/// Each word of a row: `field=value`.
fn filter(words: &str) -> Filter {
    let mut filter = Filter::default();
    for (field, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
        let place = match field {
            "session" => &mut filter.session,
            "plugin" => &mut filter.plugin,
            "path" => &mut filter.path,
            "host" => &mut filter.host,
            "text" => &mut filter.text,
            other => unreachable!("{other}"),
        };
        *place = Some(value.to_owned());
    }
    filter
}

#[test]
fn session_plugin_path_and_host_find_exactly_what_they_name() {
    let place = Place::new();
    let log = place.open();
    let entries = [
        note("neither caller nor request"),
        record(Some("s-1"), "agent", &["src/main.rs"], None),
        record(Some("s-2"), "agent", &["src", "docs/a.md"], None),
        record(
            Some("s-10"),
            "tickets",
            &["srcs/main.rs"],
            Some("example.org"),
        ),
        record(None, "cli", &["/etc/shadow"], Some("api.example.org")),
    ];
    log.append_batch(&entries, Durability::Durable)
        .expect("appended");
    for (words, want) in [
        ("", vec![1, 2, 3, 4, 5]),
        ("session=s-1", vec![2]),
        ("session=s", vec![]),
        ("plugin=agent", vec![2, 3]),
        ("plugin=agen", vec![]),
        ("path=src", vec![2, 3]),
        ("path=src/", vec![2, 3]),
        ("path=src/main.rs", vec![2]),
        ("path=src/main", vec![]),
        ("path=docs", vec![3]),
        ("path=/etc", vec![5]),
        ("path=etc", vec![]),
        ("host=example.org", vec![4]),
        ("host=api.example.org", vec![5]),
        ("host=org", vec![]),
        ("text=SHADOW", vec![5]),
        ("text=api.example", vec![5]),
        ("session=s-2 plugin=agent path=docs", vec![3]),
        ("session=s-2 plugin=tickets", vec![]),
    ] {
        let found = read_log(&place.directory, filter(words)).expect("readable");
        let found: Vec<u64> = found
            .map(|record| record.expect("intact").sealed.seq())
            .collect();
        assert_eq!(found, want, "`{words}`");
    }
}
