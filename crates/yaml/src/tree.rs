//! Text to a tree of values, each with its place.
//!
//! Only the part of YAML that means one thing: scalars, sequences, mappings. Anchors, aliases, tags,
//! merge keys and directives are refused, so a value means what it says where it stands and no file
//! grows in memory. Size, depth and number of nodes are checked before anything is stored.

use crate::problems::{Problems, Spot, code, shown};
use airlock_core::is_hidden;
use airlock_policy::Place;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, options};

/// Largest definition, in bytes.
pub const BYTES: usize = 256 * 1024;
/// Deepest nesting.
const DEPTH: usize = 32;
/// Most nodes of one document.
const NODES: usize = 20_000;

/// One value with its place.
#[derive(Debug)]
pub struct Node {
    /// Where it stands.
    pub spot: Spot,
    /// What it holds.
    pub tree: Tree,
}

/// What a node holds.
#[derive(Debug)]
pub enum Tree {
    /// Text, and whether it stood without quotes.
    Scalar {
        /// The text.
        text: String,
        /// Whether it stood without quotes.
        plain: bool,
    },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// One pair of a mapping.
#[derive(Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub spot: Spot,
    /// The value.
    pub value: Node,
}

/// The text of `bytes`, if it is one that a reviewer sees as it is.
pub fn text<'a>(bytes: &'a [u8], problems: &mut Problems) -> Option<&'a str> {
    let start = Spot {
        place: Place { line: 1, column: 1 },
        length: 1,
    };
    if bytes.len() > BYTES {
        let what = format!("the file has {} bytes; the limit is {BYTES}", bytes.len());
        problems.error(code::TOO_LARGE, start, what, "split it");
        return None;
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        problems.error(
            code::CHARACTER,
            start,
            "the file is not UTF-8",
            "save it as UTF-8",
        );
        return None;
    };
    let (mut line, mut column, mut before) = (1, 0, '\n');
    for c in text.chars() {
        if before == '\n' {
            column = 0;
        }
        column += 1;
        let stray = before == '\r' && c != '\n';
        if stray || is_odd(c) {
            let place = Place { line, column };
            let what = format!("the character U+{:04X} hides what is written", u32::from(c));
            let spot = Spot { place, length: 1 };
            problems.error(code::CHARACTER, spot, what, "remove it");
            return None;
        }
        line += u32::from(c == '\n');
        before = c;
    }
    Some(text)
}

/// Characters that do not show as themselves, or change how others show.
fn is_odd(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        || is_hidden(c)
        || matches!(c, '\u{200c}' | '\u{200d}')
}

/// The documents of `text` with the number of lines before each, found without parsing any: a line
/// that is `---` ends a document wherever it stands, within block scalars too.
pub fn documents(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let mut rest = Some((0, text));
    std::iter::from_fn(move || {
        let (before, text) = rest.take()?;
        let mut offset = 0;
        for (lines, line) in (0..).zip(text.split_inclusive('\n')) {
            if line.trim_end() == "---" && !(lines == 0 && before == 0) {
                let (document, after) = text.split_at_checked(offset)?;
                rest = Some((before + lines, after));
                // The marker stays with what follows, where the parser expects it.
                if !(offset == 0 && before > 0) {
                    return Some((before, document));
                }
            }
            offset += line.len();
        }
        rest = None;
        Some((before, text))
    })
}

/// Reads a file that is one document, which messages call `what`.
pub fn document(bytes: &[u8], what: &str, problems: &mut Problems) -> Option<Node> {
    let text = text(bytes, problems)?;
    let mut parts = documents(text);
    let (before, first) = parts.next()?;
    let node = match parts.next() {
        None => read(first, before, problems),
        Some(_) => None,
    };
    if node.is_none() && problems.errors() == 0 {
        let what = format!("{what} is one YAML document that is not empty");
        problems.error(code::MISSING, Spot::default(), what, "write one document");
    }
    node
}

/// Reads one document, which has `before` lines before it.
pub fn read(text: &str, before: u32, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder {
        before,
        problems,
        open: Vec::new(),
        root: None,
        documents: 0,
        nodes: 0,
    };
    builder.run(text).ok()?;
    builder.root
}

/// The document cannot be read any further; the reason was reported.
struct Stop;

enum Kind {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        key: Option<(String, Spot)>,
    },
}

struct Builder<'p> {
    before: u32,
    problems: &'p mut Problems,
    open: Vec<(Spot, Kind)>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
}

impl Builder<'_> {
    fn run(&mut self, text: &str) -> Result<(), Stop> {
        let options = options! {
            emit_comments: false,
            emit_anchor_events: true,
            emit_unresolved_aliases: true,
            disallow_directives: true,
            flow_nesting_limit: DEPTH + 1,
            block_nesting_limit: DEPTH + 1,
        };
        let parser: Parser<'_, StrInput<'_>> = Parser::new_from_str_with_options(text, options);
        for next in parser {
            match next {
                Ok((event, span)) => self.event(event, &span)?,
                Err(error) => return Err(self.syntax(&error)),
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Stop> {
        let spot = self.spot(span);
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(self.refuse(
                        spot,
                        "a further document",
                        "end it with a line `---`",
                    ));
                }
                Ok(())
            }
            Event::Scalar(text, style, _, None) => {
                let plain = style == ScalarStyle::Plain;
                if text.chars().any(is_odd) {
                    return Err(self.refuse(spot, "an escape for a hidden character", "remove it"));
                }
                let text = text.into_owned();
                self.place(Node {
                    spot,
                    tree: Tree::Scalar { text, plain },
                })
            }
            Event::SequenceStart(_, _, None) => self.start(spot, Kind::List(Vec::new())),
            Event::MappingStart(_, _, None) => {
                let (entries, key) = (Vec::new(), None);
                self.start(spot, Kind::Map { entries, key })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(_)
            | Event::Anchor(..)
            | Event::UnresolvedAlias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::MappingStart(..)
            | _ => {
                let what = "YAML that hides what a value is (an anchor, alias or tag)";
                Err(self.refuse(
                    spot,
                    what,
                    "write the value out; quote text that begins with `*` or `&`",
                ))
            }
        }
    }

    fn start(&mut self, spot: Spot, kind: Kind) -> Result<(), Stop> {
        if self.open.len() >= DEPTH {
            let what = format!("values nested more than {DEPTH} levels deep");
            return Err(self.refuse(spot, &what, "remove the extra levels"));
        }
        self.open.push((spot, kind));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        let Some((spot, kind)) = self.open.pop() else {
            return Ok(());
        };
        let tree = match kind {
            Kind::List(items) => Tree::List(items),
            Kind::Map { entries, .. } => Tree::Map(entries),
        };
        self.place(Node { spot, tree })
    }

    /// Puts a finished node where it belongs.
    fn place(&mut self, node: Node) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > NODES {
            let what = format!("more than {NODES} values");
            return Err(self.refuse(node.spot, &what, "split it"));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((_, Kind::List(items))) => items.push(node),
            Some((_, Kind::Map { entries, key })) => {
                if let Some((key, spot)) = key.take() {
                    let value = node;
                    entries.push(Entry { key, spot, value });
                } else {
                    match named(&node, entries, self.problems) {
                        Ok(text) => *key = Some((text, node.spot)),
                        Err((what, fix)) => return Err(self.refuse(node.spot, what, fix)),
                    }
                }
            }
        }
        Ok(())
    }

    fn refuse(&mut self, spot: Spot, what: &str, fix: &str) -> Stop {
        self.problems.error(
            code::UNSUPPORTED,
            spot,
            format!("{what} cannot be used here"),
            fix,
        );
        Stop
    }

    fn syntax(&mut self, error: &ScanError) -> Stop {
        let marker = error.marker();
        let spot = Spot {
            place: Place {
                line: self.before + small(marker.line().max(1)),
                column: small(marker.col() + 1),
            },
            length: 1,
        };
        let what = format!(
            "the text is not YAML: {}",
            shown(&error.info().to_lowercase())
        );
        let fix = "check the indentation, quotes and brackets here and just above";
        self.problems.error(code::SYNTAX, spot, what, fix);
        Stop
    }

    fn spot(&self, span: &Span) -> Spot {
        let same = span.start.line() == span.end.line();
        let length = span.end.col().saturating_sub(span.start.col());
        Spot {
            place: Place {
                line: self.before + small(span.start.line().max(1)),
                column: small(span.start.col() + 1),
            },
            length: if same { small(length) } else { 1 },
        }
    }
}

/// The name a key is; what is wrong with it, and how to mend it, otherwise.
fn named(
    node: &Node,
    taken: &[Entry],
    problems: &mut Problems,
) -> Result<String, (&'static str, &'static str)> {
    let Tree::Scalar { text, .. } = &node.tree else {
        return Err(("a key that is no text", "use a name"));
    };
    if text == "<<" {
        return Err(("a merge key", "write the fields out"));
    }
    if taken.iter().any(|entry| entry.key == *text) {
        let what = format!("`{}` is given twice", shown(text));
        problems.error(code::DUPLICATE, node.spot, what, "keep one of them");
    }
    Ok(text.clone())
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<(u32, &str)> {
        documents(text).collect()
    }

    #[test]
    fn documents_are_found_without_parsing_and_keep_their_lines() {
        assert_eq!(parts("a: 1\n"), [(0, "a: 1\n")]);
        assert_eq!(
            parts("a: 1\n---\nb: 2\n---\nc"),
            [(0, "a: 1\n"), (1, "---\nb: 2\n"), (3, "---\nc")]
        );
        assert_eq!(
            parts("---\na: 1\n---\nb"),
            [(0, "---\na: 1\n"), (2, "---\nb")]
        );
        assert_eq!(parts("a: --- x\n --- \n"), [(0, "a: --- x\n --- \n")]);
        let mut problems = Problems::default();
        let (before, second) = documents("a: 1\n---\nb:\n  - x\n").nth(1).unwrap();
        let node = read(second, before, &mut problems).unwrap();
        let Tree::Map(entries) = node.tree else {
            panic!("{node:?}");
        };
        assert_eq!(
            (entries[0].spot.place.line, entries[0].spot.place.column),
            (3, 1)
        );
    }

    #[test]
    fn what_hides_its_meaning_or_grows_is_refused() {
        let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
        let many = "- x\n".repeat(NODES + 1);
        for (text, want) in [
            ("a: &x 1\nb: *x", code::UNSUPPORTED),
            ("a: *x", code::UNSUPPORTED),
            ("a: !!str 1", code::UNSUPPORTED),
            ("a: {<<: {b: 1}}", code::UNSUPPORTED),
            ("? [a]\n: 1", code::UNSUPPORTED),
            ("%YAML 1.2\n---\na: 1", code::SYNTAX),
            ("a: \"\\u202e\"", code::UNSUPPORTED),
            ("a: [1", code::SYNTAX),
            ("a:\n\t- b", code::SYNTAX),
            ("a: 1\na: 2", code::DUPLICATE),
            (&deep, code::SYNTAX),
            (&many, code::UNSUPPORTED),
        ] {
            let mut problems = Problems::default();
            let root = read(text, 0, &mut problems);
            let error = problems.settle(root.map(drop)).unwrap_err();
            let found = error.problems()[0].code;
            let near = [want, code::UNSUPPORTED, code::SYNTAX].contains(&found);
            assert!(near, "{}: {error}", shown(text));
            if want == code::DUPLICATE {
                assert_eq!(found, want);
            }
        }
    }

    #[test]
    fn bytes_that_a_reviewer_would_not_see_are_refused() {
        let large = vec![b'x'; BYTES + 1];
        for bytes in [
            &b"a: \xff"[..],
            b"a: \x1b[2J",
            "a: \u{202e}".as_bytes(),
            b"a: 1\rb: 2",
            &large,
        ] {
            let mut problems = Problems::default();
            assert!(text(bytes, &mut problems).is_none());
            assert_eq!(problems.errors(), 1);
        }
        assert!(text(b"a: 1\r\nb: \xc3\xbc\n", &mut Problems::default()).is_some());
    }
}
