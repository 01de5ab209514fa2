//! A mixture of experts: each row goes through the few MLPs that the router chooses for it.
//!
//! The rows of one expert are gathered, so that its weights are read once. A row's experts and weights
//! depend on the row alone, and their results are added in ascending order of experts, so the
//! other rows of an expert change no bit.
#![allow(unsafe_code)] // parts of the buffers are written and read by several threads

use spectrie_simd::Isa;

use crate::buffer::Columns;
use crate::decoder::mlp::{Dense, gate_rows};
use crate::decoder::routing::{Route, choose, place};
use crate::decoder::split::Whole;
use crate::decoder::workspace::{Buffers, LayerPass};
use crate::matmul::Linear;
use crate::simd::{Dtype, Kernel, LANES, Simd, launch, load_part, store_part};
use crate::threads::{Member, share_out};

/// Weights of the experts and of the router that chooses among them.
pub struct Mixture<E: Dtype> {
    /// Product to a score for each expert.
    pub router: Linear<E>,
    /// The experts, all of equal sizes.
    pub experts: Vec<Dense<E>>,
    /// Number of experts that a row takes: those with the largest softmax scores.
    pub chosen: usize,
    /// Scales the weights of the chosen experts to a sum of 1.
    pub normalised: bool,
}

impl<E: Dtype> Mixture<E> {
    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        self.router.bytes() + self.experts.iter().map(Dense::bytes).sum::<usize>()
    }

    /// What must be equal: which size, as it is, as it must be.
    pub(crate) fn sizes(
        &self,
        expert: Columns,
        hidden: Columns,
    ) -> Vec<(&'static str, usize, usize)> {
        let (router, experts) = (&self.router, self.experts.len());
        let chosen = self.chosen.clamp(1, experts.max(1));
        let mut sizes = vec![
            ("input of the router", router.in_features(), hidden.total),
            ("output of the router", router.out_features(), experts),
            ("chosen experts", self.chosen, chosen),
        ];
        for dense in &self.experts {
            sizes.extend(dense.sizes(expert, hidden));
        }
        sizes
    }

    /// Elements of one expert's gated activation.
    pub(crate) fn width(&self) -> usize {
        self.experts
            .first()
            .map_or(0, |expert| expert.down.in_features())
    }

    /// From the normed rows to this part's columns of the delta; ends with a barrier.
    pub(crate) fn run(&self, member: &Member<'_>, pass: &LayerPass<'_, E>, rows: usize) {
        let (buffers, columns) = (pass.buffers, pass.split.hidden);
        self.choose_all(member, buffers, rows);
        // SAFETY: written before the barrier.
        let (choices, starts) = unsafe {
            (
                buffers.choices.read(0, rows * self.chosen),
                buffers.starts.read(0, self.experts.len() + 1),
            )
        };
        self.run_experts(member, pass, choices, starts);
        share_out(member, rows, 4, |row| {
            let results = choices[row * self.chosen..][..self.chosen]
                .iter()
                .map(|choice| {
                    let start = choice.place * columns.total + columns.first;
                    // SAFETY: the results were written before the barrier.
                    let result = unsafe { buffers.gathered.read(start, columns.count) };
                    (choice.weight, result)
                });
            let start = row * columns.total + columns.first;
            // SAFETY: each row is taken once.
            let out = unsafe { buffers.delta.part(start, columns.count) };
            launch(Isa::detect(), Sum { results, out });
        });
        member.barrier();
    }

    /// From the normed rows to choices and starts; ends with a barrier.
    fn choose_all(&self, member: &Member<'_>, buffers: Buffers<'_, E>, rows: usize) {
        let experts = self.experts.len();
        // SAFETY: `normed` was written before the barrier.
        let x = unsafe { buffers.normed.read(0, rows * self.router.in_features()) };
        // SAFETY: only this product writes its output until the barrier.
        unsafe { self.router.run(member, x, rows, buffers.scores, experts) }
        member.barrier();
        share_out(member, rows, 4, |row| {
            // SAFETY: each row is taken once, and the scores were written before the barrier.
            let (scores, choices) = unsafe {
                (
                    buffers.scores.read(row * experts, experts),
                    buffers.choices.part(row * self.chosen, self.chosen),
                )
            };
            choose(scores, self.normalised, choices);
        });
        member.barrier();
        if member.index() == 0 {
            // SAFETY: this member alone touches choices and starts until the barrier.
            let (choices, starts) = unsafe {
                (
                    buffers.choices.part(0, rows * self.chosen),
                    buffers.starts.part(0, experts + 1),
                )
            };
            place(choices, starts);
        }
        member.barrier();
    }

    /// Every choice's row through its expert, from the normed rows to this part's columns of the
    /// gathered results; ends with a barrier. Experts that no row chose are not read.
    fn run_experts(
        &self,
        member: &Member<'_>,
        pass: &LayerPass<'_, E>,
        choices: &[Route],
        starts: &[usize],
    ) {
        let (buffers, split) = (pass.buffers, pass.split);
        let (hidden, inner) = (split.hidden.total, split.expert);
        let busy = self
            .experts
            .iter()
            .zip(starts.windows(2))
            .map(|(expert, range)| (expert, range[0], range[1] - range[0]))
            .filter(|&(_, _, rows)| rows > 0);
        share_out(member, choices.len(), 4, |index| {
            let from = index / self.chosen * hidden;
            // SAFETY: `normed` was written before the barrier, and each place belongs to one choice.
            let (from, to) = unsafe {
                (
                    buffers.normed.read(from, hidden),
                    buffers.gathered.part(choices[index].place * hidden, hidden),
                )
            };
            to.copy_from_slice(from);
        });
        member.barrier();
        for (expert, start, rows) in busy.clone() {
            let out = buffers.gate_up.offset(start * 2 * inner.count);
            // SAFETY: gathered before the barrier; each expert writes its own rows.
            unsafe {
                let x = buffers.gathered.read(start * hidden, rows * hidden);
                expert.gate_up.run(member, x, rows, out, 2 * inner.count);
            }
        }
        member.barrier();
        gate_rows(member, buffers, choices.len(), inner);
        member.barrier();
        split.gather(member, Whole::Expert, buffers.gated, choices.len());
        for (expert, start, rows) in busy {
            let out = buffers.gathered.offset(start * hidden + split.hidden.first);
            // SAFETY: gated before the barrier; each expert writes its own rows, which no
            // member reads as input any more.
            unsafe {
                let x = buffers.gated.read(start * inner.total, rows * inner.total);
                expert.down.run(member, x, rows, out, hidden);
            }
        }
        member.barrier();
    }
}

/// The weighted sum of the results of a row's experts, in their order.
struct Sum<'a, E, R> {
    results: R,
    out: &'a mut [E],
}

impl<'r, E: Dtype, R: Iterator<Item = (f32, &'r [E])> + Clone> Kernel for Sum<'_, E, R> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (part, out) in self.out.chunks_mut(LANES).enumerate() {
            let first = part * LANES;
            let mut sum = S::splat(0.0);
            for (weight, result) in self.results.clone() {
                let values = load_part::<S, E>(&result[first..first + out.len()]);
                sum = S::fma(S::splat(weight), values, sum);
            }
            store_part::<S, E>(sum, out);
        }
    }
}
