//! What requests might have a drafter asked.

use super::super::heads::{Missing, Wish};
use super::super::step::Candidate;

/// What is known of a request before one of the drafters is asked about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// Whether it may be asked.
    pub(crate) may_ask: bool,
    /// Whether it may not because the drafter keeps nothing of its rows, or sees too little of it.
    pub(crate) is_left_out: bool,
    /// Committed tokens that the drafter is to make keys of first.
    pub(crate) num_missing: usize,
    /// Whether it is asked where a request asks one whatever it costs: the first drafter that is for it.
    pub(crate) is_first: bool,
}

/// What the candidates would have a drafter asked at `level`, each about as many nodes as `rows` says at most.
pub(super) fn wishes(
    level: usize,
    row_price: f32,
    rows: impl Fn(usize, &Candidate<'_>) -> usize,
    candidates: &[Candidate<'_>],
    reaches: &[Reach],
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let (reach, rows) = (reaches[index], rows(index, candidate));
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
