//! Which experts a row takes, and where its share of each lies.

use spectrie_simd::Isa;

use crate::simd::{Kernel, LANES, Simd, exp2, launch, load_part, store_part};

/// Where one row's share of an expert lies among the gathered rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Route {
    pub(crate) expert: usize,
    pub(crate) weight: f32,
    /// Row among the gathered ones.
    pub(crate) place: usize,
}

/// e to the power of each score less the greatest.
struct SoftmaxWeights<'a> {
    scores: &'a [f32],
    greatest: f32,
    out: &'a mut [f32],
}

impl Kernel for SoftmaxWeights<'_> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let greatest = S::splat(self.greatest);
        for (scores, out) in self.scores.chunks(LANES).zip(self.out.chunks_mut(LANES)) {
            let below = S::sub(load_part::<S, f32>(scores), greatest);
            let exponent = S::mul(below, S::splat(std::f32::consts::LOG2_E));
            store_part::<S, f32>(exp2::<S>(exponent), out);
        }
    }
}

/// The experts of the greatest scores, in ascending order, with their share of the softmax; of equal
/// scores the first.
pub(crate) fn choose(scores: &[f32], normalised: bool, choices: &mut [Route]) {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let better = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    order.select_nth_unstable_by(choices.len() - 1, better);
    order.truncate(choices.len());
    order.sort_unstable();
    let greatest = order.iter().map(|&expert| scores[expert]);
    let mut weights = vec![0.0; scores.len()];
    let kernel = SoftmaxWeights {
        scores,
        greatest: greatest.fold(f32::NEG_INFINITY, f32::max),
        out: &mut weights,
    };
    launch(Isa::detect(), kernel);
    let total: f32 = if normalised {
        order.iter().map(|&expert| weights[expert]).sum()
    } else {
        weights.iter().sum()
    };
    for (choice, expert) in choices.iter_mut().zip(order) {
        *choice = Route {
            expert,
            weight: weights[expert] / total,
            place: 0,
        };
    }
}

/// Gives every choice its place: rows of one expert follow each other, `starts[e]..starts[e + 1]`.
pub(crate) fn place(choices: &mut [Route], starts: &mut [usize]) {
    starts.fill(0);
    for choice in choices.iter() {
        starts[choice.expert + 1] += 1;
    }
    for expert in 1..starts.len() {
        starts[expert] += starts[expert - 1];
    }
    let mut next = starts.to_vec();
    for choice in choices {
        choice.place = next[choice.expert];
        next[choice.expert] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(scores: &[f32], count: usize, normalised: bool) -> Vec<(usize, f32)> {
        let mut choices = vec![Route::default(); count];
        choose(scores, normalised, &mut choices);
        choices.iter().map(|c| (c.expert, c.weight)).collect()
    }

    #[test]
    fn the_likeliest_experts_are_chosen_with_their_share_of_the_softmax() {
        let scores = [1.0, 3.0, -2.0, 3.0, 0.5];
        let total: f32 = scores.iter().map(|s: &f32| s.exp()).sum();
        let got = chosen(&scores, 3, false);
        for ((expert, weight), want) in got.iter().zip([0, 1, 3]) {
            assert_eq!(*expert, want);
            assert!((weight - scores[want].exp() / total).abs() < 1e-6);
        }
        let sum: f32 = chosen(&scores, 3, true).iter().map(|c| c.1).sum();
        assert!((sum - 1.0).abs() < 1e-6);
    }

    #[test]
    fn of_equal_scores_the_first_is_chosen() {
        let got = chosen(&[0.0; 20], 2, true);
        assert_eq!(got.iter().map(|c| c.0).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn rows_of_one_expert_are_neighbours() {
        let mut choices: Vec<Route> = [2, 3, 0, 2, 2, 3]
            .map(|expert| Route {
                expert,
                ..Route::default()
            })
            .to_vec();
        let mut starts = vec![9; 5];
        place(&mut choices, &mut starts);
        assert_eq!(starts, [0, 1, 1, 4, 6]);
        assert_eq!(
            choices.iter().map(|c| c.place).collect::<Vec<_>>(),
            [1, 4, 0, 2, 3, 5]
        );
    }
}
