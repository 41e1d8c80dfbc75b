//! The file names of a patch: bare, or quoted as git and C do.

/// What a header line says of a file.
pub(super) enum Header {
    Named(String),
    /// It is not there: `/dev/null`.
    Nothing,
}

/// The file a header line names; none if the text is no name.
pub(super) fn header_name(text: &str) -> Option<Header> {
    let name = if text.starts_with('"') {
        unquoted(text)?
    } else {
        // What follows a tab is a time.
        let bare = text.split('\t').next().unwrap_or(text);
        bare.trim_end_matches('\r').to_owned()
    };
    if name == "/dev/null" {
        return Some(Header::Nothing);
    }
    (!name.is_empty()).then_some(Header::Named(name))
}

/// Both names without the `a/` and `b/` that diffs put before them, if both have them.
pub(super) fn without_prefixes(
    from: Option<String>,
    to: Option<String>,
) -> (Option<String>, Option<String>) {
    let has = |name: &Option<String>, prefix: &str| {
        name.as_ref().is_none_or(|name| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| !rest.is_empty())
        })
    };
    if !has(&from, "a/") || !has(&to, "b/") {
        return (from, to);
    }
    let strip = |name: Option<String>, prefix: &str| {
        name.map(|name| name.strip_prefix(prefix).unwrap_or(&name).to_owned())
    };
    (strip(from, "a/"), strip(to, "b/"))
}

/// What a quoted name means; none if the quoting is wrong or the bytes are no text.
pub(super) fn unquoted(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.strip_prefix('"')?.bytes();
    loop {
        match rest.next()? {
            b'"' => break,
            b'\\' => bytes.push(escaped(&mut rest)?),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn escaped(rest: &mut std::str::Bytes<'_>) -> Option<u8> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'7').then(|| u32::from(byte - b'0'));
    Some(match rest.next()? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'v' => 11,
        b'f' => 12,
        byte @ (b'"' | b'\\') => byte,
        first => {
            let (second, third) = (rest.next()?, rest.next()?);
            let value = digit(first)? * 64 + digit(second)? * 8 + digit(third)?;
            u8::try_from(value).ok()?
        }
    })
}
