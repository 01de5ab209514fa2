//! Which rows of which requests a step computes.

use super::pacing::Pacing;
use super::step::{Chunks, Step};
use crate::config::EngineConfig;
use crate::request_key::RequestKey;
use crate::scheduling::running::{Parties, Running};
use crate::speculation::{ForwardSize, Speculator};

/// What a step computes but for drafts.
#[derive(Debug)]
pub(crate) struct Composition {
    pub(crate) chunks: Chunks,
    /// Which requests decode, in the order of their keys.
    pub(crate) decoding: Vec<RequestKey>,
    /// Whose large work it does beside others, of tenants that are ahead.
    pub(crate) paced: Vec<RequestKey>,
    /// How long drafts of tenants that are ahead may make it.
    pub(crate) limit_ms: f64,
}

/// Composes a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Composer<'a> {
    pub(crate) running: &'a Running,
    pub(crate) config: &'a EngineConfig,
    pub(crate) speculator: &'a Speculator,
}

/// Large work, or that of a tenant that is ahead.
#[derive(Debug, Clone, Copy)]
struct Paced {
    key: RequestKey,
    lead_ms: f64,
    is_ahead: bool,
}

impl Composer<'_> {
    /// What a step computes of the prompts of `prefilling`, the first of which go first, beside one row
    /// of each of `decoding`.
    ///
    /// Large work is paced, see [`Pacing`]. Guests change nothing of what others get: they have the rows
    /// and the time that are left, and pacing knows nothing of them.
    pub(crate) fn compose(
        self,
        prefilling: &Parties,
        decoding: Parties,
        pacing: &mut Pacing,
        now_s: f64,
    ) -> Composition {
        let serves_others = self.serves_others(prefilling, &decoding, pacing);
        let limit_ms = pacing.limit_ms(now_s).filter(|_| !serves_others);
        let paced = if serves_others || limit_ms.is_some() {
            self.set_apart(prefilling, &decoding, pacing, serves_others)
        } else {
            Vec::new()
        };
        let is_paced = |key: &RequestKey| paced.iter().any(|one| one.key == *key);
        let mut rows = decoding.regulars;
        rows.retain(|key| !is_paced(key));
        let mut prompts = prefilling.regulars.clone();
        prompts.retain(|key| !is_paced(key));
        let mut step = Step::new(self.running, self.config, self.speculator);
        step.add_rows(rows);
        let num_kept = self.rows_kept(&paced, pacing);
        step.add_chunks_but(num_kept, &prompts, step.is_awaited());
        let mut composition = Composition {
            chunks: Chunks::default(),
            decoding: Vec::new(),
            paced: Vec::new(),
            limit_ms: limit_ms.unwrap_or(f64::INFINITY),
        };
        if serves_others {
            composition.add_beside_others(&mut step, paced, pacing, now_s);
        } else if let Some(limit_ms) = limit_ms {
            add_within(&mut step, paced, limit_ms);
        }
        for guest in decoding.guests {
            step.add_guest(guest);
        }
        step.add_chunks(&prefilling.guests, true);
        (composition.chunks, composition.decoding) = step.finish();
        composition
    }

    /// Rows that ordinary prompts leave to large work that may go: else it never would, beside so many
    /// of them that they fill every step.
    fn rows_kept(&self, paced: &[Paced], pacing: &Pacing) -> usize {
        let may_go = paced
            .iter()
            .filter(|one| !one.is_ahead || pacing.has_credit());
        let rows = may_go.filter_map(|one| {
            let decodes = self.running.get(&one.key)?.decoding;
            Some(if decodes { 1 } else { self.config.page_size })
        });
        rows.max().unwrap_or(0)
    }

    fn is_ahead(&self, key: RequestKey, pacing: &Pacing) -> bool {
        let one = self.running.get(&key);
        one.is_some_and(|one| pacing.is_ahead(&one.tenant))
    }

    /// Whether a tenant that is not ahead wants rows, but for a large prompt.
    fn serves_others(&self, prefilling: &Parties, decoding: &Parties, pacing: &Pacing) -> bool {
        let is_other = |&key: &RequestKey| !self.is_ahead(key, pacing);
        decoding.regulars.iter().any(is_other)
            || (prefilling.regulars.iter())
                .any(|key| is_other(key) && !self.is_large_prompt(*key, pacing))
    }

    fn is_large_prompt(&self, key: RequestKey, pacing: &Pacing) -> bool {
        let missing = self.running.get(&key).map_or(0, |one| one.num_missing());
        pacing.is_large_prompt(self.work_ms(key, missing))
    }

    /// Large prompts and the work of tenants that are ahead, beside others only what of it is large; the
    /// least lead first.
    fn set_apart(
        &self,
        prefilling: &Parties,
        decoding: &Parties,
        pacing: &Pacing,
        beside_others: bool,
    ) -> Vec<Paced> {
        let row_ms = self.mean_row_ms(&decoding.regulars, pacing);
        let rows = decoding.regulars.iter().map(|&key| (key, false));
        let prompts = prefilling.regulars.iter().map(|&key| (key, true));
        let mut paced: Vec<Paced> = rows
            .chain(prompts)
            .filter_map(|(key, is_prompt)| {
                let is_ahead = self.is_ahead(key, pacing);
                let is_large = if is_prompt {
                    self.is_large_prompt(key, pacing)
                } else {
                    is_ahead && self.work_ms(key, 1) > row_ms
                };
                let tenant = &self.running.get(&key)?.tenant;
                (is_large || is_ahead && !beside_others).then(|| Paced {
                    key,
                    lead_ms: pacing.lead_ms(tenant),
                    is_ahead,
                })
            })
            .collect();
        paced.sort_by(|one, other| one.lead_ms.total_cmp(&other.lead_ms));
        paced
    }

    /// What a step with a row of each of these that is of a tenant not ahead takes, by row.
    fn mean_row_ms(&self, decoding: &[RequestKey], pacing: &Pacing) -> f64 {
        let running = decoding.iter().filter_map(|key| self.running.get(key));
        let mut size = ForwardSize::default();
        for one in running.filter(|one| !pacing.is_ahead(&one.tenant)) {
            size.rows += 1;
            size.kv_tokens += one.kv_len();
        }
        self.speculator.milliseconds(size) / size.rows.max(1) as f64
    }

    /// What so many rows of a request add to a step.
    fn work_ms(&self, key: RequestKey, rows: usize) -> f64 {
        let kv_len = self.running.get(&key).map_or(0, |one| one.kv_len());
        self.speculator
            .work_ms(ForwardSize::default().with_chunk(kv_len, rows))
    }
}

impl Composition {
    /// Adds what large work may add to a step that serves others.
    fn add_beside_others(
        &mut self,
        step: &mut Step<'_>,
        paced: Vec<Paced>,
        pacing: &mut Pacing,
        now_s: f64,
    ) {
        let step_ms = step.milliseconds();
        pacing.serve_others(step_ms, now_s);
        self.limit_ms = pacing.lengthened_ms(step_ms);
        if paced.is_empty() {
            pacing.forgo();
            return;
        }
        let mut credit_ms = pacing.earn(step_ms);
        let limit_ms = pacing.longest_ms().max(self.limit_ms);
        for part in paced {
            let before_ms = step.milliseconds();
            let may_go = pacing.has_room(before_ms) && (credit_ms > 0.0 || !part.is_ahead);
            if !may_go || !step.add_part(part.key, limit_ms) {
                break;
            }
            if part.is_ahead {
                credit_ms -= step.milliseconds() - before_ms;
                self.paced.push(part.key);
            }
            self.limit_ms = step_ms;
        }
    }
}

/// Adds parts until the step takes `limit_ms`.
fn add_within(step: &mut Step<'_>, paced: Vec<Paced>, limit_ms: f64) {
    for part in paced {
        let has_time = step.is_empty() || step.milliseconds() <= limit_ms;
        if !has_time || !step.add_part(part.key, limit_ms) {
            break;
        }
    }
}
