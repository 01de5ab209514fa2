//! Candidate (a): a path-compressed suffix trie whose edges are slices of a token log.
//!
//! Every run of up to `depth` tokens of a document is a path from the root. While text comes, a
//! point stands at the end of each suffix that occurred before. A suffix that did not gets a leaf,
//! whose edge is the text to come: it costs no further work. A node counts how often its edge was
//! entered; those not yet at the end of the edge are still points, and are subtracted.

use crate::index::{Counts, Index, LEVELS, levels_of};
use crate::table::Table;
use crate::{SEPARATOR, TokenId};

/// The root, which is no node's child; so 0 also means "none" in lists.
const ROOT: u32 = 0;

#[derive(Clone, Copy, Default)]
struct Node {
    /// Where in the log the tokens of the edge to this node stand.
    start: u32,
    length: u16,
    parent: u32,
    /// How often the edge was entered.
    count: u32,
    first_child: u32,
    /// Siblings, the one entered last first.
    next: u32,
    previous: u32,
}

/// A path from the root: `offset` tokens down the edge to `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    node: u32,
    offset: u16,
    /// Tokens from the root.
    matched: u16,
}

pub(crate) struct SuffixTrie {
    /// Tokens of the longest path.
    depth: u16,
    /// Children read of one node at most.
    max_children: usize,
    log: Vec<TokenId>,
    nodes: Vec<Node>,
    children: Table,
    /// Ends of the suffixes that occurred before, the longest first.
    points: Vec<Point>,
}

impl SuffixTrie {
    /// Matches of up to `longest` tokens, of which the `most` continuations seen last are read.
    pub(crate) fn new(longest: u16, max_children: usize) -> Self {
        Self {
            depth: longest + 1,
            max_children,
            log: Vec::new(),
            nodes: vec![Node::default()],
            children: Table::new(),
            points: Vec::new(),
        }
    }

    fn pair(&self, child: u32) -> (u32, u32) {
        let node = &self.nodes[child as usize];
        (node.parent, self.log[node.start as usize])
    }

    fn child(&self, node: u32, token: TokenId) -> Option<u32> {
        self.children
            .get((node, token), |child| self.pair(child) == (node, token))
    }

    fn step(&self, point: Point, token: TokenId) -> Option<Point> {
        let node = &self.nodes[point.node as usize];
        let matched = point.matched + 1;
        if point.offset == node.length {
            let node = self.child(point.node, token)?;
            return Some(Point {
                node,
                offset: 1,
                matched,
            });
        }
        let position = node.start as usize + usize::from(point.offset);
        (self.log.get(position) == Some(&token)).then_some(Point {
            offset: point.offset + 1,
            matched,
            ..point
        })
    }

    /// Puts a node that its parent's table already leads to at the head of its list.
    fn enlist(&mut self, node: u32, parent: u32) {
        let first = std::mem::replace(&mut self.nodes[parent as usize].first_child, node);
        self.nodes[node as usize].next = first;
        self.nodes[node as usize].previous = ROOT;
        if first != ROOT {
            self.nodes[first as usize].previous = node;
        }
    }

    fn delist(&mut self, node: u32) {
        let Node {
            parent,
            next,
            previous,
            ..
        } = self.nodes[node as usize];
        if previous == ROOT {
            self.nodes[parent as usize].first_child = next;
        } else {
            self.nodes[previous as usize].next = next;
        }
        if next != ROOT {
            self.nodes[next as usize].previous = previous;
        }
    }

    fn enter(&mut self, node: u32) {
        self.nodes[node as usize].count += 1;
        let Node {
            parent, previous, ..
        } = self.nodes[node as usize];
        if previous != ROOT {
            self.delist(node);
            self.enlist(node, parent);
        }
    }

    fn add_leaf(&mut self, parent: u32, position: u32, length: u16) {
        let leaf = self.nodes.len() as u32;
        self.nodes.push(Node {
            start: position,
            length,
            parent,
            count: 1,
            ..Node::default()
        });
        self.add_child(parent, leaf);
    }

    fn add_child(&mut self, parent: u32, node: u32) {
        let nodes = &self.nodes;
        let log = &self.log;
        self.children.insert(
            (parent, log[nodes[node as usize].start as usize]),
            node,
            |id| {
                let node = &nodes[id as usize];
                (node.parent, log[node.start as usize])
            },
        );
        self.enlist(node, parent);
    }

    /// Points on the edge of `node` that have not come further than `offset`.
    fn waiting(points: &[Point], node: u32, offset: u16) -> u32 {
        let waits = |point: &&Point| point.node == node && point.offset <= offset;
        points.iter().filter(waits).count() as u32
    }

    /// Makes a node where `at` stands. Points before `moved` and from `unmoved` on are valid.
    fn split(&mut self, at: Point, moved: usize, unmoved: usize) -> u32 {
        let lower = at.node;
        let upper = self.nodes.len() as u32;
        let whole = self.nodes[lower as usize];
        let waiting = Self::waiting(&self.points[unmoved..], lower, at.offset);
        self.children.put(self.pair(lower), lower, upper);
        self.nodes.push(Node {
            length: at.offset,
            first_child: ROOT,
            ..whole
        });
        if whole.previous == ROOT {
            self.nodes[whole.parent as usize].first_child = upper;
        } else {
            self.nodes[whole.previous as usize].next = upper;
        }
        if whole.next != ROOT {
            self.nodes[whole.next as usize].previous = upper;
        }
        let below = &mut self.nodes[lower as usize];
        below.start += u32::from(at.offset);
        below.length -= at.offset;
        below.parent = upper;
        below.count -= waiting;
        self.add_child(upper, lower);
        let (before, after) = self.points.split_at_mut(unmoved);
        for point in before[..moved].iter_mut().chain(after) {
            if point.node == lower && point.offset > at.offset {
                point.offset -= at.offset;
            } else if point.node == lower {
                point.node = upper;
            }
        }
        upper
    }

    /// The node where `at` stands, made when there is none.
    fn node_at(&mut self, at: Point, moved: usize, unmoved: usize) -> u32 {
        if at.offset == self.nodes[at.node as usize].length {
            at.node
        } else {
            self.split(at, moved, unmoved)
        }
    }

    fn end_document(&mut self) {
        for index in 0..self.points.len() {
            self.node_at(self.points[index], index, index);
        }
        self.points.clear();
    }
}

impl Index for SuffixTrie {
    type Place = Point;

    fn push(&mut self, token: TokenId) {
        let position = self.log.len() as u32;
        self.log.push(token);
        if token == SEPARATOR {
            self.end_document();
            return;
        }
        let mut moved = 0;
        for unmoved in 0..self.points.len() {
            let point = self.points[unmoved];
            if let Some(next) = self.step(point, token) {
                if next.offset == 1 {
                    self.enter(next.node);
                }
                if next.matched < self.depth {
                    self.points[moved] = next;
                    moved += 1;
                }
            } else {
                let node = self.node_at(point, moved, unmoved);
                self.add_leaf(node, position, self.depth - point.matched);
            }
        }
        self.points.truncate(moved);
        if let Some(first) = self.first(token) {
            self.enter(first.node);
            self.points.push(first);
        } else {
            self.add_leaf(ROOT, position, self.depth);
        }
    }

    fn own_places(&self, _context: &[TokenId], places: &mut Vec<Point>) {
        places.clear();
        places.extend_from_slice(&self.points);
    }

    fn follow(&self, context: &[TokenId], fresh: usize, places: &mut Vec<Point>) {
        for &token in &context[context.len().saturating_sub(fresh)..] {
            places.retain_mut(|place| {
                let next = self
                    .step(*place, token)
                    .filter(|next| next.matched < self.depth);
                next.inspect(|&next| *place = next).is_some()
            });
            places.extend(self.first(token));
        }
    }

    fn count(&self, places: &[Point], weight: f32, counts: &mut Counts) {
        for place in places {
            let last = levels_of(usize::from(place.matched));
            if LEVELS[last - 1] != usize::from(place.matched) {
                continue;
            }
            let node = &self.nodes[place.node as usize];
            let passed = node.count - Self::waiting(&self.points, place.node, place.offset);
            if place.offset < node.length {
                let position = node.start as usize + usize::from(place.offset);
                match self.log.get(position) {
                    Some(&token) if token != SEPARATOR => {
                        counts.add(token, last - 1, last, passed as f32 * weight);
                    }
                    _ => {}
                }
                continue;
            }
            let mut child = node.first_child;
            let (mut read, mut listed) = (0, 0);
            while child != ROOT && read < self.max_children {
                let below = &self.nodes[child as usize];
                let token = self.log[below.start as usize];
                if token != SEPARATOR {
                    counts.add(token, last - 1, last, below.count as f32 * weight);
                }
                listed += below.count;
                read += 1;
                child = below.next;
            }
            if child != ROOT {
                let rest = passed.saturating_sub(listed);
                counts.add_unlisted(last - 1, last, rest as f32 * weight);
            }
        }
    }

    fn advance(&self, place: Point, token: TokenId) -> Option<Point> {
        self.step(place, token)
            .filter(|next| next.matched < self.depth)
    }

    fn first(&self, token: TokenId) -> Option<Point> {
        self.child(ROOT, token).map(|node| Point {
            node,
            offset: 1,
            matched: 1,
        })
    }

    fn bytes(&self) -> usize {
        size_of_val(self.log.as_slice())
            + size_of_val(self.nodes.as_slice())
            + self.children.bytes()
    }
}
