//! What Rust declares as modules and includes.
//!
//! Tokens are looked at and not items: a macro makes items of what it is handed.

use super::{Source, beneath, resolved};
use crate::inline::product_text;
use crate::suite::Language;
use std::collections::BTreeSet;
use std::rc::Rc;
use syn::buffer::{Cursor, TokenBuffer};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Ident, LitStr};

/// Longest text that is looked at; a longer one is called changed in its inline tests.
const BYTES: usize = 2 * 1024 * 1024;
/// Longest path that a system opens, and most places of one module that are told apart: both could
/// grow with each module in a module.
const PATH: usize = 4_096;
const PLACES: usize = 16;
/// How deep in an include the strings are that it is put together from.
const DEPTH: usize = 3;

pub(super) fn taken(source: &Source<'_>) -> BTreeSet<String> {
    if source.text.len() > BYTES {
        return BTreeSet::new();
    }
    // What does not parse is looked at whole: it may hold anything.
    let product = product_text(source.text);
    let text = product.as_deref().unwrap_or(source.text);
    // What cannot be read at all is compiled by nobody.
    let Ok(tokens) = buffered.parse_str(text) else {
        return BTreeSet::new();
    };
    // Beside the file, or in a directory of its name: which of them depends on who declares it.
    let own = beneath(source.directory, source.stem);
    let places = Rc::from([source.directory.to_owned(), own]);
    let mut walk = Walk {
        source,
        left: vec![(tokens.begin(), places)],
        found: BTreeSet::new(),
    };
    while let Some((level, places)) = walk.left.pop() {
        walk.level(level, &places);
    }
    walk.found
}

fn buffered(input: ParseStream<'_>) -> syn::Result<TokenBuffer> {
    Ok(TokenBuffer::new2(input.parse()?))
}

/// Where a module declared here may be looked for.
type Places = Rc<[String]>;

struct Walk<'s, 't> {
    source: &'s Source<'s>,
    /// What is still to be looked at.
    left: Vec<(Cursor<'t>, Places)>,
    found: BTreeSet<String>,
}

impl<'t> Walk<'_, 't> {
    /// Looks at everything that is in no further brackets.
    fn level(&mut self, mut at: Cursor<'t>, places: &Places) {
        let mut attributes = Attributes::default();
        while !at.eof() {
            if let Some((inside, rest)) = attribute(at) {
                attributes.add(inside);
                self.left.push((inside, Rc::clone(places)));
                at = rest;
            } else if let Some((word, rest)) = at.ident() {
                if word == "pub" {
                    at = rest.any_group().map_or(rest, |(_, _, _, rest)| rest);
                    continue;
                }
                at = rest;
                if word == "mod" {
                    at = self.module(rest, &attributes, places);
                } else {
                    self.call(&word, rest);
                }
                attributes = Attributes::default();
            } else if let Some((inside, _, _, rest)) = at.any_group() {
                self.left.push((inside, Rc::clone(places)));
                attributes = Attributes::default();
                at = rest;
            } else {
                attributes = Attributes::default();
                at = at.token_tree().map_or(Cursor::empty(), |(_, rest)| rest);
            }
        }
    }

    /// Looks at a module from behind its `mod` on, and gives what follows it.
    fn module(&mut self, at: Cursor<'t>, attributes: &Attributes, places: &Places) -> Cursor<'t> {
        let Some((name, rest)) = at.ident() else {
            return at;
        };
        let name = name.unraw().to_string();
        if let Some((inside, _, _, rest)) = rest.any_group() {
            if !attributes.in_tests_alone {
                self.left.push((inside, attributes.places(&name, places)));
            }
            return rest;
        }
        let Some(rest) = behind(rest, ';') else {
            return rest;
        };
        if !attributes.in_tests_alone {
            for forms in attributes.forms(&name, places) {
                self.found.extend(self.source.which(&forms));
            }
        }
        rest
    }

    /// Looks at what is handed to the macro `name`, if that is one.
    fn call(&mut self, name: &Ident, at: Cursor<'t>) {
        let Some((inside, _, _, _)) = behind(at, '!').and_then(Cursor::any_group) else {
            return;
        };
        let mut named = Vec::new();
        literals(inside, DEPTH, &mut named);
        let source = self.source;
        if !name.to_string().starts_with("include") {
            // It may hand it on to an include.
            let rust = named
                .iter()
                .filter(|name| Language::of(name) == Some(Language::Rust));
            let paths = rust.filter_map(|name| resolved(source.directory, name));
            self.found
                .extend(paths.filter_map(|path| source.there(&[path])));
            return;
        }
        // What a build script made is no test of anybody's.
        let is_made = named.iter().any(|name| name == "OUT_DIR");
        if is_made && !named.iter().any(|name| name.contains("..")) {
            return;
        }
        named.retain(|name| name != "CARGO_MANIFEST_DIR");
        let whole = named.concat();
        let named = named.iter().chain([&whole]);
        for name in named.filter(|name| !name.is_empty()) {
            let bases = source.directories().into_iter();
            let forms: Vec<String> = bases.filter_map(|base| resolved(base, name)).collect();
            self.found.extend(source.which(&forms));
        }
    }
}

/// What the attributes of a module say of where it is.
#[derive(Default)]
struct Attributes {
    /// Whether only tests are compiled with it.
    in_tests_alone: bool,
    /// The paths they name.
    paths: Vec<String>,
    /// Whether one of those holds whatever is compiled.
    always: bool,
}

impl Attributes {
    /// Takes what stands in the brackets of one of them.
    fn add(&mut self, at: Cursor<'_>) {
        let Some((word, rest)) = at.ident() else {
            return;
        };
        let inside = rest.any_group().map(|(inside, _, _, _)| inside);
        if word == "path" {
            let literal = behind(rest, '=').and_then(Cursor::literal);
            let path = literal.and_then(|(literal, _)| string(&literal.to_string()));
            self.always |= path.is_some();
            self.paths.extend(path);
        } else if let (true, Some(inside)) = (word == "cfg", inside) {
            self.in_tests_alone |= holds_in_tests_alone(inside);
        } else if let (true, Some(inside)) = (word == "cfg_attr", inside) {
            let mut arguments = arguments(inside).into_iter();
            if arguments.next().is_some_and(holds_in_tests_alone) {
                return;
            }
            for argument in arguments {
                let mut sometimes = Self::default();
                sometimes.add(argument);
                self.paths.append(&mut sometimes.paths);
            }
        }
    }

    /// For each file that may be meant by the module `name`, where it may be.
    fn forms(&self, name: &str, places: &Places) -> Vec<Vec<String>> {
        let named = |path: &String| -> Vec<String> {
            let paths = places.iter().filter_map(|place| resolved(place, path));
            paths.collect()
        };
        let mut found: Vec<Vec<String>> = self.paths.iter().map(named).collect();
        if !self.always {
            let forms = [format!("{name}.rs"), format!("{name}/mod.rs")];
            let each = |place: &String| forms.clone().map(|form| beneath(place, &form));
            found.push(places.iter().flat_map(each).collect());
        }
        found
    }

    /// Where modules are that are declared within the module `name`.
    fn places(&self, name: &str, places: &Places) -> Places {
        let own = (!self.always).then_some(name);
        let names = self.paths.iter().map(String::as_str).chain(own);
        let inner = names.flat_map(|name| -> Vec<String> {
            let inner = places.iter().filter_map(|place| resolved(place, name));
            inner.collect()
        });
        let inner = inner.filter(|place| place.len() <= PATH);
        inner.take(PLACES).collect()
    }
}

/// What stands in the brackets of the attribute at `at`, and what follows it.
fn attribute(at: Cursor<'_>) -> Option<(Cursor<'_>, Cursor<'_>)> {
    let (inside, _, _, rest) = behind(at, '#')?.any_group()?;
    Some((inside, rest))
}

/// What follows `mark`, if that is at `at`.
fn behind(at: Cursor<'_>, mark: char) -> Option<Cursor<'_>> {
    let (punct, rest) = at.punct()?;
    (punct.as_char() == mark).then_some(rest)
}

/// Whether what is compiled under the condition at `at` is compiled with tests alone.
fn holds_in_tests_alone(at: Cursor<'_>) -> bool {
    let Some((word, rest)) = at.ident() else {
        return false;
    };
    match rest.any_group() {
        Some((inside, _, _, _)) => {
            let mut all = arguments(inside).into_iter();
            word == "all" && all.any(holds_in_tests_alone)
        }
        None => word == "test" && (rest.eof() || behind(rest, ',').is_some()),
    }
}

/// Where each argument of a list begins.
fn arguments(mut at: Cursor<'_>) -> Vec<Cursor<'_>> {
    let mut found = vec![at];
    while let Some((_, rest)) = at.token_tree() {
        found.extend(behind(at, ','));
        at = rest;
    }
    found
}

/// The strings from `at` on, those in so many brackets included.
fn literals(mut at: Cursor<'_>, depth: usize, found: &mut Vec<String>) {
    while let Some((_, rest)) = at.token_tree() {
        if let Some((literal, _)) = at.literal() {
            found.extend(string(&literal.to_string()));
        } else if let (Some((inside, _, _, _)), Some(depth)) =
            (at.any_group(), depth.checked_sub(1))
        {
            literals(inside, depth, found);
        }
        at = rest;
    }
}

/// What the literal `text` means, if it is a string.
fn string(text: &str) -> Option<String> {
    let literal: LitStr = syn::parse_str(text).ok()?;
    Some(literal.value())
}
