//! The text of a namespace: the concurrent n-gram memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::namespaces::document::{Cells, Document};
use crate::namespaces::pool::{Pool, Tenant};
use crate::score::weights::LearnedWeights;
use crate::sources::recycled::{Recycled, SharedRecycled};
use crate::store::segment::{Segment, Segments};
use crate::{Bigrams, Corpus, TokenId, Weights};

/// Most tokens written in one turn, so that other writers wait for a few milliseconds at most.
const TURN_TOKENS: usize = 4096;

/// Corpora that one namespace may read, in the order in which they were added.
pub(crate) type Corpora = Arc<Vec<Arc<Corpus>>>;

/// Size and use of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Its name.
    pub name: String,
    /// Tokens inserted and not evicted.
    pub num_tokens: u64,
    /// Bytes of its arenas and tables.
    pub bytes: usize,
    /// Draft tokens from its text that the model accepted.
    pub accepted_tokens: u64,
    /// Number of its arenas.
    pub num_segments: usize,
}

/// Text of one namespace, inserted by any number of writers and read by any number of drafters.
///
/// Readers never wait for an insert: they take the current list of segments and walk it with
/// atomic loads. Writers take turns. The [`crate::DraftMemory`] that made it bounds its bytes: at
/// the bound the least useful segment is dropped whole.
#[derive(Debug)]
pub struct SharedTrie {
    name: String,
    pool: Arc<Pool>,
    writer: Mutex<()>,
    /// Held for as long as it takes to copy or swap one pointer, never during an insert.
    segments: RwLock<Segments>,
    corpora: RwLock<Corpora>,
    bigrams: RwLock<Option<Arc<Bigrams>>>,
    last_used: AtomicU64,
    accepted_tokens: AtomicU64,
    forgotten: AtomicBool,
    recycled: SharedRecycled,
    learned: LearnedWeights,
}

impl SharedTrie {
    pub(crate) fn new(pool: Arc<Pool>, name: &str) -> Arc<Self> {
        let last_used = AtomicU64::new(pool.tick());
        let shared = Arc::new(Self {
            name: name.to_owned(),
            pool,
            writer: Mutex::new(()),
            segments: RwLock::new(Arc::default()),
            corpora: RwLock::default(),
            bigrams: RwLock::default(),
            last_used,
            accepted_tokens: AtomicU64::new(0),
            forgotten: AtomicBool::new(false),
            recycled: SharedRecycled::default(),
            learned: LearnedWeights::default(),
        });
        let tenant: Weak<Self> = Arc::downgrade(&shared);
        shared.pool.register(tenant);
        shared
    }

    /// Inserts one document; drafters find it from then on.
    ///
    /// A match or a continuation never leaves its document. [`SEPARATOR`] splits `tokens` into
    /// several documents; those of fewer than two tokens are left out. The text is dropped if the
    /// byte budget cannot hold even the smallest segment. Takes constant time per token; other
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
            let _turn = self.turn();
            if self.is_forgotten() {
                return;
            }
            document.push(part, rest, self);
        }
    }

    /// Ends a document.
    pub(crate) fn finish(&self, document: &mut Document) {
        let _turn = self.turn();
        document.finish(self);
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops all text at once and for good: holders of this trie neither read nor extend it
    /// any more.
    pub(crate) fn forget(&self) {
        let _turn = self.turn();
        self.forgotten.store(true, Relaxed);
        self.recycled.forget();
        self.learned.forget();
        self.replace(|segments| {
            for segment in segments.drain(..) {
                segment.disown();
            }
        });
    }

    /// Whether [`SharedTrie::forget`] was called.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.forgotten.load(Relaxed)
    }

    /// The segments as they are now.
    pub(crate) fn snapshot(&self) -> Segments {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
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
        if !self.is_forgotten() {
            self.recycled
                .put(before, last, top, |bytes| self.pool.grant(bytes, self));
        }
    }

    /// The weights that a new request starts from.
    pub(crate) fn weights(&self) -> Weights {
        self.learned.start()
    }

    /// Takes over a share of what a request learned.
    pub(crate) fn adopt(&self, start: &Weights, end: &Weights) {
        if !self.is_forgotten() {
            self.learned.adopt(start, end);
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn replace(&self, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let mut segments = self
            .segments
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::clone(&segments);
        change(&mut changed);
        let old = std::mem::replace(&mut *segments, Arc::new(changed));
        drop(segments);
        drop(old);
    }

    /// Puts segments, oldest first, before those that there are.
    pub(crate) fn restore(&self, restored: Vec<Arc<Segment>>, accepted_tokens: u64) {
        let _turn = self.turn();
        if self.is_forgotten() {
            return;
        }
        self.accepted_tokens.fetch_add(accepted_tokens, Relaxed);
        self.replace(|segments| drop(segments.splice(0..0, restored)));
    }

    /// Notes that drafts from a segment were accepted.
    pub(crate) fn credit(&self, segment_id: u64, tokens: u32) {
        if let Some(segment) = self.segment(segment_id) {
            segment.add_credit(tokens);
            self.accepted_tokens.fetch_add(u64::from(tokens), Relaxed);
        }
    }

    /// Returns the bytes of the arenas and tables of this namespace.
    pub fn bytes(&self) -> usize {
        let segments = self.snapshot();
        let arenas: usize = segments.iter().map(|segment| segment.bytes()).sum();
        arenas + self.recycled.bytes()
    }

    pub(crate) fn accepted_tokens(&self) -> u64 {
        self.accepted_tokens.load(Relaxed)
    }

    /// Tokens inserted and not evicted, and what became of them.
    pub(crate) fn info(&self) -> NamespaceInfo {
        let segments = self.snapshot();
        let tokens = segments
            .iter()
            .map(|segment| u64::from(segment.num_tokens()));
        NamespaceInfo {
            name: self.name.clone(),
            num_tokens: tokens.sum(),
            bytes: self.bytes(),
            accepted_tokens: self.accepted_tokens.load(Relaxed),
            num_segments: segments.len(),
        }
    }

    pub(crate) fn touch(&self) {
        self.last_used.store(self.pool.tick(), Relaxed);
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.last_used.load(Relaxed)
    }
}

impl Cells for SharedTrie {
    fn segment(&self, id: u64) -> Option<Arc<Segment>> {
        let segments = self.snapshot();
        let found = segments.iter().rev().find(|segment| segment.id() == id);
        found.map(Arc::clone)
    }

    fn segment_with_room(&self, tokens: usize) -> Option<Arc<Segment>> {
        let last = self.snapshot().last().map(Arc::clone);
        let last_tokens = last.as_ref().map_or(0, |last| last.capacity());
        if let Some(segment) = last.filter(|segment| segment.room() >= tokens) {
            return Some(segment);
        }
        let segment = self.pool.segment_after(last_tokens, self)?;
        self.replace(|segments| segments.push(Arc::clone(&segment)));
        Some(segment)
    }
}

impl Tenant for SharedTrie {
    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn num_segments(&self) -> usize {
        self.snapshot().len()
    }

    fn last_used(&self) -> u64 {
        self.last_used()
    }

    /// The segment whose text was accepted least per token goes, the oldest among equals; the
    /// newest only when it is alone.
    fn evict(&self) -> bool {
        let mut evicted = None;
        self.replace(|segments| {
            let sealed = segments.len().saturating_sub(1).max(1).min(segments.len());
            let usefulness =
                |segment: &Segment| f64::from(segment.credit()) / segment.capacity() as f64;
            let victim = (0..sealed)
                .min_by(|&a, &b| usefulness(&segments[a]).total_cmp(&usefulness(&segments[b])));
            if let Some(index) = victim {
                let victim = segments.remove(index);
                victim.disown();
                evicted = Some(victim);
                for segment in segments.iter() {
                    segment.halve_credit();
                }
            }
        });
        let tokens = evicted.as_ref().map(|segment| segment.num_tokens());
        self.pool.add_evicted(u64::from(tokens.unwrap_or(0)));
        evicted.is_some()
    }
}
