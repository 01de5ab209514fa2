//! The levels of a drafter before a plan.

use super::composition::{Prepared, candidates};
use super::scheduler::Scheduler;
use crate::cache::Planned;
use crate::error::EngineError;
use crate::forward::DraftAnswers;
use crate::plan::DraftPlan;
use crate::speculation::{LevelRow, Reach};

impl Scheduler {
    /// Whether there is a drafter that the runner calls.
    pub(crate) fn has_drafter(&self) -> bool {
        self.speculator.has_drafter()
    }

    /// The next level that a drafter is asked before the plan; `None` when there is none, or none that is
    /// worth its time.
    pub(crate) fn draft_plan(&mut self, now_s: f64) -> Result<Option<DraftPlan>, EngineError> {
        self.flight.check_closed()?;
        self.check_answered()?;
        if !self.speculator.has_drafter() {
            return Ok(None);
        }
        let prepared = self.prepared.take().or_else(|| self.prepare(now_s));
        let Some(mut prepared) = prepared else {
            return Ok(None);
        };
        let plan = self.open_level(&mut prepared);
        self.prepared = Some(prepared);
        Ok(plan)
    }

    /// Takes the answers of a level, which took `elapsed_ms`.
    pub(crate) fn draft_results(
        &mut self,
        answers: &DraftAnswers<'_>,
        elapsed_ms: f64,
    ) -> Result<(), EngineError> {
        let Some(prepared) = &mut self.prepared else {
            return Err(EngineError::NoLevel);
        };
        let Some(questions) = &mut prepared.questions else {
            return Err(EngineError::NoLevel);
        };
        let mut candidates = candidates(&mut self.running, &prepared.decoding, &self.pacing);
        let (clock, filled) = (self.upkeep.clock(), prepared.num_filled);
        self.speculator.take_answers(
            questions,
            &mut candidates,
            answers,
            filled,
            elapsed_ms,
            clock,
        )?;
        drop(candidates);
        self.cache.note_features_copied();
        for (key, end) in prepared.fills.drain(..) {
            if let Some(sequence) = self.running.get_mut(&key) {
                self.cache.note_keys(&mut sequence.table, end);
            }
        }
        Ok(())
    }

    /// Gives up a drafter whose level failed. No request ends, but all that run restart from what was
    /// shared: copies that they rest on may not have been done.
    pub(crate) fn draft_failed(&mut self) -> Result<(), EngineError> {
        if self.prepared.take().is_none() {
            return Err(EngineError::NoLevel);
        }
        self.restart_all();
        self.set_drafter(None)
    }

    /// Checks that no level waits for its answers.
    pub(super) fn check_answered(&self) -> Result<(), EngineError> {
        let questions = self
            .prepared
            .as_ref()
            .and_then(|one| one.questions.as_ref());
        match questions.and_then(|questions| questions.open()) {
            Some(open) => Err(EngineError::LevelInFlight { level: open.level }),
            None => Ok(()),
        }
    }

    /// A level without rows, whose copies keep the features of the last forward where another one is to
    /// come before the next step; `None` when there are none to keep.
    pub(crate) fn feature_plan(&mut self) -> Result<Option<DraftPlan>, EngineError> {
        self.flight.check_closed()?;
        self.check_answered()?;
        let due = self.cache.take_feature_copies();
        Ok((!due.is_empty()).then(|| DraftPlan {
            level: 1,
            page_indptr: vec![0],
            scored_indptr: vec![0],
            fill_indptr: vec![0],
            feature_moves: due.moves,
            feature_copies: due.copies,
            ..DraftPlan::default()
        }))
    }

    /// Prices what the drafter adds to every forward.
    pub(crate) fn set_drafter_upkeep(&mut self, upkeep_ms: f64) {
        self.speculator.set_drafter_upkeep(upkeep_ms);
    }

    /// Notes that the copies of [`Self::feature_plan`] were done.
    pub(crate) fn note_features_copied(&mut self) {
        self.cache.note_features_copied();
    }

    /// Whether the next step is in the making.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    fn open_level(&mut self, prepared: &mut Prepared) -> Option<DraftPlan> {
        let (step, chunk) = (self.flight.last_plan_id(), prepared.chunks.size);
        // Guests send no drafts.
        let known = prepared.decoding.iter().map(|key| {
            let sequence = self.running.get(key).filter(|one| !one.is_guest)?;
            if !self
                .speculator
                .may_draft_from_head(sequence.table.namespace())
            {
                return None;
            }
            // A drafter that reads no features has none kept.
            let row = self.cache.feature_row(&sequence.table);
            row.map_or(Some(-1), |row| (row >= 0).then_some(row))
        });
        let features: Vec<Option<i32>> = known.collect();
        let reaches = prepared.decoding.iter().zip(&features);
        let reaches = reaches.map(|(key, feature)| {
            let sequence = self.running.get(key);
            Reach {
                may_ask: feature.is_some(),
                num_missing: sequence.map_or(0, |one| self.cache.num_undrafted(&one.table)),
            }
        });
        let reaches: Vec<Reach> = reaches.collect();
        let mut candidates = candidates(&mut self.running, &prepared.decoding, &self.pacing);
        let (speculator, clock) = (&mut self.speculator, self.upkeep.clock());
        let mut questions = match prepared.questions.take() {
            Some(questions) => questions,
            None => speculator.begin_questions(step, &mut candidates, &reaches, chunk, clock),
        };
        speculator.next_level(&mut questions, &mut candidates, &reaches);
        drop(candidates);
        let questions = prepared.questions.insert(questions);
        questions.open()?;
        Some(self.level_plan(prepared, &features))
    }

    /// The arrays of the open level.
    fn level_plan(&mut self, prepared: &mut Prepared, features: &[Option<i32>]) -> DraftPlan {
        let Prepared {
            questions,
            decoding,
            fills,
            ..
        } = prepared;
        let open = questions.as_ref().and_then(|one| one.open());
        let mut plan = DraftPlan {
            page_indptr: vec![0],
            scored_indptr: vec![0],
            fill_indptr: vec![0],
            ..DraftPlan::default()
        };
        let Some(open) = open else { return plan };
        (plan.level, plan.row_index) = (usize::from(open.level), open.first);
        let mut planned = Planned::default();
        let mut rows = open.rows.iter().peekable();
        for candidate in open.candidates() {
            let key = decoding[candidate];
            let Some(sequence) = self.running.get(&key) else {
                continue;
            };
            let table = &sequence.table;
            let kv_len = sequence.kv_len();
            let pages = &table.pages()[..self.cache.pages_for(kv_len)];
            plan.request_kv_len.push(kv_len as i32);
            plan.request_feature.push(features[candidate].unwrap_or(-1));
            plan.page_ids.extend(pages.iter().map(|&page| page as i32));
            plan.page_indptr.push(plan.page_ids.len() as i32);
            let fill = open.fills.iter().find(|one| one.candidate == candidate);
            let fill = fill.map_or(kv_len..kv_len, |fill| {
                self.cache.plan_keys(table, fill.most, &mut planned)
            });
            if open.level == 1 {
                fills.push((key, fill.end));
            }
            plan.request_fill_start.push(fill.start as i32);
            let tokens = sequence.tokens[fill].iter().map(|&token| token as i32);
            plan.fill_token.extend(tokens);
            plan.fill_indptr.push(plan.fill_token.len() as i32);
            while let Some(row) = rows.next_if(|row| row.candidate == candidate) {
                push_row(&mut plan, row, kv_len);
            }
        }
        prepared.num_filled = plan.fill_token.len();
        (plan.kv_move_src, plan.kv_move_dst) = self.cache.take_copies();
        let features = self.cache.take_feature_copies();
        (plan.feature_moves, plan.feature_copies) = (features.moves, features.copies);
        plan
    }
}

/// Adds a row of the plan's last request, which has `kv_len` tokens in the cache.
fn push_row(plan: &mut DraftPlan, row: &LevelRow, kv_len: usize) {
    let (inquiry, parent) = (&row.inquiry, row.parent);
    let position = kv_len + usize::from(inquiry.depth);
    plan.row_token.push(inquiry.token as i32);
    plan.row_position.push(position as i32);
    plan.row_request.push(plan.num_requests() as i32 - 1);
    plan.row_parent
        .push(parent.map_or(-1, |parent| parent as i32));
    let named = inquiry.named.iter().map(|&token| token as i32);
    plan.scored_token.extend(named);
    plan.scored_indptr.push(plan.scored_token.len() as i32);
}
