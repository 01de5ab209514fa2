//! Requests of one namespace with equal beginnings compute them once.

use crate::cache::pool::PagePool;
use crate::cache::prefix::num_common;
use crate::request_key::RequestKey;
use crate::scheduling::scheduler::Scheduler;
use crate::sequence::sequence::Sequence;

/// A request waits for another one that computes the same tokens right now, unless they are fewer
/// than this share of a page: then computing them again costs less than the step it would wait.
const MIN_AWAITED: usize = 2;

/// What the cache holds of a request's text.
#[derive(Debug)]
pub(crate) struct CachedPrefix {
    /// Full pages, from the first on.
    pub(crate) pages: Vec<u32>,
}

/// Lets others find the pages of `sequence` whose slots hold tokens for good.
pub(crate) fn share_filled(pool: &mut PagePool, sequence: &mut Sequence) {
    let size = pool.page_size();
    let num_filled = sequence.num_settled() / size;
    if !sequence.shares {
        return;
    }
    for index in sequence.num_shared..num_filled {
        let parent = index.checked_sub(1).map(|before| sequence.pages[before]);
        pool.share(
            &mut sequence.pages[index],
            &sequence.namespace,
            parent,
            &sequence.tokens[index * size..(index + 1) * size],
            sequence.request.learn,
        );
        sequence.num_shared = index + 1;
    }
}

impl Scheduler {
    /// The kept pages that a waiting request may take. The token that is to be answered is computed
    /// in any case.
    pub(crate) fn find_prefix(&mut self, key: &RequestKey) -> CachedPrefix {
        let sequence = self.waiting.get_mut(key);
        let Some(sequence) = sequence.filter(|one| !one.needs_prompt_rows()) else {
            return CachedPrefix { pages: Vec::new() };
        };
        let mut found = std::mem::take(&mut sequence.found);
        let wanted = reusable(sequence, 0, usize::MAX);
        self.pool.find(&sequence.namespace, wanted, &mut found);
        let pages = found.pages().to_vec();
        sequence.found = found;
        CachedPrefix { pages }
    }

    /// The running request that computes what `sequence` would compute next. It goes on until it has
    /// computed it or ends, so waiting for it comes to an end.
    pub(crate) fn computing(
        &self,
        sequence: &Sequence,
        prefix: &CachedPrefix,
    ) -> Option<RequestKey> {
        if sequence.needs_prompt_rows() {
            return None;
        }
        let size = self.pool.page_size();
        let first = prefix.pages.len() * size;
        let wanted = reusable(sequence, first, size);
        if wanted.len() * MIN_AWAITED < size {
            return None;
        }
        let mut prefilling = self.running.iter().filter(|(_, one)| !one.decoding);
        prefilling
            .find(|(_, one)| {
                one.shares
                    && one.namespace == sequence.namespace
                    && one.num_shared == prefix.pages.len()
                    && one.kv_len < first + wanted.len()
                    && prefix.pages.last() == one.pages[..one.num_shared].last()
                    && one.tokens[first..].starts_with(wanted)
            })
            .map(|(&key, _)| key)
    }

    /// Gives `sequence` the pages of `prefix` and new ones for the rest of its tokens, which are
    /// known to be available, and copies what another page holds of the next tokens.
    pub(crate) fn seat_prefix(
        &mut self,
        key: RequestKey,
        sequence: &mut Sequence,
        prefix: CachedPrefix,
    ) {
        let size = self.pool.page_size();
        for &page in &prefix.pages {
            self.pool.hold(page);
            self.pool.prefixes.touch(page, sequence.request.learn);
        }
        sequence.num_shared = prefix.pages.len();
        sequence.kv_len = sequence.num_shared * size;
        sequence.pages = prefix.pages;
        let num_new = self.pool.pages_for(sequence.tokens.len()) - sequence.num_shared;
        let copied = self
            .find_beginning(sequence)
            .filter(|&(page, _)| {
                let idle = usize::from(self.pool.prefixes.is_idle(page));
                num_new + idle <= self.pool.num_available()
            })
            .inspect(|&(page, _)| {
                // It must not be handed out before it is copied from.
                self.pool.hold(page);
                self.pins.push(page);
            });
        self.pool.grow(&mut sequence.pages, sequence.tokens.len());
        if let Some((page, count)) = copied {
            for offset in 0..count {
                let to = self.pool.slot(&sequence.pages, sequence.kv_len + offset);
                self.copies.push((key, self.pool.slot_in(page, offset), to));
            }
            sequence.kv_len += count;
        }
        if let Some(num_cached) = sequence.note_cached(sequence.kv_len) {
            self.totals.prefix_query_tokens += sequence.num_prompt() as u64;
            self.totals.prefix_hit_tokens += num_cached as u64;
        }
    }

    /// A page that begins with the tokens of `sequence` behind its full pages, and with how many.
    fn find_beginning(&self, sequence: &Sequence) -> Option<(u32, usize)> {
        if sequence.needs_prompt_rows() {
            return None;
        }
        let (size, index) = (self.pool.page_size(), sequence.num_shared);
        let wanted = reusable(sequence, index * size, size);
        let parent = sequence.pages.last().copied();
        let kept = self
            .pool
            .prefixes
            .find_beginning(&sequence.namespace, parent, wanted);
        let running = self.running.values().filter_map(|one| {
            let computed = one.tokens[..one.kv_len].get(index * size..)?;
            let matches = one.shares
                && one.namespace == sequence.namespace
                && one.num_shared == index
                && one.pages[..index].last() == parent.as_ref();
            let length = if matches {
                num_common(computed, wanted)
            } else {
                0
            };
            (length > 0).then(|| (one.pages[index], length))
        });
        running.chain(kept).max_by_key(|&(_, length)| length)
    }

    /// Lets go of the pages that were held to be copied from.
    pub(crate) fn unpin(&mut self) {
        for page in std::mem::take(&mut self.pins) {
            self.pool.release(page);
        }
    }

    /// Sends every running request back to wait; what others can find of it stays.
    pub(crate) fn restart_running(&mut self) {
        while let Some((key, mut sequence)) = self.running.pop_last() {
            self.pool.shrink(&mut sequence.pages, 0);
            sequence.restart();
            self.waiting.insert(key, sequence);
        }
    }
}

/// The tokens from `first` on, at most `most`, whose keys may come from the cache: all but the last.
fn reusable(sequence: &Sequence, first: usize, most: usize) -> &[u32] {
    let end = sequence.tokens.len().saturating_sub(1);
    let rest = &sequence.tokens[first.min(end)..end];
    &rest[..rest.len().min(most)]
}
