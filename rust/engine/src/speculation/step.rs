//! The draft nodes of one step: what requests offer, what the budget buys, what pages can hold.

use std::time::Instant;

use spectrie_trie::DraftTree;
use spectrie_types::SpeculationMode;
use spectrie_types::limits::MAX_DRAFT_TOKENS;
use spectrie_types::seed::splitmix;

use crate::request_key::RequestKey;
use crate::scheduling::scheduler::{InFlight, Part, Scheduler, Work};
use crate::speculation::bid::{self, Bid};
use crate::speculation::budget::{self, BaseRows, Purchase};
use crate::speculation::decisions::Step;
use crate::speculation::forward_size::ForwardSize;
use crate::speculation::tree::SentTree;
use crate::speculation::trial::Trial;

/// A request whose drafts could not pay still scores the first token of one in so many steps: what
/// follows then tells whether it has become more predictable.
const SCORE_EVERY: u64 = 8;

/// What one request could send.
#[derive(Debug)]
struct Offer {
    key: RequestKey,
    tree: DraftTree,
    /// Fixed modes send all they have.
    is_fixed: bool,
    /// Cached tokens that each of its rows reads.
    kv_tokens: usize,
    /// Every node that may be sent, sorted; then the head that is.
    bids: Vec<Bid>,
}

impl Scheduler {
    /// The trees that the decoding requests `keys` send in a step with a chunk of the size `chunk`,
    /// and what the step says about the gain of drafts.
    pub(crate) fn draft(
        &mut self,
        keys: &[RequestKey],
        chunk: ForwardSize,
    ) -> (Vec<(RequestKey, SentTree)>, Option<Trial>) {
        let is_holdout = self.is_holdout();
        let mut base = BaseRows {
            decoding: keys.len(),
            chunk: chunk.rows,
            fixed: 0,
            kv_tokens: self.kv_tokens_of(keys),
            chunk_kv_tokens: chunk.kv_tokens,
            left: (self.config.max_batch_rows).saturating_sub(keys.len() + chunk.rows),
        };
        let started = Instant::now();
        let mut offers = self.collect_offers(keys, base, is_holdout);
        self.totals.drafting_ms_total += started.elapsed().as_secs_f64() * 1e3;
        let purchase = self.buy(&mut offers, &mut base);
        if !is_holdout {
            self.note_earnings(&offers, purchase);
        }
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

    /// Cached tokens that one row of each of these requests reads.
    pub(crate) fn kv_tokens_of(&self, keys: &[RequestKey]) -> usize {
        let found = keys.iter().filter_map(|key| self.running.get(key));
        found.map(|sequence| sequence.kv_len).sum()
    }

    fn collect_offers(
        &mut self,
        keys: &[RequestKey],
        base: BaseRows,
        is_holdout: bool,
    ) -> Vec<Offer> {
        let most_of_all = self.config.max_draft_tokens * keys.len();
        let min_value = budget::min_value(base, most_of_all, &self.costs);
        let step = self.last_plan_id;
        let scores = is_holdout || step.is_multiple_of(SCORE_EVERY);
        let tier = self.tiers.nodes(keys.len());
        let mut offers = Vec::with_capacity(keys.len());
        for &key in keys {
            let Some(sequence) = self.running.get_mut(&key) else {
                continue;
            };
            // A path of n nodes emits up to n + 1 tokens.
            let max_depth = sequence.num_left().saturating_sub(1);
            let in_context = self.config.max_context.saturating_sub(sequence.kv_len + 1);
            let mode = sequence.drafting.mode();
            let is_fixed = mode != SpeculationMode::Auto;
            let most = match mode {
                SpeculationMode::Tiers => tier,
                _ => MAX_DRAFT_TOKENS,
            };
            let most = most.min(base.left).min(in_context);
            let most = most.min(sequence.drafting.max_nodes());
            let may_send = most.min(max_depth) > 0;
            let drafting = &mut sequence.drafting;
            // The most nodes to ask for, and the least value of each.
            let question = if is_fixed {
                may_send.then_some((most, 0.0))
            } else if !drafting.backoff.is_due(step) {
                None
            } else {
                match min_value.filter(|_| !is_holdout && may_send) {
                    Some(price) => Some((most, price)),
                    None => scores.then_some((0, 1.0)),
                }
            };
            drafting.is_asked = question.is_some();
            let tree = question.map_or_else(DraftTree::default, |(most, price)| {
                self.totals.draft_calls += u64::from(mode != SpeculationMode::Off);
                drafting.draft(most, price)
            });
            let trust = if is_fixed {
                1.0
            } else {
                drafting.backoff.trust()
            };
            // What a grammar forces costs next to nothing to find, so it is not waited for.
            let may_buy = is_fixed || (min_value.is_some() && !is_holdout);
            let tree = if may_send && may_buy {
                sequence.shape(tree, most)
            } else {
                tree
            };
            let kv_tokens = sequence.kv_len;
            let mut bids = bid::bids(offers.len(), &tree, kv_tokens, max_depth, trust);
            bid::sort(&mut bids);
            bids.truncate(most);
            offers.push(Offer {
                key,
                tree,
                is_fixed,
                kv_tokens,
                bids,
            });
        }
        offers
    }

    /// Leaves each offer the bids that are bought.
    fn buy(&self, offers: &mut [Offer], base: &mut BaseRows) -> Purchase {
        for offer in offers.iter_mut().filter(|offer| offer.is_fixed) {
            offer.bids.truncate(base.left);
            base.left -= offer.bids.len();
            base.fixed += offer.bids.len();
            base.kv_tokens += offer.bids.len() * offer.kv_tokens;
        }
        let mut bids: Vec<Bid> = Vec::new();
        for offer in offers.iter_mut().filter(|offer| !offer.is_fixed) {
            bids.append(&mut offer.bids);
        }
        bid::sort(&mut bids);
        let purchase = budget::purchase(&bids, *base, &self.costs);
        for bid in &bids[..purchase.nodes] {
            offers[bid.offer].bids.push(*bid);
        }
        purchase
    }

    /// Tells the requests that were asked what their drafts should save.
    fn note_earnings(&mut self, offers: &[Offer], purchase: Purchase) {
        for offer in offers.iter().filter(|offer| !offer.is_fixed) {
            if let Some(sequence) = self.running.get_mut(&offer.key)
                && sequence.drafting.is_asked
            {
                let tokens: f64 = offer.bids.iter().map(|bid| f64::from(bid.value)).sum();
                let price = offer.bids.len() as f64 * purchase.ms_per_node;
                let backoff = &mut sequence.drafting.backoff;
                backoff.note_earnings(tokens * purchase.ms_per_token - price);
            }
        }
    }

    /// Cached tokens that the rows of a step of trees alone read.
    pub(crate) fn kv_tokens_of_trees(&self, parts: &[Part]) -> Option<usize> {
        parts.iter().try_fold(0, |sum, part| match &part.work {
            Work::Tree(tree) => {
                let kv_len = self.running.get(&part.key).map_or(0, |one| one.kv_len);
                Some(sum + (1 + tree.num_nodes()) * kv_len)
            }
            Work::Chunk(_) => None,
        })
    }

    /// Takes what a step emitted, and the time from its plan to its results, for evidence of what
    /// drafts gain.
    pub(crate) fn note_step(&mut self, open: &InFlight, num_tokens: u64, milliseconds: f64) {
        self.tiers.end_step();
        let Some(trial) = open.trial else {
            self.decisions.end_step(None);
            return;
        };
        self.trials.note(trial, num_tokens, milliseconds);
        let num_requests = open.parts.len();
        let alone = ForwardSize {
            rows: num_requests,
            kv_tokens: 0,
        };
        let more = self.costs.milliseconds(ForwardSize {
            rows: 2 * num_requests,
            ..alone
        });
        let step = Step {
            trial,
            num_requests,
            num_drafts: open.num_rows - num_requests,
            num_tokens,
            milliseconds,
            break_even: more / self.costs.milliseconds(alone) - 1.0,
        };
        if let Some(is_right) = self.decisions.end_step(Some(&step)) {
            self.totals.choices_total += 1;
            self.totals.choices_right += u64::from(is_right);
        }
    }

    /// Whether this step measures what decoding without drafts would cost: a fixed, scattered share
    /// of steps.
    fn is_holdout(&self) -> bool {
        let every = self.config.holdout_every;
        every > 0 && splitmix(self.last_plan_id).is_multiple_of(every)
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
