//! Measures a large corpus: building it in bounded memory, opening it, and drafting from it.
//!
//! `cargo bench -p spectrie-trie --bench corpus -- [--tokens 10000000 | --ids CORPUS.u32]
//! [--drafts 2000] [--memory BYTES] [--folder DIR]`
//!
//! The text is made up from a fixed seed as in the `memory` bench: documents of 1,000 tokens, half
//! of them runs copied from the last million tokens, the others drawn from 50,000 ids by Zipf's
//! law. `--ids` reads token ids instead, documents ended by 4294967295. `cold` means that the
//! process has read nothing of the file yet and the system was asked to forget it; `warm` that the
//! same drafts were made before. `--memory` bounds the corpus in memory, default 1 GiB. The folder
//! needs 50 bytes a token on its disk: the corpus and what does not fit in memory while it is built.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spectrie_trie::{
    CorpusBuilder, CorpusCache, DraftConfig, DraftMemory, Drafter, MemoryConfig, Readers,
    SEPARATOR, SharedTrie, TokenId,
};

const DOCUMENT_TOKENS: usize = 1000;
const NUM_IDS: f64 = 50_000.0;
/// Tokens that later text copies from.
const COPIED_TOKENS: usize = 1 << 20;
const PROMPT_TOKENS: usize = 100;
/// Tokens that come between two drafts.
const STEP_TOKENS: usize = 5;

/// Documents of made-up text.
struct Text {
    random: StdRng,
    /// A ring.
    earlier: Vec<TokenId>,
    next: usize,
}

impl Text {
    fn new() -> Self {
        Self {
            random: StdRng::seed_from_u64(1),
            earlier: Vec::new(),
            next: 0,
        }
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
        if self.earlier.len() < COPIED_TOKENS {
            self.earlier.extend_from_slice(&tokens);
        } else {
            let room = COPIED_TOKENS - self.next;
            let (now, rest) = tokens.split_at(room.min(tokens.len()));
            self.earlier[self.next..self.next + now.len()].copy_from_slice(now);
            self.earlier[..rest.len()].copy_from_slice(rest);
            self.next = (self.next + tokens.len()) % COPIED_TOKENS;
        }
        tokens
    }
}

/// The documents in a file of token ids.
fn documents_of(path: &Path) -> Result<Vec<Vec<TokenId>>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let (words, _) = bytes.as_chunks();
    let tokens: Vec<TokenId> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let documents = tokens.split(|&token| token == SEPARATOR);
    Ok(documents.map(<[_]>::to_vec).collect())
}

/// Most bytes of memory that the process has had so far.
fn peak_bytes() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kibibytes.ok_or("no VmHWM")?.parse::<f64>()? * 1024.0)
}

/// Asks the system to forget what it holds of the file at `path`.
fn forget_pages(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut dd = Command::new("dd");
    dd.arg(format!("of={}", path.display()));
    dd.args([
        "oflag=nocache",
        "conv=notrunc,fdatasync",
        "count=0",
        "status=none",
    ]);
    dd.status()?;
    Ok(())
}

/// Microseconds of each of `count` drafts, sorted, and the most blocks that one read itself.
fn draft_times(
    shared: &Arc<SharedTrie>,
    documents: &[Vec<TokenId>],
    count: usize,
    mut reads: impl FnMut() -> u64,
) -> (Vec<f64>, u64) {
    let (mut times, mut most_reads) = (Vec::with_capacity(count), 0);
    for document in documents.iter().cycle() {
        if document.len() <= PROMPT_TOKENS {
            continue;
        }
        let mut drafter = Drafter::new(DraftConfig::default(), Some(Arc::clone(shared)));
        drafter = drafter.contributes(false);
        drafter.push_prompt(&document[..PROMPT_TOKENS]);
        for tokens in document[PROMPT_TOKENS..].chunks(STEP_TOKENS) {
            drafter.push_output(tokens);
            let before = reads();
            let start = Instant::now();
            black_box(drafter.draft(16, 0.0));
            times.push(start.elapsed().as_secs_f64() * 1e6);
            most_reads = most_reads.max(reads() - before);
            if times.len() == count {
                times.sort_by(f64::total_cmp);
                return (times, most_reads);
            }
        }
    }
    (times, most_reads)
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index).or(sorted.last()).copied().unwrap_or(0.0)
}

struct Arguments {
    tokens: usize,
    ids: Option<PathBuf>,
    drafts: usize,
    memory: usize,
    folder: PathBuf,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut given = Arguments {
        tokens: 10_000_000,
        ids: None,
        drafts: 2000,
        memory: CorpusCache::DEFAULT_BYTES,
        folder: std::env::temp_dir().join(format!("spectrie-corpus-{}", std::process::id())),
    };
    // Cargo adds `--bench` to what a bench is given.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--tokens" => given.tokens = value()?.parse()?,
            "--ids" => given.ids = Some(value()?.into()),
            "--drafts" => given.drafts = value()?.parse()?,
            "--memory" => given.memory = value()?.parse()?,
            "--folder" => given.folder = value()?.into(),
            _ => return Err(format!("unknown argument {argument}").into()),
        }
    }
    Ok(given)
}

fn show(name: &str, value: f64) {
    println!("{name:28} {value:>18.3}");
}

fn main() -> Result<(), Box<dyn Error>> {
    let given = arguments()?;
    std::fs::create_dir_all(&given.folder)?;
    let path = given.folder.join("measured.corpus");
    let measured = measure(&given, &path);
    std::fs::remove_file(&path)?;
    measured
}

fn measure(given: &Arguments, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut builder = CorpusBuilder::new("measured", "measured")?.scratch_in(given.folder.clone());
    // What drafts are asked for.
    let mut asked = Vec::new();
    let start = Instant::now();
    if let Some(ids) = &given.ids {
        asked = documents_of(ids)?;
        for document in &asked {
            builder.push(document)?;
        }
    } else {
        let mut text = Text::new();
        let count = given.tokens.div_ceil(DOCUMENT_TOKENS);
        // From all parts of the text.
        let every = count.div_ceil(100);
        for number in 0..count {
            let document = text.document();
            builder.push(&document)?;
            if number % every == 0 {
                asked.push(document);
            }
        }
    }
    show("tokens", builder.num_tokens() as f64);
    show("collect_seconds", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let (mut held, mut visited) = (0, 0);
    let tokens = builder.num_tokens() as f64;
    let built = builder.finish_with(path, |progress| {
        held = held.max(progress.held_bytes);
        visited = progress.done;
        Ok(())
    })?;
    show("index_seconds", start.elapsed().as_secs_f64());
    show("index_passes", visited as f64 / tokens);
    show("index_held_bytes", held as f64);
    show("build_peak_resident_bytes", peak_bytes()?);
    show("file_bytes", built.bytes as f64);
    forget_pages(path)?;

    let memory = DraftMemory::new(MemoryConfig::default())?.with_corpus_bytes(given.memory);
    let start = Instant::now();
    let corpus = memory.open_corpus(path)?;
    show("open_ms", start.elapsed().as_secs_f64() * 1e3);
    show("open_bytes_read", corpus.reads().bytes as f64);
    memory.add_corpus(Arc::clone(&corpus), Readers::All)?;
    let shared = memory.namespace("measured");
    let reads = || corpus.reads().draft_blocks;
    for round in ["cold", "second", "warm"] {
        let (times, most_reads) = draft_times(&shared, &asked, given.drafts, reads);
        show(&format!("draft_us_p50_{round}"), quantile(&times, 0.5));
        show(&format!("draft_us_p99_{round}"), quantile(&times, 0.99));
        show(&format!("most_blocks_a_draft_{round}"), most_reads as f64);
        memory.wait_for_corpora();
    }
    show(
        "corpus_bytes_in_memory",
        memory.corpus_memory_bytes() as f64,
    );
    show("blocks_read_by_drafts", corpus.reads().draft_blocks as f64);
    show("blocks_read_ahead", corpus.reads().background_blocks as f64);
    Ok(())
}
