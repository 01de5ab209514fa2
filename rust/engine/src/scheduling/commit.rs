//! Acts on a plan's results: draws tokens, walks the trees, moves requests on.

use spectrie_sampling::{GrammarEnd, NoToken, Sampler};
use spectrie_types::{FinishKind, Source, SpeculationMode};

use crate::background::feedback::Lessons;
use crate::background::queue::Chore;
use crate::error::EngineError;
use crate::forward::StepResults;
use crate::output::RequestOutput;
use crate::scheduling::scheduler::{End, Part, Scheduler, Work};
use crate::sequence::sampled_rows::{NotDrawn, SampledRows};
use crate::sequence::sequence::Sequence;
use crate::speculation::forward_size::ForwardSize;
use crate::speculation::tree::SentTree;

impl Scheduler {
    /// Takes the results of the open plan.
    pub(crate) fn commit(
        &mut self,
        plan_id: u64,
        results: &StepResults<'_>,
        elapsed_ms: f64,
        now_s: f64,
    ) -> Result<Vec<RequestOutput>, EngineError> {
        let open = self.open_plan(plan_id)?;
        self.check(open, results)?;
        let Some(open) = self.in_flight.take() else {
            return Ok(Vec::new());
        };
        self.totals.steps += 1;
        // Prompt rows skip the last layer's product with the vocabulary: they cost less than others.
        if let Some(kv_tokens) = self.kv_tokens_of_trees(&open.parts) {
            let rows = open.num_rows;
            self.costs
                .observe(ForwardSize { rows, kv_tokens }, elapsed_ms);
        }
        let mut outputs = self.take_outputs();
        outputs.reserve(open.parts.len());
        let mut sampler = std::mem::take(&mut self.sampler);
        let mut lessons = Lessons::new(results.top);
        let before = self.totals.generated_tokens;
        for part in &open.parts {
            outputs.extend(self.commit_part(part, results, &mut lessons, &mut sampler, now_s));
        }
        self.sampler = sampler;
        self.put_off(Chore::Learn(lessons));
        let tokens = self.totals.generated_tokens - before;
        self.note_step(&open, tokens, (now_s - open.planned_s) * 1e3);
        Ok(outputs)
    }

    /// Ends every request of the open plan, whose forward failed.
    pub(crate) fn fail(
        &mut self,
        plan_id: u64,
        message: &str,
        now_s: f64,
    ) -> Result<Vec<RequestOutput>, EngineError> {
        self.open_plan(plan_id)?;
        let Some(open) = self.in_flight.take() else {
            return Ok(Vec::new());
        };
        let mut outputs = self.take_outputs();
        for part in open.parts {
            if let Some(mut sequence) = self.running.remove(&part.key) {
                // What this plan was to put in place may not be there.
                sequence.shares = false;
                outputs.push(self.release(sequence, End::failed(message), now_s));
            }
        }
        // What the others have in the cache may rest on copies that were not done.
        self.restart_running();
        Ok(outputs)
    }

    fn commit_part(
        &mut self,
        part: &Part,
        results: &StepResults<'_>,
        lessons: &mut Lessons,
        sampler: &mut Sampler,
        now_s: f64,
    ) -> Option<RequestOutput> {
        let mut sequence = self.running.remove(&part.key)?;
        let first = sequence.num_emitted();
        let mut sampled = SampledRows {
            sampler,
            verdicts: results.verdicts,
            vocabulary_size: self.config.vocabulary_size,
            first: part.first_sample,
        };
        let (lesson, ended) = match &part.work {
            Work::Chunk(rows) => {
                // The row of the last token tells the next one, the others those of the prompt.
                let prompt = sequence.sampled_indices(*rows);
                let prompt = prompt.start + 1..(prompt.end + 1).min(sequence.tokens.len());
                let num_read = prompt.len();
                let read = if sequence.needs_prompt_rows() {
                    sampled.read_prompt(&mut sequence, prompt)
                } else {
                    Ok(())
                };
                sequence.kv_len += rows;
                self.share.charge(&sequence.tenant, *rows);
                let lesson = lessons.of_chunk(part.key, &sequence, part.tops.clone());
                if results.top.is_some() {
                    sequence.drafting.note_recycled(sequence.kv_len);
                }
                if read.is_ok() && sequence.num_missing() > 0 {
                    self.running.insert(part.key, sequence);
                    lessons.push(lesson);
                    return None;
                }
                sequence.feed();
                if sequence.num_emitted() == 0 {
                    self.totals.prompt_tokens += sequence.num_prompt() as u64;
                }
                sequence.decoding = true;
                let drawn = read
                    .map_err(NotDrawn::Row)
                    .and_then(|()| sampled.draw(&mut sequence, num_read));
                let ended = drawn.map(|drawn| {
                    sequence.drafting.advance(None, &[drawn.token]);
                    sequence.push(drawn, now_s);
                    sequence.ending()
                });
                (lesson, ended)
            }
            Work::Tree(tree) => {
                sequence.note_drafts(tree.num_nodes());
                self.totals.drafted_tokens += tree.num_nodes() as u64;
                let base = sequence.kv_len;
                let walk = walk(&mut sequence, tree, &mut sampled, now_s);
                self.totals.accepted_tokens += walk.path.len() as u64;
                let emitted = &sequence.tokens[sequence.tokens.len() - walk.num_emitted..];
                let ended = !matches!(walk.ended, Ok(None));
                match sequence.drafting.mode() {
                    SpeculationMode::Auto => {
                        self.calibration.note_tree(tree, &walk.path, ended);
                        if !ended {
                            let backoff = &mut sequence.drafting.backoff;
                            backoff.note_tree(tree.promised(), walk.path.len());
                        }
                        if let Some(token) = tree.likeliest_unsent() {
                            self.decisions.note_unsent(emitted.first() == Some(&token));
                        }
                    }
                    SpeculationMode::Tiers => self.tiers.note(walk.path.len()),
                    _ => {}
                }
                sequence.drafting.advance(Some((tree, &walk.path)), emitted);
                let tops = part.tops.clone();
                let lesson = lessons.of_tree(part.key, &sequence, base, tree, tops);
                (lesson, walk.ended)
            }
        };
        let (token_ids, sources) = sequence.emitted_since(first);
        self.totals.generated_tokens += token_ids.len() as u64;
        self.share.charge(&sequence.tenant, token_ids.len());
        let output = RequestOutput {
            handle: sequence.request.handle,
            logprobs: sequence.take_logprobs(),
            prompt_logprobs: (sequence.num_emitted() > 0)
                .then(|| sequence.take_prompt_logprobs())
                .flatten(),
            token_ids,
            sources,
            finish: None,
        };
        let end = match ended {
            Ok(None) => {
                self.running.insert(part.key, sequence);
                lessons.push(lesson);
                return Some(output);
            }
            Ok(Some(kind)) => End::of(kind),
            Err(NotDrawn::Grammar(GrammarEnd::Complete)) => End::of(FinishKind::Complete),
            Err(NotDrawn::Grammar(GrammarEnd::Failed(message))) => End::failed(&message),
            Err(NotDrawn::Row(NoToken::Model)) => End::failed("the model gave no finite logit"),
            Err(NotDrawn::Row(NoToken::Banned)) => End::failed(&format!(
                "{} leave no token to sample; relax them",
                sequence.bars()
            )),
        };
        lessons.learn(&lesson, &mut sequence);
        let ended = self.release(sequence, end, now_s);
        Some(RequestOutput {
            finish: ended.finish,
            ..output
        })
    }
}

/// A way through a tree.
#[derive(Debug)]
struct Walk {
    /// Accepted rows, from the root down.
    path: Vec<usize>,
    num_emitted: usize,
    /// Why the request ended, if it did.
    ended: Result<Option<FinishKind>, NotDrawn>,
}

/// Draws at each visited node as plain decoding would there, and follows the child that carries the
/// token.
///
/// The token that ends the request is the model's own even where a draft carried it: each forward
/// gives exactly one such token.
fn walk(
    sequence: &mut Sequence,
    tree: &SentTree,
    sampled: &mut SampledRows<'_>,
    now_s: f64,
) -> Walk {
    let base = sequence.kv_len;
    let mut path = Vec::new();
    let mut row = 0;
    loop {
        let drawn = match sampled.draw(sequence, row) {
            Ok(drawn) => drawn,
            Err(error) => {
                let num_emitted = path.len();
                // Each forward gives one token of the model's own: here it is the last one accepted.
                if path.pop().is_some() {
                    sequence.credit_last(Source::Model);
                }
                return Walk {
                    num_emitted,
                    path,
                    ended: Err(error),
                };
            }
        };
        let token = drawn.token;
        sequence.push(drawn, now_s);
        let ending = sequence.ending();
        let child = if ending.is_none() {
            tree.child(row, token)
        } else {
            None
        };
        let Some(child) = child else {
            sequence.kv_len = base + 1 + path.len();
            return Walk {
                num_emitted: path.len() + 1,
                path,
                ended: Ok(ending),
            };
        };
        sequence.credit_last(tree.node(child).source);
        path.push(child);
        if child != path.len() {
            sequence.moves.push((base + child, base + path.len()));
        }
        row = child;
    }
}
