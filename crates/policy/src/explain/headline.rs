//! What was asked, in a few words: "write `Cargo.toml` and 3 more".

use super::text::{quoted, several};
use crate::decision::Verdict;
use airlock_core::{Request, RequestPath};

/// One line: what was asked and what became of it.
pub(super) fn headline(request: &Request, verdict: Verdict) -> String {
    let phrase = phrase(request);
    match verdict {
        Verdict::Allow => {
            let plugin = quoted(request.caller.plugin.as_str());
            format!("{plugin} may {phrase}")
        }
        Verdict::Deny => format!("cannot {phrase}"),
        Verdict::RequireReview => format!("{} needs a person's approval", gerund(&phrase)),
    }
}

/// The request as a verb and what it is about.
pub(super) fn phrase(request: &Request) -> String {
    let syscall = request.syscall;
    let verb = match syscall.name() {
        "fs.read" => "read",
        "fs.list" => "list",
        "fs.exists" => "look for",
        "fs.write" if request.paths.is_empty() => return "write a file".to_owned(),
        "fs.write" => "write",
        "fs.patch" => "patch",
        "fs.delete" => "delete",
        "fs.move" => return moving(request),
        "search.grep" | "search.glob" => "search",
        "merge.apply" => "merge",
        "merge.undo" => "undo the merge of",
        "git.status" | "git.diff" | "git.log" | "git.commit" => {
            let (_, verb) = syscall.name().split_once('.').unwrap_or_default();
            return format!("run `git {verb}`");
        }
        "exec.run" | "shell.run" | "test.run" => return running(request),
        _ => return about(request),
    };
    paths(request).map_or_else(
        || syscall.spec().summary.to_owned(),
        |paths| format!("{verb} {paths}"),
    )
}

fn paths(request: &Request) -> Option<String> {
    (!request.paths.is_empty()).then(|| several(request.paths.iter().map(RequestPath::as_str), 1))
}

fn moving(request: &Request) -> String {
    match request.paths.as_slice() {
        [from, to] => format!("move {} to {}", quoted(from.as_str()), quoted(to.as_str())),
        _ => paths(request).map_or_else(
            || request.syscall.spec().summary.to_owned(),
            |paths| format!("move {paths}"),
        ),
    }
}

fn running(request: &Request) -> String {
    if request.command.is_empty() {
        return request.syscall.spec().summary.to_owned();
    }
    // A long argument list is cut by characters anyway.
    let words: Vec<&str> = request
        .command
        .iter()
        .take(64)
        .map(|word| &**word)
        .collect();
    format!("run {}", quoted(&words.join(" ")))
}

/// What else a request may be about: host, secret or tool.
fn about(request: &Request) -> String {
    if let (Some(tool), "tool.call") = (&request.tool, request.syscall.name()) {
        return format!("call the tool {}", quoted(tool));
    }
    if let Some(host) = &request.host {
        let place = match request.port {
            Some(port) => quoted(&format!("{host}:{port}")),
            None => quoted(host),
        };
        return match request.syscall.name() {
            "net.connect" => format!("connect to {place}"),
            _ => format!("{} at {place}", request.syscall.spec().summary),
        };
    }
    if let Some(secret) = &request.secret {
        return format!("use the secret {}", quoted(secret));
    }
    request.syscall.spec().summary.to_owned()
}

/// Verbs that double their last letter.
const DOUBLING: &[&str] = &["begin", "run", "cancel", "commit", "drop"];

fn gerund(phrase: &str) -> String {
    let (verb, rest) = phrase.split_once(' ').unwrap_or((phrase, ""));
    let stem = match verb.strip_suffix('e') {
        Some(stem) => stem.to_owned(),
        None if DOUBLING.contains(&verb) => {
            format!("{verb}{}", verb.chars().next_back().unwrap_or_default())
        }
        None => verb.to_owned(),
    };
    format!("{stem}ing {rest}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::gerund;
    use airlock_core::SYSCALLS;

    #[test]
    fn every_syscall_has_a_gerund() {
        let first = |text: String| text.split(' ').next().unwrap_or_default().to_owned();
        let mut words: Vec<String> = SYSCALLS
            .iter()
            .map(|spec| first(gerund(spec.summary)))
            .collect();
        words.sort();
        words.dedup();
        assert_eq!(
            words.join(" "),
            "answering applying asking beginning calling cancelling committing connecting \
             creating deleting disabling dropping enabling ending finding installing listing looking merging \
             moving reading reloading remembering removing renewing replacing resuming running searching showing \
             switching trusting undoing using withdrawing archiving writing"
                .split(' ')
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(" ")
        );
    }
}
