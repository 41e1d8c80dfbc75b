//! Names nobody may change unnoticed, recognised however a file system lets them be spelt.
//!
//! File systems fold case, drop trailing dots and spaces, ignore invisible characters, take
//! `name::$DATA` for `name` and `GIT~1` for `.git`. A name that any of them would open as a
//! protected one counts as it: over-matching asks for one review too many, under-matching gives
//! the machine away.

use crate::glob::PathText;
use airlock_core::{PathError, RequestPath, is_ignorable};

/// A place in a tree, at any depth, inside the workspace or out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// This name and everything below it.
    Named(&'static str),
    /// These names in a row, and everything below them.
    Sequence(&'static [&'static str]),
    /// The second name anywhere below the first, and everything below it.
    Under(&'static str, &'static str),
    /// A path that ends with this name.
    Last(&'static str),
    /// The second name anywhere below one that ends in the first, and everything below it.
    Ending(&'static str, &'static str),
}

impl Shape {
    fn lead(&self) -> &'static str {
        match self {
            Self::Named(name) | Self::Under(name, _) | Self::Last(name) | Self::Ending(name, _) => {
                name
            }
            Self::Sequence(names) => names.first().copied().unwrap_or_default(),
        }
    }

    /// Whether `name` is what it begins with.
    fn begins(&self, name: &str, same: SameName) -> bool {
        match self {
            Self::Named(_) | Self::Under(..) | Self::Last(_) | Self::Sequence(_) => {
                same(name, self.lead())
            }
            Self::Ending(end, _) => ends_like(name, end, same),
        }
    }

    /// Whether `path` lies there; `same` compares names the way the path needs.
    pub(super) fn holds(&self, path: PathText<'_>, same: SameName) -> bool {
        let mut names = path.components();
        while let Some(name) = names.next() {
            if !self.begins(name, same) {
                continue;
            }
            let mut rest = names.clone();
            let found = match self {
                Self::Named(_) => true,
                Self::Last(_) => rest.next().is_none(),
                Self::Under(_, wanted) | Self::Ending(_, wanted) => {
                    rest.any(|name| same(name, wanted))
                }
                Self::Sequence(wanted) => wanted
                    .iter()
                    .skip(1)
                    .all(|wanted| rest.next().is_some_and(|name| same(name, wanted))),
            };
            if found {
                return true;
            }
        }
        false
    }
}

/// Where Airlock keeps what no agent may touch: databases, keys, its own binaries.
#[derive(Debug, Clone, Default)]
pub struct Protected {
    absolute: Vec<Box<str>>,
    inside: Vec<Box<str>>,
}

impl Protected {
    /// Protects every absolute path of `paths` and all below it. `root` is the absolute root of
    /// the workspace, which may itself hold a protected path or lie within one.
    pub fn new<'a>(
        root: &str,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, PathError> {
        let mut protected = Self::default();
        for path in paths {
            // Normalised as requests are, so that both speak of the same names.
            let whole = RequestPath::parse(path, root)?;
            let absolute = whole.absolute(root);
            let within = Self::starts_with(root, &absolute);
            match whole.inside() {
                Some(inside) => protected.inside.push(inside.as_str().into()),
                None if within => protected.inside.push(".".into()),
                None => {}
            }
            protected.absolute.push(absolute.into());
        }
        Ok(protected)
    }

    /// Whether changing `path` would change something protected: it lies below, or holds it.
    pub(super) fn touches(&self, path: &RequestPath) -> bool {
        let (own, text) = match path {
            RequestPath::Inside(path) => (&self.inside, path.as_str()),
            RequestPath::Outside(path) => (&self.absolute, &**path),
        };
        own.iter()
            .any(|kept| Self::starts_with(text, kept) || Self::starts_with(kept, text))
    }

    fn starts_with(path: &str, prefix: &str) -> bool {
        let mut names = PathText::new(path).components();
        PathText::new(prefix)
            .components()
            .all(|wanted| names.next().is_some_and(|name| same_name(name, wanted)))
    }
}

/// The first names of many shapes, by the byte they begin with in lowercase: most names of a
/// harmless path begin like none of them. Those of which the end counts, by the byte they end with.
#[derive(Debug, Default)]
pub(super) struct Leads {
    begin: Vec<Vec<&'static str>>,
    end: Vec<Vec<&'static str>>,
    at: Ends,
}

/// Whether a name that begins, or ends, with a byte is worth a look.
#[derive(Debug)]
struct Ends {
    begin: [bool; 256],
    end: [bool; 256],
}

impl Default for Ends {
    fn default() -> Self {
        Self {
            begin: [false; 256],
            end: [false; 256],
        }
    }
}

impl Ends {
    fn of(begin: &[Vec<&'static str>], end: &[Vec<&'static str>]) -> Self {
        let mut ends = Self::default();
        for byte in 0..=u8::MAX {
            let at = usize::from(byte);
            let folded = usize::from(byte.to_ascii_lowercase());
            let any = |leads: &[Vec<&str>]| leads.get(folded).is_some_and(|all| !all.is_empty());
            if let (Some(begins), Some(closes)) = (ends.begin.get_mut(at), ends.end.get_mut(at)) {
                *begins = any(begin);
                *closes = any(end) || fades(byte);
            }
        }
        ends
    }

    /// Whether `name`, which is not empty, is worth a look.
    fn tell(&self, name: &[u8]) -> bool {
        let told = |table: &[bool; 256], byte: Option<&u8>| {
            byte.is_some_and(|byte| table.get(usize::from(*byte)).is_some_and(|told| *told))
        };
        told(&self.begin, name.first()) || told(&self.end, name.last())
    }
}

impl Leads {
    pub(super) fn of<'a>(shapes: impl Iterator<Item = &'a Shape>) -> Self {
        let mut begin = vec![Vec::new(); 256];
        let mut end = vec![Vec::new(); 256];
        for shape in shapes {
            let lead = shape.lead();
            let same = match shape {
                Shape::Ending(..) => end.get_mut(last(lead)),
                Shape::Named(_) | Shape::Sequence(_) | Shape::Under(..) | Shape::Last(_) => {
                    begin.get_mut(initial(lead))
                }
            };
            if let Some(same) = same
                && !same.contains(&lead)
            {
                same.push(lead);
            }
        }
        let at = Ends::of(&begin, &end);
        Self { begin, end, at }
    }

    /// Whether some name of `path` might begin a shape. Never `false` for a path a shape holds.
    pub(super) fn might_hold(&self, path: PathText<'_>) -> bool {
        let mut names = path.components();
        !has_plain_bytes(path.as_bytes())
            || names
                .any(|name| self.at.tell(name.as_bytes()) && (ends_faded(name) || self.has(name)))
    }

    fn has(&self, name: &str) -> bool {
        let listed = |leads: &[Vec<&'static str>], at: usize, same: &dyn Fn(&str) -> bool| {
            leads
                .get(at)
                .is_some_and(|all| all.iter().any(|lead| same(lead)))
        };
        listed(&self.begin, initial(name), &|lead| {
            lead.eq_ignore_ascii_case(name)
        }) || listed(&self.end, last(name), &|lead| {
            ends_like(name, lead, str::eq_ignore_ascii_case)
        })
    }
}

/// What a name begins with, in lowercase.
fn initial(name: &str) -> usize {
    let first = name.bytes().next().unwrap_or_default();
    first.to_ascii_lowercase().into()
}

/// What a name ends with, in lowercase.
fn last(name: &str) -> usize {
    let last = name.bytes().next_back().unwrap_or_default();
    last.to_ascii_lowercase().into()
}

/// Whether `name` ends in `end`, which begins with its only dot.
fn ends_like(name: &str, end: &str, same: SameName) -> bool {
    let stem = stem(name);
    let tail = stem.rfind('.').and_then(|dot| stem.get(dot..));
    tail.is_some_and(|tail| same(tail, end))
}

/// Compares a name with a protected one.
pub(super) type SameName = fn(&str, &str) -> bool;

/// The comparison `path` needs: the cheap one if every name in it is plain.
pub(super) fn comparison(path: PathText<'_>) -> SameName {
    if has_plain_names(path) {
        str::eq_ignore_ascii_case
    } else {
        same_name
    }
}

/// Whether every name of `path` is plain.
fn has_plain_names(path: PathText<'_>) -> bool {
    has_plain_bytes(path.as_bytes()) && !path.components().any(ends_faded)
}

/// Whether all of `bytes` are ASCII, but for `~` and `:`. Looks at eight at a time.
fn has_plain_bytes(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    // Taking one from a byte that is zero, and from no other ASCII one, sets its highest bit.
    let has = |word: u64, byte: u8| {
        let same_is_zero = word ^ (ONES * u64::from(byte));
        same_is_zero.wrapping_sub(ONES) & !same_is_zero & HIGHS != 0
    };
    let (words, rest) = bytes.as_chunks();
    let plain = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        !((word & HIGHS != 0) | has(word, b'~') | has(word, b':'))
    };
    words.iter().all(plain) && rest.iter().all(|byte| is_plain_byte(*byte))
}

/// Whether a name ends in what some file systems drop there.
fn ends_faded(name: &str) -> bool {
    name.as_bytes().last().is_some_and(|byte| fades(*byte))
}

const fn fades(byte: u8) -> bool {
    matches!(byte, b'.' | b' ')
}

const fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii() && byte != b'~' && byte != b':'
}

/// Whether a name has only one spelling but for the case of its letters.
fn is_plain(name: &str) -> bool {
    has_plain_bytes(name.as_bytes()) && !ends_faded(name)
}

/// Whether some file system opens `name` as `wanted`.
pub(super) fn same_name(name: &str, wanted: &str) -> bool {
    if is_plain(name) && wanted.is_ascii() {
        return name.eq_ignore_ascii_case(wanted);
    }
    folded(name).eq(folded(wanted)) || is_short_form(name, wanted)
}

/// `name` without what some file systems drop at its end.
fn stem(name: &str) -> &str {
    let stem = name.split(':').next().unwrap_or(name);
    stem.trim_end_matches(|char| matches!(char, '.' | ' ') || is_ignorable(char))
}

fn folded(name: &str) -> impl Iterator<Item = char> {
    stem(name)
        .chars()
        .filter(|char| !is_ignorable(*char))
        // Both ways, because some letters fold only one way: the Kelvin sign, the long s.
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
}

/// `GIT~1` is how FAT and NTFS abbreviate `.git`: up to six letters, a tilde, a digit.
fn is_short_form(name: &str, wanted: &str) -> bool {
    let Some((head, tail)) = name.split_once('~') else {
        return false;
    };
    let stem = wanted.trim_start_matches('.').split('.').next();
    let six: String = stem.unwrap_or_default().chars().take(6).collect();
    tail.starts_with(|char: char| char.is_ascii_digit()) && head.eq_ignore_ascii_case(&six)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_a_file_system_accepts_is_the_same_name() {
        for name in [
            ".airlock",
            ".AIRLOCK",
            ".Airlock",
            ".airlock.",
            ".airlock. .",
            ".airlock::$INDEX_ALLOCATION",
            ".air\u{200c}lock",
            ".airlock\u{feff}",
            ".airloc\u{212a}",
            "AIRLOC~1",
            "airloc~2",
        ] {
            assert!(same_name(name, ".airlock"), "{name:?}");
        }
        assert!(same_name("hook\u{17f}", "hooks"));
        for name in [
            "airlock",
            ".airlock2",
            ".airloc",
            "x.airlock",
            "~1",
            "AIRLOC~x",
            ".",
            "",
        ] {
            assert!(!same_name(name, ".airlock"), "{name:?}");
        }
    }

    #[test]
    fn a_byte_that_is_not_plain_is_found_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for length in 1..=17 {
                for at in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    let plain = byte < 128 && byte != b'~' && byte != b':';
                    assert_eq!(has_plain_bytes(&bytes), plain, "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn a_path_is_plain_if_all_its_names_are() {
        for (path, plain) in [
            ("", true),
            ("src/main.rs", true),
            (".git/hooks", true),
            ("a/b.c/d", true),
            ("a/.b/ c", true),
            ("a./b", false),
            ("a /b", false),
            ("a/b.", false),
            ("a/b ", false),
            ("a/.../b", false),
            ("src/deep/GIT~1/hooks", false),
            ("a:b", false),
            ("a/\u{17f}", false),
        ] {
            assert_eq!(has_plain_names(PathText::new(path)), plain, "{path:?}");
        }
    }

    #[test]
    fn shapes_hold_at_any_depth_and_below_but_not_beside() {
        let holds = |shape: Shape, path: &str| shape.holds(PathText::new(path), same_name);
        let hooks = Shape::Under(".git", "hooks");
        assert!(holds(hooks, ".git/hooks/pre-commit"));
        assert!(holds(hooks, "vendor/.git/modules/x/hooks"));
        assert!(!holds(hooks, "hooks/.git"));
        assert!(!holds(hooks, "src/hooks/a"));
        let policy = Shape::Sequence(&[".airlock", "policy.yaml"]);
        assert!(holds(policy, "/home/u/p/.airlock/policy.yaml"));
        assert!(holds(policy, ".airlock/.airlock/policy.yaml"));
        assert!(!holds(policy, ".airlock/x/policy.yaml"));
        assert!(holds(Shape::Last(".git"), "sub/.git"));
        assert!(!holds(Shape::Last(".git"), ".git/index"));
        let bare = Shape::Ending(".git", "hooks");
        for path in [
            "x.git/hooks",
            "a/x.GIT/Hooks/b",
            "x.git./hooks",
            "x.git::$INDEX_ALLOCATION/hooks",
            "x.g\u{200d}it/hooks",
            ".git/hooks",
            "x.git/modules/y/hooks/b",
        ] {
            assert!(holds(bare, path), "{path}");
        }
        for path in [
            "x.git",
            "x.git/index",
            "x.git2/hooks",
            "git/hooks",
            "x.gi.t/hooks",
        ] {
            assert!(!holds(bare, path), "{path}");
        }
    }

    #[test]
    fn protected_paths_are_kept_from_above_below_and_within_the_workspace() {
        let kept = Protected::new(
            "/home/u",
            ["/home/u/.local/state/airlock/", "/usr/bin/airlock"],
        )
        .unwrap();
        for (path, want) in [
            ("/home/u/.local/state/airlock/audit.db", true),
            (".local/state/AIRLOCK/keys/a", true),
            (".local/state", true),
            (".local/share", false),
            ("/usr/bin/airlock", true),
            ("/usr/bin/../bin/airlock", true),
            ("/usr/bin", true),
            ("/usr/bin/airlock-other", false),
            ("src/main.rs", false),
        ] {
            let path = RequestPath::parse(path, "/home/u").unwrap();
            assert_eq!(kept.touches(&path), want, "{path}");
        }
        let around = Protected::new("/state/airlock/stages/x", ["/state/airlock"]).unwrap();
        let path = RequestPath::parse("a", "/state/airlock/stages/x").unwrap();
        assert!(around.touches(&path));
    }
}
