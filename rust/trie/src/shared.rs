//! What a namespace's requests taught: the concurrent n-gram memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::pool::Pool;
use crate::segment::Segment;
use crate::{Corpus, MAX_MATCH, SEPARATOR, TokenId};

/// Segments of one namespace, oldest first; the last one is written to.
pub(crate) type Segments = Arc<Vec<Arc<Segment>>>;

/// Corpora that one namespace may read, in the order in which they were added.
pub(crate) type Corpora = Arc<Vec<Arc<Corpus>>>;

/// Text of one namespace, taught by any number of writers and read by any number of drafters.
///
/// Readers never wait for an insert: they take the current list of segments and walk it with
/// atomic loads. Writers take turns. Bytes are bounded by the [`crate::DraftMemory`] that made
/// it: at the bound the least useful segment is dropped whole.
#[derive(Debug)]
pub struct SharedTrie {
    name: String,
    pool: Arc<Pool>,
    writer: Mutex<()>,
    /// Held for as long as it takes to copy or swap one pointer, never during an insert.
    segments: RwLock<Segments>,
    corpora: RwLock<Corpora>,
    last_used: AtomicU64,
}

impl SharedTrie {
    pub(crate) fn new(pool: Arc<Pool>, name: &str, corpora: Vec<Arc<Corpus>>) -> Arc<Self> {
        let last_used = AtomicU64::new(pool.tick());
        let shared = Arc::new(Self {
            name: name.to_owned(),
            pool,
            writer: Mutex::new(()),
            segments: RwLock::new(Arc::default()),
            corpora: RwLock::new(Arc::new(corpora)),
            last_used,
        });
        shared.pool.register(&shared);
        shared
    }

    /// Teaches one document, so that drafters find it from then on.
    ///
    /// Documents never touch: a match or a continuation stays inside one. [`SEPARATOR`] splits
    /// `tokens` into several. A document of fewer than two tokens teaches nothing. When the byte
    /// budget cannot hold even the smallest segment, the text is dropped. Costs constant time per
    /// token; other writers of the namespace wait.
    pub fn insert(&self, tokens: &[TokenId]) {
        self.touch();
        let _turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        for document in tokens.split(|&token| token == SEPARATOR) {
            if document.len() > 1 {
                self.insert_document(document);
            }
        }
    }

    fn insert_document(&self, document: &[TokenId]) {
        // Tokens already taught, and how many of them are repeated as context.
        let mut taught = 0;
        while taught < document.len() {
            let context = taught.min(MAX_MATCH);
            let rest = &document[taught - context..];
            let Some(segment) = self.segment_with_room(context + 2) else {
                return;
            };
            let count = segment.room().min(rest.len());
            segment.append(&rest[..count], context);
            taught += count - context;
        }
    }

    /// The segment to write to, with room for `tokens` at least.
    fn segment_with_room(&self, tokens: usize) -> Option<Arc<Segment>> {
        let segments = self.snapshot();
        let last = segments.last();
        if let Some(segment) = last.filter(|segment| segment.room() >= tokens) {
            return Some(Arc::clone(segment));
        }
        let segment = self
            .pool
            .segment_after(last.map_or(0, |last| last.capacity()), self)?;
        self.replace(|segments| segments.push(Arc::clone(&segment)));
        Some(segment)
    }

    /// The segments as they are now.
    pub(crate) fn snapshot(&self) -> Segments {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The corpora as they are now.
    #[allow(dead_code, reason = "its caller, the draft over corpora, follows")]
    pub(crate) fn corpora(&self) -> Corpora {
        Arc::clone(&self.corpora.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_corpora(&self, corpora: Vec<Arc<Corpus>>) {
        *self.corpora.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(corpora);
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

    /// Drops the segment whose text was accepted least per token, the oldest among equals, and
    /// gives its bytes; 0 = there is none. The newest goes only when it is alone.
    pub(crate) fn evict(&self) -> usize {
        let mut evicted = None;
        self.replace(|segments| {
            let sealed = segments.len().saturating_sub(1).max(1).min(segments.len());
            let usefulness =
                |segment: &Segment| f64::from(segment.credit()) / segment.capacity() as f64;
            let victim = (0..sealed)
                .min_by(|&a, &b| usefulness(&segments[a]).total_cmp(&usefulness(&segments[b])));
            if let Some(index) = victim {
                evicted = Some(segments.remove(index));
                for segment in segments.iter() {
                    segment.halve_credit();
                }
            }
        });
        evicted.map_or(0, |segment| segment.bytes())
    }

    /// Notes that drafts from a segment were accepted.
    pub(crate) fn credit(&self, segment_id: u64, tokens: u32) {
        if let Some(segment) = self
            .snapshot()
            .iter()
            .find(|segment| segment.id() == segment_id)
        {
            segment.add_credit(tokens);
        }
    }

    /// Bytes of the arenas this namespace owns.
    pub fn bytes(&self) -> usize {
        self.snapshot().iter().map(|segment| segment.bytes()).sum()
    }

    pub(crate) fn touch(&self) {
        self.last_used.store(self.pool.tick(), Relaxed);
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.last_used.load(Relaxed)
    }
}
