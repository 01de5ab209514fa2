//! Candidate (c): a suffix automaton, which distinguishes matches of any length.
//!
//! A state stands for all runs of tokens that end at the same positions; its link leads to the
//! state of the longest run that ends at more. The states on the way of links from the end of the
//! text are its suffixes, so appending a token counts one for each.

use crate::index::{Counts, Index, levels_of};
use crate::table::Table;
use crate::{SEPARATOR, TokenId};

/// The state of the empty run. 0 also means "none" in lists of edges.
const ROOT: u32 = 0;

#[derive(Clone, Copy, Default)]
struct State {
    /// Tokens of its longest run.
    length: u32,
    link: u32,
    count: u32,
    first_edge: u32,
}

#[derive(Clone, Copy, Default)]
struct Edge {
    from: u32,
    token: TokenId,
    to: u32,
    next: u32,
}

/// A run of `matched` tokens that belongs to `state`.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    state: u32,
    matched: u32,
}

/// The empty run.
const EMPTY: Run = Run {
    state: ROOT,
    matched: 0,
};

pub(crate) struct Automaton {
    states: Vec<State>,
    edges: Vec<Edge>,
    by_token: Table,
    /// The state of the whole document so far.
    last: u32,
}

impl Automaton {
    pub(crate) fn new() -> Self {
        Self {
            states: vec![State::default()],
            edges: vec![Edge::default()],
            by_token: Table::new(),
            last: ROOT,
        }
    }

    fn edge(&self, from: u32, token: TokenId) -> Option<u32> {
        self.by_token.get((from, token), |id| {
            let edge = &self.edges[id as usize];
            (edge.from, edge.token) == (from, token)
        })
    }

    fn add_edge(&mut self, from: u32, token: TokenId, to: u32) {
        let id = self.edges.len() as u32;
        let next = std::mem::replace(&mut self.states[from as usize].first_edge, id);
        self.edges.push(Edge {
            from,
            token,
            to,
            next,
        });
        let edges = &self.edges;
        self.by_token.insert((from, token), id, |id| {
            let edge = &edges[id as usize];
            (edge.from, edge.token)
        });
    }

    fn add_state(&mut self, state: State) -> u32 {
        self.states.push(state);
        self.states.len() as u32 - 1
    }

    /// The state that `edge` leads to when its run is one token longer than that of `from`, else
    /// a copy of it for the shorter runs, to which the edges of shorter suffixes lead from now on.
    fn target(&mut self, from: u32, edge: u32) -> u32 {
        let old = self.edges[edge as usize].to;
        let token = self.edges[edge as usize].token;
        let length = self.states[from as usize].length + 1;
        if self.states[old as usize].length == length {
            return old;
        }
        let copy = self.add_state(State {
            length,
            first_edge: 0,
            ..self.states[old as usize]
        });
        let mut id = self.states[old as usize].first_edge;
        while id != 0 {
            let Edge {
                token, to, next, ..
            } = self.edges[id as usize];
            self.add_edge(copy, token, to);
            id = next;
        }
        self.states[old as usize].link = copy;
        let mut state = from;
        while let Some(edge) = self.edge(state, token) {
            if self.edges[edge as usize].to != old {
                break;
            }
            self.edges[edge as usize].to = copy;
            if state == ROOT {
                break;
            }
            state = self.states[state as usize].link;
        }
        copy
    }

    /// The state of the document with `token` at its end.
    fn extend(&mut self, token: TokenId) -> u32 {
        let mut state = self.last;
        if let Some(edge) = self.edge(state, token) {
            return self.target(state, edge);
        }
        let new = self.add_state(State {
            length: self.states[state as usize].length + 1,
            ..State::default()
        });
        loop {
            if let Some(edge) = self.edge(state, token) {
                self.states[new as usize].link = self.target(state, edge);
                return new;
            }
            self.add_edge(state, token, new);
            if state == ROOT {
                return new;
            }
            state = self.states[state as usize].link;
        }
    }

    /// The longest end of `run` and `token` that was seen, which may be the empty one.
    fn step(&self, mut run: Run, token: TokenId) -> Run {
        loop {
            if let Some(edge) = self.edge(run.state, token) {
                return Run {
                    state: self.edges[edge as usize].to,
                    matched: run.matched + 1,
                };
            }
            if run.state == ROOT {
                return EMPTY;
            }
            run = self.shorter(run);
        }
    }

    fn shorter(&self, run: Run) -> Run {
        let state = self.states[run.state as usize].link;
        Run {
            state,
            matched: self.states[state as usize].length,
        }
    }
}

impl Index for Automaton {
    type Place = Run;

    fn push(&mut self, token: TokenId) {
        if token == SEPARATOR {
            self.last = ROOT;
            return;
        }
        self.last = self.extend(token);
        let mut state = self.last;
        while state != ROOT {
            self.states[state as usize].count += 1;
            state = self.states[state as usize].link;
        }
    }

    fn own_places(&self, _context: &[TokenId], places: &mut Vec<Run>) {
        let state = &self.states[self.last as usize];
        let matched = state.length;
        let whole = Run {
            state: self.last,
            matched,
        };
        places.clear();
        places.push(whole);
    }

    fn follow(&self, context: &[TokenId], fresh: usize, places: &mut Vec<Run>) {
        let mut run = places.pop().unwrap_or(EMPTY);
        for &token in &context[context.len().saturating_sub(fresh)..] {
            run = self.step(run, token);
        }
        places.push(run);
    }

    fn count(&self, places: &[Run], weight: f32, counts: &mut Counts) {
        let Some(&run) = places.first() else { return };
        let mut run = run;
        while run.state != ROOT {
            let shorter = self.shorter(run);
            let first = levels_of(shorter.matched as usize);
            let last = levels_of(run.matched as usize);
            let mut id = self.states[run.state as usize].first_edge;
            while id != 0 && first < last {
                let edge = &self.edges[id as usize];
                let count = self.states[edge.to as usize].count;
                counts.add(edge.token, first, last, count as f32 * weight);
                id = edge.next;
            }
            run = shorter;
        }
    }

    fn advance(&self, place: Run, token: TokenId) -> Option<Run> {
        Some(self.step(place, token))
    }

    fn first(&self, _token: TokenId) -> Option<Run> {
        None
    }

    fn bytes(&self) -> usize {
        size_of_val(self.states.as_slice())
            + size_of_val(self.edges.as_slice())
            + self.by_token.bytes()
    }
}
