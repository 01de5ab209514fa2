//! Which rows of which requests a step computes.

use std::collections::HashSet;

use super::pacing::Pacing;
use super::step::{Chunks, Step};
use crate::config::EngineConfig;
use crate::costs::{CostCurve, ForwardSize};
use crate::request_key::RequestKey;
use crate::scheduling::running::{Parties, Running};
use crate::sequence::Sequence;

/// What a step computes but for drafts.
#[derive(Debug)]
pub(crate) struct Composition {
    pub(crate) chunks: Chunks,
    /// Which requests decode, in the order of their keys.
    pub(crate) decoding: Vec<RequestKey>,
    /// Whose large work it does beside others, of tenants that are ahead; ascending.
    pub(crate) paced: Vec<RequestKey>,
    /// How long drafts of tenants that are ahead may make it.
    pub(crate) limit_ms: f64,
}

/// Composes a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Composer<'a> {
    pub(crate) running: &'a Running,
    pub(crate) config: &'a EngineConfig,
    pub(crate) costs: &'a CostCurve,
    /// Rows of requests that the forward before this step computes, ascending; none where that one is
    /// over.
    pub(crate) flying: &'a [(RequestKey, usize)],
}

/// A request that wants rows, not as a guest.
#[derive(Debug, Clone, Copy)]
struct Want<'a> {
    key: RequestKey,
    sequence: &'a Sequence,
    lead_ms: f64,
    is_ahead: bool,
    /// Whether a prompt is large, or the row of a tenant that is ahead.
    is_large: bool,
}

impl<'a> Composer<'a> {
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
        let wants = self.wants(&prefilling.regulars, &decoding.regulars, pacing);
        let serves_others = wants.iter().any(|one| !one.is_ahead && !one.is_large);
        let num_ahead = num_ahead(&wants);
        let limit_ms = pacing.limit_ms(now_s).filter(|_| !serves_others);
        let is_paced = |one: &Want<'_>| {
            if serves_others {
                one.is_large
            } else {
                limit_ms.is_some() && (one.is_large || one.is_ahead)
            }
        };
        let (mut paced, others): (Vec<_>, Vec<_>) = wants.into_iter().partition(is_paced);
        paced.sort_by(|one, other| one.lead_ms.total_cmp(&other.lead_ms));
        let (rows, prompts): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|one| one.sequence.decoding);
        let mut step = self.step();
        for one in rows {
            step.add_row(one.key, one.sequence.kv_len());
        }
        let prompts: Vec<RequestKey> = prompts.into_iter().map(|one| one.key).collect();
        let num_kept = self.rows_kept(&paced, pacing);
        step.add_chunks_but(num_kept, &prompts, step.is_awaited());
        let mut composition = Composition {
            chunks: Chunks::default(),
            decoding: Vec::new(),
            paced: Vec::new(),
            limit_ms: limit_ms.unwrap_or(f64::INFINITY),
        };
        if serves_others {
            pacing.serve_others(step.milliseconds(), num_ahead, now_s);
            composition.add_beside_others(&mut step, paced, pacing);
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

    /// What a step behind a forward that is not over computes of the prompts of `prefilling` beside one row
    /// of each of `decoding`, with their cached tokens by then. Nothing of it is paced; `None` where large
    /// prompts would be.
    pub(crate) fn compose_ahead(
        self,
        prefilling: &[RequestKey],
        decoding: &[(RequestKey, usize)],
        pacing: &Pacing,
    ) -> Option<Chunks> {
        let is_large = |key: &RequestKey| {
            self.running
                .get(key)
                .is_some_and(|one| pacing.is_large_prompt(self.work_ms(one, one.num_missing())))
        };
        if prefilling.iter().any(is_large) {
            return None;
        }
        let mut step = self.step();
        for &(key, kv_len) in decoding {
            step.add_row(key, kv_len);
        }
        step.add_chunks(prefilling, step.is_awaited());
        Some(step.finish().0)
    }

    /// A step without rows.
    fn step(self) -> Step<'a> {
        Step::new(self.running, self.config, self.costs, self.flying)
    }

    /// The requests that want rows, those that decode first.
    fn wants(
        self,
        prefilling: &[RequestKey],
        decoding: &[RequestKey],
        pacing: &Pacing,
    ) -> Vec<Want<'a>> {
        let keys = decoding.iter().chain(prefilling);
        let wants = keys.filter_map(|&key| {
            let sequence = &**self.running.get(&key)?;
            Some(Want {
                key,
                sequence,
                lead_ms: pacing.lead_ms(&sequence.tenant),
                is_ahead: pacing.is_ahead(&sequence.tenant),
                is_large: false,
            })
        });
        let mut wants: Vec<Want<'_>> = wants.collect();
        let row_ms = self.mean_row_ms(&wants);
        for one in &mut wants {
            one.is_large = if one.sequence.decoding {
                one.is_ahead && self.work_ms(one.sequence, 1) > row_ms
            } else {
                pacing.is_large_prompt(self.work_ms(one.sequence, one.sequence.num_missing()))
            };
        }
        wants
    }

    /// What a step with the rows that tenants not ahead decode takes, by row.
    fn mean_row_ms(self, wants: &[Want<'_>]) -> f64 {
        let rows = wants
            .iter()
            .filter(|one| one.sequence.decoding && !one.is_ahead);
        let size = rows.fold(ForwardSize::default(), |size, one| {
            size + ForwardSize::of_tree(one.sequence.kv_len(), 1, 1)
        });
        self.costs.milliseconds(size) / size.rows.max(1) as f64
    }

    /// What so many rows of a request add to a step.
    fn work_ms(self, sequence: &Sequence, rows: usize) -> f64 {
        let size = self.costs.chunk(sequence.kv_len(), rows);
        self.costs.work_ms(size)
    }

    /// Rows that ordinary prompts leave to large work that may go: else it never would, beside so many
    /// of them that they fill every step.
    fn rows_kept(self, paced: &[Want<'_>], pacing: &Pacing) -> usize {
        let may_go = |one: &&Want<'_>| !one.is_ahead || pacing.has_credit();
        let rows = paced.iter().filter(may_go).map(|one| {
            if one.sequence.decoding {
                1
            } else {
                self.config.page_size
            }
        });
        rows.max().unwrap_or(0)
    }
}

impl Composition {
    /// Adds what large work may add to a step that serves others.
    fn add_beside_others(
        &mut self,
        step: &mut Step<'_>,
        paced: Vec<Want<'_>>,
        pacing: &mut Pacing,
    ) {
        let step_ms = step.milliseconds();
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
        self.paced.sort_unstable();
    }
}

/// Tenants that are ahead and want rows.
fn num_ahead(wants: &[Want<'_>]) -> usize {
    let ahead = wants.iter().filter(|one| one.is_ahead);
    let tenants: HashSet<&str> = ahead.map(|one| &*one.sequence.tenant).collect();
    tenants.len()
}

/// Adds parts until the step takes `limit_ms`.
fn add_within(step: &mut Step<'_>, paced: Vec<Want<'_>>, limit_ms: f64) {
    for part in paced {
        let has_time = step.is_empty() || step.milliseconds() <= limit_ms;
        if !has_time || !step.add_part(part.key, limit_ms) {
            break;
        }
    }
}
