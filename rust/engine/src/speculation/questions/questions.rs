//! The levels of a step, between what requests offer and what is bought.

use std::sync::Arc;

use spectrie_trie::{DraftTree, Inquiry};

use super::super::bid::{self, Bid};
use super::super::budget;
use super::super::gain::Trial;
use super::super::heads::{Chosen, LevelRow, LevelRows, Levels, Probed, Why, Wish, likeliest};
use super::super::speculator::Speculator;
use super::super::step::{Candidate, Offer, Round, StepDrafts};
use super::turns::Turns;
use super::wishes::{Reach, wishes};
use crate::clock::Clock;
use crate::costs::ForwardSize;
use crate::error::EngineError;
use crate::forward::DraftAnswers;

/// A step in which drafters may be asked: what requests offer so far, whose turn it is, and the levels.
#[derive(Debug)]
pub(crate) struct Questions {
    pub(super) round: Round,
    pub(super) turns: Turns,
    /// Those of the turn.
    pub(super) levels: Levels,
}

/// Rows by which a step is thought longer, to price one.
const ROWS_MORE: usize = 4;

/// What tokens and rows are worth in a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worth {
    /// Milliseconds that the step takes for each of its tokens.
    pub(super) ms_per_token: f64,
    /// Accepted tokens that a further row costs.
    pub(super) row_price: f32,
}

impl Questions {
    /// The level that waits for its answers.
    pub(crate) fn open(&self) -> Option<&LevelRows> {
        self.levels.open()
    }

    /// The drafter whose turn it is, by its number.
    pub(crate) fn drafter(&self) -> Option<usize> {
        self.turns.now()
    }
}

impl Speculator {
    /// Asks the decoding requests for what they offer before drafters are asked; `reaches` are theirs, for each
    /// drafter.
    pub(crate) fn begin_questions(
        &mut self,
        step: u64,
        candidates: &mut [Candidate<'_>],
        reaches: &[Vec<Reach>],
        chunk: ForwardSize,
        clock: &Arc<dyn Clock>,
    ) -> Questions {
        let every = self.holdout_every();
        let step_ms = self
            .costs
            .milliseconds(self.base_rows(candidates, chunk).whole());
        let all_rest = self.trial(step, candidates.len()) == Trial::Resting;
        let mut turns = Turns::new(candidates.len());
        let (mut open, mut tried) = (Vec::new(), None);
        let in_turn = self.drafters.in_turn();
        let is_alone = in_turn.len() == 1;
        let num_chosen = candidates.iter().filter(|one| !one.is_fixed()).count();
        for drafter in in_turn {
            let Some(heads) = self.drafters.get_mut(drafter) else {
                continue;
            };
            if heads.begin_step(step, every, step_ms) {
                open.push(drafter);
            }
            let some = candidates.iter().zip(&reaches[drafter]).enumerate();
            let some = some.filter(|(_, (one, reach))| reach.may_ask && !one.is_fixed());
            let some: Vec<usize> = some.map(|(index, _)| index).collect();
            let all = candidates.iter().zip(&reaches[drafter]);
            let left_out = all.filter(|(one, reach)| reach.is_left_out && !one.is_fixed());
            let num_meant = some.len() + left_out.count();
            let is_for_all = is_alone && num_meant == num_chosen;
            heads.set_each_for(num_meant, some.len());
            if tried.is_some() {
                continue;
            }
            tried = heads
                .probed(some.len(), is_for_all, all_rest)
                .map(|probed| match probed {
                    Probed::One(turn) => (drafter, Probed::One(some[turn])),
                    Probed::All => (drafter, probed),
                });
        }
        if let Some((drafter, probed)) = tried {
            self.drafters.note_tried(drafter);
            // One that is bought anyway would have a turn at one request in place of one at all.
            if let Probed::One(candidate) = probed
                && !self.drafters.was_bought(drafter)
            {
                turns.set_tried(drafter, candidate);
            }
        }
        let probed = tried.map(|(_, probed)| probed);
        let round = self.ask_all(step, candidates, chunk, probed, clock);
        let may_pay = round.question.min_value.is_some();
        let is_tried = round.trial == Trial::Resting && round.question.probed.is_some();
        let tier = round.question.tier;
        for drafter in self.drafters.numbers() {
            let may_buy = round.trial == Trial::Offered
                || (is_tried && tried.is_some_and(|(tried, _)| tried == drafter));
            let buys = open.contains(&drafter) && may_pay && may_buy;
            let asks = |(one, reach): (&Candidate<'_>, &Reach)| {
                reach.may_ask && reach.is_first && one.fixed_rows(1, tier) > 0
            };
            if buys || candidates.iter().zip(&reaches[drafter]).any(asks) {
                turns.add(drafter, buys);
            }
        }
        let levels = Levels {
            is_over: true,
            row_of: vec![Vec::new(); candidates.len()],
            took_ms: vec![0.0; candidates.len()],
            ..Levels::default()
        };
        Questions {
            round,
            turns,
            levels,
        }
    }

    /// Opens the next level, if one of a drafter is worth its time; `reaches` are those of the candidates, for
    /// each drafter.
    pub(crate) fn next_level(
        &mut self,
        questions: &mut Questions,
        candidates: &mut [Candidate<'_>],
        reaches: &[Vec<Reach>],
    ) {
        // What it rests on changes with answers alone.
        let mut known = None;
        while questions.levels.open.is_none() {
            let begins = questions.levels.is_over;
            if begins && questions.turns.waiting.is_empty() {
                return;
            }
            let worth = *known.get_or_insert_with(|| self.worth(questions));
            if begins && !self.begin_turn(questions, worth, candidates, reaches) {
                return;
            }
            self.open_level(questions, worth, candidates, reaches);
        }
    }

    /// Opens the next level of the turn, or ends the turn.
    fn open_level(
        &mut self,
        questions: &mut Questions,
        Worth {
            ms_per_token,
            row_price,
        }: Worth,
        candidates: &mut [Candidate<'_>],
        reaches: &[Vec<Reach>],
    ) {
        let Questions {
            round,
            turns,
            levels,
        } = questions;
        let drafter = turns.now().unwrap_or_default();
        let Some(heads) = self.drafters.get_mut(drafter) else {
            levels.is_over = true;
            return;
        };
        let reaches = &reaches[drafter];
        let level = levels.num_answered + 1;
        let most = heads.max_rows().saturating_sub(levels.num_rows);
        if level > heads.max_levels() || most == 0 {
            levels.is_over = true;
            return;
        }
        let tier = round.question.tier;
        let is_bought_over = levels.is_bought_over;
        let rows = |index: usize, candidate: &Candidate<'_>| {
            let is_other = turns.only().is_some_and(|only| only != index);
            if !turns.may_ask(index) {
                0
            } else if candidate.is_fixed() {
                usize::from(reaches[index].is_first) * candidate.fixed_rows(level, tier)
            } else if is_bought_over || is_other {
                0
            } else {
                usize::MAX
            }
        };
        let wishes = wishes(level, row_price, rows, candidates, reaches);
        let is_fixed = |wish: &Wish| candidates[wish.candidate].is_fixed();
        let (fixed, wishes) = wishes.into_iter().partition(is_fixed);
        let is_tried = round.question.is_plain;
        let fixed = heads.fixed(fixed, most);
        let num_fixed = fixed.as_ref().map_or(0, |fixed| fixed.wishes.len());
        let left = most - num_fixed;
        let bought = if levels.is_bought_over || left == 0 {
            None
        } else if is_tried || (turns.only().is_some() && level == 1) {
            heads.try_out(wishes, left, ms_per_token)
        } else {
            heads.choose(level, wishes, left, ms_per_token)
        };
        // No level follows one without rows.
        let num_bought = bought.as_ref().map_or(0, |bought| bought.wishes.len());
        // Where all rest, nothing is sent of this step, but the next ones may be.
        levels.is_bought_over = num_bought == 0 || is_tried;
        levels.is_over = levels.is_bought_over && num_fixed == 0;
        let tried = bought.as_ref().filter(|_| is_tried);
        self.open.has_probed |= tried.is_some();
        if let Some(Wish {
            candidate, inquiry, ..
        }) = tried.and_then(|tried| tried.wishes.first())
        {
            let promise = f64::from(inquiry.gain);
            if promise * ms_per_token > heads.price_ms(1, 1)
                && (self.gain).wake(round.question.step, round.base.decoding, promise)
            {
                candidates[*candidate].drafting.backoff.wake();
            }
        }
        let chosen = match bought {
            Some(bought) => Some(bought.beside(fixed)),
            None => fixed,
        };
        let Some(Chosen {
            wishes: mut chosen,
            fills,
            share_ms,
            why,
        }) = chosen
        else {
            return;
        };
        heads.count(chosen.len());
        for wish in &chosen {
            turns.note_asked(wish.candidate);
        }
        // Those of a request together, in the order of its answers.
        chosen.sort_by_key(|wish| (wish.candidate, wish.inquiry.parent));
        let row_of = &levels.row_of;
        let parent = |candidate: usize, inquiry: &Inquiry| {
            let number = inquiry.parent?;
            row_of[candidate].get(number as usize).copied()
        };
        let rows = chosen.into_iter().map(|wish| LevelRow {
            parent: parent(wish.candidate, &wish.inquiry),
            candidate: wish.candidate,
            inquiry: wish.inquiry,
        });
        levels.open = Some(LevelRows {
            level: level as u16,
            first: levels.num_rows,
            rows: rows.collect(),
            fills,
            share_ms,
            why,
        });
    }

    /// Takes the answers of the open level, before which keys of `filled` tokens were made up; both took
    /// `elapsed_ms`. What its requests offer from now on heeds them.
    pub(crate) fn take_answers(
        &mut self,
        questions: &mut Questions,
        candidates: &mut [Candidate<'_>],
        answers: &DraftAnswers<'_>,
        filled: usize,
        elapsed_ms: f64,
        clock: &Arc<dyn Clock>,
    ) -> Result<(), EngineError> {
        let Questions {
            round,
            turns,
            levels,
        } = questions;
        let Some(open) = &levels.open else {
            return Err(EngineError::NoLevel);
        };
        let heads = turns.now().and_then(|now| self.drafters.get_mut(now));
        let Some(heads) = heads else {
            return Err(EngineError::NoLevel);
        };
        open.check(answers, self.config.vocabulary_size)?;
        let mut scored = answers.scored.iter();
        let mut answered: Vec<usize> = Vec::new();
        let (level, num_rows) = (usize::from(open.level), open.rows.len());
        let recurring = (heads.costs).recurring(level, num_rows, filled, open.share_ms);
        let each_ms = recurring * elapsed_ms / num_rows.max(1) as f64;
        let mut took_ms = vec![0.0; candidates.len()];
        for (index, row) in open.rows.iter().enumerate() {
            took_ms[row.candidate] += each_ms;
            let named = row.inquiry.named.iter().zip(scored.by_ref());
            let named = named.filter(|(_, log)| log.is_finite());
            let named = named.map(|(&token, log)| (token, log.exp().min(1.0)));
            let named: Vec<_> = named.collect();
            let drafting = &mut *candidates[row.candidate].drafting;
            let likeliest = likeliest(answers, index);
            if likeliest.is_empty() && named.is_empty() {
                // A row that it cannot answer says nothing about others' tokens either.
                drafting.unanswered(&row.inquiry);
                continue;
            }
            if drafting
                .answer(&row.inquiry, &likeliest, named, heads.source())
                .is_some()
            {
                levels.row_of[row.candidate].push(open.first + index);
                answered.push(row.candidate);
            }
        }
        answered.dedup();
        let mut drafted_ms = 0.0;
        for index in answered {
            let began_s = clock.now_s();
            let candidate = &mut candidates[index];
            let terms = round.question.terms(index, candidate);
            let tree = terms.map_or_else(DraftTree::default, |terms| {
                candidate.drafting.draft(terms.most, terms.min_value)
            });
            clock.drafted(candidate.drafting.visits());
            round.offers[index] = round.question.offer(index, candidate, terms, tree);
            let passed_s = clock.now_s() - began_s;
            self.totals.note_drafting(&mut self.open, passed_s);
            let draft_ms = self.asking.step_ms(1, passed_s * 1e3);
            took_ms[index] += draft_ms;
            drafted_ms += draft_ms;
        }
        // A level costs its answers, and the drafts that heed them.
        let level_ms = elapsed_ms + drafted_ms;
        heads.costs.observe(level, num_rows, filled, level_ms);
        round.asked_ms += level_ms;
        match open.why {
            Why::Probe => {
                let rows = open.rows.iter();
                let fixed = rows.filter(|row| candidates[row.candidate].is_fixed());
                let share = 1.0 - fixed.count() as f64 / num_rows.max(1) as f64;
                heads.spend(share * level_ms);
            }
            Why::Fixed => {}
            Why::Pays => {
                let sums = levels.took_ms.iter_mut().zip(&took_ms);
                sums.for_each(|(sum, ms)| *sum += ms);
            }
        }
        levels.num_answered += 1;
        levels.num_rows += num_rows;
        levels.open = None;
        Ok(())
    }

    /// The drafts that are sent after all levels; those of limited requests lengthen the step to `limit_ms`
    /// at most.
    pub(crate) fn end_questions(
        &mut self,
        questions: Questions,
        candidates: &mut [Candidate<'_>],
        limit_ms: f64,
    ) -> StepDrafts {
        self.buy(
            questions.round,
            candidates,
            &questions.levels.took_ms,
            limit_ms,
        )
    }

    /// What tokens and rows are worth beside the drafts that the step would buy now.
    pub(super) fn worth(&self, questions: &Questions) -> Worth {
        let round = &questions.round;
        let offers = round.offers.iter().filter(|offer| !offer.is_fixed());
        let mut bids: Vec<Bid> = offers.flat_map(Offer::bids).copied().collect();
        bid::sort(&mut bids);
        let bought = budget::purchase(&bids, round.base, round.asked_ms, &self.costs);
        let bought = &bids[..bought.nodes];
        let promised: f64 = bought.iter().map(|bid| f64::from(bid.value)).sum();
        let size = round.base.trees + bought.iter().map(|bid| bid.added).sum();
        let more = size + ForwardSize::of_tree(0, ROWS_MORE, ROWS_MORE);
        let step_ms = self.costs.milliseconds(size);
        let more_ms = (self.costs.milliseconds(more) - step_ms).max(0.0);
        let decoding = round.base.decoding.max(1) as f64;
        let ms_per_token = (step_ms + round.asked_ms) / (decoding + promised);
        Worth {
            ms_per_token,
            row_price: (more_ms / ROWS_MORE as f64 / ms_per_token) as f32,
        }
    }
}
