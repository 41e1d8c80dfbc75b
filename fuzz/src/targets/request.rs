//! Requests for targets that ask a policy: fixed, and as hostile as a request can be made.

use airlock_core::{
    Caller, Mode, Peer, Phase, Request, RequestPath, SYSCALLS, Syscall, Tier, Timestamp,
};

/// The workspace root that paths of requests are read against.
pub(super) const ROOT: &str = "/srv/project";

/// The time decisions go by.
pub(super) const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A caller in a sandbox, as `plugin`. `None` only if a name is refused, which a test excludes.
pub(super) fn caller(plugin: &str) -> Option<Caller> {
    Some(Caller {
        tenant: "local".parse().ok()?,
        user: "ada".parse().ok()?,
        workspace: "w1".parse().ok()?,
        session: Some("s1".parse().ok()?),
        plugin: plugin.parse().ok()?,
        tags: vec!["third_party".parse().ok()?],
        peer: Some(Peer {
            pid: 42,
            uid: 1000,
            started: 99,
        }),
        sandbox: Some("box-1".parse().ok()?),
        mode: Some(Mode::Strict),
        phase: Some(Phase::CodeWriting),
    })
}

/// A request of `plugin` for `syscall` on `paths`.
pub(super) fn request(plugin: &str, syscall: &str, paths: &[&str]) -> Option<Request> {
    let mut request = Request::new(
        Syscall::parse(syscall).ok()?,
        Tier::Process,
        caller(plugin)?,
    );
    for path in paths {
        request.paths.push(RequestPath::parse(path, ROOT).ok()?);
    }
    Some(request)
}

/// One request for every syscall, bare, and one with everything a request can carry: control
/// characters, texts that are patterns, long names, paths on both sides of the root.
pub(super) fn hostile() -> Vec<Request> {
    let mut requests = Vec::new();
    for (at, spec) in SYSCALLS.iter().enumerate() {
        let plugin = if at % 2 == 0 { "agent" } else { "cli" };
        requests.extend(request(plugin, spec.name, &[]));
        requests.extend(request(plugin, spec.name, &PATHS).map(loaded));
    }
    requests
}

const PATHS: [&str; 7] = [
    "src/main.rs",
    ".git/hooks/pre-commit",
    ".ENV",
    "a\u{202e}b/\u{1b}[2J",
    "**",
    "../work2/x",
    "/etc/shadow",
];

fn loaded(mut request: Request) -> Request {
    request.host = Some("*.example.org\u{0}".into());
    request.port = Some(0);
    request.command = vec!["../../bin/sh\n".into(), "-c".into(), "".into()];
    request.tool = Some("*".into());
    request.secret = Some("a.b.*".into());
    request.template = Some("".into());
    request.file_size = Some(u64::MAX);
    request.arguments = serde_json::json!({
        "": null,
        "options": { "depth": 1e300, "options": [[[{ "depth": -1 }]]] },
        "kind": "a".repeat(4_000),
    });
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syscall_is_asked_for_twice() {
        assert_eq!(hostile().len(), 2 * SYSCALLS.len());
    }
}
