//! How much a drafter of the runner's adds where it is asked.

use crate::score::head_prior::{HeadPrior, NUM_KINDS, NUM_LEVELS, Shares};

/// What others expect at most at a node of each kind but the last.
const BEFORE: [f32; NUM_KINDS - 1] = [0.3, 0.7];

/// Share of the old evidence kept at each new one.
const KEEP: f32 = 0.85;

/// How much the belief of [`HeadPrior`] weighs.
const PRIOR_WEIGHT: f32 = 1.5;

/// What a drafter adds where little was counted, and how much that weighs in a fit.
const USUAL_SHARE: f32 = 0.35;
const USUAL_WEIGHT: f32 = 20.0;

/// Most that a namespace's evidence weighs in a new request.
const MOST_INHERITED: f32 = 3.0;

/// Where a drafter was asked: the level, and what others expected there before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    level: usize,
    kind: usize,
    before: f32,
}

impl Place {
    /// Levels count from 1; `before` is the probability that a child drafted without an answer is right.
    pub(crate) fn new(level: u16, before: f32) -> Self {
        Self {
            level: usize::from(level).clamp(1, NUM_LEVELS) - 1,
            kind: BEFORE.iter().filter(|&&at| before > at).count(),
            before: before.clamp(0.0, 1.0),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    /// Hits beyond those that others expected.
    added: f32,
    /// What others left.
    left: f32,
}

/// Of what others leave of a node's hits, the share that a drafter adds: what it adds by its own tokens,
/// and by telling which tokens of others are right.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadGains {
    cells: [[Cell; NUM_KINDS]; NUM_LEVELS],
}

impl HeadGains {
    /// Expected tokens that an answer adds at a node that is reached.
    pub(crate) fn expected(&self, place: Place) -> f32 {
        let cell = self.cells[place.level][place.kind];
        let share = (cell.added + prior_share(place) * PRIOR_WEIGHT) / (cell.left + PRIOR_WEIGHT);
        share.clamp(0.0, 1.0) * (1.0 - place.before)
    }

    /// Notes whether a child drafted with an answer was right at a node that was reached.
    pub(crate) fn note(&mut self, place: Place, hit: bool) {
        let cell = &mut self.cells[place.level][place.kind];
        let hit = f32::from(u8::from(hit));
        // An answer can be left aside: it never adds less than nothing, and one that was wrong for long
        // shows soon when it is right.
        let least = -prior_share(place) * PRIOR_WEIGHT;
        cell.added = (KEEP * cell.added + hit - place.before).max(least);
        cell.left = KEEP * cell.left + 1.0 - place.before;
    }

    /// What a new request starts from that follows others like this.
    pub(crate) fn inherited(&self) -> Self {
        let mut cells = self.cells;
        for cell in cells.iter_mut().flatten() {
            let scale = (MOST_INHERITED / cell.left.max(MOST_INHERITED)).min(1.0);
            cell.added *= scale;
            cell.left *= scale;
        }
        Self { cells }
    }
}

fn prior_share(place: Place) -> f32 {
    HeadPrior::shipped().shares[place.level][place.kind]
}

/// All that was counted of what a drafter added, from which its prior is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadCounts {
    cells: [[Cell; NUM_KINDS]; NUM_LEVELS],
}

impl HeadCounts {
    /// Notes whether a child drafted with an answer was right at a node that was reached.
    pub(crate) fn note(&mut self, place: Place, hit: bool) {
        let cell = &mut self.cells[place.level][place.kind];
        cell.added += f32::from(u8::from(hit)) - place.before;
        cell.left += 1.0 - place.before;
    }

    /// Adds what others counted.
    pub fn add(&mut self, other: &Self) {
        let cells = self.cells.iter_mut().flatten();
        for (cell, other) in cells.zip(other.cells.iter().flatten()) {
            cell.added += other.added;
            cell.left += other.left;
        }
    }

    /// The share of what others left that was added, by level and by what others expected.
    pub(crate) fn shares(&self) -> Shares {
        self.cells.map(|kinds| {
            kinds.map(|cell| {
                let added = cell.added + USUAL_SHARE * USUAL_WEIGHT;
                (added / (cell.left + USUAL_WEIGHT)).clamp(0.0, 1.0)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_raise_and_misses_lower_what_is_expected_at_their_level() {
        let (first, second) = (Place::new(1, 0.1), Place::new(2, 0.1));
        let mut gains = HeadGains::default();
        let start = gains.expected(first);
        for _ in 0..6 {
            gains.note(first, true);
        }
        assert!(gains.expected(first) > 0.7);
        assert!((gains.expected(second) - start).abs() < 1e-6);
        for _ in 0..12 {
            gains.note(first, false);
        }
        assert!(gains.expected(first) < 0.12, "{}", gains.expected(first));
    }

    #[test]
    fn every_hit_shows_after_however_many_misses() {
        let place = Place::new(1, 0.5);
        let mut gains = HeadGains::default();
        for _ in 0..100 {
            gains.note(place, false);
        }
        let mut before = gains.expected(place);
        assert!(before < 1e-6);
        for _ in 0..4 {
            gains.note(place, true);
            assert!(gains.expected(place) > before + 0.02);
            before = gains.expected(place);
        }
    }

    #[test]
    fn next_to_nothing_is_expected_of_an_answer_to_a_certain_copy() {
        let mut gains = HeadGains::default();
        for _ in 0..20 {
            gains.note(Place::new(1, 0.97), true);
        }
        assert!(gains.expected(Place::new(1, 0.97)) < 0.035);
    }

    #[test]
    fn a_new_request_starts_from_others_and_soon_goes_its_own_way() {
        let place = Place::new(1, 0.0);
        let mut gains = HeadGains::default();
        for _ in 0..100 {
            gains.note(place, true);
        }
        let mut inherited = gains.inherited();
        assert!(inherited.expected(place) > 0.7);
        for _ in 0..4 {
            inherited.note(place, false);
        }
        assert!(inherited.expected(place) < 0.35);
    }
    #[test]
    fn counts_of_several_requests_give_the_share_that_was_added() {
        let (first, second) = (Place::new(1, 0.0), Place::new(2, 0.5));
        let mut counts = HeadCounts::default();
        assert!(
            counts
                .shares()
                .iter()
                .flatten()
                .all(|&share| share == USUAL_SHARE)
        );
        let mut one = HeadCounts::default();
        for index in 0..500 {
            one.note(first, index % 5 == 0);
            one.note(second, true);
        }
        counts.add(&one);
        counts.add(&one);
        let shares = counts.shares();
        assert!((shares[0][0] - 0.2).abs() < 0.01, "{shares:?}");
        assert!(
            shares[1][1] > 0.95 && shares[3][2] == USUAL_SHARE,
            "{shares:?}"
        );
    }
}
