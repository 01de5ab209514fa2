//! The byte budget that all namespaces share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use spectrie_types::{DropReason, NUM_DROP_REASONS};

use crate::budget::block_sizes::{block_tokens, kept_bytes};
use crate::budget::drops::Drops;
use crate::budget::shares::{Holding, Shares};
use crate::budget::weights::{MemberId, Standing, Weights};
use crate::store::block::Block;
use crate::store::grant::{Account, Grant};

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
    /// What [`Pool::join`] called it.
    fn member(&self) -> MemberId;
    /// The part that its running requests own, which cannot be asked back.
    fn requests(&self) -> &Arc<Account>;
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
    inserted_tokens: AtomicU64,
    refused_grants: AtomicU64,
    /// Held for as long as one change takes. Whoever has it takes no other lock and drops no tenant.
    members: Mutex<Members>,
}

/// Everybody alive, also those that were forgotten while a request still holds them.
#[derive(Debug)]
struct Members {
    weights: Weights,
    /// In the order in which they joined.
    tenants: BTreeMap<MemberId, Weak<dyn Tenant>>,
}

impl Pool {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        let used = Arc::default();
        let shared_bytes = capacity_bytes - capacity_bytes / RESERVE_PARTS;
        Self {
            capacity_bytes,
            reserve: Account::within(&used),
            used,
            granting: Mutex::new(()),
            drops: Drops::default(),
            inserted_tokens: AtomicU64::new(0),
            refused_grants: AtomicU64::new(0),
            members: Mutex::new(Members {
                weights: Weights::new(shared_bytes),
                tenants: BTreeMap::new(),
            }),
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

    /// Takes in a namespace within the share of `tenant`, used now, until it leaves.
    pub(crate) fn join(&self, tenant: &str, handle: Weak<dyn Tenant>) -> MemberId {
        let mut members = self.members();
        let id = members.weights.join(tenant);
        members.tenants.insert(id, handle);
        id
    }

    /// Notes that nobody holds a namespace any more.
    pub(crate) fn leave(&self, id: MemberId) {
        let mut members = self.members();
        members.weights.leave(id);
        members.tenants.remove(&id);
    }

    /// Notes a use of a namespace.
    pub(crate) fn touch(&self, id: MemberId) {
        self.members().weights.touch(id);
    }

    /// Grows with each use of any namespace: as it was when this one was last used.
    pub(crate) fn last_used(&self, id: MemberId) -> u64 {
        self.members().weights.last_used(id)
    }

    /// Puts a namespace within another tenant's share.
    pub(crate) fn move_to(&self, id: MemberId, tenant: &str) {
        self.members().weights.move_to(id, tenant);
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often one namespace was looked at.
    #[cfg(test)]
    pub(crate) fn looked_at(&self) -> u64 {
        self.members().weights.looked_at()
    }

    /// How many namespaces, tenants and halvings to come are kept count of.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> [usize; 3] {
        self.members().weights.sizes()
    }

    /// Everybody alive.
    fn live(&self) -> Vec<(Arc<dyn Tenant>, Standing)> {
        let members = self.members();
        let Members { weights, tenants } = &*members;
        let alive = tenants.iter().filter_map(|(&id, handle)| {
            // The standing first: a handle that is not used might be the last, and leave, which waits for us.
            let standing = weights.standing(id)?;
            Some((handle.upgrade()?, standing))
        });
        alive.collect()
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
        self.members().weights.share(tenant.member())
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
        self.members().weights.give(requester.member(), bytes);
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
        let (live, standings): (Vec<_>, Vec<_>) = self.live().into_iter().unzip();
        let is_requester = |one: &Arc<dyn Tenant>| one.member() == requester.member();
        let Some(asking) = live.iter().position(is_requester) else {
            return false;
        };
        let everybody = live.iter().zip(standings);
        let mut holdings: Vec<_> = everybody
            .map(|(one, standing)| Holding::new(standing, held_bytes(&**one)))
            .collect();
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
            shares.note(&mut holdings[giver], held_bytes(&*live[giver]));
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

    /// Counts tokens that came to be stored.
    pub(crate) fn note_inserted(&self, tokens: u64) {
        self.inserted_tokens.fetch_add(tokens, Relaxed);
    }

    /// Tokens that came to be stored, whether there was room for them or not.
    pub(crate) fn inserted_tokens(&self) -> u64 {
        self.inserted_tokens.load(Relaxed)
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

/// Bytes that a tenant has, without those that it will give back anyway: they must not cost it text.
fn held_bytes(tenant: &dyn Tenant) -> usize {
    let bytes = tenant.account().bytes();
    bytes.saturating_sub(tenant.surplus_bytes())
}
