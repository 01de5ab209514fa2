//! Acts on a plan's results: draws tokens, walks the trees, moves requests on.

use crate::config::SpeculationMode;
use crate::error::EngineError;
use crate::output::{FinishKind, RequestOutput};
use crate::results::{StepResults, TopTokens, Verdicts};
use crate::sampler::{NoToken, Sampler};
use crate::scheduler::{End, Part, Scheduler, Work};
use crate::sequence::Sequence;
use crate::tree::SentTree;

/// What ended a request's step early, beside tokens.
const NO_TOKEN: &str = "the model gave no finite logit";

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
        if open
            .parts
            .iter()
            .all(|part| matches!(part.work, Work::Tree(_)))
        {
            self.costs.observe(open.num_rows, elapsed_ms);
        }
        let mut outputs = self.take_outputs();
        let mut sampler = std::mem::take(&mut self.sampler);
        let before = self.totals.generated_tokens;
        for part in &open.parts {
            outputs.extend(self.commit_part(part, results, &mut sampler, now_s));
        }
        self.sampler = sampler;
        if let Some(trial) = open.trial {
            let tokens = self.totals.generated_tokens - before;
            let step_ms = (now_s - open.planned_s) * 1e3;
            self.totals.note_trial(trial, tokens, step_ms);
        }
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
            if let Some(sequence) = self.running.remove(&part.key) {
                outputs.push(self.release(sequence, End::failed(message), now_s));
            }
        }
        Ok(outputs)
    }

    fn commit_part(
        &mut self,
        part: &Part,
        results: &StepResults<'_>,
        sampler: &mut Sampler,
        now_s: f64,
    ) -> Option<RequestOutput> {
        let mut sequence = self.running.remove(&part.key)?;
        let first = sequence.num_emitted();
        let vocabulary = self.config.vocabulary_size;
        let mut draw = |sequence: &Sequence, row: usize| {
            let row = part.first_sample + row;
            match results.verdicts {
                Verdicts::Logits {
                    values, row_stride, ..
                } => sampler.draw(
                    &values[row * row_stride..][..vocabulary],
                    &sequence.next_draw(),
                ),
                Verdicts::Tokens(tokens) => u32::try_from(tokens[row]).map_err(|_| NoToken),
            }
        };
        let ended = match &part.work {
            Work::Chunk(rows) => {
                sequence.kv_len += rows;
                sequence.drafting.feed(&sequence.tokens[..sequence.kv_len]);
                sequence
                    .drafting
                    .teach_running(&sequence.tokens[..sequence.kv_len]);
                recycle_chunk(&mut sequence, part, results.top);
                if sequence.num_missing() > 0 {
                    self.running.insert(part.key, sequence);
                    return None;
                }
                if sequence.num_emitted() == 0 {
                    self.totals.prompt_tokens += sequence.num_prompt() as u64;
                }
                sequence.decoding = true;
                draw(&sequence, 0).map(|token| {
                    sequence.push(token, now_s);
                    sequence.drafting.advance(None, &[token]);
                    sequence.ending()
                })
            }
            Work::Tree(tree) => {
                sequence.note_drafts(tree.num_nodes());
                self.totals.drafted_tokens += tree.num_nodes() as u64;
                let base = sequence.kv_len;
                let walk = walk(&mut sequence, tree, &mut draw, now_s);
                self.totals.accepted_tokens += walk.path.len() as u64;
                if sequence.drafting.mode() == SpeculationMode::Auto {
                    let ended = !matches!(walk.ended, Ok(None));
                    self.totals.note_tree(tree, &walk.path, ended);
                }
                let emitted = &sequence.tokens[sequence.tokens.len() - walk.num_emitted..];
                sequence.drafting.advance(Some((tree, &walk.path)), emitted);
                recycle_tree(&mut sequence, base, tree, part, results.top);
                walk.ended
            }
        };
        let (token_ids, sources) = sequence.emitted_since(first);
        self.totals.generated_tokens += token_ids.len() as u64;
        let end = match ended {
            Ok(None) => {
                sequence.drafting.teach_running(&sequence.tokens);
                let handle = sequence.request.handle;
                self.running.insert(part.key, sequence);
                return Some(RequestOutput {
                    handle,
                    token_ids,
                    sources,
                    finish: None,
                });
            }
            Ok(Some(kind)) => End::of(kind),
            Err(NoToken) => End::failed(NO_TOKEN),
        };
        let ended = self.release(sequence, end, now_s);
        Some(RequestOutput {
            token_ids,
            sources,
            ..ended
        })
    }
}

/// Hands the drafter what the model gave after the last prompt tokens of a chunk.
fn recycle_chunk(sequence: &mut Sequence, part: &Part, top: Option<TopTokens<'_>>) {
    let first = sequence.kv_len - part.tops.len();
    let Some(top) = top else { return };
    for (index, row) in (first..sequence.kv_len).zip(part.tops.clone()) {
        let before = index.checked_sub(1).map(|index| sequence.tokens[index]);
        let last = sequence.tokens[index];
        sequence.drafting.recycle(before, last, &top.row(row));
    }
    sequence.drafting.note_recycled(sequence.kv_len);
}

/// Hands the drafter what the model gave after every row of a tree, accepted or not. The root is
/// the token at `base`.
fn recycle_tree(
    sequence: &mut Sequence,
    base: usize,
    tree: &SentTree,
    part: &Part,
    top: Option<TopTokens<'_>>,
) {
    let Some(top) = top else { return };
    let root = sequence.tokens[base];
    let token = |row: usize| if row == 0 { root } else { tree.node(row).token };
    for (row, place) in part.tops.clone().enumerate() {
        let before = if row == 0 {
            base.checked_sub(1).map(|index| sequence.tokens[index])
        } else {
            Some(token(tree.parent(row)))
        };
        sequence
            .drafting
            .recycle(before, token(row), &top.row(place));
    }
}

/// A way through a tree.
#[derive(Debug)]
struct Walk {
    /// Accepted rows, from the root down.
    path: Vec<usize>,
    num_emitted: usize,
    /// Why the request ended, if it did.
    ended: Result<Option<FinishKind>, NoToken>,
}

/// Draws at each visited node as plain decoding would there, and follows the child that carries the
/// token.
///
/// The token that ends the request is the model's own even where a draft carried it: each forward
/// gives exactly one such token.
fn walk(
    sequence: &mut Sequence,
    tree: &SentTree,
    draw: &mut impl FnMut(&Sequence, usize) -> Result<u32, NoToken>,
    now_s: f64,
) -> Walk {
    let base = sequence.kv_len;
    let mut path = Vec::new();
    let mut row = 0;
    loop {
        let token = match draw(sequence, row) {
            Ok(token) => token,
            Err(error) => {
                return Walk {
                    num_emitted: path.len(),
                    path,
                    ended: Err(error),
                };
            }
        };
        sequence.push(token, now_s);
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
