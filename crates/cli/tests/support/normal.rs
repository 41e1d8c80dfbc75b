//! What differs from run to run, replaced by what it is.

use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;

/// Patterns in the order they are applied: longer digits before the shorter ones inside them.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (
            r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
            "[TIME]",
        ),
        (
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
            "[UUID]",
        ),
        (r"\bwriter-\d+-[0-9a-f]{32}\b", "writer-[ID]"),
        (r"\bws-[0-9a-f]{12}\b", "ws-[WORKSPACE]"),
        (r"\b[0-9a-f]{128}\b", "[SIGNATURE]"),
        (r"\b[0-9a-f]{64}\b", "[DIGEST]"),
        (r"\b[0-9a-f]{32}\b", "[LOG]"),
        (r"\b[0-9a-f]{16}\b", "[SHORT]"),
        (
            r#""(pid|started|uid|duration|duration_us|record_bytes|disk_bytes|time|start_time|end_time)": ?\d+"#,
            r#""$1":[N]"#,
        ),
        (r#"(\{"org":\{"uid":"local"\},"uid":)"[^"]*""#, r#"$1"[USER]""#),
        (",local,[^,]+,ws-", ",local,[USER],ws-"),
        (r#",\d+,,((?:"[^\n]*")?,\[DIGEST\])"#, ",[N],,$1"),
        (r"\.damaged-\d+-\d+", ".damaged-[TIME]"),
        (r#""user": ?"[a-z_][a-z0-9_-]*""#, r#""user":"[USER]""#),
        (r"\b\d+ bytes on disk", "[N] bytes on disk"),
        (r"\bduration: \d+", "duration: [N]"),
        (r"(?m)  \d+(\.\d s| ms| m \d+ s)$", "  [TOOK]"),
        (r"\bin \d+(\.\d+)? ?(ms|µs|us|s)\b", "in [DURATION]"),
    ]
    .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
    .into()
});

/// `text` as it would read anywhere, at any time, in any version.
pub(crate) fn normalised(text: &str, root: &Path) -> String {
    let mut text = text.replace(&root.display().to_string(), "[ROOT]");
    for (pattern, name) in VARYING.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
        .replace(std::env::consts::ARCH, "[ARCH]")
}
