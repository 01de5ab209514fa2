//! Of which requests drafters that read features keep the rows.

use spectrie_types::SpeculationMode;

use crate::cache::Cache;
use crate::scheduling::running::Running;
use crate::sequence::Sequence;
use crate::speculation::Speculator;

/// Decides it for one step.
///
/// What drafters add to each row is lost where they are not asked, so that those that sleep keep nothing of most
/// requests. The first ones of each drafter are kept, which show when it should wake, and those of fixed modes that draft
/// from one. A prompt is, as others may begin with it, but for one that was found for the most part. None is kept that no
/// drafter may be asked about.
pub(in crate::scheduling) struct Following<'a> {
    speculator: &'a Speculator,
    /// Those that read features; `None` where they keep all rows at no price.
    reading: Option<Vec<usize>>,
    /// Requests that each of them follows at most.
    most: Option<usize>,
    /// Those that each of them follows so far.
    num_followed: Vec<usize>,
}

impl<'a> Following<'a> {
    pub(in crate::scheduling) fn new(speculator: &'a Speculator) -> Self {
        let reading = speculator.may_leave_out();
        let reading = reading.then(|| speculator.drafters_reading(true));
        Self {
            speculator,
            most: speculator.most_followed(),
            num_followed: vec![0; reading.as_ref().map_or(0, Vec::len)],
            reading,
        }
    }

    /// Leaves out those that run and are not to be followed any more.
    pub(in crate::scheduling) fn leave_out_some(
        &mut self,
        running: &mut Running,
        cache: &mut Cache,
    ) {
        for sequence in running.values_mut().filter(|one| !one.is_guest) {
            let is_left_out = cache.is_left_out(&sequence.table);
            if !is_left_out && !self.keeps(sequence, sequence.num_cached()) {
                cache.leave_out(&mut sequence.table);
            }
        }
    }

    /// Whether drafters keep the rows of a request that found so many tokens in the cache.
    pub(super) fn keeps(&mut self, sequence: &Sequence, num_found: usize) -> bool {
        let Some(reading) = &self.reading else {
            return true;
        };
        let mode = sequence.drafting.mode();
        let may_draft = mode == SpeculationMode::Auto && sequence.drafting.max_nodes() > 0;
        let may_be_shared = !sequence.decoding && 2 * num_found <= sequence.num_prompt();
        let mut is_kept = matches!(
            mode,
            SpeculationMode::Eagle2 | SpeculationMode::Chain | SpeculationMode::Tiers
        );
        for (&drafter, num_followed) in reading.iter().zip(&mut self.num_followed) {
            let namespace = sequence.table.namespace();
            if self.speculator.may_draft_from(drafter, namespace) {
                let is_followed = may_draft && self.most.is_none_or(|most| *num_followed < most);
                is_kept |= may_be_shared || is_followed;
                *num_followed += usize::from(may_draft);
            }
        }
        is_kept
    }
}
