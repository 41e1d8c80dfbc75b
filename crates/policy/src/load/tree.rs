//! Text to a tree of values, each with its place.
//!
//! Only the part of YAML a policy needs: scalars, sequences, mappings. Anchors, aliases, tags,
//! merge keys and further documents are refused, so what a value means can be read where it stands
//! and no file can grow in memory beyond its own size. Depth and node count are checked event by
//! event, before anything is stored; walking the tree recurses at most `POLICY_DEPTH` levels.

use super::code;
use super::keys::{Key, read_key, unique};
use super::problems::{Problems, Spot, is_harmless, shown};
use super::source;
use crate::document::Place;
use airlock_core::{is_hidden, limits};
use serde_saphyr::granit_parser::{
    ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, options,
};

/// One value with its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) spot: Spot,
    pub(crate) value: Value,
    /// False if anything was refused in it: part of what was written is then missing.
    pub(crate) sound: bool,
}

/// What a node holds.
#[derive(Debug)]
pub(crate) enum Value {
    /// Text, and whether it stood without quotes.
    Scalar { text: String, plain: bool },
    /// A list.
    Sequence(Vec<Node>),
    /// A mapping with unique keys.
    Mapping(Vec<Entry>),
    /// Something already reported; whoever meets it says nothing more.
    Broken,
}

/// One pair of a mapping.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) spot: Spot,
    pub(crate) value: Node,
}

/// Reads `bytes` into a tree; `None` and at least one problem if that cannot be done.
pub(crate) fn read(bytes: &[u8], problems: &mut Problems) -> Option<Node> {
    let text = source::text(bytes, problems)?;
    let mut builder = Builder {
        text,
        problems,
        open: Vec::new(),
        root: None,
        documents: 0,
        nodes: 0,
    };
    builder.run().ok()?;
    builder.root
}

/// The file cannot be read any further; the reason was reported.
struct Stop;

/// A collection whose end has not come yet.
struct Open {
    spot: Spot,
    /// Where a collection in brackets began, to find its length at the end.
    start: (usize, usize),
    /// How many errors there were before it began.
    errors: usize,
    kind: Kind,
}

enum Kind {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<Entry>,
        key: Option<Key>,
    },
}

struct Builder<'a, 'p> {
    text: &'a str,
    problems: &'p mut Problems,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
}

impl<'a> Builder<'a, '_> {
    fn run(&mut self) -> Result<(), Stop> {
        let options = options! {
            emit_comments: false,
            emit_anchor_events: true,
            emit_unresolved_aliases: true,
            disallow_directives: true,
            flow_nesting_limit: limits::POLICY_DEPTH + 1,
            block_nesting_limit: limits::POLICY_DEPTH + 1,
        };
        let parser: Parser<'a, StrInput<'a>> =
            Parser::new_from_str_with_options(self.text, options);
        for next in parser {
            match next {
                Ok((event, span)) => self.event(event, &span)?,
                Err(error) => return self.syntax(&error),
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'a>, span: &Span) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) => self.document(span),
            Event::Scalar(text, style, _, tag) => {
                self.tag(tag.is_some(), span);
                self.scalar(text.into_owned(), style == ScalarStyle::Plain, span)
            }
            Event::SequenceStart(_, _, tag) => {
                self.tag(tag.is_some(), span);
                self.start(Kind::Sequence(Vec::new()), span)
            }
            Event::MappingStart(_, _, tag) => {
                self.tag(tag.is_some(), span);
                let kind = Kind::Mapping {
                    entries: Vec::new(),
                    key: None,
                };
                self.start(kind, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Anchor(..) => {
                self.reference("anchor", span);
                Ok(())
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.reference("alias", span);
                let spot = self.spot(span);
                self.place(Node {
                    spot,
                    value: Value::Broken,
                    sound: false,
                })
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            // Unknown kinds of event: better refused than skipped.
            _ => self.unsupported(span),
        }
    }

    fn unsupported(&mut self, span: &Span) -> Result<(), Stop> {
        let spot = self.spot(span);
        self.problems.error(
            code::SYNTAX,
            spot,
            "YAML that a policy does not take",
            "write plain values, lists and mappings",
        );
        Err(Stop)
    }

    fn document(&mut self, span: &Span) -> Result<(), Stop> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        self.problems.error(
            code::SEVERAL_DOCUMENTS,
            spot_at(span, 3),
            "a second YAML document begins here; the file must hold one",
            "move it into a file of its own, or remove the `---`",
        );
        Err(Stop)
    }

    fn tag(&mut self, tagged: bool, span: &Span) {
        if tagged {
            let spot = span
                .tag_span()
                .map_or_else(|| self.spot(span), |tag| self.spot(&tag));
            self.problems.error(
                code::TAG,
                spot,
                "a YAML tag: it would change what the value means",
                "remove the tag; quote the value if it must be text",
            );
        }
    }

    fn reference(&mut self, kind: &str, span: &Span) {
        let spot = self.spot(span);
        self.problems.error(
            code::ANCHOR,
            spot,
            format!(
                "a YAML {kind}: it would hide what applies here, and repeated aliases can exhaust memory"
            ),
            "write the value out; quote text that begins with `*` or `&`",
        );
    }

    fn scalar(&mut self, text: String, plain: bool, span: &Span) -> Result<(), Stop> {
        let spot = self.spot(span);
        if let Some(c) = text
            .chars()
            .find(|c| !is_harmless(*c) && !matches!(c, '\n' | '\t'))
        {
            let code = if is_hidden(c) {
                code::HIDDEN_CHARACTER
            } else {
                code::CONTROL_CHARACTER
            };
            self.problems.error(
                code,
                spot,
                format!("the value holds the character U+{:04X}", u32::from(c)),
                "remove the escape: no field takes control or invisible characters",
            );
            return self.place(Node {
                spot,
                value: Value::Broken,
                sound: false,
            });
        }
        self.place(Node {
            spot,
            value: Value::Scalar { text, plain },
            sound: true,
        })
    }

    fn start(&mut self, kind: Kind, span: &Span) -> Result<(), Stop> {
        let spot = self.spot(span);
        if self.open.len() >= limits::POLICY_DEPTH {
            return self.too_deep(spot);
        }
        let start = (span.start.line(), span.start.col());
        let errors = self.problems.errors();
        self.open.push(Open {
            spot,
            start,
            errors,
            kind,
        });
        Ok(())
    }

    fn end(&mut self, span: &Span) -> Result<(), Stop> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let mut spot = open.spot;
        let (line, column) = open.start;
        if span.end.line() == line && span.end.col() > column {
            spot.length = small(span.end.col() - column);
        }
        let value = match open.kind {
            Kind::Sequence(items) => Value::Sequence(items),
            Kind::Mapping { entries, .. } => {
                // A mapping of several lines is best shown by its first key.
                if let Some(first) = entries.first().filter(|e| e.spot.place == spot.place) {
                    spot.length = spot.length.max(first.spot.length);
                }
                Value::Mapping(unique(entries, self.problems))
            }
        };
        let sound = self.problems.errors() == open.errors;
        self.place(Node { spot, value, sound })
    }

    /// Puts a finished node where it belongs.
    fn place(&mut self, node: Node) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > limits::POLICY_NODES {
            self.problems.error(
                code::TOO_MANY_NODES,
                node.spot,
                format!("the file holds more than {} values", limits::POLICY_NODES),
                "shorten lists with globs",
            );
            return Err(Stop);
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open {
                kind: Kind::Sequence(items),
                ..
            }) => items.push(node),
            Some(Open {
                kind: Kind::Mapping { entries, key },
                ..
            }) => match key.take() {
                None => *key = Some(read_key(node, self.problems)),
                Some(Key {
                    text: Some(key),
                    spot,
                }) => {
                    entries.push(Entry {
                        key,
                        spot,
                        value: node,
                    });
                }
                // The key was reported; its value goes with it.
                Some(Key { text: None, .. }) => {}
            },
        }
        Ok(())
    }

    fn syntax(&mut self, error: &ScanError) -> Result<(), Stop> {
        let marker = error.marker();
        let spot = Spot {
            place: Place {
                line: small(marker.line().max(1)),
                column: small(marker.col() + 1),
            },
            length: 1,
        };
        let kind = error.kind();
        if *kind == ErrorKind::RecursionLimitExceeded {
            return self.too_deep(spot);
        }
        let tab = matches!(
            kind,
            ErrorKind::TabNotAllowed
                | ErrorKind::TabInBlockIndentation
                | ErrorKind::TabInIndentation
                | ErrorKind::TabAtBlockScalarStart
                | ErrorKind::TabInPlainScalar
        );
        let fix = if tab {
            "indent with spaces; YAML does not take tabs"
        } else if *kind == ErrorKind::DirectiveDisallowed {
            "remove the line that begins with `%`"
        } else if matches!(kind, ErrorKind::UnclosedQuotedScalar) {
            "close the quotes"
        } else if matches!(kind, ErrorKind::UnclosedFlowCollection { .. }) {
            "close the bracket"
        } else {
            "check the indentation, quotes and brackets here and just above"
        };
        let what = format!(
            "the text is not YAML: {}",
            shown(&error.info().to_lowercase())
        );
        self.problems.error(code::SYNTAX, spot, what, fix);
        Err(Stop)
    }

    fn too_deep(&mut self, spot: Spot) -> Result<(), Stop> {
        self.problems.error(
            code::TOO_DEEP,
            spot,
            format!(
                "values are nested more than {} levels deep",
                limits::POLICY_DEPTH
            ),
            "no field of a policy nests that deep; remove the extra levels",
        );
        Err(Stop)
    }

    /// The first line of a span.
    fn spot(&self, span: &Span) -> Spot {
        let same_line = span.start.line() == span.end.line();
        let length = if same_line {
            span.end.col().saturating_sub(span.start.col())
        } else {
            let from = span.start.byte_offset().unwrap_or(self.text.len());
            let first = self.text.get(from..).and_then(|rest| rest.lines().next());
            first.map_or(1, |line| line.trim_end().chars().count())
        };
        spot_at(span, length)
    }
}

fn spot_at(span: &Span, length: usize) -> Spot {
    Spot {
        place: Place {
            line: small(span.start.line().max(1)),
            column: small(span.start.col() + 1),
        },
        length: small(length.max(1)),
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
