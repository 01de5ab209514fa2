//! Takes a plan's results: draws tokens, walks the trees, moves requests on.

use crate::error::EngineError;
use crate::output::{FinishKind, RequestOutput};
use crate::sampler::{NoToken, Sampler};
use crate::scheduler::{End, InFlight, Part, Scheduler, Work};
use crate::sequence::Sequence;
use crate::tree::SentTree;

/// What the model said about each sampled row of a plan.
#[derive(Debug, Clone, Copy)]
pub enum Verdicts<'a> {
    /// Rows of logits, `row_stride` values apart.
    Logits {
        /// The rows, from the first value of the first to the last value of the last.
        values: &'a [f32],
        /// Number of rows.
        num_rows: usize,
        /// Distance between the starts of two rows, in values.
        row_stride: usize,
    },
    /// The likeliest token of each row.
    Tokens(&'a [i32]),
}

/// What ended a request's step early, beside tokens.
const NO_TOKEN: &str = "the model gave no finite logit";

impl Scheduler {
    /// Takes the results of the open plan.
    pub(crate) fn commit(
        &mut self,
        plan_id: u64,
        verdicts: &Verdicts<'_>,
        elapsed_ms: f64,
        now_s: f64,
    ) -> Result<Vec<RequestOutput>, EngineError> {
        let open = self.open_plan(plan_id)?;
        self.check(open, verdicts)?;
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
        for part in &open.parts {
            outputs.extend(self.commit_part(part, verdicts, &mut sampler, now_s));
        }
        self.sampler = sampler;
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

    fn open_plan(&self, plan_id: u64) -> Result<&InFlight, EngineError> {
        match &self.in_flight {
            Some(open) if open.plan_id == plan_id => Ok(open),
            other => Err(EngineError::UnknownPlan {
                given: plan_id,
                expected: other.as_ref().map(|open| open.plan_id),
            }),
        }
    }

    fn check(&self, open: &InFlight, verdicts: &Verdicts<'_>) -> Result<(), EngineError> {
        let wrong = |what, given, allowed| {
            Err(EngineError::Logits {
                what,
                given,
                allowed,
            })
        };
        let expected = open.num_samples;
        let vocabulary = self.config.vocabulary_size;
        match *verdicts {
            Verdicts::Logits { num_rows, .. } if num_rows != expected => wrong(
                "number of rows",
                num_rows,
                format!("{expected}, the sampled rows of the plan"),
            ),
            Verdicts::Logits { row_stride, .. } if expected > 0 && row_stride < vocabulary => {
                wrong(
                    "row stride",
                    row_stride,
                    format!("{vocabulary} or more, the vocabulary size"),
                )
            }
            Verdicts::Logits {
                values,
                num_rows,
                row_stride,
            } if num_rows > 0 && values.len() < (num_rows - 1) * row_stride + vocabulary => wrong(
                "number of values",
                values.len(),
                format!("{num_rows} rows {row_stride} apart"),
            ),
            Verdicts::Tokens(tokens) if tokens.len() != expected => wrong(
                "number of tokens",
                tokens.len(),
                format!("{expected}, the sampled rows of the plan"),
            ),
            Verdicts::Tokens(tokens) => {
                if let Some(&token) = tokens
                    .iter()
                    .find(|&&token| token < 0 || token as usize >= vocabulary)
                {
                    return wrong("token", token as usize, format!("0 to {}", vocabulary - 1));
                }
                self.check_greedy(open)
            }
            Verdicts::Logits { .. } => Ok(()),
        }
    }

    fn check_greedy(&self, open: &InFlight) -> Result<(), EngineError> {
        for part in &open.parts {
            let Some(sequence) = self.running.get(&part.key) else {
                continue;
            };
            let samples = match part.work {
                Work::Chunk(rows) => rows == sequence.num_missing(),
                Work::Tree(_) => true,
            };
            if samples && !sequence.is_plain_greedy() {
                return Err(EngineError::NotGreedy {
                    handle: sequence.request.handle,
                });
            }
        }
        Ok(())
    }

    fn commit_part(
        &mut self,
        part: &Part,
        verdicts: &Verdicts<'_>,
        sampler: &mut Sampler,
        now_s: f64,
    ) -> Option<RequestOutput> {
        let mut sequence = self.running.remove(&part.key)?;
        let first = sequence.num_emitted();
        let vocabulary = self.config.vocabulary_size;
        let mut draw = |sequence: &Sequence, row: usize| {
            let row = part.first_sample + row;
            match *verdicts {
                Verdicts::Logits {
                    values, row_stride, ..
                } => sampler.draw(
                    &values[row * row_stride..][..vocabulary],
                    &sequence.next_draw(),
                ),
                Verdicts::Tokens(tokens) => Ok(tokens[row] as u32),
            }
        };
        let ended = match &part.work {
            Work::Chunk(rows) => {
                sequence.kv_len += rows;
                sequence.drafting.feed(&sequence.tokens[..sequence.kv_len]);
                if sequence.num_missing() > 0 {
                    self.running.insert(part.key, sequence);
                    return None;
                }
                if sequence.num_emitted() == 0 {
                    self.totals.prompt_tokens += sequence.num_prompt() as u64;
                }
                let prompt = &sequence.tokens[..sequence.num_prompt()];
                sequence.drafting.teach_prompt(prompt);
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
                let walk = walk(&mut sequence, tree, &mut draw, now_s);
                self.totals.accepted_tokens += walk.path.len() as u64;
                let emitted = &sequence.tokens[sequence.tokens.len() - walk.num_emitted..];
                sequence.drafting.advance(Some((tree, &walk.path)), emitted);
                walk.ended
            }
        };
        let (token_ids, sources) = sequence.emitted_since(first);
        self.totals.generated_tokens += token_ids.len() as u64;
        let end = match ended {
            Ok(None) => {
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
