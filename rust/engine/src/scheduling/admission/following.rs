//! Of which requests drafters that read features keep the rows.

use spectrie_types::SpeculationMode;

use crate::cache::{Cache, LEFT_OUT};
use crate::scheduling::running::Running;
use crate::sequence::Sequence;
use crate::speculation::Speculator;

/// Tokens at the end of a prompt that are followed while drafters sleep: of more of them, they would hardly guess better.
const TAIL: usize = if cfg!(test) { 12 } else { 64 };

/// Decides it for one step.
///
/// What drafters add to each row is lost where they are not asked, so that those that sleep keep nothing of most
/// requests. A few of each drafter are followed, which show when it should wake, and those of fixed modes that
/// draft from one. Of prompts that is the end alone. None is followed that no drafter may be asked about.
pub(in crate::scheduling) struct Following<'a> {
    speculator: &'a Speculator,
    /// Those that read features; `None` where they keep all rows at no price.
    reading: Option<Vec<usize>>,
    /// Requests that each of them follows at most; `None` = all, as one is awake.
    most: Option<usize>,
    /// Those that each of them may be asked about, so far.
    nums: Vec<usize>,
}

impl<'a> Following<'a> {
    pub(in crate::scheduling) fn new(speculator: &'a Speculator) -> Self {
        let reading = speculator.may_leave_out();
        let reading = reading.then(|| speculator.drafters_reading(true));
        Self {
            speculator,
            most: speculator.most_followed(),
            nums: vec![0; reading.as_ref().map_or(0, Vec::len)],
            reading,
        }
    }

    /// Leaves out those that are not to be followed any more, and follows others in their places.
    ///
    /// Who is followed keeps its place: a drafter sees nothing of one that it only begins to follow. The last ones that
    /// came have most tokens left.
    pub(in crate::scheduling) fn update(&mut self, running: &mut Running, cache: &mut Cache) {
        if self.reading.is_none() {
            return;
        }
        let all = running.values_mut().filter(|one| !one.is_guest);
        let (left_out, followed): (Vec<_>, Vec<_>) =
            all.partition(|one| cache.feature_row(&one.table) == Some(LEFT_OUT));
        for sequence in followed.into_iter().chain(left_out.into_iter().rev()) {
            match self.take_in(sequence) {
                Some(from) => cache.follow(&mut sequence.table, from),
                None => cache.leave_out(&mut sequence.table),
            }
        }
    }

    /// Counts a request; from which of its tokens on drafters are to keep its rows, `None` = of none.
    pub(super) fn take_in(&mut self, sequence: &Sequence) -> Option<usize> {
        let Some(reading) = &self.reading else {
            return Some(0);
        };
        let mode = sequence.drafting.mode();
        let is_fixed = matches!(
            mode,
            SpeculationMode::Eagle2 | SpeculationMode::Chain | SpeculationMode::Tiers
        );
        // One that ends with its prompt asks nothing.
        let may_draft = mode == SpeculationMode::Auto
            && sequence.drafting.max_nodes() > 0
            && (sequence.decoding || sequence.num_left() > 1);
        let mut has_place = false;
        let mut may_be_shared = false;
        for (index, &drafter) in reading.iter().enumerate() {
            let namespace = sequence.table.namespace();
            if !self.speculator.may_draft_from(drafter, namespace) {
                continue;
            }
            // Others may begin with a prompt.
            may_be_shared |= !sequence.decoding;
            if !may_draft {
                continue;
            }
            has_place |= self.most.is_none_or(|most| self.nums[index] < most);
            self.nums[index] += 1;
        }
        if is_fixed || (self.most.is_none() && (may_be_shared || has_place)) {
            return Some(0);
        }
        let tail = sequence.tokens.len().saturating_sub(TAIL);
        has_place.then_some(if sequence.decoding { 0 } else { tail })
    }
}
