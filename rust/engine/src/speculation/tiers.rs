//! Fixed numbers of draft nodes, one for a whole batch, chosen by how many were accepted lately:
//! the policy that others ship, to compare with the budget.
//!
//! As `SGLang`'s adaptive speculation (`speculative/adaptive_spec_params.py`) with its tiers 0, 1,
//! 3 and 7.

/// Share of a step in the running mean of accepted nodes.
const MEAN_RATE: f64 = 0.2;

/// Steps with drafts before the first decision.
const WARM_UP_STEPS: u32 = 10;

/// Steps between two decisions.
const DECISION_STEPS: u32 = 5;

/// Added to the mean that a tier is left upwards at.
const UP_HYSTERESIS: f64 = 0.0;

/// Added to the mean that a tier is left downwards at.
const DOWN_HYSTERESIS: f64 = -0.25;

/// The slots: fewest requests of a batch, and its tiers.
const SLOTS: [(usize, &[usize]); 4] = [(1, &[1, 3, 7]), (8, &[0, 1, 3]), (32, &[0, 1]), (64, &[0])];

/// Nodes that a slot begins with, if it has that tier.
const FIRST_TIER: usize = 3;

/// The tiers of all batch sizes, and how they did.
#[derive(Debug)]
pub(crate) struct Tiers {
    slots: [Slot; SLOTS.len()],
    /// Requests of the open step, and draft nodes of theirs that were accepted.
    num_requests: usize,
    num_accepted: usize,
}

/// What is known of one range of batch sizes.
#[derive(Debug, Clone, Copy)]
struct Slot {
    tiers: &'static [usize],
    /// Index in `tiers`.
    current: usize,
    /// Running mean of accepted nodes of a request and step.
    mean: f64,
    /// Steps since the start or the last decision.
    num_steps: u32,
    is_warm: bool,
}

impl Default for Tiers {
    fn default() -> Self {
        Self {
            slots: SLOTS.map(|(_, tiers)| Slot::new(tiers)),
            num_requests: 0,
            num_accepted: 0,
        }
    }
}

impl Tiers {
    /// Draft nodes of each request in a batch of `num_requests`.
    pub(crate) fn nodes(&self, num_requests: usize) -> usize {
        let slot = &self.slots[slot_of(num_requests)];
        slot.tiers[slot.current]
    }

    /// Notes what one request of the open step accepted.
    pub(crate) fn note(&mut self, num_accepted: usize) {
        self.num_requests += 1;
        self.num_accepted += num_accepted;
    }

    /// Ends the open step.
    pub(crate) fn end_step(&mut self) {
        let num_requests = std::mem::take(&mut self.num_requests);
        let num_accepted = std::mem::take(&mut self.num_accepted);
        if num_requests > 0 {
            let mean = num_accepted as f64 / num_requests as f64;
            self.slots[slot_of(num_requests)].end_step(mean);
        }
    }
}

impl Slot {
    fn new(tiers: &'static [usize]) -> Self {
        let current = tiers
            .iter()
            .position(|&tier| tier == FIRST_TIER)
            .unwrap_or(tiers.len() - 1);
        Self {
            tiers,
            current,
            mean: tiers[current].saturating_sub(1) as f64,
            num_steps: 0,
            is_warm: false,
        }
    }

    fn end_step(&mut self, accepted: f64) {
        // A step without drafts says nothing about them.
        if self.tiers[self.current] > 0 {
            self.mean += MEAN_RATE * (accepted - self.mean);
        }
        self.num_steps += 1;
        let needed = if self.is_warm {
            DECISION_STEPS
        } else {
            WARM_UP_STEPS
        };
        if self.num_steps >= needed {
            self.num_steps = 0;
            self.is_warm = true;
            self.decide();
        }
    }

    fn decide(&mut self) {
        if self.tiers[self.current] == 0 {
            // Nothing is known of drafts where there are none.
            self.current = (self.current + 1).min(self.tiers.len() - 1);
            return;
        }
        let before = self.current;
        while self.current > 0 && self.mean <= down_at(self.tiers[self.current - 1]) {
            self.current -= 1;
        }
        if self.current < before {
            return;
        }
        while self.current + 1 < self.tiers.len()
            && self.mean > self.tiers[self.current] as f64 - 0.5 + UP_HYSTERESIS
        {
            self.current += 1;
        }
    }
}

/// The mean at or below which the tier `below` is enough.
fn down_at(below: usize) -> f64 {
    let middle = if below == 0 { 0.5 } else { below as f64 - 0.5 };
    middle + DOWN_HYSTERESIS
}

fn slot_of(num_requests: usize) -> usize {
    SLOTS
        .iter()
        .rposition(|&(fewest, _)| num_requests >= fewest)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs steps of a batch in which every request accepts as many of its nodes as `accepted`
    /// allows; the tiers in use after each step.
    fn run(tiers: &mut Tiers, num_requests: usize, accepted: usize, steps: usize) -> Vec<usize> {
        let mut used = Vec::new();
        for _ in 0..steps {
            let nodes = tiers.nodes(num_requests);
            (0..num_requests).for_each(|_| tiers.note(accepted.min(nodes)));
            tiers.end_step();
            used.push(tiers.nodes(num_requests));
        }
        used
    }

    #[test]
    fn batch_sizes_have_the_published_slots() {
        let slots = [1, 7, 8, 31, 32, 63, 64, 500].map(|size| SLOTS[slot_of(size)].1);
        let published: [&[usize]; 8] = [
            &[1, 3, 7],
            &[1, 3, 7],
            &[0, 1, 3],
            &[0, 1, 3],
            &[0, 1],
            &[0, 1],
            &[0],
            &[0],
        ];
        assert_eq!(slots, published);
    }

    #[test]
    fn the_first_decision_comes_after_the_warm_up_and_the_next_every_five_steps() {
        let mut tiers = Tiers::default();
        assert_eq!(tiers.nodes(1), 3);
        assert_eq!(run(&mut tiers, 1, 7, 9), [3; 9]);
        // The mean went from 2 towards 3, above 2.5.
        assert_eq!(run(&mut tiers, 1, 7, 1), [7]);
        let down = run(&mut tiers, 1, 0, 15);
        assert_eq!(down[..4], [7; 4]);
        let first = down.iter().position(|&tier| tier < 7).unwrap();
        assert_eq!((first + 1) % 5, 0, "{down:?}");
        assert_eq!(down.last(), Some(&1));
    }

    #[test]
    fn a_mean_between_the_two_thresholds_changes_nothing() {
        // Down from 3 to 1 at 0.25 and below, up from 3 to 7 above 2.5.
        for (mean, tier) in [(0.25, 1), (0.3, 3), (2.5, 3), (2.55, 7)] {
            let mut slot = Slot::new(&[1, 3, 7]);
            slot.mean = mean;
            slot.decide();
            assert_eq!(slot.tiers[slot.current], tier, "{mean}");
        }
        // Down from 7 to 3 at 2.25 and below.
        for (mean, tier) in [(2.25, 3), (2.3, 7), (0.2, 1)] {
            let mut slot = Slot::new(&[1, 3, 7]);
            slot.current = 2;
            slot.mean = mean;
            slot.decide();
            assert_eq!(slot.tiers[slot.current], tier, "{mean}");
        }
    }

    #[test]
    fn no_drafts_are_followed_by_a_probe_of_the_smallest_tier() {
        let mut tiers = Tiers::default();
        let used = run(&mut tiers, 32, 0, 40);
        assert_eq!(used[8..10], [1, 0]);
        assert_eq!(used[13..15], [0, 1]);
        assert_eq!(used[18..20], [1, 0]);
        let used = run(&mut tiers, 32, 1, 40);
        assert_eq!(used.last(), Some(&1));
    }

    #[test]
    fn slots_know_nothing_of_each_other_and_the_largest_drafts_nothing() {
        let mut tiers = Tiers::default();
        run(&mut tiers, 1, 7, 20);
        assert_eq!((tiers.nodes(1), tiers.nodes(8)), (7, 3));
        assert_eq!(run(&mut tiers, 64, 0, 50), [0; 50]);
    }
}
