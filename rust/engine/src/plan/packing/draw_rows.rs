//! Everything but the logits that decides the tokens drawn from the sampled rows of a step.
//!
//! What each list means, `DrawRows` of `spectrie_kernels` says; its kernels draw what
//! [`Sampler`](spectrie_sampling::Sampler) would.

use spectrie_sampling::{Draw, SamplingParameters};
use spectrie_types::PackedSection;

/// Largest vocabulary that the kernels draw from: sums of masses overflow above it.
pub(crate) const MAX_DRAWN_VOCABULARY: usize = 1 << 20;

/// The first section of draws.
const FIRST: PackedSection = PackedSection::Seed;
const NUM_SECTIONS: usize = PackedSection::Allowed as usize + 1 - FIRST as usize;

/// No mask: all tokens may be drawn.
const ALL_ALLOWED: i32 = -1;

/// A cut that rows use, a bit of [`PackedStep::cuts`](super::PackedStep::cuts).
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Cut {
    TopK = 1,
    TopP = 2,
    TypicalP = 4,
}

/// The sections of draws, as they are collected; memory is kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct DrawRows {
    sections: [Vec<i32>; NUM_SECTIONS],
    num_requests: usize,
    num_masks: usize,
    vocabulary_size: usize,
    cuts: u8,
}

impl DrawRows {
    /// Forgets all rows; those that come draw from so many tokens.
    pub(crate) fn clear(&mut self, vocabulary_size: usize) {
        for section in &mut self.sections {
            section.clear();
        }
        self.num_requests = 0;
        self.num_masks = 0;
        self.cuts = 0;
        self.vocabulary_size = vocabulary_size;
    }

    /// Begins a request, whose first row is drawn from like this.
    pub(crate) fn open(&mut self, draw: &Draw<'_>) {
        self.num_requests += 1;
        self.start(PackedSection::BiasStart, PackedSection::BiasToken);
        self.start(PackedSection::SeenStart, PackedSection::SeenToken);
        for &(token, bias) in &draw.parameters.logit_bias {
            self.section(PackedSection::BiasToken).push(token as i32);
            self.push_float(PackedSection::BiasValue, bias);
        }
        if let Some(history) = draw.history {
            for (section, numbers) in [
                (PackedSection::SeenToken, history.tokens()),
                (PackedSection::SeenCount, history.counts()),
            ] {
                let words = numbers.iter().map(|&number| number as i32);
                self.section(section).extend(words);
            }
        }
    }

    /// Adds a row of the open request, reached by the drafts of `path`.
    pub(crate) fn push(&mut self, draw: &Draw<'_>, path: &[u32]) {
        use PackedSection as P;
        let parameters = draw.parameters;
        let request = self.num_requests as i32 - 1;
        let seed = [draw.choice_seed as i32, (draw.choice_seed >> 32) as i32];
        self.section(P::Seed).extend(seed);
        self.section(P::Position).push(draw.position as i32);
        self.section(P::Request).push(request);
        self.section(P::TopK).push(parameters.top_k as i32);
        for (section, number) in [
            (P::Temperature, parameters.temperature),
            (P::TopP, parameters.top_p),
            (P::MinP, parameters.min_p),
            (P::TypicalP, parameters.typical_p),
            (P::Repetition, parameters.repetition_penalty),
            (P::Frequency, parameters.frequency_penalty),
            (P::Presence, parameters.presence_penalty),
        ] {
            self.push_float(section, number);
        }
        self.start(P::PathStart, P::PathToken);
        if draw.history.is_some() {
            let path = path.iter().map(|&token| token as i32);
            self.section(P::PathToken).extend(path);
        }
        self.start(P::MaskedStart, P::MaskedToken);
        let masked = draw.masked.iter().map(|&token| token as i32);
        self.section(P::MaskedToken).extend(masked);
        let mask = draw
            .allowed
            .map_or(ALL_ALLOWED, |allowed| self.mask(allowed));
        self.section(P::AllowedRow).push(mask);
        if !parameters.is_greedy() {
            let cuts_k = (1..self.vocabulary_size).contains(&(parameters.top_k as usize));
            self.cuts |= u8::from(cuts_k) * Cut::TopK as u8;
            self.cuts |= u8::from(parameters.top_p < 1.0) * Cut::TopP as u8;
            self.cuts |= u8::from(parameters.typical_p < 1.0) * Cut::TypicalP as u8;
        }
    }

    /// Adds a request of so many rows whose draws are not read: each takes the likeliest token.
    pub(crate) fn pass_over(&mut self, num_rows: usize) {
        let parameters = SamplingParameters {
            temperature: 0.0,
            ..SamplingParameters::default()
        };
        let draw = Draw::new(&parameters, 0, 0);
        self.open(&draw);
        for _ in 0..num_rows {
            self.push(&draw, &[]);
        }
    }

    /// Ends the lists: there are no more rows.
    pub(crate) fn close(&mut self) {
        self.start(PackedSection::BiasStart, PackedSection::BiasToken);
        self.start(PackedSection::SeenStart, PackedSection::SeenToken);
        self.start(PackedSection::PathStart, PackedSection::PathToken);
        self.start(PackedSection::MaskedStart, PackedSection::MaskedToken);
    }

    /// The words of a section; `None` if it is not of draws.
    pub(super) fn words(&self, section: PackedSection) -> Option<&[i32]> {
        let index = (section as usize).checked_sub(FIRST as usize)?;
        self.sections.get(index).map(Vec::as_slice)
    }

    /// Cuts that any row uses.
    pub(super) fn cuts(&self) -> u8 {
        self.cuts
    }

    /// Whether any list has an entry.
    pub(super) fn has_lists(&self) -> bool {
        let lists = [
            PackedSection::BiasToken,
            PackedSection::SeenToken,
            PackedSection::PathToken,
            PackedSection::MaskedToken,
        ];
        let mut lists = lists.into_iter().filter_map(|list| self.words(list));
        lists.any(|words| !words.is_empty())
    }

    /// Number of a mask, which rows share with others that allow the same.
    fn mask(&mut self, allowed: &[u32]) -> i32 {
        let num_words = self.vocabulary_size.div_ceil(32);
        let known = self.section(PackedSection::Allowed);
        let (begin, num_given) = (known.len(), num_words.min(allowed.len()));
        known.extend(allowed[..num_given].iter().map(|&word| word as i32));
        known.resize(begin + num_words, 0);
        let (before, new) = known.split_at(begin);
        let mut masks = before.chunks_exact(num_words);
        if let Some(same) = masks.position(|mask| mask == new) {
            known.truncate(begin);
            return same as i32;
        }
        self.num_masks += 1;
        self.num_masks as i32 - 1
    }

    /// Notes where the next owner's entries begin.
    fn start(&mut self, starts: PackedSection, entries: PackedSection) {
        let begin = self.section(entries).len() as i32;
        self.section(starts).push(begin);
    }

    fn push_float(&mut self, section: PackedSection, number: f32) {
        self.section(section).push(number.to_bits() as i32);
    }

    fn section(&mut self, section: PackedSection) -> &mut Vec<i32> {
        &mut self.sections[section as usize - FIRST as usize]
    }
}

#[cfg(test)]
mod tests {
    use spectrie_sampling::History;

    use super::*;

    #[test]
    fn rows_share_masks_that_allow_the_same() {
        let mut rows = DrawRows::default();
        let parameters = SamplingParameters::default();
        let draw = Draw::new(&parameters, 0, 0);
        rows.clear(70);
        rows.open(&draw);
        for allowed in [&[1, 2][..], &[1, 2, 0], &[1], &[1, 2, 0, 9], &[1, 0, 0]] {
            let allowed = Some(allowed);
            rows.push(&Draw { allowed, ..draw }, &[]);
        }
        rows.push(&draw, &[]);
        let numbers = rows.words(PackedSection::AllowedRow).unwrap();
        assert_eq!(numbers, [0, 0, 1, 0, 1, -1]);
        let masks = rows.words(PackedSection::Allowed).unwrap();
        assert_eq!(masks, [1, 2, 0, 1, 0, 0]);
    }

    #[test]
    fn rows_that_are_passed_over_keep_the_places_of_the_others() {
        let mut rows = DrawRows::default();
        let cut = SamplingParameters {
            top_k: 3,
            logit_bias: vec![(4, 0.5)],
            ..SamplingParameters::default()
        };
        let draw = Draw::new(&cut, 7, 2);
        rows.clear(10);
        rows.pass_over(2);
        assert_eq!((rows.cuts(), rows.has_lists()), (0, false));
        rows.open(&draw);
        rows.push(&draw, &[]);
        rows.close();
        let of = |section| rows.words(section).unwrap().to_vec();
        assert_eq!(of(PackedSection::Request), [0, 0, 1]);
        assert_eq!(
            of(PackedSection::Temperature),
            [0, 0, 1_f32.to_bits() as i32]
        );
        assert_eq!(of(PackedSection::BiasStart), [0, 0, 1]);
        assert_eq!(of(PackedSection::PathStart), [0, 0, 0, 0]);
    }

    #[test]
    fn lists_say_where_each_owner_begins_and_cuts_are_those_in_use() {
        let mut rows = DrawRows::default();
        let plain = SamplingParameters {
            temperature: 0.0,
            top_p: 0.5,
            ..SamplingParameters::default()
        };
        let cut = SamplingParameters {
            top_k: 3,
            typical_p: 0.5,
            logit_bias: vec![(4, 0.5), (6, -1.0)],
            ..SamplingParameters::default()
        };
        let history = History::new(&[5, 2]);
        for _ in 0..2 {
            rows.clear(10);
            let draw = Draw::new(&plain, 0x8000_0001_ffff_fffe, 3);
            rows.open(&draw);
            rows.push(&draw, &[9]);
            assert_eq!((rows.cuts(), rows.has_lists()), (0, false));
            let draw = Draw {
                history: Some(&history),
                masked: &[8],
                ..Draw::new(&cut, 7, 2)
            };
            rows.open(&draw);
            rows.push(&draw, &[]);
            rows.push(&draw, &[4, 1]);
            rows.close();
            assert_eq!((rows.cuts(), rows.has_lists()), (1 + 4, true));
            let of = |section| rows.words(section).unwrap().to_vec();
            assert_eq!(of(PackedSection::Seed), [-2, i32::MIN + 1, 7, 0, 7, 0]);
            assert_eq!(of(PackedSection::Request), [0, 1, 1]);
            assert_eq!(of(PackedSection::BiasStart), [0, 0, 2]);
            assert_eq!(of(PackedSection::BiasToken), [4, 6]);
            assert_eq!(of(PackedSection::SeenStart), [0, 0, 2]);
            assert_eq!(of(PackedSection::SeenToken), [5, 2]);
            assert_eq!(of(PackedSection::PathStart), [0, 0, 0, 2]);
            assert_eq!(of(PackedSection::PathToken), [4, 1]);
            assert_eq!(of(PackedSection::MaskedStart), [0, 0, 1, 2]);
        }
    }
}
