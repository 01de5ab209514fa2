//! Fits the weights that ship: the first, third, fifth… recorded request trains them, again and
//! again at falling rates; the others then tell whether they keep what they promise.
//!
//! `cargo run --release -p spectrie-trie --example fit -- OUT [--test] [--from WEIGHTS]
//! [--corpus NAME.corpus] TRACE…`
//!
//! A trace holds little-endian 32-bit words; each request is four counts (prompt, output and
//! prediction tokens, entries of likeliest tokens), those tokens, then for each entry eight ids
//! and eight 32-bit floats. `python -m bench.draft.fit` writes them. A trace after `--corpus` is
//! replayed with that corpus, one before it without any. With `--test` nothing is fitted, and
//! the figures of each trace are printed.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use spectrie_trie::{
    Corpus, DraftConfig, DraftMemory, Drafter, MemoryConfig, Readers, TOP_K, TokenId, Weights,
};

/// Passes over all traces and the rate of each.
const RATES: [f32; 8] = [0.02, 0.02, 0.01, 0.006, 0.003, 0.0015, 0.0007, 0.0003];
/// The rate a test trains at: what a server does.
const SERVING_RATE: f32 = 0.001;
const MAX_NODES: usize = 16;

#[derive(Default)]
struct Request {
    prompt: Vec<TokenId>,
    output: Vec<TokenId>,
    prediction: Vec<TokenId>,
    top: Vec<[(TokenId, f32); TOP_K]>,
}

struct Trace {
    name: String,
    requests: Vec<Request>,
    memory: DraftMemory,
}

#[derive(Default)]
struct Totals {
    steps: usize,
    drafted: usize,
    accepted: usize,
    expected: f64,
    seconds: f64,
    /// Per decile of conditional probability: nodes reached, their sum, hits.
    deciles: [(usize, f64, usize); 10],
}

fn read(path: &str) -> Result<Vec<Request>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let (words, _) = bytes.as_chunks();
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
    let mut requests = Vec::new();
    while let Some(num_prompt) = words.next() {
        let mut count = || words.next().ok_or("the trace is cut short");
        let (num_output, num_prediction, num_top) = (count()?, count()?, count()?);
        let mut take = |count: u32| words.by_ref().take(count as usize).collect::<Vec<_>>();
        let (prompt, output) = (take(num_prompt), take(num_output));
        let prediction = take(num_prediction);
        let mut top = Vec::new();
        for _ in 0..num_top {
            let (ids, given) = (take(TOP_K as u32), take(TOP_K as u32));
            top.push(std::array::from_fn(|i| (ids[i], f32::from_bits(given[i]))));
        }
        requests.push(Request {
            prompt,
            output,
            prediction,
            top,
        });
    }
    Ok(requests)
}

fn replay(
    request: &Request,
    memory: &DraftMemory,
    weights: Weights,
    rate: f32,
    totals: &mut Totals,
) -> Weights {
    let mut drafter = Drafter::new(DraftConfig::default(), Some(memory.namespace("fit")))
        .teaches(false)
        .with_weights(weights, rate);
    if !request.prediction.is_empty() {
        drafter.set_prediction(&request.prediction);
    }
    drafter.push_prompt(&request.prompt);
    let text = [&request.prompt[..], &request.output[..]].concat();
    let mut known = 0;
    let mut position = request.prompt.len();
    while position < text.len() {
        // What the model gives after the last token is what this step finds out.
        while known + 1 < position {
            if let Some(top) = request.top.get(known) {
                let before = known.checked_sub(1).map(|index| text[index]);
                drafter.recycle(before, text[known], top);
            }
            known += 1;
        }
        let rest = &text[position..];
        let start = std::time::Instant::now();
        let tree = drafter.draft(MAX_NODES, 0.0);
        totals.seconds += start.elapsed().as_secs_f64();
        let path = tree.walk(rest);
        totals.steps += 1;
        for node in &tree.nodes {
            let reached = node.parent.is_none_or(|parent| path.contains(&parent));
            let depth = usize::from(node.depth);
            if reached && depth <= rest.len() {
                let above = node
                    .parent
                    .map_or(1.0, |parent| tree.nodes[parent as usize].value);
                let said = f64::from(node.value / above);
                let decile = &mut totals.deciles[((said * 10.0) as usize).min(9)];
                decile.0 += 1;
                decile.1 += said;
                decile.2 += usize::from(rest[depth - 1] == node.token);
            }
        }
        totals.drafted += tree.len();
        totals.accepted += path.len();
        totals.expected += f64::from(tree.expected_accepted());
        let emitted = (path.len() + 1).min(rest.len());
        drafter.observe(&tree, &path, rest[emitted - 1]);
        drafter.push_output(&rest[..emitted]);
        position += emitted;
    }
    drafter.weights().clone()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("where to?")?;
    let (mut traces, mut corpus, mut test) = (Vec::new(), None, false);
    let mut weights = Weights::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--test" => test = true,
            "--from" => weights = Weights::from_bytes(&std::fs::read(value()?)?)?,
            "--corpus" => corpus = Some(Corpus::open(Path::new(&value()?))?),
            path => {
                let memory = DraftMemory::new(MemoryConfig::default())?;
                if let Some(corpus) = &corpus {
                    memory.add_corpus(Arc::clone(corpus), Readers::All)?;
                }
                traces.push(Trace {
                    name: format!("{path}{}", if corpus.is_some() { " + corpus" } else { "" }),
                    requests: read(path)?,
                    memory,
                });
            }
        }
    }
    if test {
        for trace in &traces {
            let mut totals = Totals::default();
            for request in &trace.requests {
                replay(
                    request,
                    &trace.memory,
                    weights.clone(),
                    SERVING_RATE,
                    &mut totals,
                );
            }
            print(&trace.name, &totals);
        }
        return Ok(());
    }
    let longest = traces.iter().map(|trace| trace.requests.len()).max();
    let longest = longest.unwrap_or(0);
    for rate in RATES {
        let mut totals = Totals::default();
        // One request of each trace in turn, so that no trace has the last word.
        for index in (0..longest).step_by(2) {
            for trace in &traces {
                if let Some(request) = trace.requests.get(index) {
                    weights = replay(request, &trace.memory, weights, rate, &mut totals);
                }
            }
        }
        print(&format!("rate {rate}"), &totals);
    }
    let mut totals = Totals::default();
    for trace in &traces {
        for request in trace.requests.iter().skip(1).step_by(2) {
            replay(
                request,
                &trace.memory,
                weights.clone(),
                SERVING_RATE,
                &mut totals,
            );
        }
    }
    print("held out", &totals);
    std::fs::write(&out, weights.to_bytes())?;
    Ok(())
}

fn print(name: &str, totals: &Totals) {
    let steps = totals.steps as f64;
    println!(
        "{name:<50} accepted/step {:.3}  drafted {:.2}  expected {:.3}  us {:.1}",
        totals.accepted as f64 / steps,
        totals.drafted as f64 / steps,
        totals.expected / steps,
        totals.seconds / steps * 1e6,
    );
    let ratios = totals
        .deciles
        .iter()
        .map(|(count, said, hits)| format!("{count}:{:.2}", said / *hits as f64));
    println!("    said / came: {}", ratios.collect::<Vec<_>>().join(" "));
}
