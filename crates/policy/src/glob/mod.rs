//! Path globs with gitignore meaning, over normalised workspace-relative paths.
//!
//! A glob without a `/` (but for a trailing one) applies at any depth, with one it is anchored to
//! the workspace root; a glob that matches a directory matches everything below it; `**` is any
//! number of components, at the end at least one; a trailing `/` asks for a directory; `!`
//! excludes, and an excluding glob wins whatever the order. Braces, named classes, `..` and
//! escapes of plain letters are refused, so that nothing is silently read as something else.
//!
//! Matching compares whole components, so no wildcard can cross `/`, and costs at most the length
//! of the path times that of the glob. It is case-sensitive and knows nothing of the file system:
//! whether a path is a directory is decided by [`Leaf`].
//!
//! Invariant: [`check`] accepts exactly the texts [`PathGlobs::parse`] compiles.

mod component;
mod error;
mod leads;
mod letters;

pub(crate) use component::Component;
pub use error::GlobError;

use airlock_core::limits;
use component::shown;
use leads::Leads;
use letters::Letters;

/// What to assume of a path's last component where a glob asks for a directory: nobody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// It is none: what an allow must assume.
    File,
    /// It may be one: what a denial must assume.
    Directory,
}

impl Leaf {
    const fn opposite(self) -> Self {
        match self {
            Self::File => Self::Directory,
            Self::Directory => Self::File,
        }
    }
}

/// Checks one glob of a policy file, with its leading `!` if it has one.
pub(crate) fn check(text: &str) -> Result<(), GlobError> {
    Glob::parse(text).map(|_| ())
}

/// One compiled glob, without its `!`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Glob {
    /// Runs of components between `**`s, each found leftmost after the one before.
    segments: Vec<Vec<Component>>,
    /// Whether the first segment begins at the root.
    anchored: bool,
    /// Whether it ends with `/`.
    directory: bool,
    /// `**` alone: everything, the root included.
    everything: bool,
    /// What a path begins with, and goes on after, that matches: `src/` of `src/**`.
    below: Option<Box<str>>,
    /// What a path must have to match.
    needs: Letters,
}

impl Glob {
    /// Reads a glob, and whether it excludes.
    fn parse(text: &str) -> Result<(Self, bool), GlobError> {
        check_text(text)?;
        let (body, excludes) = match text.strip_prefix('!') {
            Some(body) => (body, true),
            None => (text, false),
        };
        if body.starts_with('~') {
            return Err(GlobError::Home(shown(text)));
        }
        let (body, rooted) = strip(body, |body| body.strip_prefix('/'));
        let (body, directory) = strip(body, |body| body.strip_suffix('/'));
        if body.is_empty() {
            return Err(GlobError::Empty);
        }
        let components = split(body, text)?;
        let anchored = rooted || components.len() > 1;
        Self::assemble(&components, anchored, directory, text).map(|glob| (glob, excludes))
    }

    fn assemble(
        components: &[&str],
        anchored: bool,
        directory: bool,
        text: &str,
    ) -> Result<Self, GlobError> {
        let everything = !directory && components.iter().all(|component| *component == "**");
        let mut segments = vec![Vec::new()];
        let mut first_anchored = anchored;
        let last = components.len() - 1;
        for (position, component) in components.iter().enumerate() {
            let begun = segments.last().is_some_and(|segment| !segment.is_empty());
            if *component != "**" {
                let component = Component::parse(component, text)?;
                if let Some(segment) = segments.last_mut() {
                    segment.push(component);
                }
            } else if position == last {
                // Everything below: one name suffices, what is under it follows by itself.
                if let Some(segment) = segments.last_mut() {
                    segment.push(Component::Any);
                }
            } else if begun {
                segments.push(Vec::new());
            } else if segments.len() == 1 {
                first_anchored = false;
            }
        }
        let needs = (segments.iter().flatten())
            .map(Letters::needed_by)
            .fold(Letters::default(), Letters::and);
        let mut glob = Self {
            segments,
            anchored: first_anchored,
            directory,
            everything,
            below: None,
            needs,
        };
        glob.below = glob.plainly_below();
        Ok(glob)
    }

    /// The directory that such a glob is all about.
    fn plainly_below(&self) -> Option<Box<str>> {
        let [segment] = self.segments.as_slice() else {
            return None;
        };
        let (Component::Any, names) = segment.split_last()? else {
            return None;
        };
        let all_plain = !names.is_empty() && self.prefix().count() == names.len();
        let wanted = all_plain && !self.directory;
        wanted.then(|| self.prefix().flat_map(|name| [name, "/"]).collect())
    }

    /// Whether `path`, or a directory above it, matches.
    pub(crate) fn matches(&self, path: PathText<'_>, leaf: Leaf) -> bool {
        if self.everything {
            return true;
        }
        if let Some(below) = &self.below {
            let inside = path.as_bytes().strip_prefix(below.as_bytes());
            return inside.is_some_and(|rest| !rest.is_empty());
        }
        // No name has a `/`, so what is in a path is in one of its names.
        if let ([segment], false, false) = (&*self.segments, self.anchored, self.directory)
            && let [Component::Inner(inner)] = &**segment
        {
            return component::holds(path.as_bytes(), inner.as_bytes());
        }
        let mut names = path.components();
        let mut anchored = self.anchored;
        for segment in &self.segments {
            let found = if anchored {
                begins(names.clone(), segment)
            } else {
                find(names, segment)
            };
            match found {
                Some(rest) => names = rest,
                None => return false,
            }
            anchored = false;
        }
        // INVARIANT: each segment was found leftmost, so `names` holds as much of the path as it
        // can; what is left lies below the match, which is then a directory.
        !self.directory || leaf == Leaf::Directory || names.next().is_some()
    }

    /// The literal names an anchored glob begins with; empty for one that floats.
    pub(crate) fn prefix(&self) -> impl Iterator<Item = &str> {
        let first = self.segments.first().filter(|_| self.anchored);
        first
            .into_iter()
            .flatten()
            .map_while(|component| match component {
                Component::Literal(name) => Some(&**name),
                Component::Any
                | Component::Suffix(_)
                | Component::Prefix(_)
                | Component::Inner(_)
                | Component::Wild(_) => None,
            })
    }

    /// The first component of a glob that applies at any depth.
    pub(crate) fn floating(&self) -> Option<&Component> {
        let first = self.segments.first().filter(|_| !self.anchored)?;
        first.first().filter(|_| !self.everything)
    }

    /// Whether it is `**`.
    pub(crate) const fn is_everything(&self) -> bool {
        self.everything
    }

    /// Whether every path that matches `other` certainly matches this, seen by a denial.
    ///
    /// Knows equal globs, `**`, and literal directories above `other`; anything cleverer is `false`.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if self.everything || self == other {
            return true;
        }
        let (own, [segment]) = (self.prefix().count(), self.segments.as_slice()) else {
            return false;
        };
        let below = matches!(segment.get(own), Some(Component::Any)) && segment.len() == own + 1;
        let whole = own > 0 && !self.directory && (segment.len() == own || below);
        let depth: usize = other.segments.iter().map(Vec::len).sum();
        whole
            && depth >= own + usize::from(below)
            && other.prefix().count() >= own
            && self.prefix().zip(other.prefix()).all(|(a, b)| a == b)
    }
}

/// A path as globs see it: `/` between names, none at the front, empty for the root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathText<'a>(&'a str);

impl<'a> PathText<'a> {
    /// A workspace path, or an absolute one as if it lay below the root.
    #[inline]
    pub(crate) fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('/').unwrap_or(text);
        Self(if text == "." { "" } else { text })
    }

    /// The whole of it.
    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// Its names from the top.
    #[inline]
    pub(crate) fn components(self) -> Names<'a> {
        Names(Some(self.0).filter(|text| !text.is_empty()))
    }
}

/// A path whose letters were taken stock of, for who asks several lists about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scanned<'a> {
    path: PathText<'a>,
    letters: Letters,
}

impl<'a> Scanned<'a> {
    #[inline]
    pub(crate) fn new(path: PathText<'a>) -> Self {
        let letters = Letters::of(path.as_bytes());
        Self { path, letters }
    }
}

/// The names of a path that are still to come.
#[derive(Debug, Clone)]
pub(crate) struct Names<'a>(Option<&'a str>);

impl<'a> Iterator for Names<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0?;
        // Names are short, where a plain loop beats the standard search.
        let end = rest.bytes().position(|byte| byte == b'/');
        let Some((name, after)) = end.and_then(|end| rest.split_at_checked(end)) else {
            self.0 = None;
            return Some(rest);
        };
        self.0 = after.get(1..);
        Some(name)
    }
}

fn begins<'a>(mut names: Names<'a>, segment: &[Component]) -> Option<Names<'a>> {
    for component in segment {
        if !component.matches(names.next()?) {
            return None;
        }
    }
    Some(names)
}

fn find<'a>(mut names: Names<'a>, segment: &[Component]) -> Option<Names<'a>> {
    loop {
        if let Some(rest) = begins(names.clone(), segment) {
            return Some(rest);
        }
        names.next()?;
    }
}

/// A list of globs: some including, some excluding.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathGlobs {
    includes: Vec<Glob>,
    excludes: Vec<Glob>,
    leads: Option<Box<Leads>>,
}

impl PathGlobs {
    /// Compiles every glob, or says which one is none.
    pub(crate) fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, GlobError> {
        let (mut includes, mut excludes) = (Vec::new(), Vec::new());
        for text in texts {
            let (glob, excluding) = Glob::parse(text.as_ref())?;
            if excluding {
                excludes.push(glob);
            } else {
                includes.push(glob);
            }
        }
        let leads = Leads::of(&includes);
        Ok(Self {
            includes,
            excludes,
            leads,
        })
    }

    /// Whether an including glob matches and no excluding one does.
    pub(crate) fn matches(&self, path: PathText<'_>, leaf: Leaf) -> bool {
        // Taking stock of the letters pays only if it spares something.
        if let [one] = self.includes.as_slice() {
            return one.matches(path, leaf) && !self.excluded(path, leaf);
        }
        self.matches_scanned(Scanned::new(path), leaf)
    }

    /// The same of a path that was scanned.
    pub(crate) fn matches_scanned(
        &self,
        Scanned { path, letters }: Scanned<'_>,
        leaf: Leaf,
    ) -> bool {
        let possible = |glob: &Glob| glob.needs.are_in(letters) && glob.matches(path, leaf);
        let included = self.leads.as_ref().map_or_else(
            || self.includes.iter().any(possible),
            |leads| leads.any(&self.includes, path, leaf),
        );
        included && !self.excluded(path, leaf)
    }

    fn excluded(&self, path: PathText<'_>, leaf: Leaf) -> bool {
        let mut excludes = self.excludes.iter();
        excludes.any(|glob| glob.matches(path, leaf.opposite()))
    }

    /// How many globs there are.
    pub(crate) fn len(&self) -> usize {
        self.includes.len() + self.excludes.len()
    }

    /// The including globs.
    pub(crate) fn includes(&self) -> &[Glob] {
        &self.includes
    }

    /// Whether there are excluding globs and no including one: such a list never matches.
    pub(crate) fn only_excludes(&self) -> bool {
        self.includes.is_empty() && !self.excludes.is_empty()
    }

    /// Whether every path that matches `other` certainly matches this, seen by a denial.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let covered = |glob: &Glob| self.includes.iter().any(|own| own.covers(glob));
        // A directory-only exclusion is read more widely for an allow than for a denial, so an
        // exclusion both lists have never takes anything from the denial alone.
        other.includes.iter().all(covered)
            && self
                .excludes
                .iter()
                .all(|glob| other.excludes.contains(glob))
    }
}

fn strip<'a>(text: &'a str, by: impl Fn(&'a str) -> Option<&'a str>) -> (&'a str, bool) {
    by(text).map_or((text, false), |rest| (rest, true))
}

fn check_text(text: &str) -> Result<(), GlobError> {
    if text.is_empty() {
        return Err(GlobError::Empty);
    }
    if text.len() > limits::PATH_BYTES {
        return Err(GlobError::TooLong);
    }
    if text.contains('\0') {
        return Err(GlobError::Nul);
    }
    let space_at_end = text.ends_with(char::is_whitespace) && !text.ends_with("\\ ");
    if text.starts_with(char::is_whitespace) || space_at_end {
        return Err(GlobError::SurroundingSpace(shown(text)));
    }
    Ok(())
}

/// Splits at every `/`, and refuses components that no normalised path has.
fn split<'a>(body: &'a str, text: &str) -> Result<Vec<&'a str>, GlobError> {
    let components: Vec<&str> = body.split('/').collect();
    for (position, component) in components.iter().enumerate() {
        let followed = position + 1 < components.len();
        match *component {
            "" | "." => return Err(GlobError::EmptyComponent(shown(text))),
            ".." => return Err(GlobError::Parent(shown(text))),
            name if followed && leaves_class_open(name) => {
                return Err(GlobError::SlashInClass(shown(text)));
            }
            _ => {}
        }
    }
    let is_drive =
        |name: &&str| matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if components.first().is_some_and(is_drive) {
        return Err(GlobError::Drive(shown(text)));
    }
    Ok(components)
}

/// Whether a class is still open where the component ends: the `/` after it stood inside.
fn leaves_class_open(name: &str) -> bool {
    let mut open = false;
    let mut chars = name.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                chars.next();
            }
            '[' if !open => {
                open = true;
                // A `]` right after the opening (and its negation) is a member, not the end.
                let mut ahead = chars.clone();
                let first = ahead.next();
                let member = if matches!(first, Some('!' | '^')) {
                    ahead.next()
                } else {
                    first
                };
                if member == Some(']') {
                    chars = ahead;
                }
            }
            ']' => open = false,
            _ => {}
        }
    }
    open
}

#[cfg(test)]
mod tests;
