//! One walk through an [`Index`]: the nodes in play, without touching the heap in ordinary cases.

use super::index::{Index, Node};
use super::text::Anchor;

/// The nodes that agree with the tokens taken so far.
pub(super) struct Walk<'i> {
    index: &'i Index,
    /// Reached by the latest token.
    reached: Nodes<'i>,
    /// Room for the nodes reached before; kept to spare an allocation a step.
    before: Nodes<'i>,
    /// Behind a deep wildcard: in play from when they were first reached.
    lasting: Nodes<'i>,
    noted: Noted,
}

impl<'i> Walk<'i> {
    pub(super) fn new(index: &'i Index) -> Self {
        Self {
            index,
            reached: Nodes::default(),
            before: Nodes::default(),
            lasting: Nodes::default(),
            noted: Noted::default(),
        }
    }

    /// Puts a node in play; true if it takes whatever follows, so that the walk is won.
    pub(super) fn enter(&mut self, node: &'i Node) -> bool {
        if node.open {
            return true;
        }
        self.reached.push(node);
        if let Some(deep) = node.deep
            && self.noted.insert(deep.number)
            && let Some(node) = self.index.node(deep.id)
        {
            self.lasting.push(node);
        }
        false
    }

    /// Takes one segment or component; true if the walk is won.
    pub(super) fn step(&mut self, token: &str) -> bool {
        std::mem::swap(&mut self.before, &mut self.reached);
        self.reached.clear();
        // Those that begin to last in this step take their first token in the next.
        let lasting = self.lasting.len();
        (0..self.before.len()).any(|at| self.step_from(self.before.get(at), token))
            || (0..lasting).any(|at| self.step_from(self.lasting.get(at), token))
    }

    fn step_from(&mut self, node: Option<&'i Node>, token: &str) -> bool {
        let index = self.index;
        node.into_iter()
            .flat_map(|node| node.children(token))
            .filter_map(|child| index.node(child))
            .any(|child| self.enter(child))
    }

    /// Whether the walk is won by a wildcard that takes a whole path scope as the last segment.
    pub(super) fn step_over_path(&self) -> bool {
        self.in_play().any(|node| self.index.takes_path(node))
    }

    /// Leaves the dotted part for the path scopes that begin here; true if the walk is won.
    pub(super) fn enter_path(&mut self, anchor: Anchor) -> bool {
        let reached = std::mem::take(&mut self.reached);
        let lasting = std::mem::take(&mut self.lasting);
        let index = self.index;
        reached
            .iter()
            .chain(lasting.iter())
            .filter_map(|node| index.node(node.path(anchor)?))
            .any(|path| self.enter(path))
    }

    /// Whether a pattern ends where the walk stands.
    pub(super) fn ends(&self) -> bool {
        self.in_play().any(|node| node.end)
    }

    fn in_play(&self) -> impl Iterator<Item = &'i Node> {
        self.reached.iter().chain(self.lasting.iter())
    }
}

/// Nodes held in place this far; more go to the heap.
const IN_PLACE: usize = 4;

#[derive(Default)]
struct Nodes<'i> {
    few: [Option<&'i Node>; IN_PLACE],
    length: usize,
    more: Vec<&'i Node>,
}

impl<'i> Nodes<'i> {
    fn push(&mut self, node: &'i Node) {
        match self.few.get_mut(self.length) {
            Some(place) => *place = Some(node),
            None => self.more.push(node),
        }
        self.length += 1;
    }

    fn get(&self, at: usize) -> Option<&'i Node> {
        match self.few.get(at) {
            Some(node) => *node,
            None => self.more.get(at - IN_PLACE).copied(),
        }
    }

    const fn len(&self) -> usize {
        self.length
    }

    fn iter(&self) -> impl Iterator<Item = &'i Node> {
        (0..self.length).filter_map(|at| self.get(at))
    }

    fn clear(&mut self) {
        self.length = 0;
        self.more.clear();
    }
}

/// Which lasting nodes are in play already, by number.
#[derive(Default)]
struct Noted {
    few: [u64; 1],
    more: Vec<u64>,
}

impl Noted {
    /// Notes `number`; false if it was noted before.
    fn insert(&mut self, number: usize) -> bool {
        let (word, bit) = (number / 64, 1 << (number % 64));
        let place = match word.checked_sub(self.few.len()) {
            None => self.few.get_mut(word),
            Some(word) => {
                if self.more.len() <= word {
                    self.more.resize(word + 1, 0);
                }
                self.more.get_mut(word)
            }
        };
        place.is_some_and(|place| {
            let new = *place & bit == 0;
            *place |= bit;
            new
        })
    }
}
