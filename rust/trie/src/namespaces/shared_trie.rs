//! The text of a namespace: the concurrent n-gram memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError, Weak};
use std::thread;
use std::time::Duration;

use spectrie_types::DropReason;

use crate::budget::pool::{Pool, Tenant};
use crate::budget::weights::MemberId;
use crate::namespaces::document::Document;
use crate::namespaces::rescue::Rescue;
use crate::namespaces::upkeep::Upkeep;
use crate::score::weights::LearnedWeights;
use crate::sources::recycled::growing::GrowingTable;
use crate::sources::recycled::table::Recycled;
use crate::store::grant::Account;
use crate::store::view::View;
use crate::{Bigrams, Corpus, TokenId};

/// Most tokens written in one turn, so that other writers wait for a few milliseconds at most.
pub(super) const TURN_TOKENS: usize = 4096;

/// Cells that are written again for each new token, and at least in a turn: a lesson of a few tokens
/// takes microseconds, and what waits does not wait long.
const AGAIN_PER_TOKEN: usize = 16;
const MIN_AGAIN_TOKENS: usize = 64;

/// How long a thread that takes turn after turn waits between them: a mutex is not fair, so without
/// it another writer might not wake up in time.
const PAUSE: Duration = Duration::from_millis(1);

/// Keys of the largest table of recycled tokens: 18 MiB.
const MAX_RECYCLED_KEYS: usize = 256 << 10;

/// The table may take one part in this many of a namespace's share.
const RECYCLED_PARTS: usize = 3;

/// Corpora that one namespace may read, in the order in which they were added.
pub(crate) type Corpora = Arc<Vec<Arc<Corpus>>>;

/// Size and use of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Its name.
    pub name: String,
    /// Tokens inserted and not dropped. Some may wait to be written again: until then nothing finds
    /// them.
    pub num_tokens: u64,
    /// Bytes of its arenas, of its tables, and of the drafters of its running requests.
    pub bytes: usize,
    /// Draft tokens from its text that the model accepted.
    pub accepted_tokens: u64,
    /// Number of arenas that its text lies in.
    pub num_blocks: usize,
    /// Buckets of its index.
    pub num_buckets: u64,
}

/// Text of one namespace, inserted by any number of writers and read by any number of drafters.
///
/// Readers never wait for an insert: they take the current blocks with their index and walk them
/// with atomic loads. Writers take turns. The [`crate::DraftMemory`] that made it bounds its bytes:
/// at the bound the oldest block is dropped, and its text is written again if it was useful.
#[derive(Debug)]
pub struct SharedTrie {
    name: String,
    pub(super) pool: Arc<Pool>,
    writer: Mutex<Upkeep>,
    /// Held for as long as it takes to copy or swap one pointer, never during an insert.
    view: RwLock<Arc<View>>,
    pub(super) rescue: Rescue,
    corpora: RwLock<Corpora>,
    bigrams: RwLock<Option<Arc<Bigrams>>>,
    pub(super) account: Arc<Account>,
    /// The part that running requests own.
    pub(super) requests: Arc<Account>,
    /// What the pool knows it by.
    pub(super) member: MemberId,
    accepted_tokens: AtomicU64,
    /// Why it was forgotten, if it was.
    forgotten: OnceLock<DropReason>,
    pub(super) recycled: GrowingTable,
    learned: LearnedWeights,
}

/// The tenant within whose share a namespace is, unless somebody says otherwise: that of `a/b` is `a`.
pub fn tenant_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(tenant, _)| tenant)
}

impl SharedTrie {
    /// An empty one, used now, within the share of `tenant`.
    pub(crate) fn new(pool: Arc<Pool>, name: &str, tenant: &str) -> Arc<Self> {
        Arc::new_cyclic(|handle: &Weak<Self>| {
            let account = pool.account();
            Self {
                name: name.to_owned(),
                requests: Account::within(&account),
                account,
                member: pool.join(tenant, Weak::clone(handle) as Weak<dyn Tenant>),
                pool,
                writer: Mutex::default(),
                view: RwLock::default(),
                rescue: Rescue::default(),
                corpora: RwLock::default(),
                bigrams: RwLock::default(),
                accepted_tokens: AtomicU64::new(0),
                forgotten: OnceLock::new(),
                recycled: GrowingTable::new(MAX_RECYCLED_KEYS),
                learned: LearnedWeights::default(),
            }
        })
    }

    /// Puts it within another tenant's share.
    pub(crate) fn move_to(&self, tenant: &str) {
        self.pool.move_to(self.member, tenant);
    }

    /// Inserts one document; drafters find it from then on.
    ///
    /// A match or a continuation never leaves its document. [`SEPARATOR`] splits `tokens` into
    /// several documents; those of fewer than two tokens are left out. The text is dropped if the
    /// byte budget cannot hold even the smallest block. Takes constant time per token; other
    /// writers of the namespace wait for a few thousand tokens at most.
    ///
    /// [`SEPARATOR`]: crate::SEPARATOR
    pub fn insert(&self, tokens: &[TokenId]) {
        let mut document = Document::new(0);
        self.append(&mut document, tokens);
        self.finish(&mut document);
    }

    /// Appends to a document, in turns with other writers.
    pub(crate) fn append(&self, document: &mut Document, tokens: &[TokenId]) {
        self.touch();
        let mut rest = tokens.len();
        for part in tokens.chunks(TURN_TOKENS) {
            rest -= part.len();
            let mut upkeep = self.turn();
            if let Some(&reason) = self.forgotten.get() {
                let lost = part.len() + rest;
                self.pool.note_dropped(reason, lost as u64);
                return;
            }
            self.pool.note_inserted(part.len() as u64);
            document.push(part, rest, self);
            let most = part.len() * AGAIN_PER_TOKEN;
            let again = self
                .rescue
                .write(most.clamp(MIN_AGAIN_TOKENS, TURN_TOKENS), self);
            self.keep_up(&mut upkeep, part.len() + again);
        }
    }

    /// Writes what waits for it again, so that a save finds it, in turns with other writers.
    pub(crate) fn write_waiting(&self) {
        // Writing makes room, for which more may be taken out: all of the text once, at most.
        let (mut left, turn) = (self.info().num_tokens, TURN_TOKENS as u64);
        while !self.rescue.is_empty() {
            let mut upkeep = self.turn();
            if left == 0 {
                while self.drop_waiting(DropReason::Share) > 0 {}
            }
            // Nothing waits in a forgotten one.
            let written = self.rescue.write(TURN_TOKENS, self);
            self.keep_up(&mut upkeep, written);
            left = left.saturating_sub(turn);
            drop(upkeep);
            thread::sleep(PAUSE);
        }
    }

    /// Does what so many new tokens make necessary. The caller has the turn.
    pub(super) fn keep_up(&self, upkeep: &mut Upkeep, tokens: usize) {
        if upkeep.run(&self.view(), tokens) {
            self.replace(View::drop_levels);
        }
    }

    /// Ends a document.
    pub(crate) fn finish(&self, document: &mut Document) {
        let _turn = self.turn();
        document.finish(self);
    }

    pub(super) fn turn(&self) -> MutexGuard<'_, Upkeep> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writers' turn, if nobody has it.
    pub(super) fn try_turn(&self) -> Option<MutexGuard<'_, Upkeep>> {
        match self.writer.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Drops all text at once and for good: holders of this trie neither read nor extend it
    /// any more. What is dropped now, and what they add later, counts under `reason`.
    pub(crate) fn forget(&self, reason: DropReason) {
        let _turn = self.turn();
        let reason = *self.forgotten.get_or_init(|| reason);
        self.recycled.close();
        self.learned.forget();
        self.drop_all(reason);
    }

    /// Whether [`SharedTrie::forget`] was called.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.forgotten.get().is_some()
    }

    /// The blocks and their index as they are now.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The corpora as they are now.
    pub(crate) fn corpora(&self) -> Corpora {
        Arc::clone(&self.corpora.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_corpora(&self, corpora: Vec<Arc<Corpus>>) {
        *self.corpora.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(corpora);
    }

    /// What the model says after one token alone, if that was computed.
    pub(crate) fn bigrams(&self) -> Option<Arc<Bigrams>> {
        let bigrams = self.bigrams.read().unwrap_or_else(PoisonError::into_inner);
        bigrams.clone()
    }

    pub(crate) fn set_bigrams(&self, bigrams: Option<Arc<Bigrams>>) {
        *self.bigrams.write().unwrap_or_else(PoisonError::into_inner) = bigrams;
    }

    /// What the model answered to earlier requests; `None` before the first answer.
    pub(crate) fn recycled(&self) -> Option<Arc<Recycled>> {
        self.recycled.table()
    }

    /// Takes an answer of the model.
    pub(crate) fn recycle(&self, before: Option<TokenId>, last: TokenId, top: &[(TokenId, f32)]) {
        self.recycled.put(before, last, top, |more, all| {
            let fits = all * RECYCLED_PARTS <= self.pool.share(self);
            fits.then(|| self.pool.grant_table(more, self)).flatten()
        });
    }

    /// Notes accepted draft tokens that only the model's earlier answers named.
    pub(crate) fn credit_recycled(&self, tokens: u32) {
        self.recycled.add_credit(tokens);
    }

    /// The weights that requests learned; `None` once it is forgotten.
    pub(crate) fn learned(&self) -> Option<&LearnedWeights> {
        (!self.is_forgotten()).then_some(&self.learned)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn replace<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = View::clone(&view);
        let result = change(&mut changed);
        let old = std::mem::replace(&mut *view, Arc::new(changed));
        drop(view);
        drop(old);
        result
    }

    /// Counts draft tokens from text that was restored as accepted.
    pub(super) fn add_accepted(&self, tokens: u64) {
        self.accepted_tokens.fetch_add(tokens, Relaxed);
    }

    /// Notes that drafts from a block were accepted.
    pub(crate) fn credit(&self, block_id: u64, tokens: u32) {
        if let Some(block) = self.view().block(block_id) {
            block.add_credit(tokens);
            self.add_accepted(u64::from(tokens));
        }
    }

    /// Returns the bytes of this namespace: its arenas and tables, and the drafters of its running
    /// requests.
    pub fn bytes(&self) -> usize {
        self.account.bytes()
    }

    pub(crate) fn accepted_tokens(&self) -> u64 {
        self.accepted_tokens.load(Relaxed)
    }

    /// Tokens inserted and not dropped, and what became of them.
    pub(crate) fn info(&self) -> NamespaceInfo {
        let view = self.view();
        let (num_waiting, waiting_tokens) = self.rescue.size();
        let tokens = view
            .blocks()
            .iter()
            .map(|block| u64::from(block.num_tokens()));
        let buckets = view.heads().iter().map(|table| u64::from(table.size()));
        NamespaceInfo {
            name: self.name.clone(),
            num_tokens: tokens.sum::<u64>() + waiting_tokens,
            bytes: self.bytes(),
            accepted_tokens: self.accepted_tokens.load(Relaxed),
            num_blocks: view.blocks().len() + num_waiting,
            num_buckets: buckets.sum(),
        }
    }

    pub(crate) fn touch(&self) {
        self.pool.touch(self.member);
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.pool.last_used(self.member)
    }
}

impl Drop for SharedTrie {
    fn drop(&mut self) {
        self.pool.leave(self.member);
    }
}
