//! What a record says of a call's arguments, request and result: short, and without secrets.

use crate::process::{PutBack, Ran};
use crate::sanitise::{Clean, Written, rules};
use crate::tools::Keep;
use airlock_audit::{Entry, Late};
use airlock_core::{Digest, Request, RequestPath, SandboxId, WorkspacePath, limits};
use airlock_sanitise::{Bound, Sanitiser};

/// Arguments for the log. Each string is sanitised before it is written as JSON, where an escaped
/// newline would stand as a letter in front of a secret and hide it. Says how many there were.
pub(super) fn summary(cleaner: &Sanitiser, arguments: &serde_json::Value) -> (String, usize) {
    let bound = Bound::bytes(Keep::Head, 4 * limits::SUMMARY_CHARS);
    let clean = cleaner.value(arguments.clone(), bound);
    let text = cleaner.line(&clean.value.to_string(), limits::SUMMARY_CHARS);
    (text, clean.secrets)
}

/// The first characters of a result as JSON, of which these are the first bytes. As text it may show
/// what its parts did not: it is looked at once more.
pub(super) fn beginning(cleaner: &Sanitiser, bytes: &[u8]) -> String {
    // Where they end may be inside a character.
    let whole = bytes.utf8_chunks().next();
    let whole = whole.map_or("", |chunk| chunk.valid());
    // No further than it takes to know what stands where a summary ends.
    let shown = whole.char_indices().nth(limits::SUMMARY_CHARS);
    let known = shown.map_or(whole.len(), |(end, _)| end + 4 * limits::SUMMARY_CHARS);
    let known = whole.get(..whole.floor_char_boundary(known));
    cleaner.line(known.unwrap_or(whole), limits::SUMMARY_CHARS)
}

/// `request` with paths that can be shown and kept.
pub(super) fn shown(cleaner: &Sanitiser, request: &Request) -> Request {
    let mut shown = request.clone();
    // An argument may be a password; which program it is still shows.
    for word in &mut shown.command {
        *word = cleaner.line(word, limits::SUMMARY_CHARS).into();
    }
    if let Some(host) = &mut shown.host {
        *host = cleaner.line(host, 253).into();
    }
    for path in &mut shown.paths {
        let clean = cleaner.path(path.as_str());
        if clean != path.as_str() {
            *path = match path {
                RequestPath::Outside(_) => RequestPath::parse(&clean, "/dev/null")
                    .unwrap_or_else(|_| RequestPath::Outside("/[unprintable]".into())),
                // Written out, control characters can make it longer than any path.
                RequestPath::Inside(_) => WorkspacePath::new(&clean)
                    .or_else(|_| WorkspacePath::new("[unprintable]"))
                    .unwrap_or_else(|_| WorkspacePath::root())
                    .into(),
            };
        }
    }
    shown
}

/// What sanitising did: what was taken out, what was flagged.
pub(super) fn sanitised(entry: &mut Entry, clean: &Clean) {
    note(entry, "secrets", clean.sanitised.secrets as u64);
    if !clean.sanitised.flags.is_empty() {
        let rules = rules(&clean.sanitised.flags);
        entry.metadata.insert("flags".to_owned(), rules);
    }
}

/// Digests of before and after sanitising: those that are known, and a last one to be computed.
pub(super) fn digests(entry: &mut Entry, original: Option<Digest>, given: Written) -> Option<Late> {
    const ORIGINAL: &str = "digest_original";
    const GIVEN: &str = "digest_sanitised";
    let mut put = |name: &str, digest: Digest| {
        entry.metadata.insert(name.to_owned(), digest.to_string());
    };
    match (given.into_digest(), original) {
        (Ok(given), original) => {
            put(ORIGINAL, original.unwrap_or(given));
            put(GIVEN, given);
            None
        }
        (Err(bytes), Some(original)) => {
            put(ORIGINAL, original);
            Some(Late::new(entry, &[GIVEN], bytes))
        }
        (Err(bytes), None) => Some(Late::new(entry, &[ORIGINAL, GIVEN], bytes)),
    }
}

/// How a command ended.
pub(super) fn ended(entry: &mut Entry, ran: &Ran, cleaner: &Sanitiser) {
    let report = Digest::of(ran.report.to_string().as_bytes());
    let launcher = ran.report.get("launcher").and_then(|name| name.as_str());
    entry.sandbox = SandboxId::new(&ran.sandbox).ok();
    let notes = [
        ("ended", Some(ran.word().to_owned())),
        ("exit", Some(ran.exit().to_string())),
        ("limit", ran.limit().map(|limit| limit.as_str().to_owned())),
        ("report", Some(report.to_string())),
        ("launcher", launcher.map(str::to_owned)),
        ("stage", ran.stage.clone()),
        ("changes", ran.changes.map(|changes| changes.to_string())),
    ];
    let notes = notes
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    entry.metadata.extend(notes);
    note(entry, "refusals", ran.refusals.len() as u64);
    // What earlier runs did has a record of theirs.
    let own = ran.put_back.iter().filter(|one| !one.earlier);
    note_put_back(entry, own, cleaner);
}

/// Which changes were put back.
pub(crate) fn note_put_back<'a>(
    entry: &mut Entry,
    backs: impl Iterator<Item = &'a PutBack>,
    cleaner: &Sanitiser,
) {
    let paths: Vec<&str> = backs.map(|one| one.path.as_str()).collect();
    if !paths.is_empty() {
        let listed = serde_json::to_string(&paths).unwrap_or_default();
        let listed = cleaner.line(&listed, limits::SUMMARY_CHARS);
        entry.metadata.insert("put_back".to_owned(), listed);
    }
}

pub(super) fn note(entry: &mut Entry, name: &str, count: u64) {
    if count > 0 {
        entry.metadata.insert(name.to_owned(), count.to_string());
    }
}
