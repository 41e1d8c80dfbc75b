//! The small values of a manifest: capability patterns, version requirements, paths, hosts.

use super::SandboxAsk;
use airlock_core::canonical_host;
use airlock_policy::capability::Pattern;
use airlock_yaml::{Node, Problems, code, shown};
use semver::VersionReq;

/// Most capability patterns of one list.
const CAPABILITIES: usize = 256;
/// Most entries of a list of paths or hosts.
const ENTRIES: usize = 64;
/// Longest path.
const PATH_BYTES: usize = 1_024;
/// Where no grant leads: what is there is the machine, not files.
const MACHINE: &[&str] = &["proc", "sys", "dev"];

/// The patterns asked for and those done without. One that is asked for and denied is a slip that
/// would show only when a call fails, so it is a problem here.
pub(super) fn capabilities(
    asked: Option<&Node>,
    denied: Option<&Node>,
    problems: &mut Problems,
) -> (Vec<String>, Vec<String>) {
    let asked = patterns(asked, problems);
    let denied = patterns(denied, problems);
    for (allow, node) in &asked {
        if let Some((deny, _)) = denied.iter().find(|(deny, _)| deny.covers(allow)) {
            let what = format!("`{}` is denied by `{}`", allow.as_str(), deny.as_str());
            let fix = "remove one of the two: a denial always wins";
            problems.error(code::VALUE, node.spot, what, fix);
        }
    }
    let texts = |patterns: Vec<(Pattern, &Node)>| {
        let texts = patterns.into_iter().map(|(one, _)| one.as_str().to_owned());
        texts.collect()
    };
    (texts(asked), texts(denied))
}

/// A path of its box that a plugin also does without is the same slip.
pub(super) fn undenied(ask: &SandboxAsk, denied: &[String], node: &Node, problems: &mut Problems) {
    for (right, path) in ask.rights() {
        if let Some(deny) = denial(denied, right, path) {
            let what = format!("`{right}` of `{path}` is denied by `{deny}`");
            let fix = "ask for less, or give up less: a denial always wins";
            problems.error(code::VALUE, node.spot, what, fix);
        }
    }
}

/// Which of `denied` takes away `right` of what lies at `path` or below it, or of some of it.
pub(super) fn denial<'a>(denied: &'a [String], right: &str, path: &str) -> Option<&'a str> {
    // All of a directory is what granting it means.
    let path = path
        .strip_suffix("/**")
        .or(path.strip_suffix("/*"))
        .unwrap_or(path);
    let is_it = |deny: &&String| meets(deny, right, path);
    denied.iter().find(is_it).map(String::as_str)
}

/// Whether the pattern `deny` matches `right` of `path`, or of anything that could lie below it.
fn meets(deny: &str, right: &str, path: &str) -> bool {
    let Some((dotted, scope)) = divided(deny) else {
        // It says nothing of paths: whichever stands for all of them.
        return matches(deny, &format!("{right}./"));
    };
    let is_home = |path: &str| path.starts_with('~');
    is_home(scope) == is_home(path)
        && matches(dotted, right)
        && reaches(&components(scope), &components(path))
}

fn matches(pattern: &str, capability: &str) -> bool {
    Pattern::parse(pattern).is_ok_and(|pattern| pattern.matches(capability))
}

/// The dotted part of a pattern and its path scope, if it has one.
fn divided(pattern: &str) -> Option<(&str, &str)> {
    let starts = ["./", ".~"].into_iter();
    let at = starts.filter_map(|start| pattern.find(start)).min()?;
    let (dotted, scope) = pattern.split_at_checked(at)?;
    Some((dotted, scope.strip_prefix('.')?))
}

/// The components of a path below `/` or `~`.
fn components(path: &str) -> Vec<&str> {
    let below = path.strip_prefix('~').unwrap_or(path);
    below.split('/').filter(|one| !one.is_empty()).collect()
}

/// Whether a path scope matches `path` or something that could lie below it.
fn reaches(scope: &[&str], path: &[&str]) -> bool {
    let (Some((one, scope)), Some((name, path))) = (scope.split_first(), path.split_first()) else {
        // Whatever is left of the scope could lie there. What it does not get to, it does not match.
        return path.is_empty();
    };
    match *one {
        // The rest of the path is under it.
        "**" => true,
        "*" => scope.is_empty() || reaches(scope, path),
        one => fits(one, name) && reaches(scope, path),
    }
}

/// Whether one component of a scope, which may have wildcards in it, is the name of that.
fn fits(one: &str, name: &str) -> bool {
    one == name || (one.contains('*') && matches(&format!("x./{one}"), &format!("x./{name}")))
}

fn patterns<'a>(node: Option<&'a Node>, problems: &mut Problems) -> Vec<(Pattern, &'a Node)> {
    let nodes = node.and_then(|node| node.list(CAPABILITIES, problems));
    let mut found: Vec<(Pattern, &Node)> = Vec::new();
    for node in nodes.unwrap_or_default() {
        let Some(text) = node.text(problems) else {
            continue;
        };
        match Pattern::parse(text) {
            Ok(pattern) => {
                if found.iter().any(|(known, _)| known.as_str() == text) {
                    twice(text, node, problems);
                }
                found.push((pattern, node));
            }
            Err(error) => problems.error(code::VALUE, node.spot, error.to_string(), error.hint()),
        }
    }
    found
}

/// Whether `text` is not among `known` yet; says so otherwise.
pub(super) fn names_once(
    known: &[String],
    text: &str,
    node: &Node,
    problems: &mut Problems,
) -> bool {
    let new = !known.iter().any(|one| one == text);
    if !new {
        twice(text, node, problems);
    }
    new
}

fn twice(text: &str, node: &Node, problems: &mut Problems) {
    let what = format!("`{}` is there twice", shown(text));
    problems.error(code::DUPLICATE, node.spot, what, "keep one");
}

/// Versions that will do, such as `>= 1.0.0`.
pub(super) fn requirement(node: &Node, problems: &mut Problems) -> Option<VersionReq> {
    let text = node.text(problems)?;
    match VersionReq::parse(text) {
        Ok(wanted) => Some(wanted),
        Err(error) => {
            let what = format!("`{}` does not say which versions: {error}", shown(text));
            let fix = "write a requirement such as `\">= 1.0.0\"` or `\">=1.2, <2\"`";
            problems.error(code::VALUE, node.spot, what, fix);
            None
        }
    }
}

/// Which wildcards a list of paths takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wildcards {
    /// `/*` or `/**` at the end, for everything below: a grant is a place.
    Below,
    /// Also `*` and `**` within: a denial may be wide.
    Anywhere,
}

/// The paths of a list.
pub(super) fn paths(node: &Node, wildcards: Wildcards, problems: &mut Problems) -> Vec<String> {
    let mut found = Vec::new();
    for node in node.list(ENTRIES, problems).unwrap_or_default() {
        let Some(text) = node.text(problems) else {
            continue;
        };
        if let Err((why, fix)) = check_path(text, wildcards) {
            let what = format!("`{}` {why}", shown(text));
            problems.error(code::VALUE, node.spot, what, fix);
        } else if names_once(&found, text, node, problems) {
            found.push(text.to_owned());
        }
    }
    found
}

/// What is wrong with a path, and how to mend it.
fn check_path(text: &str, wildcards: Wildcards) -> Result<(), (&'static str, &'static str)> {
    let (rest, whole) = if let Some(rest) = text.strip_prefix('/') {
        (rest, "is the whole file system")
    } else if let Some(rest) = text.strip_prefix("~/") {
        (rest, "is the whole home, keys and all")
    } else if let Some(rest) = text.strip_prefix("self/") {
        (rest, "")
    } else {
        let fix = "begin with `/`, with `~/` (the user's home) or with `self/` (the plugin's data)";
        return Err(("is neither absolute nor in a known place", fix));
    };
    if text.len() > PATH_BYTES {
        return Err(("is too long", "shorten it"));
    }
    let components: Vec<&str> = rest.split('/').collect();
    let (last, before) = components.split_last().unwrap_or((&"", &[]));
    let below = matches!(*last, "*" | "**");
    let place = if below { before } else { components.as_slice() };
    if wildcards == Wildcards::Below && place.iter().all(|one| one.is_empty()) && !whole.is_empty()
    {
        return Err((whole, "name what is needed below it"));
    }
    // `self/` alone is the directory itself.
    let own = text == "self/";
    if components.iter().any(|one| one.is_empty()) && !own {
        return Err((
            "has an empty component",
            "write one `/` between components and none at the end",
        ));
    }
    if components.iter().any(|one| matches!(*one, "." | "..")) {
        return Err((
            "has a `.` or `..` component",
            "write the path that it leads to",
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(("has a control character", "remove it"));
    }
    if text.contains(['?', '[', ']', '{', '}', '\\']) {
        return Err((
            "has a character that other patterns give a meaning",
            "`*` is the only wildcard",
        ));
    }
    if wildcards == Wildcards::Below && place.iter().any(|one| one.contains('*')) {
        let fix = "a grant takes `/*` at its end, for everything below, and no other wildcard";
        return Err(("has a wildcard in the middle", fix));
    }
    let stray = |one: &&str| one.contains("**") && **one != *"**";
    if components.iter().any(stray) {
        return Err(("has `**` within a component", "write `*` there"));
    }
    let machine =
        text.starts_with('/') && components.first().is_some_and(|one| MACHINE.contains(one));
    if wildcards == Wildcards::Below && machine {
        return Err(("belongs to the machine", "it cannot be granted"));
    }
    Ok(())
}

/// Hosts with ports. They are checked for their form, and refused all the same: nothing here could
/// hold a plugin to them, and a line that is ignored would read like a wall.
pub(super) fn hosts(node: &Node, problems: &mut Problems) -> Vec<String> {
    let Some(nodes) = node.list(ENTRIES, problems) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for node in nodes {
        let Some(text) = node.text(problems) else {
            continue;
        };
        let Some(host) = host_with_port(text) else {
            let what = format!("`{}` is no host with a port", shown(text));
            let fix = "write `host:port`, such as `tickets.example.org:443`, no scheme, no path";
            problems.error(code::VALUE, node.spot, what, fix);
            continue;
        };
        if names_once(&found, &host, node, problems) {
            found.push(host);
        }
    }
    if !nodes.is_empty() {
        let what = "`network.allow` cannot be enforced yet: there is no egress proxy";
        let fix = "remove it; the plugin runs without a network";
        problems.error(code::WIDENS, node.spot, what, fix);
    }
    found
}

fn host_with_port(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = (1..=5).contains(&port.len())
        && port.bytes().all(|b| b.is_ascii_digit())
        && !port.starts_with('0');
    let port: u16 = port.parse().ok().filter(|_| digits)?;
    // Without its brackets an IPv6 address and its port run into each other.
    if host.contains(':') && !host.starts_with('[') {
        return None;
    }
    let (wild, name) = host
        .strip_prefix("*.")
        .map_or(("", host), |name| ("*.", name));
    let canonical = canonical_host(name)?;
    let canonical = if canonical.contains(':') {
        format!("[{canonical}]")
    } else {
        canonical
    };
    let address = canonical.starts_with('[') || canonical.parse::<std::net::IpAddr>().is_ok();
    (wild.is_empty() || !address).then(|| format!("{wild}{canonical}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_that_meets_a_path_anywhere_takes_it_away() {
        let read = "filesystem.read";
        for (deny, path, want) in [
            ("filesystem.read./home/*/.ssh/**", "/home/u", true),
            ("filesystem.read./home/*/.ssh/**", "/home", true),
            ("filesystem.read./home/*/.ssh/**", "/home/u/.ssh/keys", true),
            ("filesystem.read./home/*/.ssh/**", "/home/u/work", false),
            ("filesystem.read./home/*/.ssh/**", "/srv", false),
            ("filesystem.read./**/secret", "/srv/x", true),
            ("filesystem.read./srv/*", "/srv/x/y", true),
            ("filesystem.read./srv/a*/x", "/srv/abc", true),
            ("filesystem.read./srv/a*/x", "/srv/bc", false),
            ("filesystem.read./srv/a*/x", "/srv/abc/y", false),
            ("filesystem.read./srv/x", "/srv", true),
            ("filesystem.read./srv/x", "/srv/x", true),
            // Of a directory alone, not of what lies in it.
            ("filesystem.read./srv/x", "/srv/x/y", false),
            ("filesystem.read./srv/x", "/srv/xy", false),
            ("filesystem.read.~/.ssh/**", "~/.ssh", true),
            ("filesystem.read.~/*/keys", "~/work", true),
            ("filesystem.read.~/.ssh/**", "/.ssh", false),
            ("filesystem.read.~", "~/work", false),
            ("filesystem.*", "/srv/x/*", true),
            ("filesystem.read.*", "~/data", true),
            ("*", "/srv", true),
            ("filesystem.*./srv/**", "/srv/x", true),
            ("filesystem.write./srv/**", "/srv/x", false),
            ("filesystem.write.*", "/srv/x", false),
            ("filesystem.read", "/srv/x", false),
            ("exec.*", "/srv/x", false),
        ] {
            let denied = [deny.to_owned()];
            let found = denial(&denied, read, path).is_some();
            assert_eq!(found, want, "{deny} and {path}");
        }
    }

    #[test]
    fn hosts_have_one_spelling_and_a_port() {
        for (text, want) in [
            ("Tickets.Example.ORG:443", Some("tickets.example.org:443")),
            ("*.example.org:443", Some("*.example.org:443")),
            ("127.1:80", Some("127.0.0.1:80")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("::1:8080", None),
            ("example.org", None),
            ("example.org:", None),
            ("example.org:0", None),
            ("example.org:080", None),
            ("example.org:70000", None),
            ("example.org:+80", None),
            ("https://example.org:443", None),
            ("user@example.org:443", None),
            ("example.org/x:443", None),
            ("*.127.0.0.1:1", None),
            ("*:443", None),
            (":443", None),
            ("a b:1", None),
        ] {
            assert_eq!(host_with_port(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn grants_are_places_and_denials_may_be_wide() {
        use Wildcards::{Anywhere, Below};
        for (text, grant, denial) in [
            ("/data/x", true, true),
            ("/data/plugins/self/*", true, true),
            ("/data/**", true, true),
            ("~/.config/x", true, true),
            ("self/cache", true, true),
            ("self/*", true, true),
            ("self/", true, true),
            ("~/.ssh/*", true, true),
            ("/", false, false),
            ("/*", false, true),
            ("~/", false, false),
            ("~/**", false, true),
            ("/data/*/x", false, true),
            ("/data/*.txt", false, true),
            ("/data/a**b", false, false),
            ("/proc/self/mem", false, true),
            ("/sys/*", false, true),
            ("/dev/kmsg", false, true),
            ("/devices", true, true),
            ("data", false, false),
            ("./data", false, false),
            ("~root/x", false, false),
            ("selfish/x", false, false),
            ("", false, false),
            ("/data/../etc", false, false),
            ("/data/./x", false, false),
            ("/data//x", false, false),
            ("/data/", false, false),
            ("/data/\n", false, false),
            ("/data/[ab]", false, false),
            ("/data/{a,b}", false, false),
            ("/data/a\\b", false, false),
            ("self/../x", false, false),
        ] {
            assert_eq!(check_path(text, Below).is_ok(), grant, "grant {text:?}");
            assert_eq!(
                check_path(text, Anywhere).is_ok(),
                denial,
                "denial {text:?}"
            );
        }
    }
}
