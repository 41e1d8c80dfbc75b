//! The index of a set: a trie over tokens, walked with the set of nodes still in play.
//!
//! Patterns with a common beginning share nodes, so a walk touches only what agrees with the
//! capability so far. Every node has one parent, and a node under a [`Token::Deep`] is noted once:
//! no node is visited twice for one token. The work is at most nodes times tokens, and in practice
//! a lookup a token: as long as one node is in play, no set of them is kept, and a run of nodes with
//! a single literal child each is passed in one comparison.

use super::text::{Anchor, Parts, Path};
use super::token::{Glob, Token};
use super::walk::Walk;
use super::{Capability, Pattern};
use crate::hash::Seeded;
use std::collections::HashMap;

/// A trie of patterns.
pub(super) struct Index {
    nodes: Vec<Node>,
    /// How many nodes stand behind a [`Token::Deep`].
    deep: usize,
}

/// A place in [`Index::nodes`]. Nodes refer to each other by it rather than own each other, because
/// dropping a chain of 500 path components would otherwise recurse as deep.
pub(super) type NodeId = usize;

/// Up to this many literal children are compared one by one, which beats hashing.
const FEW: usize = 6;

const ROOT: NodeId = 0;
/// No node: a pattern that leads here matches nothing.
const NOWHERE: NodeId = usize::MAX;

#[derive(Default)]
pub(super) struct Node {
    literals: Literals,
    /// None where there is none: most nodes have few fields in use, and are small to be looked up.
    globs: Option<Box<Globs>>,
    /// Behind a [`Token::One`].
    pub(super) one: Option<NodeId>,
    /// Behind a [`Token::Deep`] with more to follow.
    pub(super) deep: Option<Deep>,
    /// Where path scopes begin: at `/` and at `~`.
    root: Option<NodeId>,
    home: Option<NodeId>,
    /// A pattern ends here.
    pub(super) end: bool,
    /// A pattern ends here in a [`Token::Deep`]: whatever follows matches.
    pub(super) open: bool,
    /// Tokens from here on are path components.
    in_path: bool,
    /// The one way down from here, as far as it goes without a choice.
    run: Option<Run>,
}

/// Literals in a row, and where they lead.
struct Run {
    text: Box<str>,
    to: NodeId,
}

/// A node that stays in play whatever comes, once it was reached.
#[derive(Clone, Copy)]
pub(super) struct Deep {
    pub(super) id: NodeId,
    /// Its number among the nodes of this kind.
    pub(super) number: usize,
}

impl Node {
    /// The children that take `token`.
    pub(super) fn children<'n>(&'n self, token: &'n str) -> impl Iterator<Item = NodeId> + 'n {
        let literal = self.literals.get(token).into_iter();
        let globs = self.globs.iter();
        let globs = globs.flat_map(move |globs| globs.matching(token));
        literal.chain(globs).chain(self.one)
    }

    /// The child that takes `token`, unless several do.
    fn only_child(&self, token: &str) -> Result<Option<NodeId>, Several> {
        let literal = self.literals.get(token);
        let Some(globs) = &self.globs else {
            return match (literal, self.one) {
                (Some(_), Some(_)) => Err(Several),
                (literal, one) => Ok(literal.or(one)),
            };
        };
        let children = literal.into_iter().chain(self.one);
        let mut children = children.chain(globs.matching(token));
        match (children.next(), children.next()) {
            (_, Some(_)) => Err(Several),
            (first, None) => Ok(first),
        }
    }

    /// The literal child and its text, if nothing else could take a token here.
    fn sole_literal(&self) -> Option<(&str, NodeId)> {
        let choice = self.open || self.deep.is_some() || self.one.is_some() || self.globs.is_some();
        match &self.literals {
            Literals::Few(few) if !choice => match few.as_slice() {
                [(text, id)] => Some((text, *id)),
                _ => None,
            },
            Literals::Few(_) | Literals::Many(_) => None,
        }
    }

    /// The child where path scopes from `anchor` begin.
    pub(super) const fn path(&self, anchor: Anchor) -> Option<NodeId> {
        match anchor {
            Anchor::Root => self.root,
            Anchor::Home => self.home,
        }
    }
}

enum Literals {
    Few(Vec<(Box<str>, NodeId)>),
    Many(HashMap<Box<str>, NodeId, Seeded>),
}

/// Globs by what they begin with: a token is only compared with those whose prefix it has.
#[derive(Default)]
struct Globs {
    /// The lengths of all prefixes, ascending.
    lengths: Vec<usize>,
    by_prefix: HashMap<Box<str>, Vec<(Glob, NodeId)>, Seeded>,
}

/// More than one child takes a token.
struct Several;

/// How far a single node got.
enum Descent<'n> {
    /// To a pattern that takes whatever follows.
    Won,
    /// To where no pattern goes on.
    Lost,
    /// To the end of the tokens.
    Arrived(&'n Node),
    /// To where several nodes come into play; the tokens from there on are not taken.
    Forked(&'n Node),
}

impl Default for Literals {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Literals {
    fn get(&self, text: &str) -> Option<NodeId> {
        match self {
            Self::Few(few) => few
                .iter()
                .find(|(literal, _)| **literal == *text)
                .map(|(_, id)| *id),
            Self::Many(many) => many.get(text).copied(),
        }
    }

    fn insert(&mut self, text: &str, id: NodeId) {
        match self {
            Self::Few(few) if few.len() < FEW => few.push((text.into(), id)),
            Self::Few(few) => {
                let mut many: HashMap<_, _, _> = few.drain(..).collect();
                many.insert(text.into(), id);
                *self = Self::Many(many);
            }
            Self::Many(many) => {
                many.insert(text.into(), id);
            }
        }
    }
}

impl Globs {
    fn get(&self, glob: &Glob) -> Option<NodeId> {
        let same_prefix = self.by_prefix.get(glob.prefix())?;
        same_prefix
            .iter()
            .find(|(known, _)| known == glob)
            .map(|(_, id)| *id)
    }

    fn insert(&mut self, glob: &Glob, id: NodeId) {
        let length = glob.prefix().len();
        if let Err(place) = self.lengths.binary_search(&length) {
            self.lengths.insert(place, length);
        }
        self.by_prefix
            .entry(glob.prefix().into())
            .or_default()
            .push((glob.clone(), id));
    }

    fn matching<'n>(&'n self, text: &'n str) -> impl Iterator<Item = NodeId> + 'n {
        self.lengths.iter().flat_map(move |length| {
            // `None` past the end, and inside a character, where no prefix can end.
            let split = text.split_at_checked(*length);
            let known = split.and_then(|(prefix, rest)| Some((self.by_prefix.get(prefix)?, rest)));
            known.into_iter().flat_map(|(globs, rest)| {
                let matching = globs
                    .iter()
                    .filter(|(glob, _)| glob.matches_after_prefix(rest));
                matching.map(|(_, id)| *id)
            })
        })
    }
}

impl Index {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let mut index = Self {
            nodes: vec![Node::default()],
            deep: 0,
        };
        for pattern in patterns {
            index.insert(pattern);
        }
        index.note_runs();
        index
    }

    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    pub(super) fn contains(&self, capability: &Capability<'_>) -> bool {
        let mut segments = capability.segments();
        let node = match self.descend(self.node(ROOT), &mut segments) {
            Descent::Won => return true,
            Descent::Lost => return false,
            Descent::Arrived(node) => node,
            Descent::Forked(node) => return self.walk(node, segments, capability.path()),
        };
        let Some(path) = capability.path() else {
            return node.end;
        };
        if self.takes_path(node) {
            return true;
        }
        let below = node.path(path.anchor).and_then(|below| self.node(below));
        let mut components = path.components();
        match self.descend(below, &mut components) {
            Descent::Won => true,
            Descent::Lost => false,
            Descent::Arrived(node) => node.end,
            Descent::Forked(node) => self.walk(node, components, None),
        }
    }

    /// Whether a `*` behind `node` takes a whole path scope as its last segment.
    pub(super) fn takes_path(&self, node: &Node) -> bool {
        node.one
            .and_then(|one| self.node(one))
            .is_some_and(|one| one.open)
    }

    /// Takes tokens for as long as a single node is in play, which is nearly always to the end.
    fn descend<'n>(&'n self, from: Option<&'n Node>, tokens: &mut Parts<'_>) -> Descent<'n> {
        let mut next = from;
        while let Some(node) = next {
            if node.open {
                return Descent::Won;
            }
            if node.deep.is_some() {
                return Descent::Forked(node);
            }
            // Where a run ends early or differs, its nodes say what that means.
            if let Some(run) = &node.run
                && tokens.pass(&run.text)
            {
                next = self.node(run.to);
                continue;
            }
            let mut ahead = tokens.clone();
            let Some(token) = ahead.next() else {
                return Descent::Arrived(node);
            };
            let Ok(child) = node.only_child(token) else {
                return Descent::Forked(node);
            };
            next = child.and_then(|child| self.node(child));
            *tokens = ahead;
        }
        Descent::Lost
    }

    /// Takes the rest with as many nodes in play as it needs.
    fn walk<'n, 't>(
        &'n self,
        from: &'n Node,
        mut tokens: impl Iterator<Item = &'t str>,
        path: Option<Path<'_>>,
    ) -> bool {
        let mut walk = Walk::new(self);
        if walk.enter(from) || tokens.any(|token| walk.step(token)) {
            return true;
        }
        let Some(path) = path else {
            return walk.ends();
        };
        walk.step_over_path()
            || walk.enter_path(path.anchor)
            || path.components().any(|component| walk.step(component))
            || walk.ends()
    }

    fn insert(&mut self, pattern: &Pattern) {
        match pattern.path() {
            None => self.insert_to_end(ROOT, pattern.segments()),
            Some(path) => {
                let segments = pattern.segments().iter();
                let at = segments.fold(ROOT, |at, token| self.follow(at, token));
                let at = self.follow_anchor(at, path.anchor);
                self.insert_to_end(at, &path.components);
            }
        }
    }

    fn insert_to_end(&mut self, from: NodeId, tokens: &[Token]) {
        let (tokens, open) = match tokens.split_last() {
            Some((Token::Deep, before)) => (before, true),
            Some(_) | None => (tokens, false),
        };
        let at = tokens.iter().fold(from, |at, token| self.follow(at, token));
        if let Some(node) = self.nodes.get_mut(at) {
            node.end = true;
            node.open |= open;
        }
    }

    /// The child of `at` behind `token`, made if it is not there.
    fn follow(&mut self, at: NodeId, token: &Token) -> NodeId {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else {
            return NOWHERE;
        };
        let known = match token {
            Token::Literal(text) => node.literals.get(text),
            Token::Glob(glob) => node.globs.as_ref().and_then(|globs| globs.get(glob)),
            Token::One => node.one,
            Token::Deep => node.deep.map(|deep| deep.id),
        };
        if let Some(id) = known {
            return id;
        }
        match token {
            Token::Literal(text) => node.literals.insert(text, new),
            Token::Glob(glob) => node.globs.get_or_insert_default().insert(glob, new),
            Token::One => node.one = Some(new),
            Token::Deep => {
                node.deep = Some(Deep {
                    id: new,
                    number: self.deep,
                });
                self.deep += 1;
            }
        }
        let in_path = node.in_path;
        self.nodes.push(Node {
            in_path,
            ..Node::default()
        });
        new
    }

    fn follow_anchor(&mut self, at: NodeId, anchor: Anchor) -> NodeId {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else {
            return NOWHERE;
        };
        let known = match anchor {
            Anchor::Root => &mut node.root,
            Anchor::Home => &mut node.home,
        };
        let id = *known.get_or_insert(new);
        if id == new {
            self.nodes.push(Node {
                in_path: true,
                ..Node::default()
            });
        }
        id
    }

    /// Notes a run at every node that begins one; the nodes within it need none.
    fn note_runs(&mut self) {
        let mut within = vec![false; self.nodes.len()];
        for (_, child) in self.nodes.iter().filter_map(Node::sole_literal) {
            if let Some(within) = within.get_mut(child) {
                *within = true;
            }
        }
        let begun = within.into_iter().enumerate();
        let runs: Vec<_> = begun
            .map(|(id, within)| if within { None } else { self.run(id) })
            .collect();
        for (node, run) in self.nodes.iter_mut().zip(runs) {
            node.run = run;
        }
    }

    fn run(&self, from: NodeId) -> Option<Run> {
        let separator = if self.node(from)?.in_path { '/' } else { '.' };
        let mut text = String::new();
        let mut to = from;
        while let Some((literal, child)) = self.node(to).and_then(Node::sole_literal) {
            if to != from {
                text.push(separator);
            }
            text.push_str(literal);
            to = child;
        }
        (to != from).then(|| Run {
            text: text.into(),
            to,
        })
    }
}
