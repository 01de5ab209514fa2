//! When a drafter is asked.

use spectrie_types::Source;
use spectrie_types::seed::splitmix;

use super::super::gain::Arm;
use super::chosen::{Chosen, Why};
use super::fills::Parts;
use super::info::DrafterInfo;
use super::later::LaterLevels;
use super::level_costs::LevelCosts;
use super::pace::Pace;
use super::probing::{Probed, Probing, Turn};
use super::profit;
use super::promise::Promise;
use super::wish::Wish;
use crate::error::EngineError;
use crate::output::DrafterLoad;

/// A level in which it is tried may take so many times one of one row: the rows that come with it are nearly free.
const MOST_OF_TRY: f64 = 1.25;

/// Probes are about nodes where others leave at least this much: beside a copy they find little, and text that is no copy
/// leaves more nearly everywhere. The most, by twentieths, with which no mix of the texts to choose by leaves a head asleep for 64 steps.
const LEAST_LEFT: f32 = 0.35;

/// Tells steps held out from it from those held out from all drafts.
const HOLDOUT_SALT: u64 = 0x4845_4144;

/// Steps of either kind before a gain is told.
const LEAST_STEPS: f64 = 10.0;

/// What a drafter adds to a forward of one row.
#[derive(Debug, Clone, Copy)]
struct Upkeep {
    ms: f64,
    /// Whether that grows with the rows that it keeps.
    grows_by_row: bool,
}

/// Owns what levels of one drafter cost, what asking gained, and when a drafter that sleeps is tried again.
#[derive(Debug)]
pub(crate) struct Heads {
    info: DrafterInfo,
    pub(in crate::speculation) costs: LevelCosts,
    probing: Probing,
    pace: Pace,
    /// What it adds to every forward, asked or not.
    upkeep: Upkeep,
    /// What the step in the making takes without drafts.
    step_ms: f64,
    /// Steps that may ask, and steps held out from that.
    arms: [Arm; 2],
    /// Whether the step in the making is held out from it.
    is_held_out: bool,
    /// Whether it is tried on all requests at once in that step, if at all.
    tries_all: bool,
    /// What the levels after a first one bring.
    later: LaterLevels,
    promise: Promise,
    /// Requests of the step in the making for each that may be asked: of others it sees too little. `None` where it may be
    /// asked about none.
    each_for: Option<f64>,
    /// Tells its steps held out from those of other drafters.
    salt: u64,
    is_given_up: bool,
    levels_asked: u64,
    rows_asked: u64,
}

impl Heads {
    /// Of the drafter of this number.
    pub(crate) fn new(info: DrafterInfo, number: usize) -> Result<Self, EngineError> {
        info.check()?;
        Ok(Self {
            costs: LevelCosts::new(&info),
            info,
            probing: Probing::default(),
            pace: Pace::default(),
            upkeep: Upkeep {
                ms: 0.0,
                grows_by_row: true,
            },
            step_ms: 0.0,
            arms: <_>::default(),
            is_held_out: false,
            tries_all: false,
            later: LaterLevels::default(),
            promise: Promise::default(),
            each_for: Some(1.0),
            salt: HOLDOUT_SALT ^ ((number as u64) << 32),
            is_given_up: false,
            levels_asked: 0,
            rows_asked: 0,
        })
    }

    pub(in crate::speculation) fn set_upkeep(&mut self, upkeep_ms: f64, by_row: bool) {
        self.upkeep = Upkeep {
            ms: upkeep_ms,
            grows_by_row: by_row,
        };
    }

    /// Whether its upkeep grows with the rows that it keeps.
    pub(in crate::speculation) fn grows_by_row(&self) -> bool {
        self.upkeep.grows_by_row
    }

    /// Asks it no more.
    pub(super) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    pub(in crate::speculation) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    pub(in crate::speculation) fn needs_features(&self) -> bool {
        self.info.needs_features
    }

    pub(in crate::speculation) fn source(&self) -> Source {
        self.info.source
    }

    /// Whether it may be asked about requests of a namespace.
    pub(in crate::speculation) fn is_for(&self, namespace: &str) -> bool {
        !self.is_given_up && self.info.is_for(namespace)
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
            holdout_every > 0 && splitmix(step ^ self.salt).is_multiple_of(holdout_every);
        !self.is_held_out
    }

    /// Takes how many of the step's requests each that may be asked stands for.
    pub(in crate::speculation) fn set_each_for(&mut self, num_requests: usize, num_asking: usize) {
        self.each_for = (num_asking > 0).then(|| num_requests as f64 / num_asking as f64);
    }

    /// Which of `num` that may be asked it is tried on in this step, though nobody may have anything else to
    /// offer. Where it `is_for_all` and others do not rest, that is each: a few rows of one level cost little more than
    /// one row. One that would have to make up keys of all first is tried on one.
    pub(in crate::speculation) fn probed(
        &mut self,
        num: usize,
        is_for_all: bool,
        all_rest: bool,
    ) -> Option<Probed> {
        // Were it right about each, they would take no step more.
        let could_pay = self.price_ms(1, num) < self.step_ms;
        if self.is_held_out || !could_pay {
            return None;
        }
        self.tries_all = is_for_all && !all_rest && self.info.needs_features;
        let turn = if all_rest {
            Turn::Resting
        } else if self.tries_all {
            Turn::All
        } else {
            Turn::Each
        };
        let turn = self.probing.choose(num, turn)?;
        Some(if self.tries_all {
            Probed::All
        } else {
            Probed::One(turn)
        })
    }

    /// Whether it was asked for its answers' sake in the step before.
    pub(super) fn was_bought(&self) -> bool {
        self.probing.was_bought()
    }

    /// The wishes that are worth a level, at most `most`, where an accepted token saves `ms_per_token`; or some
    /// to try it on, where there are none or it sleeps. `None` when there is no level.
    pub(in crate::speculation) fn choose(
        &mut self,
        level: usize,
        mut wishes: Vec<Wish>,
        most: usize,
        ms_per_token: f64,
    ) -> Option<Chosen> {
        let (mut best, earned_ms) = profit::best(&self.costs, level, &mut wishes, most, |wish| {
            f64::from(wish.inquiry.gain) * ms_per_token
        });
        if level == 1 {
            // Where it sees nothing, nothing is known of what it promises.
            if let Some(each_for) = self.each_for {
                let promised_ms = if each_for > 1.0 {
                    profit::of_all(&self.costs, &wishes, most, ms_per_token, each_for)
                } else {
                    earned_ms
                };
                self.promise.note(promised_ms, self.step_ms);
            }
            if self.promise.is_small() {
                best = 0;
            }
            self.later.begin(best);
        } else {
            self.later.add(earned_ms);
        }
        if best == 0 && level == 1 {
            return self.try_out(wishes, most, ms_per_token);
        }
        if best == 0 {
            return None;
        }
        self.probing.note_asked();
        wishes.truncate(best);
        Some(self.part(wishes, Why::Pays))
    }

    /// Whether it has been asked for no answer's sake for a while.
    pub(in crate::speculation) fn sleeps(&self) -> bool {
        self.promise.is_small_lastingly()
    }

    /// Milliseconds that a turn which begins with these wishes should earn above its price; none where its first
    /// level does not pay.
    pub(in crate::speculation) fn worth_ms(
        &self,
        mut wishes: Vec<Wish>,
        most: usize,
        ms_per_token: f64,
    ) -> f64 {
        let (best, earned_ms) = profit::best(&self.costs, 1, &mut wishes, most, |wish| {
            f64::from(wish.inquiry.gain) * ms_per_token
        });
        earned_ms + self.later.expected_ms(best)
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

    /// Those of the wishes of a first level that it is tried on, if that is due.
    pub(in crate::speculation) fn try_out(
        &mut self,
        wishes: Vec<Wish>,
        most: usize,
        ms_per_token: f64,
    ) -> Option<Chosen> {
        let wishes = self.worth_trying(wishes, most, ms_per_token)?;
        self.later.begin(wishes.len());
        let chosen = self.part(wishes, Why::Probe);
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
        profit::price_ms(&self.costs, level, num_rows)
    }

    /// The wishes where others leave most, as many as are tried at once, if the drafter is due to be tried, or the last
    /// probe found more than was expected. None where it would not pay even if it were always right.
    fn worth_trying(
        &mut self,
        mut wishes: Vec<Wish>,
        most: usize,
        ms_per_token: f64,
    ) -> Option<Vec<Wish>> {
        let left = |wish: &Wish| wish.inquiry.left();
        // Those that are left out would be asked beside them.
        let (most_paying, _) = profit::best(&self.costs, 1, &mut wishes, most, |wish| {
            f64::from(left(wish)) * ms_per_token * self.each_for.unwrap_or(1.0)
        });
        let could_pay = most_paying > 0;
        wishes.retain(|wish| could_pay && left(wish) >= LEAST_LEFT);
        wishes.truncate(self.most_tried(most));
        if wishes.is_empty() {
            self.probing.end();
            return None;
        }
        let gain: f32 = wishes.iter().map(|wish| wish.inquiry.gain).sum();
        let share = gain / wishes.iter().map(left).sum::<f32>();
        let is_tried = self.probing.begin(share);
        if self.probing.is_news() {
            // What was promised rests on what was thought of it before.
            self.promise.forget();
        }
        is_tried.then_some(wishes)
    }

    /// Rows of a level in which it is tried, at most `most`.
    fn most_tried(&self, most: usize) -> usize {
        let most_ms = MOST_OF_TRY * self.costs.milliseconds(1, 1);
        let some = (1..=most).take_while(|&rows| self.costs.milliseconds(1, rows) <= most_ms);
        if self.tries_all { some.count() } else { 1 }
    }

    /// Notes what a probe took, drafts that heed its answer included.
    pub(in crate::speculation) fn spend(&mut self, milliseconds: f64) {
        self.probing.spend(milliseconds);
    }

    /// Takes a step of `num_requests`, in which drafts were offered or not. Steps held out from it stand for those
    /// without it, so they count less its upkeep.
    pub(crate) fn end_step(
        &mut self,
        is_offered: bool,
        num_requests: usize,
        num_tokens: u64,
        milliseconds: f64,
    ) {
        if is_offered {
            let each = num_tokens as f64 / num_requests.max(1) as f64;
            if self.pace.note(each - 1.0) {
                self.probing.note_change();
            }
            let arm = &mut self.arms[usize::from(self.is_held_out)];
            let upkeep_ms = if self.is_held_out {
                self.upkeep.ms
            } else {
                0.0
            };
            arm.note(num_tokens as f64, (milliseconds - upkeep_ms).max(0.0));
        }
    }

    /// Its figures.
    pub(super) fn report(&self) -> DrafterLoad {
        let [asking, held_out] = &self.arms;
        let is_known = asking.steps().min(held_out.steps()) >= LEAST_STEPS;
        DrafterLoad {
            levels: self.levels_asked,
            rows: self.rows_asked,
            gain: is_known.then(|| asking.over(held_out)).flatten(),
        }
    }
}

#[cfg(test)]
impl Heads {
    /// Has it sleep, or know nothing of what it promises.
    pub(in crate::speculation) fn set_asleep(&mut self, sleeps: bool) {
        self.promise = if sleeps {
            Promise::lastingly_small()
        } else {
            Promise::default()
        };
    }
}
