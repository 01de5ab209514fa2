//! The drafters, and their levels before a plan.

use super::composition::{Prepared, candidates};
use super::scheduler::Scheduler;
use crate::cache::Planned;
use crate::error::EngineError;
use crate::forward::DraftAnswers;
use crate::plan::DraftPlan;
use crate::request_key::RequestKey;
use crate::speculation::{DrafterInfo, LevelRow, Questions, Reach};

impl Scheduler {
    /// Whether there is a drafter that the runner calls.
    pub(crate) fn has_drafter(&self) -> bool {
        self.speculator.has_drafter()
    }

    /// Drafts from what this drafter answers too from now on, before the first step; gives its number.
    pub(crate) fn add_drafter(&mut self, drafter: DrafterInfo) -> Result<usize, EngineError> {
        self.check_between_steps()?;
        if self.flight.last_plan_id() > 0 {
            return Err(EngineError::DrafterTooLate);
        }
        let number = self.speculator.add_drafter(drafter)?;
        self.keep_for_drafters();
        Ok(number)
    }

    fn check_between_steps(&self) -> Result<(), EngineError> {
        self.flight.check_closed()?;
        self.check_answered()
    }

    /// Has the cache keep account of what the drafters need that there are now.
    fn keep_for_drafters(&mut self) {
        let max_running = self.admission.config().max_running;
        let reads = !self.speculator.drafters_reading(true).is_empty();
        self.cache.keep_features(reads.then_some(max_running));
        let making = self.speculator.drafters_reading(false);
        self.cache.keep_draft_keys(&making);
    }

    /// The next level that a drafter is asked before the plan; `None` when there is none, or none that is
    /// worth its time.
    pub(crate) fn draft_plan(&mut self, now_s: f64) -> Result<Option<DraftPlan>, EngineError> {
        self.check_between_steps()?;
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
        let drafter = questions.drafter().unwrap_or_default();
        // Copies of features may be done with the step as well.
        for (key, end) in prepared.fills.drain(..) {
            if let Some(sequence) = self.running.get_mut(&key) {
                self.cache.note_keys(drafter, &mut sequence.table, end);
            }
        }
        Ok(())
    }

    /// Gives up a drafter whose level failed. No request ends, but all that run restart from what was
    /// shared: copies that they rest on may not have been done.
    pub(crate) fn draft_failed(&mut self) -> Result<(), EngineError> {
        let prepared = self.prepared.take().ok_or(EngineError::NoLevel)?;
        let questions = prepared.questions.as_ref();
        let failed = questions.and_then(Questions::drafter);
        self.restart_all();
        if let Some(failed) = failed {
            self.speculator.give_up_drafter(failed);
        }
        self.keep_for_drafters();
        Ok(())
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
        self.check_between_steps()?;
        let drafter = self.speculator.drafters_reading(true).first().copied();
        let due = self.cache.take_feature_copies();
        Ok((!due.is_empty()).then(|| DraftPlan {
            drafter: drafter.unwrap_or_default(),
            level: 1,
            page_indptr: vec![0],
            scored_indptr: vec![0],
            fill_indptr: vec![0],
            feature_moves: due.moves,
            feature_copies: due.copies,
            ..DraftPlan::default()
        }))
    }

    /// Notes what the step in flight waited for on the device that is not its own.
    pub(crate) fn note_waited(&mut self, waited_ms: f64) {
        self.step_times.note_waited(waited_ms);
    }

    /// Prices what the drafter that was added last adds to every forward.
    pub(crate) fn set_drafter_upkeep(&mut self, upkeep_ms: f64, by_row: bool) {
        self.speculator.set_drafter_upkeep(upkeep_ms, by_row);
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
        let mut reaches: Vec<Vec<Reach>> = Vec::new();
        for drafter in 0..self.speculator.num_drafters() {
            let reach = |key: &RequestKey| self.reach(drafter, *key);
            reaches.push(prepared.decoding.iter().map(reach).collect());
        }
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
        Some(self.level_plan(prepared))
    }

    /// What a drafter may be asked about a request.
    fn reach(&self, drafter: usize, key: RequestKey) -> Reach {
        // Guests send no drafts.
        let sequence = self.running.get(&key).filter(|one| !one.is_guest);
        let reads = self.speculator.reads_features(drafter);
        let is_left_out = sequence.is_some_and(|one| {
            let namespace = one.table.namespace();
            !self.cache.is_in_sight(&one.table)
                && self.speculator.may_draft_from(drafter, namespace)
        });
        let first = sequence.map(|one| {
            let namespace = one.table.namespace();
            self.speculator.first_drafter_for(namespace)
        });
        Reach {
            may_ask: self.feature(drafter, key).is_some(),
            is_left_out: is_left_out && reads,
            num_missing: sequence.map_or(0, |one| self.cache.num_undrafted(drafter, &one.table)),
            is_first: first == Some(Some(drafter)),
        }
    }

    /// The row of the store with the feature that a drafter takes of a request, −1 where it reads none; `None` where
    /// the request may not ask it, or the feature is not known.
    fn feature(&self, drafter: usize, key: RequestKey) -> Option<i32> {
        let sequence = self.running.get(&key).filter(|one| !one.is_guest)?;
        let namespace = sequence.table.namespace();
        if !self.speculator.may_draft_from(drafter, namespace) {
            return None;
        }
        if !self.speculator.reads_features(drafter) {
            return Some(-1);
        }
        let row = self.cache.feature_row(&sequence.table);
        row.filter(|&row| row >= 0 && self.cache.is_in_sight(&sequence.table))
    }

    /// The arrays of the open level.
    fn level_plan(&mut self, prepared: &mut Prepared) -> DraftPlan {
        let Prepared {
            questions,
            decoding,
            fills,
            ..
        } = prepared;
        let open = questions.as_ref().and_then(|one| one.open());
        let drafter = questions.as_ref().and_then(Questions::drafter);
        let drafter = drafter.unwrap_or_default();
        let mut plan = DraftPlan {
            drafter,
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
            plan.request_feature
                .push(self.feature(drafter, key).unwrap_or(-1));
            let reads = self.speculator.reads_features(drafter);
            let first = self.cache.first_entry(table).filter(|_| reads);
            plan.request_first.push(first.unwrap_or(0) as i32);
            plan.page_ids.extend(pages.iter().map(|&page| page as i32));
            plan.page_indptr.push(plan.page_ids.len() as i32);
            let fill = open.fills.iter().find(|one| one.candidate == candidate);
            let fill = fill.map_or(kv_len..kv_len, |fill| {
                self.cache
                    .plan_keys(drafter, table, fill.most, &mut planned)
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
