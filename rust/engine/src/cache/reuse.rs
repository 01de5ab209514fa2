//! Which text of one request others have in the cache, or are computing right now.

use std::sync::Arc;

use super::pool::PagePool;
use super::siblings::num_common;
use super::table::PageTable;
use crate::request_key::RequestKey;

/// A request waits for one that computes its next tokens right now if these fill at least one page
/// divided by this number: computing fewer again costs less than the step it would wait.
const AWAITED_DIVISOR: usize = 2;

/// Full pages that hold the beginning of a waiting request's text.
#[derive(Debug)]
pub(crate) struct CachedPrefix {
    /// From the first on.
    pub(super) pages: Vec<u32>,
    /// From which of the request's tokens on drafters that read features are to keep what is computed; `None` = of none.
    pub(crate) followed_from: Option<usize>,
}

/// A running request as the cache sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resident<'a> {
    pub(crate) key: RequestKey,
    pub(crate) table: &'a PageTable,
    /// Prompt ++ output.
    pub(crate) tokens: &'a [u32],
}

/// The one of `prefilling` that computes what the request of `table` would compute after `prefix`.
/// It goes on until it has computed that or ends, so waiting for it comes to an end.
///
/// `reusable` are the request's tokens whose keys may come from the cache.
pub(super) fn computing<'a>(
    page_size: usize,
    table: &PageTable,
    reusable: &[u32],
    prefix: &CachedPrefix,
    mut prefilling: impl Iterator<Item = Resident<'a>>,
) -> Option<RequestKey> {
    let count = prefix.pages.len();
    let first = count * page_size;
    let next = page_after(reusable, first, page_size);
    if next.len() * AWAITED_DIVISOR < page_size {
        return None;
    }
    prefilling
        .find(|one| {
            one.table
                .continues(&table.namespace, prefix.pages.last(), count)
                && one.table.kv_len < first + next.len()
                && one.tokens[first..].starts_with(next)
        })
        .map(|one| one.key)
}

/// The page that begins with most of the tokens after the full pages of `table`, and with how many; of those that no
/// running request fills, one that `may_copy`.
pub(super) fn longest_beginning<'a>(
    pool: &PagePool,
    table: &PageTable,
    reusable: &[u32],
    running: impl Iterator<Item = Resident<'a>>,
    may_copy: impl Fn(u32) -> bool,
) -> Option<(u32, usize)> {
    let (size, count) = (pool.page_size(), table.num_shared);
    let next = page_after(reusable, count * size, size);
    let parent = table.pages.last();
    let kept = pool.find_beginning(&table.namespace, parent.copied(), next);
    let kept = kept.filter(|&(page, _)| may_copy(page));
    let running = running.filter_map(|one| {
        let computed = one.tokens[..one.table.kv_len].get(count * size..)?;
        let length = if one.table.continues(&table.namespace, parent, count) {
            num_common(computed, next)
        } else {
            0
        };
        (length > 0).then(|| (one.table.pages[count], length))
    });
    running.chain(kept).max_by_key(|&(_, length)| length)
}

/// Lets others find the pages of `table` whose slots hold `tokens` for good. Gives those in whose place
/// others are held from now on that hold the same, and these.
pub(super) fn share_filled(
    pool: &mut PagePool,
    table: &mut PageTable,
    tokens: &[u32],
) -> Vec<(u32, u32)> {
    let mut replaced = Vec::new();
    if !table.shares {
        return replaced;
    }
    let size = pool.page_size();
    let namespace = Arc::clone(&table.namespace);
    for index in table.num_shared..table.num_settled().min(tokens.len()) / size {
        let parent = index.checked_sub(1).map(|before| table.pages[before]);
        let own = table.pages[index];
        pool.share(
            &mut table.pages[index],
            &namespace,
            parent,
            &tokens[index * size..(index + 1) * size],
            table.keeps,
        );
        if table.pages[index] != own {
            replaced.push((own, table.pages[index]));
        }
        table.num_shared = index + 1;
    }
    replaced
}

/// The tokens from `first` on, one page of them at most.
fn page_after(tokens: &[u32], first: usize, page_size: usize) -> &[u32] {
    let rest = &tokens[first.min(tokens.len())..];
    &rest[..rest.len().min(page_size)]
}
