//! Races the structures that draft memory could be: on the same text, with the same score and the
//! same trees, in one process.
//!
//! `cargo bench -p spectrie-trie --bench race -- TRACE.u32 [--corpus CORPUS.u32]
//! [--rounds 3] [--own WEIGHT] [--escape FACTOR] [--only NAME] [--json]`, or
//! `-- --scale TOKENS[,TOKENS...]` to race ways to cut up the index of a large namespace.
//!
//! Files hold little-endian token ids, 4294967295 between documents. The first quarter of each
//! document of the trace is the prompt. `chains-x4` takes four times the occurrences; `chains+`
//! looks every drafted node up again; `trie-32` reads no more than the 32 children of a node that
//! were entered last. `--own` (the weight of a count in own text beside a corpus) and `--escape`
//! replace what is tuned for each. The score is the blend alone, so figures are below those of the
//! server, whose mixer, hints and recycling could stand on any of these structures.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

mod automaton;
mod chain_log;
#[allow(
    dead_code,
    unused_imports,
    reason = "what only the product and tests use"
)]
#[path = "../../src/store/chains.rs"]
mod chains;
mod draft;
mod index;
mod measure;
mod scale;
mod suffix_trie;
mod table;

use std::error::Error;
use std::path::Path;

use spectrie_trie::{MAX_MATCH, SEPARATOR, TokenId};

use automaton::Automaton;
use chain_log::ChainLog;
use draft::Tuning;
use measure::{Figures, Texts, measure};
use suffix_trie::SuffixTrie;

/// Longest match of the tries.
const LONGEST: u16 = 32;
/// Children that the bounded trie reads of a node.
const MAX_CHILDREN: usize = 32;

type Race = fn(&Texts, Tuning) -> Figures;

/// The structures, each with the tuning that was best for it on every fourth file of the tuning
/// split (80k tokens, 16 nodes, the corpus of the bench), of a dozen pairs from 1.5 and 0.5 to 90
/// and 10. `chains+` and the automaton share the tuning of `chains` and of the trie.
const RACERS: [(&str, Tuning, Race); 6] = [
    ("chains", tuning(12.0, 4.0), |texts, tuning| {
        measure(texts, tuning, || ChainLog::new(1, false))
    }),
    ("chains-x4", tuning(24.0, 6.0), |texts, tuning| {
        measure(texts, tuning, || ChainLog::new(4, false))
    }),
    ("chains+", tuning(12.0, 4.0), |texts, tuning| {
        measure(texts, tuning, || ChainLog::new(1, true))
    }),
    ("trie", tuning(45.0, 6.0), |texts, tuning| {
        measure(texts, tuning, || SuffixTrie::new(LONGEST, usize::MAX))
    }),
    ("trie-32", tuning(60.0, 8.0), |texts, tuning| {
        measure(texts, tuning, || SuffixTrie::new(LONGEST, MAX_CHILDREN))
    }),
    ("automaton", tuning(45.0, 6.0), |texts, tuning| {
        measure(texts, tuning, Automaton::new)
    }),
];

const fn tuning(own: f32, escape: f32) -> Tuning {
    Tuning { own, escape }
}

fn read(path: &Path) -> Result<Vec<Vec<TokenId>>, Box<dyn Error>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (words, _) = bytes.as_chunks();
    let tokens: Vec<_> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let documents = tokens.split(|&token| token == SEPARATOR);
    Ok(documents
        .filter(|document| !document.is_empty())
        .map(<[TokenId]>::to_vec)
        .collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut json, mut rounds, mut only) = (false, 3, None);
    let (mut own, mut escape) = (None, None);
    let mut texts = Texts::default();
    // Cargo adds `--bench` to what a bench is given.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--json" => json = true,
            "--rounds" => rounds = value()?.parse::<usize>()?,
            "--own" => own = Some(value()?.parse()?),
            "--escape" => escape = Some(value()?.parse()?),
            "--only" => only = Some(value()?),
            "--scale" => {
                let sizes = value()?;
                let sizes: Result<Vec<_>, _> = sizes.split(',').map(str::parse).collect();
                scale::race(&sizes?, tuning(12.0, 4.0));
                return Ok(());
            }
            "--corpus" => texts.corpus = read(Path::new(&value()?))?,
            flag if flag.starts_with("--") => return Err(format!("unknown argument {flag}").into()),
            path => texts.trace.extend(read(Path::new(path))?),
        }
    }
    if texts.trace.is_empty() {
        return Err("no trace: name a file of token ids".into());
    }
    if !json {
        println!("round structure {}", Figures::HEADINGS);
    }
    for round in 1..=rounds {
        for (name, tuned, race) in RACERS {
            if only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            eprintln!("round {round} of {rounds}: {name}");
            let tuning = Tuning {
                own: own.unwrap_or(tuned.own),
                escape: escape.unwrap_or(tuned.escape),
            };
            let figures = race(&texts, tuning);
            if json {
                let figures = figures.json();
                println!("{{\"round\": {round}, \"structure\": \"{name}\", {figures}}}");
            } else {
                println!("{round:5} {name:9} {figures}");
            }
        }
    }
    Ok(())
}
