//! From a drafter's states to answers: the heads that name tokens.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use spectrie_simd::Isa;

use crate::buffer::SharedSlice;
use crate::decoder::{TOP_K, Target, TopKRow, total_weight};
use crate::draft::naming::low_rank::{CANDIDATES, LowRank, greatest};
use crate::draft::naming::selector::{Selector, Shaped};
use crate::error::CpuError;
use crate::matmul::Linear;
use crate::simd::{Dtype, Kernel, LANES, Simd, launch, load_part, sum};
use crate::threads::{Member, share_out};

/// How a drafter names tokens.
pub enum Vocabulary<E: Dtype> {
    /// By the target's own head: all tokens.
    Whole,
    /// Some tokens.
    Cut(Cut<E>),
    /// All tokens, found by a head of low rank and weighed by the target's own.
    LowRank(LowRank<E>),
    /// By the target's own head, with what follows it.
    Shaped(Shaped<E>),
}

/// A head for some of the target's tokens.
pub struct Cut<E: Dtype> {
    /// Product from the state to the tokens that it names.
    pub head: Linear<E>,
    /// The target's number of each of them.
    pub tokens: Vec<i32>,
    /// Whether its rows are the target's, so that the target's weigh the other tokens when they are asked for.
    pub is_targets: bool,
}

impl<E: Dtype> Vocabulary<E> {
    /// Checks that it fits states of a width and the target's head.
    pub(crate) fn check(&self, hidden: usize, target: Target<'_, E>) -> Result<(), CpuError> {
        let vocabulary = target.head.out_features();
        let mut sizes = Vec::new();
        let of_target = (
            "state for the target's head",
            hidden,
            target.head.in_features(),
        );
        match self {
            Self::Whole => sizes.push(of_target),
            Self::Cut(cut) => {
                sizes.push(("input of lm_head", cut.head.in_features(), hidden));
                let names = (
                    "tokens of lm_head",
                    cut.tokens.len(),
                    cut.head.out_features(),
                );
                sizes.push(names);
                if cut.is_targets {
                    sizes.push(of_target);
                }
                let mut seen = vec![false; vocabulary];
                for (index, &token) in cut.tokens.iter().enumerate() {
                    let place = usize::try_from(token).ok().and_then(|at| seen.get_mut(at));
                    if place.is_none_or(|seen| std::mem::replace(seen, true)) {
                        return Err(CpuError::Entry {
                            what: "tokens of lm_head",
                            index,
                            given: i64::from(token),
                            expected: format!("0..{vocabulary}, each once"),
                        });
                    }
                }
            }
            Self::LowRank(low) => {
                sizes.push(of_target);
                low.check(hidden, vocabulary)?;
            }
            Self::Shaped(shaped) => {
                sizes.push(of_target);
                sizes.extend(shaped.sizes(hidden, vocabulary));
            }
        }
        for (what, given, expected) in sizes {
            if given != expected {
                return Err(CpuError::Length {
                    what,
                    given,
                    expected,
                });
            }
        }
        Ok(())
    }

    /// Width of a row of logits.
    pub(crate) fn width(&self, target: Target<'_, E>) -> usize {
        match self {
            Self::Whole | Self::LowRank(_) | Self::Shaped(_) => target.head.out_features(),
            Self::Cut(cut) => cut.head.out_features(),
        }
    }

    /// The product by which it names tokens, where that is not the target's.
    pub(crate) fn own_head(&self) -> Option<&Linear<E>> {
        match self {
            Self::Cut(cut) => Some(&cut.head),
            Self::Whole | Self::LowRank(_) | Self::Shaped(_) => None,
        }
    }

    /// Width of what lies between state and logits.
    pub(crate) fn rank(&self) -> usize {
        match self {
            Self::LowRank(low) => low.down.out_features(),
            Self::Shaped(shaped) => shaped.selector.as_ref().map_or(0, Selector::rank),
            Self::Whole | Self::Cut(_) => 0,
        }
    }

    /// For each of the target's tokens the number by which the head names it, -1 for none.
    pub(crate) fn names(&self, vocabulary: usize) -> Vec<i32> {
        let Self::Cut(cut) = self else {
            return Vec::new();
        };
        let mut names = vec![-1; vocabulary];
        for (name, &token) in cut.tokens.iter().enumerate() {
            names[token as usize] = name as i32;
        }
        names
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Cut(cut) => cut.head.bytes() + size_of_val(cut.tokens.as_slice()),
            Self::LowRank(low) => low.down.bytes() + low.up.bytes(),
            Self::Shaped(shaped) => shaped.selector.as_ref().map_or(0, Selector::bytes),
        }
    }
}

/// The answering of some rows; called by all members.
pub(crate) struct Answering<'a, E: Dtype> {
    pub(crate) vocabulary: &'a Vocabulary<E>,
    pub(crate) names: &'a [i32],
    pub(crate) target: Target<'a, E>,
    /// `[rows together, width]`.
    pub(crate) logits: SharedSlice<'a, f32>,
    /// `[rows together, rank]`.
    pub(crate) ranked: SharedSlice<'a, E>,
    /// Of each row: its part of the tokens asked for.
    pub(crate) scored: &'a [(usize, usize)],
    pub(crate) asked: &'a [i32],
    /// Of each row.
    pub(crate) tokens: &'a [i32],
    pub(crate) ids: SharedSlice<'a, i32>,
    pub(crate) probabilities: SharedSlice<'a, f32>,
    pub(crate) scores: SharedSlice<'a, f32>,
}

impl<E: Dtype> Answering<'_, E> {
    /// Answers rows from `first` on; `x: [rows, hidden]` is what the head takes. Ends with a barrier.
    pub(crate) fn run(&self, member: &Member<'_>, x: &[E], first: usize, rows: usize) {
        let width = self.vocabulary.width(self.target);
        let hidden = x.len() / rows;
        // SAFETY: only these products write what they write, until the barriers.
        unsafe {
            match self.vocabulary {
                Vocabulary::Whole => self.target.head.run(member, x, rows, self.logits, width),
                Vocabulary::Cut(cut) => cut.head.run(member, x, rows, self.logits, width),
                Vocabulary::LowRank(low) => {
                    let rank = low.down.out_features();
                    low.down.run(member, x, rows, self.ranked, rank);
                    member.barrier();
                    let ranked = self.ranked.read(0, rows * rank);
                    low.up.run(member, ranked, rows, self.logits, width);
                }
                Vocabulary::Shaped(shaped) => {
                    self.target.head.run(member, x, rows, self.logits, width);
                    if let Some(selector) = &shaped.selector {
                        let rank = selector.rank();
                        selector.projection.run(member, x, rows, self.ranked, rank);
                    }
                }
            }
        }
        member.barrier();
        share_out(member, rows, 4, |index| {
            let row = first + index;
            let (from, to) = self.scored[row];
            // SAFETY: the logits were written before the barrier, and each row is taken once; parts of the
            // tokens asked for follow each other.
            let (logits, ids, probabilities, scores) = unsafe {
                (
                    self.logits.part(index * width, width),
                    self.ids.part(row * TOP_K, TOP_K),
                    self.probabilities.part(row * TOP_K, TOP_K),
                    self.scores.part(from, to - from),
                )
            };
            let state = &x[index * hidden..(index + 1) * hidden];
            let asked = &self.asked[from..to];
            let answer = (ids, probabilities);
            match self.vocabulary {
                Vocabulary::LowRank(_) => self.weigh(logits, state, asked, answer, scores),
                Vocabulary::Whole | Vocabulary::Cut(_) => {
                    self.read(logits, state, asked, answer, scores);
                }
                Vocabulary::Shaped(shaped) => {
                    shaped.shape(logits);
                    let Some(selector) = &shaped.selector else {
                        self.read(logits, state, asked, answer, scores);
                        return;
                    };
                    let rank = selector.rank();
                    // SAFETY: written before the barrier.
                    let projected = unsafe { self.ranked.read(index * rank, rank) };
                    let behind = (self.tokens[row] as usize, projected);
                    selector.answer(logits, behind, asked, answer, scores);
                }
            }
        });
        member.barrier();
    }

    /// An answer from logits that are final.
    fn read(
        &self,
        logits: &[f32],
        state: &[E],
        asked: &[i32],
        (ids, probabilities): (&mut [i32], &mut [f32]),
        scores: &mut [f32],
    ) {
        let kernel = TopKRow {
            logits,
            ids: &mut *ids,
            probabilities: &mut *probabilities,
        };
        launch(Isa::detect(), kernel);
        let Ok(best) = usize::try_from(ids[0]) else {
            scores.fill(f32::NEG_INFINITY);
            return;
        };
        let total = logits[best] - probabilities[0].ln();
        let cut = match self.vocabulary {
            Vocabulary::Cut(cut) => Some(cut),
            Vocabulary::Whole | Vocabulary::LowRank(_) | Vocabulary::Shaped(_) => None,
        };
        for (score, &token) in scores.iter_mut().zip(asked) {
            let logit = match cut {
                None => logits[token as usize],
                Some(cut) => match usize::try_from(self.names[token as usize]) {
                    Ok(name) => logits[name],
                    Err(_) if cut.is_targets => self.exact(token as usize, state),
                    Err(_) => f32::NEG_INFINITY,
                },
            };
            *score = logit - total;
        }
        for id in ids.iter_mut().filter(|id| **id >= 0) {
            if let Some(cut) = cut {
                *id = cut.tokens[*id as usize];
            }
        }
    }

    /// An answer from logits that are near: the greatest are weighed again, exactly.
    fn weigh(
        &self,
        near: &[f32],
        state: &[E],
        asked: &[i32],
        (ids, probabilities): (&mut [i32], &mut [f32]),
        scores: &mut [f32],
    ) {
        ids.fill(-1);
        probabilities.fill(0.0);
        scores.fill(f32::NEG_INFINITY);
        let candidates = greatest(near, CANDIDATES);
        let mut exact: Vec<(usize, f32)> = candidates
            .into_iter()
            .map(|token| (token, self.exact(token, state)))
            .collect();
        exact.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let Some(&(_, best)) = exact.first().filter(|(_, logit)| logit.is_finite()) else {
            return;
        };
        // What is not weighed exactly counts as it is near.
        let mut total = f64::from(total_weight(near, best));
        for &(token, logit) in &exact {
            total += weight(logit, best) - weight(near[token], best);
        }
        for (index, &(token, logit)) in exact.iter().take(TOP_K).enumerate() {
            ids[index] = token as i32;
            probabilities[index] = (weight(logit, best) / total) as f32;
        }
        for (score, &token) in scores.iter_mut().zip(asked) {
            let logit = self.exact(token as usize, state);
            *score = (f64::from(logit - best) - total.ln()) as f32;
        }
    }

    /// A token's logit by the target's head.
    fn exact(&self, token: usize, state: &[E]) -> f32 {
        let mut row = vec![0.0; state.len()];
        self.target.head.weight_row(token, &mut row);
        let mut logit = 0.0;
        let kernel = Dot {
            row: &row,
            state,
            result: &mut logit,
        };
        launch(Isa::detect(), kernel);
        logit
    }
}

fn weight(logit: f32, best: f32) -> f64 {
    f64::from((logit - best).exp())
}

/// The sum of products, in lanes.
struct Dot<'a, E> {
    row: &'a [f32],
    state: &'a [E],
    result: &'a mut f32,
}

impl<E: Dtype> Kernel for Dot<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut total = S::splat(0.0);
        for (row, state) in self.row.chunks(LANES).zip(self.state.chunks(LANES)) {
            total = S::fma(load_part::<S, f32>(row), load_part::<S, E>(state), total);
        }
        *self.result = sum::<S>(total);
    }
}
