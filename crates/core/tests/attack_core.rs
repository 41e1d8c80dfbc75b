//! Attempts to need another capability than the one that is denied. Each must fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use airlock_core::{Caller, PluginName, Request, Syscall, TenantId, Tier, UserId, WorkspaceId};

fn needs(host: &str) -> Vec<String> {
    let caller = Caller {
        tenant: TenantId::new("local").unwrap(),
        user: UserId::new("ada").unwrap(),
        workspace: WorkspaceId::new("w1").unwrap(),
        session: None,
        plugin: PluginName::new("agent").unwrap(),
        tags: Vec::new(),
        peer: None,
        sandbox: None,
        mode: None,
        phase: None,
    };
    let connect = Syscall::parse("net.connect").unwrap();
    let mut request = Request::new(connect, Tier::Process, caller);
    request.host = Some(host.into());
    request.needs("/work")
}

#[test]
fn every_spelling_of_a_host_needs_the_same_capability() {
    for (host, want) in [
        ("Evil.Example.", "network.connect.evil.example"),
        ("0x7f.1", "network.connect.127.0.0.1"),
        ("[::ffff:127.0.0.1]", "network.connect.127.0.0.1"),
        ("0:0:0:0:0:0:0:1", "network.connect.::1"),
    ] {
        assert_eq!(needs(host), [want], "{host}");
    }
}

#[test]
fn what_is_no_host_needs_what_nobody_can_have() {
    for host in [
        "",
        "*",
        "/etc",
        "a/b",
        "a:1",
        "u@a",
        "ａ.example",
        "a..b",
        "a\nb",
    ] {
        assert!(needs(host).is_empty(), "{host:?}");
    }
}
