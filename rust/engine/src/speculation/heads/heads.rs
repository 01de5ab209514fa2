//! When a drafter is asked.

use spectrie_trie::Inquiry;
use spectrie_types::Source;
use spectrie_types::seed::splitmix;

use super::super::gain::Arm;
use super::info::DrafterInfo;
use super::level_costs::LevelCosts;
use crate::error::EngineError;
use crate::output::Load;

/// A level must promise this factor of what it costs: its promise is not better known than that.
const HURDLE: f64 = 1.1;

/// A drafter that was not asked for so many steps is asked about one node.
const PROBE_EVERY: u64 = 64;

/// Probes are about nodes where others leave at least this much.
const LEAST_LEFT: f32 = 0.1;

/// Probes that may follow one another as long as each finds more than the one before.
const MAX_PROBES: u32 = 8;

/// Tells steps held out from it from those held out from all drafts.
const HOLDOUT_SALT: u64 = 0x4845_4144;

/// Steps of either kind before a gain is told.
const LEAST_STEPS: f64 = 10.0;

/// What an inquiry of the level in question is worth.
#[derive(Debug)]
pub(in crate::speculation) struct Wish {
    pub(in crate::speculation) candidate: usize,
    pub(in crate::speculation) inquiry: Inquiry,
}

/// Owns what levels cost, what asking gained, and when a drafter that sleeps is tried again.
#[derive(Debug)]
pub(crate) struct Heads {
    info: DrafterInfo,
    pub(in crate::speculation) costs: LevelCosts,
    /// Steps without a question.
    num_unasked: u64,
    /// Probes in a row, and the share that the last one's node was expected to add.
    probes: u32,
    probed_share: f32,
    /// Whether the last probe was expected to add no more than the one before.
    was_dull: bool,
    /// Steps that may ask, and steps held out from that.
    arms: [Arm; 2],
    /// Whether the step in the making is held out from it.
    is_held_out: bool,
    levels_asked: u64,
    rows_asked: u64,
}

impl Heads {
    pub(crate) fn new(info: DrafterInfo) -> Result<Self, EngineError> {
        info.check()?;
        Ok(Self {
            costs: LevelCosts::new(&info),
            info,
            num_unasked: 0,
            probes: 0,
            probed_share: 0.0,
            was_dull: false,
            arms: <_>::default(),
            is_held_out: false,
            levels_asked: 0,
            rows_asked: 0,
        })
    }

    pub(in crate::speculation) fn source(&self) -> Source {
        self.info.source
    }

    pub(in crate::speculation) fn is_for(&self, namespace: &str) -> bool {
        self.info.is_for(namespace)
    }

    pub(in crate::speculation) fn max_levels(&self) -> usize {
        self.info.max_levels
    }

    pub(in crate::speculation) fn max_rows(&self) -> usize {
        self.info.max_rows
    }

    /// Begins step `step`; whether the drafter may be asked in it. One in `holdout_every` is held out.
    pub(in crate::speculation) fn begin_step(&mut self, step: u64, holdout_every: u64) -> bool {
        self.num_unasked += 1;
        self.is_held_out =
            holdout_every > 0 && splitmix(step ^ HOLDOUT_SALT).is_multiple_of(holdout_every);
        !self.is_held_out
    }

    /// Whether it is tried in this step though nobody may have anything else to offer.
    pub(in crate::speculation) fn is_probing(&self) -> bool {
        let is_due = self.num_unasked > 0 && self.num_unasked.is_multiple_of(PROBE_EVERY);
        !self.is_held_out && (is_due || (1..MAX_PROBES).contains(&self.probes))
    }

    /// The wishes that are worth a level, at most `most`, where an accepted token saves `ms_per_token`.
    pub(in crate::speculation) fn choose(
        &mut self,
        level: usize,
        mut wishes: Vec<Wish>,
        most: usize,
        ms_per_token: f64,
    ) -> Vec<Wish> {
        wishes.sort_by(|a, b| b.inquiry.gain.total_cmp(&a.inquiry.gain));
        let (mut best, mut profit, mut worth) = (0, 0.0, 0.0);
        for (index, wish) in wishes.iter().take(most).enumerate() {
            worth += f64::from(wish.inquiry.gain) * ms_per_token;
            let left = worth - HURDLE * self.costs.milliseconds(level, index + 1);
            if left > profit {
                (best, profit) = (index + 1, left);
            }
        }
        if best > 0 {
            self.probes = 0;
            wishes.truncate(best);
        } else if level == 1 {
            self.probe(&mut wishes);
        } else {
            wishes.clear();
        }
        if !wishes.is_empty() {
            self.num_unasked = 0;
            self.levels_asked += 1;
            self.rows_asked += wishes.len() as u64;
        }
        wishes
    }

    /// Leaves one of the wishes where the drafter was not asked for long, or the last probe found more
    /// than was expected.
    fn probe(&mut self, wishes: &mut Vec<Wish>) {
        let left = |wish: &Wish| 1.0 - wish.inquiry.before;
        let most_open =
            (0..wishes.len()).max_by(|&a, &b| left(&wishes[a]).total_cmp(&left(&wishes[b])));
        let wish = most_open.map(|index| wishes.swap_remove(index));
        wishes.clear();
        let Some(wish) = wish.filter(|wish| left(wish) >= LEAST_LEFT) else {
            self.probes = 0;
            return;
        };
        let share = wish.inquiry.gain / left(&wish);
        // Once it found more, one node where little is known of it does not end that.
        let is_dull = share <= self.probed_share;
        let may_go_on = !is_dull || (self.probes > 1 && !self.was_dull);
        let goes_on = (1..MAX_PROBES).contains(&self.probes) && may_go_on;
        if goes_on || self.num_unasked >= PROBE_EVERY {
            self.probes = if goes_on { self.probes + 1 } else { 1 };
            (self.probed_share, self.was_dull) = (share, goes_on && is_dull);
            wishes.push(wish);
        } else {
            self.probes = 0;
        }
    }

    /// Takes a step, in which drafts were offered or not.
    pub(crate) fn end_step(&mut self, is_offered: bool, num_tokens: u64, milliseconds: f64) {
        if is_offered {
            let arm = &mut self.arms[usize::from(self.is_held_out)];
            arm.note(num_tokens as f64, milliseconds);
        }
    }

    /// Writes its figures into `load`.
    pub(crate) fn report(&self, load: &mut Load) {
        let [asking, held_out] = &self.arms;
        load.head_levels = self.levels_asked;
        load.head_rows = self.rows_asked;
        let is_known = asking.steps().min(held_out.steps()) >= LEAST_STEPS;
        load.head_gain = if is_known {
            asking.over(held_out)
        } else {
            None
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(first_ms: f64) -> Heads {
        let info = DrafterInfo {
            source: Source::Head,
            needs_features: true,
            max_levels: 4,
            max_rows: 64,
            rows: vec![1, 64],
            first_ms: vec![first_ms, 2.0 * first_ms],
            later_ms: vec![first_ms, 2.0 * first_ms],
            namespaces: None,
        };
        Heads::new(info).unwrap()
    }

    fn wish(gain: f32, before: f32) -> Wish {
        Wish {
            candidate: 0,
            inquiry: Inquiry {
                parent: None,
                token: 1,
                depth: 0,
                gain,
                before,
                named: Vec::new(),
            },
        }
    }

    /// Wishes that are granted in steps whose plain forward takes 10 ms.
    fn granted(heads: &mut Heads, gains: &[f32]) -> usize {
        heads.begin_step(1, 0);
        let wishes = gains.iter().map(|&gain| wish(gain, 0.05)).collect();
        heads.choose(1, wishes, 64, 10.0).len()
    }

    #[test]
    fn a_level_is_asked_exactly_where_it_pays() {
        for (cost, gain) in [(0.5, 0.06), (2.0, 0.23), (6.0, 0.68)] {
            assert_eq!(granted(&mut heads(cost), &[gain]), 1, "{cost} {gain}");
            assert_eq!(granted(&mut heads(cost), &[0.8 * gain]), 0, "{cost} {gain}");
        }
        // Several requests share what a level costs at least, and those of little gain are left out.
        assert_eq!(granted(&mut heads(2.0), &[0.1; 4]), 4);
        assert_eq!(granted(&mut heads(2.0), &[0.3, 0.3, 0.0001, 0.0001]), 2);
    }

    #[test]
    fn one_that_sleeps_is_tried_once_in_64_steps_and_never_about_a_copy() {
        let mut heads = heads(6.0);
        let asked = (0..640)
            .filter(|_| granted(&mut heads, &[0.01]) > 0)
            .count();
        assert_eq!(asked, 10);
        for _ in 0..640 {
            heads.begin_step(1, 0);
            assert!(
                heads
                    .choose(1, vec![wish(0.001, 0.97)], 64, 10.0)
                    .is_empty()
            );
        }
    }

    #[test]
    fn a_probe_that_found_more_is_followed_by_the_next_and_wakes_it() {
        let mut heads = heads(2.0);
        let mut gain = 0.01;
        let mut asked = 0;
        for step in 0..70 {
            let count = granted(&mut heads, &[gain]);
            asked += count;
            // From the first probe on the drafter is right.
            gain = if count > 0 {
                (gain + 0.08).min(0.6)
            } else {
                gain
            };
            assert!(step > 63 || count == 0 || step == 63);
        }
        assert!(asked >= 6, "{asked}");
    }

    #[test]
    fn steps_held_out_tell_what_it_gains() {
        let mut heads = heads(1.0);
        let mut held_out = 0;
        for step in 0..4000 {
            let may_ask = heads.begin_step(step, 100);
            held_out += usize::from(!may_ask);
            let tokens = if may_ask { 3 } else { 2 };
            heads.end_step(true, tokens, 10.0 + (step % 3) as f64);
        }
        assert!((20..70).contains(&held_out), "{held_out}");
        let mut load = Load::default();
        heads.report(&mut load);
        assert!((load.head_gain.unwrap().ratio - 1.5).abs() < 0.1);
    }
}
