//! The levels of a step, between what requests offer and what is bought.

use std::sync::Arc;

use spectrie_trie::{DraftTree, Inquiry};

use super::bid::{self, Bid};
use super::budget;
use super::gain::Trial;
use super::heads::{Chosen, LevelRow, LevelRows, Levels, Missing, Why, Wish, likeliest};
use super::speculator::Speculator;
use super::step::{Candidate, Offer, Round, StepDrafts};
use crate::clock::Clock;
use crate::costs::ForwardSize;
use crate::error::EngineError;
use crate::forward::DraftAnswers;

/// A step in which a drafter may be asked: what requests offer so far, and its levels.
#[derive(Debug)]
pub(crate) struct Questions {
    round: Round,
    levels: Levels,
}

/// Rows by which a step is thought longer, to price one.
const ROWS_MORE: usize = 4;

/// What tokens and rows are worth in a step.
#[derive(Debug, Clone, Copy)]
struct Worth {
    /// Milliseconds that the step takes for each of its tokens.
    ms_per_token: f64,
    /// Accepted tokens that a further row costs.
    row_price: f32,
}

/// What is known of a request before a drafter is asked about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// Whether it may be asked.
    pub(crate) may_ask: bool,
    /// Committed tokens that the drafter is to make keys of first.
    pub(crate) num_missing: usize,
}

impl Questions {
    /// The level that waits for its answers.
    pub(crate) fn open(&self) -> Option<&LevelRows> {
        self.levels.open()
    }
}

impl Speculator {
    /// Whether there is a drafter that the runner calls.
    pub(crate) fn has_drafter(&self) -> bool {
        self.heads.is_some()
    }

    /// Prices what a drafter adds to every forward.
    pub(crate) fn set_drafter_upkeep(&mut self, upkeep_ms: f64) {
        if let Some(heads) = &mut self.heads {
            heads.set_upkeep(upkeep_ms);
        }
    }

    /// Whether requests of this namespace may draft from the runner's drafter.
    pub(crate) fn may_draft_from_head(&self, namespace: &str) -> bool {
        let heads = self.heads.as_ref();
        heads.is_some_and(|heads| heads.is_for(namespace))
    }

    /// Asks the decoding requests for what they offer before a drafter is asked; `reaches` are theirs.
    pub(crate) fn begin_questions(
        &mut self,
        step: u64,
        candidates: &mut [Candidate<'_>],
        reaches: &[Reach],
        chunk: ForwardSize,
        clock: &Arc<dyn Clock>,
    ) -> Questions {
        let every = self.holdout_every();
        let step_ms = self
            .costs
            .milliseconds(self.base_rows(candidates, chunk).whole());
        let all_rest = self.trial(step, candidates.len()) == Trial::Resting;
        let (mut is_open, mut probed) = (false, None);
        if let Some(heads) = &mut self.heads {
            is_open = heads.begin_step(step, every, step_ms);
            let open = candidates.iter().zip(reaches).enumerate();
            let open = open.filter(|(_, (one, reach))| reach.may_ask && !one.is_fixed());
            let open: Vec<usize> = open.map(|(index, _)| index).collect();
            probed = heads.probed(open.len(), all_rest).map(|turn| open[turn]);
        }
        let round = self.ask_all(step, candidates, chunk, probed, clock);
        let may_pay = round.question.min_value.is_some();
        let is_tried = round.trial == Trial::Resting && round.question.probed.is_some();
        let is_bought = is_open && may_pay && (round.trial == Trial::Offered || is_tried);
        let tier = round.question.tier;
        let asks =
            |(one, reach): (&Candidate<'_>, &Reach)| reach.may_ask && one.fixed_rows(1, tier) > 0;
        let has_fixed = self.has_drafter() && candidates.iter().zip(reaches).any(asks);
        let levels = Levels {
            is_over: !(is_bought || has_fixed),
            is_bought_over: !is_bought,
            row_of: vec![Vec::new(); candidates.len()],
            took_ms: vec![0.0; candidates.len()],
            ..Levels::default()
        };
        Questions { round, levels }
    }

    /// Opens the next level, if one is worth its time; `reaches` are those of the candidates.
    pub(crate) fn next_level(
        &mut self,
        questions: &mut Questions,
        candidates: &mut [Candidate<'_>],
        reaches: &[Reach],
    ) {
        let Worth {
            ms_per_token,
            row_price,
        } = self.worth(&questions.round);
        let Some(heads) = &mut self.heads else { return };
        let levels = &mut questions.levels;
        if levels.is_over || levels.open.is_some() {
            return;
        }
        let level = levels.num_answered + 1;
        let most = heads.max_rows().saturating_sub(levels.num_rows);
        if level > heads.max_levels() || most == 0 {
            levels.is_over = true;
            return;
        }
        let tier = questions.round.question.tier;
        let is_bought_over = levels.is_bought_over;
        let rows = |candidate: &Candidate<'_>| {
            if candidate.is_fixed() {
                candidate.fixed_rows(level, tier)
            } else if is_bought_over {
                0
            } else {
                usize::MAX
            }
        };
        let wishes = wishes(level, row_price, rows, candidates, reaches);
        let is_fixed = |wish: &Wish| candidates[wish.candidate].is_fixed();
        let (fixed, wishes) = wishes.into_iter().partition(is_fixed);
        let is_tried = questions.round.question.is_plain;
        let fixed = heads.fixed(fixed, most);
        let num_fixed = fixed.as_ref().map_or(0, |fixed| fixed.wishes.len());
        let left = most - num_fixed;
        let bought = if levels.is_bought_over || left == 0 {
            None
        } else if is_tried {
            heads.try_one(wishes, left, ms_per_token)
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
            let round = &questions.round;
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
        let (Some(heads), Questions { round, levels }) = (&mut self.heads, questions) else {
            return Ok(());
        };
        let Some(open) = &levels.open else {
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
            self.totals.draft_seconds += passed_s;
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
    fn worth(&self, round: &Round) -> Worth {
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

/// What the candidates would have a drafter asked at `level`, each about as many nodes as `rows` says at most.
fn wishes(
    level: usize,
    row_price: f32,
    rows: impl Fn(&Candidate<'_>) -> usize,
    candidates: &[Candidate<'_>],
    reaches: &[Reach],
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let (reach, rows) = (reaches[index], rows(candidate));
        let may_ask = reach.may_ask && candidate.drafting.is_asked;
        if rows == 0 || !may_ask || candidate.max_depth() < level {
            continue;
        }
        let missing = Missing {
            total: if level == 1 { reach.num_missing } else { 0 },
            fresh: candidate.drafting.num_fresh(),
        };
        let mut frontier = candidate.drafting.frontier(level as u16, row_price);
        if frontier.len() > rows {
            frontier.sort_by(|a, b| b.gain.total_cmp(&a.gain));
            frontier.truncate(rows);
        }
        wishes.extend(frontier.into_iter().map(|inquiry| Wish {
            candidate: index,
            inquiry,
            missing,
        }));
    }
    wishes
}
