//! How much a drafter of the runner's adds where it is asked.
//!
//! What counts is the surplus of drafted children: hits, less what their rows cost in accepted tokens. Of the
//! surplus that others leave, a drafter adds a share. The shares that ship were fitted to a trained head by level,
//! by what others expect and by the price of a row. A request learns how much better or worse its drafter is: in all
//! places at once, at each level, and in each place, each of which starts from the one before. It learns that from
//! what answers promise, which says more than a hit or a miss, and beside it how far promises are kept.

use crate::score::head_cell::Cell;
use crate::score::head_prior::HeadPrior;
use crate::sources::head_place::{Came, NUM_LEVELS, Place, Places};

/// Share of the old evidence kept at each new one of the same place, and at one of any place.
const KEEP: f32 = 0.9;
const KEEP_OF_ALL: f32 = 0.9;

/// How much the belief of [`HeadPrior`] weighs, in surplus that others left: in all places, at a level and in a
/// place.
const WEIGHT_OF_ALL: f32 = 1.0;
const WEIGHT_OF_LEVEL: f32 = 3.0;
const WEIGHT_OF_PLACE: f32 = 4.0;

/// The same of promises, which are believed at first: those of a drafter are right in the long run or not.
const KEEP_OF_KEPT: f32 = 0.98;
const WEIGHT_OF_KEPT: f32 = 3.0;

/// Most that promises are exceeded.
const MOST_KEPT: f32 = 3.0;

/// Most that a drafter may be better than the one that the shares were fitted to.
const MOST_BETTER: f32 = 3.0;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadGains {
    /// Of surplus that was promised beyond that of others, what came.
    kept: Cell,
    /// Of surplus that is usually added, all that was promised, and that at each level.
    of_all: Cell,
    of_levels: [Cell; NUM_LEVELS],
    cells: Places<Cell>,
}

impl HeadGains {
    /// Expected surplus, in accepted tokens, that an answer adds at a node that is reached.
    pub(crate) fn expected(&self, place: Place) -> f32 {
        let factor = self.of_level(place.level());
        let prior = (usual_share(place) * factor).clamp(0.0, 1.0);
        let share = place.of(&self.cells).ratio(prior, WEIGHT_OF_PLACE);
        let kept = self.kept.ratio(1.0, WEIGHT_OF_KEPT).clamp(0.0, MOST_KEPT);
        (share * kept).clamp(0.0, 1.0) * place.left()
    }

    /// How much more it adds at a level than the one that the shares were fitted to.
    fn of_level(&self, level: usize) -> f32 {
        let all = self.of_all.ratio(1.0, WEIGHT_OF_ALL);
        let factor = self.of_levels[level].ratio(all, WEIGHT_OF_LEVEL);
        factor.clamp(0.0, MOST_BETTER)
    }

    /// Notes what children drafted with an answer came to at a node that was reached.
    pub(crate) fn note(&mut self, place: Place, came: Came) {
        let promised = came.promised(place.price()) - place.surplus();
        let truly = came.surplus(place.price()) - place.surplus();
        if promised > 0.0 {
            self.kept
                .note(KEEP_OF_KEPT, truly, promised, -WEIGHT_OF_KEPT);
        }
        self.note_promise(place, promised);
    }

    /// Notes that there was no answer: it adds nothing.
    pub(crate) fn note_silence(&mut self, place: Place) {
        self.note_promise(place, 0.0);
    }

    fn note_promise(&mut self, place: Place, promised: f32) {
        let usual = usual_share(place) * place.left();
        place
            .of_mut(&mut self.cells)
            .note(KEEP, promised, place.left(), 0.0);
        self.of_all
            .note(KEEP_OF_ALL, promised, usual, -WEIGHT_OF_ALL);
        let of_level = &mut self.of_levels[place.level()];
        of_level.note(KEEP_OF_ALL, promised, usual, 0.0);
    }

    /// What a new request starts from that follows others like this.
    pub(crate) fn inherited(&self) -> Self {
        Self {
            kept: self.kept.scaled(),
            of_all: self.of_all.scaled(),
            of_levels: self.of_levels.map(Cell::scaled),
            cells: self
                .cells
                .map(|kinds| kinds.map(|prices| prices.map(Cell::scaled))),
        }
    }
}

/// The share that ships.
fn usual_share(place: Place) -> f32 {
    place.of(&HeadPrior::shipped().shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Children of an answer that promised much, and of one that promised nothing.
    const HIT: Came = Came {
        is_hit: true,
        rows: 1,
        promised: 0.9,
    };
    const MISS: Came = Came {
        is_hit: false,
        rows: 1,
        promised: 0.0,
    };
    const BROKEN: Came = Came {
        is_hit: false,
        ..HIT
    };

    /// Where a row costs nothing.
    fn place(level: u16, before: f32) -> Place {
        Place::new(level, before, 0.0, before)
    }

    #[test]
    fn hits_raise_and_misses_lower_what_is_expected() {
        let first = place(1, 0.1);
        let mut gains = HeadGains::default();
        for _ in 0..8 {
            gains.note(first, HIT);
        }
        assert!(gains.expected(first) > 0.7, "{}", gains.expected(first));
        for _ in 0..12 {
            gains.note(first, MISS);
        }
        assert!(gains.expected(first) < 0.12, "{}", gains.expected(first));
    }

    #[test]
    fn a_few_misses_in_one_place_lower_what_is_expected_in_all() {
        let (here, there) = (place(1, 0.1), place(1, 0.5));
        let mut gains = HeadGains::default();
        let start = gains.expected(there);
        for _ in 0..6 {
            gains.note(here, MISS);
        }
        let after = gains.expected(there);
        assert!(after < 0.5 * start, "{start} {after}");
        // What is right there after all is found there.
        for _ in 0..6 {
            gains.note(there, HIT);
        }
        assert!(gains.expected(there) > start);
    }

    #[test]
    fn promises_that_are_never_kept_are_believed_no_more() {
        let place = place(1, 0.1);
        let mut gains = HeadGains::default();
        for _ in 0..3 {
            gains.note(place, BROKEN);
        }
        assert!(gains.expected(place) > 0.2, "{}", gains.expected(place));
        for _ in 0..30 {
            gains.note(place, BROKEN);
        }
        assert!(gains.expected(place) < 0.02, "{}", gains.expected(place));
        for _ in 0..12 {
            gains.note(place, HIT);
        }
        assert!(gains.expected(place) > 0.2, "{}", gains.expected(place));
    }

    #[test]
    fn one_that_answers_nothing_soon_promises_nothing() {
        let place = place(1, 0.1);
        let mut gains = HeadGains::default();
        for _ in 0..8 {
            gains.note_silence(place);
        }
        assert!(gains.expected(place) < 0.12, "{}", gains.expected(place));
    }

    #[test]
    fn every_hit_shows_after_however_many_misses() {
        let place = place(1, 0.5);
        let mut gains = HeadGains::default();
        for _ in 0..100 {
            gains.note(place, MISS);
        }
        let mut before = gains.expected(place);
        assert!(before < 0.01, "{before}");
        for _ in 0..4 {
            gains.note(place, HIT);
            assert!(gains.expected(place) > before + 0.02);
            before = gains.expected(place);
        }
    }

    #[test]
    fn next_to_nothing_is_expected_of_an_answer_to_a_certain_copy() {
        let mut gains = HeadGains::default();
        for _ in 0..20 {
            gains.note(place(1, 0.97), HIT);
        }
        assert!(gains.expected(place(1, 0.97)) < 0.035);
    }

    #[test]
    fn tokens_that_cost_as_much_as_they_give_add_nothing() {
        let dear = Place::new(1, 0.0, 0.5, 0.0);
        let mut gains = HeadGains::default();
        for index in 0..100 {
            let is_hit = index % 2 == 0;
            let came = Came {
                is_hit,
                rows: 1,
                promised: 0.5,
            };
            gains.note(dear, came);
        }
        assert!(gains.expected(dear) < 0.15, "{}", gains.expected(dear));
        // An answer that names nothing worth a row costs none.
        let before = gains.expected(dear);
        gains.note(dear, Came::default());
        assert!((gains.expected(dear) - before).abs() < 0.05);
    }

    #[test]
    fn a_new_request_starts_from_others_and_soon_goes_its_own_way() {
        let place = place(1, 0.0);
        let mut gains = HeadGains::default();
        for _ in 0..100 {
            gains.note(place, HIT);
        }
        let mut inherited = gains.inherited();
        let start = inherited.expected(place);
        assert!(start > 0.6, "{start}");
        for _ in 0..6 {
            inherited.note(place, MISS);
        }
        assert!(inherited.expected(place) < 0.5 * start);
    }
}
