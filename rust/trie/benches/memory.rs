//! Measures shared memory: inserting, bytes per token, snapshots, corpora, and readers beside
//! writers.
//!
//! `cargo bench -p spectrie-trie --bench memory -- [--json] [--tokens 10000000]
//! [--seconds 5] [--folder DIR] [--tenants 1000]`
//!
//! The text is made up from a fixed seed: documents of 1,000 tokens, half of them runs copied
//! from earlier text, the others drawn from 50,000 ids by Zipf's law. Files are read from the
//! page cache, where they were just written.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spectrie_trie::{
    Corpus, CorpusBuilder, DraftConfig, DraftMemory, Drafter, MemoryConfig, SharedTrie, TokenId,
};

const DOCUMENT_TOKENS: usize = 1000;
const NUM_IDS: f64 = 50_000.0;
const NUM_WRITERS: u64 = 4;
/// Documents of a large namespace beside small ones.
const LARGE_DOCUMENTS: usize = 4000;
/// Running requests that are inserted side by side, in pieces of this many tokens.
const NUM_LESSONS: usize = 16;
const PIECE_TOKENS: usize = 3;

/// Documents of made-up text.
struct Text {
    random: StdRng,
    earlier: Vec<TokenId>,
}

impl Text {
    fn new(seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let earlier = Vec::new();
        Self { random, earlier }
    }

    fn document(&mut self) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(DOCUMENT_TOKENS + 32);
        while tokens.len() < DOCUMENT_TOKENS {
            let run = self.random.random_range(4..32);
            if self.earlier.len() > run && self.random.random_bool(0.5) {
                let start = self.random.random_range(0..self.earlier.len() - run);
                tokens.extend_from_slice(&self.earlier[start..start + run]);
            } else {
                let ids = (0..run).map(|_| NUM_IDS.powf(self.random.random::<f64>()) as TokenId);
                tokens.extend(ids);
            }
        }
        tokens.truncate(DOCUMENT_TOKENS);
        if self.earlier.len() < 1 << 20 {
            self.earlier.extend_from_slice(&tokens);
        }
        tokens
    }
}

fn memory(capacity_bytes: usize) -> Result<DraftMemory, Box<dyn Error>> {
    let config = MemoryConfig {
        capacity_bytes,
        ..MemoryConfig::default()
    };
    Ok(DraftMemory::new(config)?)
}

/// Tokens per second and bytes per token of `insert`, which inserts all `documents`.
fn inserted(
    documents: &[Vec<TokenId>],
    insert: impl Fn(&Arc<SharedTrie>, &[Vec<TokenId>]),
) -> Result<(f64, f64, DraftMemory), Box<dyn Error>> {
    let tokens = documents.len() * DOCUMENT_TOKENS;
    let memory = memory(tokens * 64)?;
    let shared = memory.namespace("measured");
    let start = Instant::now();
    insert(&shared, documents);
    let rate = tokens as f64 / start.elapsed().as_secs_f64();
    assert_eq!(memory.num_tokens(), tokens as u64);
    Ok((rate, memory.bytes() as f64 / tokens as f64, memory))
}

fn insert_running(shared: &Arc<SharedTrie>, documents: &[Vec<TokenId>]) {
    for group in documents.chunks(NUM_LESSONS) {
        let mut insertions: Vec<_> = group.iter().map(|_| shared.begin()).collect();
        for start in (0..DOCUMENT_TOKENS).step_by(PIECE_TOKENS) {
            for (insertion, document) in insertions.iter_mut().zip(group) {
                insertion.push(&document[start..(start + PIECE_TOKENS).min(DOCUMENT_TOKENS)]);
            }
        }
    }
}

/// Microseconds of each draft, sorted, for as long as `seconds`.
fn draft_times(shared: &Arc<SharedTrie>, documents: &[Vec<TokenId>], seconds: u64) -> Vec<f64> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut times = Vec::new();
    for document in documents.iter().cycle() {
        let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(shared)));
        drafter.push_prompt(&document[..100]);
        for tokens in document[100..].chunks(5) {
            drafter.push_output(tokens);
            let start = Instant::now();
            black_box(drafter.draft(16, 0.0));
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        if Instant::now() > end {
            break;
        }
    }
    times.sort_by(f64::total_cmp);
    times
}

/// Draft times in one namespace of `documents`, with `tenants` small ones beside it.
fn beside_tenants(
    documents: &[Vec<TokenId>],
    tenants: usize,
    seconds: u64,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let memory = memory(256 << 20)?;
    let large = memory.namespace("measured");
    for (number, document) in documents.iter().take(tenants).enumerate() {
        memory
            .namespace(&format!("tenant{number}"))
            .insert(&document[..100]);
    }
    for document in &documents[..documents.len().min(LARGE_DOCUMENTS)] {
        large.insert(document);
    }
    Ok(draft_times(&large, documents, seconds))
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)]
}

/// Draft times alone and beside writers, and the tokens per second that they inserted.
fn contended(documents: &[Vec<TokenId>], seconds: u64) -> Result<Contended, Box<dyn Error>> {
    let memory = memory(64 << 20)?;
    let shared = memory.namespace("measured");
    for document in &documents[..documents.len().min(2000)] {
        shared.insert(document);
    }
    let idle = draft_times(&shared, documents, seconds);
    let (stop, inserted) = (AtomicBool::new(false), AtomicU64::new(0));
    let writing = thread::scope(|scope| {
        for seed in 0..NUM_WRITERS {
            let (shared, stop, inserted) = (&shared, &stop, &inserted);
            scope.spawn(move || {
                let mut text = Text::new(100 + seed);
                let documents: Vec<_> = (0..500).map(|_| text.document()).collect();
                for document in documents.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    shared.insert(document);
                    inserted.fetch_add(document.len() as u64, Ordering::Relaxed);
                }
            });
        }
        let writing = draft_times(&shared, documents, seconds);
        stop.store(true, Ordering::Relaxed);
        writing
    });
    Ok(Contended {
        idle,
        writing,
        tokens_per_second: inserted.into_inner() as f64 / seconds as f64,
    })
}

struct Contended {
    idle: Vec<f64>,
    writing: Vec<f64>,
    tokens_per_second: f64,
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut json, mut tokens, mut seconds, mut tenants) = (false, 10_000_000, 5, 1000);
    let mut folder = std::env::temp_dir().join(format!("spectrie-memory-{}", std::process::id()));
    // Cargo adds `--bench` to what a bench is given.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--json" => json = true,
            "--tokens" => tokens = value()?.parse::<usize>()?,
            "--seconds" => seconds = value()?.parse()?,
            "--tenants" => tenants = value()?.parse()?,
            "--folder" => folder = PathBuf::from(value()?),
            _ => return Err(format!("unknown argument {argument}").into()),
        }
    }
    let mut text = Text::new(1);
    eprintln!("making up {tokens} tokens");
    let documents: Vec<_> = (0..tokens.div_ceil(DOCUMENT_TOKENS))
        .map(|_| text.document())
        .collect();

    eprintln!("inserting running requests");
    let (lesson_rate, lesson_bytes, insertions) = inserted(&documents, insert_running)?;
    drop(insertions);
    eprintln!("inserting documents");
    let (insert_rate, insert_bytes, memory) = inserted(&documents, |shared, documents| {
        for document in documents {
            shared.insert(document);
        }
    })?;

    eprintln!("saving and restoring");
    std::fs::create_dir_all(&folder)?;
    let (saved, save_s) = timed(|| memory.save(&folder, "measured"));
    let saved = saved?;
    drop(memory);
    let restored = self::memory(tokens * 64)?;
    let (result, restore_s) = timed(|| restored.restore(&folder, "measured"));
    assert_eq!(result?.num_tokens, saved.num_tokens);
    drop(restored);

    eprintln!("building and opening a corpus");
    let path = folder.join("measured.corpus");
    let mut builder = CorpusBuilder::new("measured", "measured")?;
    for document in &documents {
        builder.push(document)?;
    }
    let (built, build_s) = timed(|| builder.finish(&path));
    let corpus_bytes = built?.bytes as f64 / tokens as f64;
    let (corpus, open_s) = timed(|| Corpus::open(&path));
    assert_eq!(
        corpus?.num_tokens(),
        (documents.len() * DOCUMENT_TOKENS) as u64
    );
    std::fs::remove_dir_all(&folder)?;

    eprintln!("drafting alone, then beside {NUM_WRITERS} writers");
    let contended = contended(&documents, seconds)?;
    eprintln!("drafting in a large namespace alone, then beside {tenants} small ones");
    let alone = beside_tenants(&documents, 0, seconds)?;
    let beside = beside_tenants(&documents, tenants.min(1000), seconds)?;
    let (idle_p99, writing_p99) = (
        quantile(&contended.idle, 0.99),
        quantile(&contended.writing, 0.99),
    );
    let figures = [
        ("insert_tokens_per_second", insert_rate),
        ("insert_bytes_per_token", insert_bytes),
        ("lesson_tokens_per_second", lesson_rate),
        ("lesson_bytes_per_token", lesson_bytes),
        ("snapshot_tokens", saved.num_tokens as f64),
        ("snapshot_bytes", saved.bytes as f64),
        ("snapshot_save_seconds", save_s),
        ("snapshot_restore_seconds", restore_s),
        ("corpus_build_seconds", build_s),
        ("corpus_open_seconds", open_s),
        ("corpus_bytes_per_token", corpus_bytes),
        ("draft_us_p50_idle", quantile(&contended.idle, 0.5)),
        ("draft_us_p99_idle", idle_p99),
        ("draft_us_p50_writing", quantile(&contended.writing, 0.5)),
        ("draft_us_p99_writing", writing_p99),
        ("draft_p99_ratio", writing_p99 / idle_p99),
        ("draft_us_p50_large_alone", quantile(&alone, 0.5)),
        ("draft_us_p50_large_beside", quantile(&beside, 0.5)),
        ("writers_tokens_per_second", contended.tokens_per_second),
    ];
    if json {
        let fields = figures.map(|(name, value)| format!("\"{name}\": {value:.4}"));
        println!("{{{}}}", fields.join(", "));
    } else {
        for (name, value) in figures {
            println!("{name:28} {value:>16.3}");
        }
    }
    Ok(())
}
