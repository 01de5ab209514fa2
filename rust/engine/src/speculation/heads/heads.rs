//! When a drafter is asked.

use spectrie_types::Source;
use spectrie_types::seed::splitmix;

use super::super::gain::Arm;
use super::chosen::{Chosen, Why};
use super::fills::Parts;
use super::info::DrafterInfo;
use super::level_costs::LevelCosts;
use super::probing::Probing;
use super::wish::Wish;
use crate::error::EngineError;
use crate::output::Load;

/// A level must promise this factor of what it costs: its promise is not better known than that.
const HURDLE: f64 = 1.1;

/// Probes are about nodes where others leave at least this much.
const LEAST_LEFT: f32 = 0.1;

/// Tells steps held out from it from those held out from all drafts.
const HOLDOUT_SALT: u64 = 0x4845_4144;

/// Steps of either kind before a gain is told.
const LEAST_STEPS: f64 = 10.0;

/// Owns what levels cost, what asking gained, and when a drafter that sleeps is tried again.
#[derive(Debug)]
pub(crate) struct Heads {
    info: DrafterInfo,
    pub(in crate::speculation) costs: LevelCosts,
    probing: Probing,
    /// What it adds to every forward, asked or not.
    upkeep_ms: f64,
    /// What the step in the making takes without drafts.
    step_ms: f64,
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
            probing: Probing::default(),
            upkeep_ms: 0.0,
            step_ms: 0.0,
            arms: <_>::default(),
            is_held_out: false,
            levels_asked: 0,
            rows_asked: 0,
        })
    }

    pub(in crate::speculation) fn set_upkeep(&mut self, upkeep_ms: f64) {
        self.upkeep_ms = upkeep_ms;
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

    /// Begins step `step`, whose forward takes `step_ms` without drafts; whether the drafter may be asked in
    /// it. One in `holdout_every` is held out.
    pub(in crate::speculation) fn begin_step(
        &mut self,
        step: u64,
        holdout_every: u64,
        step_ms: f64,
    ) -> bool {
        self.probing.begin_step(step_ms);
        self.step_ms = step_ms;
        self.is_held_out =
            holdout_every > 0 && splitmix(step ^ HOLDOUT_SALT).is_multiple_of(holdout_every);
        !self.is_held_out
    }

    /// Which of `num` that may be asked it is tried on in this step, though nobody may have anything else to
    /// offer.
    pub(in crate::speculation) fn probed(&mut self, num: usize, all_rest: bool) -> Option<usize> {
        // Were it right about each, they would take no step more.
        let could_pay = self.price_ms(1, num) < self.step_ms;
        if self.is_held_out || !could_pay {
            return None;
        }
        self.probing.choose(num, all_rest)
    }

    /// The wishes that are worth a level, at most `most`, where an accepted token saves `ms_per_token`; or one
    /// to try it on. `None` when there is no level.
    pub(in crate::speculation) fn choose(
        &mut self,
        level: usize,
        mut wishes: Vec<Wish>,
        most: usize,
        ms_per_token: f64,
    ) -> Option<Chosen> {
        let best = self.best(level, &mut wishes, most, |wish| {
            f64::from(wish.inquiry.gain) * ms_per_token
        });
        if best == 0 && level == 1 {
            return self.try_one(wishes, most, ms_per_token);
        }
        if best == 0 {
            return None;
        }
        self.probing.note_asked();
        wishes.truncate(best);
        Some(self.part(wishes, Why::Pays))
    }

    /// The wishes of requests that ask whatever it costs, the likeliest nodes first, at most `most`; `None` without any.
    pub(in crate::speculation) fn fixed(
        &self,
        mut wishes: Vec<Wish>,
        most: usize,
    ) -> Option<Chosen> {
        // Of equals, one that has its keys does not wait for one that has not.
        wishes.sort_by(|a, b| {
            let order = b.inquiry.gain.total_cmp(&a.inquiry.gain);
            order.then(a.missing.total.cmp(&b.missing.total))
        });
        wishes.truncate(most);
        (!wishes.is_empty()).then(|| self.part(wishes, Why::Fixed))
    }

    /// Counts a level of so many rows.
    pub(in crate::speculation) fn count(&mut self, num_rows: usize) {
        self.levels_asked += u64::from(num_rows > 0);
        self.rows_asked += num_rows as u64;
    }

    /// One of the wishes of a first level, if it is due to be tried.
    pub(in crate::speculation) fn try_one(
        &mut self,
        wishes: Vec<Wish>,
        most: usize,
        ms_per_token: f64,
    ) -> Option<Chosen> {
        let wish = self.probe(wishes, most, ms_per_token)?;
        let chosen = self.part(vec![wish], Why::Probe);
        if chosen.wishes.is_empty() {
            self.probing.note_unfinished();
        }
        Some(chosen)
    }

    /// What of the wishes is asked in this step.
    fn part(&self, wishes: Vec<Wish>, why: Why) -> Chosen {
        let most = self.costs.most_fills(self.step_ms);
        let Parts { wishes, fills } = Parts::of(wishes, most);
        let shares = wishes.iter();
        let shares = shares.map(|wish| self.costs.fill_share_ms(wish.missing));
        Chosen {
            share_ms: shares.sum(),
            wishes,
            fills,
            why,
        }
    }

    /// What a level of so many rows must be worth.
    pub(in crate::speculation) fn price_ms(&self, level: usize, num_rows: usize) -> f64 {
        HURDLE * self.costs.milliseconds(level, num_rows)
    }

    /// How many of the wishes, the best first, earn most over what a level of them costs.
    fn best(
        &self,
        level: usize,
        wishes: &mut [Wish],
        most: usize,
        gain_ms: impl Fn(&Wish) -> f64,
    ) -> usize {
        let worth = |wish: &Wish| gain_ms(wish) - HURDLE * self.costs.fill_share_ms(wish.missing);
        wishes.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let (mut best, mut profit, mut sum) = (0, 0.0, 0.0);
        for (index, wish) in wishes.iter().take(most).enumerate() {
            sum += worth(wish);
            let left = sum - self.price_ms(level, index + 1);
            if left > profit {
                (best, profit) = (index + 1, left);
            }
        }
        best
    }

    /// The wish where others leave most, if the drafter is due to be tried, or the last probe found more than
    /// was expected. None where it would not pay even if it were always right.
    fn probe(&mut self, mut wishes: Vec<Wish>, most: usize, ms_per_token: f64) -> Option<Wish> {
        let left = |wish: &Wish| wish.inquiry.left();
        let could_pay = self.best(1, &mut wishes, most, |wish| {
            f64::from(left(wish)) * ms_per_token
        }) > 0;
        let most_open = wishes.into_iter().next();
        let wish = most_open.filter(|wish| could_pay && left(wish) >= LEAST_LEFT);
        let Some(wish) = wish else {
            self.probing.end();
            return None;
        };
        let share = wish.inquiry.gain / left(&wish);
        self.probing.begin(share).then_some(wish)
    }

    /// Notes what a probe took, drafts that heed its answer included.
    pub(in crate::speculation) fn spend(&mut self, milliseconds: f64) {
        self.probing.spend(milliseconds);
    }

    /// Takes a step, in which drafts were offered or not. Steps held out from it stand for those without it,
    /// so they count less its upkeep.
    pub(crate) fn end_step(&mut self, is_offered: bool, num_tokens: u64, milliseconds: f64) {
        if is_offered {
            let arm = &mut self.arms[usize::from(self.is_held_out)];
            let upkeep_ms = if self.is_held_out {
                self.upkeep_ms
            } else {
                0.0
            };
            arm.note(num_tokens as f64, (milliseconds - upkeep_ms).max(0.0));
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
    use spectrie_trie::Inquiry;

    use super::super::wish::Missing;
    use super::*;

    fn info(first_ms: f64) -> DrafterInfo {
        DrafterInfo {
            source: Source::Head,
            needs_features: true,
            max_levels: 4,
            max_rows: 64,
            rows: vec![1, 64],
            first_ms: vec![first_ms, 2.0 * first_ms],
            later_ms: vec![first_ms, 2.0 * first_ms],
            fill_ms: Vec::new(),
            namespaces: None,
        }
    }

    fn heads(first_ms: f64) -> Heads {
        Heads::new(info(first_ms)).unwrap()
    }

    fn wish(gain: f32, before: f32) -> Wish {
        Wish {
            candidate: 0,
            missing: Missing::default(),
            inquiry: Inquiry {
                parent: None,
                token: 1,
                depth: 0,
                gain,
                before,
                price: 0.0,
                surplus: before,
                named: Vec::new(),
            },
        }
    }

    /// Wishes that are granted in steps whose plain forward takes 10 ms.
    fn granted(heads: &mut Heads, gains: &[f32]) -> usize {
        heads.begin_step(1, 0, 10.0);
        heads.probed(1, false);
        let wishes = gains.iter().map(|&gain| wish(gain, 0.05)).collect();
        let chosen = heads.choose(1, wishes, 64, 10.0);
        chosen.map_or(0, |chosen| chosen.wishes.len())
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
            heads.begin_step(1, 0, 10.0);
            heads.probed(1, false);
            let chosen = heads.choose(1, vec![wish(0.001, 0.97)], 64, 10.0);
            assert!(chosen.is_none());
        }
    }

    #[test]
    fn one_that_could_not_pay_if_it_were_always_right_is_not_tried() {
        for (first_ms, is_tried) in [(6.0, true), (8.5, true), (9.0, false), (1e4, false)] {
            let mut heads = heads(first_ms);
            let asked = (0..100).any(|_| granted(&mut heads, &[0.01]) > 0);
            assert_eq!(asked, is_tried, "{first_ms} ms");
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
    fn a_fixed_request_does_not_wait_for_one_that_lacks_many_keys() {
        let mut heads = heads(6.0);
        heads.begin_step(1, 0, 10.0);
        let lacking = |total| Wish {
            missing: Missing { total, fresh: 1 },
            ..wish(1.0, 0.0)
        };
        let chosen = heads.fixed(vec![lacking(1 << 30), lacking(1)], 64).unwrap();
        assert_eq!(chosen.wishes.len(), 1);
        assert_eq!(chosen.wishes[0].missing.total, 1);
    }

    /// The gain that is told of one that makes three tokens of two in steps of about 11 ms.
    fn told(upkeep_ms: f64) -> f64 {
        let mut heads = heads(1.0);
        heads.set_upkeep(upkeep_ms);
        let mut held_out = 0;
        for step in 0..4000 {
            let may_ask = heads.begin_step(step, 100, 10.0);
            held_out += usize::from(!may_ask);
            let tokens = if may_ask { 3 } else { 2 };
            heads.end_step(true, tokens, 10.0 + (step % 3) as f64);
        }
        assert!((20..70).contains(&held_out), "{held_out}");
        let mut load = Load::default();
        heads.report(&mut load);
        load.head_gain.unwrap().ratio
    }

    #[test]
    fn steps_held_out_tell_what_it_gains_less_what_it_always_takes() {
        assert!((told(0.0) - 1.5).abs() < 0.1);
        let share = told(2.2) / told(0.0);
        assert!((share - 0.8).abs() < 0.01, "{share}");
    }
}
