//! Of which requests drafters that read features keep the rows.

use spectrie_types::SpeculationMode;

use crate::cache::Cache;
use crate::scheduling::running::Running;
use crate::sequence::Sequence;
use crate::speculation::Speculator;

/// Prompts that have more tokens behind what was found are followed: texts that several ask about are as long, questions
/// are not.
const LONGEST_OWN: usize = 64;

/// Decides it for one step.
///
/// What drafters add to each row is lost where they are not asked, so that those that sleep keep nothing of most
/// requests. The first ones of each drafter are kept, which show when it should wake, and those of fixed modes that draft
/// from one. A prompt is, as others may begin with it, but for a short rest of one that was found for the most part. None
/// is kept that no drafter may be asked about.
pub(in crate::scheduling) struct Following<'a> {
    speculator: &'a Speculator,
    /// Those that read features; `None` where they keep all rows at no price.
    reading: Option<Vec<usize>>,
    /// Requests that each of them follows at most; `None` = all, as one is awake.
    most: Option<usize>,
    /// Those that each of them may be asked about and that decode, so far.
    num_decoding: Vec<usize>,
    /// Those whose prompt is being computed. They take no place of one that decodes.
    num_prompts: Vec<usize>,
}

impl<'a> Following<'a> {
    pub(in crate::scheduling) fn new(speculator: &'a Speculator) -> Self {
        let reading = speculator.may_leave_out();
        let reading = reading.then(|| speculator.drafters_reading(true));
        let none = vec![0; reading.as_ref().map_or(0, Vec::len)];
        Self {
            speculator,
            most: speculator.most_followed(),
            num_decoding: none.clone(),
            num_prompts: none,
            reading,
        }
    }

    /// Leaves out those that decode and are not to be followed any more; counts those that are.
    pub(in crate::scheduling) fn leave_out_some(
        &mut self,
        running: &mut Running,
        cache: &mut Cache,
    ) {
        for sequence in running.values_mut().filter(|one| !one.is_guest) {
            if cache.is_left_out(&sequence.table) {
                continue;
            }
            let is_kept = self.take_in(sequence, 0);
            if sequence.decoding && !is_kept {
                cache.leave_out(&mut sequence.table);
            }
        }
    }

    /// Counts a request that found so many tokens in the cache; whether drafters keep its rows.
    pub(super) fn take_in(&mut self, sequence: &Sequence, num_found: usize) -> bool {
        let Some(reading) = &self.reading else {
            return true;
        };
        let mode = sequence.drafting.mode();
        let may_draft = mode == SpeculationMode::Auto && sequence.drafting.max_nodes() > 0;
        let num_own = sequence.num_prompt().saturating_sub(num_found);
        let is_own = self.most.is_some() && num_own < num_found.min(LONGEST_OWN);
        let may_be_shared = !sequence.decoding && !is_own;
        let mut is_kept = matches!(
            mode,
            SpeculationMode::Eagle2 | SpeculationMode::Chain | SpeculationMode::Tiers
        );
        for (index, &drafter) in reading.iter().enumerate() {
            let namespace = sequence.table.namespace();
            if !self.speculator.may_draft_from(drafter, namespace) {
                continue;
            }
            is_kept |= may_be_shared;
            if !may_draft {
                continue;
            }
            let mut before = self.num_decoding[index];
            if sequence.decoding {
                self.num_decoding[index] += 1;
            } else {
                before += self.num_prompts[index];
                // One that ends with its prompt shows nothing.
                self.num_prompts[index] += usize::from(sequence.num_left() > 1);
            }
            is_kept |= self.most.is_none_or(|most| before < most);
        }
        is_kept
    }
}
