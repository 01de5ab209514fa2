//! Replays token traces through a drafter and prints what would have been accepted.
//!
//! `cargo run --release -p spectrie-trie --example replay -- TRACE [CORPUS] [--mode auto|bfs|prob]
//! [--nodes 16] [--price 0.0]`
//!
//! Both files hold little-endian 32-bit token ids; 4294967295 ends a document. The first quarter
//! of each document is the prompt and the rest is taken for the model's output: each step drafts,
//! accepts the longest path equal to the text, and goes on one token after it.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use spectrie_trie::{
    DraftConfig, DraftMemory, DraftMode, Drafter, MemoryConfig, SEPARATOR, SharedTrie, TokenId,
};

#[derive(Default)]
struct Totals {
    steps: usize,
    drafted: usize,
    accepted: usize,
    expected: f64,
    draft_us: Vec<f64>,
    /// Per decile of value: nodes reached, sum of conditional probability, hits.
    deciles: [(usize, f64, usize); 10],
}

fn read(path: &str) -> Result<Vec<Vec<TokenId>>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let words = bytes
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let tokens: Vec<TokenId> = words.collect();
    let documents = tokens.split(|&token| token == SEPARATOR);
    Ok(documents
        .filter(|document| document.len() > 8)
        .map(<[_]>::to_vec)
        .collect())
}

fn replay(
    document: &[TokenId],
    config: DraftConfig,
    shared: Option<Arc<SharedTrie>>,
    max_nodes: usize,
    price: f32,
    totals: &mut Totals,
) {
    let mut drafter = Drafter::new(config, shared);
    let (prompt, mut rest) = document.split_at(document.len() / 4);
    drafter.push_prompt(prompt);
    while !rest.is_empty() {
        let start = Instant::now();
        let tree = drafter.draft(max_nodes, price);
        totals.draft_us.push(start.elapsed().as_secs_f64() * 1e6);
        let path = tree.walk(rest);
        for node in &tree.nodes {
            let reached = node.parent.is_none_or(|parent| path.contains(&parent));
            let depth = usize::from(node.depth);
            if reached && depth <= rest.len() {
                let above = node
                    .parent
                    .map_or(1.0, |parent| tree.nodes[parent as usize].value);
                let probability = f64::from(node.value / above);
                let decile = &mut totals.deciles[((probability * 10.0) as usize).min(9)];
                decile.0 += 1;
                decile.1 += probability;
                decile.2 += usize::from(rest[depth - 1] == node.token);
            }
        }
        totals.steps += 1;
        totals.drafted += tree.len();
        totals.accepted += path.len();
        totals.expected += f64::from(tree.expected_accepted());
        let emitted = (path.len() + 1).min(rest.len());
        drafter.observe(&tree, &path, rest[emitted - 1]);
        drafter.push_output(&rest[..emitted]);
        rest = &rest[emitted..];
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    let mut config = DraftConfig::default();
    let (mut nodes, mut price) = (16, 0.0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--mode" => config.mode = value()?.parse::<DraftMode>()?,
            "--nodes" => nodes = value()?.parse()?,
            "--price" => price = value()?.parse()?,
            _ => files.push(argument),
        }
    }
    let trace = read(files.first().ok_or("which trace?")?)?;
    let memory = DraftMemory::new(MemoryConfig::default())?;
    let mut shared = None;
    if let Some(corpus) = files.get(1) {
        let namespace = memory.namespace("corpus");
        let documents = read(corpus)?;
        let start = Instant::now();
        let tokens: usize = documents.iter().map(Vec::len).sum();
        for document in &documents {
            namespace.insert(document);
        }
        let rate = tokens as f64 / start.elapsed().as_secs_f64() / 1e6;
        let bytes = memory.bytes() as f64 / tokens as f64;
        println!("corpus: {tokens} tokens, {rate:.2}M tokens/s, {bytes:.1} bytes/token");
        shared = Some(namespace);
    }
    let mut totals = Totals::default();
    for document in &trace {
        replay(document, config, shared.clone(), nodes, price, &mut totals);
        if let Some(shared) = &shared {
            shared.insert(document);
        }
    }
    let steps = totals.steps as f64;
    totals.draft_us.sort_by(f64::total_cmp);
    let quantile = |q: f64| totals.draft_us[(totals.draft_us.len() as f64 * q) as usize];
    println!(
        "accepted/step {:.3}  drafted/step {:.2}  expected/step {:.3}  draft us p50 {:.1} p99 {:.1}",
        totals.accepted as f64 / steps,
        totals.drafted as f64 / steps,
        totals.expected / steps,
        quantile(0.5),
        quantile(0.99),
    );
    for (count, expected, hits) in totals.deciles.iter().filter(|decile| decile.0 > 0) {
        let count = *count as f64;
        println!(
            "{:8} nodes: said {:.3}, came {:.3}",
            count,
            expected / count,
            *hits as f64 / count
        );
    }
    Ok(())
}
