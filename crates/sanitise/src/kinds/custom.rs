//! Kinds that are more than a row of runs: keys in blocks, web tokens, passwords in addresses and
//! in files of logins.

use super::checks::{made_up, real};
use super::{Kind, LONGEST, Step, at_edge, custom};
use crate::base64;
use crate::class::{BLANK, DASHED, DIGIT, NAME_END, PASSWORD_END, SETTING_END, SPACE};
use memchr::memmem;

pub(super) const KINDS: &[Kind] = &[
    custom("private-key", "-----BEGIN ", super::pem::private_key),
    custom("private-key", "Private-Lines: ", super::pem::putty),
    custom("netrc-password", "machine", netrc),
    custom("login-password", "username", login).folded(),
    custom("connection-password", "password=", connection).folded(),
    custom("connection-password", "pwd=", connection).folded(),
    custom("url-password", "://", url),
];

/// Three parts, of which the first two are JSON.
pub(super) fn jwt(text: &[u8], at: usize, last: bool) -> Step {
    const MOST: usize = 8 * 1024;
    if !at_edge(text.get(..at).unwrap_or_default()) {
        return Step::No;
    }
    let mut end = at;
    for part in 0..3 {
        let rest = text.get(end..).unwrap_or_default();
        let count = DASHED.run(rest, MOST + 1);
        if count == rest.len() && count <= MOST && !last {
            return Step::More;
        }
        let begins = rest.get(..3).unwrap_or_default() == b"eyJ";
        if !(10..=MOST).contains(&count) || (part < 2 && !begins) {
            return Step::No;
        }
        end += count;
        if part < 2 {
            if text.get(end) != Some(&b'.') {
                return Step::No;
            }
            end += 1;
        }
    }
    Step::Found(at..end)
}

/// Eight to ten digits, a colon, and 35 characters of which the first two are `AA`.
pub(super) fn telegram(text: &[u8], at: usize, last: bool) -> Step {
    let left = text.get(..at).unwrap_or_default();
    let digits = DIGIT.run_back(left, 11);
    if !(8..=10).contains(&digits) || !at_edge(left.get(..at - digits).unwrap_or_default()) {
        return Step::No;
    }
    let rest = text.get(at + 1..).unwrap_or_default();
    match DASHED.run(rest, 36) {
        35 if rest.len() > 35 || last => Step::Found(at - digits..at + 36),
        count if count == rest.len() && count <= 35 && !last => Step::More,
        _ => Step::No,
    }
}

/// Whether a text in base64 is a name, a colon and a password.
pub(super) fn decodes_to_login(secret: &[u8]) -> bool {
    let text = base64::decode(secret);
    let colon = text.iter().position(|byte| *byte == b':');
    let printable = text.iter().all(|byte| (0x20..0x7f).contains(byte));
    printable && colon.is_some_and(|at| at > 0 && at + 3 < text.len())
}

/// Whether it is 32 bytes in base64, written for an address.
pub(super) fn is_sas(secret: &[u8]) -> bool {
    let end = |byte: u8| b"&\"' \n".contains(&byte);
    let secret = secret.strip_suffix(secret.last().copied().filter(|b| end(*b)).as_slice());
    let secret = secret.unwrap_or_default();
    let ends = [&b"%3D"[..], b"%3d", b"="]
        .iter()
        .any(|tail| secret.ends_with(tail));
    let escapes = memchr::memchr_iter(b'%', secret).count();
    let plain = secret.len().saturating_sub(2 * escapes);
    ends && plain == 44 && real(secret)
}

const PLACEHOLDERS: &[u8] = b"$<{*[(%";

/// Whether a password stands there rather than a name for one.
fn is_password(secret: &[u8]) -> bool {
    let first = secret.first().copied().unwrap_or(b'$');
    let word = secret.eq_ignore_ascii_case(b"password")
        || secret.eq_ignore_ascii_case(b"pass")
        || secret.eq_ignore_ascii_case(b"passwd")
        || secret.eq_ignore_ascii_case(b"pwd")
        || secret.eq_ignore_ascii_case(b"secret")
        || secret.eq_ignore_ascii_case(b"token");
    let stands_in = secret.len() > 6 && made_up(secret);
    !(PLACEHOLDERS.contains(&first) || word || stands_in)
}

/// Whether it is a password that is no word: letters and digits.
fn is_strong(secret: &[u8]) -> bool {
    let digit = secret.iter().any(u8::is_ascii_digit);
    let letter = secret.iter().any(u8::is_ascii_alphabetic);
    secret.len() >= 8 && digit && letter && is_password(secret)
}

/// `scheme://name:password@host`: the password.
fn url(text: &[u8], at: usize, last: bool) -> Step {
    const NAME: usize = 128;
    const PASSWORD: usize = 256;
    let left = text.get(..at).unwrap_or_default();
    if !left.last().is_some_and(u8::is_ascii_alphanumeric) {
        return Step::No;
    }
    let from = at + 3;
    let rest = text.get(from..).unwrap_or_default();
    let near = rest.get(..=NAME).unwrap_or(rest);
    let name = near.iter().position(|byte| NAME_END.has(*byte));
    let Some(name) = name else {
        return if rest.len() <= NAME && !last {
            Step::More
        } else {
            Step::No
        };
    };
    if rest.get(name) != Some(&b':') {
        return Step::No;
    }
    let password = rest.get(name + 1..).unwrap_or_default();
    let near = password.get(..=PASSWORD).unwrap_or(password);
    let Some(count) = near.iter().position(|byte| PASSWORD_END.has(*byte)) else {
        return if password.len() <= PASSWORD && !last {
            Step::More
        } else {
            Step::No
        };
    };
    let secret = password.get(..count).unwrap_or_default();
    let begin = from + name + 1;
    if password.get(count) == Some(&b'@') && count >= 3 && is_password(secret) {
        Step::Found(begin..begin + count)
    } else {
        Step::No
    }
}

/// One value of `name=value;name=value` or `?name=value&name=value`.
fn connection(text: &[u8], at: usize, last: bool) -> Step {
    const MOST: usize = 128;
    let left = text.get(..at).unwrap_or_default();
    let before = left.last().copied().unwrap_or(b' ');
    let begin = at + memchr::memchr(b'=', text.get(at..).unwrap_or_default()).unwrap_or(0) + 1;
    let rest = text.get(begin..).unwrap_or_default();
    let near = rest.get(..=MOST).unwrap_or(rest);
    let count = near.iter().position(|byte| SETTING_END.has(*byte));
    let count = match count {
        Some(count) => count,
        None if rest.len() > MOST => return Step::No,
        None if last => rest.len(),
        None => return Step::More,
    };
    // Second condition: it is one of several settings.
    let after = rest.get(count).copied().unwrap_or(b' ');
    let settings = before == b';' || (after == b';' && before != b'.') || b"?&".contains(&before);
    let secret = rest.get(..count).unwrap_or_default();
    if settings && count >= 6 && is_password(secret) && !secret.contains(&b'(') {
        Step::Found(begin..begin + count)
    } else {
        Step::No
    }
}

/// `machine host login name password word`, in any spacing.
fn netrc(text: &[u8], at: usize, last: bool) -> Step {
    let mut words = Words {
        text,
        at: at + "machine".len(),
        last,
    };
    if !at_edge(text.get(..at).unwrap_or_default()) {
        return Step::No;
    }
    let wanted = [None, Some(&b"login"[..]), None, Some(b"password")];
    for want in wanted {
        match words.next() {
            Ok(Some((_, word))) if want.is_none_or(|want| want == word) => {}
            Ok(_) => return Step::No,
            Err(()) => return Step::More,
        }
    }
    match words.next() {
        Ok(Some((begin, word))) if is_password(word) => Step::Found(begin..begin + word.len()),
        Ok(_) => Step::No,
        Err(()) => Step::More,
    }
}

/// Words between blanks.
struct Words<'t> {
    text: &'t [u8],
    at: usize,
    last: bool,
}

impl<'t> Words<'t> {
    /// The next word and where it stands; an error where the text ends too early to tell.
    fn next(&mut self) -> Result<Option<(usize, &'t [u8])>, ()> {
        const GAP: usize = 64;
        const WORD: usize = 256;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let gap = BLANK.run(rest, GAP + 1);
        let word = rest.get(gap..).unwrap_or_default();
        let count = word.iter().take(WORD + 1).position(|byte| BLANK.has(*byte));
        let count = match count {
            None if word.len() > WORD => return Ok(None),
            None if !self.last => return Err(()),
            None => word.len(),
            Some(count) => count,
        };
        if gap == 0 || gap > GAP || count == 0 {
            return Ok(None);
        }
        let begin = self.at + gap;
        self.at = begin + count;
        Ok(Some((begin, word.get(..count).unwrap_or_default())))
    }
}

/// A line that sets `username`, and right after it one that sets `password`: that of `.pypirc` and
/// files like it. The password must be more than a word, for such lines stand in manuals, too.
fn login(text: &[u8], at: usize, last: bool) -> Step {
    const LINE: usize = 200;
    let left = text.get(..at).unwrap_or_default();
    let indent = left.len() - SPACE.run_back(left, 64);
    if indent > 0 && text.get(indent - 1) != Some(&b'\n') {
        return Step::No;
    }
    let line = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        let near = rest.get(..LINE).unwrap_or(rest);
        match memchr::memchr(b'\n', near) {
            Some(end) => Ok(Some((near.get(..end).unwrap_or_default(), from + end + 1))),
            None if rest.len() >= LINE => Ok(None),
            None if last => Ok(Some((near, from + near.len()))),
            None => Err(()),
        }
    };
    let (first, next) = match line(at) {
        Ok(Some(found)) => found,
        Ok(None) => return Step::No,
        Err(()) => return Step::More,
    };
    if setting(first, b"username").is_none() {
        return Step::No;
    }
    let (second, _) = match line(next) {
        Ok(Some(found)) => found,
        Ok(None) => return Step::No,
        Err(()) => return Step::More,
    };
    let indent = SPACE.run(second, 64);
    let Some(value) = setting(second.get(indent..).unwrap_or_default(), b"password") else {
        return Step::No;
    };
    let begin = next + memmem::find(second, value).unwrap_or(0);
    if is_strong(value) {
        Step::Found(begin..begin + value.len())
    } else {
        Step::No
    }
}

/// The value of `name = value` or `name: value`, without quotes and blanks.
fn setting<'t>(line: &'t [u8], name: &[u8]) -> Option<&'t [u8]> {
    let (head, rest) = line.split_at_checked(name.len())?;
    let rest = rest.trim_ascii_start();
    let (sign, value) = rest.split_first()?;
    let value = value.trim_ascii();
    let quote = |byte: &u8| b"\"'".contains(byte);
    let value = match value {
        [open, inner @ .., close] if quote(open) && open == close => inner,
        other => other,
    };
    let plain = !value
        .iter()
        .any(|byte| BLANK.has(*byte) || b"(){}[]".contains(byte));
    let named = head.eq_ignore_ascii_case(name) && b":=".contains(sign);
    (named && plain && !value.is_empty()).then_some(value)
}

const _: () = assert!(LONGEST > 3 * 8 * 1024);
