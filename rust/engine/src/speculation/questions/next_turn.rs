//! Which drafter has the next turn: the one that is worth most, or one that is to be tried.

use super::super::heads::Wish;
use super::super::speculator::Speculator;
use super::super::step::Candidate;
use super::questions::{Questions, Worth};
use super::turns::Turns;
use super::wishes::{Reach, wishes};

impl Speculator {
    /// Begins the turn of the drafter that is worth most of those that wait; false if none does.
    pub(super) fn begin_turn(
        &self,
        questions: &mut Questions,
        worth: Worth,
        candidates: &mut [Candidate<'_>],
        reaches: &[Vec<Reach>],
    ) -> bool {
        let next = self.next_turn(&questions.turns, worth, candidates, reaches);
        let Some((drafter, is_trial)) = next else {
            return false;
        };
        let Questions { turns, levels, .. } = questions;
        turns.begin(drafter, is_trial);
        levels.is_over = false;
        levels.is_bought_over = !turns.buying.contains(&drafter);
        levels.num_answered = 0;
        levels.num_rows = 0;
        give(turns, candidates, drafter);
        true
    }

    /// Whose turn is next, and whether that is to try it.
    fn next_turn(
        &self,
        turns: &Turns,
        worth: Worth,
        candidates: &mut [Candidate<'_>],
        reaches: &[Vec<Reach>],
    ) -> Option<(usize, bool)> {
        let (&first, others) = turns.waiting.split_first()?;
        if others.is_empty() {
            return Some((first, false));
        }
        let mut best = (first, 0.0);
        for &drafter in &turns.waiting {
            let worth_ms = self.worth_of_turn(turns, worth, candidates, reaches, drafter);
            if worth_ms > best.1 {
                best = (drafter, worth_ms);
            }
        }
        let tried = turns.tried.map(|(drafter, _)| drafter);
        let tried = tried.filter(|drafter| turns.waiting.contains(drafter));
        Some(match tried {
            Some(tried) if tried != best.0 || best.1 <= 0.0 => (tried, true),
            _ => (best.0, false),
        })
    }

    /// Milliseconds that asking a drafter should save above its price, in the first level and those that follow.
    fn worth_of_turn(
        &self,
        turns: &Turns,
        worth: Worth,
        candidates: &mut [Candidate<'_>],
        reaches: &[Vec<Reach>],
        drafter: usize,
    ) -> f64 {
        let Some(heads) = self.drafters.get(drafter) else {
            return 0.0;
        };
        if !turns.buying.contains(&drafter) {
            return 0.0;
        }
        give(turns, candidates, drafter);
        let rows = |index: usize, candidate: &Candidate<'_>| {
            let may_ask = turns.asked[index].is_none() && !candidate.is_fixed();
            if may_ask { usize::MAX } else { 0 }
        };
        let wishes: Vec<Wish> = wishes(1, worth.row_price, rows, candidates, &reaches[drafter]);
        heads.worth_ms(wishes, heads.max_rows(), worth.ms_per_token)
    }
}

/// Gives a drafter the turn at the requests that nobody is asked about yet.
fn give(turns: &Turns, candidates: &mut [Candidate<'_>], drafter: usize) {
    let open = candidates.iter_mut().zip(&turns.asked);
    for (candidate, _) in open.filter(|(_, asked)| asked.is_none()) {
        candidate.drafting.turn_to(drafter);
    }
}
