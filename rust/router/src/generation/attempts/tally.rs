//! What a choice's attempts did, counted here: a worker that dies says nothing of it.

use std::time::Instant;

use spectrie_proto::worker_v1::RequestStats;
use spectrie_types::Source;

/// The last place in a draft that counts apart: a step has 64 rows at most.
const MAX_POSITION: usize = 63;

/// Counts of one choice over its attempts.
///
/// Drafts that a lost worker computed in vain are unknown: of its drafted tokens only the accepted
/// ones count. The first forward of each later attempt counts as a step, so that accepted tokens
/// and steps add up to the tokens after the prefill's own.
#[derive(Clone, Debug)]
pub(in crate::generation) struct Tally {
    /// Attempts that have ended.
    earlier: RequestStats,
    /// Tokens of these.
    num_earlier: u32,
    /// Of the running attempt.
    num_tokens: u32,
    by_source: Vec<u32>,
    by_position: Vec<u32>,
    /// Accepted tokens since the model's own last one: where in a draft the next accepted one is.
    position: usize,
    /// Since when the choice waits for its first or next worker, or is with one.
    since: Instant,
    first_tokens: Option<Instant>,
    last_tokens: Instant,
}

impl Tally {
    pub(in crate::generation) fn new(now: Instant) -> Self {
        Self {
            earlier: RequestStats::default(),
            num_earlier: 0,
            num_tokens: 0,
            by_source: Vec::new(),
            by_position: Vec::new(),
            position: 0,
            since: now,
            first_tokens: None,
            last_tokens: now,
        }
    }

    /// Goes on from attempts that gave `num_tokens` and are summed up in `earlier`.
    pub(in crate::generation) fn resumed(
        earlier: RequestStats,
        num_tokens: u32,
        now: Instant,
    ) -> Self {
        Self {
            earlier,
            num_earlier: num_tokens,
            ..Self::new(now)
        }
    }

    /// Sums over the attempts that have ended.
    pub(in crate::generation) fn earlier(&self) -> &RequestStats {
        &self.earlier
    }

    /// Sums over all attempts, as if the running one ended `now` with its worker.
    pub(in crate::generation) fn so_far(&self, now: Instant) -> RequestStats {
        let mut ended = self.clone();
        ended.end_attempt(now);
        ended.earlier
    }

    /// Counts tokens by the numbers of their sources.
    pub(in crate::generation) fn add(&mut self, sources: &[u32], now: Instant) {
        if sources.is_empty() {
            return;
        }
        self.first_tokens.get_or_insert(now);
        self.last_tokens = now;
        self.num_tokens += sources.len() as u32;
        for source in sources {
            let source = *source as usize;
            count(&mut self.by_source, source);
            // The model's own token ends each step.
            if source == Source::Model as usize {
                self.position = 0;
            } else {
                count(&mut self.by_position, self.position.min(MAX_POSITION));
                self.position += 1;
            }
        }
    }

    /// Ends an attempt whose worker said nothing of it.
    pub(in crate::generation) fn end_attempt(&mut self, now: Instant) {
        let nanoseconds =
            |from: Instant, to: Instant| to.saturating_duration_since(from).as_nanos() as u64;
        let mut stats = RequestStats::default();
        match self.first_tokens.take() {
            Some(first) => {
                stats.prefill_ns = nanoseconds(self.since, first);
                stats.decode_ns = nanoseconds(first, self.last_tokens);
            }
            None => stats.prefill_ns = nanoseconds(self.since, now),
        }
        let mut by_source = std::mem::take(&mut self.by_source);
        if let Some(model) = by_source.get_mut(Source::Model as usize) {
            *model = 0;
        }
        stats.accepted_tokens = by_source.iter().sum();
        stats.drafted_tokens = stats.accepted_tokens;
        stats.accepted_by_source = by_source;
        stats.accepted_by_position = std::mem::take(&mut self.by_position);
        self.position = 0;
        let num_tokens = std::mem::take(&mut self.num_tokens);
        // The prefill gave the first of them.
        let after_prefill = num_tokens.saturating_sub(1);
        stats.verify_steps = after_prefill.saturating_sub(stats.accepted_tokens);
        self.earlier = self.with(stats, num_tokens);
        self.num_earlier += num_tokens;
        self.since = now;
    }

    /// The choice was sent to its next worker.
    pub(in crate::generation) fn begin_attempt(&mut self, now: Instant) {
        let waited = now.saturating_duration_since(self.since);
        self.earlier.queue_ns += waited.as_nanos() as u64;
        self.since = now;
    }

    /// All attempts together, when the last one's worker gave `stats`.
    pub(in crate::generation) fn total(&self, stats: &RequestStats) -> RequestStats {
        let stats = RequestStats {
            accepted_by_position: self.by_position.clone(),
            ..stats.clone()
        };
        self.with(stats, self.num_tokens)
    }

    /// The last attempt alone, of what all gave together.
    pub(in crate::generation) fn last_of(&self, total: &RequestStats) -> RequestStats {
        let earlier = &self.earlier;
        let mut last = total.clone();
        last.verify_steps = total.verify_steps.saturating_sub(earlier.verify_steps);
        last.drafted_tokens = total.drafted_tokens.saturating_sub(earlier.drafted_tokens);
        let counts = last.accepted_by_source.iter_mut();
        for (count, before) in counts.zip(&earlier.accepted_by_source) {
            *count = count.saturating_sub(*before);
        }
        last.queue_ns = total.queue_ns.saturating_sub(earlier.queue_ns);
        last.prefill_ns = total.prefill_ns.saturating_sub(earlier.prefill_ns);
        last.decode_ns = total.decode_ns.saturating_sub(earlier.decode_ns);
        last
    }

    /// The earlier attempts and one more, which gave `num_tokens`.
    fn with(&self, mut stats: RequestStats, num_tokens: u32) -> RequestStats {
        let earlier = &self.earlier;
        stats.verify_steps += earlier.verify_steps;
        stats.verify_steps += u32::from(self.num_earlier > 0 && num_tokens > 0);
        stats.drafted_tokens += earlier.drafted_tokens;
        stats.accepted_tokens += earlier.accepted_tokens;
        add_each(&mut stats.accepted_by_source, &earlier.accepted_by_source);
        add_each(
            &mut stats.accepted_by_position,
            &earlier.accepted_by_position,
        );
        stats.queue_ns += earlier.queue_ns;
        stats.prefill_ns += earlier.prefill_ns;
        stats.decode_ns += earlier.decode_ns;
        stats
    }
}

/// Counts one more at `place`.
fn count(counts: &mut Vec<u32>, place: usize) {
    if counts.len() <= place {
        counts.resize(place + 1, 0);
    }
    counts[place] += 1;
}

fn add_each(sums: &mut Vec<u32>, counts: &[u32]) {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn steps_and_accepted_tokens_of_all_attempts_add_up_to_the_tokens() {
        let begun = Instant::now();
        let mut tally = Tally::new(begun);
        tally.add(&[1], begun + ms(5));
        tally.add(&[3, 3, 1], begun + ms(7));
        tally.end_attempt(begun + ms(9));
        tally.begin_attempt(begun + ms(19));
        tally.end_attempt(begun + ms(20));
        tally.begin_attempt(begun + ms(20));
        tally.add(&[1, 4, 1], begun + ms(30));
        let total = tally.total(&RequestStats {
            verify_steps: 1,
            drafted_tokens: 6,
            accepted_tokens: 1,
            accepted_by_source: vec![0, 0, 0, 0, 1],
            queue_ns: 7,
            prefill_ns: 8,
            decode_ns: 9,
            ..Default::default()
        });
        assert_eq!((total.accepted_tokens, total.verify_steps), (3, 3));
        assert_eq!(total.accepted_tokens + total.verify_steps, 7 - 1);
        assert_eq!(total.accepted_by_source, [0, 0, 0, 2, 1]);
        assert_eq!(total.accepted_by_position, [2, 1]);
        assert_eq!(total.drafted_tokens, 8);
        assert_eq!(total.queue_ns, 10_000_000 + 7);
        assert_eq!(total.prefill_ns, 6_000_000 + 8);
        assert_eq!(total.decode_ns, 2_000_000 + 9);
        let last = tally.last_of(&total);
        let times = (last.queue_ns, last.prefill_ns, last.decode_ns);
        assert_eq!(times, (7, 8, 9));
        assert_eq!(last.accepted_by_source, [0, 0, 0, 0, 1]);
    }

    #[test]
    fn places_in_a_draft_go_on_over_messages_and_begin_again_with_a_step_or_an_attempt() {
        let now = Instant::now();
        let mut tally = Tally::new(now);
        tally.add(&[1], now);
        // A step in two messages, and two steps in one.
        tally.add(&[3, 5], now);
        tally.add(&[5, 1, 3, 1], now);
        tally.add(&[3, 3], now);
        tally.end_attempt(now);
        tally.add(&[3; 70], now);
        let counts = tally.total(&RequestStats::default()).accepted_by_position;
        assert_eq!(counts[..5], [4, 3, 2, 1, 1]);
        assert_eq!((counts.len(), counts[63]), (64, 7));
        assert_eq!(counts.iter().sum::<u32>(), 6 + 70);
    }

    #[test]
    fn one_attempt_is_what_its_worker_says() {
        let mut tally = Tally::new(Instant::now());
        tally.add(&[1, 3], Instant::now());
        let stats = RequestStats {
            verify_steps: 1,
            accepted_by_source: vec![0, 0, 0, 1],
            accepted_by_position: vec![1],
            decode_ns: 3,
            ..Default::default()
        };
        assert_eq!(tally.total(&stats), stats);
    }
}
