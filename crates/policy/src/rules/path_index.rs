//! Finds the rules whose globs might match a path without looking at the others.
//!
//! An anchored glob is filed under the literal names it begins with, a floating one under its
//! literal name or extension; what has neither is always a candidate. A lookup walks the path
//! once and stops descending where no glob goes deeper.
//!
//! Guarantee: every rule with a glob that matches is visited, perhaps more than once. Visiting
//! says nothing about matching.

use crate::glob::{Component, Glob, PathText};
use crate::hash::Seeded;
use std::collections::HashMap;

type Ids = Vec<u32>;
type ByName<T> = HashMap<Box<str>, T, Seeded>;

/// Rules by the paths they might match.
#[derive(Debug, Default)]
pub(super) struct PathIndex {
    /// A tree of names; the first node is the root.
    nodes: Vec<Node>,
    names: ByName<Ids>,
    extensions: ByName<Ids>,
    always: Ids,
}

#[derive(Debug, Default)]
struct Node {
    children: ByName<u32>,
    ids: Ids,
}

impl PathIndex {
    /// Files rule `id` under `glob`.
    pub(super) fn insert(&mut self, glob: &Glob, id: u32) {
        let ids = match glob.floating() {
            None => self.node(glob),
            Some(Component::Literal(name)) => self.names.entry(name.clone()).or_default(),
            Some(Component::Suffix(end)) => match end.rsplit_once('.') {
                Some((_, extension)) => self.extensions.entry(extension.into()).or_default(),
                None => &mut self.always,
            },
            Some(
                Component::Any | Component::Prefix(_) | Component::Inner(_) | Component::Wild(_),
            ) => &mut self.always,
        };
        if ids.last() != Some(&id) {
            ids.push(id);
        }
    }

    /// Calls `visit` with every list of rules that might match `path`.
    pub(super) fn visit(&self, path: PathText<'_>, mut visit: impl FnMut(&[u32])) {
        visit(&self.always);
        let mut node = self.nodes.first();
        visit(node.map_or(&[], |root| &root.ids));
        let floating = !(self.names.is_empty() && self.extensions.is_empty());
        for name in path.components() {
            node = node
                .and_then(|node| node.children.get(name))
                .and_then(|child| self.nodes.get(*child as usize));
            match node {
                Some(node) => visit(&node.ids),
                None if !floating => return,
                None => {}
            }
            if floating {
                self.visit_floating(name, &mut visit);
            }
        }
    }

    fn visit_floating(&self, name: &str, mut visit: impl FnMut(&[u32])) {
        if let Some(ids) = self.names.get(name) {
            visit(ids);
        }
        if let Some(ids) = extension(name).and_then(|end| self.extensions.get(end)) {
            visit(ids);
        }
    }

    fn node(&mut self, glob: &Glob) -> &mut Ids {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        for name in glob.prefix() {
            let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
            let Some(node) = self.nodes.get_mut(at as usize) else {
                return &mut self.always;
            };
            at = *node.children.entry(name.into()).or_insert(next);
            if at == next {
                self.nodes.push(Node::default());
            }
        }
        match self.nodes.get_mut(at as usize) {
            Some(node) => &mut node.ids,
            None => &mut self.always,
        }
    }
}

fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(_, end)| end)
}
