//! Reads a patch.

use super::names::{Header, header_name, unquoted, without_prefixes};
use super::{FilePatch, Hunk, Kind, Line};

/// Most files one patch may change.
const FILES: usize = 200;

/// Why a text is no patch that could be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::process::files) enum ParseError {
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("there is no change in it")]
    Empty,
    #[error("it changes more than {FILES} files")]
    TooMany,
    #[error("`{path}` is changed twice")]
    Twice { path: String },
}

impl ParseError {
    pub(in crate::process::files) const fn hint(&self) -> &'static str {
        match self {
            Self::Line { .. } | Self::Empty => {
                "give a unified diff: `--- a/FILE`, `+++ b/FILE`, `@@ -1,3 +1,4 @@`, then the lines"
            }
            Self::TooMany => "apply it in parts",
            Self::Twice { .. } => "put all hunks of a file under one header",
        }
    }
}

/// Reads `text` as a unified diff, with or without git's extended headers.
pub(in crate::process::files) fn parse(text: &str) -> Result<Vec<FilePatch>, ParseError> {
    let mut reader = Reader {
        lines: text.split_inclusive('\n').collect(),
        at: 0,
    };
    let mut files: Vec<FilePatch> = Vec::new();
    while let Some(file) = reader.file()? {
        if files.len() == FILES {
            return Err(ParseError::TooMany);
        }
        let names = |file: &FilePatch| [file.from.clone(), file.to.clone()];
        let taken = |name: &String| {
            files
                .iter()
                .flat_map(names)
                .flatten()
                .any(|one| one == *name)
        };
        if let Some(path) = names(&file).into_iter().flatten().find(taken) {
            return Err(ParseError::Twice { path });
        }
        files.push(file);
    }
    if files.is_empty() {
        return Err(ParseError::Empty);
    }
    Ok(files)
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

/// What git's extended headers say of a file.
#[derive(Default)]
struct Extended {
    begun: bool,
    renamed_from: Option<String>,
    renamed_to: Option<String>,
    created: bool,
    deleted: bool,
    executable: Option<bool>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The line without its end.
    fn bare(line: &str) -> &str {
        let line = line.strip_suffix('\n').unwrap_or(line);
        line.strip_suffix('\r').unwrap_or(line)
    }

    fn wrong(&self, what: impl Into<String>) -> ParseError {
        ParseError::Line {
            line: self.at + 1,
            what: what.into(),
        }
    }

    /// The next file, if there is one.
    fn file(&mut self) -> Result<Option<FilePatch>, ParseError> {
        let mut extended = Extended::default();
        while let Some(line) = self.peek() {
            let bare = Self::bare(line);
            if bare.starts_with("--- ") {
                return self.named(&extended).map(Some);
            }
            if bare.starts_with("diff --git ") && extended.begun {
                // The file before had headers and no hunks.
                break;
            }
            if bare.starts_with("@@ ") {
                return Err(self.wrong("a hunk stands before any `---` and `+++`"));
            }
            if bare == "GIT binary patch" || bare.starts_with("Binary files ") {
                return Err(self.wrong("binary files cannot be patched"));
            }
            self.extended(bare, &mut extended)?;
            self.at += 1;
        }
        self.without_hunks(extended)
    }

    fn extended(&self, line: &str, extended: &mut Extended) -> Result<(), ParseError> {
        let name = |text: &str| {
            let name = if text.starts_with('"') {
                unquoted(text)
            } else {
                Some(text.to_owned())
            };
            name.ok_or_else(|| self.wrong("a quoted name that is none"))
        };
        let mode = |text: &str| match text {
            "100644" => Ok(Some(false)),
            "100755" => Ok(Some(true)),
            _ => Err(self.wrong(format!("`{text}` is not the mode of a regular file"))),
        };
        if line.starts_with("diff --git ") {
            extended.begun = true;
        } else if let Some(text) = line.strip_prefix("rename from ") {
            extended.renamed_from = Some(name(text)?);
        } else if let Some(text) = line.strip_prefix("rename to ") {
            extended.renamed_to = Some(name(text)?);
        } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
            return Err(self.wrong("copies cannot be patched"));
        } else if let Some(text) = line.strip_prefix("new file mode ") {
            extended.created = true;
            extended.executable = mode(text)?;
        } else if let Some(text) = line.strip_prefix("new mode ") {
            extended.executable = mode(text)?;
        } else if let Some(text) = line.strip_prefix("deleted file mode ") {
            extended.deleted = true;
            mode(text)?;
        }
        Ok(())
    }

    /// A rename without any changed line; everything else without hunks is no change.
    fn without_hunks(&self, extended: Extended) -> Result<Option<FilePatch>, ParseError> {
        match (extended.renamed_from, extended.renamed_to) {
            (Some(from), Some(to)) => Ok(Some(FilePatch {
                from: Some(from),
                to: Some(to),
                hunks: Vec::new(),
                executable: extended.executable,
            })),
            (None, None) if !extended.begun => Ok(None),
            _ => {
                Err(self
                    .wrong("a file without hunks: empty files and modes alone cannot be patched"))
            }
        }
    }

    fn named(&mut self, extended: &Extended) -> Result<FilePatch, ParseError> {
        let from = self.name("--- ")?;
        let to = self.name("+++ ")?;
        let (mut from, mut to) = without_prefixes(from, to);
        if extended.renamed_from.is_some() && extended.renamed_to.is_some() {
            from.clone_from(&extended.renamed_from);
            to.clone_from(&extended.renamed_to);
        }
        if (extended.created && from.is_some()) || (extended.deleted && to.is_some()) {
            return Err(self.wrong("its headers do not agree on whether the file is there"));
        }
        if from.is_none() && to.is_none() {
            return Err(self.wrong("neither side names a file"));
        }
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with("@@ ")) {
            hunks.push(self.hunk()?);
        }
        if hunks.is_empty() {
            return Err(self.wrong("no hunk follows"));
        }
        Ok(FilePatch {
            from,
            to,
            hunks,
            executable: extended.executable,
        })
    }

    fn name(&mut self, prefix: &str) -> Result<Option<String>, ParseError> {
        let line = self.peek().map(Self::bare).unwrap_or_default();
        let text = line.strip_prefix(prefix);
        let text = text.ok_or_else(|| self.wrong(format!("expected `{}`", prefix.trim_end())))?;
        let name = header_name(text).ok_or_else(|| self.wrong("no name of a file"))?;
        self.at += 1;
        Ok(match name {
            Header::Named(name) => Some(name),
            Header::Nothing => None,
        })
    }

    fn hunk(&mut self) -> Result<Hunk, ParseError> {
        let header = self.peek().map(Self::bare).unwrap_or_default();
        let ranges = ranges(header).ok_or_else(|| self.wrong("not a hunk header"))?;
        let ((old_start, old_lines), (_, new_lines)) = ranges;
        let mut hunk = Hunk {
            at: self.at + 1,
            old_start,
            old_lines,
            lines: Vec::new(),
        };
        self.at += 1;
        let (mut old, mut new) = (old_lines, new_lines);
        while old > 0 || new > 0 {
            let line = self.line()?;
            let spent = |left: &mut usize| match left.checked_sub(1) {
                Some(less) => {
                    *left = less;
                    true
                }
                None => false,
            };
            let fits = match line.kind {
                Kind::Same => spent(&mut old) && spent(&mut new),
                Kind::Removed => spent(&mut old),
                Kind::Added => spent(&mut new),
            };
            if !fits {
                return Err(self.wrong("the hunk has more lines than its header says"));
            }
            hunk.lines.push(line);
            self.at += 1;
            self.no_newline(&mut hunk);
        }
        Ok(hunk)
    }

    fn line(&self) -> Result<Line, ParseError> {
        let short = || self.wrong("the hunk has fewer lines than its header says");
        let line = self.peek().ok_or_else(short)?;
        // A blank line that lost its leading space still is one.
        let whole = if matches!(line, "\n" | "\r\n") {
            format!(" {line}")
        } else {
            line.to_owned()
        };
        let mut characters = whole.chars();
        let kind = match characters.next() {
            Some(' ') => Kind::Same,
            Some('-') => Kind::Removed,
            Some('+') => Kind::Added,
            Some(_) | None => return Err(short()),
        };
        let mut text = characters.as_str().to_owned();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(Line { kind, text })
    }

    /// Takes the mark that the line before has no end.
    fn no_newline(&mut self, hunk: &mut Hunk) {
        if self.peek().is_some_and(|line| line.starts_with("\\ ")) {
            self.at += 1;
            if let Some(last) = hunk.lines.last_mut() {
                last.text.pop();
            }
        }
    }
}

type Range = (usize, usize);

/// `@@ -1,3 +1,4 @@`, perhaps with more behind.
fn ranges(header: &str) -> Option<(Range, Range)> {
    let inner = header.strip_prefix("@@ -")?;
    let (old, rest) = inner.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    Some((range(old)?, range(new)?))
}

fn range(text: &str) -> Option<Range> {
    let number = |text: &str| {
        text.parse::<u32>()
            .ok()
            .and_then(|n| usize::try_from(n).ok())
    };
    match text.split_once(',') {
        Some((start, count)) => Some((number(start)?, number(count)?)),
        None => Some((number(text)?, 1)),
    }
}
