//! The drafts of one step: what requests are asked for, what they offer, what is bought of it.

use spectrie_trie::DraftTree;
use spectrie_types::limits::MAX_DRAFT_TOKENS;
use spectrie_types::{Source, SpeculationMode};

use super::bid::{self, Bid};
use super::budget::{self, BaseRows, Purchase};
use super::drafting::Drafting;
use super::gain::Trial;
use super::heads::Probed;
use super::tree::SentTree;
use crate::costs::{CostCurve, ForwardSize};

/// A request whose drafts could not pay still scores a first token once in a number of steps: what
/// follows then shows whether it has become more predictable.
const SCORE_EVERY: u64 = 8;

/// A decoding request that may be asked for drafts.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) drafting: &'a mut Drafting,
    /// Cached tokens that each of its rows reads.
    pub(crate) kv_len: usize,
    /// Tokens that it may still emit.
    pub(crate) num_left: usize,
    /// Whether its grammar lets nothing more follow.
    pub(crate) grammar_has_ended: bool,
    /// Whether its drafts are among those that may take the step to a limit only.
    pub(crate) is_limited: bool,
}

/// What requests are asked for in one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) step: u64,
    /// Whether no request is asked that leaves its drafts to the budget.
    pub(super) is_plain: bool,
    /// Those that are asked whatever it takes, because a drafter of the runner's is tried on them.
    pub(super) probed: Option<Probed>,
    /// Rows that may be added to the step.
    pub(super) rows_left: usize,
    pub(super) max_context: usize,
    /// Nodes of each request in mode tiers.
    pub(super) tier: usize,
    /// The least value worth offering; `None` when not even certain drafts would pay.
    pub(super) min_value: Option<f32>,
}

/// What one request could send.
#[derive(Debug)]
pub(crate) struct Offer {
    tree: DraftTree,
    /// Fixed modes send all they have.
    is_fixed: bool,
    is_limited: bool,
    /// Every node that may be sent, sorted; then the head that is.
    bids: Vec<Bid>,
}

/// What requests were asked for in one step, and what they offer.
#[derive(Debug)]
pub(crate) struct Round {
    pub(super) base: BaseRows,
    pub(super) trial: Trial,
    pub(super) question: Question,
    /// One of each candidate, in their order.
    pub(super) offers: Vec<Offer>,
    /// What asking took.
    pub(super) asked_ms: f64,
}

/// The drafts of a step.
#[derive(Debug)]
pub(crate) struct StepDrafts {
    /// One of each candidate, in their order.
    pub(crate) offers: Vec<Offer>,
    /// What the step says about the gain of drafts.
    pub(crate) trial: Option<Trial>,
}

/// What a request is asked for: at most so many nodes, each of at least this value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) most: usize,
    pub(super) min_value: f32,
}

impl Candidate<'_> {
    /// What the row of its last token computes.
    pub(super) fn size(&self) -> ForwardSize {
        ForwardSize::of_tree(self.kv_len, 1, 1)
    }

    /// Whether the budget has no say in its drafts.
    pub(super) fn is_fixed(&self) -> bool {
        self.drafting.mode() != SpeculationMode::Auto
    }

    /// Nodes that a drafter of the runner's is asked about at `level`, whatever that costs: at most so many.
    /// `tier` levels are asked in mode tiers, about one node each; none of a tenant ahead of its share.
    pub(super) fn fixed_rows(&self, level: usize, tier: usize) -> usize {
        match self.drafting.mode() {
            _ if self.is_limited => 0,
            SpeculationMode::Eagle2 | SpeculationMode::Chain => MAX_DRAFT_TOKENS,
            SpeculationMode::Tiers => usize::from(level <= tier),
            _ => 0,
        }
    }

    /// The deepest node that may be of use: a path of n nodes emits up to n + 1 tokens.
    pub(super) fn max_depth(&self) -> usize {
        self.num_left.saturating_sub(1)
    }
}

impl Question {
    /// Most nodes of a request.
    fn most(&self, candidate: &Candidate<'_>) -> usize {
        let most = match candidate.drafting.mode() {
            SpeculationMode::Tiers => self.tier,
            _ => MAX_DRAFT_TOKENS,
        };
        let in_context = self.max_context.saturating_sub(candidate.kv_len + 1);
        most.min(self.rows_left)
            .min(in_context)
            .min(candidate.drafting.max_nodes())
    }

    /// What the request at `index` is to be asked for; `None` when it is not its turn.
    pub(super) fn terms(&self, index: usize, candidate: &Candidate<'_>) -> Option<Terms> {
        let most = self.most(candidate);
        let may_send = most.min(candidate.max_depth()) > 0;
        if candidate.is_fixed() {
            let may_draft = may_send && candidate.drafting.mode() != SpeculationMode::Off;
            return may_draft.then_some(Terms {
                most,
                min_value: 0.0,
            });
        }
        if !self.is_probed(index) && !self.is_due(candidate) {
            return None;
        }
        let scored = Terms {
            most: 0,
            min_value: 1.0,
        };
        match self.min_value.filter(|_| may_send) {
            Some(min_value) => Some(Terms { most, min_value }),
            None => self.step.is_multiple_of(SCORE_EVERY).then_some(scored),
        }
    }

    /// What the request at `index` offers, given what it drafted on these terms; `None` did not ask it.
    pub(super) fn offer(
        &self,
        index: usize,
        candidate: &mut Candidate<'_>,
        terms: Option<Terms>,
        tree: DraftTree,
    ) -> Offer {
        let is_fixed = candidate.is_fixed();
        let (most, max_depth) = (self.most(candidate), candidate.max_depth());
        let drafting = &mut *candidate.drafting;
        drafting.is_asked = terms.is_some();
        let trust = if is_fixed {
            1.0
        } else {
            drafting.backoff.trust()
        };
        // What a grammar forces costs next to nothing to find, so it is not waited for.
        let may_buy = is_fixed || (self.min_value.is_some() && !self.is_plain);
        let tree = if !(most.min(max_depth) > 0 && may_buy) {
            tree
        } else if candidate.grammar_has_ended {
            DraftTree::default()
        } else {
            drafting.shape(tree, most)
        };
        let mut bids = bid::bids(index, &tree, candidate.kv_len, max_depth, trust);
        bid::sort(&mut bids);
        // Where nobody else is asked, one that a drafter is tried on sends nothing either.
        bids.truncate(if self.is_plain && !is_fixed { 0 } else { most });
        Offer {
            tree,
            is_fixed,
            is_limited: candidate.is_limited,
            bids,
        }
    }
}

impl Offer {
    /// Whether the budget has no say in it.
    pub(super) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Whether draft memory gave tokens that the request's own text does not have.
    pub(super) fn has_memory(&self) -> bool {
        let mut nodes = self.tree.nodes.iter();
        nodes.any(|node| matches!(node.source, Source::Shared | Source::Corpus))
    }

    /// Draft nodes that are bought.
    pub(crate) fn num_bought(&self) -> usize {
        self.bids.len()
    }

    /// The nodes up for choice.
    pub(super) fn bids(&self) -> &[Bid] {
        &self.bids
    }

    /// Tokens that the bought nodes promise.
    pub(super) fn promised(&self) -> f64 {
        self.bids.iter().map(|bid| f64::from(bid.value)).sum()
    }

    /// The tree that is sent where slots are left for `count` of the bought nodes.
    pub(crate) fn send(self, count: usize) -> SentTree {
        let mut keep = vec![false; self.tree.nodes.len()];
        for bid in &self.bids[..count] {
            keep[bid.node] = true;
        }
        SentTree::new(self.tree, |node| keep[node])
    }
}

/// Leaves each offer the bids that are bought, where asking for all of them took `asked_ms`. Those of
/// limited offers alone take the step to `limit_ms` at most.
pub(super) fn buy(
    offers: &mut [Offer],
    mut base: BaseRows,
    asked_ms: f64,
    limit_ms: f64,
    costs: &CostCurve,
) -> Purchase {
    let mut limited = Limited {
        size: base.whole(),
        limit_ms,
        costs,
    };
    let mut tiles = Tiles {
        rows: vec![1; offers.len()],
        tile_rows: costs.tile_rows(),
    };
    for offer in offers.iter_mut().filter(|offer| offer.is_fixed) {
        offer.bids.truncate(base.left);
        let mut num_fit = 0;
        for bid in &mut offer.bids {
            tiles.place(bid);
            if offer.is_limited && !limited.takes(bid) {
                break;
            }
            num_fit += 1;
        }
        offer.bids.truncate(num_fit);
        base.left -= num_fit;
        base.trees = base.trees + offer.bids.iter().map(|bid| bid.added).sum();
    }
    let mut bids: Vec<Bid> = Vec::new();
    for offer in offers.iter_mut().filter(|offer| !offer.is_fixed) {
        bids.append(&mut offer.bids);
    }
    bid::sort(&mut bids);
    bids.retain_mut(|bid| {
        tiles.place(bid);
        let is_taken = !offers[bid.offer].is_limited || limited.takes(bid);
        if !is_taken {
            tiles.take_back(bid);
        }
        is_taken
    });
    let purchase = budget::purchase(&bids, base, asked_ms, costs);
    for bid in &bids[..purchase.nodes] {
        offers[bid.offer].bids.push(*bid);
    }
    purchase
}

/// Rows that each offer sends so far, its last token's included: they fill its tiles one by one.
struct Tiles {
    rows: Vec<usize>,
    tile_rows: usize,
}

impl Tiles {
    /// Lets a bid be its offer's next row, which reads nothing that the rows of its tile have read.
    fn place(&mut self, bid: &mut Bid) {
        let rows = &mut self.rows[bid.offer];
        if !rows.is_multiple_of(self.tile_rows) {
            bid.added.kv_reads = 0;
        }
        *rows += 1;
    }

    /// Takes back the last row of a bid's offer.
    fn take_back(&mut self, bid: &Bid) {
        self.rows[bid.offer] -= 1;
    }
}

/// A step with limited drafts alone.
struct Limited<'a> {
    size: ForwardSize,
    limit_ms: f64,
    costs: &'a CostCurve,
}

impl Limited<'_> {
    /// Adds the row of a bid; false from the first one on that takes too long.
    fn takes(&mut self, bid: &Bid) -> bool {
        self.size = self.size + bid.added;
        self.costs.milliseconds(self.size) <= self.limit_ms
    }
}

#[cfg(test)]
mod tests {
    use spectrie_trie::DraftNode;
    use spectrie_types::Source;

    use super::*;
    use crate::costs::CostShape;

    /// Six tokens that are certain, of the request at `index`.
    fn offer(index: usize, is_limited: bool, is_fixed: bool) -> Offer {
        path(index, is_limited, is_fixed, 1.0, 0)
    }

    /// A path of six tokens of this value, of a request with `kv_len` cached tokens.
    fn path(index: usize, is_limited: bool, is_fixed: bool, value: f32, kv_len: usize) -> Offer {
        let node = |depth: u16| DraftNode {
            token: 1,
            parent: depth.checked_sub(2).map(u32::from),
            depth,
            value,
            source: Source::Request,
        };
        let tree = DraftTree {
            nodes: (1..=6).map(node).collect(),
        };
        let bids = bid::bids(index, &tree, kv_len, 6, 1.0);
        Offer {
            tree,
            is_fixed,
            is_limited,
            bids,
        }
    }

    #[test]
    fn limited_drafts_take_the_step_to_its_limit_and_leave_others_alone() {
        let base = BaseRows {
            decoding: 2,
            trees: ForwardSize::of_tree(0, 2, 1),
            chunk: ForwardSize::default(),
            left: 100,
        };
        // Ten milliseconds, and a tenth for each further row.
        let costs = CostCurve::new(&[1, 101], &[10.0, 20.0], CostShape::default()).unwrap();
        for (is_fixed, limit_ms, expected) in [
            (false, f64::INFINITY, [6, 6]),
            (false, 10.35, [2, 6]),
            (false, 10.0, [0, 6]),
            (true, 10.35, [2, 6]),
            (true, 10.0, [0, 6]),
        ] {
            let mut offers = [offer(0, true, is_fixed), offer(1, false, is_fixed)];
            buy(&mut offers, base, 0.0, limit_ms, &costs);
            let bought = offers.each_ref().map(Offer::num_bought);
            assert_eq!(bought, expected, "{limit_ms} ms");
        }
    }

    #[test]
    fn a_tile_that_is_read_anyway_is_filled_and_another_must_pay() {
        // Reading takes as long as all the rest.
        let kv_len = 10_000;
        for (tile_rows, expected) in [(1, 0), (4, 3), (64, 6)] {
            let shape = CostShape {
                ms_per_read: 0.001,
                tile_rows,
                ..CostShape::default()
            };
            let costs = CostCurve::new(&[1, 101], &[10.0, 10.1], shape).unwrap();
            let base = BaseRows {
                decoding: 1,
                trees: ForwardSize::of_tree(kv_len, 1, tile_rows),
                chunk: ForwardSize::default(),
                left: 100,
            };
            let mut offers = [path(0, false, false, 0.3, kv_len)];
            buy(&mut offers, base, 0.0, f64::INFINITY, &costs);
            assert_eq!(offers[0].num_bought(), expected, "tiles of {tile_rows}");
        }
    }
}
