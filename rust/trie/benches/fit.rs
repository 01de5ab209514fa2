//! Fits the weights that ship, from none: each trace trains them, again and again at falling rates;
//! traces of other sources then check what they are worth.
//!
//! `cargo bench -p spectrie-trie --bench fit -- OUT TRACE… [--check] TRACE…`, with
//! `[--from WEIGHTS] [--corpus NAME.corpus] [--bigrams TABLE] [--neither]` anywhere.
//!
//! A trace holds little-endian 32-bit words; each request is four counts (prompt, output and
//! prediction tokens, entries of likeliest tokens), those tokens, then for each entry eight ids
//! and eight 32-bit floats. `python -m bench.draft.tuning.fit` writes them. A trace after `--corpus`
//! is replayed with that corpus, one after `--bigrams` with that table, one after `--neither`
//! without them. A trace after `--check` trains nothing: its figures are printed. Where none trains,
//! nothing is fitted and OUT is not written.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use spectrie_trie::replay::{Replay, ReplayConfig, ReplayReport, ReplayRequest, TopEntries};
use spectrie_trie::{Bigrams, Corpus, TokenId, Weights};
use spectrie_types::sizes::TOP_K;

/// Passes over all traces and the rate of each. Held out, higher first rates change nothing.
const RATES: [f32; 16] = [
    0.01, 0.006, 0.006, 0.003, 0.003, 0.003, 0.0015, 0.0015, 0.0015, 0.0007, 0.0007, 0.0007,
    0.0003, 0.0003, 0.0001, 0.0001,
];
/// The rate at which a trace that is checked trains: what a server does.
const SERVING_RATE: f32 = 0.001;
/// What the file of bigrams says it is of.
const FINGERPRINT: &str = "tune";

#[derive(Default)]
struct Request {
    prompt: Vec<TokenId>,
    output: Vec<TokenId>,
    prediction: Vec<TokenId>,
    top: Option<TopEntries>,
}

struct Trace {
    name: String,
    requests: Vec<Request>,
    corpus: Option<Arc<Corpus>>,
    bigrams: Option<Arc<Bigrams>>,
}

impl Trace {
    fn replay(&self) -> Result<Replay, Box<dyn Error>> {
        let mut replay = Replay::new(ReplayConfig::default())?;
        if let Some(corpus) = &self.corpus {
            replay.add_corpus(Arc::clone(corpus))?;
        }
        if let Some(bigrams) = &self.bigrams {
            replay.set_bigrams(Arc::clone(bigrams));
        }
        Ok(replay)
    }

    /// Replays one request, if it exists, from `weights`, and returns the updated ones.
    fn push(
        &self,
        replay: &mut Replay,
        index: usize,
        weights: &Weights,
        rate: f32,
    ) -> Result<Option<Weights>, Box<dyn Error>> {
        let Some(request) = self.requests.get(index) else {
            return Ok(None);
        };
        replay.set_weights(weights, rate);
        replay.push(&ReplayRequest {
            prediction: &request.prediction,
            top: request.top.as_ref(),
            ..ReplayRequest::new(&request.prompt, &request.output)
        })?;
        Ok(replay.trained().cloned())
    }
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
        let mut top = TopEntries::default();
        for _ in 0..num_top {
            let (ids, given) = (take(TOP_K as u32), take(TOP_K as u32));
            let given = given.into_iter().map(f32::from_bits);
            top.push(ids.into_iter().zip(given))?;
        }
        requests.push(Request {
            prompt,
            output,
            prediction,
            top: Some(top).filter(|top| !top.is_empty()),
        });
    }
    Ok(requests)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench` to what a bench is given.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let out = arguments.next().ok_or("where to?")?;
    let (mut traces, mut corpus, mut bigrams) = (Vec::new(), None, None);
    let (mut checked, mut checks) = (Vec::new(), false);
    let mut weights = Weights::zero();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--check" => checks = true,
            "--neither" => (corpus, bigrams) = (None, None),
            "--from" => weights = Weights::from_bytes(&std::fs::read(value()?)?)?,
            "--corpus" => corpus = Some(Corpus::open(Path::new(&value()?))?),
            "--bigrams" => {
                let table = Bigrams::open(Path::new(&value()?), FINGERPRINT)?;
                bigrams = Some(Arc::new(table));
            }
            path => {
                let with = |is: bool, what| if is { what } else { "" };
                let corpus_name = with(corpus.is_some(), " + corpus");
                let bigrams_name = with(bigrams.is_some(), " + bigrams");
                let stem = Path::new(path).file_stem().ok_or("no such trace")?;
                let trace = Trace {
                    name: format!("{}{corpus_name}{bigrams_name}", stem.display()),
                    requests: read(path)?,
                    corpus: corpus.clone(),
                    bigrams: bigrams.clone(),
                };
                if checks { &mut checked } else { &mut traces }.push(trace);
            }
        }
    }
    if !traces.is_empty() {
        weights = fit(&traces, weights)?;
        std::fs::write(&out, weights.to_bytes())?;
    }
    let mut reports = Vec::new();
    for trace in &checked {
        let mut replay = trace.replay()?;
        for index in 0..trace.requests.len() {
            trace.push(&mut replay, index, &weights, SERVING_RATE)?;
        }
        let report = replay.report();
        print(&trace.name, std::slice::from_ref(&report));
        reports.push(report);
    }
    print("all that was checked", &reports);
    Ok(())
}

/// Trains `weights` on every request of `traces`.
fn fit(traces: &[Trace], mut weights: Weights) -> Result<Weights, Box<dyn Error>> {
    // Each trace is spread over a pass, so that none has the last word.
    let mut order: Vec<_> = traces
        .iter()
        .enumerate()
        .flat_map(|(trace, of)| (0..of.requests.len()).map(move |index| (trace, index)))
        .collect();
    let place = |&(trace, index): &(usize, usize)| {
        (index as f64 + 0.5) / traces[trace].requests.len() as f64
    };
    order.sort_by(|one, other| place(one).total_cmp(&place(other)));
    let replays = || {
        traces
            .iter()
            .map(Trace::replay)
            .collect::<Result<Vec<_>, _>>()
    };
    for rate in RATES {
        let mut replays = replays()?;
        for &(trace, index) in &order {
            let replay = &mut replays[trace];
            let trained = traces[trace].push(replay, index, &weights, rate)?;
            weights = trained.unwrap_or(weights);
        }
        let reports: Vec<_> = replays.iter().map(Replay::report).collect();
        print(&format!("rate {rate}"), &reports);
    }
    Ok(weights)
}

/// The sum of some reports.
fn print(name: &str, reports: &[ReplayReport]) {
    let sum = |of: fn(&ReplayReport) -> f64| reports.iter().map(of).sum::<f64>();
    let steps = sum(|report| report.steps as f64);
    let tenths = (0..10).map(|tenth| {
        let bins = reports.iter().map(|report| &report.calibration[tenth]);
        let (said, came) = bins.fold((0.0, 0.0), |(said, came), bin| {
            (said + bin.expected, came + bin.actual as f64)
        });
        format!("{:.2}", said / came)
    });
    println!(
        "{name:<60} accepted/step {:.3}  drafted {:.2}  us {:.1}  said / came {}",
        sum(|report| report.accepted_tokens as f64) / steps,
        sum(|report| report.drafted_tokens as f64) / steps,
        sum(|report| report.draft_us_p50.unwrap_or(0.0) * report.steps as f64) / steps,
        tenths.collect::<Vec<_>>().join(" "),
    );
}
