//! When a drafter that is not asked is tried all the same, and what that may take.

/// Of requests that a drafter is not asked for, each is tried once in so many steps, ...
const PROBE_EVERY: u64 = 64;

/// ... then in twice as many each time that this came to nothing, up to 1024.
const MAX_DOUBLINGS: u64 = 4;

/// Probes that follow one another after a change of the text, whatever they find: the fewest with which no mix of the texts to
/// choose by leaves a head asleep for 64 steps. Otherwise, and then, as many as find more than the one before, up to the
/// second.
const PROBES_AFTER_CHANGE: u32 = 3;
const MAX_PROBES: u32 = 8;

/// Share of the time of steps that probes may take.
const SHARE: f64 = 0.005;

/// Steps after which there is a probe again, however long one took. A row of probes goes on into half of that
/// debt.
const MAX_DEBT_STEPS: f64 = 4096.0;

/// Whom a drafter is tried on, though nobody may have anything else to offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::speculation) enum Probed {
    /// The request of this number.
    One(usize),
    /// Each request.
    All,
}

impl Probed {
    /// Whether the request of this number is.
    pub(in crate::speculation) fn is(self, index: usize) -> bool {
        matches!(self, Self::All) || self == Self::One(index)
    }
}

/// Who has a turn at a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// All together.
    All,
    /// Each.
    Each,
    /// Any one, while all rest.
    Resting,
}

/// Owns the turn of probes and their allowance.
#[derive(Debug, Default)]
pub(super) struct Probing {
    /// Steps since the last question, or since the text changed.
    num_unasked: u64,
    /// Rows of probes since it was last asked for its answers' sake, or since the text changed.
    num_vain: u64,
    /// Steps since it was asked for its answers' sake; `None` before.
    num_since_bought: Option<u64>,
    /// Probes that the row has whatever they find, and the next row.
    least_probes: u32,
    next_least_probes: u32,
    /// Probes in a row, and the share that the last one's node was expected to add.
    probes: u32,
    share: f32,
    /// Whether the last probe was expected to add no more than the one before.
    was_dull: bool,
    /// Which of those that may be asked is tried.
    turn: usize,
    /// Whether a row of probes may begin in this step.
    is_due: bool,
    /// Whether the last probe is still to be asked: keys of its request were made up first.
    is_unfinished: bool,
    /// What may be spent on probes; below 0 after those that took more than there was. `None` before the
    /// first step.
    allowance_ms: Option<f64>,
    /// The debt that ends a row of probes.
    most_debt_ms: f64,
}

impl Probing {
    /// Begins a step whose forward takes `step_ms` without drafts.
    pub(super) fn begin_step(&mut self, step_ms: f64) {
        self.num_unasked += 1;
        self.num_since_bought = self.num_since_bought.map(|num| num + 1);
        self.is_due = false;
        let most = SHARE * PROBE_EVERY as f64 * step_ms;
        let debt = SHARE * MAX_DEBT_STEPS * step_ms;
        let left = self.allowance_ms.unwrap_or(most) + SHARE * step_ms;
        self.allowance_ms = Some(left.clamp(-debt, most));
        self.most_debt_ms = 0.5 * debt;
    }

    /// Which of `num` that may be asked this step is to try it on first; `None` when it is not tried.
    pub(super) fn choose(&mut self, num: usize, turn: Turn) -> Option<usize> {
        let each = PROBE_EVERY.checked_div(num as u64)?.max(1);
        let pause = if turn == Turn::Each {
            each
        } else {
            PROBE_EVERY
        };
        // Tries of one at a time say little of the others, and while all rest no output shows that the text has changed.
        // A request alone waits for no others: it wakes the drafter within one pause, even if its drafts keep up.
        let num_vain = if turn == Turn::All && num > 1 {
            self.num_vain.min(MAX_DOUBLINGS)
        } else {
            0
        };
        let pause = pause << num_vain;
        if !self.goes_on() {
            let goes_on = self.is_unfinished;
            self.is_due =
                self.has_allowance() && (goes_on || self.num_unasked.is_multiple_of(pause));
            if !self.is_due {
                return None;
            }
            self.turn = self.turn.wrapping_add(usize::from(!goes_on));
        }
        Some(self.turn % num)
    }

    fn has_allowance(&self) -> bool {
        self.allowance_ms.is_some_and(|left| left > 0.0)
    }

    fn goes_on(&self) -> bool {
        let may = self
            .allowance_ms
            .is_some_and(|left| left > -self.most_debt_ms);
        may && (1..MAX_PROBES).contains(&self.probes)
    }

    /// Whether there is a probe about a node of which an answer should add `share` of what is left to add.
    pub(super) fn begin(&mut self, share: f32) -> bool {
        // Once it found more, one node where little is known of it does not end that.
        self.is_unfinished = false;
        let is_dull = share <= self.share;
        let is_new_text = self.probes < self.least_probes && self.has_allowance();
        let may_go_on = is_new_text || !is_dull || (self.probes > 1 && !self.was_dull);
        let goes_on = self.goes_on() && may_go_on;
        if !goes_on && !self.is_due {
            self.end();
            return false;
        }
        if goes_on {
            self.probes += 1;
        } else {
            self.probes = 1;
            self.least_probes = std::mem::take(&mut self.next_least_probes);
        }
        self.num_vain += u64::from(!goes_on);
        (self.share, self.was_dull) = (share, goes_on && is_dull);
        self.num_unasked = 0;
        true
    }

    /// Whether the last probe followed one that found more than was expected, or the text has changed: what was promised
    /// before says little then.
    pub(super) fn is_news(&self) -> bool {
        self.probes >= 2
    }

    /// Ends a row of probes: it found nothing, or the drafter is asked for its answers' sake.
    pub(super) fn end(&mut self) {
        self.probes = 0;
    }

    /// Notes that the probe is to go on as soon as there is an allowance.
    pub(super) fn note_unfinished(&mut self) {
        self.is_unfinished = true;
        self.end();
    }

    /// Whether it was asked for its answers' sake in the step before, so that it needs no trial.
    pub(super) fn was_bought(&self) -> bool {
        self.num_since_bought == Some(1)
    }

    /// Notes that the drafter was asked for its answers' sake.
    pub(super) fn note_asked(&mut self) {
        self.num_since_bought = Some(0);
        self.num_unasked = 0;
        self.num_vain = 0;
        self.is_unfinished = false;
        self.end();
    }

    /// Notes that the text has changed: what probes found says nothing of it, and the next step may have one.
    pub(super) fn note_change(&mut self) {
        self.num_vain = 0;
        self.num_unasked = PROBE_EVERY - 1;
        self.next_least_probes = PROBES_AFTER_CHANGE;
    }

    /// Notes what a probe took.
    pub(super) fn spend(&mut self, milliseconds: f64) {
        self.allowance_ms = self.allowance_ms.map(|left| left - milliseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes in `steps` steps of 10 ms, each of which takes `ms` and finds more than the one before if
    /// `finds_more`.
    fn probes(ms: f64, steps: usize, finds_more: bool) -> usize {
        let mut probing = Probing::default();
        let mut share = 0.1;
        let mut count = 0;
        for _ in 0..steps {
            probing.begin_step(10.0);
            if probing.choose(1, Turn::Resting).is_some() && probing.begin(share) {
                probing.spend(ms);
                count += 1;
                share += if finds_more { 0.001 } else { 0.0 };
            }
        }
        count
    }

    #[test]
    fn probes_take_half_a_percent_of_the_time_at_most_and_cheap_ones_come_every_64_steps() {
        assert_eq!(probes(0.5, 6400, false), 100);
        for ms in [0.5, 2.0, 6.0, 50.0] {
            for finds_more in [false, true] {
                let count = probes(ms, 40_000, finds_more) as f64;
                // Half a percent of all of it, what there is at first, and a row of probes too many.
                let most = 2000.0 + 3.2 + f64::from(MAX_PROBES) * ms;
                assert!(count * ms <= most, "{ms} ms: {count} probes");
                assert!(count * ms >= 300.0, "{ms} ms: {count} probes");
            }
        }
    }

    /// Steps in which there is a probe, among `steps` that each find nothing more.
    fn tried(probing: &mut Probing, steps: usize, num: usize, turn: Turn) -> Vec<usize> {
        let tried = (0..steps).filter(|_| {
            probing.begin_step(10.0);
            probing.choose(num, turn).is_some() && probing.begin(0.0)
        });
        tried.collect()
    }

    #[test]
    fn probes_in_vain_come_ever_seldomer_until_it_is_asked_or_the_text_changes() {
        let mut probing = Probing::default();
        let steps = tried(&mut probing, 6000, 4, Turn::All);
        assert_eq!(steps, [63, 191, 447, 959, 1983, 3007, 4031, 5055]);
        probing.note_asked();
        assert_eq!(tried(&mut probing, 200, 4, Turn::All), [63, 191]);
        probing.note_change();
        assert_eq!(tried(&mut probing, 200, 4, Turn::All), [0, 1, 2, 130]);
        for turn in [Turn::All, Turn::Each, Turn::Resting] {
            let steps = tried(&mut Probing::default(), 640, 1, turn);
            assert_eq!(steps.len(), 10, "{turn:?}");
        }
    }

    #[test]
    fn what_was_bought_in_the_step_before_is_known_for_one_step() {
        let mut probing = Probing::default();
        let steps = [true, false, true, true].map(|is_bought| {
            probing.begin_step(10.0);
            let before = probing.was_bought();
            if is_bought {
                probing.note_asked();
            }
            before
        });
        assert_eq!(steps, [false, true, false, true]);
    }

    #[test]
    fn one_endless_probe_is_followed_by_another_some_day() {
        let mut probing = Probing::default();
        probing.begin_step(10.0);
        probing.spend(1e9);
        let waits = (0..10_000).take_while(|_| {
            probing.begin_step(10.0);
            probing.choose(1, Turn::Each).is_none()
        });
        let waits = waits.count();
        assert!((4000..4200).contains(&waits), "{waits}");
    }

    #[test]
    fn requests_have_their_turns_and_a_row_of_probes_stays_with_one() {
        let mut probing = Probing::default();
        let mut share = 0.1;
        let mut turns = Vec::new();
        for _ in 0..64 * 4 {
            probing.begin_step(10.0);
            if let Some(index) = probing.choose(3, Turn::Each) {
                // Two find more, then one finds as much, and another less.
                share += [0.1, 0.1, 0.0, 0.0][turns.len() % 4];
                if probing.begin(share) {
                    turns.push(index);
                }
            }
        }
        turns.dedup();
        assert!(turns.len() >= 6, "{turns:?}");
        assert!(
            turns.windows(2).all(|pair| (pair[0] + 1) % 3 == pair[1]),
            "{turns:?}"
        );
    }
}
