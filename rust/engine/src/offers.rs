//! The draft nodes of one step: what requests offer, what the budget buys, what pages can hold.

use spectrie_trie::DraftTree;

use crate::budget::{self, BaseRows, Bid};
use crate::config::{MAX_DRAFT_TOKENS, SpeculationMode};
use crate::gain::Trial;
use crate::noise::splitmix;
use crate::scheduler::Scheduler;
use crate::sequence::OrderKey;
use crate::tree::SentTree;

/// A request whose drafts could not pay still scores the first token of one in so many steps: what
/// follows then tells whether it has become more predictable.
const SCORE_EVERY: u64 = 8;

/// What one request could send.
#[derive(Debug)]
struct Offer {
    key: OrderKey,
    tree: DraftTree,
    /// Fixed modes send all they have.
    is_fixed: bool,
    /// Every node that may be sent, sorted; then the head that is.
    bids: Vec<Bid>,
}

impl Scheduler {
    /// The trees that the decoding requests `keys` send in a step with `num_chunk` prompt rows, and
    /// what the step says about the gain of drafts.
    pub(crate) fn draft(
        &mut self,
        keys: &[OrderKey],
        num_chunk: usize,
    ) -> (Vec<(OrderKey, SentTree)>, Option<Trial>) {
        let is_holdout = self.is_holdout();
        let mut offers = self.collect_offers(keys, num_chunk, is_holdout);
        self.buy(&mut offers, num_chunk);
        let trial = offers.iter().any(|offer| !offer.is_fixed).then_some({
            if is_holdout {
                Trial::Holdout
            } else {
                Trial::Offered
            }
        });
        let trees = offers
            .into_iter()
            .map(|offer| (offer.key, self.seat(offer)))
            .collect();
        (trees, trial)
    }

    fn collect_offers(
        &mut self,
        keys: &[OrderKey],
        num_chunk: usize,
        is_holdout: bool,
    ) -> Vec<Offer> {
        let base = BaseRows {
            decoding: keys.len(),
            chunk: num_chunk,
            fixed: 0,
            left: (self.config.max_batch_rows).saturating_sub(keys.len() + num_chunk),
        };
        let most_of_all = self.config.max_draft_tokens * keys.len();
        let min_value = budget::min_value(base, most_of_all, &self.costs);
        let scores = is_holdout || self.last_plan_id.is_multiple_of(SCORE_EVERY);
        let mut offers = Vec::with_capacity(keys.len());
        for &key in keys {
            let Some(sequence) = self.running.get_mut(&key) else {
                continue;
            };
            // A path of n nodes emits up to n + 1 tokens.
            let max_depth = sequence.num_left().saturating_sub(1);
            let in_context = self.config.max_context.saturating_sub(sequence.kv_len + 1);
            let is_fixed = sequence.drafting.mode() != SpeculationMode::Auto;
            let most = base.left.min(in_context).min(MAX_DRAFT_TOKENS);
            let price = if is_fixed {
                Some(0.0)
            } else {
                min_value.filter(|_| !is_holdout)
            };
            let tree = match price {
                Some(price) if most.min(max_depth) > 0 => sequence.drafting.draft(most, price),
                None if scores => sequence.drafting.draft(0, 1.0),
                _ => DraftTree::default(),
            };
            let mut bids = budget::bids(offers.len(), &tree, max_depth);
            budget::sort(&mut bids);
            bids.truncate(most);
            offers.push(Offer {
                key,
                tree,
                is_fixed,
                bids,
            });
        }
        offers
    }

    /// Leaves each offer the bids that are bought.
    fn buy(&self, offers: &mut [Offer], num_chunk: usize) {
        let num_rows = offers.len() + num_chunk;
        let mut num_left = self.config.max_batch_rows.saturating_sub(num_rows);
        let mut num_fixed = 0;
        for offer in offers.iter_mut().filter(|offer| offer.is_fixed) {
            offer.bids.truncate(num_left);
            num_left -= offer.bids.len();
            num_fixed += offer.bids.len();
        }
        let mut bids: Vec<Bid> = Vec::new();
        for offer in offers.iter_mut().filter(|offer| !offer.is_fixed) {
            bids.append(&mut offer.bids);
        }
        budget::sort(&mut bids);
        let base = BaseRows {
            decoding: offers.len(),
            chunk: num_chunk,
            fixed: num_fixed,
            left: num_left,
        };
        let bought = budget::num_bought(&bids, base, &self.costs);
        for bid in &bids[..bought] {
            offers[bid.offer].bids.push(*bid);
        }
    }

    /// Whether this step measures what decoding without drafts would cost: a fixed, scattered share
    /// of steps.
    fn is_holdout(&self) -> bool {
        let every = self.config.holdout_every;
        let counter = self.config.holdout_seed.wrapping_add(self.last_plan_id);
        every > 0 && splitmix(counter).is_multiple_of(every)
    }

    /// The sent part of an offer, as far as free pages can hold it.
    fn seat(&mut self, offer: Offer) -> SentTree {
        let mut count = offer.bids.len();
        if let Some(sequence) = self.running.get_mut(&offer.key) {
            let base = sequence.kv_len + 1;
            count = count.min(self.pool.reach(&sequence.pages).saturating_sub(base));
            self.pool.grow(&mut sequence.pages, base + count);
        }
        let mut keep = vec![false; offer.tree.nodes.len()];
        for bid in &offer.bids[..count] {
            keep[bid.node] = true;
        }
        SentTree::new(offer.tree, |node| keep[node])
    }
}
