//! Fits the weights that ship, from none: each trace trains them, again and again at falling rates;
//! traces of other sources then check what they are worth.
//!
//! `cargo bench -p spectrie-trie --bench fit -- OUT TRACE… [--check] TRACE…`, with
//! `[--from WEIGHTS] [--corpus NAME.corpus] [--bigrams TABLE] [--neither] [--answers ANSWERS]` anywhere.
//!
//! A trace holds little-endian 32-bit words; each request is four counts (prompt, output and
//! prediction tokens, entries of likeliest tokens), those tokens, then for each entry eight ids
//! and eight 32-bit floats. `python -m bench.draft.tuning.fit` writes them. A trace after `--corpus`
//! is replayed with that corpus, one after `--bigrams` with that table, one after `--neither`
//! without them. A trace after `--check` trains nothing: its figures are printed. Where none trains,
//! nothing is fitted and OUT is not written.
//!
//! The next trace after `--answers` is replayed with a head's answers, words too: for each output token the
//! number of levels, and for each level two counts, ids and floats of its likeliest tokens, ids and floats of
//! others. Where such a trace trains, the weights of a head's answers alone are fitted, above frozen others, and OUT is
//! a head's prior.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

mod trace;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use spectrie_trie::replay::{AskRule, HeadMode, Replay, ReplayReport};
use spectrie_trie::{Bigrams, Corpus, HeadCounts, HeadPrior, Weights};

use trace::{Rates, Trace, read};

/// Passes over all traces and the rate of each. Held out, higher first rates change nothing.
const RATES: [f32; 16] = [
    0.01, 0.006, 0.006, 0.003, 0.003, 0.003, 0.0015, 0.0015, 0.0015, 0.0007, 0.0007, 0.0007,
    0.0003, 0.0003, 0.0001, 0.0001,
];
/// Those of the few weights of a head's answers.
const HEAD_RATES: [f32; 10] = [
    0.05, 0.03, 0.02, 0.01, 0.01, 0.005, 0.005, 0.002, 0.001, 0.0005,
];
/// What a row costs, in accepted tokens, where it is counted what answers add.
const PRICES: [f32; 5] = [0.02, 0.05, 0.1, 0.2, 0.4];
/// The rates at which a trace that is checked trains: what a server does.
const SERVING: Rates = Rates {
    base: 0.001,
    head: None,
};
/// What the file of bigrams says it is of.
const FINGERPRINT: &str = "tune";

/// What the arguments ask for.
#[derive(Default)]
struct Task {
    traces: Vec<Trace>,
    checked: Vec<Trace>,
    from: Option<Weights>,
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench` to what a bench is given.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let out = arguments.next().ok_or("where to?")?;
    let task = Task::parse(arguments)?;
    if task.traces.iter().any(Trace::has_answers) {
        return fit_head(&task, &out);
    }
    let mut weights = task.from.unwrap_or_else(Weights::zero);
    if !task.traces.is_empty() {
        weights = fit(&task.traces, weights)?;
        std::fs::write(&out, weights.to_bytes())?;
    }
    if task.checked.iter().any(Trace::has_answers) {
        // The file is of a head's weights: what others there are ship.
        return check_head(
            &task.checked,
            &HeadPrior::from_bytes(&std::fs::read(&out)?)?,
        );
    }
    check(&task.checked, &weights, HeadMode::Off, "")
}

impl Task {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut task = Self::default();
        let (mut corpus, mut bigrams, mut answers, mut checks) = (None, None, None, false);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--check" => checks = true,
                "--neither" => (corpus, bigrams) = (None, None),
                "--from" => task.from = Some(Weights::from_bytes(&std::fs::read(value()?)?)?),
                "--corpus" => corpus = Some(Corpus::open(Path::new(&value()?))?),
                "--answers" => answers = Some(value()?),
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
                        requests: read(path, answers.take().as_deref())?,
                        corpus: corpus.clone(),
                        bigrams: bigrams.clone(),
                    };
                    if checks {
                        &mut task.checked
                    } else {
                        &mut task.traces
                    }
                    .push(trace);
                }
            }
        }
        Ok(task)
    }
}

/// Trains `weights` on every request of `traces`.
fn fit(traces: &[Trace], mut weights: Weights) -> Result<Weights, Box<dyn Error>> {
    let order = order(traces);
    for rate in RATES {
        let mut replays = replays(traces, HeadMode::Off, 0.0)?;
        let rates = Rates {
            base: rate,
            head: None,
        };
        for &(trace, index) in &order {
            let trained = traces[trace].push(&mut replays[trace], index, &weights, rates)?;
            weights = trained.unwrap_or(weights);
        }
        let reports: Vec<_> = replays.iter().map(Replay::report).collect();
        print(&format!("rate {rate}"), &reports);
    }
    Ok(weights)
}

/// Trains the weights of a head's answers alone, from none: each request begins with the other weights that
/// are given or ship. Writes what is believed of a head, and prints what it is worth.
fn fit_head(task: &Task, out: &str) -> Result<(), Box<dyn Error>> {
    let mut weights = task.from.clone().unwrap_or_default();
    weights.take_head(&Weights::zero());
    let order = order(&task.traces);
    for rate in HEAD_RATES {
        let mut replays = replays(&task.traces, HeadMode::On, 0.0)?;
        let rates = Rates {
            head: Some(rate),
            ..SERVING
        };
        for &(trace, index) in &order {
            let trained = task.traces[trace].push(&mut replays[trace], index, &weights, rates)?;
            if let Some(trained) = trained {
                weights.take_head(&trained);
            }
        }
        let reports: Vec<_> = replays.iter().map(Replay::report).collect();
        print(&format!("rate {rate}"), &reports);
    }
    let mut counts = HeadCounts::default();
    for price in PRICES {
        let mut replays = replays(&task.traces, HeadMode::On, price)?;
        for &(trace, index) in &order {
            task.traces[trace].push(&mut replays[trace], index, &weights, SERVING)?;
        }
        for replay in &replays {
            counts.add(replay.head_counts());
        }
    }
    let prior = weights.head_prior(&counts);
    std::fs::write(out, prior.to_bytes())?;
    check_head(&task.checked, &prior)
}

/// Prints what traces accept without a head, with what ships, and with `prior`.
fn check_head(checked: &[Trace], prior: &HeadPrior) -> Result<(), Box<dyn Error>> {
    let shipped = Weights::default();
    let mut fitted = shipped.clone();
    fitted.set_head(prior);
    check(checked, &shipped, HeadMode::Off, ", without a head")?;
    check(checked, &shipped, HeadMode::On, ", as shipped")?;
    check(checked, &fitted, HeadMode::On, ", as fitted")
}

/// Prints what `checked` accept with `weights`.
fn check(
    checked: &[Trace],
    weights: &Weights,
    head: HeadMode,
    how: &str,
) -> Result<(), Box<dyn Error>> {
    let mut reports = Vec::new();
    for trace in checked {
        let mut replay = trace.replay(head, AskRule::default())?;
        for index in 0..trace.requests.len() {
            trace.push(&mut replay, index, weights, SERVING)?;
        }
        let report = replay.report();
        print(
            &format!("{}{how}", trace.name),
            std::slice::from_ref(&report),
        );
        reports.push(report);
    }
    print(&format!("all that was checked{how}"), &reports);
    Ok(())
}

/// Each trace is spread over a pass, so that none has the last word.
fn order(traces: &[Trace]) -> Vec<(usize, usize)> {
    let mut order: Vec<_> = traces
        .iter()
        .enumerate()
        .flat_map(|(trace, of)| (0..of.requests.len()).map(move |index| (trace, index)))
        .collect();
    let place = |&(trace, index): &(usize, usize)| {
        (index as f64 + 0.5) / traces[trace].requests.len() as f64
    };
    order.sort_by(|one, other| place(one).total_cmp(&place(other)));
    order
}

fn replays(traces: &[Trace], head: HeadMode, price: f32) -> Result<Vec<Replay>, Box<dyn Error>> {
    // Asked about whatever is drafted, so that nothing depends on what is believed of a head today.
    let ask = AskRule {
        rows: usize::MAX,
        least_gain: 0.0,
        price,
        ..AskRule::default()
    };
    traces.iter().map(|trace| trace.replay(head, ask)).collect()
}

/// The sum of some reports.
fn print(name: &str, reports: &[ReplayReport]) {
    let sum = |of: fn(&ReplayReport) -> f64| reports.iter().map(of).sum::<f64>();
    let steps = sum(|report| report.steps as f64);
    let overall = sum(|report| report.calibration_overall.expected)
        / sum(|report| report.calibration_overall.actual as f64);
    let tenths = (0..10).map(|tenth| {
        let bins = reports.iter().map(|report| &report.calibration[tenth]);
        let (said, came) = bins.fold((0.0, 0.0), |(said, came), bin| {
            (said + bin.expected, came + bin.actual as f64)
        });
        format!("{:.2}", said / came)
    });
    println!(
        "{name:<60} accepted/step {:.3}  drafted {:.2}  us {:.1}  said / came {overall:.2}: {}",
        sum(|report| report.accepted_tokens as f64) / steps,
        sum(|report| report.drafted_tokens as f64) / steps,
        sum(|report| report.draft_us_p50.unwrap_or(0.0) * report.steps as f64) / steps,
        tenths.collect::<Vec<_>>().join(" "),
    );
}
