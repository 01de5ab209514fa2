//! Holds back tenants that took more than their share, as long as others are served.
//!
//! The work of a request is what its rows add to the time of a step, by the cost curve. A tenant's share
//! is an equal part among all that were seen lately. It is *ahead* once it received more than its share
//! and a few usual requests beyond. *Large* is a prompt that takes more than twice the work of those of
//! others, and a row of one who is ahead that costs more than the average row of the step.
//!
//! Beside others, large work comes in parts that about double an ordinary step at most, and what of it is
//! of tenants that are ahead makes steps longer by a set part on average, however much of it waits: each
//! part is paid for, by measured time, with what was saved up since the last one. Drafts of those who
//! are ahead may take a step that much longer too. Where they are few among many, whose equal share of the
//! time is less than the set part, it is their share: they had it already. All else is scheduled as if there were no pacing, and
//! nothing is paced that is alone. For a moment after the others were last served, steps without them
//! stay short, so that the next one to come does not wait for a long one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::config::EngineConfig;

/// Usual requests that a tenant may be ahead of its share before it is held back; at least the work of
/// one step as long as any.
const BURST_REQUESTS: f64 = 4.0;

/// Longest steps' work that is remembered of a tenant's lead, and of what was paid in advance.
const LEAD_STEPS: f64 = 25.0;

/// Part of the time that passes by which leads shrink.
const FORGIVEN: f64 = 0.02;

/// Seconds in which a tenant has to be seen to have a share.
const SEEN_S: f64 = 60.0;

/// Seconds after which a machine without others is that of those who are ahead.
const LATELY_S: f64 = 1.0;

/// Part of a new measurement in a mean.
const LEARNING_RATE: f64 = 1.0 / 16.0;

/// The same where it is below the mean: what was long once, say because of one who is ahead by now, is
/// soon forgotten.
const FALLING_RATE: f64 = 1.0 / 4.0;

/// Steps of up to so many times the usual time are ordinary ones.
const ORDINARY: f64 = 1.5;

/// Large work takes no step to more than so many times the usual time, if it has a choice.
const LONGEST: f64 = 2.0;

/// Those whose equal share of the time makes the steps of others longer by less than this part may add that
/// much less. At the default of `max_slowdown` they add their share.
const WHOLE_SHARE: f64 = 0.2;

/// A step this short is not noticed by any reader, with or without large work in it.
const UNNOTICED_MS: f64 = 5.0;

/// Prompts that take so many times the work of others are large.
const LARGE_PROMPT: f64 = 2.0;

/// Tenants that are remembered in any case.
const LEAST_TENANTS: usize = 64;

/// What each tenant received, and what those who are ahead may add to the steps of others.
#[derive(Debug)]
pub(crate) struct Pacing {
    max_step_ms: f64,
    /// Part of the others' steps that may be added to them at most.
    most_lengthening: f64,
    /// The same beside those who are served now.
    lengthening: f64,
    /// What one received who always had its share.
    clock_ms: f64,
    forgiven_s: Option<f64>,
    seen: Seen,
    /// What tenants received, by the clock; those who are not before it are as if never seen.
    received_ms: HashMap<Arc<str>, f64>,
    /// Tenants at which those without a lead are looked for.
    most_tenants: usize,
    /// Saved up by the large work that waits; below 0 where it was paid in advance.
    credit_ms: f64,
    /// Of steps without large work, and of prompts and requests of those who are not ahead.
    usual_ms: Usual,
    /// When others were last served.
    others_served_s: Option<f64>,
}

#[derive(Debug, Default)]
struct Usual {
    step: Option<f64>,
    prompt: Option<f64>,
    request: Option<f64>,
}

impl Pacing {
    /// Nobody received anything yet.
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Self {
            max_step_ms: config.max_step_ms,
            most_lengthening: config.max_slowdown - 1.0,
            lengthening: config.max_slowdown - 1.0,
            clock_ms: 0.0,
            forgiven_s: None,
            seen: Seen::default(),
            received_ms: HashMap::new(),
            most_tenants: LEAST_TENANTS,
            credit_ms: 0.0,
            usual_ms: Usual::default(),
            others_served_s: None,
        }
    }

    /// A step begins: leads shrink with time.
    pub(crate) fn begin_step(&mut self, now_s: f64) {
        let before_s = self.forgiven_s.replace(now_s).unwrap_or(now_s);
        self.clock_ms += (now_s - before_s).max(0.0) * 1e3 * FORGIVEN;
        self.seen.begin_step(now_s);
    }

    /// `tenant` received work.
    pub(crate) fn receive(&mut self, tenant: &Arc<str>, work_ms: f64) {
        self.seen.note(tenant);
        let clock_ms = self.clock_ms;
        let most_ms = clock_ms + LEAD_STEPS * self.max_step_ms;
        if let Some(received_ms) = self.received_ms.get_mut(tenant) {
            *received_ms = (received_ms.max(clock_ms) + work_ms).min(most_ms);
        } else {
            let received_ms = (clock_ms + work_ms).min(most_ms);
            self.received_ms.insert(Arc::clone(tenant), received_ms);
        }
        self.clock_ms += work_ms / self.seen.count().max(1) as f64;
        if self.received_ms.len() > self.most_tenants {
            let clock_ms = self.clock_ms;
            self.received_ms.retain(|_, one| *one > clock_ms);
            self.most_tenants = LEAST_TENANTS.max(2 * self.received_ms.len());
        }
    }

    /// Whether `tenant` took more than its share.
    pub(crate) fn is_ahead(&self, tenant: &str) -> bool {
        let usual_ms = self.usual_ms.request.unwrap_or(0.0);
        self.lead_ms(tenant) > self.max_step_ms.max(BURST_REQUESTS * usual_ms)
    }

    /// How far `tenant` is ahead of its share; at or below 0 for those who are not.
    pub(crate) fn lead_ms(&self, tenant: &str) -> f64 {
        let received_ms = self.received_ms.get(tenant);
        received_ms.map_or(0.0, |received_ms| received_ms - self.clock_ms)
    }

    /// Whether the rest of a prompt that takes so much work is large; none is while a tenant is alone.
    pub(crate) fn is_large_prompt(&self, work_ms: f64) -> bool {
        let usual_ms = self.usual_ms.prompt.filter(|_| self.seen.count() > 1);
        usual_ms.is_some_and(|usual_ms| work_ms > LARGE_PROMPT * usual_ms)
    }

    /// Notes what a prompt of `tenant` took.
    pub(crate) fn note_prompt(&mut self, tenant: &str, work_ms: f64) {
        if self.is_usual(tenant) {
            move_towards(&mut self.usual_ms.prompt, work_ms);
        }
    }

    /// Notes what a request of `tenant` took until its end.
    pub(crate) fn note_request(&mut self, tenant: &str, work_ms: f64) {
        if self.is_usual(tenant) {
            move_towards(&mut self.usual_ms.request, work_ms);
        }
    }

    /// Whether what a tenant asks for says something about others.
    fn is_usual(&self, tenant: &str) -> bool {
        self.seen.count() > 1 && !self.is_ahead(tenant)
    }

    /// Some who are not ahead are served by a step that takes so long without large work, beside so many
    /// tenants that are.
    pub(crate) fn serve_others(&mut self, step_ms: f64, num_ahead: usize, now_s: f64) {
        self.others_served_s = Some(now_s);
        let num_others = self.seen.count().saturating_sub(num_ahead).max(1);
        let share = num_ahead as f64 / num_others as f64;
        self.lengthening = self.most_lengthening * (share / WHOLE_SHARE).min(1.0);
        if self.seen.count() > 1 {
            move_towards(&mut self.usual_ms.step, step_ms);
        }
    }

    /// What those who are ahead may add to a step that takes `step_ms` without large work, with all
    /// that was saved up. What they do add is known when the step ends.
    pub(crate) fn earn(&mut self, step_ms: f64) -> f64 {
        self.credit_ms += self.lengthening * step_ms;
        self.credit_ms
    }

    /// Those who are ahead added so much to a step. One that hung for long leaves a debt that is paid
    /// back in time.
    pub(crate) fn spend(&mut self, added_ms: f64) {
        let most_owed_ms = LEAD_STEPS * self.max_step_ms;
        self.credit_ms = (self.credit_ms - added_ms.max(0.0)).max(-most_owed_ms);
    }

    /// Whether those who are ahead may add to a step that serves others, once it earned its part.
    pub(crate) fn has_credit(&self) -> bool {
        self.credit_ms >= 0.0
    }

    /// No large work waits; nothing is saved up for it.
    pub(crate) fn forgo(&mut self) {
        self.credit_ms = self.credit_ms.min(0.0);
    }

    /// Whether a step that takes `step_ms` may take longer for large work. In one with prompts of others
    /// it waits for the next.
    pub(crate) fn has_room(&self, step_ms: f64) -> bool {
        let usual_ms = self.usual_ms.step;
        usual_ms.is_none_or(|usual_ms| step_ms <= UNNOTICED_MS.max(ORDINARY * usual_ms))
    }

    /// How long one step may take with large work in it.
    pub(crate) fn longest_ms(&self) -> f64 {
        UNNOTICED_MS.max(LONGEST * self.usual_ms.step.unwrap_or(0.0))
    }

    /// How long a step without others may take; `None` for as long as any, when none were served lately.
    pub(crate) fn limit_ms(&self, now_s: f64) -> Option<f64> {
        let ago_s = now_s - self.others_served_s?;
        let is_known = self.usual_ms.step.is_some();
        (is_known && ago_s < LATELY_S).then(|| self.longest_ms())
    }

    /// How long a step that takes `step_ms` may take with drafts of those who are ahead.
    pub(crate) fn lengthened_ms(&self, step_ms: f64) -> f64 {
        (1.0 + self.lengthening) * step_ms
    }
}

#[cfg(test)]
impl Pacing {
    /// Tenants that something is kept of.
    pub(crate) fn num_remembered(&self) -> usize {
        self.received_ms.len() + self.seen.now.len()
    }
}

fn move_towards(mean: &mut Option<f64>, value: f64) {
    let before = mean.unwrap_or(value);
    let rate = if value < before {
        FALLING_RATE
    } else {
        LEARNING_RATE
    };
    *mean = Some(before + rate * (value - before));
}

/// The tenants of the last minute or two.
#[derive(Debug, Default)]
struct Seen {
    now: HashSet<Arc<str>>,
    num_before: usize,
    began_s: f64,
}

impl Seen {
    fn begin_step(&mut self, now_s: f64) {
        if now_s - self.began_s >= SEEN_S {
            self.num_before = self.now.len();
            self.now.clear();
            self.began_s = now_s;
        }
    }

    fn note(&mut self, tenant: &Arc<str>) {
        if !self.now.contains(tenant) {
            self.now.insert(Arc::clone(tenant));
        }
    }

    /// The more of this minute's and the last one's.
    fn count(&self) -> usize {
        self.now.len().max(self.num_before)
    }
}
