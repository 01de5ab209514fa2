//! The byte budget that all namespaces share.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use spectrie_types::{DropReason, NUM_DROP_REASONS};

use crate::namespaces::drops::Drops;
use crate::namespaces::last_use::LastUse;
use crate::namespaces::shares::{Holding, Shares};
use crate::store::block::Block;
use crate::store::block_shape::{MAX_BLOCK_TOKENS, MIN_BLOCK_TOKENS};
use crate::store::grant::{Account, Grant};
use crate::store::heads;

/// Tokens of a namespace's first block, where its share allows.
const FIRST_BLOCK_TOKENS: usize = 1 << 10;

/// A namespace's text, and its share, are held in at least this many blocks, so that evicting one
/// forgets a small part; and in at most so many, however small its share is.
const BLOCKS_PER_TEXT: u64 = 16;
const BLOCKS_PER_SHARE: usize = 8;
const MOST_PER_TEXT: u64 = 1024;

/// One part in this many is a reserve for running requests, so that a newcomer drafts from its own
/// text however full the memory is.
const RESERVE_PARTS: usize = 16;

/// Requests may have one part in this many of their namespace's share, and each time one of what is
/// left of the reserve.
const REQUEST_PARTS: usize = 2;

/// Most times that tenants are asked for their surplus to make room once: a few milliseconds.
const MAX_TIGHTENED: usize = 16;

/// An owner of bytes of the budget that can be asked to give some back.
pub(crate) trait Tenant: fmt::Debug + Send + Sync {
    /// What it owns, with what its running requests own.
    fn account(&self) -> &Arc<Account>;
    /// Whose share it is within.
    fn tenant(&self) -> Arc<str>;
    /// The part that its running requests own, which cannot be asked back.
    fn requests(&self) -> &Arc<Account>;
    /// When it was last used.
    fn last_use(&self) -> &LastUse;
    /// Bytes that it needs no more, and gives back as [`Tenant::tighten`] is called.
    fn surplus_bytes(&self) -> usize;
    /// Does a bounded part of what gives its surplus back, and says whether it could.
    fn tighten(&self) -> bool;
    /// Gives back `bytes`, or more, or as many as it can and still have `left_bytes`; says how
    /// many. Text that goes is counted under `reason`.
    fn shrink(&self, bytes: usize, left_bytes: usize, reason: DropReason) -> usize;
}

/// Grants bytes under one bound and says who makes room.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity_bytes: usize,
    used: Arc<Account>,
    /// The part that requests own beyond their namespaces' shares.
    reserve: Arc<Account>,
    /// Only the holder raises the count of used bytes.
    granting: Mutex<()>,
    drops: Drops,
    refused_grants: AtomicU64,
    clock: AtomicU64,
    given_bytes: AtomicU64,
    tenants: Mutex<Vec<Weak<dyn Tenant>>>,
}

impl Pool {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        let used = Arc::default();
        Self {
            capacity_bytes,
            reserve: Account::within(&used),
            used,
            granting: Mutex::new(()),
            drops: Drops::default(),
            refused_grants: AtomicU64::new(0),
            clock: AtomicU64::new(1),
            given_bytes: AtomicU64::new(0),
            tenants: Mutex::new(Vec::new()),
        }
    }

    /// Bytes of everything that is owned.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used.bytes()
    }

    /// An account of this budget.
    pub(crate) fn account(&self) -> Arc<Account> {
        Account::within(&self.used)
    }

    /// Notes a use of a namespace.
    pub(crate) fn touch(&self, last_use: &LastUse) {
        let tick = self.clock.fetch_add(1, Relaxed);
        last_use.set(tick, self.given_bytes.load(Relaxed));
    }

    pub(crate) fn register(&self, tenant: Weak<dyn Tenant>) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.push(tenant);
    }

    /// Every tenant alive, also those that were forgotten while a request still holds them.
    fn live(&self) -> Vec<Arc<dyn Tenant>> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|entry| entry.strong_count() > 0);
        tenants.iter().filter_map(Weak::upgrade).collect()
    }

    fn holding(&self, tenant: &dyn Tenant) -> Holding {
        let last_use = tenant.last_use();
        let given_bytes = self.given_bytes.load(Relaxed);
        Holding {
            tenant: tenant.tenant(),
            // What it will give back anyway must not cost it text.
            bytes: tenant
                .account()
                .bytes()
                .saturating_sub(tenant.surplus_bytes()),
            idle_bytes: given_bytes.saturating_sub(last_use.given_bytes()),
            last_used: last_use.tick(),
            is_spent: false,
        }
    }

    fn reserve_bytes(&self) -> usize {
        self.capacity_bytes / RESERVE_PARTS
    }

    /// Bytes that namespaces may have.
    fn shared_bytes(&self) -> usize {
        self.capacity_bytes - self.reserve_bytes()
    }

    /// Bytes of `tenant` that nobody takes from it.
    pub(crate) fn share(&self, tenant: &dyn Tenant) -> usize {
        let live = self.live();
        let holdings: Vec<_> = live.iter().map(|one| self.holding(&**one)).collect();
        Shares::new(self.shared_bytes(), &holdings).of(&self.holding(tenant))
    }

    /// Block number `id`, for a namespace whose blocks hold `tokens`, or `None` when the budget
    /// cannot hold it.
    pub(crate) fn block_after(
        &self,
        tokens: u64,
        id: u64,
        requester: &dyn Tenant,
    ) -> Option<Block> {
        let capacity = block_tokens(tokens, self.share(requester));
        let grant = self.grant(Block::bytes_for(capacity), requester)?;
        Some(Block::new(id, capacity, grant))
    }

    /// Leave to own `bytes`, for as long as the grant lives, or `None` when the budget cannot
    /// hold them. Whoever would be furthest above its share makes room, be it the requester; who is
    /// within its share loses nothing.
    pub(crate) fn grant(&self, bytes: usize, requester: &dyn Tenant) -> Option<Grant> {
        let _turn = self.turn();
        if !self.make_room(bytes, requester) {
            self.refused_grants.fetch_add(1, Relaxed);
            return None;
        }
        self.given_bytes.fetch_add(bytes as u64, Relaxed);
        requester.last_use().add_given(bytes as u64);
        Some(Grant::new(bytes, requester.account()))
    }

    /// As [`Pool::grant`], for a table: only inside the share of `requester`, so that it costs
    /// nobody within a share anything, and `requester` no text.
    pub(crate) fn grant_table(&self, bytes: usize, requester: &dyn Tenant) -> Option<Grant> {
        let fits = requester.account().bytes() + bytes <= self.share(requester);
        fits.then(|| self.grant(bytes, requester)).flatten()
    }

    /// Leave for a running request of `requester` to own `bytes` of its own: free room inside the
    /// share of `requester`, or room that text of `requester` above its share makes, or the reserve.
    /// No other text goes. A budget of 0 bounds no request.
    pub(crate) fn grant_to_request(&self, bytes: usize, requester: &dyn Tenant) -> Option<Grant> {
        if self.capacity_bytes == 0 {
            return Some(Grant::unbounded(bytes));
        }
        let _turn = self.turn();
        let (account, requests) = (requester.account(), requester.requests());
        let share = self.share(requester);
        let fits_share = requests.bytes() + bytes <= share / REQUEST_PARTS;
        if fits_share && self.missing(bytes) == 0 {
            return Some(Grant::new(bytes, requests));
        }
        // The reserve is for those who have nothing of their own to give.
        let own_text = account.bytes().saturating_sub(requests.bytes());
        let makes_room = fits_share
            && account.bytes() + bytes > share
            && self.missing(bytes) <= own_text
            && self.shrink(bytes, requester);
        if makes_room {
            return Some(Grant::new(bytes, requests));
        }
        let left = self.reserve_bytes() - self.reserve.bytes();
        let fits_reserve = bytes <= left / REQUEST_PARTS;
        fits_reserve.then(|| Grant::new(bytes, &self.reserve))
    }

    /// Makes room for `bytes` out of what `requester` has, and says whether that was enough. The
    /// caller has the turn.
    fn shrink(&self, bytes: usize, requester: &dyn Tenant) -> bool {
        while let missing @ 1.. = self.missing(bytes) {
            if requester.shrink(missing, 0, DropReason::Share) == 0 {
                return false;
            }
        }
        true
    }

    /// Leave for `account` to own `bytes` if they fit beside what is owned already.
    pub(crate) fn grant_spare(&self, bytes: usize, account: &Arc<Account>) -> Option<Grant> {
        let _turn = self.turn();
        let fits = self.missing(bytes) == 0;
        fits.then(|| Grant::new(bytes, account))
    }

    /// Whoever holds it is the only one who raises the count of used bytes.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.granting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes too many if namespaces owned `bytes` more.
    fn missing(&self, bytes: usize) -> usize {
        // Read in this order: bytes that go back meanwhile only make it too much.
        let used = self.used_bytes();
        (used.saturating_sub(self.reserve.bytes()) + bytes).saturating_sub(self.shared_bytes())
    }

    /// Says whether there is room for `bytes` more now. The caller has the turn.
    fn make_room(&self, bytes: usize, requester: &dyn Tenant) -> bool {
        let budget_bytes = self.shared_bytes();
        if bytes > budget_bytes {
            return false;
        }
        if self.missing(bytes) == 0 {
            return true;
        }
        let live = self.live();
        let is_requester = |one: &Arc<dyn Tenant>| Arc::ptr_eq(one.account(), requester.account());
        let Some(asking) = live.iter().position(is_requester) else {
            return false;
        };
        let mut holdings: Vec<_> = live.iter().map(|one| self.holding(&**one)).collect();
        let mut shares = Shares::new(budget_bytes, &holdings);
        while let missing @ 1.. = self.missing(bytes) {
            let Some((giver, excess)) = shares.giver(&holdings, asking, bytes) else {
                return self.collect_surplus(bytes, &live);
            };
            let reason = if giver == asking {
                DropReason::Share
            } else if shares.is_idle(&holdings[giver]) {
                DropReason::Idle
            } else {
                DropReason::Fairness
            };
            // Blocks written when there were fewer namespaces may be larger than a share now.
            let left_bytes = match reason {
                DropReason::Share => 0,
                _ => kept_bytes(holdings[giver].bytes - excess),
            };
            let given = live[giver].shrink(missing.min(excess), left_bytes, reason);
            let left = self.holding(&*live[giver]).bytes;
            shares.note(&mut holdings[giver], left);
            holdings[giver].is_spent = given == 0;
        }
        true
    }

    /// Has surplus given back until there is room for `bytes` more, and says whether there is. A
    /// bounded time is spent on it. The caller has the turn.
    fn collect_surplus(&self, bytes: usize, live: &[Arc<dyn Tenant>]) -> bool {
        for _ in 0..MAX_TIGHTENED {
            if self.missing(bytes) == 0 {
                return true;
            }
            let surplus = live.iter().map(|tenant| (tenant.surplus_bytes(), tenant));
            let largest = surplus.max_by_key(|&(surplus, _)| surplus);
            let Some((_, tenant)) = largest.filter(|&(surplus, _)| surplus > 0) else {
                return false;
            };
            if !tenant.tighten() {
                return false;
            }
        }
        self.missing(bytes) == 0
    }

    /// Bytes that namespaces may have and nobody owns.
    pub(crate) fn spare_bytes(&self) -> usize {
        let used = self.used_bytes().saturating_sub(self.reserve.bytes());
        self.shared_bytes().saturating_sub(used)
    }

    /// Counts tokens that were dropped, or never taken.
    pub(crate) fn note_dropped(&self, reason: DropReason, tokens: u64) {
        self.drops.add(reason, tokens);
    }

    /// Tokens dropped, in the order of [`DropReason::ALL`].
    pub(crate) fn dropped_tokens(&self) -> [u64; NUM_DROP_REASONS] {
        self.drops.all()
    }

    /// Tokens that made room for others.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.drops.evicted()
    }

    /// Times that there was no room for text or for a table.
    pub(crate) fn refused_grants(&self) -> u64 {
        self.refused_grants.load(Relaxed)
    }
}

/// Bytes of a share that others leave: it may end within the last block that is given.
fn kept_bytes(share_bytes: usize) -> usize {
    let block = Block::bytes_for(MIN_BLOCK_TOKENS) + heads::bytes_for(MIN_BLOCK_TOKENS as u64);
    (share_bytes - share_bytes / BLOCKS_PER_SHARE).saturating_sub(block)
}

/// Tokens of the next block of a namespace with `share_bytes` whose blocks hold `tokens`.
fn block_tokens(tokens: u64, share_bytes: usize) -> usize {
    let (block, heads) = (
        Block::bytes_for(MAX_BLOCK_TOKENS),
        heads::bytes_for(MAX_BLOCK_TOKENS as u64),
    );
    let bytes_per_token = (block + heads).div_ceil(MAX_BLOCK_TOKENS);
    let most = (share_bytes / BLOCKS_PER_SHARE / bytes_per_token)
        .clamp(MIN_BLOCK_TOKENS, MAX_BLOCK_TOKENS);
    let wanted = (tokens / BLOCKS_PER_TEXT) as usize;
    // The largest power of two that is not above either.
    let tokens_of = |wanted: usize| 1 << wanted.ilog2();
    let least = (tokens.div_ceil(MOST_PER_TEXT) as usize).next_power_of_two();
    tokens_of(wanted.max(FIRST_BLOCK_TOKENS).min(most)).max(least.min(MAX_BLOCK_TOKENS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_text_up_to_an_eighth_of_the_share() {
        assert_eq!(block_tokens(0, 256 << 20), 1 << 10);
        assert_eq!(block_tokens(100_000, 256 << 20), 4 << 10);
        assert_eq!(block_tokens(100_000_000, 4 << 30), 1 << 20);
        assert_eq!(block_tokens(100_000, 64 << 10), 256);
        assert_eq!(block_tokens(4_000_000, 256 << 10), 4 << 10, "not too many");
        let most = block_tokens(100_000_000, 64 << 20);
        let bytes = Block::bytes_for(most) + heads::bytes_for(most as u64);
        assert!(bytes * BLOCKS_PER_SHARE <= 64 << 20);
    }

    #[test]
    fn the_number_of_blocks_grows_with_the_logarithm_of_the_text() {
        let blocks = |most: u64| {
            let (mut tokens, mut blocks) = (0, 0);
            while tokens < most {
                tokens += block_tokens(tokens, 8 << 30) as u64;
                blocks += 1;
            }
            blocks
        };
        assert_eq!(
            (blocks(1 << 15), blocks(1 << 20), blocks(1 << 24)),
            (32, 112, 176)
        );
        assert_eq!(blocks(100 << 20), 176 + 84, "of the largest size");
    }
}
