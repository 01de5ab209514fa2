//! Acts on a plan's results: draws tokens, walks the trees, moves requests on.

use spectrie_sampling::{GrammarEnd, NoToken};
use spectrie_types::FinishKind;

use super::end::End;
use super::flight::{Part, Work};
use super::scheduler::Scheduler;
use crate::background::{Chore, Feedback, Share};
use crate::error::EngineError;
use crate::forward::StepResults;
use crate::output::RequestOutput;
use crate::sequence::{NotDrawn, Sequence, walk};
use crate::speculation::{EndedStep, SentTree};

/// Why a request ends with a step, if it does.
type Ended = Result<Option<FinishKind>, NotDrawn>;

impl Scheduler {
    /// Takes the results of the open plan.
    pub(crate) fn commit(
        &mut self,
        plan_id: u64,
        results: &StepResults<'_>,
        elapsed_ms: f64,
        now_s: f64,
    ) -> Result<Vec<RequestOutput>, EngineError> {
        self.flight.check(plan_id, results, &self.running)?;
        let began_s = self.upkeep.begin_call();
        let Some(open) = self.flight.commit() else {
            return Ok(Vec::new());
        };
        self.cache.note_features_copied();
        // Before requests end: a page that this plan alone still held would outlive the pages before it.
        self.cache.let_go(plan_id);
        let tile_rows = self.speculator.costs().tile_rows();
        // Rows whose requests have ended took time for no token.
        let is_whole = open.is_whole(&self.running);
        let size = open.size_of_trees(&self.running, tile_rows);
        if let Some(size) = size.filter(|_| is_whole) {
            self.speculator.observe(size, elapsed_ms);
        }
        if let Some(size) = open.size_unpaced(&self.running, tile_rows) {
            let added_ms = elapsed_ms - self.speculator.costs().milliseconds(size);
            self.pacing.spend(added_ms);
        }
        let mut outputs = self.take_outputs();
        outputs.reserve(open.parts.len());
        let mut feedback = Feedback::new(results.top);
        let before = self.outbox.generated_tokens();
        for part in &open.parts {
            self.note_work(part);
            outputs.extend(self.commit_part(part, results, &mut feedback, now_s));
        }
        let feedback_ms = self.put_off(Chore::Learn(feedback));
        // Callers whose clock knows nothing but forwards leave out what planning took.
        let passed_ms = (now_s - open.planned_s) * 1e3 - self.step_times.take_waited_ms();
        let until_results_ms = passed_ms.max(open.plan_ms + elapsed_ms);
        // What is done beside an early plan's forward is in the time of that step.
        let (commit_ms, upkeep_ms) = if self.flight.is_early() {
            (0.0, open.upkeep_ms)
        } else {
            let commit_ms = (self.upkeep.now_s() - began_s) * 1e3;
            (commit_ms, self.upkeep.step_ms())
        };
        let whole_ms = until_results_ms + commit_ms;
        let verified = open.parts.iter().any(Part::has_drafts);
        self.step_times.note(whole_ms, elapsed_ms, verified);
        self.speculator.end_step(&EndedStep {
            trial: open.trial.filter(|_| is_whole),
            num_requests: open.parts.len(),
            num_rows: open.num_rows,
            num_tokens: self.outbox.generated_tokens() - before,
            milliseconds: whole_ms,
            upkeep_ms,
            feedback_ms,
        });
        self.open_early(now_s);
        Ok(outputs)
    }

    /// Ends every request of the open plan, whose forward failed.
    pub(crate) fn fail(
        &mut self,
        plan_id: u64,
        message: &str,
        now_s: f64,
    ) -> Result<Vec<RequestOutput>, EngineError> {
        self.flight.get(plan_id)?;
        let Some(open) = self.flight.abandon() else {
            return Ok(Vec::new());
        };
        // An early plan is abandoned too.
        self.cache.let_go(u64::MAX);
        let mut outputs = self.take_outputs();
        for part in open.parts {
            if let Some(mut sequence) = self.running.remove(&part.key) {
                sequence.table.distrust();
                outputs.push(self.release(part.key, sequence, End::failed(message), now_s));
            }
        }
        // What the others have in the cache may rest on copies that were not done.
        self.restart_all();
        Ok(outputs)
    }

    /// Sends all running requests back to wait, for what they have in the cache, and copied there, may
    /// not be there.
    pub(super) fn restart_all(&mut self) {
        self.cache.doubt_features();
        while let Some((key, sequence)) = self.running.pop_last() {
            self.admission.requeue(key, sequence, &mut self.cache);
        }
    }

    /// Notes what a request's rows added to the step.
    fn note_work(&mut self, part: &Part) {
        let size = part.size(&self.running, self.speculator.costs().tile_rows());
        let sequence = self.running.get_mut(&part.key);
        if let Some(sequence) = sequence.filter(|one| !one.is_guest) {
            let work_ms = self.speculator.costs().work_ms(size);
            sequence.work_ms += work_ms;
            self.pacing.receive(&sequence.tenant, work_ms);
        }
    }

    fn commit_part(
        &mut self,
        part: &Part,
        results: &StepResults<'_>,
        feedback: &mut Feedback,
        now_s: f64,
    ) -> Option<RequestOutput> {
        let mut sequence = self.running.remove(&part.key)?;
        let first = sequence.num_emitted();
        let (share, ended) = match &part.work {
            Work::Chunk(rows) => {
                self.commit_chunk(part, *rows, &mut sequence, results, feedback, now_s)
            }
            Work::Tree(tree) => {
                self.commit_tree(part, tree, &mut sequence, results, feedback, now_s)
            }
        };
        let Some(ended) = ended else {
            self.running.insert(part.key, sequence);
            feedback.push(share);
            return None;
        };
        let (token_ids, sources) = sequence.emitted_since(first);
        self.outbox.count_generated(token_ids.len());
        self.admission.charge(&sequence.tenant, token_ids.len());
        let output = RequestOutput {
            handle: sequence.request.handle,
            logprobs: sequence.draws.take_logprobs(),
            prompt_logprobs: (sequence.num_emitted() > 0)
                .then(|| sequence.draws.take_prompt_logprobs())
                .flatten(),
            token_ids,
            sources,
            finish: None,
        };
        let Some(end) = end_of(ended, &sequence) else {
            self.running.insert(part.key, sequence);
            feedback.push(share);
            return Some(output);
        };
        feedback.teach(&share, sequence.num_certain(), &mut sequence.drafting);
        let ended = self.release(part.key, sequence, end, now_s);
        Some(RequestOutput {
            finish: ended.finish,
            ..output
        })
    }

    /// Takes the results of a request's chunk; no end yet where more of its prompt is to come.
    fn commit_chunk(
        &mut self,
        part: &Part,
        rows: usize,
        sequence: &mut Sequence,
        results: &StepResults<'_>,
        feedback: &mut Feedback,
        now_s: f64,
    ) -> (Share, Option<Ended>) {
        let mut sampled = self.flight.read(results, part);
        // The row of the last token gives the next one, the others those of the prompt.
        let prompt = sequence.sampled_indices(rows);
        let prompt = prompt.start + 1..(prompt.end + 1).min(sequence.tokens.len());
        let num_read = prompt.len();
        let read = if sequence.needs_prompt_rows() {
            sampled.read_prompt(sequence, prompt)
        } else {
            Ok(())
        };
        let (kv_len, computed) = (sequence.kv_len(), part.first_row..part.first_row + rows);
        sequence.table.advance(rows);
        self.cache.keep_rows(&mut sequence.table, kv_len, computed);
        self.admission.charge(&sequence.tenant, rows);
        let kv_len = sequence.kv_len();
        let cached = &sequence.tokens[..kv_len];
        let share = feedback.of_chunk(part.key, cached, part.tops.clone());
        if results.top.is_some() {
            sequence.drafting.note_recycled(kv_len);
        }
        if read.is_ok() && sequence.num_missing() > 0 {
            return (share, None);
        }
        let began_s = self.upkeep.now_s();
        sequence.feed();
        self.upkeep.note(began_s);
        if sequence.num_emitted() == 0 {
            self.outbox.count_prompt(sequence.num_prompt());
        }
        sequence.decoding = true;
        if !sequence.is_guest {
            let (num_cached, num_prompt) = (sequence.num_cached(), sequence.num_prompt());
            let prompt = self
                .speculator
                .costs()
                .chunk(num_cached, num_prompt - num_cached);
            let prompt_ms = self.speculator.costs().work_ms(prompt);
            self.pacing.note_prompt(&sequence.tenant, prompt_ms);
        }
        self.admission.note_prefilled(&sequence.tenant);
        let drawn = read
            .map_err(NotDrawn::Row)
            .and_then(|()| sampled.draw(sequence, num_read));
        let ended = drawn.map(|drawn| {
            sequence.drafting.advance(None, &[drawn.token]);
            sequence.push(drawn, now_s);
            sequence.ending()
        });
        (share, Some(ended))
    }

    /// Takes the results of a request's tree.
    fn commit_tree(
        &mut self,
        part: &Part,
        tree: &SentTree,
        sequence: &mut Sequence,
        results: &StepResults<'_>,
        feedback: &mut Feedback,
        now_s: f64,
    ) -> (Share, Option<Ended>) {
        let mut sampled = self.flight.read(results, part);
        sequence.note_drafts(tree.num_nodes());
        let base = sequence.kv_len();
        let walk = walk(sequence, tree, &mut sampled, now_s);
        if sequence.kv_len() > base {
            let rows = std::iter::once(&0).chain(&walk.path);
            let rows = rows.map(|row| part.first_row + row);
            self.cache.keep_rows(&mut sequence.table, base, rows);
        }
        let emitted = &sequence.tokens[sequence.tokens.len() - walk.num_emitted..];
        let ended = !matches!(walk.ended, Ok(None));
        let (drafting, first) = (&mut sequence.drafting, emitted.first().copied());
        self.speculator
            .note_tree(drafting, tree, &walk.path, first, ended);
        let began_s = self.upkeep.now_s();
        drafting.advance(Some((tree, &walk.path)), emitted);
        self.upkeep.note(began_s);
        let tops = part.tops.clone();
        let share = feedback.of_tree(part.key, &sequence.tokens, base, tree, tops);
        (share, Some(walk.ended))
    }
}

/// How a request ends with a step, if it does.
fn end_of(ended: Ended, sequence: &Sequence) -> Option<End> {
    Some(match ended {
        Ok(None) => return None,
        Ok(Some(kind)) => End::of(kind).keeping(sequence.stopped_at()),
        Err(NotDrawn::Grammar(GrammarEnd::Complete)) => End::of(FinishKind::Complete),
        Err(NotDrawn::Grammar(GrammarEnd::Failed(message))) => End::refused(&message),
        Err(NotDrawn::Row(NoToken::Model)) => End::failed("the model gave no finite logit"),
        Err(NotDrawn::Row(NoToken::Banned)) => End::failed(&format!(
            "{} leave no token to sample; relax them",
            sequence.draws.bans(sequence.num_output())
        )),
    })
}
